// AXI4-Lite registers: control words that the host writes and reads, statistics that it reads.
//
// Words of 32 bits. Control word i is at address 4 * i and keeps what was written (byte strobes
// count); `written` pulses for it. Statistics word i is at 4 * (CONTROL + i) and is sampled when
// its address is taken; 64-bit counters are two words, low first: reading the low word keeps the
// high one for the next read, if STATUS words are declared in pairs with PAIRS = 1, so that both
// belong together. Addresses outside, and writes to statistics, are answered with SLVERR and change
// nothing. Addresses need not be aligned: the two low bits are ignored, as the bus wants it of
// 32-bit registers.
//
// Ports       s_axil_*: the bus (one outstanding read and one write), `control`: all control words,
//             `status`: all statistics.
// Latency     a read is answered the cycle after its address, a write the cycle after address and
//             data are both there.
// Throughput  one read and one write every two cycles.
// Reset       synchronous; control words take INITIAL.
`default_nettype none
module nf_axil_registers #(
    parameter CONTROL = 4,
    parameter STATUS = 4,
    parameter PAIRS = 0,
    parameter [CONTROL*32-1:0] INITIAL = 0,
    // control words that can be read back; others read as zero and cost less
    parameter [CONTROL-1:0] READABLE = ~0,
    // 0: control words are written whole, whatever the strobes, which costs less
    parameter STROBES = 1,
    parameter ADDRESS = $clog2(CONTROL + STATUS) + 2
) (
    input  wire                   clk,
    input  wire                   rst,
    input  wire  [ADDRESS-1:0]    s_axil_awaddr,
    input  wire                   s_axil_awvalid,
    output logic                  s_axil_awready,
    input  wire  [31:0]           s_axil_wdata,
    input  wire  [3:0]            s_axil_wstrb,
    input  wire                   s_axil_wvalid,
    output logic                  s_axil_wready,
    output logic [1:0]            s_axil_bresp,
    output logic                  s_axil_bvalid,
    input  wire                   s_axil_bready,
    input  wire  [ADDRESS-1:0]    s_axil_araddr,
    input  wire                   s_axil_arvalid,
    output logic                  s_axil_arready,
    output logic [31:0]           s_axil_rdata,
    output logic [1:0]            s_axil_rresp,
    output logic                  s_axil_rvalid,
    input  wire                   s_axil_rready,
    output logic [CONTROL*32-1:0] control,
    output logic [CONTROL-1:0]    written,
    input  wire  [STATUS*32-1:0]  status
);
    localparam [1:0] OKAY = 2'b00, SLVERR = 2'b10;
    localparam WORD = ADDRESS - 2;

    wire [WORD-1:0] write_word = s_axil_awaddr[ADDRESS-1:2];
    wire [WORD-1:0] read_word = s_axil_araddr[ADDRESS-1:2];
    wire unused = &{s_axil_awaddr[1:0], s_axil_araddr[1:0], s_axil_wstrb};
    wire write = s_axil_awvalid && s_axil_wvalid && s_axil_awready;
    wire read = s_axil_arvalid && s_axil_arready;

    assign s_axil_awready = s_axil_wvalid && s_axil_awvalid && (!s_axil_bvalid || s_axil_bready);
    assign s_axil_wready = s_axil_awready;
    assign s_axil_arready = !s_axil_rvalid || s_axil_rready;

    logic [CONTROL-1:0]        write_to;
    logic [CONTROL+STATUS-1:0] read_from;
    integer k;
    always_comb begin
        for (k = 0; k < CONTROL; k = k + 1) write_to[k] = write && write_word == k[WORD-1:0];
        for (k = 0; k < CONTROL + STATUS; k = k + 1) read_from[k] = read_word == k[WORD-1:0];
    end

    integer i, b;
    always_ff @(posedge clk) begin
        written <= rst ? {CONTROL{1'b0}} : write_to;
        for (i = 0; i < CONTROL; i = i + 1) begin
            for (b = 0; b < 4; b = b + 1) begin
                if (rst) control[i*32 + b*8 +: 8] <= INITIAL[i*32 + b*8 +: 8];
                else if (write_to[i] && (STROBES == 0 || s_axil_wstrb[b])) control[i*32
                    + b*8 +: 8] <= s_axil_wdata[b*8 +: 8];
            end
        end
    end

    // The high words of pairs, as they were when the low word was read.
    logic [31:0]      kept;
    logic [31:0]      value, partner;
    integer j;
    always_comb begin
        value = 0;
        partner = 0;
        for (j = 0; j < CONTROL; j = j + 1) begin
            if (READABLE[j]) value = value | (control[j*32 +: 32] & {32{read_from[j]}});
        end
        for (j = 0; j < STATUS; j = j + 1) begin
            if (PAIRS != 0 && j[0]) value = value | (kept & {32{read_from[CONTROL + j]}});
            else value = value | (status[j*32 +: 32] & {32{read_from[CONTROL + j]}});
            if (j[0]) partner = partner | (status[j*32 +: 32] & {32{read_from[CONTROL + j - 1]}});
        end
    end

    always_ff @(posedge clk) begin
        if (read) begin
            s_axil_rdata <= value;
            s_axil_rresp <= read_from != 0 ? OKAY : SLVERR;
            kept <= partner;
        end
        if (write) s_axil_bresp <= write_to != 0 ? OKAY : SLVERR;
        if (rst) begin
            s_axil_bvalid <= 0;
            s_axil_rvalid <= 0;
        end else begin
            if (write) s_axil_bvalid <= 1;
            else if (s_axil_bready) s_axil_bvalid <= 0;
            if (read) s_axil_rvalid <= 1;
            else if (s_axil_rready) s_axil_rvalid <= 0;
        end
    end
endmodule
`default_nettype wire
