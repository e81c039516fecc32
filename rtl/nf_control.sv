// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_control: tables and counters for the host, behind 32-bit AXI4-Lite. `registers.json` beside a
// generated design names what depends on the program.
//
//   0x0000 "NFC1"   0x0004 tables   0x0008 counters   0x000c 1 once all tables are empty after a
//   reset 0x0010 table    0x0014 command: writing starts it    0x0018 status: bit 0 busy, bit 1 ok
//   0x001c index    0x0020 detail (length of a prefix, priority) 0x0100 counters, 0x0400 key,
//   0x0800 mask, 0x1000 value: words, least significant first
// Commands are the tables' ops (nf_table_array); 8 and 9 read and write line `index` of a table's
// byte strings in `value`. After a command the same registers hold what it gave.
//
// With HELD a table's t_r_value stays as it is until the next command: reading the value registers
// gives it, so nothing is copied and what was written there before the command cannot be read.
//
// Latency: a command waits until no event is being handled. Throughput: a register access in three
// cycles.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_control #(
    parameter integer TABLES = 1,
    parameter integer COUNTERS = 1,
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer HELD = 0
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire  [           15:0] s_axil_awaddr,
    input  wire                    s_axil_awvalid,
    output logic                   s_axil_awready,
    input  wire  [           31:0] s_axil_wdata,
    input  wire  [            3:0] s_axil_wstrb,
    input  wire                    s_axil_wvalid,
    output logic                   s_axil_wready,
    output logic [            1:0] s_axil_bresp,
    output logic                   s_axil_bvalid,
    input  wire                    s_axil_bready,
    input  wire  [           15:0] s_axil_araddr,
    input  wire                    s_axil_arvalid,
    output logic                   s_axil_arready,
    output logic [           31:0] s_axil_rdata,
    output logic [            1:0] s_axil_rresp,
    output logic                   s_axil_rvalid,
    input  wire                    s_axil_rready,
    input  wire                    ready,
    input  wire  [32*COUNTERS-1:0] counters,
    output logic                   t_req,
    output logic [            7:0] t_table,
    output logic [            3:0] t_op,
    output logic [        KEY-1:0] t_key,
    output logic [        KEY-1:0] t_mask,
    output logic [      VALUE-1:0] t_value,
    output logic [           31:0] t_detail,
    output logic [           31:0] t_index,
    input  wire                    t_done,
    input  wire                    t_ok,
    input  wire  [        KEY-1:0] t_r_key,
    input  wire  [        KEY-1:0] t_r_mask,
    input  wire  [      VALUE-1:0] t_r_value,
    input  wire  [           31:0] t_r_detail,
    input  wire  [           31:0] t_r_index
);
  localparam integer KW = (KEY + 31) / 32;
  localparam integer VW = (VALUE + 31) / 32;
  logic [32*KW-1:0] key, mask;
  logic [32*VW-1:0] value;
  logic [31:0] detail, index;
  logic [7:0] number;
  logic [3:0] op;
  logic busy, was_ok;

  assign t_req = busy;
  assign t_table = number;
  assign t_op = op;
  assign t_key = key[KEY-1:0];
  assign t_mask = mask[KEY-1:0];
  assign t_value = value[VALUE-1:0];
  assign t_detail = detail;
  assign t_index = index;

  logic write, read;
  logic [13:0] w_word, r_word;
  assign write = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid && !rst;
  assign s_axil_awready = write;
  assign s_axil_wready = write;
  assign s_axil_bresp = 2'b00;
  assign s_axil_rresp = 2'b00;
  assign read = s_axil_arvalid && !s_axil_rvalid && !rst;
  assign s_axil_arready = read;
  assign w_word = s_axil_awaddr[15:2];
  assign r_word = s_axil_araddr[15:2];

  logic [32*VW-1:0] shown;
  assign shown = HELD != 0 ? (32 * VW)'(t_r_value) : value;
  integer i, j;
  logic [31:0] found;
  always_comb begin
    found = 32'd0;
    case (r_word)
      14'd0: found = 32'h3143464e;
      14'd1: found = 32'(TABLES);
      14'd2: found = 32'(COUNTERS);
      14'd3: found = {31'd0, ready};
      14'd4: found = {24'd0, number};
      14'd5: found = {28'd0, op};
      14'd6: found = {30'd0, was_ok, busy};
      14'd7: found = index;
      14'd8: found = detail;
      default: ;
    endcase
    for (i = 0; i < COUNTERS; i = i + 1) if (r_word == 14'(64 + i)) found = counters[32*i+:32];
    for (i = 0; i < KW; i = i + 1) if (r_word == 14'(256 + i)) found = key[32*i+:32];
    for (i = 0; i < KW; i = i + 1) if (r_word == 14'(512 + i)) found = mask[32*i+:32];
    for (i = 0; i < VW; i = i + 1) if (r_word == 14'(1024 + i)) found = shown[32*i+:32];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      busy <= 1'b0;
      was_ok <= 1'b0;
      s_axil_bvalid <= 1'b0;
      s_axil_rvalid <= 1'b0;
    end else begin
      if (write) s_axil_bvalid <= 1'b1;
      else if (s_axil_bready) s_axil_bvalid <= 1'b0;
      if (read) s_axil_rvalid <= 1'b1;
      else if (s_axil_rready) s_axil_rvalid <= 1'b0;
      if (write && w_word == 14'd5) busy <= 1'b1;
      if (busy && t_done) begin
        busy   <= 1'b0;
        was_ok <= t_ok;
      end
    end
    if (read) s_axil_rdata <= found;
    if (write && !busy) begin
      case (w_word)
        14'd4: number <= s_axil_wdata[7:0];
        14'd5: op <= s_axil_wdata[3:0];
        14'd7: index <= s_axil_wdata;
        14'd8: detail <= s_axil_wdata;
        default: ;
      endcase
      for (j = 0; j < KW; j = j + 1) if (w_word == 14'(256 + j)) key[32*j+:32] <= s_axil_wdata;
      for (j = 0; j < KW; j = j + 1) if (w_word == 14'(512 + j)) mask[32*j+:32] <= s_axil_wdata;
      for (j = 0; j < VW; j = j + 1) if (w_word == 14'(1024 + j)) value[32*j+:32] <= s_axil_wdata;
    end
    if (busy && t_done) begin
      index  <= t_r_index;
      detail <= t_r_detail;
      if (HELD == 0) value <= (32 * VW)'(t_r_value);
      if (op == 4'd6) begin
        key  <= (32 * KW)'(t_r_key);
        mask <= (32 * KW)'(t_r_mask);
      end
    end
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
