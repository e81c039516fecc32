// A generated design between the two streams of one 100G MAC: what is received goes through it,
// what it sends is transmitted.
//
// A MAC's receive stream cannot wait. Words go through a queue; if a packet's first word finds less
// room than a whole packet may need, the packet is dropped whole and counted, and so is the rest of
// a packet whose words find the queue full. The receiver marks bad frames with tuser[0] in their
// last word; the design drops those. What the design hands to the operating system or the host is
// not sent; it is taken and counted. Time is cycles times 4 ns (250 MHz). Wire `axil` to nothing or
// to a debug core: tables are then as after reset.
//
// Ports       rx_*: from the MAC (no ready), tx_*: to the MAC, stat_*: pulses.
// Latency     2 cycles more than the design's.
// Throughput  one word a cycle: 128 Gbit/s at 250 MHz.
// Reset       synchronous, high.
`default_nettype none
module nf_mac_loopback #(
    parameter DEPTH = 64,               // words of the receive queue, a power of two
    parameter LONGEST = 24              // words of the longest frame
) (
    input  wire         clk,
    input  wire         rst,
    input  wire  [511:0] rx_tdata,
    input  wire  [63:0]  rx_tkeep,
    input  wire          rx_tuser,
    input  wire          rx_tlast,
    input  wire          rx_tvalid,
    output logic [511:0] tx_tdata,
    output logic [63:0]  tx_tkeep,
    output logic         tx_tuser,
    output logic         tx_tlast,
    output logic         tx_tvalid,
    input  wire          tx_tready,
    output logic         stat_rx_dropped,
    output logic         stat_not_sent
);
    // A packet goes in whole or not at all.
    logic dropping, midway;
    wire  full;
    wire [$clog2(DEPTH)+1:0] level;
    localparam [31:0] ROOM = DEPTH - LONGEST;
    wire no_room = {{(30 - $clog2(DEPTH)){1'b0}}, level} > ROOM;
    wire drop = midway ? dropping : no_room;
    wire queue_ready;
    assign full = !queue_ready;
    always_ff @(posedge clk) begin
        if (rst) begin
            midway <= 0;
            dropping <= 0;
        end else if (rx_tvalid) begin
            midway <= !rx_tlast;
            dropping <= drop;
        end
        stat_rx_dropped <= rx_tvalid && rx_tlast && drop && !rst;
    end

    logic [511:0] q_tdata;
    logic [63:0]  q_tkeep;
    logic         q_tuser, q_tlast;
    wire          q_tvalid, q_tready;
    nf_fifo #(.WIDTH(578), .DEPTH(DEPTH)) queue (
        .clk(clk), .rst(rst),
        .s_data({rx_tuser, rx_tlast, rx_tkeep, rx_tdata}), .s_last(rx_tlast),
        .s_valid(rx_tvalid && !drop), .s_ready(queue_ready),
        .m_data({q_tuser, q_tlast, q_tkeep, q_tdata}), .m_valid(q_tvalid), .m_ready(q_tready),
        .level(level)
    );

    logic [63:0] time_ns;
    always_ff @(posedge clk) time_ns <= rst ? 64'd0 : time_ns + 64'd4;

    wire [511:0] m_tdata;
    wire [63:0]  m_tkeep;
    wire [15:0]  m_tuser;
    wire         m_tlast, m_tvalid;
    wire         to_port = m_tuser[15:8] == 8'd0;
    wire [511:0] h_tdata;
    wire [63:0]  h_tkeep;
    wire [127:0] h_tuser;
    wire         h_tlast, h_tvalid, rec_valid;
    wire [4:0]   rec_kind;
    wire [63:0]  rec_data;
    wire         axil_awready, axil_wready, axil_bvalid, axil_arready, axil_rvalid;
    wire [1:0]   axil_bresp, axil_rresp;
    wire [31:0]  axil_rdata;
    nf_top #(.DROP_WHEN_FULL(0)) design_ (
        .clk(clk), .rst(rst), .time_ns(time_ns), .seed(time_ns),
        .s_axis_tdata(q_tdata), .s_axis_tkeep(q_tkeep), .s_axis_tlast(q_tlast),
        .s_axis_tvalid(q_tvalid), .s_axis_tready(q_tready),
        .s_axis_tuser({7'b0, q_tuser, 8'd0}),
        .m_axis_tdata(m_tdata), .m_axis_tkeep(m_tkeep), .m_axis_tlast(m_tlast),
        .m_axis_tvalid(m_tvalid),
        .m_axis_tready(!to_port || tx_tready), .m_axis_tuser(m_tuser),
        .h_axis_tdata(h_tdata), .h_axis_tkeep(h_tkeep), .h_axis_tuser(h_tuser),
        .h_axis_tlast(h_tlast), .h_axis_tvalid(h_tvalid), .h_axis_tready(1'b1),
        .s_axil_awaddr(16'd0), .s_axil_awvalid(1'b0), .s_axil_awready(axil_awready),
        .s_axil_wdata(32'd0), .s_axil_wstrb(4'd0), .s_axil_wvalid(1'b0),
        .s_axil_wready(axil_wready),
        .s_axil_bresp(axil_bresp), .s_axil_bvalid(axil_bvalid), .s_axil_bready(1'b1),
        .s_axil_araddr(16'd0), .s_axil_arvalid(1'b0), .s_axil_arready(axil_arready),
        .s_axil_rdata(axil_rdata), .s_axil_rresp(axil_rresp), .s_axil_rvalid(axil_rvalid),
        .s_axil_rready(1'b1),
        .rec_valid(rec_valid), .rec_kind(rec_kind), .rec_data(rec_data)
    );
    wire unused = &{full, h_tdata, h_tkeep, h_tuser, rec_valid, rec_kind, rec_data, axil_awready,
        axil_wready, axil_bvalid, axil_arready,
        axil_rvalid, axil_bresp, axil_rresp, axil_rdata, m_tuser[7:0]};

    assign tx_tdata = m_tdata;
    assign tx_tkeep = m_tkeep;
    assign tx_tuser = 1'b0;
    assign tx_tlast = m_tlast;
    assign tx_tvalid = m_tvalid && to_port;
    assign stat_not_sent = (m_tvalid && m_tlast && !to_port) || (h_tvalid && h_tlast);
endmodule
`default_nettype wire
