// Arbiter: several packet streams into one, whole packets, in turn.
//
// The input after the one served last goes first (round robin), so no input waits for more than one
// packet of each other. A choice is kept from the first word offered to the last word taken, also
// while the receiver stalls, as AXI4-Stream wants it.
//
// Ports       s_*: PORTS inputs side by side (input i in bits i of valid, ready, last and WIDTH
//             bits of data), m_*: the output, `m_port`: which input it is.
// Latency     0 cycles (a multiplexer); put nf_skid behind where the path is too long.
// Throughput  one word a cycle, no gap between packets.
// Reset       synchronous; forgets a packet that is half through: reset the senders with it.
`default_nettype none
module nf_arbiter #(
    parameter PORTS = 4,
    parameter WIDTH = 576,
    parameter INDEX = $clog2(PORTS)
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire  [PORTS*WIDTH-1:0] s_data,
    input  wire  [PORTS-1:0]       s_last,
    input  wire  [PORTS-1:0]       s_valid,
    output logic [PORTS-1:0]       s_ready,
    output logic [WIDTH-1:0]       m_data,
    output logic                   m_last,
    output logic                   m_valid,
    input  wire                    m_ready,
    output logic [INDEX-1:0]       m_port
);
    logic [PORTS-1:0] owner;    // one-hot, the input whose packet is under way
    logic             busy;
    logic [PORTS-1:0] masked;   // inputs behind the one served last
    logic [PORTS-1:0] choice;

    // The lowest input in turn: first among those behind the last one, then among all.
    wire [PORTS-1:0] waiting = (s_valid & masked) != 0 ? s_valid & masked : s_valid;
    wire [PORTS-1:0] lowest = waiting & (~waiting + 1'b1);

    assign choice = busy ? owner : lowest;
    assign m_valid = (s_valid & choice) != 0;
    assign m_last = (s_last & choice) != 0;
    assign s_ready = choice & {PORTS{m_ready}};

    integer i;
    always_comb begin
        m_data = 0;
        m_port = 0;
        for (i = 0; i < PORTS; i = i + 1) begin
            if (choice[i]) begin
                m_data = m_data | s_data[i*WIDTH +: WIDTH];
                m_port = m_port | i[INDEX-1:0];
            end
        end
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            busy <= 0;
            owner <= 0;
            masked <= 0;
        end else if (m_valid) begin
            busy <= !(m_ready && m_last);
            owner <= choice;
            masked <= ~(choice | (choice - 1'b1));
        end
    end
endmodule
`default_nettype wire
