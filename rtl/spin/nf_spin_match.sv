// Matching engine: which frames go to handlers, as which message, and where messages end.
//
// A ruleset has three rules that select, joined by "and" or "or", and a fourth that tells a
// message's last packet. A rule compares a value under a mask with a range, ends included. The
// value is a word of the frame's first 128 bytes, or a field of its headers wherever VLAN tags
// (two), IPv4 options and IPv6 extension headers (EXTENSIONS) move it. The ruleset of the lowest
// number that matches decides; its number is the execution context's. Frames that none wants pass
// untouched with m_match low. The definition is crates/spin, matching.rs and headers.rs; what
// hardware sees less of: everything beyond byte 128 is absent, payload is compared at even offsets,
// IPv6 addresses 32 bits at a time.
//
//     rules   a rule is {end, start, mask, select}; select: [3:0] kind, [4] the other words of the
//             address are zero, [31:16] byte offset kinds: 0 word of the frame, 1 VLAN, 2
//             EtherType, 3 protocol, 4 source port, 5 destination port, 6 payload,
//                    8 to 11 source address, 12 to 15 destination address, a word each, the high
//                    one first (IPv4: only the last)
//     sets    [0] on, [1] or, [2] the message's number stands in the payload, else in the frame,
//             [31:16] at this byte (even)
//     reversed   ranges of words compare with bytes reversed, as FPsPIN's hardware does
//
// Rules take effect after `commit`, between two packets: the next packet waits until those before
// it are decided.
//
// Ports       s_axis_*: frames; m_axis_*: the same frames, with m_match, m_context, m_message,
//             m_end beside every beat. Bytes without tkeep leave as zeros.
// Latency     4 cycles; a packet of several beats is decided when its second beat is there.
// Throughput  one beat a cycle, so one packet a cycle for packets of one beat.
// Reset       synchronous; drops frames inside, switches all rulesets off.
`default_nettype none
module nf_spin_match #(
    parameter RULESETS = 4,
    parameter EXTENSIONS = 2,
    parameter CONTEXT = $clog2(RULESETS)
) (
    input  wire                     clk,
    input  wire                     rst,
    input  wire  [RULESETS*512-1:0] rules,
    input  wire  [RULESETS*32-1:0]  sets,
    input  wire                     reversed,
    input  wire                     commit,
    output logic                    pending,    // a commit has not yet taken effect
    input  wire  [511:0]            s_axis_tdata,
    input  wire  [63:0]             s_axis_tkeep,
    input  wire                     s_axis_tlast,
    input  wire                     s_axis_tvalid,
    output logic                    s_axis_tready,
    output logic [511:0]            m_axis_tdata,
    output logic [63:0]             m_axis_tkeep,
    output logic                    m_axis_tlast,
    output logic                    m_axis_tvalid,
    input  wire                     m_axis_tready,
    output logic                    m_match,
    output logic [CONTEXT-1:0]      m_context,
    output logic [31:0]             m_message,
    output logic                    m_end
);
    localparam RULES = RULESETS * 4;

    // Active rules, and their change between packets.
    logic [RULESETS*512-1:0] rule;
    logic [RULESETS*32-1:0]  set;
    logic                    reverse;

    // Beats: a, b, c, then the output. A first beat leaves a when the second one is on the input,
    // so that both are seen.
    logic [511:0] a_data, b_data, c_data;
    logic [63:0]  a_keep, b_keep, c_keep;
    logic         a_valid, a_first, a_last, b_valid, b_first, b_last, c_valid, c_first, c_last,
        s_first;

    wire advance = !m_axis_tvalid || m_axis_tready;
    wire take = s_axis_tvalid && s_axis_tready;
    wire a_moves = advance && a_valid && (a_last || !a_first || take);
    assign s_axis_tready = (!a_valid || advance) && !(pending && s_first);

    logic [511:0] s_data;
    integer i;
    always_comb for (i = 0; i < 64; i = i + 1) s_data[8*i +: 8] = s_axis_tdata[8*i +: 8]
        & {8{s_axis_tkeep[i]}};

    always_ff @(posedge clk) begin
        if (take) {a_data, a_keep, a_first, a_last} <=
            {s_data, s_axis_tkeep, s_first, s_axis_tlast};
        if (a_moves) {b_data, b_keep, b_first, b_last} <= {a_data, a_keep, a_first, a_last};
        if (advance) begin
            {c_data, c_keep, c_first, c_last} <= {b_data, b_keep, b_first, b_last};
            {m_axis_tdata, m_axis_tkeep, m_axis_tlast} <= {c_data, c_keep, c_last};
        end
        if (rst) begin
            {a_valid, b_valid, c_valid, m_axis_tvalid} <= 0;
            s_first <= 1;
            pending <= 0;
            set <= 0;
        end else begin
            if (take) s_first <= s_axis_tlast;
            a_valid <= take || (a_valid && !a_moves);
            if (advance) {b_valid, c_valid, m_axis_tvalid} <= {a_moves, b_valid, c_valid};
            if (commit) pending <= 1;
            else if (pending && s_first && !a_valid && !b_valid && !c_valid) begin
                pending <= 0;
                rule <= rules;
                set <= sets;
                reverse <= reversed;
            end
        end
    end

    // The frame's beginning with the first byte highest: byte p is at FIRST - 8 p and below.
    localparam FIRST = 1023;
    logic [FIRST:0] front, middle;
    integer j;
    always_comb begin
        front = 0;
        middle = 0;
        for (j = 0; j < 64; j = j + 1) begin
            front[FIRST - 8*j -: 8] = a_data[8*j +: 8];
            front[FIRST - 512 - 8*j -: 8] = a_last ? 8'd0 : s_data[8*j +: 8];
            middle[FIRST - 8*j -: 8] = b_data[8*j +: 8];
            middle[FIRST - 512 - 8*j -: 8] = b_last ? 8'd0 : a_data[8*j +: 8];
        end
    end

    // How much of the frame is seen: 128 for all that are longer.
    logic [7:0] seen;
    integer n;
    always_comb begin
        seen = 0;
        for (n = 0; n < 64; n = n + 1) seen = seen + {7'd0, a_keep[n]}
            + {7'd0, s_axis_tkeep[n] && !a_last};
    end

    // Headers, from a to b.
    wire [15:0]  type0 = front[FIRST - 96 -: 16], type1 = front[FIRST - 128 -: 16],
        type2 = front[FIRST - 160 -: 16];
    wire         tag0 = seen >= 14 && (type0 == 16'h8100 || type0 == 16'h88a8);
    wire         tag1 = tag0 && seen >= 18 && (type1 == 16'h8100 || type1 == 16'h88a8);
    wire [15:0]  ether = tag1 ? type2 : tag0 ? type1 : type0;
    wire [7:0]   ip_at = tag1 ? 8'd22 : tag0 ? 8'd18 : 8'd14;
    wire [319:0] ip = tag1 ? front[FIRST - 176 -: 320] : tag0 ? front[FIRST - 144 -: 320]
        : front[FIRST - 112 -: 320];
    wire         typed = seen >= ip_at;
    wire [7:0]   ip_bytes = typed ? seen - ip_at : 8'd0;

    wire [7:0]   header = {2'b0, ip[315:312], 2'b0};
    wire         is4 = typed && ether == 16'h0800 && ip[319:316] == 4 && ip[315:312] >= 5
        && ip_bytes >= header;
    wire [15:0]  total4 = ip[303:288];
    wire         inner4 = is4 && ip[268:256] == 0 && total4 >= {8'd0, header};
    wire [7:0]   end4 = total4 < {8'd0, ip_bytes} ? ip_at + total4[7:0] : seen;

    wire         is6 = typed && ether == 16'h86dd && ip[319:316] == 6 && ip_bytes >= 40;
    wire [16:0]  total6 = {1'b0, ip[287:272]} + 17'd40;
    wire [7:0]   end6 = total6 < {9'd0, ip_bytes} ? ip_at + total6[7:0] : seen;

    // The chain of extension headers: where each stands, what it is, and whether the transport
    // header, or nothing, was found before it.
    wire [8*EXTENSIONS+15:0] places, kinds, protocols;
    wire [EXTENSIONS+1:0]    founds, losts, inners;
    assign places[7:0] = ip_at + 8'd40;
    assign kinds[7:0] = ip[271:264];
    assign protocols[7:0] = 0;
    assign {founds[0], losts[0], inners[0]} = 0;
    genvar h;
    generate
        for (h = 0; h <= EXTENSIONS; h = h + 1) begin : link_
            wire [7:0]  place = places[8*h +: 8], kind = kinds[8*h +: 8];
            wire [31:0] link;
            nf_spin_word read (.front(front), .at(place[6:1]), .word(link));
            wire [7:0]  bytes = end6 < place ? 8'd0 : end6 - place;
            wire        options = kind == 0 || kind == 43 || kind == 60 || kind == 135
                || kind == 139 || kind == 140;
            wire        fragment = kind == 44, authentic = kind == 51;
            wire [11:0] size = fragment ? 12'd8 : {1'b0, link[23:16], 3'b0} + 12'd8;
            wire [11:0] skip = authentic ? {2'b0, link[23:16], 2'b0} + 12'd8 : size;
            wire        open = !founds[h] && !losts[h];
            wire        last = !options && !fragment && !authentic;
            wire        cut = bytes < 2 || (fragment && bytes < 4);
            wire        later = fragment && link[15:3] != 0;    // data of a later fragment
            assign founds[h + 1] = founds[h] || (open && (last || (!cut && later)));
            assign inners[h + 1] = inners[h] || (open && last);
            assign losts[h + 1] = losts[h]
                || (open && !last && (cut || (!later && skip > {4'd0, bytes})));
            assign protocols[8*h + 8 +: 8] = !open ? protocols[8*h +: 8] : last ? kind
                : link[31:24];
            assign places[8*h + 8 +: 8] = open && !last && !later ? place + skip[7:0] : place;
            assign kinds[8*h + 8 +: 8] = link[31:24];
            wire unused = &{1'b0, link[2:0], place[7], place[0]};
        end
    endgenerate
    wire [7:0] at = places[8*EXTENSIONS + 8 +: 8], protocol6 = protocols[8*EXTENSIONS + 8 +: 8];
    wire       found = founds[EXTENSIONS + 1] && !losts[EXTENSIONS + 1],
        inner6 = inners[EXTENSIONS + 1];
    wire       unused_kind = &{1'b0, kinds[8*EXTENSIONS + 8 +: 8]};

    // The transport header.
    wire         inner = inner4 || (is6 && inner6);
    wire [7:0]   tp = is6 ? at : ip_at + header;
    wire [7:0]   tp_end = is6 ? end6 : end4;
    wire [7:0]   tp_bytes = tp_end < tp ? 8'd0 : tp_end - tp;
    wire [7:0]   protocol = is6 ? protocol6 : ip[247:240];
    wire [127:0] segment;
    nf_spin_word #(.BITS(128)) transport (.front(front), .at(tp[6:1]), .word(segment));
    wire         udp = protocol == 17, tcp = protocol == 6;
    wire         has_ports = inner && tp_bytes >= 4 && (udp || tcp || protocol == 132);
    wire [15:0]  udp_length = segment[95:80];
    wire         udp_short = udp_length != 0 && udp_length < {8'd0, tp_bytes};
    wire [7:0]   udp_bytes = udp_short ? udp_length[7:0] : tp_bytes;
    wire [7:0]   tcp_header = {2'b0, segment[31:28], 2'b0};
    wire         udp_payload = udp && udp_bytes >= 8;
    wire         tcp_payload = tcp && tcp_header >= 20 && tcp_header <= tp_bytes;

    logic         has_vlan, has_type, has_address, has_protocol, b_ports, has_payload;
    logic [11:0]  vlan;
    logic [15:0]  b_type;
    logic [127:0] source, destination;
    logic [7:0]   b_protocol, payload, payload_end;
    logic [31:0]  ports;
    always_ff @(posedge clk) begin
        if (a_moves && a_first) begin
            has_vlan <= tag0 && seen >= 16;
            vlan <= front[FIRST - 116 -: 12];
            has_type <= typed;
            b_type <= ether;
            has_address <= is4 || is6;
            source <= is6 ? ip[255:128] : {96'd0, ip[223:192]};
            destination <= is6 ? ip[127:0] : {96'd0, ip[191:160]};
            has_protocol <= is4 || (is6 && found);
            b_protocol <= protocol;
            b_ports <= has_ports;
            ports <= segment[127:96];
            has_payload <= has_ports && (udp_payload || tcp_payload);
            payload <= tp + (tcp ? tcp_header : 8'd8);
            payload_end <= tcp ? tp_end : tp + udp_bytes;
        end
    end

    // Values of rules, from b to c; then hits, and the first ruleset that matches, from c to the
    // output.
    logic [RULES*32-1:0]    value;
    logic [RULES-1:0]       present;
    wire  [RULES-1:0]       hit;
    logic [RULESETS*32-1:0] message;
    wire  [RULESETS-1:0]    match;

    genvar r;
    generate
        for (r = 0; r < RULES; r = r + 1) begin : rule_
            wire [31:0] select = rule[128*r +: 32], mask = rule[128*r + 32 +: 32];
            wire [31:0] start = rule[128*r + 64 +: 32], stop = rule[128*r + 96 +: 32];
            wire        in_payload = select[3:0] == 6;
            wire [16:0] place = {1'b0, select[31:16]} + (in_payload ? {9'd0, payload} : 17'd0);
            wire [31:0] read;
            nf_spin_word reader (.front(middle), .at(place[6:1]), .word(read));
            wire [31:0] word = place >= 128 ? 32'd0 : read;
            wire [31:0] address = select[2] ? destination[127 - 32*select[1:0] -: 32]
                : source[127 - 32*select[1:0] -: 32];
            wire        narrow = (select[2] ? destination[127:32] : source[127:32]) == 0;
            wire [3:0]  kind = select[3:0];
            wire        whole = select[4];
            wire        paid = has_payload && place + 17'd4 <= {9'd0, payload_end};
            wire [15:0] from = ports[31:16], to = ports[15:0];
            logic [31:0] field;
            logic        is_there;
            always_comb begin
                case (kind)
                    4'd0: {is_there, field} = {1'b1, word};
                    4'd1: {is_there, field} = {has_vlan, 20'd0, vlan};
                    4'd2: {is_there, field} = {has_type, 16'd0, b_type};
                    4'd3: {is_there, field} = {has_protocol, 24'd0, b_protocol};
                    4'd4: {is_there, field} = {b_ports, 16'd0, from};
                    4'd5: {is_there, field} = {b_ports, 16'd0, to};
                    4'd6: {is_there, field} = {paid, word};
                    4'd7: {is_there, field} = 33'd0;
                    default: {is_there, field} = {has_address && (!whole || narrow), address};
                endcase
            end
            always_ff @(posedge clk) begin
                if (advance && b_first) begin
                    value[32*r +: 32] <= field & mask;
                    present[r] <= is_there;
                end
            end
            wire [31:0] got = value[32*r +: 32];
            wire        backwards = reverse && select[3:0] == 0;
            wire [31:0] v = backwards ? {got[7:0], got[15:8], got[23:16], got[31:24]} : got;
            wire [31:0] low = backwards ? {start[7:0], start[15:8], start[23:16], start[31:24]}
                : start;
            wire [31:0] high = backwards ? {stop[7:0], stop[15:8], stop[23:16], stop[31:24]} : stop;
            assign hit[r] = present[r] && low <= v && v <= high;
            wire unused = &{1'b0, select[15:5], place[0]};
        end
        for (r = 0; r < RULESETS; r = r + 1) begin : set_
            wire [31:0] control = set[32*r +: 32];
            wire        in_payload = control[2];
            wire [16:0] place = {1'b0, control[31:16]} + (in_payload ? {9'd0, payload} : 17'd0);
            wire [31:0] read;
            nf_spin_word reader (.front(middle), .at(place[6:1]), .word(read));
            wire [31:0] word = place >= 128 ? 32'd0 : read;
            // Numbers are little-endian; where the payload ends there are zeros.
            wire [16:0] left = has_payload && place < {9'd0, payload_end}
                ? {9'd0, payload_end} - place : 17'd0;
            wire [3:0]  is_there = in_payload ? {left > 3, left > 2, left > 1, left > 0} : 4'b1111;
            always_ff @(posedge clk) begin
                if (advance && b_first) begin
                    message[32*r +: 32] <= {word[7:0] & {8{is_there[3]}},
                        word[15:8] & {8{is_there[2]}},
                        word[23:16] & {8{is_there[1]}}, word[31:24] & {8{is_there[0]}}};
                end
            end
            wire [2:0] hits = hit[4*r +: 3];
            assign match[r] = control[0] && (control[1] ? hits != 0 : hits == 3'b111);
            wire unused = &{1'b0, control[15:3], place[0]};
        end
    endgenerate

    integer k;
    always_ff @(posedge clk) begin
        if (advance && c_first) begin
            m_match <= match != 0;
            m_context <= 0;
            m_message <= 0;
            m_end <= 0;
            for (k = RULESETS - 1; k >= 0; k = k - 1) begin
                if (match[k]) begin
                    m_context <= k[CONTEXT-1:0];
                    m_message <= message[32*k +: 32];
                    m_end <= hit[4*k + 3];
                end
            end
        end
    end
    wire unused = &{1'b0, ip, segment};
endmodule
`default_nettype wire
