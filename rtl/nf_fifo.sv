// Stream FIFO in block or distributed memory.
//
// A word is whatever the stream carries in one transfer, usually {tuser, tlast, tkeep, tdata}. The
// memory is read into a register (`m_data`), as block memory wants it, so the queue holds DEPTH
// words in memory and one more at its output. With PACKETS = 1 a packet appears at the output only
// when its last word is inside, so that what follows never waits inside a packet; a packet longer
// than DEPTH words would then wait for ever, which is avoided by letting a full queue go out early.
//
// Ports       s_*: in, m_*: out, both valid/ready. s_last is used only with PACKETS = 1. `level`:
//             words inside.
// Latency     2 cycles from s to m when empty.
// Throughput  one word a cycle, also when full or empty.
// Reset       synchronous; empties the queue, memory keeps its old words unseen.
`default_nettype none
module nf_fifo #(
    parameter WIDTH = 577,
    parameter DEPTH = 16,           // a power of two, at least 2
    parameter PACKETS = 0,
    parameter ADDRESS = $clog2(DEPTH)
) (
    input  wire              clk,
    input  wire              rst,
    input  wire  [WIDTH-1:0] s_data,
    input  wire              s_last,
    input  wire              s_valid,
    output logic             s_ready,
    output logic [WIDTH-1:0] m_data,
    output logic             m_valid,
    input  wire              m_ready,
    output logic [ADDRESS+1:0] level
);
    logic [WIDTH-1:0] memory [0:DEPTH-1];
    logic ends [0:DEPTH-1];             // is a word a packet's last
    logic [ADDRESS:0] written, read;    // one bit more than an address: full and empty differ
    logic [ADDRESS:0] packets;          // whole packets in memory
    logic             leaving;          // inside a packet that goes out

    wire [ADDRESS:0] held = written - read;
    wire full = held[ADDRESS];
    wire allowed = PACKETS == 0 || packets != 0 || full || leaving;
    wire fetch = held != 0 && allowed && (!m_valid || m_ready);
    wire store = s_valid && s_ready;
    wire fetch_last = fetch && ends[read[ADDRESS-1:0]];

    assign s_ready = !full;
    assign level = {1'b0, held} + {{(ADDRESS + 1){1'b0}}, m_valid};

    always_ff @(posedge clk) begin
        if (store) begin
            memory[written[ADDRESS-1:0]] <= s_data;
            ends[written[ADDRESS-1:0]] <= s_last;
        end
        if (fetch) m_data <= memory[read[ADDRESS-1:0]];
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            written <= 0;
            read <= 0;
            packets <= 0;
            leaving <= 0;
            m_valid <= 0;
        end else begin
            if (store) written <= written + 1'b1;
            if (fetch) begin
                read <= read + 1'b1;
                leaving <= !fetch_last;
            end
            packets <= packets + {{ADDRESS{1'b0}}, store && s_last} - {{ADDRESS{1'b0}}, fetch_last};
            if (fetch) m_valid <= 1;
            else if (m_ready) m_valid <= 0;
        end
    end
endmodule
`default_nettype wire
