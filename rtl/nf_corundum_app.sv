// A generated design as the application block of a Corundum-style NIC: on the way from the MACs to
// the NIC, and back.
//
// Two ports. Frames from the MACs (`s_axis_sync_rx`) go into the design, both ports through one
// arbiter; what the design sends goes to the MAC of the port it names (`m_axis_sync_tx`), what it
// hands to the operating system goes on into the NIC (`m_axis_sync_rx`) on the port it came from,
// and what the NIC transmits (`s_axis_sync_tx`) goes out between the design's packets. Names and
// roles of ports are those of Corundum's application block (per-port synchronous MAC streams,
// AXI4-Lite control, direct AXI stream to the host); vectors hold port 0 in the low bits. The
// block's 32-bit control bus is the design's: registers.h says what is where. Host messages and DMA
// writes leave on `m_axis_if_rx`, Corundum's stream into the DMA subsystem, as nf_egress lays them
// out.
//
// Ports       s_axis_sync_rx_tuser[0] marks a bad frame. ptp_ts: time in ns, the NIC's clock.
// Latency     the design's and 1 cycle at the arbiters; a queue of 2 cycles at each input.
// Throughput  one word a cycle through the design, shared by both ports: 128 Gbit/s at 250 MHz.
// Reset       synchronous, high.
`default_nettype none
module nf_corundum_app #(
    parameter DEPTH = 64                // words of an input queue, a power of two
) (
    input  wire           clk,
    input  wire           rst,
    input  wire  [63:0]   ptp_ts,
    input  wire  [15:0]   s_axil_app_ctrl_awaddr,
    input  wire           s_axil_app_ctrl_awvalid,
    output logic          s_axil_app_ctrl_awready,
    input  wire  [31:0]   s_axil_app_ctrl_wdata,
    input  wire  [3:0]    s_axil_app_ctrl_wstrb,
    input  wire           s_axil_app_ctrl_wvalid,
    output logic          s_axil_app_ctrl_wready,
    output logic [1:0]    s_axil_app_ctrl_bresp,
    output logic          s_axil_app_ctrl_bvalid,
    input  wire           s_axil_app_ctrl_bready,
    input  wire  [15:0]   s_axil_app_ctrl_araddr,
    input  wire           s_axil_app_ctrl_arvalid,
    output logic          s_axil_app_ctrl_arready,
    output logic [31:0]   s_axil_app_ctrl_rdata,
    output logic [1:0]    s_axil_app_ctrl_rresp,
    output logic          s_axil_app_ctrl_rvalid,
    input  wire           s_axil_app_ctrl_rready,
    input  wire  [1023:0] s_axis_sync_rx_tdata,
    input  wire  [127:0]  s_axis_sync_rx_tkeep,
    input  wire  [1:0]    s_axis_sync_rx_tuser,
    input  wire  [1:0]    s_axis_sync_rx_tlast,
    input  wire  [1:0]    s_axis_sync_rx_tvalid,
    output logic [1:0]    s_axis_sync_rx_tready,
    output logic [1023:0] m_axis_sync_rx_tdata,
    output logic [127:0]  m_axis_sync_rx_tkeep,
    output logic [1:0]    m_axis_sync_rx_tlast,
    output logic [1:0]    m_axis_sync_rx_tvalid,
    input  wire  [1:0]    m_axis_sync_rx_tready,
    input  wire  [1023:0] s_axis_sync_tx_tdata,
    input  wire  [127:0]  s_axis_sync_tx_tkeep,
    input  wire  [1:0]    s_axis_sync_tx_tlast,
    input  wire  [1:0]    s_axis_sync_tx_tvalid,
    output logic [1:0]    s_axis_sync_tx_tready,
    output logic [1023:0] m_axis_sync_tx_tdata,
    output logic [127:0]  m_axis_sync_tx_tkeep,
    output logic [1:0]    m_axis_sync_tx_tlast,
    output logic [1:0]    m_axis_sync_tx_tvalid,
    input  wire  [1:0]    m_axis_sync_tx_tready,
    output logic [511:0]  m_axis_if_rx_tdata,
    output logic [63:0]   m_axis_if_rx_tkeep,
    output logic [127:0]  m_axis_if_rx_tuser,
    output logic          m_axis_if_rx_tlast,
    output logic          m_axis_if_rx_tvalid,
    input  wire           m_axis_if_rx_tready
);
    localparam WORD = 577;              // {bad, keep, data}; last is apart

    // In: a queue per port that shows whole packets, so that a slow port does not hold up the
    // other, then in turn.
    wire [2*WORD-1:0] q_data;
    wire [1:0]        q_last, q_valid, q_ready;
    wire [1:0]        unused_queue;
    genvar p;
    generate
        for (p = 0; p < 2; p = p + 1) begin : port
            wire [WORD-1:0] word = {s_axis_sync_rx_tuser[p], s_axis_sync_rx_tkeep[p*64 +: 64],
                s_axis_sync_rx_tdata[p*512 +: 512]};
            wire [$clog2(DEPTH)+1:0] level;
            nf_fifo #(.WIDTH(WORD + 1), .DEPTH(DEPTH), .PACKETS(1)) queue (
                .clk(clk), .rst(rst),
                .s_data({s_axis_sync_rx_tlast[p], word}), .s_last(s_axis_sync_rx_tlast[p]),
                .s_valid(s_axis_sync_rx_tvalid[p]), .s_ready(s_axis_sync_rx_tready[p]),
                .m_data({q_last[p], q_data[p*WORD +: WORD]}), .m_valid(q_valid[p]),
                .m_ready(q_ready[p]), .level(level)
            );
            assign unused_queue[p] = &level;
        end
    endgenerate

    wire [WORD-1:0] in_data;
    wire            in_last, in_valid, in_ready, in_port;
    nf_arbiter #(.PORTS(2), .WIDTH(WORD)) in (
        .clk(clk), .rst(rst), .s_data(q_data), .s_last(q_last), .s_valid(q_valid),
        .s_ready(q_ready),
        .m_data(in_data), .m_last(in_last), .m_valid(in_valid), .m_ready(in_ready), .m_port(in_port)
    );

    wire [511:0] m_tdata;
    wire [63:0]  m_tkeep;
    wire [15:0]  m_tuser;
    wire         m_tlast, m_tvalid, m_tready, rec_valid;
    wire [4:0]   rec_kind;
    wire [63:0]  rec_data;
    nf_top #(.DROP_WHEN_FULL(0)) design_ (
        .clk(clk), .rst(rst), .time_ns(ptp_ts), .seed(ptp_ts),
        .s_axis_tdata(in_data[511:0]), .s_axis_tkeep(in_data[575:512]), .s_axis_tlast(in_last),
        .s_axis_tvalid(in_valid),
        .s_axis_tready(in_ready), .s_axis_tuser({7'b0, in_data[576], 7'b0, in_port}),
        .m_axis_tdata(m_tdata), .m_axis_tkeep(m_tkeep), .m_axis_tlast(m_tlast),
        .m_axis_tvalid(m_tvalid),
        .m_axis_tready(m_tready), .m_axis_tuser(m_tuser),
        .h_axis_tdata(m_axis_if_rx_tdata), .h_axis_tkeep(m_axis_if_rx_tkeep),
        .h_axis_tuser(m_axis_if_rx_tuser),
        .h_axis_tlast(m_axis_if_rx_tlast),
        .h_axis_tvalid(m_axis_if_rx_tvalid), .h_axis_tready(m_axis_if_rx_tready),
        .s_axil_awaddr(s_axil_app_ctrl_awaddr), .s_axil_awvalid(s_axil_app_ctrl_awvalid),
        .s_axil_awready(s_axil_app_ctrl_awready),
        .s_axil_wdata(s_axil_app_ctrl_wdata), .s_axil_wstrb(s_axil_app_ctrl_wstrb),
        .s_axil_wvalid(s_axil_app_ctrl_wvalid),
        .s_axil_wready(s_axil_app_ctrl_wready), .s_axil_bresp(s_axil_app_ctrl_bresp),
        .s_axil_bvalid(s_axil_app_ctrl_bvalid),
        .s_axil_bready(s_axil_app_ctrl_bready), .s_axil_araddr(s_axil_app_ctrl_araddr),
        .s_axil_arvalid(s_axil_app_ctrl_arvalid),
        .s_axil_arready(s_axil_app_ctrl_arready), .s_axil_rdata(s_axil_app_ctrl_rdata),
        .s_axil_rresp(s_axil_app_ctrl_rresp),
        .s_axil_rvalid(s_axil_app_ctrl_rvalid), .s_axil_rready(s_axil_app_ctrl_rready),
        .rec_valid(rec_valid), .rec_kind(rec_kind), .rec_data(rec_data)
    );
    wire unused = &{rec_valid, rec_kind, rec_data, m_tuser[14:9], m_tuser[7:1], unused_queue};

    // Out: to the MACs (outputs 0 and 1) or on into the NIC (2 and 3), by {kind, port}.
    wire [575:0] out_data;
    wire         out_last;
    wire [3:0]   out_valid, out_ready;
    wire         nowhere;
    nf_steer #(.PORTS(4), .WIDTH(576), .INDEX(3)) out (
        .clk(clk), .rst(rst), .s_data({m_tkeep, m_tdata}), .s_last(m_tlast),
        .s_port({m_tuser[15], m_tuser[8], m_tuser[0]}),
        .s_valid(m_tvalid), .s_ready(m_tready),
        .m_data(out_data), .m_last(out_last), .m_valid(out_valid), .m_ready(out_ready),
        .dropped(nowhere)
    );
    wire unused_nowhere = nowhere;
    assign m_axis_sync_rx_tdata = {2{out_data[511:0]}};
    assign m_axis_sync_rx_tkeep = {2{out_data[575:512]}};
    assign m_axis_sync_rx_tlast = {2{out_last}};
    assign m_axis_sync_rx_tvalid = out_valid[3:2];
    assign out_ready[3:2] = m_axis_sync_rx_tready;

    genvar t;
    generate
        for (t = 0; t < 2; t = t + 1) begin : transmit
            wire chosen;
            nf_arbiter #(.PORTS(2), .WIDTH(576)) arbiter (
                .clk(clk), .rst(rst),
                .s_data({s_axis_sync_tx_tkeep[t*64 +: 64], s_axis_sync_tx_tdata[t*512 +: 512],
                out_data}),
                .s_last({s_axis_sync_tx_tlast[t], out_last}),
                .s_valid({s_axis_sync_tx_tvalid[t], out_valid[t]}),
                .s_ready({s_axis_sync_tx_tready[t], out_ready[t]}),
                .m_data({m_axis_sync_tx_tkeep[t*64 +: 64], m_axis_sync_tx_tdata[t*512 +: 512]}),
                .m_last(m_axis_sync_tx_tlast[t]), .m_valid(m_axis_sync_tx_tvalid[t]),
                .m_ready(m_axis_sync_tx_tready[t]),
                .m_port(chosen)
            );
            wire unused_chosen = chosen;
        end
    endgenerate
endmodule
`default_nettype wire
