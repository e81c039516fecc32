// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_hash: exact match for pipelines: lookups of PORTS keys and one change every cycle, also
// of the same key.
//
// d-left hashing (Broder and Mitzenmacher, 2001) with two sides of four ways: a key has a row on
// each side, and a new one goes to the row with fewer entries, else to a stash of 8. There are at
// least twice as many places as entries, so the stash is hardly used.
//
// Keys enter together with `k_valid`; five cycles later `c_hit`, `c_value` and `c_room` are what
// the table holds then, key by key. In that cycle the entry of one key may be written (its bit of
// `w_write`, with `w_value`) or deleted (`w_delete`). Nothing waits for anything: a lookup on its
// way compares its key and rows with those of the last four changes (forwarding), so the next
// lookup of the same key sees what this one wrote. Each port has the rows for itself
// (nf_pipe_hash_port), with values where VALUED says so; port 0 always has them.
//
// Refusal: `c_room` is low when the key is not there and the table has CAPACITY entries, or no
// place for it. With LRU, which has one port, it never is: a new key without a place takes that of
// the entry of its first row that was not used for longest, which is counted. A use is what writes
// the entry, or finds it with `w_used`. There is no stash then.
//
// Entries may be changed later than they are shown: as long as no other lookup comes out, or, with
// APART, that many cycles later, while others are. None of a key with a row in common may be among
// these, which nf_pipe_lock sees to; what becomes of the last places of the table and of the stash
// is not known yet then, so `c_room` takes it that those on their way which may be put there are.
//
// `c_place` is the number of the entry's place, or of the place where a new one would be put: {row,
// way}, behind them the stash. An entry stays where it is. Of the upper KEPT bits of values the
// host's update (1) leaves what there is, its write (4) does not.
//
// h_: the host's operations as nf_table_array defines them, while no lookup is on its way.
// Latency: 5 cycles. Throughput: one a cycle. After a reset `ready` stays low until all rows are
// empty.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_hash #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer LRU = 0,
    parameter integer PORTS = 1,
    parameter [PORTS-1:0] VALUED = {PORTS{1'b1}},
    parameter integer KEPT = 0,
    parameter integer APART = 0,
    /* verilator lint_off UNUSEDPARAM */
    parameter integer TABLE = 0,  // its number in reports to nf_driver, which defines NF_DRIVER
    /* verilator lint_on UNUSEDPARAM */
    parameter integer R = CAPACITY > 8 ? $clog2(CAPACITY) - 2 : 1,  // bits of a row's number
    parameter [2*KEY*R-1:0] H3 = {2 * KEY * R{1'b1}}
) (
    input  wire                    clk,
    input  wire                    rst,
    output logic                   ready,
    input  wire                    k_valid,
    input  wire  [  PORTS*KEY-1:0] k_key,
    output wire  [      PORTS-1:0] c_hit,
    output wire  [PORTS*VALUE-1:0] c_value,
    output wire  [      PORTS-1:0] c_room,
    output wire  [   32*PORTS-1:0] c_place,
    input  wire  [      PORTS-1:0] w_write,
    input  wire  [      PORTS-1:0] w_delete,
    input  wire  [      VALUE-1:0] w_value,
    input  wire                    w_used,
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
  localparam integer ROWS = 1 << R;
  localparam integer STASH = 8;
  localparam integer ENTRY = 1 + KEY + VALUE;
  localparam integer PLACE = R + 4;  // {stash, side, way, row}
  localparam integer CHANGE = 2 + KEY + PLACE + VALUE;
  localparam integer TOUCH = 8 + R;  // {used, side, row, order}
  localparam integer COUNT = $clog2(CAPACITY + 1) + 2;

  function [31:0] place_number(input [PLACE-1:0] of);
    place_number = of[PLACE-1] ? 32'(8 * ROWS) + 32'(of[R+2:R]) : 32'({of[R-1:0], of[R+2:R]});
  endfunction

  // Order of use of four ways; bits (0,1) (0,2) (0,3) (1,2) (1,3) (2,3), lowest first.
  function [5:0] touched(input [5:0] order, input [1:0] way);
    case (way)
      2'd0: touched = {order[5:3], 3'b111};
      2'd1: touched = {order[5], 2'b11, order[2:1], 1'b0};
      2'd2: touched = {1'b1, order[4], 1'b0, order[2], 1'b0, order[0]};
      default: touched = {2'b00, order[3], 1'b0, order[1:0]};
    endcase
  endfunction
  function [1:0] oldest(input [5:0] order);
    oldest = order[2:0] == 3'b000 ? 2'd0 : order[0] && order[4:3] == 2'b00 ? 2'd1
        : order[1] && order[3] && !order[5] ? 2'd2 : 2'd3;
  endfunction

  // ---- the host's operations, and clearing
  // ---------------------------------------------------------------
  localparam logic [2:0] CLEAR = 3'd0, IDLE = 3'd1, ASK = 3'd2, WAIT = 3'd3, ACT = 3'd4,
      SCAN = 3'd5, SEE = 3'd6, END = 3'd7;
  logic [2:0] state;
  logic [R:0] sweep;
  // Cycles of a lookup and of the change behind it.
  localparam integer WAIT_BITS = $clog2(APART + 5);
  logic [WAIT_BITS-1:0] waited;
  logic scanning, ask, act;
  logic [R:0] scan_row;
  logic [2:0] scan_from;
  assign ready = state != CLEAR;
  assign ask = state == ASK;
  assign act = state == ACT;
  assign h_done = state == END;
  assign scanning = state == SCAN || state == SEE;

  // ---- ports
  // ---------------------------------------------------------------------------------------------
  logic v1, v2, v3, v4, change, alive;
  wire [PORTS-1:0] write, delete, has_place;
  wire [PORTS*KEY-1:0] keys;
  wire [PORTS*PLACE-1:0] places;
  wire [PORTS*6-1:0] orders_a, orders_b;
  wire [8*ENTRY-1:0] row_q;
  logic [KEY-1:0] key;
  logic [PLACE-1:0] place;
  logic [VALUE-1:0] value;
  logic [CHANGE-1:0] past_1, past_2, past_3;
  logic [TOUCH-1:0] touch, touch_1, touch_2, touch_3;
  logic [STASH*ENTRY-1:0] stash;
  logic [STASH-1:0] stash_used;
  logic [2:0] stash_first;
  logic stash_free, full;
  // The lookups that may be changed now: those shown APART cycles ago.
  wire [PORTS-1:0] hit_w, room_w, has_w, frees;
  wire [PORTS*KEY-1:0] keys_w;
  wire [PORTS*PLACE-1:0] places_w;
  wire [PORTS*6-1:0] orders_a_w, orders_b_w;
  logic [APART:0] near;  // full, or full with so many entries more
  logic stash_taken;
  genvar g;
  generate
    for (g = 0; g < PORTS; g = g + 1) begin : g_port
      wire [8*ENTRY-1:0] row;
      wire [PLACE-1:0] place5;
      wire [R-1:0] a5, b5;
      wire free5;
      wire [2:0] new5;
      nf_pipe_hash_port #(
          .KEY(KEY),
          .VALUE(VALUE),
          .LRU(LRU),
          .PORTS(PORTS),
          .VALUED(g == 0 || VALUED[g] ? 1 : 0),
          .R(R),
          .H3(H3)
      ) u_port (
          .clk(clk),
          .key_in(ask ? h_key : k_key[KEY*g+:KEY]),
          .v4(v4),
          .hit5(c_hit[g]),
          .value5(c_value[VALUE*g+:VALUE]),
          .key5(keys[KEY*g+:KEY]),
          .a5(a5),
          .b5(b5),
          .place5(place5),
          .free5(free5),
          .new5(new5),
          .order_a5(orders_a[6*g+:6]),
          .order_b5(orders_b[6*g+:6]),
          .clear(state == CLEAR),
          .clear_row(sweep[R-1:0]),
          .m_write(change),
          .m_place(place),
          .m_alive(alive),
          .m_key(key),
          .m_value(value),
          .m_touch(touch),
          .n_write(write),
          .n_delete(delete),
          .n_keys(keys_w),
          .n_places(places_w),
          .p_changes({past_3, past_2, past_1}),
          .p_touches({touch_3, touch_2, touch_1}),
          .stash(stash),
          .scanning(scanning),
          .scan_row(scan_row[R-1:0]),
          .row(row)
      );
      if (g == 0) begin : g_first
        assign row_q = row;
      end
      logic [PLACE-1:0] new_place;
      assign frees[g] = free5;
      assign has_place[g] = free5 || (LRU == 0 && stash_free && !stash_taken);
      assign new_place = free5 ? {1'b0, new5, new5[2] ? b5 : a5}
          : LRU == 0 ? {1'b1, stash_first, {R{1'b0}}}
          : {2'b00, oldest(orders_a[6*g+:6]), a5};
      assign places[PLACE*g+:PLACE] = c_hit[g] ? place5 : new_place;
      assign c_place[32*g+:32] = place_number(places[PLACE*g+:PLACE]);
      assign c_room[g] = c_hit[g] || LRU != 0 || (has_place[g] && !full);
      assign write[g] = act ? g == 0
          && ((h_op == 4'd1 && room_w[g]) || (KEPT > 0 && h_op == 4'd4 && hit_w[g]))
          : w_write[g] && room_w[g];
      assign delete[g] = (act ? g == 0 && h_op == 4'd2 : w_delete[g]) && hit_w[g];
    end
  endgenerate

  // ---- from an entry to its change
  // -------------------------------------------------------------------------
  generate
    if (APART == 0) begin : g_now
      assign {hit_w, room_w, has_w, keys_w, places_w, orders_a_w, orders_b_w} =
          {c_hit, c_room, has_place, keys, places, orders_a, orders_b};
      assign stash_taken = 1'b0;
      assign full = near[0];
    end else begin : g_apart
      localparam integer HELD = PORTS * (15 + KEY + PLACE);
      logic [APART*HELD-1:0] past;
      // Which of those on their way may take a place: what is full is not known before they have.
      logic k1, k2, k3, k4, k5;
      logic [APART-1:0] new_past, stash_past;
      always_ff @(posedge clk) begin
        past <= (APART * HELD)'({past, c_hit, c_room, has_place, keys, places, orders_a, orders_b});
        {k1, k2, k3, k4, k5} <= rst ? 5'd0 : {k_valid, k1, k2, k3, k4};
        new_past <= rst ? '0 : APART'({new_past, k5 && c_hit != {PORTS{1'b1}}});
        stash_past <= rst ? '0 : APART'({stash_past, k5 && (c_hit | frees) != {PORTS{1'b1}}});
      end
      assign {hit_w, room_w, has_w, keys_w, places_w, orders_a_w,
          orders_b_w} = past[APART*HELD-1-:HELD];
      assign stash_taken = stash_past != '0;
      localparam integer MORE = $clog2(APART + 1);
      logic [MORE-1:0] more;
      integer o;
      always_comb begin
        more = '0;
        for (o = 0; o < APART; o = o + 1) more = more + MORE'(new_past[o]);
      end
      assign full = near[more];
    end
  endgenerate

  // ---- the change of this cycle
  // --------------------------------------------------------------------------
  logic insert, evict, removes;
  logic [COUNT-1:0] count;
  integer c;
  always_comb begin
    key   = '0;
    place = '0;
    for (c = 0; c < PORTS; c = c + 1) begin
      key   = key | ({KEY{PORTS == 1 || write[c] || delete[c]}} & keys_w[KEY*c+:KEY]);
      place = place | ({PLACE{PORTS == 1 || write[c] || delete[c]}} & places_w[PLACE*c+:PLACE]);
    end
  end
  assign change = write != '0 || delete != '0;
  assign alive = write != '0;
  assign insert = (write & ~hit_w) != '0;
  assign evict = (write & ~hit_w & ~has_w) != '0;
  assign removes = delete != '0;
  localparam [VALUE-1:0] STAY = KEPT > 0 ? ~({VALUE{1'b1}} >> KEPT) : '0;
  assign value = !act ? w_value : h_op == 4'd1 ? (h_value & ~STAY) | (c_value[VALUE-1:0] & STAY)
      : h_value;
  // Written or found: used. Order of the row of the entry's place, this way newest.
  assign touch = {LRU != 0 && (alive || (w_used && hit_w[0] && !act)), place[R+2], place[R-1:0],
                  touched(place[R+2] ? orders_b_w[5:0] : orders_a_w[5:0], place[R+1:R])};

  integer n;
  always_ff @(posedge clk) begin
    past_1 <= {change, alive, key, place, value};
    {past_2, past_3} <= {past_1, past_2};
    touch_1 <= touch;
    {touch_2, touch_3} <= {touch_1, touch_2};
    if (rst) {past_1[CHANGE-1], past_2[CHANGE-1], past_3[CHANGE-1], touch_1[TOUCH-1],
        touch_2[TOUCH-1], touch_3[TOUCH-1]} <= '0;
    if (rst) {v1, v2, v3, v4} <= 4'b0000;
    else {v1, v2, v3, v4} <= {k_valid || ask, v1, v2, v3};
    if (rst || state == CLEAR) begin
      count <= '0;
      near <= '0;
      n_evicted <= '0;
    end else begin
      if (insert && !evict) begin
        count <= count + 1'b1;
        for (n = 0; n <= APART; n = n + 1) near[n] <= n + 1 >= CAPACITY
            || count >= COUNT'(CAPACITY - 1 - n);
      end else if (removes) begin
        count <= count - 1'b1;
        for (n = 0; n <= APART; n = n + 1) near[n] <= n >= CAPACITY || count > COUNT'(CAPACITY - n);
      end
      if (evict) n_evicted <= n_evicted + 1'b1;
    end
  end

  // ---- the stash
  // -----------------------------------------------------------------------------------------
  integer s, f;
  always_ff @(posedge clk)
    for (s = 0; s < STASH; s = s + 1)
      if (rst) stash[ENTRY*s+ENTRY-1] <= 1'b0;
      else if (change && place[PLACE-1] && place[R+2:R] == 3'(s)) stash[ENTRY*s+:ENTRY] <=
          {alive, key, value};
  always_comb begin
    stash_first = 3'd0;
    for (f = STASH - 1; f >= 0; f = f - 1) begin
      stash_used[f] = stash[ENTRY*f+ENTRY-1];
      if (!stash_used[f]) stash_first = 3'(f);
    end
    stash_free = stash_used != {STASH{1'b1}};
  end

`ifdef NF_DRIVER
  // Where entries of LRU tables are put, by which simulators know which ones had to go.
  import "DPI-C" function void nf_placed(input int table_number, input int place_number, input bit placed, input bit [1023:0] of);
  generate
    if (LRU != 0) begin : g_report
      always_ff @(posedge clk) if (change && !rst) nf_placed(TABLE, 32'(place), alive, 1024'(key));
    end
  endgenerate
`endif

  // The host: a lookup of its own, or rows one behind the other. Number of an entry: {row, way},
  // behind them the stash.
  logic [2:0] seen;
  logic any;
  integer e;
  always_comb begin
    any  = 1'b0;
    seen = 3'd0;
    for (e = 7; e >= 0; e = e - 1)
      // Behind the stash, which is one row, there is nothing.
      if (3'(e) >= scan_from && (scan_row[R] ? stash_used[e] && scan_row[R-1:0] == '0
          : row_q[ENTRY*e+ENTRY-1])) begin
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
          if (sweep == (R + 1)'(ROWS - 1)) state <= IDLE;
        end
        IDLE: begin
          waited <= '0;
          scan_row <= h_index[R+3:3];
          scan_from <= h_index[2:0];
          h_ok <= 1'b0;
          if (h_req) state <= h_op == 4'd6 ? SCAN : ASK;
        end
        ASK: state <= WAIT;
        WAIT: begin
          waited <= waited + 1'b1;
          if (waited == WAIT_BITS'(3 + APART)) state <= ACT;
        end
        ACT: begin
          h_ok <= h_op == 4'd1 ? c_room[0] : c_hit[0];
          h_r_value <= c_hit[0] ? c_value[VALUE-1:0] : '0;
          // Whoever keeps bytes beside values goes by the number.
          if (KEPT > 0) begin
            h_r_index <= c_place[31:0];
            h_r_key <= h_key;
          end
          state <= END;
        end
        SCAN: state <= SEE;
        SEE:
        if (any) begin
          h_ok <= 1'b1;
          {h_r_key, h_r_value} <= scan_row[R] ? stash[ENTRY*seen+:KEY+VALUE]
              : row_q[ENTRY*seen+:KEY+VALUE];
          h_r_index <= 32'({scan_row, seen});
          state <= END;
        end else begin
          scan_from <= 3'd0;
          scan_row <= scan_row + 1'b1;
          state <= scan_row[R] ? END : SCAN;
        end
        default: state <= IDLE;
      endcase
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
