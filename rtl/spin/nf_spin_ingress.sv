// Ingress DMA: matched frames from the stream into packet memory, and a descriptor for each that is
// there.
//
// A frame is stored until its length is known; then it gets a slot, is written a line a cycle, and
// is described. Frames of contexts that are not on, longer ones than a slot holds, and, with
// `lossy`, those without a free slot, are dropped and counted; without `lossy` they wait, and all
// behind them. Frames longer than LONGEST lines leave no beats in the store.
//
// Ports       s_*: matched frames with their tag (context, message, end), the same beside every
//             beat. a_*: to nf_spin_alloc. w_*: lines to packet memory. d_*: descriptors. drop_*:
//             pulses, with the reason: 0 no slot, 1 too long, 2 no context. waits: a frame is held
//             up.
// Latency     from a frame's last beat to its descriptor: 2 cycles and one for each beat, if a slot
//             is free and memory takes lines.
// Throughput  one line a cycle, so one frame a cycle for frames of one beat.
// Reset       synchronous; drops what is inside.
`default_nettype none
module nf_spin_ingress #(
    parameter LINE = 13,
    parameter TAG = 35,                 // {end, message, context}
    parameter CONTEXT = 2,              // bits
    parameter LONGEST = 24,             // lines
    parameter DEPTH = 64,               // beats in store, a power of two above LONGEST
    parameter FRAMES = 16               // frames in store, a power of two
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire                    lossy,
    input  wire  [2**CONTEXT-1:0]  contexts,
    input  wire  [511:0]           s_tdata,
    input  wire  [63:0]            s_tkeep,
    input  wire  [TAG-1:0]         s_tag,
    input  wire                    s_tlast,
    input  wire                    s_tvalid,
    output logic                   s_tready,
    output logic                   a_valid,
    output logic [15:0]            a_bytes,
    input  wire                    a_grant,
    input  wire                    a_long,
    input  wire  [LINE-1:0]        a_line,
    output logic                   w_valid,
    output logic [LINE-1:0]        w_line,
    output logic [511:0]           w_data,
    input  wire                    w_ready,
    output logic                   d_valid,
    output logic [LINE-1:0]        d_line,
    output logic [15:0]            d_bytes,
    output logic [TAG-1:0]         d_tag,
    input  wire                    d_ready,
    output logic                   drop_valid,
    output logic [1:0]             drop_why,
    output logic                   waits
);
    localparam A = $clog2(DEPTH);

    // In: beats, and when the last one is there, a frame.
    logic [511:0] store [0:DEPTH-1];
    logic [A:0]   written, start, read;         // start: where the frame that comes in began
    logic [15:0]  bytes;
    logic         over;                         // it is too long: its beats were taken out again
    wire [A:0]    held = written - read;
    wire          full = held[A];
    wire          frame_room;
    assign s_tready = !full && frame_room;
    wire take = s_tvalid && s_tready;

    logic [6:0] count;
    integer i;
    always_comb begin
        count = 0;
        for (i = 0; i < 64; i = i + 1) count = count + {6'd0, s_tkeep[i]};
    end
    wire [15:0] now = bytes[15] ? bytes : bytes + {9'd0, count};
    wire        too_many = over || now > 64 * LONGEST;

    always_ff @(posedge clk) begin
        if (take && !too_many) store[written[A-1:0]] <= s_tdata;
        if (rst) begin
            {written, start, bytes, over} <= 0;
        end else if (take) begin
            if (s_tlast) {bytes, over} <= 0;
            else {bytes, over} <= {now, too_many};
            written <= too_many ? start : written + 1'b1;
            if (s_tlast) start <= too_many ? start : written + 1'b1;
        end
    end

    wire            f_valid;
    wire [15:0]     f_bytes;
    wire [TAG-1:0]  f_tag;
    wire            f_take;
    nf_queue #(.WIDTH(16 + TAG), .DEPTH(FRAMES)) frames (
        .clk(clk), .rst(rst), .put(take && s_tlast), .put_data({now, s_tag}), .room(frame_room),
        .valid(f_valid), .data({f_bytes, f_tag}), .take(f_take)
    );

    // Out: the oldest frame's first line goes when it gets its slot, the others behind it.
    logic            writing;
    logic [LINE-1:0] line;
    logic [15:0]     left;                      // lines still to write, this one too
    wire [15:0]      lines = {6'd0, f_bytes[15:6]} + {15'd0, f_bytes[5:0] != 0};
    wire             out_room = !d_valid || d_ready;
    wire             known = contexts[f_tag[CONTEXT-1:0]];
    wire             begins = f_valid && !writing && out_room;

    assign a_bytes = f_bytes;
    assign a_valid = begins && known && w_ready;
    wire none = a_valid && !a_grant && !a_long;
    assign waits = none && !lossy;
    assign drop_valid = begins && (!known || a_long || (none && lossy));
    assign drop_why = !known ? 2'd2 : a_long ? 2'd1 : 2'd0;
    assign w_valid = writing || a_grant;
    assign w_line = writing ? line : a_line;
    assign w_data = store[read[A-1:0]];
    wire wrote = w_valid && w_ready;
    wire ends = wrote && (writing ? left == 1 : lines <= 1);
    assign f_take = ends || drop_valid;

    // A frame that is too long has no beats in store.
    wire [A:0] skipped = f_bytes > 64 * LONGEST ? {(A + 1){1'b0}} : lines[A:0];
    always_ff @(posedge clk) begin
        if (wrote) begin
            line <= w_line + 1'b1;
            left <= (writing ? left : lines) - 1'b1;
        end
        if (a_grant) begin
            d_line <= a_line;
            d_bytes <= f_bytes;
            d_tag <= f_tag;
        end
        if (rst) begin
            read <= 0;
            writing <= 0;
            d_valid <= 0;
        end else begin
            if (drop_valid) read <= read + skipped;
            else if (wrote) read <= read + 1'b1;
            if (wrote) writing <= !ends;
            d_valid <= ends || (d_valid && !d_ready);
        end
    end
endmodule
`default_nettype wire
