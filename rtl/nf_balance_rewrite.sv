// Finds packets whose address is in a table and, if told so, gives them another address: director
// and merger of the load balancer.
//
// Looked at is the destination (SOURCE = 0, director) or the source (SOURCE = 1, merger). A packet
// counts if it is Ethernet II with at most one VLAN tag and IPv4 without options, or IPv6 whose
// next header is TCP or UDP, and if the fields that would be patched are inside. All others pass
// untouched: packets with options or two tags, ICMPv6 (neighbour discovery must reach the owner of
// the address), truncated ones.
//
// The table has 512 rows in block memory, found by the address's last 32 bits, folded by
// exclusive-or to 9. Two addresses that fold alike cannot both be served; whoever fills the table
// sees that. A row holds, from the high bits:
//
//     {used, version 6, address (128), new address (128), new MAC (48), difference (16)}
//
// with IPv4 addresses in the low 32 bits over zeros, and the difference by RFC 1624: the folded sum
// of ~m + m' over the address's 16-bit words. It is a constant of the row, so a checksum costs one
// addition, whatever protocol it is of: the IPv4 header's, TCP's, UDP's. A UDP checksum of zero
// stays zero; a result of zero is written as 0xffff. Fragments other than the first have none to
// patch.
//
// One word a cycle goes through eight registers, all moved by one enable:
//
//     a  the word                                      b  fields, brought together from both places (with tag, without)
//     c  the row is read                               d  address and row compared, three bits a LUT; old checksums
//     e  all of them equal: here the outside decides   f  sums; the packet's decision is kept
//     g  sums folded                                   m  the word with its changes
//
// Ports       s_axis_*, m_axis_*: the packets. At e the outside decides: `e_first` (an eligible
//             packet's first word is there) and `divert` in the same cycle; `advance`: the word
//             moves on at this edge. w_*: writes a row, between packets.
// Latency     8 cycles.
// Throughput  one word a cycle.
// Reset       synchronous; drops the packets inside. Rows start unused and are kept.
`default_nettype none
module nf_balance_rewrite #(
    parameter SOURCE = 0,
    parameter USER = 1,
    parameter ROW = 322
) (
    input  wire             clk,
    input  wire             rst,
    input  wire  [511:0]    s_axis_tdata,
    input  wire  [63:0]     s_axis_tkeep,
    input  wire  [USER-1:0] s_axis_tuser,
    input  wire             s_axis_tlast,
    input  wire             s_axis_tvalid,
    output logic            s_axis_tready,
    output logic [511:0]    m_axis_tdata,
    output logic [63:0]     m_axis_tkeep,
    output logic [USER-1:0] m_axis_tuser,
    output logic            m_axis_tlast,
    output logic            m_axis_tvalid,
    input  wire             m_axis_tready,
    output logic            advance,
    output logic [6:0]      c_bytes,        // of the word at c
    output logic            c_first,
    output logic [15:0]     b_flow,         // source address and port folded, of the packet at b
    output logic            e_word,         // a word of an eligible packet is at e
    output logic            e_first,        // it is the first one
    output logic            e_last,
    output logic            e_fragment,
    input  wire             divert,
    output logic            m_changed,      // pulses when the last word of a changed packet leaves
    input  wire             w_valid,
    output logic            w_ready,
    input  wire  [8:0]      w_row,
    input  wire  [ROW-1:0]  w_data
);
    assign advance = !m_axis_tvalid || m_axis_tready;
    assign s_axis_tready = advance;

    // a: the word as it came.
    logic [511:0]    a_data, b_data, c_data, d_data, e_data, f_data, g_data;
    logic [63:0]     a_keep, b_keep, c_keep, d_keep, e_keep, f_keep, g_keep;
    logic [USER-1:0] a_user, b_user, c_user, d_user, e_user, f_user, g_user;
    logic            a_last, b_last, c_last, d_last, f_last, g_last;
    logic            a_valid, b_valid, c_valid, d_valid, e_valid, f_valid, g_valid;
    logic            a_first;
    always_ff @(posedge clk) begin
        if (advance) begin
            {a_data, a_keep, a_user, a_last} <=
                {s_axis_tdata, s_axis_tkeep, s_axis_tuser, s_axis_tlast};
            {b_data, b_keep, b_user, b_last} <= {a_data, a_keep, a_user, a_last};
            {c_data, c_keep, c_user, c_last} <= {b_data, b_keep, b_user, b_last};
            {d_data, d_keep, d_user, d_last} <= {c_data, c_keep, c_user, c_last};
            {e_data, e_keep, e_user, e_last} <= {d_data, d_keep, d_user, d_last};
            {f_data, f_keep, f_user, f_last} <= {e_data, e_keep, e_user, e_last};
            {g_data, g_keep, g_user, g_last} <= {f_data, f_keep, f_user, f_last};
            {m_axis_tkeep, m_axis_tuser, m_axis_tlast} <= {g_keep, g_user, g_last};
        end
        if (rst) begin
            {a_valid, b_valid, c_valid, d_valid, e_valid, f_valid, g_valid, m_axis_tvalid} <= 0;
            a_first <= 1;
        end else if (advance) begin
            {a_valid, b_valid, c_valid, d_valid, e_valid, f_valid, g_valid, m_axis_tvalid} <=
                {s_axis_tvalid, a_valid, b_valid, c_valid, d_valid, e_valid, f_valid, g_valid};
            if (a_valid) a_first <= a_last;
        end
    end

    // Field of two or four bytes at byte `at` of a word, in network order.
    `define NF_TWO(data, at) {data[(at)*8 +: 8], data[(at)*8+8 +: 8]}
    `define NF_FOUR(data, at) {data[(at)*8 +: 8], data[(at)*8+8 +: 8], data[(at)*8+16 +: 8], data[(at)*8+24 +: 8]}

    // b: fields. They change with a packet's first word and stay for its others.
    wire        tag = `NF_TWO(a_data, 12) == 16'h8100 || `NF_TWO(a_data, 12) == 16'h88a8;
    wire [15:0] kind = tag ? `NF_TWO(a_data, 16) : `NF_TWO(a_data, 12);
    wire [7:0]  version = tag ? a_data[18*8 +: 8] : a_data[14*8 +: 8];
    wire        six = version[5];               // of 4 and 6
    wire [13:0] place = tag ? {a_data[24*8 +: 6], a_data[25*8 +: 8]}
        : {a_data[20*8 +: 6], a_data[21*8 +: 8]};
    wire [7:0]  protocol = six ? (tag ? a_data[24*8 +: 8] : a_data[20*8 +: 8])
        : (tag ? a_data[27*8 +: 8] : a_data[23*8 +: 8]);
    wire        tcp = protocol == 8'd6;
    wire        udp = protocol == 8'd17;
    wire        late = six && (tcp || tag);     // the checksum is in the second word
    // Is what would be patched inside? A packet has no holes, so one byte answers for all before
    // it.
    wire        inside_l4 = late ? !a_last
        : six ? a_keep[61] : tcp ? (tag ? a_keep[55] : a_keep[51])
            : (tag ? a_keep[45] : a_keep[41]);
    wire        later = place[12:0] != 0;       // not a first fragment
    wire        sum = (tcp || udp) && (six || !later);
    wire        whole = sum ? inside_l4 : tag ? a_keep[37] : a_keep[33];

    // The address in 32-bit words, first word first; for IPv4 only the last word is not zero.
    localparam SIX = SOURCE == 0 ? 38 : 22, FOUR = SOURCE == 0 ? 30 : 26;
    wire [127:0] address;
    assign address[31:0] = six ? (tag ? `NF_FOUR(a_data, SIX+16) : `NF_FOUR(a_data, SIX+12))
        : (tag ? `NF_FOUR(a_data, FOUR+4) : `NF_FOUR(a_data, FOUR));
    assign address[127:32] = {96{six}}
        & (tag ? {`NF_FOUR(a_data, SIX+4), `NF_FOUR(a_data, SIX+8), `NF_FOUR(a_data, SIX+12)}
        : {`NF_FOUR(a_data, SIX), `NF_FOUR(a_data, SIX+4), `NF_FOUR(a_data, SIX+8)});

    // The flow in 16 bits: both halves of the source address's last word, and the source port if
    // all packets of the flow have one.
    wire ports = sum && (six || place == 0);
    wire [31:0] client = six ? (tag ? `NF_FOUR(a_data, 38) : `NF_FOUR(a_data, 34))
        : (tag ? `NF_FOUR(a_data, 30) : `NF_FOUR(a_data, 26));
    wire [15:0] port = six ? (tag ? `NF_TWO(a_data, 58) : `NF_TWO(a_data, 54))
        : (tag ? `NF_TWO(a_data, 38) : `NF_TWO(a_data, 34));

    logic         b_first, b_second, b_supported, b_six, b_tag, b_tcp, b_udp, b_sum, b_late,
        b_fragment, b_open;
    logic [127:0] b_address;
    logic [31:0]  b_client;
    logic [15:0]  b_port;
    logic [2:0]   b_groups;
    logic [7:0]   b_group;
    integer g;
    always_ff @(posedge clk) begin
        if (advance && a_valid) begin
            b_second <= b_first && !a_first;
            b_first <= a_first;
            if (a_first) begin
                b_supported <= whole && (kind == 16'h0800 && version == 8'h45
                    || kind == 16'h86dd && version[7:4] == 4'd6 && (tcp || udp));
                {b_six, b_tag, b_tcp, b_udp, b_sum, b_late} <= {six, tag, tcp, udp, sum, late};
                b_fragment <= !six && place != 0;
                b_address <= address;
                b_client <= client;
                b_port <= ports ? port : 16'd0;
            end
        end
        // Bytes of the word: groups of eight that are full, and the group that is not.
        if (advance) begin
            b_groups <= 0;
            b_group <= a_keep[7:0];
            for (g = 1; g < 8; g = g + 1) begin
                if (a_keep[g*8-1]) begin
                    b_groups <= g[2:0];
                    b_group <= a_keep[g*8 +: 8];
                end
            end
        end
        if (rst) b_open <= 0;
        else if (advance && a_valid) b_open <= !a_last;
    end

    assign b_flow = b_client[31:16] ^ b_client[15:0] ^ b_port;

    // c: the row. Written only while no packet is half through, so that all words of one see the
    // same; a read at the same edge sees the old.
    (* ram_style = "block" *)
    logic [ROW-1:0] rows [0:511];
    logic [ROW-1:0] row;
    wire [8:0] wanted = b_address[8:0] ^ b_address[17:9] ^ b_address[26:18]
        ^ {4'b0, b_address[31:27]};
    assign w_ready = !b_open && (advance || !b_valid);
    always_ff @(posedge clk) begin
        if (w_valid && w_ready) rows[w_row] <= w_data;
        if (advance) row <= rows[wanted];
    end
`ifndef SYNTHESIS
    // Block memory holds zeros when the device has been configured; a simulator is told so.
    integer i;
    initial for (i = 0; i < 512; i = i + 1) rows[i] = 0;
`endif

    logic         c_second, c_supported, c_six, c_tag, c_tcp, c_udp, c_sum, c_late, c_fragment;
    logic [127:0] c_address;
    integer n;
    always_ff @(posedge clk) begin
        if (advance) begin
            {c_first, c_second, c_supported, c_six, c_tag, c_tcp, c_udp, c_sum, c_late,
                c_fragment} <=
                {b_first, b_second, b_supported, b_six, b_tag, b_tcp, b_udp, b_sum, b_late,
                    b_fragment};
            c_address <= b_address;
            c_bytes <= {1'b0, b_groups, 3'b0};
            for (n = 0; n < 8; n = n + 1) if (b_group[n]) c_bytes <= {1'b0, b_groups, 3'b0}
                + n[6:0] + 7'd1;
        end
    end

    // d: is it the row's address? Three bits a flag, as many as a LUT compares. And the checksums
    // as they are.
    localparam USED = ROW - 1, VERSION = ROW - 2, ADDRESS = 192, NEW = 64;
    logic [42:0]  d_same;
    logic         d_possible, d_first, d_second, d_six, d_tag, d_udp, d_sum, d_late, d_tcp,
        d_fragment;
    logic [127:0] d_new;
    logic [47:0]  d_mac;
    logic [15:0]  d_delta, d_old_udp, d_old_tcp;    // the checksum is one of both, the other zero
    // a checksum in the second word, all of it
    wire          d_there = d_tcp ? (d_tag ? d_keep[11] : d_keep[7]) : d_keep[1];
    wire  [128:0] looked_up = {c_six, c_address}, found = row[VERSION:ADDRESS];
    integer m;
    always_ff @(posedge clk) begin
        if (advance) begin
            for (m = 0; m < 43; m = m + 1) d_same[m] <= looked_up[m*3 +: 3] == found[m*3 +: 3];
            d_possible <= c_valid && c_supported && row[USED];
            {d_first, d_second, d_six, d_tag, d_tcp, d_udp, d_sum, d_late, d_fragment} <=
                {c_first, c_second, c_six, c_tag, c_tcp, c_udp, c_sum, c_late, c_fragment};
            {d_new, d_mac, d_delta} <= row[NEW+127:0];
            if (c_tcp) d_old_udp <= 0;
            else d_old_udp <= c_six ? (c_tag ? `NF_TWO(c_data, 0) : `NF_TWO(c_data, 60))
                : (c_tag ? `NF_TWO(c_data, 44) : `NF_TWO(c_data, 40));
            if (!c_tcp) d_old_tcp <= 0;
            else d_old_tcp <= c_six ? (c_tag ? `NF_TWO(c_data, 10) : `NF_TWO(c_data, 6))
                : (c_tag ? `NF_TWO(c_data, 54) : `NF_TWO(c_data, 50));
        end
    end

    // e: the sums begin, and whether there is a checksum to patch in this word. UDP's zero means
    // that there is none.
    logic         e_patch, e_six, e_tag, e_udp, e_tcp;
    logic [127:0] e_new;
    logic [47:0]  e_mac;
    logic [16:0]  e_sum, e_sum_ip;
    wire  [15:0]  d_old = d_old_udp | d_old_tcp;
    wire  [15:0]  d_old_ip = d_tag ? `NF_TWO(d_data, 28) : `NF_TWO(d_data, 24);
    always_ff @(posedge clk) begin
        if (advance) begin
            e_word <= d_possible && &d_same;
            e_first <= d_possible && &d_same && d_first;
            e_patch <= d_sum && (d_late ? d_second && d_there : d_first)
                && !(d_udp && d_old_udp == 0);
            {e_six, e_tag, e_udp, e_tcp, e_fragment} <= {d_six, d_tag, d_udp, d_tcp, d_fragment};
            {e_new, e_mac} <= {d_new, d_mac};
            // The difference first: it goes into the carry chain as it is.
            e_sum <= {1'b0, d_delta} + {1'b0, ~d_old};
            e_sum_ip <= {1'b0, d_delta} + {1'b0, ~d_old_ip};
        end
    end

    // f: the decision, kept for the packet's other words; sums folded, and not yet inverted.
    logic         going;
    logic         f_head, f_patch, f_going, f_six, f_tag, f_tcp;
    logic [127:0] f_new;
    logic [47:0]  f_mac;
    logic [15:0]  f_sum, f_sum_ip;
    wire          go = e_word && (e_first ? divert : going);
    wire  [15:0]  folded = e_sum[15:0] + {15'd0, e_sum[16]};
    always_ff @(posedge clk) begin
        if (advance) begin
            if (e_valid) going <= go;
            f_going <= go;
            f_head <= e_first && divert;
            f_patch <= go && e_patch;
            {f_six, f_tag, f_tcp} <= {e_six, e_tag, e_tcp};
            {f_new, f_mac} <= {e_new, e_mac};
            f_sum <= e_udp && folded == 16'hffff ? 16'd0 : folded;
            f_sum_ip <= e_sum_ip[15:0] + {15'd0, e_sum_ip[16]};
        end
    end

    // g: for each 16-bit word of the stream what is to come there, as a number that a LUT per bit
    // takes as its address.
    logic         g_going;
    logic [127:0] g_new;
    logic [47:0]  g_mac;
    logic [15:0]  g_sum, g_sum_ip;
    always_ff @(posedge clk) begin
        if (advance) begin
            {g_new, g_mac, g_sum, g_sum_ip} <= {f_new, f_mac, f_sum, f_sum_ip};
            g_going <= f_going;
        end
    end
    wire four = f_head && !f_six && !f_tag, four_tag = f_head && !f_six && f_tag;
    wire six_plain = f_head && f_six && !f_tag, six_tag = f_head && f_six && f_tag;
    wire [2:0] patched = {f_tcp, f_six, f_tag};

    // m: the word with its changes.
    wire [511:0] changed;
    genvar w;
    generate
        for (w = 0; w < 32; w = w + 1) begin : word
            // What may come to this word of the stream, and which number means it. 0: it stays.
            localparam MACS = SOURCE == 0 ? 0 : 3;
            localparam PUT = w == 20 ? 0 : w == 22 ? 1 : w == 30 ? 2 : w == 0 ? 3 : w == 25 ? 4
                : w == 27 ? 5 : w == 3 ? 6
                : w == 5 ? 7 : 8;
            localparam [0:0] IN_MAC = w >= MACS && w < MACS + 3;
            localparam [0:0] IN_FOUR = w >= FOUR/2 && w < FOUR/2 + 2,
                IN_FOUR_TAG = w >= FOUR/2 + 2 && w < FOUR/2 + 4;
            localparam [0:0] IN_SIX = w >= SIX/2 && w < SIX/2 + 8,
                IN_SIX_TAG = w >= SIX/2 + 2 && w < SIX/2 + 10;
            localparam [0:0] IN_IP = w == 12, IN_IP_TAG = w == 14, IN_PUT = PUT < 8;
            localparam [2:0] AS_MAC = 1;
            localparam [2:0] AS_FOUR = AS_MAC + {2'b0, IN_MAC};
            localparam [2:0] AS_FOUR_TAG = AS_FOUR + {2'b0, IN_FOUR};
            localparam [2:0] AS_SIX = AS_FOUR_TAG + {2'b0, IN_FOUR_TAG};
            localparam [2:0] AS_SIX_TAG = AS_SIX + {2'b0, IN_SIX};
            localparam [2:0] AS_IP = AS_SIX_TAG + {2'b0, IN_SIX_TAG};
            localparam [2:0] AS_PUT = AS_IP + {2'b0, IN_IP || IN_IP_TAG};

            logic [2:0] pick;
            always_ff @(posedge clk) begin
                if (advance) begin
                    pick <= (IN_MAC && f_head ? AS_MAC : 3'd0)
                        | (IN_FOUR && four ? AS_FOUR : 3'd0)
                            | (IN_FOUR_TAG && four_tag ? AS_FOUR_TAG : 3'd0)
                        | (IN_SIX && six_plain ? AS_SIX : 3'd0)
                            | (IN_SIX_TAG && six_tag ? AS_SIX_TAG : 3'd0)
                        | (IN_IP && four || IN_IP_TAG && four_tag ? AS_IP : 3'd0)
                        | (IN_PUT && f_patch && patched == PUT[2:0] ? AS_PUT : 3'd0);
                end
            end

            wire [15:0] old = {g_data[w*16 +: 8], g_data[w*16 + 8 +: 8]};
            wire [15:0] now = IN_MAC && pick == AS_MAC ? g_mac[(IN_MAC ? MACS + 2 - w : 0)*16 +: 16]
                : IN_FOUR && pick == AS_FOUR ? g_new[(IN_FOUR ? FOUR/2 + 1 - w : 0)*16 +: 16]
                : IN_FOUR_TAG && pick == AS_FOUR_TAG
                    ? g_new[(IN_FOUR_TAG ? FOUR/2 + 3 - w : 0)*16 +: 16]
                : IN_SIX && pick == AS_SIX ? g_new[(IN_SIX ? SIX/2 + 7 - w : 0)*16 +: 16]
                : IN_SIX_TAG && pick == AS_SIX_TAG
                    ? g_new[(IN_SIX_TAG ? SIX/2 + 9 - w : 0)*16 +: 16]
                : (IN_IP || IN_IP_TAG) && pick == AS_IP ? ~g_sum_ip
                : IN_PUT && pick == AS_PUT ? ~g_sum : old;
            assign changed[w*16 +: 16] = {now[7:0], now[15:8]};
        end
    endgenerate

    logic going_out;
    always_ff @(posedge clk) begin
        if (advance) begin
            m_axis_tdata <= changed;
            going_out <= g_going;
        end
    end
    assign m_changed = m_axis_tvalid && m_axis_tready && m_axis_tlast && going_out;
endmodule
`undef NF_TWO
`undef NF_FOUR
`default_nettype wire
