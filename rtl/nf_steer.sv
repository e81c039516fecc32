// Steering demultiplexer: each packet of one stream to one of several.
//
// `s_port` counts on a packet's first word and is kept for the rest. A packet for an output that
// does not exist is taken in and dropped whole, with one pulse of `dropped`. A packet whose output
// stalls holds up all behind it; where outputs are to be independent, put nf_fifo behind each.
//
// Ports       s_*: in, m_*: PORTS outputs, which share `m_data` and `m_last`.
// Latency     0 cycles (valid and ready are gates, data are wires).
// Throughput  one word a cycle.
// Reset       synchronous; the next word is a packet's first.
`default_nettype none
module nf_steer #(
    parameter PORTS = 4,
    parameter WIDTH = 576,
    parameter INDEX = $clog2(PORTS) + 1
) (
    input  wire              clk,
    input  wire              rst,
    input  wire  [WIDTH-1:0] s_data,
    input  wire              s_last,
    input  wire  [INDEX-1:0] s_port,
    input  wire              s_valid,
    output logic             s_ready,
    output logic [WIDTH-1:0] m_data,
    output logic             m_last,
    output logic [PORTS-1:0] m_valid,
    input  wire  [PORTS-1:0] m_ready,
    output logic             dropped
);
    logic             midway;   // behind a packet's first word
    logic [PORTS-1:0] kept;
    logic [PORTS-1:0] chosen;

    integer i;
    always_comb begin
        for (i = 0; i < PORTS; i = i + 1) chosen[i] = midway ? kept[i] : s_port == i[INDEX-1:0];
    end

    wire nowhere = chosen == 0;
    assign m_data = s_data;
    assign m_last = s_last;
    assign m_valid = chosen & {PORTS{s_valid}};
    assign s_ready = nowhere || (chosen & m_ready) != 0;
    assign dropped = nowhere && s_valid && s_last;

    always_ff @(posedge clk) begin
        if (rst) midway <= 0;
        else if (s_valid && s_ready) midway <= !s_last;
        if (s_valid && s_ready && !midway) kept <= chosen;
    end
endmodule
`default_nettype wire
