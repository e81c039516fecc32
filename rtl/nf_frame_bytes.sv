// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_frame_bytes: bytes of a frame in the packet buffer from any place on, for what a program reads
// where a pipe's window may not reach; with one slot and a wider `to`, those of a table's byte
// strings.
//
// A copy of the buffer in two banks, lines of even and of odd number, so that a line and the next
// one are read at once. `bytes` has the byte at `to` lowest; those behind the frame's end are of no
// meaning.
//
// Latency: five cycles from `slot` and `to` to the bytes; a frame may be asked about from the cycle
// in which its descriptor can be taken, and a line from the cycle behind its `w_en`. Throughput: a
// line written and a question each cycle. Reset: there is none; answers on their way come.
`default_nettype none
module nf_frame_bytes #(
    parameter integer SLOTS = 32,
    parameter integer LINES = 24,  // of a slot, an even number
    parameter integer BYTES = 4,  // at most 64
    parameter integer TW = 16,  // bits of `to`
    parameter integer SW = $clog2(SLOTS),
    parameter integer AW = $clog2(SLOTS * LINES)
) (
    input  wire                clk,
    // lines as nf_ingress or nf_byte_store writes them
    input  wire                w_en,
    input  wire  [     AW-1:0] w_addr,
    input  wire  [      511:0] w_data,
    input  wire  [       63:0] w_keep,
    // what is asked for: bytes from `to` on
    input  wire  [     SW-1:0] slot,
    input  wire  [     TW-1:0] to,
    output logic [8*BYTES-1:0] bytes
);
  localparam integer BW = $clog2(SLOTS * LINES / 2);
  // Bytes that are left when the first ones, by sixteens, are gone.
  localparam integer SOME = BYTES + 15;

  logic [BW-1:0] r_base, r_even, r_odd;
  logic [TW-8:0] r_row;
  logic [5:0] r_first, r_first_2, r_first_3;
  logic r_swap, r_swap_2, r_swap_3;
  logic [3:0] r_fine;
  logic [511:0] even, odd;
  logic [8*SOME-1:0] some_bytes;
  // The line and the one behind it: where the first one is odd, the other one is in the next row.
  assign r_even = r_base + BW'(r_row) + BW'(r_swap);
  assign r_odd  = r_base + BW'(r_row);
  nf_line_ram #(
      .LINES(SLOTS * LINES / 2)
  ) u_even (
      .clk(clk),
      .w_en(w_en && !w_addr[0]),
      .w_addr(w_addr[AW-1:1]),
      .w_data(w_data),
      .w_keep(w_keep),
      .r_en(1'b1),
      .r_addr(r_even),
      .r_data(even)
  );
  nf_line_ram #(
      .LINES(SLOTS * LINES / 2)
  ) u_odd (
      .clk(clk),
      .w_en(w_en && w_addr[0]),
      .w_addr(w_addr[AW-1:1]),
      .w_data(w_data),
      .w_keep(w_keep),
      .r_en(1'b1),
      .r_addr(r_odd),
      .r_data(odd)
  );
  always_ff @(posedge clk) begin
    // 1: which lines
    r_base <= BW'(slot * (LINES / 2));
    {r_row, r_swap, r_first} <= to;
    // 2 and 3: while memory reads
    {r_swap_2, r_first_2} <= {r_swap, r_first};
    {r_swap_3, r_first_3} <= {r_swap_2, r_first_2};
    // 4: the first bytes go, by sixteens
    some_bytes <= (8 * SOME)'((r_swap_3 ? {even, odd} : {odd, even}) >> {r_first_3[5:4], 7'd0});
    r_fine <= r_first_3[3:0];
    // 5
    bytes <= (8 * BYTES)'(some_bytes >> {r_fine, 3'd0});
  end
endmodule
`default_nettype wire
