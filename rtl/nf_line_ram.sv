// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_line_ram: memory of lines of 64 bytes, one write and one read port; block RAM, or UltraRAM
// where it is large.
//
// Latency: what is read in one cycle is on `r_data` two cycles later (with the memory's output
// register). Throughput: one read and one write each cycle. Bytes of a line are written where
// `w_keep` is set. A read of the line that is written in the same cycle gives the old bytes.
// Contents survive a reset.
`default_nettype none
module nf_line_ram #(
    parameter integer LINES = 1024,
    parameter integer AW = $clog2(LINES)
) (
    input  wire           clk,
    input  wire           w_en,
    input  wire  [AW-1:0] w_addr,
    input  wire  [ 511:0] w_data,
    input  wire  [  63:0] w_keep,
    input  wire           r_en,
    input  wire  [AW-1:0] r_addr,
    output logic [ 511:0] r_data
);
  logic [511:0] mem[0:LINES-1];
  logic [511:0] read;

  genvar b;
  generate
    for (b = 0; b < 64; b = b + 1) begin : g_byte
      always_ff @(posedge clk) if (w_en && w_keep[b]) mem[w_addr][8*b+:8] <= w_data[8*b+:8];
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (r_en) read <= mem[r_addr];
    r_data <= read;
  end
endmodule
`default_nettype wire
