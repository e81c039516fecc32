// The sPIN datapath: matching, packet memory, message scheduler and both DMA engines, as the
// application block of a Corundum-style NIC.
//
// Frames from the MAC (`s_axis_sync_rx`) that no rule wants go on into the NIC (`m_axis_sync_rx`),
// untouched. The others are written to packet memory and become tasks of clusters; what handlers
// send goes to the MAC (`m_axis_sync_tx`), between the frames of the NIC itself (`s_axis_sync_tx`).
// Handlers' writes to the host leave as address, length and data for the NIC's DMA engine. Names
// and roles of the streams and of the control bus are those of Corundum's application block, for
// one port. Clusters are outside: tasks go out (`t_*`) and come back when handler, commands and
// copies have ended (`e_*`), as FPsPIN's clusters have it.
//
//     t_*       a task: cluster, queue, handler (0 header, 1 payload, 2 completion), context,
//               message, address and bytes of its packet, the handler's address, memories of its
//               context. It is taken in that cycle; a cluster has room for ROOM tasks.
//     credit    a bit a cluster: a task has left the cluster's buffer for a unit.
//     e_*       a task has ended; its cluster, queue, handler, address and t_frees come back as
//               they were.
//     c_*       clusters read and write packet memory, by line.
//     send_*    a frame to send: address, bytes, a number that comes back when it has left
//               (`sent_*`). Lines outside packet memory are asked for at r_* and answered at q_*,
//               in order.
//     aw, w, b  writes to the host (nf_spin_host_dma); host_*: data, dma_*: what to write where.
//     x_*       what is observed in simulation; leave them open.
//
// Registers: nf_spin_registers.h. now: counts cycles, the NIC's.
//
// Latency     matching 4 cycles, ingress DMA 2 and a cycle for each 64 bytes, scheduler 1.
// Throughput  a beat a cycle in, one out.
// Reset       synchronous, high; all packets are forgotten, registers are zero.
`default_nettype none
module nf_spin_top #(
    parameter CLUSTERS = 2,
    parameter QUEUES = 16,
    parameter CELLS = 128,
    parameter ROOM = 12,
    parameter SMALL = 1024,
    parameter LARGE = 256,
    parameter [31:0] PACKETS = 32'h1c10_0000,   // where packet memory begins
    parameter NUMBER = 8,
    parameter TIME = 40,
    parameter LINE = $clog2(SMALL * 2 + LARGE * 24),
    parameter KW = $clog2(CLUSTERS),
    parameter QW = $clog2(QUEUES)
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [TIME-1:0]    now,
    input  wire  [9:0]         s_axil_app_ctrl_awaddr,
    input  wire                s_axil_app_ctrl_awvalid,
    output logic               s_axil_app_ctrl_awready,
    input  wire  [31:0]        s_axil_app_ctrl_wdata,
    input  wire  [3:0]         s_axil_app_ctrl_wstrb,
    input  wire                s_axil_app_ctrl_wvalid,
    output logic               s_axil_app_ctrl_wready,
    output logic [1:0]         s_axil_app_ctrl_bresp,
    output logic               s_axil_app_ctrl_bvalid,
    input  wire                s_axil_app_ctrl_bready,
    input  wire  [9:0]         s_axil_app_ctrl_araddr,
    input  wire                s_axil_app_ctrl_arvalid,
    output logic               s_axil_app_ctrl_arready,
    output logic [31:0]        s_axil_app_ctrl_rdata,
    output logic [1:0]         s_axil_app_ctrl_rresp,
    output logic               s_axil_app_ctrl_rvalid,
    input  wire                s_axil_app_ctrl_rready,
    input  wire  [511:0]       s_axis_sync_rx_tdata,
    input  wire  [63:0]        s_axis_sync_rx_tkeep,
    input  wire                s_axis_sync_rx_tlast,
    input  wire                s_axis_sync_rx_tvalid,
    output logic               s_axis_sync_rx_tready,
    output logic [511:0]       m_axis_sync_rx_tdata,
    output logic [63:0]        m_axis_sync_rx_tkeep,
    output logic               m_axis_sync_rx_tlast,
    output logic               m_axis_sync_rx_tvalid,
    input  wire                m_axis_sync_rx_tready,
    input  wire  [511:0]       s_axis_sync_tx_tdata,
    input  wire  [63:0]        s_axis_sync_tx_tkeep,
    input  wire                s_axis_sync_tx_tlast,
    input  wire                s_axis_sync_tx_tvalid,
    output logic               s_axis_sync_tx_tready,
    output logic [511:0]       m_axis_sync_tx_tdata,
    output logic [63:0]        m_axis_sync_tx_tkeep,
    output logic               m_axis_sync_tx_tlast,
    output logic               m_axis_sync_tx_tvalid,
    input  wire                m_axis_sync_tx_tready,
    input  wire  [CLUSTERS-1:0] credit,
    output logic               t_valid,
    output logic [KW-1:0]      t_cluster,
    output logic [QW-1:0]      t_queue,
    output logic [1:0]         t_handler,
    output logic [1:0]         t_context,
    output logic [31:0]        t_message,
    output logic [31:0]        t_address,
    output logic [15:0]        t_bytes,
    output logic               t_frees,
    output logic [31:0]        t_function,
    output logic [63:0]        t_handler_memory,
    output logic [95:0]        t_host_memory,
    output logic [63:0]        t_scratchpad,
    input  wire                e_valid,
    input  wire  [KW-1:0]      e_cluster,
    input  wire  [QW-1:0]      e_queue,
    input  wire  [1:0]         e_handler,
    input  wire  [31:0]        e_address,
    input  wire                e_frees,
    input  wire                c_valid,
    input  wire                c_write,
    input  wire  [LINE-1:0]    c_line,
    input  wire  [511:0]       c_data,
    input  wire  [63:0]        c_keep,
    output logic               c_ready,
    output logic               cq_valid,
    output logic [511:0]       cq_data,
    input  wire                send_valid,
    output logic               send_ready,
    input  wire  [31:0]        send_address,
    input  wire  [15:0]        send_bytes,
    input  wire  [NUMBER-1:0]  send_number,
    output logic               sent_valid,
    output logic [NUMBER-1:0]  sent_number,
    output logic               r_valid,
    input  wire                r_ready,
    output logic [31:0]        r_address,
    input  wire                q_valid,
    input  wire  [511:0]       q_data,
    input  wire  [63:0]        aw_address,
    input  wire                aw_valid,
    output logic               aw_ready,
    input  wire  [511:0]       w_data,
    input  wire  [63:0]        w_strobe,
    input  wire                w_last,
    input  wire                w_valid,
    output logic               w_ready,
    output logic               b_valid,
    output logic               b_error,
    input  wire                b_ready,
    output logic [511:0]       host_tdata,
    output logic [63:0]        host_tkeep,
    output logic               host_tlast,
    output logic               host_tvalid,
    input  wire                host_tready,
    output logic [63:0]        dma_address,
    output logic [15:0]        dma_bytes,
    output logic               dma_bad,
    output logic               dma_valid,
    input  wire                dma_ready,
    output logic               x_arrived,       // the scheduler has taken or dropped a packet
    output logic [LINE-1:0]    x_line,
    output logic [15:0]        x_bytes,
    output logic [34:0]        x_tag,           // {end, message, context}
    output logic [2:0]         x_drop,          // at the scheduler: 0 not, 3 cell, 4 queue
    output logic               x_dropped,       // before packet memory, for x_why
    output logic [1:0]         x_why,
    output logic               x_freed,
    output logic [LINE-1:0]    x_freed_line,
    output logic               x_stuck,         // a packet waits for a queue
    // the matcher decided on a frame: its first beat leaves
    output logic               x_in,
    output logic               x_grant,         // a packet got its slot
    output logic               x_held           // one waits for a slot or a cell
);
    // Registers.
    wire         apply, pending;
    wire [31:0]  options, contexts, home_limit, patience;
    wire [127:0] sets;
    wire [2047:0] rules;
    wire [1279:0] table_;
    logic [31:0] matched, unmatched, dropped_full, dropped_long, dropped_context, dropped_cell,
        dropped_queue, freed, sent, host_writes,
        host_refused;
    wire  [31:0] packets, messages, ended, abandoned, late;
    wire  [$clog2(SMALL):0] small_used;
    wire  [$clog2(LARGE):0] large_used;
    wire  [LINE:0] most;
    nf_spin_registers registers (
        .clk(clk), .rst(rst),
        .s_axil_awaddr(s_axil_app_ctrl_awaddr), .s_axil_awvalid(s_axil_app_ctrl_awvalid),
        .s_axil_awready(s_axil_app_ctrl_awready),
        .s_axil_wdata(s_axil_app_ctrl_wdata), .s_axil_wstrb(s_axil_app_ctrl_wstrb),
        .s_axil_wvalid(s_axil_app_ctrl_wvalid),
        .s_axil_wready(s_axil_app_ctrl_wready), .s_axil_bresp(s_axil_app_ctrl_bresp),
        .s_axil_bvalid(s_axil_app_ctrl_bvalid),
        .s_axil_bready(s_axil_app_ctrl_bready), .s_axil_araddr(s_axil_app_ctrl_araddr),
        .s_axil_arvalid(s_axil_app_ctrl_arvalid),
        .s_axil_arready(s_axil_app_ctrl_arready), .s_axil_rdata(s_axil_app_ctrl_rdata),
        .s_axil_rresp(s_axil_app_ctrl_rresp),
        .s_axil_rvalid(s_axil_app_ctrl_rvalid), .s_axil_rready(s_axil_app_ctrl_rready),
        .apply(apply), .options(options), .contexts(contexts), .home_limit(home_limit),
        .patience(patience),
        .sets(sets), .rules(rules), .context_table(table_),
        .pending({31'd0, pending}), .matched(matched), .unmatched(unmatched),
        .dropped_full(dropped_full), .dropped_long(dropped_long),
        .dropped_context(dropped_context), .dropped_cell(dropped_cell),
        .dropped_queue(dropped_queue), .packets(packets),
        .messages(messages), .ended(ended), .abandoned(abandoned), .late(late), .freed(freed),
        .small_used({{(31 - $clog2(SMALL)){1'b0}}, small_used}),
        .large_used({{(31 - $clog2(LARGE)){1'b0}}, large_used}),
        .most_lines({{(31 - LINE){1'b0}}, most}), .sent(sent), .host_writes(host_writes),
        .host_refused(host_refused)
    );
    wire lossy = options[1];

    // Matching; what no rule wants goes on into the NIC.
    wire [511:0] f_data;
    wire [63:0]  f_keep;
    wire         f_last, f_valid, f_ready, f_match, f_end, in_ready;
    wire [1:0]   f_context;
    wire [31:0]  f_message;
    nf_spin_match matching (
        .clk(clk), .rst(rst), .rules(rules), .sets(sets), .reversed(options[0]), .commit(apply),
        .pending(pending),
        .s_axis_tdata(s_axis_sync_rx_tdata), .s_axis_tkeep(s_axis_sync_rx_tkeep),
        .s_axis_tlast(s_axis_sync_rx_tlast),
        .s_axis_tvalid(s_axis_sync_rx_tvalid), .s_axis_tready(s_axis_sync_rx_tready),
        .m_axis_tdata(f_data), .m_axis_tkeep(f_keep), .m_axis_tlast(f_last),
        .m_axis_tvalid(f_valid), .m_axis_tready(f_ready),
        .m_match(f_match), .m_context(f_context), .m_message(f_message), .m_end(f_end)
    );
    assign m_axis_sync_rx_tdata = f_data;
    assign m_axis_sync_rx_tkeep = f_keep;
    assign m_axis_sync_rx_tlast = f_last;
    assign m_axis_sync_rx_tvalid = f_valid && !f_match;
    assign f_ready = f_match ? in_ready : m_axis_sync_rx_tready;

    // Into packet memory.
    wire            a_valid, a_grant, a_long, i_valid, i_ready, d_valid, d_ready, held;
    wire [15:0]     a_bytes, d_bytes;
    wire [LINE-1:0] a_line, i_line, d_line;
    wire [511:0]    i_data;
    wire [34:0]     d_tag;
    nf_spin_ingress #(.LINE(LINE)) ingress (
        .clk(clk), .rst(rst), .lossy(lossy), .contexts(contexts[3:0]),
        .s_tdata(f_data), .s_tkeep(f_keep), .s_tag({f_end, f_message, f_context}),
        .s_tlast(f_last), .s_tvalid(f_valid && f_match),
        .s_tready(in_ready), .a_valid(a_valid), .a_bytes(a_bytes), .a_grant(a_grant),
        .a_long(a_long), .a_line(a_line),
        .w_valid(i_valid), .w_line(i_line), .w_data(i_data), .w_ready(i_ready),
        .d_valid(d_valid), .d_line(d_line), .d_bytes(d_bytes), .d_tag(d_tag), .d_ready(d_ready),
        .drop_valid(x_dropped), .drop_why(x_why), .waits(held)
    );
    wire            free_valid;
    wire [LINE-1:0] free_line;
    nf_spin_alloc #(.SMALL(SMALL), .LARGE(LARGE)) alloc (
        .clk(clk), .rst(rst), .all_classes(options[2]), .a_valid(a_valid), .a_bytes(a_bytes),
        .a_grant(a_grant), .a_long(a_long),
        .a_line(a_line), .f_valid(free_valid), .f_line(free_line), .used_small(small_used),
        .used_large(large_used), .most_lines(most)
    );
    wire [25:0]  line;
    wire         read_valid, read_ready, e_q_valid, memory_ready;
    wire [511:0] e_q_data;
    wire [25:0]  place = line - PACKETS[31:6];
    wire         ours = place < SMALL * 2 + LARGE * 24;
    nf_spin_memory #(.LINES(2**LINE)) memory (
        .clk(clk), .rst(rst), .i_valid(i_valid), .i_line(i_line), .i_data(i_data),
        .i_ready(i_ready),
        .e_valid(read_valid && ours), .e_line(place[LINE-1:0]), .e_ready(memory_ready),
        .eq_valid(e_q_valid), .eq_data(e_q_data),
        .c_valid(c_valid), .c_write(c_write), .c_line(c_line), .c_data(c_data), .c_keep(c_keep),
        .c_ready(c_ready),
        .cq_valid(cq_valid), .cq_data(cq_data)
    );

    // Requests, and tasks for clusters.
    wire                h_valid, h_ready, h_drop, s_free;
    wire [2:0]          h_why;
    wire [LINE-1:0]     s_free_line, t_line;
    wire [3:0]          has_header, has_completion;
    nf_spin_her #(.LINE(LINE)) her (
        .clk(clk), .rst(rst), .table_(table_), .has_header(has_header),
        .has_completion(has_completion),
        .d_valid(d_valid), .d_line(d_line), .d_ready(d_ready), .h_valid(h_valid),
        .h_ready(h_ready), .h_drop(h_drop),
        .f_valid(s_free), .f_line(s_free_line), .free_valid(free_valid), .free_line(free_line),
        .t_context(t_context), .t_handler(t_handler), .o_function(t_function),
        .o_handler_memory(t_handler_memory),
        .o_host_memory(t_host_memory), .o_scratchpad(t_scratchpad)
    );
    wire [31:0] e_offset = e_address - PACKETS;
    nf_spin_scheduler #(.QUEUES(QUEUES), .CLUSTERS(CLUSTERS), .CELLS(CELLS), .ROOM(ROOM),
        .LINE(LINE), .TIME(TIME)) scheduler (
        .clk(clk), .rst(rst), .lossy(lossy), .contexts(contexts[3:0]), .has_header(has_header),
        .has_completion(has_completion),
        .serial(contexts[11:8]), .home_limit(home_limit[7:0]),
        .patience({{(TIME - 32){1'b0}}, patience}), .now(now),
        .a_valid(h_valid), .a_ready(h_ready), .a_context(d_tag[1:0]), .a_message(d_tag[33:2]),
        .a_last(d_tag[34]), .a_line(d_line),
        .a_bytes(d_bytes), .a_drop(h_drop), .a_why(h_why), .stuck(x_stuck), .credit(credit),
        .t_valid(t_valid), .t_cluster(t_cluster), .t_queue(t_queue), .t_handler(t_handler),
        .t_context(t_context),
        .t_message(t_message), .t_line(t_line), .t_bytes(t_bytes), .t_frees(t_frees),
        .e_valid(e_valid), .e_cluster(e_cluster), .e_queue(e_queue), .e_handler(e_handler),
        .e_line(e_offset[LINE+5:6]),
        .e_frees(e_frees), .f_valid(s_free), .f_line(s_free_line),
        .n_packets(packets), .n_messages(messages), .n_ended(ended), .n_abandoned(abandoned),
        .n_late(late)
    );
    assign t_address = PACKETS + {{(26 - LINE){1'b0}}, t_line, 6'd0};

    // Out: to the line, between the NIC's frames.
    wire [511:0] g_data;
    wire [63:0]  g_keep;
    wire         g_last, g_valid, g_ready, from_nic;
    assign r_valid = read_valid && !ours;
    assign r_address = {line, 6'd0};
    assign read_ready = ours ? memory_ready : r_ready;
    nf_spin_egress #(.NUMBER(NUMBER)) egress (
        .clk(clk), .rst(rst), .c_address(send_address), .c_bytes(send_bytes),
        .c_number(send_number), .c_valid(send_valid),
        .c_ready(send_ready), .r_line(line), .r_valid(read_valid), .r_ready(read_ready),
        .q_data(e_q_valid ? e_q_data : q_data), .q_valid(e_q_valid || q_valid),
        .m_tdata(g_data), .m_tkeep(g_keep), .m_tlast(g_last), .m_tvalid(g_valid),
        .m_tready(g_ready),
        .done_valid(sent_valid), .done_number(sent_number)
    );
    nf_arbiter #(.PORTS(2), .WIDTH(576)) transmit (
        .clk(clk), .rst(rst), .s_data({s_axis_sync_tx_tkeep, s_axis_sync_tx_tdata, g_keep, g_data}),
        .s_last({s_axis_sync_tx_tlast, g_last}), .s_valid({s_axis_sync_tx_tvalid, g_valid}),
        .s_ready({s_axis_sync_tx_tready, g_ready}),
        .m_data({m_axis_sync_tx_tkeep, m_axis_sync_tx_tdata}), .m_last(m_axis_sync_tx_tlast),
        .m_valid(m_axis_sync_tx_tvalid),
        .m_ready(m_axis_sync_tx_tready), .m_port(from_nic)
    );
    nf_spin_host_dma host_dma (
        .clk(clk), .rst(rst), .aw_address(aw_address), .aw_valid(aw_valid), .aw_ready(aw_ready),
        .w_data(w_data), .w_strobe(w_strobe), .w_last(w_last), .w_valid(w_valid), .w_ready(w_ready),
        .b_valid(b_valid), .b_error(b_error), .b_ready(b_ready),
        .m_tdata(host_tdata), .m_tkeep(host_tkeep), .m_tlast(host_tlast), .m_tvalid(host_tvalid),
        .m_tready(host_tready),
        .d_address(dma_address), .d_bytes(dma_bytes), .d_bad(dma_bad), .d_valid(dma_valid),
        .d_ready(dma_ready)
    );

    // What is observed, and counted.
    logic first;
    assign x_arrived = h_valid && h_ready;
    assign x_line = d_line;
    assign x_bytes = d_bytes;
    assign x_tag = d_tag;
    assign x_drop = h_drop ? h_why : 3'd0;
    assign x_freed = free_valid;
    assign x_freed_line = free_line;
    assign x_in = f_valid && f_ready && first;
    assign x_grant = a_grant;
    assign x_held = held || (h_valid && !h_ready);
    wire frame = f_valid && f_ready && f_last;
    always_ff @(posedge clk) begin
        if (rst) begin
            first <= 1;
            {matched, unmatched, dropped_full, dropped_long, dropped_context, dropped_cell,
                dropped_queue, freed, sent, host_writes,
                host_refused} <= 0;
        end else begin
            if (f_valid && f_ready) first <= f_last;
            if (frame && f_match) matched <= matched + 1'b1;
            if (frame && !f_match) unmatched <= unmatched + 1'b1;
            if (x_dropped && x_why == 0) dropped_full <= dropped_full + 1'b1;
            if (x_dropped && x_why == 1) dropped_long <= dropped_long + 1'b1;
            if (x_dropped && x_why == 2) dropped_context <= dropped_context + 1'b1;
            if (h_drop && h_why == 3) dropped_cell <= dropped_cell + 1'b1;
            if (h_drop && h_why == 4) dropped_queue <= dropped_queue + 1'b1;
            if (free_valid) freed <= freed + 1'b1;
            if (sent_valid) sent <= sent + 1'b1;
            if (dma_valid && dma_ready && !dma_bad) host_writes <= host_writes + 1'b1;
            if (dma_valid && dma_ready && dma_bad) host_refused <= host_refused + 1'b1;
        end
    end
    wire unused_rest = &{1'b0, from_nic, place[25:LINE], e_offset};
    wire unused = &{1'b0, options[31:3], contexts[31:12], contexts[7:4], home_limit[31:8]};
endmodule
`default_nettype wire
