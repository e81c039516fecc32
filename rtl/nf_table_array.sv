// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_table_array: a table whose keys are numbers 0 .. CAPACITY-1 and whose entries always exist;
// zero after a reset.
//
// All tables of engines have this interface. `req` is held with its operands until `done`, one
// cycle, in which results are valid:
//   op 0 find:    `ok` if there is an entry for `key`; then `r_value`, `r_index`, else zero
//   op 1 update:  inserts or overwrites; `ok` unless refused. The EXTRA top bits of an entry that
//                 is there stay
//   op 2 delete:  `ok` if there was one (here: it becomes zero)
//   op 3 ensure:  like find, but makes an entry of zeroes where there is none; not `ok` if refused
//   op 4 write:   the whole of entry `index`
//   op 5 peek:    like find, without being a use
//   op 6 next:    the first entry at `index` or behind: `ok`, `r_index`, `r_key`, `r_mask`,
//                 `r_detail`, `r_value`
// `detail` is the length of a prefix or a priority, and `mask` belongs to ternary tables.
//
// Latency: 3 cycles. Throughput: one operation in 3 cycles. After a reset `ready` stays low until
// all entries are zero, CAPACITY cycles.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_table_array #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer EXTRA = 0,
    parameter integer CAPACITY = 16,
    parameter integer W = VALUE + EXTRA
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
  localparam integer A = CAPACITY > 1 ? $clog2(CAPACITY) : 1;
  localparam logic [1:0] CLEAR = 2'd0, IDLE = 2'd1, READ = 2'd2, ACT = 2'd3;
  logic [1:0] state;
  logic [A-1:0] sweep, at;
  logic [W-1:0] mem[0:CAPACITY-1];
  logic [W-1:0] read;
  logic in_range, w_en;
  logic [A-1:0] w_at;
  logic [W-1:0] w_data;
  logic [31:0] wanted;

  assign wanted = op == 4'd4 || op == 4'd6 ? index : 32'(key);
  assign in_range = wanted < 32'(CAPACITY);
  assign at = A'(wanted);
  assign ready = state != CLEAR;
  assign done = state == ACT;
  assign ok = in_range;
  assign r_value = in_range ? read : '0;
  assign r_index = wanted;
  assign r_key = KEY'(index);
  assign r_mask = '0;
  assign r_detail = '0;
  assign n_evicted = '0;

  assign w_en = state == CLEAR
      || (state == ACT && in_range && (op == 4'd1 || op == 4'd2 || op == 4'd4));
  assign w_at = state == CLEAR ? sweep : at;
  generate
    if (EXTRA > 0) begin : g_extra
      assign w_data = state == CLEAR || op == 4'd2 ? '0 : op == 4'd4 ? value
          : {read[W-1:VALUE], value[VALUE-1:0]};
    end else begin : g_plain
      assign w_data = state == CLEAR || op == 4'd2 ? '0 : value;
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (w_en) mem[w_at] <= w_data;
    read <= mem[at];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= CLEAR;
      sweep <= '0;
      n_refused <= '0;
    end else
      case (state)
        CLEAR: begin
          sweep <= sweep + 1'b1;
          if (sweep == A'(CAPACITY - 1)) state <= IDLE;
        end
        IDLE: if (req) state <= READ;
        READ: state <= ACT;
        default: begin
          state <= IDLE;
          if (!in_range && (op == 4'd1 || op == 4'd3)) n_refused <= n_refused + 1'b1;
        end
      endcase
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
