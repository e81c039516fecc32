// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_patch: bytes that a program overwrote at places of a frame that only the packet says, put into
// the lines of its payload on their way from the packet buffer to the deparser.
//
// Patches come with the deparser's command: how many bytes, at which place of the frame, the first
// byte lowest. Where two overlap the later one counts. Latency: none; what is read is answered two
// cycles later, as the packet buffer does. Throughput: a line each cycle. Reset: there is none;
// without a command nothing is read.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_patch #(
    parameter integer COUNT = 1,  // patches of a command
    parameter integer BYTES = 4,  // of each, at most; 64 at most
    parameter integer LINES = 24,  // of a slot
    parameter integer SW = 5,
    parameter integer AW = 20,
    parameter integer PW = 7 + 16 + 8 * BYTES
) (
    input  wire                 clk,
    // a command is taken: {bytes of it that count, place, bytes} for each patch, the first one
    // lowest
    input  wire                 c_take,
    input  wire  [      SW-1:0] c_slot,
    input  wire  [COUNT*PW-1:0] c_patch,
    // the line that is read, and its bytes two cycles later, as they are in the buffer and as they
    // are now
    input  wire  [      AW-1:0] r_addr,
    input  wire  [       511:0] r_data,
    output logic [       511:0] data
);
  // Lines of a frame are told apart by so many bits of their address.
  localparam integer LW = $clog2(LINES);
  logic [COUNT*PW-1:0] patch;
  logic [LW-1:0] base;
  assign base = LW'(c_slot * LINES);
  always_ff @(posedge clk) if (c_take) patch <= c_patch;

  // Each patch as it lies in any line, and which of these bytes are in the line that is read and
  // which in the one before.
  logic [512*COUNT-1:0] moved, moved_1;
  logic [64*COUNT-1:0] here, behind, here_1, behind_1;
  logic [COUNT-1:0] first, second, first_1, second_1;
  genvar p;
  generate
    for (p = 0; p < COUNT; p = p + 1) begin : g_patch
      logic [6:0] count;
      logic [15:0] place;
      logic [8*BYTES-1:0] bytes;
      logic [1023:0] twice;
      logic [127:0] keep;
      logic [LW-1:0] line, next;
      always_ff @(posedge clk)
        if (c_take) begin
          line <= base + c_patch[PW*p+8*BYTES+6+:LW];
          next <= base + c_patch[PW*p+8*BYTES+6+:LW] + 1'b1;
        end
      assign {count, place, bytes} = patch[PW*p+:PW];
      assign twice = 1024'(bytes) << {place[5:0], 3'd0};
      assign keep = (128'({64{1'b1}} >> (7'd64 - count))) << place[5:0];
      assign moved[512*p+:512] = twice[511:0] | twice[1023:512];
      assign here[64*p+:64] = count == 7'd0 ? 64'd0 : keep[63:0];
      assign behind[64*p+:64] = count == 7'd0 ? 64'd0 : keep[127:64];
      assign first[p] = r_addr[LW-1:0] == line;
      assign second[p] = r_addr[LW-1:0] == next;
    end
  endgenerate
  logic [511:0] over, over_2;
  logic [63:0] take, take_2;
  integer i, b;
  always_comb begin
    over = '0;
    take = '0;
    for (i = 0; i < COUNT; i = i + 1)
      for (b = 0; b < 64; b = b + 1)
        if ((first_1[i] && here_1[64*i+b]) || (second_1[i] && behind_1[64*i+b])) begin
          over[8*b+:8] = moved_1[512*i+8*b+:8];
          take[b] = 1'b1;
        end
  end
  integer k;
  always_ff @(posedge clk) begin
    {moved_1, here_1, behind_1, first_1, second_1} <= {moved, here, behind, first, second};
    {over_2, take_2} <= {over, take};
  end
  always_comb for (k = 0; k < 64; k = k + 1) data[8*k+:8] = take_2[k] ? over_2[8*k+:8]
      : r_data[8*k+:8];
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
