// Host DMA bridge: write bursts of clusters, as byte strobes have them, become writes of whole byte
// ranges in the host's memory.
//
// Clusters write 64 bytes a beat to addresses that are multiples of 64, with a strobe for each
// byte. A DMA engine of a NIC wants the address of the first byte, a length, and data that begins
// with the first byte. The first beat's lowest strobe gives the address, the number of strobes the
// length. Strobes of a burst are one range; a burst with a hole, or without any strobe in its first
// beat, is refused with b_error.
//
// Ports       aw_*, w_*, b_*: the write channels of AXI4 as far as they are used here, one burst at
//             a time, of at most DEPTH beats. m_*: data, from the first byte on; d_*: address and
//             length, when the data has left; d_bad: it was refused, there is no data.
// Latency     3 cycles from a burst's beat to data (a place other than a line's start: the next
//             beat); the descriptor follows the last beat.
// Throughput  one beat a cycle; 4 cycles between bursts.
// Reset       synchronous; drops what is inside.
`default_nettype none
module nf_spin_host_dma #(
    parameter DEPTH = 64                // beats in store, a power of two
) (
    input  wire          clk,
    input  wire          rst,
    input  wire  [63:0]  aw_address,
    input  wire          aw_valid,
    output logic         aw_ready,
    input  wire  [511:0] w_data,
    input  wire  [63:0]  w_strobe,
    input  wire          w_last,
    input  wire          w_valid,
    output logic         w_ready,
    output logic         b_valid,
    output logic         b_error,
    input  wire          b_ready,
    output logic [511:0] m_tdata,
    output logic [63:0]  m_tkeep,
    output logic         m_tlast,
    output logic         m_tvalid,
    input  wire          m_tready,
    output logic [63:0]  d_address,
    output logic [15:0]  d_bytes,
    output logic         d_bad,
    output logic         d_valid,
    input  wire          d_ready
);
    localparam [1:0] IDLE = 0, TAKE = 1, MOVE = 2, TELL = 3;
    logic [1:0]  state;
    logic [57:0] base;
    logic [5:0]  offset;
    logic [15:0] bytes;
    logic        first, hole, closed;   // closed: a strobe was low behind a high one

    // The strobes of a beat: how many, where the first is, whether they are one range.
    logic [6:0] count, lowest;
    integer i;
    always_comb begin
        count = 0;
        for (i = 0; i < 64; i = i + 1) count = count + {6'd0, w_strobe[i]};
        lowest = 64;
        for (i = 63; i >= 0; i = i - 1) if (w_strobe[i]) lowest = i[6:0];
    end
    wire [63:0] down = w_strobe >> lowest[5:0];
    wire        range = (down & (down + 64'd1)) == 0;
    wire        empty = count == 0;
    wire        ends_here = {1'b0, lowest} + {1'b0, count} != 8'd64;
    wire        bad = !range || (empty && first) || (!first && !empty && (closed || lowest != 0));

    wire         room, line_valid, line_ready, job_ready;
    wire [511:0] line;
    assign aw_ready = state == IDLE && job_ready;
    assign w_ready = state == TAKE && room;
    wire take = w_valid && w_ready;
    wire done = m_tvalid && m_tready && m_tlast;
    logic start;

    nf_queue #(.WIDTH(512), .DEPTH(DEPTH)) store (
        .clk(clk), .rst(rst || (state == TELL && hole)), .put(take && (first || !empty)),
        .put_data(w_data), .room(room),
        .valid(line_valid), .data(line), .take(line_ready)
    );
    nf_spin_align align (
        .clk(clk), .rst(rst), .j_offset(offset), .j_bytes(bytes), .j_valid(start),
        .j_ready(job_ready),
        .l_data(line), .l_valid(line_valid), .l_ready(line_ready),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_tvalid(m_tvalid),
        .m_tready(m_tready)
    );

    assign d_address = {base, offset};
    assign d_bytes = bytes;
    assign d_bad = hole;
    assign d_valid = state == TELL && !b_valid;
    wire told = d_valid && d_ready;

    always_ff @(posedge clk) begin
        if (aw_valid && aw_ready) begin
            base <= aw_address[63:6];
            first <= 1;
            hole <= 0;
            closed <= 0;
            bytes <= 0;
        end
        if (take) begin
            first <= 0;
            hole <= hole || bad;
            closed <= closed || ends_here || empty;
            bytes <= bytes + {9'd0, count};
            if (first) offset <= lowest[5:0];
        end
        if (told) b_error <= hole;
        if (rst) begin
            state <= IDLE;
            start <= 0;
            b_valid <= 0;
        end else begin
            start <= take && w_last && !hole && !bad;
            b_valid <= told || (b_valid && !b_ready);
            case (state)
                IDLE: if (aw_valid && aw_ready) state <= TAKE;
                TAKE: if (take && w_last) state <= hole || bad ? TELL : MOVE;
                MOVE: if (done) state <= TELL;
                TELL: if (told) state <= IDLE;
            endcase
        end
    end
    wire unused = &{1'b0, aw_address[5:0]};
endmodule
`default_nettype wire
