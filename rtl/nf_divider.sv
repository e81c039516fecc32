// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_divider: quotient or remainder of 64-bit magnitudes, one bit a cycle (restoring division). A
// divisor of zero gives quotient 0 and the dividend as remainder. `req` is held with its operands
// until `done`, one cycle, in which the results are valid.
//
// Latency: 65 cycles. Throughput: one division in 66 cycles. Reset: ends a division.
`default_nettype none
module nf_divider (
    input  wire         clk,
    input  wire         rst,
    input  wire         req,
    input  wire  [63:0] dividend,
    input  wire  [63:0] divisor,
    output logic        done,
    output logic [63:0] quotient,
    output logic [63:0] remainder
);
  logic [6:0] left;
  logic busy;
  logic [63:0] shifting, partial;
  logic [64:0] tried, less;
  assign tried = {partial, shifting[63]};
  assign less = tried - {1'b0, divisor};
  assign quotient = divisor == 64'd0 ? 64'd0 : shifting;
  assign remainder = divisor == 64'd0 ? dividend : partial;
  always_ff @(posedge clk) begin
    done <= 1'b0;
    if (rst) busy <= 1'b0;
    else if (!busy && req && !done) begin
      busy <= 1'b1;
      left <= 7'd64;
      shifting <= dividend;
      partial <= 64'd0;
    end else if (busy) begin
      shifting <= {shifting[62:0], !less[64]};
      partial <= less[64] ? tried[63:0] : less[63:0];
      left <= left - 7'd1;
      if (left == 7'd1) begin
        busy <= 1'b0;
        done <= 1'b1;
      end
    end
  end
endmodule
`default_nettype wire
