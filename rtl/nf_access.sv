// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_access: bytes at any place of a memory of lines, for engines. One request at a time, in pieces
// of up to 64 bytes.
//
//   op 0 read:   `length` bytes (at most BYTES) from byte `from` behind line `line` of memory
//                `mem`, to `r_value`
//   op 1 write:  the first `length` bytes of `w_value` to there
//   op 2 sum:    `r_sum` is `sum` with those bytes added as 16-bit words in network order
//                (ones-complement, folded)
//   op 3 copy:   those bytes to byte `to` behind line `to_line` of memory `to_mem`
//
// `req` is held with its operands until `done`, one cycle; results are valid in that cycle.
// Latency: reads take 6 cycles a piece, writes 3, copies 9. Throughput: one request at a time. A
// write or read that others use the port for waits (`w_stall`, `r_stall`). Reset: ends a request;
// what a write or copy has not written by then stays as it was.
`default_nettype none
module nf_access #(
    parameter integer BYTES = 64,  // a multiple of 64
    parameter integer AW = 10
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                req,
    input  wire  [        1:0] op,
    input  wire  [        3:0] mem,
    input  wire  [     AW-1:0] line,
    input  wire  [       15:0] from,
    input  wire  [       15:0] length,
    input  wire  [8*BYTES-1:0] w_value,
    input  wire  [       31:0] sum,
    input  wire  [        3:0] to_mem,
    input  wire  [     AW-1:0] to_line,
    input  wire  [       15:0] to,
    output logic               done,
    output logic [8*BYTES-1:0] r_value,
    output logic [       31:0] r_sum,
    output logic               r_en,
    output logic [        3:0] r_mem,
    output logic [     AW-1:0] r_addr,
    input  wire                r_stall,
    input  wire  [      511:0] r_data,
    output logic               w_en,
    output logic [        3:0] w_mem,
    output logic [     AW-1:0] w_addr,
    output logic [      511:0] w_data,
    output logic [       63:0] w_keep,
    input  wire                w_stall
);
  localparam logic [1:0] READ = 2'd0, WRITE = 2'd1, SUM = 2'd2, COPY = 2'd3;
  localparam logic [2:0] IDLE = 3'd0, FIRST = 3'd1, SECOND = 3'd2, WAIT = 3'd3, GOT = 3'd4,
      PUT = 3'd5, PUT_NEXT = 3'd6,
      DONE = 3'd7;
  logic [2:0] state;
  logic [15:0] at;  // bytes done
  logic [511:0] low, piece;
  logic [15:0] left, src, dst;
  logic [6:0] count;
  logic [15:0] pieces;

  assign left = length - at;
  assign count = left > 16'd64 ? 7'd64 : left[6:0];
  assign src = from + at;
  assign dst = (op == COPY ? to : from) + at;
  assign pieces = {6'd0, at[15:6]};

  // A read is two lines: the first is there while the second is asked for.
  assign r_en = state == FIRST || state == SECOND;
  assign r_mem = mem;
  assign r_addr = line + AW'(src[15:6]) + AW'(state == SECOND);
  logic [1023:0] pair;
  logic [511:0] cut;
  logic [63:0] mask;
  assign pair = {r_data, low};
  assign mask = count[6] ? {64{1'b1}} : ~({64{1'b1}} << count[5:0]);
  integer b;
  always_comb begin
    cut = 512'(pair >> {src[5:0], 3'b000});
    for (b = 0; b < 64; b = b + 1) if (!mask[b]) cut[8*b+:8] = 8'd0;
  end

  // A write is two lines too, the second one perhaps of no bytes.
  logic [1023:0] spread;
  logic [127:0] spread_keep;
  logic [511:0] source;
  logic [511:0] shifted;
  assign shifted = 512'(w_value >> {pieces, 9'd0});
  assign source = op == COPY ? piece : shifted;
  assign spread = {512'd0, source} << {dst[5:0], 3'b000};
  assign spread_keep = {64'd0, mask} << dst[5:0];
  assign w_en = state == PUT || (state == PUT_NEXT && spread_keep[127:64] != 64'd0);
  assign w_mem = op == COPY ? to_mem : mem;
  assign w_addr = (op == COPY ? to_line : line) + AW'(dst[15:6]) + AW'(state == PUT_NEXT);
  assign w_data = state == PUT ? spread[511:0] : spread[1023:512];
  assign w_keep = state == PUT ? spread_keep[63:0] : spread_keep[127:64];

  logic [21:0] words;
  logic [31:0] added;
  integer w;
  always_comb begin
    words = 22'd0;
    for (w = 0; w < 32; w = w + 1) words = words + {6'd0, piece[16*w+:8], piece[16*w+8+:8]};
  end
  function [31:0] fold(input [31:0] value);
    fold = {16'd0, value[15:0]} + {16'd0, value[31:16]};
  endfunction
  assign added = fold(fold(r_sum) + {10'd0, words});

  logic more;
  assign more = left > 16'd64;
  assign done = state == DONE;
  logic [1:0] waited;

  logic first_1, first_in, second_1, second_in;
  always_ff @(posedge clk) begin
    if (rst) state <= IDLE;
    else
      case (state)
        IDLE: if (req) state <= length == 16'd0 ? DONE : op == WRITE ? PUT : FIRST;
        FIRST: if (!r_stall) state <= SECOND;
        SECOND: if (!r_stall) state <= WAIT;
        // The first line comes two cycles after it was asked for, the second one two after that.
        WAIT: if (waited == 2'd2) state <= op == COPY ? PUT : GOT;
        GOT: state <= more ? FIRST : DONE;
        PUT: if (!w_stall) state <= PUT_NEXT;
        PUT_NEXT: if (!w_stall || !w_en) state <= !more ? DONE : op == COPY ? FIRST : PUT;
        default: state <= IDLE;
      endcase
    if (state == IDLE) begin
      at <= 16'd0;
      r_sum <= fold(fold(sum));  // a request may be of no bytes
      r_value <= '0;
    end
    waited <= state == WAIT ? waited + 2'd1 : 2'd0;
    // `first_in` marks when the first line is on the port.
    if (first_in) low <= r_data;
    if (second_in) piece <= cut;
    if (state == GOT && op == READ) r_value <= r_value
        | ({{(8 * BYTES - 512) {1'b0}}, piece} << {pieces, 9'd0});
    if (state == GOT && op == SUM) r_sum <= added;
    if (state == GOT && !more && op == SUM) r_sum <= fold(fold(added));
    if ((state == GOT && more) || (state == PUT_NEXT && more && (!w_stall || !w_en))) at <= at
        + 16'd64;
  end

  always_ff @(posedge clk) begin
    first_1 <= state == FIRST && !r_stall;
    first_in <= first_1;
    second_1 <= state == SECOND && !r_stall;
    second_in <= second_1;
  end
endmodule
`default_nettype wire
