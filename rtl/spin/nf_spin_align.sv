// Bytes from any place in lines of 64 bytes to beats of a stream that begin with the first of them.
//
// A job is an offset in its first line and a number of bytes (at least 1); its lines come one
// behind the other. Beats are joined from two lines; a job that begins at a line's start passes as
// it is.
//
// Ports       j_*: jobs; l_*: lines; m_*: AXI4-Stream.
// Latency     1 cycle from the line that has a beat's last byte.
// Throughput  one line a cycle; a job takes a cycle more if its last beat comes from one line and a
//             place other than its start.
// Reset       synchronous; drops what is inside.
`default_nettype none
module nf_spin_align (
    input  wire          clk,
    input  wire          rst,
    input  wire  [5:0]   j_offset,
    input  wire  [15:0]  j_bytes,
    input  wire          j_valid,
    output logic         j_ready,
    input  wire  [511:0] l_data,
    input  wire          l_valid,
    output logic         l_ready,
    output logic [511:0] m_tdata,
    output logic [63:0]  m_tkeep,
    output logic         m_tlast,
    output logic         m_tvalid,
    input  wire          m_tready
);
    logic         busy, first;          // in a job; before its first line
    logic [5:0]   offset;
    logic [15:0]  left;                 // bytes of beats to come
    logic [511:0] kept;                 // the line before

    wire out = !m_tvalid || m_tready;
    // The line before has all that is left, behind the offset.
    wire flush = busy && !first && offset != 0 && left <= 16'd64 - {10'd0, offset};
    wire alone = first && (offset == 0 || left <= 16'd64 - {10'd0, offset});
    wire makes = offset == 0 || !first || alone;
    assign l_ready = busy && !flush && (out || !makes);
    wire line = l_valid && l_ready;
    wire beat = (line && makes) || (flush && out);
    wire [1023:0] joined = first || offset == 0 ? {512'd0, l_data}
        : {flush ? 512'd0 : l_data, kept};
    wire [511:0]  moved = joined[8*offset +: 512];
    wire          ends = left <= 64;
    assign j_ready = !busy;

    always_ff @(posedge clk) begin
        if (line) begin
            kept <= l_data;
            first <= 0;
        end
        if (beat) begin
            m_tdata <= moved;
            m_tkeep <= ends ? ~(~64'd0 << left[6:0]) : ~64'd0;
            m_tlast <= ends;
            left <= left - 16'd64;
        end
        if (j_valid && j_ready) begin
            offset <= j_offset;
            left <= j_bytes;
            first <= 1;
        end
        if (rst) begin
            busy <= 0;
            m_tvalid <= 0;
        end else begin
            busy <= busy ? !(beat && ends) : j_valid;
            m_tvalid <= beat || (m_tvalid && !m_tready);
        end
    end
endmodule
`default_nettype wire
