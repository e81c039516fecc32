// HER generator: descriptors of packets and execution contexts become handler execution requests,
// and tasks that clusters can run.
//
// In: a packet that lies in memory goes to the scheduler with its context and message. One that the
// scheduler drops is freed, when no ended task frees another in that cycle. Out: a task gets the
// address of its handler, and its context's handler memory, host memory and scratchpad. A context
// has a header or completion handler if the address of it is not zero.
//
// Ports       table_: ten words a context: addresses of header, payload and completion handler,
//             handler memory (address, bytes), host memory (low, high, bytes), scratchpad (offset
//             in a cluster's memory, bytes). d_*: from nf_spin_ingress, h_*: to the scheduler,
//             h_drop: taken, but dropped. f_*: frees of tasks in, of all out. t_*: of a task; o_*:
//             what is added.
// Latency     0 cycles.
// Throughput  one packet and one task a cycle; 2 cycles a packet that is dropped.
// Reset       synchronous; forgets a packet that is to be freed.
`default_nettype none
module nf_spin_her #(
    parameter CONTEXTS = 4,
    parameter LINE = 13,
    parameter CW = $clog2(CONTEXTS)
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire [CONTEXTS*320-1:0] table_,
    output logic [CONTEXTS-1:0]    has_header,
    output logic [CONTEXTS-1:0]    has_completion,
    input  wire                    d_valid,
    input  wire [LINE-1:0]         d_line,
    output logic                   d_ready,
    output logic                   h_valid,
    input  wire                    h_ready,
    input  wire                    h_drop,
    input  wire                    f_valid,
    input  wire [LINE-1:0]         f_line,
    output logic                   free_valid,
    output logic [LINE-1:0]        free_line,
    input  wire [CW-1:0]           t_context,
    input  wire [1:0]              t_handler,
    output logic [31:0]            o_function,
    output logic [63:0]            o_handler_memory,
    output logic [95:0]            o_host_memory,
    output logic [63:0]            o_scratchpad
);
    logic            dropped;
    logic [LINE-1:0] line;
    assign h_valid = d_valid && !dropped;
    assign d_ready = h_ready && !dropped;
    assign free_valid = f_valid || dropped;
    assign free_line = f_valid ? f_line : line;
    always_ff @(posedge clk) begin
        if (h_valid && h_drop) line <= d_line;
        dropped <= !rst && ((h_valid && h_drop) || (dropped && f_valid));
    end

    wire [319:0] entry = table_[t_context*320 +: 320];
    assign o_function = t_handler == 0 ? entry[31:0] : t_handler == 1 ? entry[63:32] : entry[95:64];
    assign o_handler_memory = entry[159:96];
    assign o_host_memory = entry[255:160];
    assign o_scratchpad = entry[319:256];
    genvar c;
    generate
        for (c = 0; c < CONTEXTS; c = c + 1) begin : context_
            assign has_header[c] = table_[320*c +: 32] != 0;
            assign has_completion[c] = table_[320*c + 64 +: 32] != 0;
        end
    endgenerate
endmodule
`default_nettype wire
