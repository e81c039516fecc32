// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_hash: exact match for pipelines: one lookup and one change every cycle, also of the same key.
//
// d-left hashing (Broder and Mitzenmacher, 2001) with two sides of four ways: a key has a row on each side, and a new one goes to the
// row with fewer entries, else to a stash of 8. There are at least twice as many places as entries, so the stash is hardly used.
//
// A lookup enters with `k_valid`; five cycles later `c_hit`, `c_value` and `c_room` are what the table holds then. In that cycle, or
// HOLD cycles later if no other lookup comes out in between, the same key may be written (`w_write`, with `w_value`) or deleted
// (`w_delete`). Nothing waits for anything: a lookup on its way compares its key and rows with those of the last four changes
// (forwarding), so the next lookup of the same key sees what this one wrote.
//
// Refusal: `c_room` is low when the key is not there and the table has CAPACITY entries, or no place for it. With LRU it never is:
// a new key without a place takes the place of one of its row's entries, by turns, which is counted.
//
// h_: the host's operations as nf_table_array defines them, while no lookup is on its way.
// Latency: 5 cycles. Throughput: one a cycle. After a reset `ready` stays low until all rows are empty.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_hash #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer LRU = 0,
    parameter integer R = CAPACITY > 8 ? $clog2(CAPACITY) - 2 : 1,  // bits of a row's number
    parameter [2*KEY*R-1:0] H3 = {2 * KEY * R{1'b1}}
) (
    input  wire              clk,
    input  wire              rst,
    output logic             ready,
    input  wire              k_valid,
    input  wire  [  KEY-1:0] k_key,
    output logic             c_hit,
    output logic [VALUE-1:0] c_value,
    output logic             c_room,
    input  wire              w_write,
    input  wire              w_delete,
    input  wire  [VALUE-1:0] w_value,
    input  wire              h_req,
    input  wire  [      3:0] h_op,
    input  wire  [  KEY-1:0] h_key,
    input  wire  [VALUE-1:0] h_value,
    input  wire  [     31:0] h_index,
    output logic             h_done,
    output logic             h_ok,
    output logic [  KEY-1:0] h_r_key,
    output logic [VALUE-1:0] h_r_value,
    output logic [     31:0] h_r_index,
    output logic [     31:0] n_evicted
);
  localparam integer ROWS = 1 << R;
  localparam integer STASH = 8;
  localparam integer ENTRY = 1 + KEY + VALUE;
  localparam integer PLACE = R + 4;  // {stash, side, way, row}
  localparam integer CHANGE = 2 + KEY + PLACE + VALUE;
  localparam integer COUNT = $clog2(CAPACITY + 1) + 2;

  function [R-1:0] row_of(input [KEY-1:0] of, input side);
    integer i;
    for (i = 0; i < R; i = i + 1) row_of[i] = ^(of & (side ? H3[(R+i)*KEY+:KEY] : H3[i*KEY+:KEY]));
  endfunction
  function [2:0] ones(input [3:0] of);
    ones = {2'b0, of[0]} + {2'b0, of[1]} + {2'b0, of[2]} + {2'b0, of[3]};
  endfunction
  function [1:0] first(input [3:0] of);
    first = of[0] ? 2'd0 : of[1] ? 2'd1 : of[2] ? 2'd2 : 2'd3;
  endfunction

  // ---- the host's operations, and clearing ---------------------------------------------------------------
  localparam logic [2:0] CLEAR = 3'd0, IDLE = 3'd1, ASK = 3'd2, WAIT = 3'd3, ACT = 3'd4, SCAN = 3'd5, SEE = 3'd6, END = 3'd7;
  logic [2:0] state;
  logic [R:0] sweep;
  logic [2:0] waited;
  logic scanning, ask, act;
  logic [R:0] scan_row;
  logic [2:0] scan_from;
  assign ready = state != CLEAR;
  assign ask = state == ASK;
  assign act = state == ACT;
  assign h_done = state == END;
  assign scanning = state == SCAN || state == SEE;

  // ---- the lookup's way: keys and rows by stage ----------------------------------------------------------
  logic v1, v2, v3, v4;
  logic [KEY-1:0] key_in, key1, key2, key3, key4, key5;
  logic [R-1:0] a1, a2, a3, a4, a5, b1, b2, b3, b4, b5;
  logic [R-1:0] read_a, read_b;
  assign key_in = ask ? h_key : k_key;
  assign read_a = scanning ? scan_row[R-1:0] : a1;
  assign read_b = scanning ? scan_row[R-1:0] : b1;

  // ---- the change of this cycle --------------------------------------------------------------------------
  logic change, alive, has_place, free_a, free_b, stash_free, insert, left;
  logic [PLACE-1:0] place5, place, new_place;
  logic [3:0] used_a5, used_b5;
  logic [VALUE-1:0] value;
  logic [CHANGE-1:0] now, past_1, past_2, past_3;
  logic [COUNT-1:0] count;
  logic [1:0] victim;
  logic [STASH-1:0] stash_used;
  logic [2:0] stash_first;

  assign free_a = used_a5 != 4'hf;
  assign free_b = used_b5 != 4'hf;
  assign left = free_a && (!free_b || ones(used_a5) <= ones(used_b5));
  assign stash_free = stash_used != {STASH{1'b1}};
  assign has_place = free_a || free_b || stash_free;
  integer f;
  always_comb begin
    stash_first = 3'd0;
    for (f = STASH - 1; f >= 0; f = f - 1) if (!stash_used[f]) stash_first = 3'(f);
  end
  assign new_place = left ? {2'b00, first(~used_a5), a5}
      : free_b ? {2'b01, first(~used_b5), b5}
      : stash_free ? {1'b1, stash_first, {R{1'b0}}}
      : {2'b00, victim, a5};
  assign c_room = c_hit || (LRU != 0) || (has_place && count < COUNT'(CAPACITY));

  logic write, delete;
  assign write = act ? h_op == 4'd1 && c_room : w_write && c_room;
  assign delete = (act ? h_op == 4'd2 : w_delete) && c_hit;
  assign change = write || delete;
  assign insert = write && !c_hit;
  assign alive = write;
  assign place = c_hit ? place5 : new_place;
  assign value = act ? h_value : w_value;
  assign now = {change, alive, key5, place, value};

  always_ff @(posedge clk) begin
    past_1 <= now;
    past_2 <= past_1;
    past_3 <= past_2;
    if (rst) {past_1[CHANGE-1], past_2[CHANGE-1], past_3[CHANGE-1]} <= 3'b000;
  end

  // ---- memories: eight ways, one read and one write each --------------------------------------------------
  logic [8*ENTRY-1:0] row_q, row3;
  genvar w;
  generate
    for (w = 0; w < 8; w = w + 1) begin : g_way
      logic [ENTRY-1:0] mem[0:ROWS-1];
      logic here;
      assign here = change && !place[PLACE-1] && place[R+2:R] == 3'(w);
      always_ff @(posedge clk) begin
        if (here || state == CLEAR)
          mem[state == CLEAR ? sweep[R-1:0] : place[R-1:0]] <= state == CLEAR ? '0 : {alive, key5, value};
        row_q[ENTRY*w+:ENTRY] <= mem[w<4?read_a : read_b];
      end
    end
  endgenerate

  logic [STASH*ENTRY-1:0] stash;
  integer s;
  always_ff @(posedge clk) begin
    for (s = 0; s < STASH; s = s + 1)
      if (change && place[PLACE-1] && place[R+2:R] == 3'(s)) stash[ENTRY*s+:ENTRY] <= {alive, key5, value};
    for (s = 0; s < STASH; s = s + 1) if (rst) stash[ENTRY*s+ENTRY-1] <= 1'b0;
  end
  integer u;
  always_comb for (u = 0; u < STASH; u = u + 1) stash_used[u] = stash[ENTRY*u+ENTRY-1];

  // ---- stage 3: which way has the key --------------------------------------------------------------------
  logic hit3, hit4, hit;
  logic [VALUE-1:0] value3, value4, value_new;
  logic [PLACE-1:0] place3, place4, place_new;
  logic [3:0] used_a3, used_b3, used_a4, used_b4, used_a, used_b;
  integer i;
  always_comb begin
    hit3 = 1'b0;
    value3 = '0;
    place3 = '0;
    for (i = 0; i < 8; i = i + 1) begin
      if (i < 4) used_a3[i] = row3[ENTRY*i+ENTRY-1];
      else used_b3[i-4] = row3[ENTRY*i+ENTRY-1];
      if (row3[ENTRY*i+ENTRY-1] && row3[ENTRY*i+VALUE+:KEY] == key3) begin
        hit3 = 1'b1;
        value3 = value3 | row3[ENTRY*i+:VALUE];
        place3 = place3 | {1'b0, 3'(i), i < 4 ? a3 : b3};
      end
    end
    for (i = 0; i < STASH; i = i + 1)
      if (stash[ENTRY*i+ENTRY-1] && stash[ENTRY*i+VALUE+:KEY] == key3) begin
        hit3 = 1'b1;
        value3 = value3 | stash[ENTRY*i+:VALUE];
        place3 = place3 | {1'b1, 3'(i), {R{1'b0}}};
      end
  end

  // ---- stage 4: what changed since the rows were read ----------------------------------------------------
  logic [CHANGE-1:0] one;
  logic p_change, p_alive;
  logic [KEY-1:0] p_key;
  logic [PLACE-1:0] p_place;
  logic [VALUE-1:0] p_value;
  integer p;
  always_comb begin
    hit = hit4;
    value_new = value4;
    place_new = place4;
    used_a = used_a4;
    used_b = used_b4;
    one = past_3;
    for (p = 0; p < 4; p = p + 1) begin
      one = p == 0 ? past_3 : p == 1 ? past_2 : p == 2 ? past_1 : now;
      {p_change, p_alive, p_key, p_place, p_value} = one;
      if (p_change) begin
        if (p_key == key4) begin
          hit = p_alive;
          place_new = p_place;
          value_new = p_alive ? p_value : '0;
        end else if (hit && p_place == place_new) begin
          hit = 1'b0;
          value_new = '0;
        end
        if (!p_place[PLACE-1] && !p_place[R+2] && p_place[R-1:0] == a4) used_a[p_place[R+1:R]] = p_alive;
        if (!p_place[PLACE-1] && p_place[R+2] && p_place[R-1:0] == b4) used_b[p_place[R+1:R]] = p_alive;
      end
    end
  end

  always_ff @(posedge clk) begin
    key1 <= key_in;
    a1 <= row_of(key_in, 1'b0);
    b1 <= row_of(key_in, 1'b1);
    {key2, a2, b2} <= {key1, a1, b1};
    {key3, a3, b3} <= {key2, a2, b2};
    row3 <= row_q;
    {key4, a4, b4} <= {key3, a3, b3};
    {hit4, value4, place4, used_a4, used_b4} <= {hit3, value3, place3, used_a3, used_b3};
    if (v4) begin
      {key5, a5, b5} <= {key4, a4, b4};
      {c_hit, c_value, place5, used_a5, used_b5} <= {hit, value_new, place_new, used_a, used_b};
    end
    if (rst) {v1, v2, v3, v4} <= 4'b0000;
    else {v1, v2, v3, v4} <= {k_valid || ask, v1, v2, v3};
    if (rst || state == CLEAR) begin
      count <= '0;
      n_evicted <= '0;
      victim <= 2'd0;
    end else begin
      if (insert && (has_place)) count <= count + 1'b1;
      if (delete) count <= count - 1'b1;
      if (insert && !has_place) begin
        n_evicted <= n_evicted + 1'b1;
        victim <= victim + 2'd1;
      end
    end
  end

  // The host: a lookup of its own, or rows one behind the other. Number of an entry: {row, way}, behind them the stash.
  logic [2:0] seen;
  logic any;
  integer e;
  always_comb begin
    any  = 1'b0;
    seen = 3'd0;
    for (e = 7; e >= 0; e = e - 1)
      if (3'(e) >= scan_from && (scan_row[R] ? stash_used[e] : row_q[ENTRY*e+ENTRY-1])) begin
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
          waited <= 3'd0;
          scan_row <= h_index[R+3:3];
          scan_from <= h_index[2:0];
          h_ok <= 1'b0;
          if (h_req) state <= h_op == 4'd6 ? SCAN : ASK;
        end
        ASK: state <= WAIT;
        WAIT: begin
          waited <= waited + 3'd1;
          if (waited == 3'd3) state <= ACT;
        end
        ACT: begin
          h_ok <= h_op == 4'd1 ? c_room : c_hit;
          h_r_value <= c_hit ? c_value : '0;
          state <= END;
        end
        SCAN: state <= SEE;
        SEE:
        if (any) begin
          h_ok <= 1'b1;
          {h_r_key, h_r_value} <= scan_row[R] ? stash[ENTRY*seen+:KEY+VALUE] : row_q[ENTRY*seen+:KEY+VALUE];
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
