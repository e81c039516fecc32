// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_table_ternary: value-and-mask match for engines, filled from outside. Interface: see
// nf_table_array; `detail` is the priority.
//
// Rows are in the order in which they were set, and every search looks at all of them: the highest
// priority wins, then the first one set. A row that is deleted is closed up by those behind it.
//
// Latency: a cycle for each row, and 4. Throughput: one operation at a time. Reset: no rows.
// nf_ternary looks at all rows at once, in logic.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_table_ternary #(
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
  localparam integer ROW = 2 * KEY + 32 + W;
  localparam logic [2:0] IDLE = 3'd0, SCAN = 3'd1, END = 3'd2, READ = 3'd3, WRITE = 3'd4,
      CLOSE = 3'd5, MOVE = 3'd6, DONE = 3'd7;
  logic [2:0] state;
  logic [ROW-1:0] rows[0:CAPACITY-1];
  logic [ROW-1:0] row_q, w_row;
  logic [KEY-1:0] row_key, row_mask;
  logic [31:0] row_priority, best;
  logic [W-1:0] row_value;
  logic [A:0] count, at, looked;
  logic looking, is_match, same, w_en;
  logic [A-1:0] w_at, r_at;

  assign {row_key, row_mask, row_priority, row_value} = row_q;
  assign is_match = (key & row_mask) == row_key;
  assign same = row_key == (key & mask) && row_mask == mask && row_priority == detail;
  assign w_en = state == WRITE || state == MOVE;
  assign w_at = state == WRITE ? A'(r_index) : A'(at - 1'b1);
  assign w_row = state == MOVE ? row_q : op == 4'd4 ? {row_key, row_mask, row_priority, value}
      : {key & mask, mask, detail, value};
  assign r_at = A'(at);
  always_ff @(posedge clk) begin
    if (w_en) rows[w_at] <= w_row;
    row_q <= rows[r_at];
  end

  assign ready = 1'b1;
  assign done = state == DONE;
  assign n_evicted = '0;

  always_ff @(posedge clk) begin
    looking <= state == SCAN && at != count;
    looked  <= at;
    if (rst) begin
      state <= IDLE;
      count <= '0;
      n_refused <= '0;
      looking <= 1'b0;
    end else begin
      case (state)
        IDLE: begin
          at <= op == 4'd4 || op == 4'd6 ? (A + 1)'(index) : '0;
          ok <= 1'b0;
          best <= '0;
          r_value <= '0;
          if (req) state <= op == 4'd4 || op == 4'd6 ? (index < 32'(count) ? READ : DONE) : SCAN;
        end
        SCAN:
        if (at == count) state <= END;
        else at <= at + 1'b1;
        END:
        case (op)
          4'd1, 4'd3: begin
            if (!ok && count == (A + 1)'(CAPACITY)) begin
              n_refused <= n_refused + 1'b1;
              state <= DONE;
            end else begin
              if (!ok) begin
                r_index <= 32'(count);
                count   <= count + 1'b1;
              end
              ok <= 1'b1;
              state <= WRITE;
            end
          end
          4'd2: begin
            at <= (A + 1)'(r_index + 32'd1);
            state <= ok ? CLOSE : DONE;
          end
          default: state <= DONE;
        endcase
        READ: begin
          r_index <= index;
          state <= op == 4'd4 ? WRITE : END;
          ok <= 1'b1;
        end
        WRITE: state <= DONE;
        // Rows behind the deleted one move down by one.
        CLOSE:
        if (at == count) begin
          count <= count - 1'b1;
          state <= DONE;
        end else state <= MOVE;
        MOVE: begin
          at <= at + 1'b1;
          state <= CLOSE;
        end
        default: state <= IDLE;
      endcase
      if (looking && (op == 4'd0 ? is_match && (!ok || row_priority > best) : same)) begin
        ok <= 1'b1;
        best <= row_priority;
        r_value <= row_value;
        r_index <= 32'(looked);
      end
      if (state == END && op == 4'd6) begin
        r_key <= row_key;
        r_mask <= row_mask;
        r_detail <= row_priority;
        r_value <= row_value;
      end
    end
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
