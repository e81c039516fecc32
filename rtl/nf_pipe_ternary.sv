// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_ternary: value-and-mask match for pipelines: one lookup every cycle, filled by the host
// row by row.
//
// Every row's key and mask are in registers, and a lookup is compared with all of them at once.
// Rows stand in the order in which they win, the highest priority first and of equal ones the first
// that was set, so the first row that matches is the answer. It is found by a tree of 16 to one, a
// cycle a level; its number is the address of its value in a memory. A row costs 2 * KEY flip-flops
// and some KEY * 2/3 LUTs: meant for up to some hundred rows.
//
// The host's operations are nf_table_array's, `h_mask` and `h_detail` being a row's mask and its
// priority, while no lookup is on its way; find and peek want the very row. They go through a copy
// of the rows in a memory: where a new row belongs those behind it move down by one, and a row that
// is deleted is closed up by those behind it.
//
// Latency: 3 + LEVELS cycles, 4 up to 16 rows, 5 up to 256, 6 up to 4096. Throughput: one a cycle.
// Operations of the host: a cycle for each row, two for each that moves, and some 5. Reset: no
// rows.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_ternary #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer LEVELS = CAPACITY > 256 ? 3 : CAPACITY > 16 ? 2 : 1
) (
    input  wire              clk,
    input  wire              rst,
    output logic             ready,
    input  wire              k_valid,
    input  wire  [  KEY-1:0] k_key,
    output logic             c_hit,
    output logic [VALUE-1:0] c_value,
    input  wire              h_req,
    input  wire  [      3:0] h_op,
    input  wire  [  KEY-1:0] h_key,
    input  wire  [  KEY-1:0] h_mask,
    input  wire  [VALUE-1:0] h_value,
    input  wire  [     31:0] h_detail,
    input  wire  [     31:0] h_index,
    output logic             h_done,
    output logic             h_ok,
    output logic [  KEY-1:0] h_r_key,
    output logic [  KEY-1:0] h_r_mask,
    output logic [VALUE-1:0] h_r_value,
    output logic [     31:0] h_r_detail,
    output logic [     31:0] h_r_index
);
  localparam integer A = CAPACITY > 1 ? $clog2(CAPACITY) : 1;
  localparam integer N = 4 * LEVELS;  // bits of a place in the tree
  localparam integer ROW = 2 * KEY + 32 + VALUE;
  localparam logic [2:0] IDLE = 3'd0, SCAN = 3'd1, JUDGE = 3'd2, TAKE = 3'd3, PUT = 3'd4,
      WRITE = 3'd5, SHOW = 3'd6, END = 3'd7;
  logic [2:0] state;
  logic [A:0] count, at, looked, place;
  logic looking, found, w_en, update, delete;
  logic [A-1:0] w_at;
  logic [ROW-1:0] rows[0:CAPACITY-1];
  logic [ROW-1:0] row_q, w_row;
  logic [KEY-1:0] row_key, row_mask;
  logic [31:0] row_priority;
  logic [VALUE-1:0] row_value;
  logic same;

  // ---- lookups: every row at once, then the first of those that match
  // -----------------------------------------
  logic [KEY-1:0] key1;
  wire [(1<<N)-1:0] match;
  always_ff @(posedge clk) key1 <= k_key;
  genvar r;
  generate
    for (r = 0; r < 1 << N; r = r + 1) begin : g_row
      if (r < CAPACITY) begin : g_own
        logic [KEY-1:0] own_key, own_mask;
        logic matched;
        always_ff @(posedge clk) begin
          if (w_en && w_at == A'(r)) {own_key, own_mask} <= w_row[ROW-1-:2*KEY];
          matched <= (A + 1)'(r) < count && ((key1 ^ own_key) & own_mask) == '0;
        end
        assign match[r] = matched;
      end else begin : g_none
        assign match[r] = 1'b0;
      end
    end
  endgenerate

  // The first of sixteen.
  function [3:0] first_of(input [15:0] of);
    integer f;
    first_of = 4'd0;
    for (f = 15; f >= 0; f = f - 1) if (of[f]) first_of = 4'(f);
  endfunction
  wire [LEVELS:0] hits;
  wire [N-1:0] number;
  genvar l, g;
  generate
    for (l = 0; l <= LEVELS; l = l + 1) begin : g_level
      // Groups of this level: whether a row of each matches, and which one is the first.
      localparam integer GROUPS = 1 << (N - 4 * l);
      localparam integer W = l == 0 ? 1 : 4 * l;
      logic [GROUPS-1:0] any;
      logic [GROUPS*W-1:0] which;
      if (l == 0) begin : g_rows
        assign any = match;
        assign which = '0;
      end else begin : g_groups
        for (g = 0; g < GROUPS; g = g + 1) begin : g_group
          wire [15:0] below = g_level[l-1].any[16*g+:16];
          wire [3:0] first = first_of(below);
          always_ff @(posedge clk) any[g] <= below != 16'd0;
          if (l == 1) begin : g_first
            always_ff @(posedge clk) which[W*g+:W] <= first;
          end else begin : g_next
            localparam integer B = 4 * (l - 1);
            wire [16*B-1:0] lower = g_level[l-1].which[16*B*g+:16*B];
            always_ff @(posedge clk) which[W*g+:W] <= {first, lower[B*first+:B]};
          end
        end
      end
    end
  endgenerate
  assign number = g_level[LEVELS].which;
  logic [VALUE-1:0] values[0:CAPACITY-1];
  logic [VALUE-1:0] value_q;
  logic hit_q;
  always_ff @(posedge clk) begin
    if (w_en) values[w_at] <= w_row[VALUE-1:0];
    value_q <= values[A'(number)];
    hit_q <= g_level[LEVELS].any[0];
  end
  assign c_hit = hit_q;
  assign c_value = hit_q ? value_q : '0;

  // ---- the host
  // -----------------------------------------------------------------------------------------------
  assign ready = 1'b1;
  assign h_done = state == END;
  assign update = h_op == 4'd1;
  assign delete = h_op == 4'd2;
  assign {row_key, row_mask, row_priority, row_value} = row_q;
  assign same = row_key == (h_key & h_mask) && row_mask == h_mask && row_priority == h_detail;
  assign w_en = state == PUT || state == WRITE;
  assign w_at = A'(state == WRITE ? place : delete ? at - 1'b1 : at + 1'b1);
  assign w_row = state == PUT ? row_q : {h_key & h_mask, h_mask, h_detail, h_value};
  always_ff @(posedge clk) begin
    if (w_en) rows[w_at] <= w_row;
    row_q <= rows[A'(at)];
    looking <= state == SCAN && at != count;
    looked <= at;
    if (rst) begin
      state <= IDLE;
      count <= '0;
      looking <= 1'b0;
    end else begin
      case (state)
        IDLE: begin
          at <= h_op == 4'd6 ? (A + 1)'(h_index) : '0;
          place <= '0;
          found <= 1'b0;
          h_ok <= 1'b0;
          h_r_index <= h_index;
          if (h_req) state <= h_op != 4'd6 ? SCAN : h_index < 32'(count) ? TAKE : END;
        end
        SCAN:
        if (at == count) state <= JUDGE;
        else at <= at + 1'b1;
        // `place` is that of the row, or where a new one belongs: behind all that win over it.
        JUDGE: begin
          h_ok <= found || (update && count != (A + 1)'(CAPACITY));
          at <= found ? place + 1'b1 : count - 1'b1;
          if (update && !found) begin
            state <= count == (A + 1)'(CAPACITY) ? END : place == count ? WRITE : TAKE;
            if (count != (A + 1)'(CAPACITY)) count <= count + 1'b1;
          end else if (delete && found) begin
            state <= place + 1'b1 == count ? END : TAKE;
            count <= count - 1'b1;
          end else state <= update && found ? WRITE : END;
        end
        TAKE: state <= h_op == 4'd6 ? SHOW : PUT;
        PUT: begin
          at <= delete ? at + 1'b1 : at - 1'b1;
          // Of a deletion `count` is one less already.
          if (delete) state <= at == count ? END : TAKE;
          else state <= at == place ? WRITE : TAKE;
        end
        WRITE: state <= END;
        SHOW: begin
          h_ok <= 1'b1;
          {h_r_key, h_r_mask, h_r_detail, h_r_value} <= row_q;
          state <= END;
        end
        default: state <= IDLE;
      endcase
      if (looking && !found) begin
        if (same) begin
          found <= 1'b1;
          place <= looked;
          h_r_value <= row_value;
        end else if (row_priority >= h_detail) place <= looked + 1'b1;
      end
    end
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
