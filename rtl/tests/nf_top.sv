// What the wrappers' tests put in the place of a generated design: frames go out as they came, to
// the operating system if the first byte is odd, else to the port they came from. Nothing goes to
// the host, and registers read as their address.
`default_nettype none
module nf_top #(
    parameter integer DROP_WHEN_FULL = 0
) (
    input  wire          clk,
    input  wire          rst,
    input  wire  [ 63:0] time_ns,
    input  wire  [ 63:0] seed,
    input  wire  [511:0] s_axis_tdata,
    input  wire  [ 63:0] s_axis_tkeep,
    input  wire          s_axis_tlast,
    input  wire          s_axis_tvalid,
    output logic         s_axis_tready,
    input  wire  [ 15:0] s_axis_tuser,
    output logic [511:0] m_axis_tdata,
    output logic [ 63:0] m_axis_tkeep,
    output logic         m_axis_tlast,
    output logic         m_axis_tvalid,
    input  wire          m_axis_tready,
    output logic [ 15:0] m_axis_tuser,
    output logic [511:0] h_axis_tdata,
    output logic [ 63:0] h_axis_tkeep,
    output logic [127:0] h_axis_tuser,
    output logic         h_axis_tlast,
    output logic         h_axis_tvalid,
    input  wire          h_axis_tready,
    input  wire  [ 15:0] s_axil_awaddr,
    input  wire          s_axil_awvalid,
    output logic         s_axil_awready,
    input  wire  [ 31:0] s_axil_wdata,
    input  wire  [  3:0] s_axil_wstrb,
    input  wire          s_axil_wvalid,
    output logic         s_axil_wready,
    output logic [  1:0] s_axil_bresp,
    output logic         s_axil_bvalid,
    input  wire          s_axil_bready,
    input  wire  [ 15:0] s_axil_araddr,
    input  wire          s_axil_arvalid,
    output logic         s_axil_arready,
    output logic [ 31:0] s_axil_rdata,
    output logic [  1:0] s_axil_rresp,
    output logic         s_axil_rvalid,
    input  wire          s_axil_rready,
    output logic         rec_valid,
    output logic [  4:0] rec_kind,
    output logic [ 63:0] rec_data
);
    logic       midway;
    logic [7:0] kept;
    wire  [7:0] kind = midway ? kept : {7'd0, s_axis_tdata[0]};
    always_ff @(posedge clk) begin
        if (rst) midway <= 0;
        else if (s_axis_tvalid && s_axis_tready) midway <= !s_axis_tlast;
        kept <= kind;
        s_axil_rvalid <= s_axil_arvalid && !rst;
        s_axil_rdata <= {16'd0, s_axil_araddr};
        s_axil_bvalid <= s_axil_awvalid && s_axil_wvalid && !rst;
    end
    assign m_axis_tdata = s_axis_tdata;
    assign m_axis_tkeep = s_axis_tkeep;
    assign m_axis_tlast = s_axis_tlast;
    assign m_axis_tvalid = s_axis_tvalid;
    assign s_axis_tready = m_axis_tready;
    assign m_axis_tuser = {kind, s_axis_tuser[7:0]};
    assign {h_axis_tdata, h_axis_tkeep, h_axis_tuser, h_axis_tlast, h_axis_tvalid} = 0;
    assign {s_axil_awready, s_axil_wready, s_axil_arready} = 3'b111;
    assign {s_axil_bresp, s_axil_rresp} = 0;
    assign {rec_valid, rec_kind, rec_data} = 0;
    wire unused = &{time_ns, seed, s_axis_tuser[15:8], h_axis_tready, s_axil_awaddr, s_axil_wdata,
        s_axil_wstrb, s_axil_bready,
        s_axil_rready, DROP_WHEN_FULL != 0};
endmodule
`default_nettype wire
