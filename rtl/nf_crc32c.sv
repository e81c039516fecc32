// CRC-32C (Castagnoli, reflected) of a key of fixed size, as a tree of exclusive-ors.
//
// Every bit of the remainder is a fixed exclusive-or of key bits; the loop below runs at
// elaboration only. The initial value is all ones and the result is complemented, so `crc` of the
// ASCII digits 1 to 9 is e3069283. Byte 0 of the key (bits 7 to 0) goes first.
//
// Ports       s_*: key, m_*: remainder.
// Latency     1 cycle.
// Throughput  one key a cycle.
// Depth       about log6(8 * BYTES / 2) LUTs: 4 for 64 bytes.
`default_nettype none
module nf_crc32c #(
    parameter BYTES = 16
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [BYTES*8-1:0] s_key,
    input  wire                s_valid,
    output logic [31:0]        m_crc,
    output logic               m_valid
);
    logic [31:0] crc;
    integer i;
    always_comb begin
        crc = 32'hffffffff;
        for (i = 0; i < BYTES * 8; i = i + 1) begin
            crc = {1'b0, crc[31:1]} ^ ({32{crc[0] ^ s_key[i]}} & 32'h82f63b78);
        end
    end

    always_ff @(posedge clk) begin
        m_crc <= ~crc;
        m_valid <= s_valid && !rst;
    end
endmodule
`default_nettype wire
