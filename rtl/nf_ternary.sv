// Ternary table (TCAM) in registers: the first entry whose masked key equals the looked-up key.
//
// An entry matches if it is in use and (key ^ entry) & mask is zero; the lowest index wins, so the
// index is the priority. With all mask bits one it is an exact-match CAM. Every entry costs KEY * 2
// flip-flops and a comparator: meant for up to some hundred entries.
//
// Ports       s_*: lookup, always taken; m_*: answer with `m_hit`, `m_index` (undefined without a
//             hit) and `m_value`. w_*: writes entry `w_index`; `w_use` = 0 removes it. Lookups see
//             a write from the next cycle on.
// Latency     2 cycles: comparators, then the choice and the value.
// Throughput  one lookup and one write a cycle.
// Reset       synchronous; empties the table.
`default_nettype none
module nf_ternary #(
    parameter KEY = 32,
    parameter VALUE = 32,
    parameter ENTRIES = 32,
    parameter INDEX = $clog2(ENTRIES)
) (
    input  wire              clk,
    input  wire              rst,
    input  wire  [KEY-1:0]   s_key,
    input  wire              s_valid,
    output logic             m_valid,
    output logic             m_hit,
    output logic [INDEX-1:0] m_index,
    output logic [VALUE-1:0] m_value,
    input  wire              w_valid,
    input  wire  [INDEX-1:0] w_index,
    input  wire              w_use,
    input  wire  [KEY-1:0]   w_key,
    input  wire  [KEY-1:0]   w_mask,
    input  wire  [VALUE-1:0] w_value
);
    logic [KEY*ENTRIES-1:0]   keys, masks;
    logic [VALUE*ENTRIES-1:0] values;
    logic [ENTRIES-1:0]       used;
    logic [ENTRIES-1:0]       match;
    logic                     asked;
    // Values are written a cycle after keys, as they are read a cycle after keys: a write between
    // the two cycles of a lookup does not give it the value of another key.
    logic                     late;
    logic [INDEX-1:0]         late_index;
    logic [VALUE-1:0]         late_value;

    integer i;
    always_ff @(posedge clk) begin
        for (i = 0; i < ENTRIES; i = i + 1) begin
            if (w_valid && w_index == i[INDEX-1:0]) begin
                keys[i*KEY +: KEY] <= w_key;
                masks[i*KEY +: KEY] <= w_mask;
            end
            if (late && late_index == i[INDEX-1:0]) values[i*VALUE +: VALUE] <= late_value;
            match[i] <= used[i] && ((s_key ^ keys[i*KEY +: KEY]) & masks[i*KEY +: KEY]) == 0;
        end
        if (rst) used <= 0;
        else if (w_valid) used[w_index] <= w_use;
        asked <= s_valid && !rst;
        late <= w_valid;
        late_index <= w_index;
        late_value <= w_value;
    end

    wire [ENTRIES-1:0] first = match & (~match + 1'b1);
    logic [INDEX-1:0] index;
    logic [VALUE-1:0] value;
    integer j;
    always_comb begin
        index = 0;
        value = 0;
        for (j = 0; j < ENTRIES; j = j + 1) begin
            if (first[j]) begin
                index = index | j[INDEX-1:0];
                value = value | values[j*VALUE +: VALUE];
            end
        end
    end

    always_ff @(posedge clk) begin
        m_valid <= asked && !rst;
        m_hit <= match != 0;
        m_index <= index;
        m_value <= value;
    end
endmodule
`default_nettype wire
