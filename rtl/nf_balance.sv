// NIC-host load balancer, bump in the wire (HAL, ISCA'24, section 4): monitor, director and merger
// at 512 bits.
//
// Packets for a served address come in at `rx`; the meter keeps up to a threshold on the NIC side,
// and the rest get the host's addresses, so that the NIC's switch hands them to the host. Answers
// of the host go out through `tx`, where they get the served address back. All else passes
// untouched, in order. See nf_balance_rewrite for which packets and how, nf_balance_meter for the
// modes, nf_balance_flows for flow affinity.
//
// Registers (32 bits, AXI4-Lite; all but the first are write-only; rates are what software computes
// from bytes a second):
//
//     00 mode      [1:0] mode, [3:2] route (0 metered, 1 all to NIC, 2 all to host), [4] shadow:
//                  count, divert nothing
//     04 rate      bytes a cycle * 4096            08 credit   bytes a window          0c burst     bytes
//     10 share     of the NIC * 4096               14 window   cycles - 1              18 drain     units of 1024 cycles
//     1c push      the next 32 bits of a row, high first; eleven make one (the highest 30 bits are
//                  dropped)
//     20 commit    [8:0] row, [16] 0 director, 1 merger: writes the row when no packet is half
//                  through; wait until busy is 0
//     24 bucket    [9:0] bucket, [16] wanted on the host
//     28 busy      30 a row is being written          2c window bytes: eligible, in the last window
//     30 packets kept   34 bytes kept (on the wire)   38 packets diverted   3c bytes diverted   40 packets merged; all wrap
//
// (busy is at 28, window bytes at 2c.)
//
// Ports       rx_s_*, rx_m_*: from the wire; tx_s_*, tx_m_*: to the wire; s_axil_*.
// Latency     8 cycles each way: 25 ns at 322 MHz.
// Throughput  one word a cycle each way: 165 Gbit/s at 322 MHz.
// Reset       synchronous; drops packets inside; route 0, mode 0, all rates zero, rows kept.
`default_nettype none
module nf_balance #(
    parameter USER = 1
) (
    input  wire             clk,
    input  wire             rst,
    input  wire  [511:0]    rx_s_tdata,
    input  wire  [63:0]     rx_s_tkeep,
    input  wire  [USER-1:0] rx_s_tuser,
    input  wire             rx_s_tlast,
    input  wire             rx_s_tvalid,
    output logic            rx_s_tready,
    output logic [511:0]    rx_m_tdata,
    output logic [63:0]     rx_m_tkeep,
    output logic [USER-1:0] rx_m_tuser,
    output logic            rx_m_tlast,
    output logic            rx_m_tvalid,
    input  wire             rx_m_tready,
    input  wire  [511:0]    tx_s_tdata,
    input  wire  [63:0]     tx_s_tkeep,
    input  wire  [USER-1:0] tx_s_tuser,
    input  wire             tx_s_tlast,
    input  wire             tx_s_tvalid,
    output logic            tx_s_tready,
    output logic [511:0]    tx_m_tdata,
    output logic [63:0]     tx_m_tkeep,
    output logic [USER-1:0] tx_m_tuser,
    output logic            tx_m_tlast,
    output logic            tx_m_tvalid,
    input  wire             tx_m_tready,
    input  wire  [6:0]      s_axil_awaddr,
    input  wire             s_axil_awvalid,
    output logic            s_axil_awready,
    input  wire  [31:0]     s_axil_wdata,
    input  wire  [3:0]      s_axil_wstrb,
    input  wire             s_axil_wvalid,
    output logic            s_axil_wready,
    output logic [1:0]      s_axil_bresp,
    output logic            s_axil_bvalid,
    input  wire             s_axil_bready,
    input  wire  [6:0]      s_axil_araddr,
    input  wire             s_axil_arvalid,
    output logic            s_axil_arready,
    output logic [31:0]     s_axil_rdata,
    output logic [1:0]      s_axil_rresp,
    output logic            s_axil_rvalid,
    input  wire             s_axil_rready
);
    localparam ROW = 322, CONTROL = 10, STATUS = 7;
    localparam MODE = 0, RATE = 1, CREDIT = 2, BURST = 3, SHARE = 4, WINDOW = 5, DRAIN = 6,
        PUSH = 7, COMMIT = 8, BUCKET = 9;

    wire  [CONTROL*32-1:0] control;
    wire  [CONTROL-1:0]    written;
    logic                  committing;
    wire  [29:0]           window_bytes;
    logic [31:0]           kept_packets, kept_bytes, diverted_packets, diverted_bytes,
        merged_packets;
    nf_axil_registers #(.CONTROL(CONTROL), .STATUS(STATUS), .READABLE(10'd1), .STROBES(0),
        .ADDRESS(7)) registers (
        .clk(clk), .rst(rst),
        .s_axil_awaddr(s_axil_awaddr), .s_axil_awvalid(s_axil_awvalid),
        .s_axil_awready(s_axil_awready),
        .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(s_axil_wstrb), .s_axil_wvalid(s_axil_wvalid),
        .s_axil_wready(s_axil_wready),
        .s_axil_bresp(s_axil_bresp), .s_axil_bvalid(s_axil_bvalid), .s_axil_bready(s_axil_bready),
        .s_axil_araddr(s_axil_araddr), .s_axil_arvalid(s_axil_arvalid),
        .s_axil_arready(s_axil_arready),
        .s_axil_rdata(s_axil_rdata), .s_axil_rresp(s_axil_rresp), .s_axil_rvalid(s_axil_rvalid),
        .s_axil_rready(s_axil_rready),
        .control(control), .written(written),
        .status({merged_packets, diverted_bytes, diverted_packets, kept_bytes, kept_packets,
            2'b0, window_bytes, 31'b0, committing})
    );
    wire unused_control = &{control, written};
    wire shadow = control[MODE*32 + 4];

    // A row is pushed word by word and written when the table takes it.
    logic [ROW-1:0] row;
    wire director_ready, merger_ready;
    wire to_merger = control[COMMIT*32 + 16];
    always_ff @(posedge clk) begin
        if (written[PUSH]) row <= {row[ROW-33:0], control[PUSH*32 +: 32]};
        if (rst) committing <= 0;
        else if (written[COMMIT]) committing <= 1;
        else if (to_merger ? merger_ready : director_ready) committing <= 0;
    end

    wire        advance, c_first, e_word, e_first, e_last, e_fragment, divert, diverted, host;
    wire [6:0]  c_bytes;
    wire [7:0]  e_bytes;
    wire [15:0] b_flow;
    wire        rx_changed;
    nf_balance_rewrite #(.SOURCE(0), .USER(USER), .ROW(ROW)) director (
        .clk(clk), .rst(rst),
        .s_axis_tdata(rx_s_tdata), .s_axis_tkeep(rx_s_tkeep), .s_axis_tuser(rx_s_tuser),
        .s_axis_tlast(rx_s_tlast),
        .s_axis_tvalid(rx_s_tvalid), .s_axis_tready(rx_s_tready),
        .m_axis_tdata(rx_m_tdata), .m_axis_tkeep(rx_m_tkeep), .m_axis_tuser(rx_m_tuser),
        .m_axis_tlast(rx_m_tlast),
        .m_axis_tvalid(rx_m_tvalid), .m_axis_tready(rx_m_tready),
        .advance(advance), .c_bytes(c_bytes), .c_first(c_first), .b_flow(b_flow),
        .e_word(e_word), .e_first(e_first), .e_last(e_last), .e_fragment(e_fragment),
        .divert(divert && !shadow),
        .m_changed(rx_changed),
        .w_valid(committing && !to_merger), .w_ready(director_ready),
        .w_row(control[COMMIT*32 +: 9]), .w_data(row)
    );
    nf_balance_meter meter (
        .clk(clk), .rst(rst),
        .mode(control[MODE*32 +: 2]), .route(control[MODE*32 + 2 +: 2]),
        .rate(control[RATE*32 +: 20]),
        .credit(control[CREDIT*32 +: 24]), .burst(control[BURST*32 +: 24]),
        .share(control[SHARE*32 +: 13]),
        .window(control[WINDOW*32 +: 24]), .advance(advance), .c_bytes(c_bytes), .c_first(c_first),
        .e_word(e_word), .e_first(e_first), .e_fragment(e_fragment), .flow_host(host),
        .divert(divert), .diverted(diverted), .e_bytes(e_bytes), .window_bytes(window_bytes)
    );
    nf_balance_flows flows (
        .clk(clk), .drain(control[DRAIN*32 +: 14]), .advance(advance), .b_flow(b_flow),
        .e_first(e_first), .host(host),
        .w_valid(written[BUCKET]), .w_bucket(control[BUCKET*32 +: 10]),
        .w_host(control[BUCKET*32 + 16])
    );

    wire        merged, tx_advance, tx_c_first, tx_e_word, tx_e_first, tx_e_last, tx_e_fragment;
    wire [6:0]  tx_c_bytes;
    wire [15:0] tx_b_flow;
    nf_balance_rewrite #(.SOURCE(1), .USER(USER), .ROW(ROW)) merger (
        .clk(clk), .rst(rst),
        .s_axis_tdata(tx_s_tdata), .s_axis_tkeep(tx_s_tkeep), .s_axis_tuser(tx_s_tuser),
        .s_axis_tlast(tx_s_tlast),
        .s_axis_tvalid(tx_s_tvalid), .s_axis_tready(tx_s_tready),
        .m_axis_tdata(tx_m_tdata), .m_axis_tkeep(tx_m_tkeep), .m_axis_tuser(tx_m_tuser),
        .m_axis_tlast(tx_m_tlast),
        .m_axis_tvalid(tx_m_tvalid), .m_axis_tready(tx_m_tready),
        .advance(tx_advance), .c_bytes(tx_c_bytes), .c_first(tx_c_first), .b_flow(tx_b_flow),
        .e_word(tx_e_word), .e_first(tx_e_first), .e_last(tx_e_last), .e_fragment(tx_e_fragment),
        .divert(1'b1),
        .m_changed(merged),
        .w_valid(committing && to_merger), .w_ready(merger_ready), .w_row(control[COMMIT*32 +: 9]),
        .w_data(row)
    );
    wire unused_merger = &{tx_advance, tx_c_bytes, tx_c_first, tx_b_flow, tx_e_word, tx_e_first,
        tx_e_last, tx_e_fragment,
        rx_changed};

    // Statistics: a packet counts with its last word, its bytes word by word.
    wire counts = advance && e_word;
    always_ff @(posedge clk) begin
        if (rst) begin
            kept_packets <= 0;
            kept_bytes <= 0;
            diverted_packets <= 0;
            diverted_bytes <= 0;
            merged_packets <= 0;
        end else begin
            if (counts && !diverted) kept_bytes <= kept_bytes + {24'd0, e_bytes};
            if (counts && diverted) diverted_bytes <= diverted_bytes + {24'd0, e_bytes};
            if (counts && e_last && !diverted) kept_packets <= kept_packets + 1'b1;
            if (counts && e_last && diverted) diverted_packets <= diverted_packets + 1'b1;
            if (merged) merged_packets <= merged_packets + 1'b1;
        end
    end
endmodule
`default_nettype wire
