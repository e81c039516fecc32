// Egress DMA: frames from memories of the NIC to the stream.
//
// A command is a byte address and a number of bytes. Its lines are asked for one a cycle, as far as
// there is room for answers, and become beats from the address on (nf_spin_align). A command is
// done when its last beat has left.
//
// Ports       c_*: commands, with a number. r_*: lines asked for, by line address (the byte address
//             without its low six bits); q_*: answers, in order, which cannot wait. m_*:
//             AXI4-Stream. done_*: pulses with the command's number.
// Latency     4 cycles and the memory's from a command to its first beat (a byte more than a line
//             away: one more).
// Throughput  one beat a cycle; 2 cycles between commands.
// Reset       synchronous; drops what is inside.
`default_nettype none
module nf_spin_egress #(
    parameter NUMBER = 8,               // bits
    parameter ROOM = 8                  // answers, a power of two
) (
    input  wire               clk,
    input  wire               rst,
    input  wire  [31:0]       c_address,
    input  wire  [15:0]       c_bytes,
    input  wire  [NUMBER-1:0] c_number,
    input  wire               c_valid,
    output logic              c_ready,
    output logic [25:0]       r_line,
    output logic              r_valid,
    input  wire               r_ready,
    input  wire  [511:0]      q_data,
    input  wire               q_valid,
    output logic [511:0]      m_tdata,
    output logic [63:0]       m_tkeep,
    output logic              m_tlast,
    output logic              m_tvalid,
    input  wire               m_tready,
    output logic              done_valid,
    output logic [NUMBER-1:0] done_number
);
    localparam R = $clog2(ROOM);

    logic              asking, sending;
    logic [25:0]       line;
    logic [10:0]       lines;           // still to ask for
    logic [R:0]        owed;            // answers under way or waiting
    logic [NUMBER-1:0] number;
    wire               job_ready, line_valid, line_ready, unused_room;
    wire [511:0]       line_data;
    wire [16:0]        reach = {11'd0, c_address[5:0]} + {1'b0, c_bytes} + 17'd63;

    assign c_ready = !asking && !sending && job_ready;
    wire starts = c_valid && c_ready;
    assign r_line = line;
    assign r_valid = asking && !owed[R];
    wire asks = r_valid && r_ready;
    wire takes = line_valid && line_ready;
    wire ends = m_tvalid && m_tready && m_tlast;
    wire unused = &{1'b0, reach[5:0], unused_room};

    nf_queue #(.WIDTH(512), .DEPTH(ROOM)) answers (
        .clk(clk), .rst(rst), .put(q_valid), .put_data(q_data), .room(unused_room),
        .valid(line_valid), .data(line_data), .take(line_ready)
    );
    nf_spin_align align (
        .clk(clk), .rst(rst), .j_offset(c_address[5:0]), .j_bytes(c_bytes), .j_valid(starts),
        .j_ready(job_ready),
        .l_data(line_data), .l_valid(line_valid), .l_ready(line_ready),
        .m_tdata(m_tdata), .m_tkeep(m_tkeep), .m_tlast(m_tlast), .m_tvalid(m_tvalid),
        .m_tready(m_tready)
    );

    always_ff @(posedge clk) begin
        if (starts) begin
            line <= c_address[31:6];
            lines <= reach[16:6];
            number <= c_number;
        end else if (asks) begin
            line <= line + 1'b1;
            lines <= lines - 1'b1;
        end
        done_number <= number;
        if (rst) begin
            {asking, sending, done_valid} <= 0;
            owed <= 0;
        end else begin
            asking <= starts || (asking && !(asks && lines == 1));
            sending <= starts || (sending && !ends);
            done_valid <= ends;
            owed <= owed + {{R{1'b0}}, asks} - {{R{1'b0}}, takes};
        end
    end
endmodule
`default_nettype wire
