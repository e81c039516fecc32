// The difference that replacing WORDS 16-bit words makes: the folded sum of all ~old + new (RFC
// 1624), for nf_checksum_update.
//
// Ports       s_old, s_new: the words before and after, in the same order; m_delta: the difference.
// Latency     1 cycle.
// Throughput  one a cycle.
`default_nettype none
module nf_checksum_delta #(
    parameter WORDS = 2                 // at most 2^14
) (
    input  wire                 clk,
    input  wire  [WORDS*16-1:0] s_old,
    input  wire  [WORDS*16-1:0] s_new,
    output logic [15:0]         m_delta
);
    logic [31:0] sum;
    wire  [16:0] once = {1'b0, sum[31:16]} + {1'b0, sum[15:0]};

    integer i;
    always_comb begin
        sum = 0;
        for (i = 0; i < WORDS; i = i + 1) begin
            sum = sum + {16'd0, ~s_old[i*16 +: 16]} + {16'd0, s_new[i*16 +: 16]};
        end
    end

    always_ff @(posedge clk) m_delta <= once[15:0] + {15'd0, once[16]};
endmodule
`default_nettype wire
