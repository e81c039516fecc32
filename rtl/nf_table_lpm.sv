// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_table_lpm: longest prefix match for engines, filled from outside. Interface: see
// nf_table_array; `detail` is a prefix's length. In a search by the engine `index` says how many
// bits at the key's end do not count.
//
// One hash table holds all prefixes, with their length in front of the key. A search tries the
// lengths that are there, longest first. Prefixes count from the first byte's most significant bit.
//
// Latency: a cycle for each length, and a search of nf_table_hash for each length that was ever
// set. Throughput: one operation at a time. After a reset `ready` stays low until the hash table is
// empty.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_table_lpm #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer EXTRA = 0,
    parameter integer CAPACITY = 16,
    parameter integer W = VALUE + EXTRA,
    parameter integer B = CAPACITY > 1 ? $clog2(CAPACITY) : 1,
    parameter [(KEY+16)*B-1:0] H3 = {(KEY + 16) * B{1'b1}}
) (
    input  wire            clk,
    input  wire            rst,
    output logic           ready,
    input  wire            req,
    input  wire  [    3:0] op,
    input  wire  [KEY-1:0] key,
    input  wire  [  W-1:0] value,
    input  wire  [KEY-1:0] mask,
    input  wire  [   31:0] detail,
    input  wire  [   31:0] index,
    output logic           done,
    output logic           ok,
    output logic [KEY-1:0] r_key,
    output logic [KEY-1:0] r_mask,
    output logic [   31:0] r_detail,
    output logic [  W-1:0] r_value,
    output logic [   31:0] r_index,
    output logic [   31:0] n_refused,
    output logic [   31:0] n_evicted
);
  logic [KEY:0] there;  // lengths that were ever set
  logic [15:0] length;
  logic searching, asking, is_find;
  logic [KEY-1:0] prefix;
  logic [KEY+15:0] i_r_key, i_r_mask;
  logic i_req, i_done, i_ok;
  logic [31:0] i_detail;
  logic [15:0] used;

  assign is_find = op == 4'd0;
  assign used = is_find ? length : detail[15:0];
  integer b;
  always_comb
    for (b = 0; b < KEY; b = b + 1)
      prefix[b] = key[b] && 16'(8 * (b / 8) + 7 - b % 8) < used;

  assign i_req = is_find ? asking : req;
  assign done  = is_find ? (asking && i_done && (i_ok || length == 16'd0))
      || (searching && !asking && length == 16'd0 && !there[0])
                         : i_done;
  assign ok = i_ok && (!is_find || asking);
  assign r_key = i_r_key[KEY-1:0];
  assign r_detail = {16'd0, i_r_key[KEY+15:KEY]};
  assign r_mask = '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      there <= '0;
      searching <= 1'b0;
      asking <= 1'b0;
    end else begin
      if (req && op == 4'd1 && i_done && i_ok) there[$clog2(KEY+1)'(detail)] <= 1'b1;
      if (done) begin
        searching <= 1'b0;
        asking <= 1'b0;
      end else if (req && is_find && !searching) begin
        searching <= 1'b1;
        length <= 16'(KEY) - index[15:0];
      end else if (searching && !asking) begin
        if (there[$clog2(KEY+1)'(length)]) asking <= 1'b1;
        else length <= length - 1'b1;
      end else if (asking && i_done) begin
        asking <= 1'b0;
        length <= length - 1'b1;
      end
    end
  end

  nf_table_hash #(
      .KEY(KEY + 16),
      .VALUE(VALUE),
      .EXTRA(EXTRA),
      .CAPACITY(CAPACITY),
      .B(B),
      .H3(H3)
  ) u_prefixes (
      .clk(clk),
      .rst(rst),
      .ready(ready),
      .req(i_req),
      .op(op),
      .key({used, prefix}),
      .value(value),
      .mask({(KEY + 16) {1'b0}}),
      .detail(detail),
      .index(index),
      .done(i_done),
      .ok(i_ok),
      .r_key(i_r_key),
      .r_mask(i_r_mask),
      .r_detail(i_detail),
      .r_value(r_value),
      .r_index(r_index),
      .n_refused(n_refused),
      .n_evicted(n_evicted)
  );
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
