// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_byte_store: byte strings of a table's entries in a pipe: lines of 64 bytes, which the deparser
// reads and writes one a cycle, and the host while the deparser has nothing to do.
//
// Latency: what the deparser reads is there two cycles later; a command of the host waits until the
// deparser has been idle for eight cycles and takes four. Throughput: a line read and one written
// each cycle. Reset: ends the host's command; bytes stay as they are.
`default_nettype none
module nf_byte_store #(
    parameter integer LINES = 1024,
    parameter integer AW = $clog2(LINES)
) (
    input  wire           clk,
    input  wire           rst,
    // the deparser
    input  wire           busy,
    input  wire           r_en,
    input  wire  [AW-1:0] r_addr,
    output logic [ 511:0] r_data,
    input  wire           w_en,
    input  wire  [AW-1:0] w_addr,
    input  wire  [ 511:0] w_data,
    input  wire  [  63:0] w_keep,
    // what either writes, for copies
    output wire           c_en,
    output wire  [AW-1:0] c_addr,
    output wire  [ 511:0] c_data,
    output wire  [  63:0] c_keep,
    // the host: held until `h_done`, one cycle; the line it read stays on `h_r_value`
    input  wire           h_req,
    input  wire           h_write,
    input  wire  [AW-1:0] h_index,
    input  wire  [ 511:0] h_value,
    output logic          h_done,
    output logic [ 511:0] h_r_value
);
  logic [2:0] idle_for, step;
  logic act;
  assign act = step == 3'd1 && !busy;
  assign h_done = step == 3'd4;
  assign c_en   = w_en || (act && h_write);
  assign c_addr = act ? h_index : w_addr;
  assign c_data = act ? h_value : w_data;
  assign c_keep = act ? {64{1'b1}} : w_keep;
  nf_line_banks #(
      .LINES(LINES)
  ) u_lines (
      .clk(clk),
      .w_en(c_en),
      .w_addr(c_addr),
      .w_data(c_data),
      .w_keep(c_keep),
      .r_en(r_en || act),
      .r_addr(act ? h_index : r_addr),
      .r_data(r_data)
  );
  always_ff @(posedge clk) begin
    if (rst || busy) idle_for <= 3'd0;
    else if (idle_for != 3'd7) idle_for <= idle_for + 3'd1;
    if (rst || h_done) step <= 3'd0;
    else if (act || step > 3'd1 || (step == 3'd0 && h_req && idle_for == 3'd7)) step <= step + 3'd1;
    if (step == 3'd3) h_r_value <= r_data;
  end
endmodule
`default_nettype wire
