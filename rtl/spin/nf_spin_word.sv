// Bits of a frame's first 128 bytes from any even byte on; zeros lie behind those.
//
// Six multiplexers halve what can still be asked for, so that each is as narrow as it can be.
//
// Ports       front: 128 bytes, the first one highest; at: from which half-word on.
// Latency     0 cycles.
// Throughput  one a cycle.
`default_nettype none
module nf_spin_word #(
    parameter BITS = 32
) (
    input  wire  [1023:0]     front,
    input  wire  [5:0]        at,
    output logic [BITS-1:0]   word
);
    wire [BITS+1007:0] all = {front, {(BITS - 16){1'b0}}};
    wire [BITS+495:0] half = at[5] ? all[BITS+495:0] : all[BITS+1007:512];
    wire [BITS+239:0] quarter = at[4] ? half[BITS+239:0] : half[BITS+495:256];
    wire [BITS+111:0] eighth = at[3] ? quarter[BITS+111:0] : quarter[BITS+239:128];
    wire [BITS+47:0]  four = at[2] ? eighth[BITS+47:0] : eighth[BITS+111:64];
    wire [BITS+15:0]  two = at[1] ? four[BITS+15:0] : four[BITS+47:32];
    assign word = at[0] ? two[BITS-1:0] : two[BITS+15:16];
endmodule
`default_nettype wire
