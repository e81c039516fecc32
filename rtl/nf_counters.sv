// Counters in block memory: add an amount to one of many, every cycle, also to the same one.
//
// Read-modify-write in three cycles (read, add, write). An add to a counter that is still under way
// uses the sum that is about to be written instead of the memory's word. The host reads between
// adds: a read goes through the same pipeline with an amount of zero, and with `r_clear` it writes
// zero back, so that no add is lost between reading and clearing. Sums wrap.
//
// Ports       s_*: add, always taken. r_*: read request, taken when no add comes in that cycle
//             (`r_ready`); q_*: its answer.
// Latency     an add is in memory after 3 cycles; an answer comes 2 cycles after its request was
//             taken.
// Throughput  one add or read a cycle.
// Reset       drops what is under way; the memory keeps its sums, which start at zero.
`default_nettype none
module nf_counters #(
    parameter COUNTERS = 256,
    parameter WIDTH = 64,
    parameter AMOUNT = 16,
    parameter INDEX = $clog2(COUNTERS)
) (
    input  wire               clk,
    input  wire               rst,
    input  wire               s_valid,
    input  wire  [INDEX-1:0]  s_index,
    input  wire  [AMOUNT-1:0] s_amount,
    input  wire               r_valid,
    output logic              r_ready,
    input  wire  [INDEX-1:0]  r_index,
    input  wire               r_clear,
    output logic              q_valid,
    output logic [WIDTH-1:0]  q_value
);
    logic [WIDTH-1:0]  memory [0:COUNTERS-1];
    logic              adding, reading, clearing, writing;
    logic [INDEX-1:0]  index, written_index;
    logic [AMOUNT-1:0] amount;
    logic [WIDTH-1:0]  word, written;
    logic              forward;     // the word read is older than what was written in that cycle
    logic [WIDTH-1:0]  forwarded;

    assign r_ready = !s_valid;
    wire [INDEX-1:0] asked = s_valid ? s_index : r_index;
    wire take_read = r_valid && r_ready;

`ifndef SYNTHESIS
    // Block memory holds zeros when the device has been configured; a simulator is told so.
    integer i;
    initial for (i = 0; i < COUNTERS; i = i + 1) memory[i] = 0;
`endif

    // The add stage's word: the sum written last if it is the same counter's, else what the write
    // in the reading cycle stored, else memory.
    wire [WIDTH-1:0] now = writing && written_index == index ? written : forward ? forwarded : word;
    wire [WIDTH-1:0] sum = clearing ? {WIDTH{1'b0}} : now + {{(WIDTH - AMOUNT){1'b0}}, amount};

    always_ff @(posedge clk) begin
        if (writing) memory[written_index] <= written;
        word <= memory[asked];
        forward <= writing && written_index == asked;
        forwarded <= written;
        index <= asked;
        amount <= s_valid ? s_amount : 0;
        clearing <= take_read && r_clear;
        written_index <= index;
        written <= sum;
        q_value <= now;
    end

    always_ff @(posedge clk) begin
        adding <= s_valid && !rst;
        reading <= take_read && !rst;
        writing <= (adding || clearing) && !rst;
        q_valid <= reading && !rst;
    end
endmodule
`default_nettype wire
