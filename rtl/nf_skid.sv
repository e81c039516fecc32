// Skid buffer: cuts the paths of valid, data and ready between two halves of a stream.
//
// Two registers. Words go through `m_data`; the word that comes in the cycle in which the receiver
// stops finds room in `spare`, so `s_ready` can be a register that knows nothing of `m_ready` in
// the same cycle.
//
// Ports       s_*: in, m_*: out, valid/ready. All outputs are registers.
// Latency     1 cycle.
// Throughput  one word a cycle.
// Reset       synchronous; drops what is inside.
`default_nettype none
module nf_skid #(
    parameter WIDTH = 577
) (
    input  wire              clk,
    input  wire              rst,
    input  wire  [WIDTH-1:0] s_data,
    input  wire              s_valid,
    output logic             s_ready,
    output logic [WIDTH-1:0] m_data,
    output logic             m_valid,
    input  wire              m_ready
);
    logic [WIDTH-1:0] spare;

    always_ff @(posedge clk) begin
        if (!m_valid || m_ready) m_data <= s_ready ? s_data : spare;
        if (s_ready) spare <= s_data;
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            m_valid <= 0;
            s_ready <= 1;
        end else if (!m_valid || m_ready) begin
            m_valid <= s_valid || !s_ready;
            s_ready <= 1;
        end else if (s_valid) begin
            s_ready <= 0;
        end
    end
endmodule
`default_nettype wire
