// Message scheduler: which handler starts next, on which packet and in which cluster.
//
// A message has a queue, found by context and number. Its header handler runs alone on the first
// packet, then payload handlers on every packet in order of arrival, as many at a time as there is
// room for; when the packet marked as last has come and all have ended, the completion handler on
// that one. Handlers a context does not have are passed over. Packets that come after that begin
// the next message. Queues are served in turn, one task a cycle; a task goes to the message's home
// cluster (the low bits of its number) while fewer than home_limit tasks are there and it has room,
// else to the least occupied cluster with room. A new message gets the queue of its number's low
// bits if that is free, else the first free one; one queue is left for every other context that has
// none. Without a free queue, the message for which nothing happened for longest gives way, if that
// is `patience` cycles. The definition is crates/spin, messages, with `no_shares`: contexts are not
// weighted here. Within a cycle: pick, end, arrival.
//
// What waits lies in cells, in lists by queue: CELLS shared ones, and one for each queue besides.
//
// Ports       a_*: packets; with `lossy` one for which there is no queue or cell is dropped
//             (a_drop, a_why: 3 cell, 4 queue), else it waits. t_*: tasks, which cannot wait: the
//             cluster has room, which it gives back by `credit`, a bit a cluster. e_*: ended tasks,
//             as they were given out. f_*: the packet that an ended task was the last to use. now:
//             cycles, for patience.
// Latency     1 cycle from a packet, or an end, to what can start by it.
// Throughput  one packet, one task and one end a cycle; a packet waits a cycle behind an end of its
//             own message or one that frees a queue.
// Reset       synchronous; forgets all messages.
`default_nettype none
module nf_spin_scheduler #(
    parameter QUEUES = 16,              // a power of two
    parameter CONTEXTS = 4,
    parameter CLUSTERS = 2,             // a power of two, at least 2
    parameter CELLS = 128,
    parameter ROOM = 12,                // tasks that wait in a cluster
    parameter LINE = 13,
    parameter TIME = 40,
    parameter QW = $clog2(QUEUES),
    parameter CW = $clog2(CONTEXTS),
    parameter KW = $clog2(CLUSTERS)
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                lossy,
    input  wire [CONTEXTS-1:0] contexts,        // set up
    input  wire [CONTEXTS-1:0] has_header,
    input  wire [CONTEXTS-1:0] has_completion,
    input  wire [CONTEXTS-1:0] serial,          // payload handlers of a message one at a time
    input  wire [7:0]          home_limit,
    input  wire [TIME-1:0]     patience,
    input  wire [TIME-1:0]     now,
    input  wire                a_valid,
    output logic               a_ready,
    input  wire [CW-1:0]       a_context,
    input  wire [31:0]         a_message,
    input  wire                a_last,
    input  wire [LINE-1:0]     a_line,
    input  wire [15:0]         a_bytes,
    output logic               a_drop,
    output logic [2:0]         a_why,
    output logic               stuck,           // the packet waits for a queue
    input  wire [CLUSTERS-1:0] credit,
    output logic               t_valid,
    output logic [KW-1:0]      t_cluster,
    output logic [QW-1:0]      t_queue,
    output logic [1:0]         t_handler,       // 0 header, 1 payload, 2 completion
    output logic [CW-1:0]      t_context,
    output logic [31:0]        t_message,
    output logic [LINE-1:0]    t_line,
    output logic [15:0]        t_bytes,
    output logic               t_frees,         // its end frees the packet
    input  wire                e_valid,
    input  wire [KW-1:0]       e_cluster,
    input  wire [QW-1:0]       e_queue,
    input  wire [1:0]          e_handler,
    input  wire [LINE-1:0]     e_line,
    input  wire                e_frees,
    output logic               f_valid,
    output logic [LINE-1:0]    f_line,
    output logic [31:0]        n_packets,
    output logic [31:0]        n_messages,
    output logic [31:0]        n_ended,
    output logic [31:0]        n_abandoned,
    output logic [31:0]        n_late
);
    localparam [1:0] HEADER = 0, PAYLOAD = 1, COMPLETION = 2;
    localparam [2:0] FREE = 0, HEAD = 1, HEAD_RUNS = 2, BODY = 3, TAIL = 4, TAIL_RUNS = 5;
    localparam NW = $clog2(CELLS + QUEUES);     // of a cell's number
    localparam RW = 8;                          // of the number of running tasks
    localparam PW = LINE + 16;                  // of a packet

    // What is done this cycle, and with which queue.
    logic              pick, end_, arrive;
    logic [QW-1:0]     pick_queue, target;
    logic [KW-1:0]     pick_cluster;
    logic              new_message, gives_way;

    // Of all queues.
    wire [QUEUES-1:0]      free, ready, candidate, hit, holds, begins_again, releases,
        ends_message, empty;
    wire [QUEUES*3-1:0]    states;
    wire [QUEUES*NW-1:0]   heads, tails;
    wire [QUEUES*CW-1:0]   owners;
    wire [QUEUES*32-1:0]   messages;
    wire [QUEUES*PW-1:0]   kepts;
    wire [QUEUES-1:0]      has_kept;
    wire [QUEUES*TIME-1:0] ages;
    wire [CONTEXTS-1:0]    has_queue;

    // Cells.
    logic [PW:0]   cell_packet [0:2**NW-1];     // {last, bytes, line}
    logic [NW-1:0] cell_next [0:2**NW-1];
    wire           cell_free;
    wire [NW-1:0]  cell_new;
    logic [NW:0]   cells;                       // in use beyond one a queue
    wire [NW-1:0]  pick_head = heads[pick_queue*NW +: NW];
    wire [PW:0]    front = cell_packet[pick_head];
    wire [NW-1:0]  second = cell_next[pick_head];
    wire [2:0]     pick_state = states[pick_queue*3 +: 3];
    wire           pops = pick && pick_state == BODY;
    nf_slots #(.SLOTS(2**NW)) cell_slots (
        .clk(clk), .rst(rst), .f_valid(cell_free), .f_slot(cell_new), .f_take(arrive),
        .b_valid(pops), .b_slot(pick_head)
    );
    logic one_more;                             // the packet goes behind others of its queue
    always_ff @(posedge clk) begin
        if (arrive) cell_packet[cell_new] <= {a_last, a_bytes, a_line};
        if (one_more) cell_next[tails[target*NW +: NW]] <= cell_new;
    end

    // Pick: the queue in turn, and its cluster.
    logic [QUEUES-1:0] behind;                  // queues behind the one that started last
    wire [QUEUES-1:0]  turn = (ready & behind) != 0 ? ready & behind : ready;
    wire [QUEUES-1:0]  chosen = turn & (~turn + 1'b1);
    logic [CLUSTERS*8-1:0] occupied, credits;
    logic [CLUSTERS-1:0]   room;
    integer i, k, n, x, y;
    always_comb begin
        pick_queue = 0;
        for (i = 0; i < QUEUES; i = i + 1) if (chosen[i]) pick_queue = pick_queue | i[QW-1:0];
        for (k = 0; k < CLUSTERS; k = k + 1) room[k] = credits[8*k +: 8] != 0;
    end
    wire [31:0]   pick_message = messages[pick_queue*32 +: 32];
    wire [CW-1:0] pick_context = owners[pick_queue*CW +: CW];
    wire [KW-1:0] home = pick_message[KW-1:0];
    logic [7:0]   least;
    logic [KW-1:0] least_cluster;
    always_comb begin
        least = 8'hff;
        least_cluster = 0;
        for (x = CLUSTERS - 1; x >= 0; x = x - 1) begin
            if (room[x] && occupied[8*x +: 8] <= least) begin
                least = occupied[8*x +: 8];
                least_cluster = x[KW-1:0];
            end
        end
    end
    assign pick = ready != 0 && room != 0;
    assign pick_cluster = room[home] && occupied[8*home +: 8] < home_limit ? home : least_cluster;
    wire keep = front[PW] && !has_kept[pick_queue] && has_completion[pick_context];

    // End.
    assign f_valid = e_valid && e_frees;
    assign f_line = e_line;
    assign end_ = e_valid;

    // Arrival: the message's queue, a free one, or one that gives way.
    wire [QUEUES-1:0] first_free = free & (~free + 1'b1);
    wire [QW-1:0]     preferred = a_message[QW-1:0];
    logic [QW:0]      frees;
    logic [CW:0]      reserved;
    logic [QW-1:0]    hit_queue, free_queue;
    always_comb begin
        {frees, reserved} = 0;
        {hit_queue, free_queue} = 0;
        for (n = 0; n < CONTEXTS; n = n + 1)
            reserved = reserved + {{CW{1'b0}},
                contexts[n] && !has_queue[n] && a_context != n[CW-1:0]};
        for (y = QUEUES - 1; y >= 0; y = y - 1) begin
            frees = frees + {{QW{1'b0}}, free[y]};
            if (hit[y]) hit_queue = hit_queue | y[QW-1:0];
            if (first_free[y]) free_queue = free_queue | y[QW-1:0];
        end
    end
    // The message for which nothing happened for longest, by a tree: node n has the older of 2n and
    // 2n + 1, the former if both are as old.
    wire [2*QUEUES-1:0]      may;
    wire [2*QUEUES*TIME-1:0] since;
    wire [2*QUEUES*QW-1:0]   who;
    assign may[2*QUEUES-1:QUEUES] = candidate;
    assign since[2*QUEUES*TIME-1:QUEUES*TIME] = ages;
    assign {may[0], since[TIME-1:0], who[QW-1:0]} = 0;
    genvar node;
    generate
        for (node = 1; node < 2 * QUEUES; node = node + 1) begin : oldest_
            if (node >= QUEUES) begin : leaf
                localparam [31:0] NUMBER = node - QUEUES;
                assign who[node*QW +: QW] = NUMBER[QW-1:0];
            end else begin : inner
                wire other = may[2*node+1] && !(may[2*node]
                    && since[2*node*TIME +: TIME] >= since[(2*node+1)*TIME +: TIME]);
                assign may[node] = may[2*node] || may[2*node+1];
                assign since[node*TIME +: TIME] = other ? since[(2*node+1)*TIME +: TIME]
                    : since[2*node*TIME +: TIME];
                assign who[node*QW +: QW] = other ? who[(2*node+1)*QW +: QW] : who[2*node*QW +: QW];
            end
        end
    endgenerate
    wire [QW-1:0] oldest = who[QW +: QW];
    wire unused_root = &{1'b0, may[1:0], since[2*TIME-1:0], who[QW-1:0]};
    wire known = hit != 0;
    wire may_take = {{(CW + 1){1'b0}}, frees} > {{(QW + 1){1'b0}}, reserved};
    assign gives_way = !known && !may_take && candidate != 0;
    assign target = known ? hit_queue : !may_take ? oldest : free[preferred] ? preferred
        : free_queue;
    assign new_message = arrive && !known;
    wire no_queue = !known && !may_take && candidate == 0;
    wire pop_frees = pops && holds[pick_queue];
    wire [NW:0] cells_left = cells - {{NW{1'b0}}, pop_frees};
    // Something waits in the queue, also when what starts now has left it.
    wire waits = pops && pick_queue == target ? holds[target] : !empty[target];
    wire no_cell = !no_queue && known && waits && cells_left >= CELLS[NW:0];
    // What an end changes is seen in the next cycle.
    wire behind_end = end_ && (releases != 0 || (known && e_queue == hit_queue));
    wire offered = a_valid && !behind_end;
    assign arrive = offered && !no_queue && !no_cell && cell_free;
    assign one_more = arrive && known && waits;
    assign a_drop = offered && lossy && (no_queue || no_cell);
    assign a_why = no_queue ? 3'd4 : 3'd3;
    assign a_ready = arrive || a_drop;
    assign stuck = a_valid && no_queue;

    genvar q, c;
    generate
        for (q = 0; q < QUEUES; q = q + 1) begin : queue_
            logic [2:0]      state;
            logic [CW-1:0]   context_;
            logic [31:0]     message;
            logic [NW-1:0]   head, tail;
            logic [NW:0]     count;             // packets that wait
            logic [RW-1:0]   running;           // payload handlers
            logic            last_came, last_late, kept_valid;
            logic [PW-1:0]   kept;              // the last packet, for the completion handler
            logic [TIME-1:0] used;
            wire picked = pick && pick_queue == q[QW-1:0];
            wire popped = picked && state == BODY;
            wire ended = end_ && e_queue == q[QW-1:0];
            wire payload_ended = ended && e_handler == PAYLOAD;
            wire taken = arrive && target == q[QW-1:0];
            wire [NW:0] count_now = count - {{NW{1'b0}}, popped};
            wire [RW-1:0] running_now = running
                + {{(RW - 1){1'b0}}, popped} - {{(RW - 1){1'b0}}, payload_ended};
            wire idle_now = count_now == 0 && running_now == 0;
            wire body_over = payload_ended && state == BODY && idle_now && last_came;
            wire over = (body_over && !kept_valid) || (ended && e_handler == COMPLETION);
            wire again = over && count != 0;
            // Nothing is known of a message without header and completion that would be lost with
            // its queue.
            wire simple = !has_header[context_] && !has_completion[context_];

            assign free[q] = state == FREE;
            assign ready[q] = state == HEAD || state == TAIL
                || (state == BODY && count != 0 && !(serial[context_] && running != 0));
            assign hit[q] = state != FREE && context_ == a_context && message == a_message;
            assign ages[q*TIME +: TIME] = now - used;
            assign candidate[q] = state == BODY && count == 0 && running == 0
                && now - used >= patience
                && (context_ == a_context || !has_queue[a_context]);
            assign holds[q] = count > 1;
            assign empty[q] = count == 0;
            assign begins_again[q] = again;
            assign ends_message[q] = over;
            assign releases[q] = (over && !again)
                || (payload_ended && state == BODY && idle_now && !last_came && simple);
            assign states[q*3 +: 3] = state;
            assign heads[q*NW +: NW] = head;
            assign tails[q*NW +: NW] = tail;
            assign owners[q*CW +: CW] = context_;
            assign messages[q*32 +: 32] = message;
            assign kepts[q*PW +: PW] = kept;
            assign has_kept[q] = kept_valid;

            wire late = state == TAIL || state == TAIL_RUNS;
            always_ff @(posedge clk) begin
                if (popped) head <= second;
                if (popped && keep) kept <= front[PW-1:0];
                if (ended || taken) used <= now;
                if (taken) tail <= cell_new;
                if (taken && count_now == 0) head <= cell_new;
                if (taken && new_message) begin
                    context_ <= a_context;
                    message <= a_message;
                end
                if (rst) begin
                    state <= FREE;
                    {count, running, last_came, last_late, kept_valid} <= 0;
                end else begin
                    count <= count_now + {{NW{1'b0}}, taken};
                    running <= running_now;
                    if (popped && keep) kept_valid <= 1;
                    if (picked && state == HEAD) state <= HEAD_RUNS;
                    if (picked && state == TAIL) state <= TAIL_RUNS;
                    if (ended && e_handler == HEADER) state <= BODY;
                    if (body_over && kept_valid) state <= TAIL;
                    if (releases[q]) state <= FREE;
                    if (over) begin
                        {last_came, last_late, kept_valid} <= {last_late, 2'b00};
                        if (again) state <= has_header[context_] ? HEAD : BODY;
                    end
                    if (taken && new_message) begin
                        state <= has_header[a_context] ? HEAD : BODY;
                        {last_came, last_late, kept_valid} <= {a_last, 2'b00};
                    end else if (taken && late) last_late <= last_late || a_last;
                    else if (taken) last_came <= last_came || a_last;
                end
            end
        end
        for (c = 0; c < CONTEXTS; c = c + 1) begin : context_
            wire [QUEUES-1:0] own;
            for (q = 0; q < QUEUES; q = q + 1) begin : of_queue
                assign own[q] = !free[q] && owners[q*CW +: CW] == c[CW-1:0];
            end
            assign has_queue[c] = own != 0;
        end
        for (c = 0; c < CLUSTERS; c = c + 1) begin : cluster_
            wire to = pick && pick_cluster == c[KW-1:0], from = end_ && e_cluster == c[KW-1:0];
            always_ff @(posedge clk) begin
                if (rst) begin
                    occupied[8*c +: 8] <= 0;
                    credits[8*c +: 8] <= ROOM;
                end else begin
                    occupied[8*c +: 8] <= occupied[8*c +: 8] + {7'd0, to} - {7'd0, from};
                    credits[8*c +: 8] <= credits[8*c +: 8] - {7'd0, to} + {7'd0, credit[c]};
                end
            end
        end
    endgenerate

    wire [PW-1:0] pick_packet = pick_state == TAIL ? kepts[pick_queue*PW +: PW] : front[PW-1:0];
    wire arrives_late = arrive && known
        && (states[target*3 +: 3] == TAIL || states[target*3 +: 3] == TAIL_RUNS);
    always_ff @(posedge clk) begin
        if (pick) begin
            t_cluster <= pick_cluster;
            t_queue <= pick_queue;
            t_handler <= pick_state == HEAD ? HEADER : pick_state == TAIL ? COMPLETION : PAYLOAD;
            t_context <= pick_context;
            t_message <= pick_message;
            {t_bytes, t_line} <= pick_packet;
            t_frees <= pick_state == TAIL || (pick_state == BODY && !keep);
        end
        if (rst) begin
            t_valid <= 0;
            behind <= 0;
            cells <= 0;
            {n_packets, n_messages, n_ended, n_abandoned, n_late} <= 0;
        end else begin
            t_valid <= pick;
            if (pick) behind <= ~(chosen | (chosen - 1'b1));
            cells <= cells_left + {{NW{1'b0}}, one_more};
            n_packets <= n_packets + {31'd0, arrive};
            n_messages <= n_messages + {31'd0, new_message} + {31'd0, begins_again != 0};
            n_ended <= n_ended + {31'd0, ends_message != 0};
            n_abandoned <= n_abandoned + {31'd0, arrive && gives_way};
            n_late <= n_late + {31'd0, arrives_late};
        end
    end
endmodule
`default_nettype wire
