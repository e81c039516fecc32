// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_parts: an array for pipelines whose entries lie in PARTS memories: a lookup and a change
// of each part every cycle.
//
// Part p has the entries from number FROM[p] on, up to the next part's; the first begins at 0, the
// last ends at CAPACITY. Keys enter together with `k_valid`, the first part's lowest, each one of
// its own part's numbers, and three cycles later `c_hit` and `c_value` are what the table holds
// then (nf_pipe_array). A key beyond CAPACITY belongs to the last part, which does not have it. In
// that cycle, or APART cycles later as nf_pipe_array has it, each part's entry may be written with
// its own `w_value`.
//
// h_: the host's operations as nf_table_array defines them, over all parts, while no lookup is on
// its way; KEPT is the EXTRA there. Latency: 3 cycles. Throughput: one a cycle. After a reset
// `ready` stays low until all entries are zero.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_parts #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer KEPT = 0,
    parameter integer APART = 0,
    parameter integer PARTS = 2,
    parameter [32*PARTS-1:0] FROM = {32'd8, 32'd0}
) (
    input  wire                    clk,
    input  wire                    rst,
    output logic                   ready,
    input  wire                    k_valid,
    input  wire  [  PARTS*KEY-1:0] k_key,
    output wire  [      PARTS-1:0] c_hit,
    output wire  [PARTS*VALUE-1:0] c_value,
    output wire  [      PARTS-1:0] c_room,
    input  wire  [      PARTS-1:0] w_write,
    input  wire  [      PARTS-1:0] w_delete,
    input  wire  [PARTS*VALUE-1:0] w_value,
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
  // The number the host means, and the part that has it. Results stay until the next operation
  // ends.
  localparam integer W = KEY > 32 ? KEY : 32;
  logic [W-1:0] number;
  wire [PARTS-1:0] mine, done, ok, is_ready;
  wire [PARTS*VALUE-1:0] values;
  logic [VALUE-1:0] value;
  assign number = h_op == 4'd6 || (KEPT > 0 && h_op == 4'd4) ? W'(h_index) : W'(h_key);
  assign ready = is_ready == {PARTS{1'b1}};
  assign n_evicted = '0;
  integer v;
  always_comb begin
    value = '0;
    for (v = 0; v < PARTS; v = v + 1) value = value | ({VALUE{done[v]}} & values[VALUE*v+:VALUE]);
  end
  always_ff @(posedge clk) begin
    h_done <= done != '0 && !rst;
    if (done != '0) begin
      h_ok <= (done & ok) != '0;
      h_r_key <= KEY'(number);
      h_r_index <= 32'(number);
      h_r_value <= value;
    end
  end

  genvar p;
  generate
    for (p = 0; p < PARTS; p = p + 1) begin : g_part
      localparam integer START = FROM[32*p+:32];
      localparam integer END = p == PARTS - 1 ? CAPACITY : FROM[32*(p==PARTS-1 ? p : p+1)+:32];
      wire [KEY-1:0] unused_key;
      wire [31:0] unused_index, unused_evicted;
      assign mine[p] = (p == 0 || number >= W'(START)) && (p == PARTS - 1 || number < W'(END));
      nf_pipe_array #(
          .KEY(KEY),
          .VALUE(VALUE),
          .CAPACITY(END - START),
          .KEPT(KEPT),
          .APART(APART)
      ) u_part (
          .clk(clk),
          .rst(rst),
          .ready(is_ready[p]),
          .k_valid(k_valid),
          .k_key(k_key[KEY*p+:KEY] - KEY'(START)),
          .c_hit(c_hit[p]),
          .c_value(c_value[VALUE*p+:VALUE]),
          .c_room(c_room[p]),
          .w_write(w_write[p]),
          .w_delete(w_delete[p]),
          .w_value(w_value[VALUE*p+:VALUE]),
          .h_req(h_req && mine[p] && !h_done),
          .h_op(h_op),
          .h_key(KEY'(number - W'(START))),
          .h_value(h_value),
          .h_index(32'(number - W'(START))),
          .h_done(done[p]),
          .h_ok(ok[p]),
          .h_r_key(unused_key),
          .h_r_value(values[VALUE*p+:VALUE]),
          .h_r_index(unused_index),
          .n_evicted(unused_evicted)
      );
    end
  endgenerate
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
