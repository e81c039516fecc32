// Exact order of use of a few entries: which one was used longest ago.
//
// A matrix of bits (Maruyama 1976): bit (i, j) says that entry i was used after entry j. A use sets
// row i and clears column i. The oldest entry is the one whose row is empty. Only half of the
// matrix is kept, since (j, i) is the opposite of (i, j).
//
// Ports       s_*: an entry is used now; `oldest`: what to evict next.
// Latency     1 cycle from a use to `oldest`.
// Throughput  one use a cycle.
// Area        ENTRIES * (ENTRIES - 1) / 2 flip-flops; meant for up to 32 entries.
// Reset       synchronous; entry 0 is the oldest, then 1, and so on.
`default_nettype none
module nf_lru #(
    parameter ENTRIES = 8,
    parameter INDEX = $clog2(ENTRIES)
) (
    input  wire              clk,
    input  wire              rst,
    input  wire              s_valid,
    input  wire  [INDEX-1:0] s_index,
    output logic [INDEX-1:0] oldest
);
    // after[i * ENTRIES + j], used for i > j only: entry i was used after entry j.
    logic [ENTRIES*ENTRIES-1:0] after;
    logic [ENTRIES-1:0]         newer;      // than some other entry

    integer i, j;
    always_ff @(posedge clk) begin
        for (i = 0; i < ENTRIES; i = i + 1) begin
            for (j = 0; j < ENTRIES; j = j + 1) begin
                if (i <= j) after[i*ENTRIES + j] <= 0;
                else if (rst) after[i*ENTRIES + j] <= 1;
                else if (s_valid && s_index == i[INDEX-1:0]) after[i*ENTRIES + j] <= 1;
                else if (s_valid && s_index == j[INDEX-1:0]) after[i*ENTRIES + j] <= 0;
            end
        end
    end

    integer p, q;
    always_comb begin
        newer = 0;
        for (p = 0; p < ENTRIES; p = p + 1) begin
            for (q = 0; q < p; q = q + 1) begin
                if (after[p*ENTRIES + q]) newer[p] = 1;
                else newer[q] = 1;
            end
        end
        oldest = 0;
        for (p = 0; p < ENTRIES; p = p + 1) if (!newer[p]) oldest = oldest | p[INDEX-1:0];
    end
endmodule
`default_nettype wire
