// Incremental update of an Internet checksum (RFC 1624, equation 3): HC' = ~(~HC + ~m + m') over
// all 16-bit words that change.
//
// The words' difference, the sum of ~m + m' folded to 16 bits, often is a constant of the
// configuration (nf_balance uses it so); then only `s_delta` changes with the packet.
// nf_checksum_delta makes it from words. With `s_udp` a checksum of zero means "none" and stays
// zero, and a result of zero is written as 0xffff, which means the same number.
//
// Ports       s_*: checksum field and difference, m_*: new field.
// Latency     1 cycle.
// Throughput  one update a cycle.
// Reset       drops what is under way.
`default_nettype none
module nf_checksum_update (
    input  wire         clk,
    input  wire         rst,
    input  wire  [15:0] s_checksum,
    input  wire  [15:0] s_delta,
    input  wire         s_udp,
    input  wire         s_valid,
    output logic [15:0] m_checksum,
    output logic        m_valid
);
    wire [16:0] sum = {1'b0, ~s_checksum} + {1'b0, s_delta};
    wire [15:0] folded = ~(sum[15:0] + {15'd0, sum[16]});

    always_ff @(posedge clk) begin
        if (s_udp && s_checksum == 0) m_checksum <= 0;
        else if (s_udp && folded == 0) m_checksum <= 16'hffff;
        else m_checksum <= folded;
        m_valid <= s_valid && !rst;
    end
endmodule
`default_nettype wire
