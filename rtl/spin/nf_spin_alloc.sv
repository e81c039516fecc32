// Packet buffer allocator: slots of two sizes, each with a list of free ones, first freed first
// used.
//
// A packet gets a small slot if it fits, else a large one; addresses count lines of 64 bytes from
// the start of packet memory, small slots first. Without a free slot of its class (or of both, with
// all_classes, as FPsPIN's hardware) it waits. Packets longer than a large slot are refused. Slots
// come back in any order, by their address. The definition is `Slots` in crates/spin, memory.rs.
//
// Ports       a_*: asks for a slot: a_bytes, a_valid; the answer is there at once: a_grant with
//             a_line, or a_long: never fits; else wait. A grant is taken in that cycle. f_*: gives
//             a slot back. used_*, most_lines: slots in use, most lines at any time.
// Latency     0 cycles; a slot given back can be taken in the next cycle.
// Throughput  one slot out and one back a cycle.
// Reset       synchronous; all slots are free.
`default_nettype none
module nf_spin_alloc #(
    parameter SMALL = 1024,             // slots, powers of two
    parameter LARGE = 256,
    parameter SMALL_LINES = 2,          // lines of 64 bytes of a slot
    parameter LARGE_LINES = 24,
    parameter LINE = $clog2(SMALL * SMALL_LINES + LARGE * LARGE_LINES)
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             all_classes,
    input  wire             a_valid,
    input  wire  [15:0]     a_bytes,
    output logic            a_grant,
    output logic            a_long,
    output logic [LINE-1:0] a_line,
    input  wire             f_valid,
    input  wire  [LINE-1:0] f_line,
    output logic [$clog2(SMALL):0] used_small,
    output logic [$clog2(LARGE):0] used_large,
    output logic [LINE:0]   most_lines
);
    localparam S = $clog2(SMALL), L = $clog2(LARGE);
    localparam [LINE-1:0] BORDER = SMALL * SMALL_LINES;

    wire [S-1:0] small_slot;
    wire [L-1:0] large_slot;
    wire small_free, large_free;
    wire is_small = a_bytes <= 64 * SMALL_LINES;
    assign a_long = a_valid && a_bytes > 64 * LARGE_LINES;
    wire room = all_classes ? small_free && large_free : is_small ? small_free : large_free;
    assign a_grant = a_valid && !a_long && room;
    wire take_small = a_grant && is_small, take_large = a_grant && !is_small;

    wire [LINE-1:0] small_line = {{(LINE - S){1'b0}}, small_slot} * SMALL_LINES[LINE-1:0];
    wire [LINE-1:0] large_line = {{(LINE - L){1'b0}}, large_slot} * LARGE_LINES[LINE-1:0] + BORDER;
    assign a_line = is_small ? small_line : large_line;

    // The slot of an address: divided by multiplying with the reciprocal, rounded up, which is
    // exact for so few bits (Granlund, Montgomery, PLDI 1994): the error is less than LINES / 2^(2
    // LINE) of an address below 2^LINE.
    localparam [63:0] SCALE = 64'd1 << (2 * LINE);
    localparam [63:0] SMALL_INVERSE = (SCALE + SMALL_LINES - 1) / SMALL_LINES,
        LARGE_INVERSE = (SCALE + LARGE_LINES - 1) / LARGE_LINES;
    wire [LINE-1:0] large_line_back = f_line - BORDER;
    wire [3*LINE:0] small_product = {{(2*LINE + 1){1'b0}}, f_line} * SMALL_INVERSE[3*LINE:0];
    wire [3*LINE:0] large_product = {{(2*LINE + 1){1'b0}},
        large_line_back} * LARGE_INVERSE[3*LINE:0];
    wire back_small = f_valid && f_line < BORDER, back_large = f_valid && f_line >= BORDER;
    wire unused = &{1'b0, small_product, large_product};

    nf_slots #(.SLOTS(SMALL)) small_slots (
        .clk(clk), .rst(rst), .f_valid(small_free), .f_slot(small_slot), .f_take(take_small),
        .b_valid(back_small), .b_slot(small_product[2*LINE +: S])
    );
    nf_slots #(.SLOTS(LARGE)) large_slots (
        .clk(clk), .rst(rst), .f_valid(large_free), .f_slot(large_slot), .f_take(take_large),
        .b_valid(back_large), .b_slot(large_product[2*LINE +: L])
    );

    // A slot taken counts before one that comes back in the same cycle.
    wire [LINE:0] small_lines = ({{(LINE - S){1'b0}}, used_small}
        + {{LINE{1'b0}}, take_small}) * SMALL_LINES[LINE:0];
    wire [LINE:0] large_lines = ({{(LINE - L){1'b0}}, used_large}
        + {{LINE{1'b0}}, take_large}) * LARGE_LINES[LINE:0];
    wire [LINE:0] lines = small_lines + large_lines;
    always_ff @(posedge clk) begin
        if (rst) begin
            used_small <= 0;
            used_large <= 0;
            most_lines <= 0;
        end else begin
            used_small <= used_small + {{S{1'b0}}, take_small} - {{S{1'b0}}, back_small};
            used_large <= used_large + {{L{1'b0}}, take_large} - {{L{1'b0}}, back_large};
            if (lines > most_lines) most_lines <= lines;
        end
    end
endmodule
`default_nettype wire
