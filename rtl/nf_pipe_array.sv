// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_array: a table whose keys are numbers, for pipelines: one lookup and one change every
// cycle, also of the same entry.
//
// A lookup enters with `k_valid`; three cycles later `c_hit` (the number is below CAPACITY) and
// `c_value` are what the table holds then. APART cycles later the entry may be written (`w_write`,
// `w_value`), or, where APART is 0, as long as no other lookup comes out. Lookups on their way take
// over what the two changes before theirs wrote (forwarding); none of the same entry may come out
// in between, which nf_pipe_lock sees to.
//
// h_: the host's operations as nf_table_array defines them, while no lookup is on its way; KEPT is
// the EXTRA there, whose bits VALUE includes; without it found entries' indices are not said.
// Latency: 3 cycles. Throughput: one a cycle. After a reset `ready` stays low until all entries are
// zero, CAPACITY cycles.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_array #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer KEPT = 0,
    parameter integer APART = 0
) (
    input  wire              clk,
    input  wire              rst,
    output logic             ready,
    input  wire              k_valid,
    input  wire  [  KEY-1:0] k_key,
    output logic             c_hit,
    output logic [VALUE-1:0] c_value,
    output logic             c_room,
    input  wire              w_write,
    input  wire              w_delete,
    input  wire  [VALUE-1:0] w_value,
    input  wire              h_req,
    input  wire  [      3:0] h_op,
    input  wire  [  KEY-1:0] h_key,
    input  wire  [VALUE-1:0] h_value,
    input  wire  [     31:0] h_index,
    output logic             h_done,
    output logic             h_ok,
    output logic [  KEY-1:0] h_r_key,
    output logic [VALUE-1:0] h_r_value,
    output logic [     31:0] h_r_index,
    output logic [     31:0] n_evicted
);
  localparam integer A = CAPACITY > 1 ? $clog2(CAPACITY) : 1;
  localparam logic [2:0] CLEAR = 3'd0, IDLE = 3'd1, ASK = 3'd2, WAIT = 3'd3, ACT = 3'd4, END = 3'd5;
  logic [2:0] state;
  logic [A-1:0] sweep;
  // Cycles of a lookup and of the change behind it.
  localparam integer WAIT_BITS = $clog2(APART + 5);
  logic [WAIT_BITS-1:0] waited;
  logic ask, act;
  logic [KEY-1:0] key_in;
  logic v1, v2, in1, in2;
  logic [A-1:0] at1, at2, at3, at_w, p_at;
  logic [VALUE-1:0] read, value, p_value, h_new;
  logic by_now, by_past, by_read;
  logic hit_w, change, p_change;
  logic [VALUE-1:0] mem[0:CAPACITY-1];
  // The host's write, and the upper bits that its update leaves as they are.
  localparam [VALUE-1:0] STAY = KEPT > 0 ? ~({VALUE{1'b1}} >> KEPT) : '0;
  wire h_write = KEPT > 0 && h_op == 4'd4;
  wire by_index = h_op == 4'd6 || h_write;

  assign ready = state != CLEAR;
  assign ask = state == ASK;
  assign act = state == ACT;
  assign h_done = state == END;
  assign n_evicted = '0;
  assign c_room = c_hit;
  assign key_in = !ask ? k_key : by_index ? KEY'(h_index) : h_key;
  assign change = hit_w && (act ? h_op == 4'd1 || h_op == 4'd2 || h_write : w_write || w_delete);
  assign h_new = h_op == 4'd2 ? '0 : h_op == 4'd1 ? (h_value & ~STAY) | (c_value & STAY) : h_value;
  assign value = state == CLEAR ? '0 : act ? h_new : w_delete ? '0 : w_value;

  always_ff @(posedge clk) begin
    if (change || state == CLEAR) mem[state == CLEAR ? sweep : at_w] <= value;
    read <= mem[at1];
  end

  // The entry that may be changed.
  generate
    if (APART == 0) begin : g_now
      assign {hit_w, at_w} = {c_hit, at3};
    end else begin : g_apart
      logic [APART*(A+1)-1:0] past;
      always_ff @(posedge clk) past <= (APART * (A + 1))'({past, c_hit && !rst, at3});
      assign {hit_w, at_w} = past[APART*(A+1)-1-:A+1];
    end
  endgenerate

  // The changes in the cycle of the read and in the one behind it.
  // At most one is taken; the host's changes meet no lookups.
  assign by_now  = in2 && change && at_w == at2;
  assign by_past = in2 && p_change && p_at == at2 && !by_now;
  assign by_read = in2 && !by_now && !by_past;

  always_ff @(posedge clk) begin
    at1 <= A'(key_in);
    in1 <= key_in < KEY'(CAPACITY);
    at2 <= at1;
    in2 <= in1;
    {p_change, p_at, p_value} <= {change && !rst, at_w, value};
    if (v2) begin
      at3 <= at2;
      c_hit <= in2;
      c_value <= ({VALUE{by_now && !w_delete}} & w_value) | ({VALUE{by_past}} & p_value)
          | ({VALUE{by_read}} & read);
    end
    if (rst) {v1, v2} <= 2'b00;
    else {v1, v2} <= {k_valid || ask, v1};
    if (rst) c_hit <= 1'b0;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= CLEAR;
      sweep <= '0;
    end else
      case (state)
        CLEAR: begin
          sweep <= sweep + 1'b1;
          if (sweep == A'(CAPACITY - 1)) state <= IDLE;
        end
        IDLE: begin
          waited <= '0;
          if (h_req) state <= ASK;
        end
        ASK: state <= WAIT;
        WAIT: begin
          waited <= waited + 1'b1;
          if (waited == WAIT_BITS'(1 + APART)) state <= ACT;
        end
        ACT: begin
          h_ok <= c_hit;
          h_r_value <= c_value;
          h_r_key <= key_in;
          h_r_index <= KEPT == 0 || by_index ? h_index : 32'(h_key);
          state <= END;
        end
        default: state <= IDLE;
      endcase
    if (state == ASK) h_r_key <= key_in;
    if (state == ACT) h_r_key <= KEY'(h_index);
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
