// Packet memory: lines of 64 bytes in UltraRAM, with four users.
//
// The ingress DMA writes and the egress DMA reads; clusters do both, through one port. Where two
// want the same side in a cycle, the DMA of the line goes first and the clusters wait.
//
// Ports       i_*: ingress writes. e_*: egress reads. c_*: clusters; c_write with c_keep, else a
//             read. Answers (eq_*, cq_*) come in order and cannot wait: who asks has room for them.
// Latency     2 cycles from a read to its answer. A write is there for reads of the next cycle.
// Throughput  one write and one read a cycle.
// Reset       synchronous; answers under way are dropped, contents stay.
`default_nettype none
module nf_spin_memory #(
    parameter LINES = 8192,
    parameter LINE = $clog2(LINES)
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             i_valid,
    input  wire  [LINE-1:0] i_line,
    input  wire  [511:0]    i_data,
    output logic            i_ready,
    input  wire             e_valid,
    input  wire  [LINE-1:0] e_line,
    output logic            e_ready,
    output logic            eq_valid,
    output logic [511:0]    eq_data,
    input  wire             c_valid,
    input  wire             c_write,
    input  wire  [LINE-1:0] c_line,
    input  wire  [511:0]    c_data,
    input  wire  [63:0]     c_keep,
    output logic            c_ready,
    output logic            cq_valid,
    output logic [511:0]    cq_data
);
    assign i_ready = 1;
    assign e_ready = 1;
    assign c_ready = c_write ? !i_valid : !e_valid;
    wire cluster_reads = c_valid && !c_write && c_ready;
    wire [511:0] read;

    nf_line_ram #(.LINES(LINES)) ram (
        .clk(clk),
        .w_en(i_valid || (c_valid && c_write)), .w_addr(i_valid ? i_line : c_line),
        .w_data(i_valid ? i_data : c_data),
        .w_keep(i_valid ? ~64'd0 : c_keep),
        .r_en(e_valid || cluster_reads), .r_addr(e_valid ? e_line : c_line), .r_data(read)
    );
    assign eq_data = read;
    assign cq_data = read;

    logic egress, cluster;
    always_ff @(posedge clk) begin
        {eq_valid, egress} <= rst ? 2'b00 : {egress, e_valid};
        {cq_valid, cluster} <= rst ? 2'b00 : {cluster, cluster_reads};
    end
endmodule
`default_nettype wire
