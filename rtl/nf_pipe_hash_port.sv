// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_hash_port: a lookup port of nf_pipe_hash: a copy of the table's rows, and the way of a
// key to its entry.
//
//   stage 0  the key is hashed                    3  the way that has the key is chosen, or the
//   place in the stash
//         1  both rows are read                   4  changes since the rows were read are put in (forwarding)
//         2  every way's key is compared          5  the entry is shown, and where a new one would go; in this stage it may be changed
// Changes come from the table: `n_` is what is changed in this cycle, by each port's entry, `p_` in
// the three cycles before, the last one lowest. Whether this key or its rows are concerned is found
// out in stage 3, for the last change beside the program's logic, which decides on `n_write` and
// `n_delete` late in the cycle; behind those there are two levels of logic. Where a new entry goes
// is found without the last change too: another place is taken if that change took the first. So
// the emptier row (d-left) is that of a cycle before. Without VALUED rows have no values, and the
// port gives none. With LRU there is an order of use beside every row: bit (i, j), i < j, says that
// way i was used after way j.
//
// Latency: 5 cycles. Throughput: one a cycle. `v4` says that there is a key in stage 4; the one in
// stage 5 stays until then.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_hash_port #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer LRU = 0,
    parameter integer PORTS = 1,
    parameter integer VALUED = 1,
    parameter integer R = 2,
    parameter [2*KEY*R-1:0] H3 = {2 * KEY * R{1'b1}},
    parameter integer STASH = 8,
    parameter integer PLACE = R + 4,  // {stash, side, way, row}
    parameter integer CHANGE = 2 + KEY + PLACE + VALUE,
    parameter integer TOUCH = 8 + R  // {used, side, row, order}
) (
    input  wire                      clk,
    input  wire  [          KEY-1:0] key_in,
    input  wire                      v4,
    output logic                     hit5,
    output logic [        VALUE-1:0] value5,
    output logic [          KEY-1:0] key5,
    output logic [          R-1:0]   a5,
    output logic [          R-1:0]   b5,
    output logic [        PLACE-1:0] place5,
    output logic                     free5,  // there is a place in a row: side and way
    output logic [            2:0]   new5,
    output logic [            5:0]   order_a5,
    output logic [            5:0]   order_b5,
    // the memories' write port: the change of this cycle, or an empty row
    input  wire                      clear,
    input  wire  [          R-1:0]   clear_row,
    input  wire                      m_write,
    input  wire  [        PLACE-1:0] m_place,
    input  wire                      m_alive,
    input  wire  [          KEY-1:0] m_key,
    input  wire  [        VALUE-1:0] m_value,
    input  wire  [        TOUCH-1:0] m_touch,
    // changes
    input  wire  [        PORTS-1:0] n_write,
    input  wire  [        PORTS-1:0] n_delete,
    input  wire  [    PORTS*KEY-1:0] n_keys,
    input  wire  [  PORTS*PLACE-1:0] n_places,
    input  wire  [     3*CHANGE-1:0] p_changes,
    input  wire  [      3*TOUCH-1:0] p_touches,
    input  wire  [STASH*(1+KEY+VALUE)-1:0] stash,
    // the host reads rows one behind the other
    input  wire                      scanning,
    input  wire  [          R-1:0]   scan_row,
    output logic [8*(1+KEY+VALUE)-1:0] row
);
  localparam integer WHOLE = 1 + KEY + VALUE;
  localparam integer KEPT = VALUED != 0 ? VALUE : 0;
  localparam integer ENTRY = 1 + KEY + KEPT;

  function [R-1:0] row_of(input [KEY-1:0] of, input side);
    integer i;
    for (i = 0; i < R; i = i + 1) row_of[i] = ^(of & (side ? H3[(R+i)*KEY+:KEY] : H3[i*KEY+:KEY]));
  endfunction

  // ---- stages 0 and 1: rows
  // ------------------------------------------------------------------------------
  logic [KEY-1:0] key1, key2, key3, key4;
  logic [R-1:0] a1, a2, a3, a4, b1, b2, b3, b4, read_a, read_b;
  assign read_a = scanning ? scan_row : a1;
  assign read_b = scanning ? scan_row : b1;
  wire [7:0] way_used, way_same;
  genvar w;
  generate
    for (w = 0; w < 8; w = w + 1) begin : g_way
      logic [ENTRY-1:0] mem[0:(1<<R)-1];
      logic [ENTRY-1:0] entry, new_entry;
      if (VALUED != 0) begin : g_valued
        assign new_entry = {m_alive, m_key, m_value};
        assign row[WHOLE*w+:WHOLE] = entry;
      end else begin : g_bare
        assign new_entry = {m_alive, m_key};
        assign row[WHOLE*w+:WHOLE] = {entry, {VALUE{1'b0}}};
      end
      always_ff @(posedge clk) begin
        if (clear || (m_write && !m_place[PLACE-1] && m_place[R+2:R] == 3'(w)))
          mem[clear?clear_row : m_place[R-1:0]] <= clear ? '0 : new_entry;
        entry <= mem[w<4?read_a : read_b];
      end
      assign way_used[w] = row[WHOLE*w+WHOLE-1];
      assign way_same[w] = way_used[w] && row[WHOLE*w+VALUE+:KEY] == key2;
    end
  endgenerate

  // ---- stage 2: who has the key
  // --------------------------------------------------------------------------
  logic [7:0] same3, used3;  // of both rows, the second one's above
  logic [8*VALUE-1:0] values3;
  logic [STASH-1:0] stashed3;
  integer i;
  always_ff @(posedge clk) begin
    same3 <= way_same;
    used3 <= way_used;
    for (i = 0; i < 8; i = i + 1) values3[VALUE*i+:VALUE] <= row[WHOLE*i+:VALUE];
    for (i = 0; i < STASH; i = i + 1)
      stashed3[i] <= LRU == 0 && stash[WHOLE*i+WHOLE-1] && stash[WHOLE*i+VALUE+:KEY] == key2;
  end

  // ---- stage 3: one of them
  // ------------------------------------------------------------------------------
  logic [VALUE-1:0] value3;
  logic [2:0] way3, stash3;
  integer j;
  always_comb begin
    value3 = '0;
    way3   = 3'd0;
    stash3 = 3'd0;
    for (j = 0; j < 8; j = j + 1) begin
      value3 = value3 | ({VALUE{same3[j]}} & values3[VALUE*j+:VALUE]);
      way3   = way3 | ({3{same3[j]}} & 3'(j));
    end
    for (j = 0; j < STASH; j = j + 1) begin
      value3 = value3 | ({VALUE{stashed3[j]}} & stash[WHOLE*j+:VALUE]);
      stash3 = stash3 | ({3{stashed3[j]}} & 3'(j));
    end
  end
  logic hit4;
  logic [VALUE-1:0] value4;
  logic [PLACE-1:0] place4;
  logic [7:0] used4;
  always_ff @(posedge clk) begin
    hit4 <= same3 != '0 || stashed3 != '0;
    value4 <= value3;
    place4 <= stashed3 != '0 ? {1'b1, stash3, {R{1'b0}}} : {1'b0, way3, way3[2] ? b3 : a3};
    used4 <= used3;
  end

  // ---- what changes are about: this key, a way of its rows
  // -------------------------------------------------- A way of rows `a` and `b` by a bit, 4 for
  // `b`, if the place is one of theirs.
  function [7:0] way_in(input [PLACE-1:0] at, input [R-1:0] a, input [R-1:0] b);
    way_in = {7'd0, !at[PLACE-1] && at[R-1:0] == (at[R+2] ? b : a)} << at[R+2:R];
  endfunction
  function [PLACE-1:0] past_place(input integer number);
    past_place = p_changes[CHANGE*(number-1)+VALUE+:PLACE];
  endfunction
  logic [3:1] past_change, past_alive, past_same;  // 1 is the change of the cycle before
  logic [7:0] past_way[1:3];
  wire [PORTS-1:0] n_same3, n_same;
  wire [8*PORTS-1:0] n_way3, n_way;
  genvar n;
  generate
    for (n = 0; n < PORTS; n = n + 1) begin : g_change
      assign n_same3[n] = n_keys[KEY*n+:KEY] == key3;
      assign n_same[n] = n_keys[KEY*n+:KEY] == key4;
      assign n_way3[8*n+:8] = way_in(n_places[PLACE*n+:PLACE], a3, b3);
      assign n_way[8*n+:8] = way_in(n_places[PLACE*n+:PLACE], a4, b4);
    end
    for (n = 1; n <= 3; n = n + 1) begin : g_past
      assign {past_change[n], past_alive[n]} = p_changes[CHANGE*n-1-:2];
    end
  endgenerate
  logic [7:0] late_way;
  integer c, d;
  always_comb begin
    late_way = '0;
    for (c = 0; c < PORTS; c = c + 1) late_way = late_way
        | ({8{n_write[c] || n_delete[c]}} & n_way3[8*c+:8]);
  end
  always_ff @(posedge clk) begin
    past_same[1] <= |((n_write | n_delete) & n_same3);
    past_way[1] <= late_way;
    for (d = 2; d <= 3; d = d + 1) begin
      past_same[d] <= past_change[d-1] && p_changes[CHANGE*(d-2)+VALUE+PLACE+:KEY] == key3;
      past_way[d] <= {8{past_change[d-1]}} & way_in(past_place(d - 1), a3, b3);
    end
  end

  // ---- stage 4: what changed since the rows were read
  // ---------------------------------------------------- First what is known at the start of the
  // cycle: changes of the three cycles before, the oldest first.
  logic hit_past, gone;
  logic [VALUE-1:0] value_past;
  logic [PLACE-1:0] place_past;
  logic [7:0] used_past;
  integer p, r;
  always_comb begin
    hit_past = hit4;
    value_past = value4;
    place_past = place4;
    used_past = used4;
    for (p = 3; p >= 1; p = p - 1) begin
      // An entry of a table with LRU is gone if another was put where it is: where it was last put,
      // or found.
      gone = past_place(p) == place4;
      for (r = 3; r > p; r = r - 1) if (past_same[r]) gone = past_place(p) == past_place(r);
      if (past_same[p]) begin
        hit_past   = past_alive[p];
        value_past = p_changes[CHANGE*(p-1)+:VALUE];
        place_past = past_place(p);
      end else if (LRU != 0 && past_change[p] && gone) hit_past = 1'b0;
      used_past = (used_past & ~past_way[p]) | ({8{past_alive[p]}} & past_way[p]);
    end
  end
  // A place for a new entry: the first free way of the row with fewer entries, on the left when
  // equal. And another, the last free way of all.
  function [3:0] first(input [3:0] used);
    first = {!used[3] && used[2:0] == 3'b111, !used[2] && used[1:0] == 2'b11, !used[1] && used[0],
        !used[0]};
  endfunction
  // At least one, two, three, all of four.
  function [3:0] at_least(input [3:0] of);
    at_least[0] = |of;
    at_least[1] = (of[0] && of[1]) || (of[2] && of[3]) || ((of[0] || of[1]) && (of[2] || of[3]));
    at_least[2] = (of[0] && of[1] && (of[2] || of[3])) || ((of[0] || of[1]) && of[2] && of[3]);
    at_least[3] = &of;
  endfunction
  logic right, one_free, two_free;
  logic [3:0] first_a, first_b;
  logic [2:0] place_one, place_two;
  integer q;
  assign right = (at_least(used_past[3:0]) & ~at_least(used_past[7:4])) != '0;
  assign first_a = first(used_past[3:0]);
  assign first_b = first(used_past[7:4]);
  assign place_one = right ? {1'b1, first_b[3] || first_b[2], first_b[3] || first_b[1]}
      : {1'b0, first_a[3] || first_a[2], first_a[3] || first_a[1]};
  assign one_free = used_past != 8'hff;
  always_comb begin
    two_free  = 1'b0;
    place_two = 3'd0;
    for (q = 0; q < 8; q = q + 1)
      if (!used_past[q]) begin
        two_free  = (~used_past & ((8'd1 << q) - 8'd1)) != '0;
        place_two = 3'(q);
      end
  end
  // Then the change of this cycle, by whichever port: late are only n_write and n_delete.
  logic writes, deletes, overwrites, takes, takes_a, takes_b;
  logic [7:0] leaves;
  logic [PLACE-1:0] n_place;
  assign writes = |(n_write & n_same);
  assign deletes = |(n_delete & n_same);
  integer m;
  always_comb begin
    n_place = '0;
    overwrites = 1'b0;
    takes_a = 1'b0;
    takes_b = 1'b0;
    leaves = '0;
    for (m = 0; m < PORTS; m = m + 1) begin
      n_place = n_place | ({PLACE{n_same[m] && n_write[m]}} & n_places[PLACE*m+:PLACE]);
      overwrites = overwrites || (LRU != 0 && n_write[m] && n_places[PLACE*m+:PLACE] == place_past);
      takes_a = takes_a || (n_write[m] && (n_way[8*m+:4] & first_a) != '0);
      takes_b = takes_b || (n_write[m] && (n_way[8*m+4+:4] & first_b) != '0);
      leaves = leaves | ({8{n_delete[m]}} & n_way[8*m+:8]);
    end
    takes = right ? takes_b : takes_a;
  end
  always_ff @(posedge clk) begin
    key1 <= key_in;
    a1 <= row_of(key_in, 1'b0);
    b1 <= row_of(key_in, 1'b1);
    {key2, a2, b2} <= {key1, a1, b1};
    {key3, a3, b3} <= {key2, a2, b2};
    {key4, a4, b4} <= {key3, a3, b3};
    if (v4) begin
      {key5, a5, b5} <= {key4, a4, b4};
      hit5 <= writes || (hit_past && !deletes && !overwrites);
      value5 <= VALUED == 0 || deletes || (!writes && (!hit_past || overwrites)) ? '0 : writes
          ? m_value : value_past;
      place5 <= writes ? n_place : place_past;
      free5 <= takes ? two_free : one_free || leaves != '0;
      // Full rows have room where the change of this cycle makes it.
      if (takes) new5 <= place_two;
      else if (one_free) new5 <= place_one;
      else new5 <= {leaves[7:4] != '0, leaves[7] || leaves[6] || leaves[3] || leaves[2],
          leaves[7] || leaves[5] || leaves[3] || leaves[1]};
    end
  end

  // ---- order of use
  // --------------------------------------------------------------------------------------
  generate
    if (LRU != 0) begin : g_order
      logic [5:0] order_a[0:(1<<R)-1];
      logic [5:0] order_b[0:(1<<R)-1];
      logic [5:0] a_q, b_q, a_3, b_3, a_4, b_4, a_now, b_now, t_order;
      logic t_used, t_side;
      logic [R-1:0] t_row;
      integer t;
      always_ff @(posedge clk) begin
        if (clear || (m_touch[TOUCH-1] && !m_touch[TOUCH-2]))
          order_a[clear?clear_row : m_touch[6+:R]] <= clear ? 6'd0 : m_touch[5:0];
        if (clear || (m_touch[TOUCH-1] && m_touch[TOUCH-2]))
          order_b[clear?clear_row : m_touch[6+:R]] <= clear ? 6'd0 : m_touch[5:0];
        a_q <= order_a[a1];
        b_q <= order_b[b1];
        {a_3, b_3} <= {a_q, b_q};
        {a_4, b_4} <= {a_3, b_3};
        if (v4) {order_a5, order_b5} <= {a_now, b_now};
      end
      always_comb begin
        a_now = a_4;
        b_now = b_4;
        for (t = 3; t >= 0; t = t - 1) begin
          {t_used, t_side, t_row, t_order} = t == 0 ? m_touch : p_touches[TOUCH*(t-1)+:TOUCH];
          if (t_used && !t_side && t_row == a4) a_now = t_order;
          if (t_used && t_side && t_row == b4) b_now = t_order;
        end
      end
    end else begin : g_no_order
      assign order_a5 = 6'd0;
      assign order_b5 = 6'd0;
    end
  endgenerate
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
