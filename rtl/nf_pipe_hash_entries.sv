// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_hash_entries: exact match for pipelines: lookups of PORTS keys and changes of all of these entries every cycle.
//
// Keys enter together with `k_valid`, and five cycles later `c_hit`, `c_value` and `c_room` are what the table holds then, port by port.
// APART cycles later (at least PORTS + 2) each port's entry may be written (its bit of `w_write`, with its own `w_value`) or deleted (`w_delete`). Ports
// may be given the same key, whose entry then at most one of them changes. Nothing is forwarded: until an entry is changed no lookup may read
// its rows, so one of a key with a row in common comes out more than APART + 4 cycles later, which nf_pipe_lock sees to.
//
// Two sides of four ways, as in nf_pipe_hash, without a stash. A memory takes one change a cycle, so each port that changes entries
// (WRITTEN) has one of its own, with a copy for each port that reads. An entry is the exclusive or of what all of them hold (LaForest et al.,
// 2012), and an empty place is zero. Each writer has one copy more, by which it finds what its own memory holds at the place that it is going to change.
//
// A new entry's place is found behind the lookup: one port after the other takes a place that none before it takes, a cycle each. `c_room` is low where the key is not
// there and CAPACITY leaves no room, or the key's two rows might not have a place for it beside those for the ports earlier; entries that
// others on their way may yet add are counted as if they had been.
//
// h_: the host's operations as nf_table_array defines them, while no lookup is on its way.
// Latency: 5 cycles. Throughput: one a cycle. After a reset `ready` stays low until all rows are empty.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_hash_entries #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer PORTS = 2,
    parameter [PORTS-1:0] WRITTEN = {PORTS{1'b1}},
    parameter integer APART = PORTS + 2,
    parameter integer R = CAPACITY > 8 ? $clog2(CAPACITY) - 2 : 1,  // bits of a row's number
    parameter [2*KEY*R-1:0] H3 = {2 * KEY * R{1'b1}}
) (
    input  wire                    clk,
    input  wire                    rst,
    output logic                   ready,
    input  wire                    k_valid,
    input  wire  [  PORTS*KEY-1:0] k_key,
    output logic [      PORTS-1:0] c_hit,
    output logic [PORTS*VALUE-1:0] c_value,
    output logic [      PORTS-1:0] c_room,
    input  wire  [      PORTS-1:0] w_write,
    input  wire  [      PORTS-1:0] w_delete,
    input  wire  [PORTS*VALUE-1:0] w_value,
    input  wire                    h_req,
    input  wire  [            3:0] h_op,
    input  wire  [        KEY-1:0] h_key,
    input  wire  [      VALUE-1:0] h_value,
    input  wire  [           31:0] h_index,
    output logic                   h_done,
    output logic                   h_ok,
    output logic [        KEY-1:0] h_r_key,
    output logic [      VALUE-1:0] h_r_value,
    output logic [           31:0] h_r_index,
    output logic [           31:0] n_evicted
);
  localparam integer ENTRY = 1 + KEY + VALUE;  // {it is there, key, value}
  localparam integer PLACE = R + 3;  // {side, way, row}
  localparam integer COUNT = $clog2(CAPACITY + 2 + PORTS * (APART + 2)) + 1;
  localparam integer MANY = $clog2(PORTS + 1);

  // The host changes entries by the first port that does.
  function integer first(input [PORTS-1:0] of);
    integer i;
    begin
      first = 0;
      for (i = PORTS - 1; i >= 0; i = i - 1) if (of[i]) first = i;
    end
  endfunction
  localparam integer HOST = first(WRITTEN);

  function [R-1:0] row_of(input [KEY-1:0] of, input side);
    integer i;
    for (i = 0; i < R; i = i + 1) row_of[i] = ^(of & (side ? H3[(R+i)*KEY+:KEY] : H3[i*KEY+:KEY]));
  endfunction
  // The first free way of the emptier row, on the left when equal.
  function [2:0] free_way(input [7:0] used);
    logic [3:0] row;
    logic side;
    begin
      side = 3'(used[0]) + 3'(used[1]) + 3'(used[2]) + 3'(used[3]) > 3'(used[4]) + 3'(used[5]) + 3'(used[6]) + 3'(used[7]);
      row = side ? used[7:4] : used[3:0];
      free_way = {side, !row[0] ? 2'd0 : !row[1] ? 2'd1 : !row[2] ? 2'd2 : 2'd3};
    end
  endfunction
  function [MANY-1:0] ones(input [PORTS-1:0] of);
    integer i;
    begin
      ones = '0;
      for (i = 0; i < PORTS; i = i + 1) ones = ones + MANY'(of[i]);
    end
  endfunction

  // ---- the host's operations, and clearing ---------------------------------------------------------------
  localparam logic [2:0] CLEAR = 3'd0, IDLE = 3'd1, ASK = 3'd2, WAIT = 3'd3, ACT = 3'd4, SCAN = 3'd5, SEE = 3'd6, END = 3'd7;
  logic [2:0] state;
  logic [PLACE-1:0] sweep;
  logic [4:0] waited;
  logic ask, act;
  logic [R:0] scan_row;
  logic [2:0] scan_from;
  wire [8*ENTRY-1:0] row_q;
  assign ready = state != CLEAR;
  assign ask = state == ASK;
  assign act = state == ACT;
  assign h_done = state == END;
  assign n_evicted = '0;

  // ---- changes: of each port whether its memory is written, where, and what with ---------------------------
  wire [PORTS-1:0] change, hit_w, inserts, removes;
  wire [PORTS*PLACE-1:0] place_w;
  wire [PORTS*ENTRY-1:0] part;
  logic v1, v2, v3, v4, v5;  // a packet's lookup, not the host's
  always_ff @(posedge clk) {v1, v2, v3, v4, v5} <= rst ? 5'd0 : {k_valid, v1, v2, v3, v4};
  logic any4, any3, any2, any1;
  always_ff @(posedge clk) {any1, any2, any3, any4} <= rst ? 4'd0 : {k_valid || ask, any1, any2, any3};

  // ---- lookups ---------------------------------------------------------------------------------------------
  wire [PORTS*8-1:0] used5;
  wire [PORTS*R-1:0] rows_a, rows_b;
  wire [PORTS*3-1:0] ways5;
  wire [PORTS*KEY-1:0] keys5;
  logic [COUNT-1:0] available;  // places that CAPACITY leaves, less those that lookups on their way may take
  genvar p, w, g;
  generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
      logic [KEY-1:0] key_in, key1, key2, key3, key4, key5;
      logic [R-1:0] a1, b1, a2, b2, a3, b3, a4, b4, a5, b5, read_a, read_b;
      assign key_in = ask ? h_key : k_key[KEY*p+:KEY];
      assign read_a = state == SCAN || state == SEE ? scan_row[R-1:0] : a1;
      assign read_b = state == SCAN || state == SEE ? scan_row[R-1:0] : b1;
      // Stage 1: rows, by memory. Stage 2: what they make together. Stage 3: who has the key. Stage 4: one of them.
      logic [8*ENTRY-1:0] whole, row3;
      wire [PORTS*8*ENTRY-1:0] read;
      for (w = 0; w < PORTS; w = w + 1) begin : g_memory
        for (g = 0; g < 8; g = g + 1) begin : g_way
          if (WRITTEN[w]) begin : g_copy
            logic [ENTRY-1:0] mem[0:(1<<R)-1];
            logic [ENTRY-1:0] q;
            always_ff @(posedge clk) begin
              if (state == CLEAR || (change[w] && place_w[PLACE*w+R+:3] == 3'(g)))
                mem[state==CLEAR?sweep[R-1:0] : place_w[PLACE*w+:R]] <= state == CLEAR ? '0 : part[ENTRY*w+:ENTRY];
              q <= mem[g<4?read_a : read_b];
            end
            assign read[ENTRY*(8*w+g)+:ENTRY] = q;
          end else begin : g_none
            assign read[ENTRY*(8*w+g)+:ENTRY] = '0;
          end
        end
      end
      integer m;
      always_comb begin
        whole = '0;
        for (m = 0; m < PORTS; m = m + 1) whole = whole ^ read[8*ENTRY*m+:8*ENTRY];
      end
      if (p == 0) begin : g_first
        assign row_q = row3;
      end
      logic [7:0] same4, used4, used;
      logic [8*VALUE-1:0] values4;
      logic [VALUE-1:0] found;
      logic [2:0] way, way5;
      integer i, j, f;
      always_comb begin
        found = '0;
        way   = '0;
        for (i = 0; i < 8; i = i + 1) begin
          found = found | ({VALUE{same4[i]}} & values4[VALUE*i+:VALUE]);
          way   = way | ({3{same4[i]}} & 3'(i));
        end
      end
      always_ff @(posedge clk) begin
        {key1, a1, b1} <= {key_in, row_of(key_in, 1'b0), row_of(key_in, 1'b1)};
        {key2, a2, b2} <= {key1, a1, b1};
        {key3, a3, b3} <= {key2, a2, b2};
        {key4, a4, b4} <= {key3, a3, b3};
        row3 <= whole;
        for (j = 0; j < 8; j = j + 1) begin
          used4[j] <= row3[ENTRY*j+ENTRY-1];
          same4[j] <= row3[ENTRY*j+ENTRY-1] && row3[ENTRY*j+VALUE+:KEY] == key3;
          values4[VALUE*j+:VALUE] <= row3[ENTRY*j+:VALUE];
        end
        if (any4) begin
          {key5, a5, b5, used, way5} <= {key4, a4, b4, used4, way};
          c_hit[p] <= same4 != '0;
          c_value[VALUE*p+:VALUE] <= found;
        end
        if (rst) c_hit[p] <= 1'b0;
      end
      assign used5[8*p+:8] = used;
      assign ways5[3*p+:3] = way5;
      assign {rows_a[R*p+:R], rows_b[R*p+:R], keys5[KEY*p+:KEY]} = {a5, b5, key5};

      // ---- room beside the new entries of the ports before --------------------------------------------------
      logic [MANY-1:0] earlier;
      logic [3:0] free;
      always_comb begin
        earlier = ones(~c_hit & WRITTEN & PORTS'((1 << p) - 1));
        free   = '0;
        for (f = 0; f < 8; f = f + 1) free = free + 4'(!used4[f]);
      end
      logic [3:0] free5;
      always_ff @(posedge clk) if (any4) free5 <= free;
      assign c_room[p] = c_hit[p] || (available > COUNT'(earlier) && !available[COUNT-1] && free5 > 4'(earlier));
    end
  endgenerate

  // ---- what was shown before, and places: in step s port s takes one, and those behind it keep from that --------------------
  localparam integer SHOWN = PORTS * (1 + 2 * R + KEY + VALUE);
  logic [APART*SHOWN-1:0] past;
  logic [(APART+1)*SHOWN-1:0] shown;  // the lowest: in this cycle
  assign shown = {past, c_hit, rows_a, rows_b, keys5, c_value};
  always_ff @(posedge clk) past <= shown[APART*SHOWN-1:0];
  logic [APART-1:0] v_past;
  always_ff @(posedge clk) v_past <= rst ? '0 : APART'({v_past, v5});

  localparam integer ROWS_B = PORTS * (KEY + VALUE);
  localparam integer ROWS_A = ROWS_B + PORTS * R;
  localparam integer HITS = ROWS_A + PORTS * R;
  logic [PORTS*PORTS*8-1:0] used_past;
  logic [PORTS*PORTS*3-1:0] ways_past;
  wire [(PORTS+1)*PORTS*8-1:0] used_all = {used_past, used5};
  wire [(PORTS+1)*PORTS*3-1:0] ways_all = {ways_past, ways5};
  genvar s;
  generate
    for (s = 0; s < PORTS; s = s + 1) begin : g_step
      wire [PORTS-1:0] hits = shown[SHOWN*s+HITS+:PORTS];
      wire [PORTS*R-1:0] a = shown[SHOWN*s+ROWS_A+:PORTS*R];
      wire [PORTS*R-1:0] b = shown[SHOWN*s+ROWS_B+:PORTS*R];
      wire [2:0] taken = free_way(used_all[8*(PORTS*s+s)+:8]);
      for (p = 0; p < PORTS; p = p + 1) begin : g_port
        wire same = taken[2] ? b[R*s+:R] == b[R*p+:R] : a[R*s+:R] == a[R*p+:R];
        wire takes = WRITTEN[s] && p > s && !hits[s] && same;
        always_ff @(posedge clk) begin
          used_past[8*(PORTS*s+p)+:8] <= used_all[8*(PORTS*s+p)+:8] | (takes ? 8'd1 << taken : 8'd0);
          ways_past[3*(PORTS*s+p)+:3] <= p == s && !hits[s] ? taken : ways_all[3*(PORTS*s+p)+:3];
        end
      end
    end
  endgenerate

  // ---- what each writer's own memory holds at its place, and the change ---------------------------------------
  localparam integer READ = PORTS + 1;  // cycles from what is shown
  generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_change
      if (WRITTEN[p]) begin : g_writer
        wire [2:0] way = ways_all[3*(PORTS*PORTS+p)+:3];
        wire [PLACE-1:0] place = {way, shown[SHOWN*PORTS+(way[2]?ROWS_B : ROWS_A)+R*p+:R]};
        logic [ENTRY-1:0] mem[0:(8<<R)-1];
        logic [ENTRY-1:0] q, rest;
        wire hit = shown[SHOWN*READ+HITS+p];
        wire [KEY-1:0] key = shown[SHOWN*READ+PORTS*VALUE+KEY*p+:KEY];
        wire [VALUE-1:0] value = shown[SHOWN*READ+VALUE*p+:VALUE];
        always_ff @(posedge clk) begin
          if (state == CLEAR || change[p]) mem[state==CLEAR?sweep : place_w[PLACE*p+:PLACE]] <= state == CLEAR ? '0 : part[ENTRY*p+:ENTRY];
          q <= mem[place];
          // What is there but for that: an empty place is zero.
          rest <= ({ENTRY{hit}} & {1'b1, key, value}) ^ q;
        end
        // The place is known two cycles before what is there.
        logic [(APART-PORTS)*PLACE-1:0] places;
        always_ff @(posedge clk) places <= ((APART - PORTS) * PLACE)'({places, place});
        assign place_w[PLACE*p+:PLACE] = places[(APART-PORTS)*PLACE-1-:PLACE];
        wire [ENTRY-1:0] rest_w;
        if (APART == READ + 1) begin : g_now
          assign rest_w = rest;
        end else begin : g_later
          logic [(APART-READ-1)*ENTRY-1:0] rests;
          always_ff @(posedge clk) rests <= ((APART - READ - 1) * ENTRY)'({rests, rest});
          assign rest_w = rests[(APART-READ-1)*ENTRY-1-:ENTRY];
        end
        wire writes = act ? p == HOST && h_op == 4'd1 && c_room[p] : w_write[p];
        assign hit_w[p] = shown[SHOWN*APART+HITS+p];
        assign removes[p] = (act ? p == HOST && h_op == 4'd2 : w_delete[p]) && hit_w[p];
        assign inserts[p] = writes && !hit_w[p];
        assign change[p] = writes || removes[p];
        assign part[ENTRY*p+:ENTRY] = rest_w ^ ({ENTRY{writes}} & {
            1'b1, shown[SHOWN*APART+PORTS*VALUE+KEY*p+:KEY], act ? h_value : w_value[VALUE*p+:VALUE]});
      end else begin : g_reader
        assign {change[p], hit_w[p], inserts[p], removes[p]} = 4'd0;
        assign place_w[PLACE*p+:PLACE] = '0;
        assign part[ENTRY*p+:ENTRY] = '0;
      end
    end
  endgenerate

  // ---- how many more there may be --------------------------------------------------------------------------------
  logic [COUNT-1:0] back;
  always_ff @(posedge clk)
    if (rst || state == CLEAR) begin
      available <= COUNT'(CAPACITY);
      back <= '0;
    end else begin
      available <= available + back - (v5 ? COUNT'(ones(~c_hit & WRITTEN)) : '0);
      back <= (v_past[APART-1] ? COUNT'(ones(~hit_w & WRITTEN)) : '0) + COUNT'(ones(removes)) - COUNT'(ones(inserts));
    end

  // The host: a lookup of its own, or rows one behind the other. Number of an entry: {row, way}.
  logic [2:0] seen;
  logic any;
  integer e;
  always_comb begin
    any  = 1'b0;
    seen = 3'd0;
    for (e = 7; e >= 0; e = e - 1)
      if (3'(e) >= scan_from && row_q[ENTRY*e+ENTRY-1]) begin
        any  = 1'b1;
        seen = 3'(e);
      end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= CLEAR;
      sweep <= '0;
    end else
      case (state)
        CLEAR: begin
          sweep <= sweep + 1'b1;
          if (sweep == {PLACE{1'b1}}) state <= IDLE;
        end
        IDLE: begin
          waited <= 5'd0;
          scan_row <= h_index[R+3:3];
          scan_from <= h_index[2:0];
          h_ok <= 1'b0;
          if (h_req) state <= h_op == 4'd6 ? SCAN : ASK;
        end
        ASK: state <= WAIT;
        WAIT: begin
          waited <= waited + 5'd1;
          if (waited == 5'(3 + APART)) state <= ACT;
        end
        ACT: begin
          h_ok <= h_op == 4'd1 ? c_room[HOST] : c_hit[HOST];
          h_r_value <= c_hit[HOST] ? c_value[VALUE*HOST+:VALUE] : '0;
          state <= END;
        end
        // A row is there two cycles later.
        SCAN: begin
          waited <= {4'd0, !waited[0]};
          if (scan_row[R]) state <= END;
          else if (waited[0]) state <= SEE;
        end
        SEE:
        if (any) begin
          h_ok <= 1'b1;
          {h_r_key, h_r_value} <= row_q[ENTRY*seen+:KEY+VALUE];
          h_r_index <= 32'({scan_row, seen});
          state <= END;
        end else begin
          scan_from <= 3'd0;
          scan_row <= scan_row + 1'b1;
          state <= SCAN;
        end
        default: state <= IDLE;
      endcase
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
