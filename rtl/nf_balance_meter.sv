// Decides packet by packet what stays on the NIC side, by the bytes that came: the load balancer's
// traffic monitor and meter.
//
// One account in bytes with 12 bits behind the point. A packet stays if the account is not below
// zero when its first word comes; what stays is taken off word by word, so a packet's length need
// not be known before. What is put on differs:
//
//     mode 0, window        at the end of every window the account is set to `credit` (the
//                           published hardware)
//     mode 1, token bucket  `rate` every cycle, up to `burst`
//     mode 2, proportional  `share` of all eligible bytes, up to `burst`
//     mode 3, flow-affine   the account is not asked; `flow_host` says where the packet's flow is
//
// Bytes are those on the wire: 24 more a packet for preamble, checksum and gap. Fragments go to the
// host in modes 0 to 2, since all parts of a packet must meet again. `route` overrides everything:
// 1 all to the NIC, 2 all to the host. What a word puts on and takes off counts one cycle later, so
// the packet right behind is judged without it; words of the two cycles around the end of a window
// are not charged.
//
// Ports       c_*: the word at stage c of nf_balance_rewrite, e_*: the word at e; `divert` answers
//             in the same cycle.
// Latency     2 cycles from c to e.
// Throughput  one word a cycle.
// Reset       synchronous; an account of -1 byte, so a rate of zero keeps nothing.
`default_nettype none
module nf_balance_meter (
    input  wire         clk,
    input  wire         rst,
    input  wire  [1:0]  mode,
    input  wire  [1:0]  route,
    input  wire  [19:0] rate,           // bytes a cycle * 4096
    input  wire  [23:0] credit,         // bytes
    input  wire  [23:0] burst,          // bytes
    input  wire  [12:0] share,          // of the NIC, * 4096
    input  wire  [23:0] window,         // cycles - 1
    input  wire         advance,
    input  wire  [6:0]  c_bytes,
    input  wire         c_first,
    input  wire         e_word,
    input  wire         e_first,
    input  wire         e_fragment,
    input  wire         flow_host,
    output logic        divert,
    output logic        diverted,       // the same for all words of the packet
    output logic [7:0]  e_bytes,        // on the wire
    output logic [29:0] window_bytes    // eligible, in the last whole window
);
    localparam POINT = 12;
    localparam WIDTH = 24 + POINT + 1;
    localparam [1:0] WINDOW = 0, TOKENS = 1, PROPORTIONAL = 2, FLOWS = 3;
    localparam [1:0] TO_NIC = 1, TO_HOST = 2;

    logic signed [WIDTH-1:0] account;
    logic                    full;      // no more is put on
    logic signed [WIDTH-1:0] change;    // of the word before, or of a cycle without one
    logic                    diverting;
    logic [23:0]             elapsed;   // cycles of this window
    logic                    ended;

    // What a word puts on and takes off, two stages before it counts.
    logic [7:0]              d_bytes;
    logic [20:0]             d_earned;
    logic signed [WIDTH-1:0] e_put, e_net;
    wire  [7:0]              c_wire = {1'b0, c_bytes} + (c_first ? 8'd24 : 8'd0);
    wire  signed [WIDTH-1:0] put = full ? 0 : mode == PROPORTIONAL
        ? $signed({{(WIDTH - 21){1'b0}}, d_earned})
        : mode == TOKENS ? $signed({{(WIDTH - 20){1'b0}}, rate}) : 0;
    always_ff @(posedge clk) begin
        if (advance) begin
            d_bytes <= c_wire;
            d_earned <= {13'd0, c_wire} * {8'd0, share};
            e_bytes <= d_bytes;
            e_put <= put;
            e_net <= put - $signed({{(WIDTH - 8 - POINT){1'b0}}, d_bytes, {POINT{1'b0}}});
        end
    end

    wire metered = e_fragment || account[WIDTH-1];
    always_comb begin
        case (route)
            TO_NIC: divert = 0;
            TO_HOST: divert = 1;
            default: divert = mode == FLOWS ? flow_host : metered;
        endcase
    end
    assign diverted = e_first ? divert : diverting;

    wire step = advance && e_word;
    // What a cycle without a word puts on, or the end of a window: tokens (20 bits), credit (above
    // the point), nothing.
    logic [11:0] idle_low;
    logic [7:0]  idle_both;
    logic [15:0] idle_high;
    wire signed [WIDTH-1:0] idle = $signed({1'b0, idle_high, idle_both, idle_low});
    wire load = ended && mode == WINDOW;
    wire earns = mode == TOKENS && !full;
    always_ff @(posedge clk) begin
        idle_low <= earns ? rate[11:0] : 12'd0;
        idle_both <= earns ? rate[19:12] : mode == WINDOW ? credit[7:0] : 8'd0;
        idle_high <= mode == WINDOW ? credit[23:8] : 16'd0;
        if (load || !step && mode == TOKENS) change <= idle;
        else if (!step) change <= 0;
        else change <= diverted ? e_put : e_net;
        if (rst || load) account <= {{(WIDTH - POINT){1'b1}}, {POINT{1'b0}}};
        else account <= account + change;
        full <= !account[WIDTH-1] && account[WIDTH-2:POINT] >= burst;
        if (step && e_first) diverting <= divert;
    end

    // Bytes of this window; those of the word before are added, so the word of the cycle in which a
    // window ends begins the next one.
    logic [7:0]  late;
    logic [29:0] seen;
    wire  [8:0]  low = {1'b0, seen[7:0] & {8{!ended}}} + {1'b0, late};
    always_ff @(posedge clk) begin
        ended <= !ended && elapsed >= window;
        if (rst || ended) elapsed <= 0;
        else elapsed <= elapsed + 1'b1;
        late <= step ? e_bytes : 8'd0;
        if (ended) window_bytes <= seen;
        if (rst) seen <= 0;
        else begin
            seen[7:0] <= low[7:0];
            seen[29:8] <= ended ? {21'd0, low[8]} : seen[29:8] + {21'd0, low[8]};
        end
    end
endmodule
`default_nettype wire
