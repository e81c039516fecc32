// Internet checksum (RFC 1071) over chosen bytes of a stream's packets.
//
// Bytes count if their bit in `s_keep` is set; the others are zero to the sum. Byte 0 of a word is
// the high half of a 16-bit word, so a range that starts at an odd byte gives a sum with its halves
// exchanged. An adder tree in two stages, then the running sum, then folding. What is to come into
// the sum besides (a pseudo header) goes into `s_start`, taken with the packet's last word.
//
// Ports       s_*: words of a packet, always taken. m_*: one pulse a packet with the complement of
//             the sum: over data that hold a right checksum it is zero.
// Latency     4 cycles from the last word.
// Throughput  one word a cycle, packets back to back.
// Reset       drops what is under way; the next word is a packet's first.
`default_nettype none
module nf_checksum #(
    parameter BYTES = 64                // a multiple of 16
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [BYTES*8-1:0] s_data,
    input  wire  [BYTES-1:0]   s_keep,
    input  wire                s_last,
    input  wire  [15:0]        s_start,
    input  wire                s_valid,
    output logic               m_valid,
    output logic [15:0]        m_checksum
);
    localparam GROUPS = BYTES / 16;     // eight 16-bit words each

    logic [GROUPS*19-1:0] partial, partial_next;
    logic [15:0]          start, start_total;
    logic                 valid_1, last_1, valid_2, last_2, valid_3;
    logic [19+GROUPS-1:0] total, total_next;
    logic [31:0]          running, folded;
    logic                 first;

    integer g, w;
    always_comb begin
        partial_next = 0;
        for (g = 0; g < GROUPS; g = g + 1) begin
            for (w = 0; w < 8; w = w + 1) begin
                partial_next[g*19 +: 19] = partial_next[g*19 +: 19] + {3'b0,
                    s_data[(g*16 + w*2)*8 +: 8] & {8{s_keep[g*16 + w*2]}},
                    s_data[(g*16 + w*2 + 1)*8 +: 8] & {8{s_keep[g*16 + w*2 + 1]}}};
            end
        end
    end

    integer h;
    always_comb begin
        total_next = 0;
        for (h = 0; h < GROUPS; h = h + 1) total_next = total_next
            + {{GROUPS{1'b0}}, partial[h*19 +: 19]};
    end

    // Packets of at most 2^12 words: the running sum stays below 2^32 and folds in two steps.
    wire [31:0] sum = (first ? 32'd0 : running) + {{(13 - GROUPS){1'b0}}, total}
        + {16'd0, last_2 ? start_total : 16'd0};
    wire [16:0] once = {1'b0, folded[31:16]} + {1'b0, folded[15:0]};
    wire [15:0] twice = once[15:0] + {15'd0, once[16]};

    always_ff @(posedge clk) begin
        partial <= partial_next;
        start <= s_start;
        total <= total_next;
        start_total <= start;
        if (valid_2) running <= sum;
        folded <= sum;
        m_checksum <= ~twice;
    end

    always_ff @(posedge clk) begin
        if (rst) begin
            valid_1 <= 0;
            valid_2 <= 0;
            valid_3 <= 0;
            m_valid <= 0;
            first <= 1;
        end else begin
            valid_1 <= s_valid;
            valid_2 <= valid_1;
            valid_3 <= valid_2 && last_2;
            m_valid <= valid_3;
            if (valid_2) first <= last_2;
        end
        last_1 <= s_last;
        last_2 <= last_1;
    end
endmodule
`default_nettype wire
