// Reorder buffer: what went to several replicas comes out in the order in which it was given out.
//
// Whoever gives a packet to a replica takes a ticket; the replica returns its result with the
// ticket, at any time and in any order, or returns it with `s_skip` if nothing is to come out (a
// dropped packet). Tickets are given out only while their place in the buffer is free, so results
// always find room. A result returned twice, or without a ticket, is the user's mistake and is
// ignored if its place is not waiting.
//
// Ports       t_*: tickets, s_*: results, always taken, m_*: results in order. `waiting`: tickets
//             out or results inside.
// Latency     2 cycles from a result that is next to its output.
// Throughput  one a cycle; a skipped place costs a cycle as well.
// Reset       synchronous; forgets all tickets.
`default_nettype none
module nf_reorder #(
    parameter WIDTH = 64,
    parameter DEPTH = 32,           // a power of two, at least 2
    parameter TICKET = $clog2(DEPTH)
) (
    input  wire               clk,
    input  wire               rst,
    output logic [TICKET-1:0] t_ticket,
    output logic              t_valid,
    input  wire               t_ready,
    input  wire  [TICKET-1:0] s_ticket,
    input  wire  [WIDTH-1:0]  s_data,
    input  wire               s_skip,
    input  wire               s_valid,
    output logic [WIDTH-1:0]  m_data,
    output logic              m_valid,
    input  wire               m_ready,
    output logic [TICKET:0]   waiting
);
    logic [WIDTH-1:0] memory [0:DEPTH-1];
    logic [DEPTH-1:0] given;    // ticket out, result not back
    logic [DEPTH-1:0] back;     // result in memory
    logic [DEPTH-1:0] skip;
    logic [TICKET:0]  next, oldest;

    wire [TICKET-1:0] head = oldest[TICKET-1:0];
    wire give = t_valid && t_ready;
    wire accept = s_valid && given[s_ticket];
    wire fetch = back[head] && (skip[head] || !m_valid || m_ready);
    wire show = fetch && !skip[head];

    assign waiting = next - oldest;
    assign t_valid = !waiting[TICKET];
    assign t_ticket = next[TICKET-1:0];

    always_ff @(posedge clk) begin
        if (accept) begin
            memory[s_ticket] <= s_data;
            skip[s_ticket] <= s_skip;
        end
        if (show) m_data <= memory[head];
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            next <= 0;
            oldest <= 0;
            given <= 0;
            back <= 0;
            m_valid <= 0;
        end else begin
            if (give) begin
                next <= next + 1'b1;
                given[t_ticket] <= 1;
            end
            if (accept) begin
                given[s_ticket] <= 0;
                back[s_ticket] <= 1;
            end
            if (fetch) begin
                oldest <= oldest + 1'b1;
                back[head] <= 0;
            end
            if (show) m_valid <= 1;
            else if (m_ready) m_valid <= 0;
        end
    end
endmodule
`default_nettype wire
