// Registers of nf_spin_top behind AXI4-Lite: nf_axil_registers with names.
// Made by registers.py; nf_spin_registers.h says what is where.
//
// Ports       s_axil_*: the bus; an output for each register that the host writes, an input for
//             each it reads; `apply` pulses when it is written.
// Latency     a read is answered the cycle after its address, a write the cycle after address and
//             data are both there.
// Throughput  one read and one write every two cycles.
// Reset       synchronous; all words are zero.
`default_nettype none
module nf_spin_registers (
    input  wire         clk,
    input  wire         rst,
    input  wire  [9:0] s_axil_awaddr,
    input  wire         s_axil_awvalid,
    output logic        s_axil_awready,
    input  wire  [31:0] s_axil_wdata,
    input  wire  [3:0]  s_axil_wstrb,
    input  wire         s_axil_wvalid,
    output logic        s_axil_wready,
    output logic [1:0]  s_axil_bresp,
    output logic        s_axil_bvalid,
    input  wire         s_axil_bready,
    input  wire  [9:0] s_axil_araddr,
    input  wire         s_axil_arvalid,
    output logic        s_axil_arready,
    output logic [31:0] s_axil_rdata,
    output logic [1:0]  s_axil_rresp,
    output logic        s_axil_rvalid,
    input  wire         s_axil_rready,
    output logic        apply,
    output logic [31:0] options,
    output logic [31:0] contexts,
    output logic [31:0] home_limit,
    output logic [31:0] patience,
    output logic [127:0] sets,
    output logic [2047:0] rules,
    output logic [1279:0] context_table,
    input  wire  [31:0] pending,
    input  wire  [31:0] matched,
    input  wire  [31:0] unmatched,
    input  wire  [31:0] dropped_full,
    input  wire  [31:0] dropped_long,
    input  wire  [31:0] dropped_context,
    input  wire  [31:0] dropped_cell,
    input  wire  [31:0] dropped_queue,
    input  wire  [31:0] packets,
    input  wire  [31:0] messages,
    input  wire  [31:0] ended,
    input  wire  [31:0] abandoned,
    input  wire  [31:0] late,
    input  wire  [31:0] freed,
    input  wire  [31:0] small_used,
    input  wire  [31:0] large_used,
    input  wire  [31:0] most_lines,
    input  wire  [31:0] sent,
    input  wire  [31:0] host_writes,
    input  wire  [31:0] host_refused
);
    localparam CONTROL = 113, STATUS = 20;
    wire [CONTROL*32-1:0] control;
    wire [CONTROL-1:0]    written;
    nf_axil_registers #(
        .CONTROL(CONTROL), .STATUS(STATUS), .READABLE(31), .STROBES(0), .ADDRESS(10)
    ) words (
        .clk(clk), .rst(rst),
        .s_axil_awaddr(s_axil_awaddr),
        .s_axil_awvalid(s_axil_awvalid),
        .s_axil_awready(s_axil_awready),
        .s_axil_wdata(s_axil_wdata),
        .s_axil_wstrb(s_axil_wstrb),
        .s_axil_wvalid(s_axil_wvalid),
        .s_axil_wready(s_axil_wready),
        .s_axil_bresp(s_axil_bresp),
        .s_axil_bvalid(s_axil_bvalid),
        .s_axil_bready(s_axil_bready),
        .s_axil_araddr(s_axil_araddr),
        .s_axil_arvalid(s_axil_arvalid),
        .s_axil_arready(s_axil_arready),
        .s_axil_rdata(s_axil_rdata),
        .s_axil_rresp(s_axil_rresp),
        .s_axil_rvalid(s_axil_rvalid),
        .s_axil_rready(s_axil_rready),
        .control(control), .written(written),
        .status({host_refused, host_writes, sent, most_lines, large_used, small_used, freed, late, abandoned, ended, messages, packets, dropped_queue, dropped_cell, dropped_context, dropped_long, dropped_full, unmatched, matched, pending})
    );
    assign apply = written[0];
    assign options = control[32 +: 32];
    assign contexts = control[64 +: 32];
    assign home_limit = control[96 +: 32];
    assign patience = control[128 +: 32];
    assign sets = control[160 +: 128];
    assign rules = control[288 +: 2048];
    assign context_table = control[2336 +: 1280];
    wire unused = &{1'b0, written, control[31:0]};
endmodule
`default_nettype wire
