// Longest-prefix match as a trie in block memory, STRIDE key bits a level.
//
// A level is a memory of nodes of 2^STRIDE entries {has value, has child, child, value}. A lookup
// reads one entry a level: the key's next bits choose the entry in the node its parent named; the
// value of the deepest entry that has one is the answer. A prefix whose length is no multiple of
// STRIDE is written into all entries it covers (controlled prefix expansion, Srinivasan and
// Varghese 1999). The host keeps the trie and writes entries; a child is written before the entry
// that names it, so lookups always see a whole trie.
//
// Ports       s_*: lookup, always taken, m_*: answer. w_*: writes one entry at {node, key bits} of
//             level `w_level`.
// Latency     2 cycles a level: 8 for IPv4 with a stride of 8.
// Throughput  one lookup and one write a cycle.
// Memory      LEVELS * NODES * 2^STRIDE * (VALUE + 2 + node bits) bits; level 0 has one node.
// Reset       drops lookups under way. Memories are not cleared by it but start empty; the host
//             clears level 0 to forget all.
`default_nettype none
module nf_lpm #(
    parameter KEY = 32,
    parameter STRIDE = 8,
    parameter VALUE = 16,
    parameter NODES = 32,               // a level, at least 2
    parameter NODE = $clog2(NODES),
    parameter LEVELS = (KEY + STRIDE - 1) / STRIDE,
    parameter LEVEL = $clog2(LEVELS + 1)
) (
    input  wire                   clk,
    input  wire                   rst,
    input  wire  [KEY-1:0]        s_key,
    input  wire                   s_valid,
    output logic                  m_valid,
    output logic                  m_hit,
    output logic [VALUE-1:0]      m_value,
    input  wire                   w_valid,
    input  wire  [LEVEL-1:0]      w_level,
    input  wire  [NODE+STRIDE-1:0] w_entry,
    input  wire                   w_has_value,
    input  wire                   w_has_child,
    input  wire  [NODE-1:0]       w_child,
    input  wire  [VALUE-1:0]      w_value
);
    localparam WIDE = LEVELS * STRIDE;  // the key with zeros behind it
    localparam ENTRY = VALUE + NODE + 2;

    // What enters level l is in the slices l of these.
    wire [LEVELS:0]             valid;
    wire [LEVELS:0]             descending;
    wire [LEVELS:0]             hit;
    wire [(LEVELS+1)*VALUE-1:0] value;
    wire [(LEVELS+1)*NODE-1:0]  node;
    wire [(LEVELS+1)*WIDE-1:0]  key;

    wire [WIDE-1:0] padded;
    generate
        if (WIDE == KEY) begin : whole
            assign padded = s_key;
        end else begin : filled
            assign padded = {s_key, {(WIDE - KEY){1'b0}}};
        end
    endgenerate
    assign valid[0] = s_valid;
    assign descending[0] = 1'b1;
    assign hit[0] = 1'b0;
    assign value[VALUE-1:0] = 0;
    assign node[NODE-1:0] = 0;
    assign key[WIDE-1:0] = padded;

    genvar l;
    generate
        for (l = 0; l < LEVELS; l = l + 1) begin : level
            logic [ENTRY-1:0] memory [0:(1 << ((l == 0 ? 0 : NODE) + STRIDE))-1];
            logic [ENTRY-1:0] entry;
            logic             valid_read, valid_out, descending_read, descending_out, hit_read,
                hit_out;
            logic [VALUE-1:0] value_read, value_out;
            logic [NODE-1:0]  node_out;
            logic [WIDE-1:0]  key_read, key_out;

            localparam ADDRESS = (l == 0 ? 0 : NODE) + STRIDE;
            wire [NODE+STRIDE-1:0] place = {node[l*NODE +: NODE], key[(l+1)*WIDE-1 -: STRIDE]};
            wire unused_place = &place;
            wire here = w_valid && w_level == l[LEVEL-1:0];

`ifndef SYNTHESIS
            // Block memory holds zeros when the device has been configured; a simulator is told so.
            integer i;
            initial for (i = 0; i < (1 << ADDRESS); i = i + 1) memory[i] = 0;
`endif

            always_ff @(posedge clk) begin
                if (here) memory[w_entry[ADDRESS-1:0]] <=
                    {w_has_value, w_has_child, w_child, w_value};
                entry <= memory[place[ADDRESS-1:0]];
            end

            wire deeper = descending_read && entry[VALUE+NODE];
            wire found = descending_read && entry[VALUE+NODE+1];
            always_ff @(posedge clk) begin
                valid_read <= valid[l] && !rst;
                descending_read <= descending[l];
                hit_read <= hit[l];
                value_read <= value[l*VALUE +: VALUE];
                key_read <= key[l*WIDE +: WIDE] << STRIDE;

                valid_out <= valid_read && !rst;
                descending_out <= deeper;
                hit_out <= hit_read || found;
                value_out <= found ? entry[VALUE-1:0] : value_read;
                node_out <= entry[VALUE+NODE-1:VALUE];
                key_out <= key_read;
            end
            assign valid[l+1] = valid_out;
            assign descending[l+1] = descending_out;
            assign hit[l+1] = hit_out;
            assign value[(l+1)*VALUE +: VALUE] = value_out;
            assign node[(l+1)*NODE +: NODE] = node_out;
            assign key[(l+1)*WIDE +: WIDE] = key_out;
        end
    endgenerate

    wire unused = &{descending[LEVELS], node[LEVELS*NODE +: NODE], key[LEVELS*WIDE +: WIDE],
        w_entry};
    assign m_valid = valid[LEVELS];
    assign m_hit = hit[LEVELS];
    assign m_value = value[LEVELS*VALUE +: VALUE];
endmodule
`default_nettype wire
