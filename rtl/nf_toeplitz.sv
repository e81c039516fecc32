// Toeplitz hash, as receive-side scaling uses it: exclusive-or of the 32-bit windows of a secret at
// the input's one bits.
//
// Input and secret are in network order: bit IN-1 of `s_input` is the first. `secret` may change at
// run time; a lookup under way then mixes both.
//
// Ports       s_*: input, m_*: hash.
// Latency     2 cycles: groups of 16 input bits, then all groups.
// Throughput  one input a cycle.
`default_nettype none
module nf_toeplitz #(
    parameter IN = 96                   // 96: both IPv4 addresses and ports; a multiple of 16
) (
    input  wire             clk,
    input  wire             rst,
    input  wire  [IN+31:0]  secret,
    input  wire  [IN-1:0]   s_input,
    input  wire             s_valid,
    output logic [31:0]     m_hash,
    output logic            m_valid
);
    localparam GROUPS = IN / 16;
    logic [GROUPS*32-1:0] group, group_next;
    logic [31:0]          hash;
    logic                 grouped;

    integer g, i;
    always_comb begin
        group_next = 0;
        for (g = 0; g < GROUPS; g = g + 1) begin
            for (i = 0; i < 16; i = i + 1) begin
                group_next[g*32 +: 32] = group_next[g*32 +: 32]
                    ^ (secret[g*16 + i + 1 +: 32] & {32{s_input[g*16 + i]}});
            end
        end
    end

    integer h;
    always_comb begin
        hash = 0;
        for (h = 0; h < GROUPS; h = h + 1) hash = hash ^ group[h*32 +: 32];
    end

    always_ff @(posedge clk) begin
        group <= group_next;
        grouped <= s_valid && !rst;
        m_hash <= hash;
        m_valid <= grouped && !rst;
    end
endmodule
`default_nettype wire
