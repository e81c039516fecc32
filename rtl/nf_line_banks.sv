// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_line_banks: nf_line_ram of any number of lines, as memories of BANK lines and one of what
// remains. Synthesis makes a memory of up to 32,768 lines of block memories side by side, and a
// larger one whose lines are no power of two of as small pieces as the remainder needs, with the
// choice between all of them (yosys: 16,400 LUTs for 263,168 lines).
//
// Latency: what is read in one cycle is on `r_data` two cycles later. Throughput: one read and one
// write each cycle. Bytes of a line are written where `w_keep` is set. A read of the line that is
// written in the same cycle gives the old bytes. Contents survive a reset.
`default_nettype none
module nf_line_banks #(
    parameter integer LINES = 1024,
    parameter integer BANK = 32768,  // a power of two
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
  localparam integer COUNT = (LINES + BANK - 1) / BANK;
  localparam integer CW = COUNT < 2 ? 1 : $clog2(COUNT);
  localparam integer BW = $clog2(BANK);
  logic [512*COUNT-1:0] read;
  logic [CW-1:0] w_bank, r_bank, bank;
  assign w_bank = CW'(32'(w_addr) >> BW);
  assign r_bank = CW'(32'(r_addr) >> BW);

  genvar i, b;
  generate
    for (i = 0; i < COUNT; i = i + 1) begin : g_bank
      localparam integer SIZE = i < COUNT - 1 ? BANK : LINES - BANK * i;
      localparam integer SW = SIZE < 2 ? 1 : $clog2(SIZE);
      logic [511:0] mem[0:SIZE-1];
      wire [SW-1:0] w_line = SW'(w_addr);
      wire [SW-1:0] r_line = SW'(r_addr);
      for (b = 0; b < 64; b = b + 1) begin : g_byte
        always_ff @(posedge clk) if (w_en && w_bank == i && w_keep[b]) mem[w_line][8*b+:8] <=
            w_data[8*b+:8];
      end
      always_ff @(posedge clk) if (r_en) read[512*i+:512] <= mem[r_line];
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (r_en) bank <= r_bank;
    r_data <= read[512*bank+:512];
  end
endmodule
`default_nettype wire
