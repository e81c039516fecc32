// Sides of flows: 1024 buckets, each on the NIC or on the host, moved without reordering a flow.
//
// A bucket is ten bits of the folded flow. Software says where each is wanted (and chooses so that those on the NIC carry no more than
// the threshold). A bucket moves with the first packet that comes `drain` after the one before it, when the old side has
// sent all it had; before, its packets only stamp the time. Times are in units of 1024 cycles, 14 bits.
//
// Ports       b_flow: of the packet at stage b of nf_balance_rewrite; e_*: the same packet at e. `host`: where it goes, at e.
//             w_*: where a bucket is wanted.
// Latency     3 cycles from b to e.
// Throughput  one packet a cycle; the state of a bucket is forwarded to a packet right behind.
// Reset       does not change sides, which start on the NIC.
`default_nettype none
module nf_balance_flows (
    input  wire         clk,
    input  wire  [13:0] drain,
    input  wire         advance,
    input  wire  [15:0] b_flow,
    input  wire         e_first,
    output logic        host,
    input  wire         w_valid,
    input  wire  [9:0]  w_bucket,
    input  wire         w_host
);
    localparam STATE = 16;      // {side, stamped, time}

    (* ram_style = "block" *)
    logic             wanted [0:1023];
    (* ram_style = "block" *)
    logic [STATE-1:0] states [0:1023];
`ifndef SYNTHESIS
    // Block memory holds zeros when the device has been configured; a simulator is told so.
    integer i;
    initial begin
        for (i = 0; i < 1024; i = i + 1) begin
            wanted[i] = 0;
            states[i] = 0;
        end
    end
`endif

    logic [23:0]      cycles;
    logic [9:0]       c_bucket, d_bucket, e_bucket, written_bucket;
    logic [STATE-1:0] d_state, e_state, written;
    logic             d_wanted, e_wanted;
    wire  [13:0]      now = cycles[23:10];

    // At e: the state as the packet before left it, which may be one of the same bucket.
    wire side = e_state[STATE-1];
    wire stamped = e_state[STATE-2];
    wire [13:0] quiet = now - e_state[13:0];
    wire moves = side != e_wanted && stamped && quiet >= drain;
    wire after = moves ? e_wanted : side;
    wire [STATE-1:0] state = {after, after != e_wanted, now};
    wire write = advance && e_first;
    assign host = after;

    always_ff @(posedge clk) begin
        cycles <= cycles + 1'b1;
        if (w_valid) wanted[w_bucket] <= w_host;
        if (write) states[e_bucket] <= state;
        if (advance) begin
            c_bucket <= b_flow[9:0] ^ {4'b0, b_flow[15:10]};
            d_bucket <= c_bucket;
            d_state <= states[c_bucket];
            d_wanted <= wanted[c_bucket];
            e_bucket <= d_bucket;
            e_wanted <= d_wanted;
            // Writes of the last two packets are younger than what was read.
            if (write && e_bucket == d_bucket) e_state <= state;
            else if (written_valid && written_bucket == d_bucket) e_state <= written;
            else e_state <= d_state;
            written_valid <= write;
            written_bucket <= e_bucket;
            written <= state;
        end
    end
    logic written_valid;
`ifndef SYNTHESIS
    initial cycles = 0;
`endif
endmodule
`default_nettype wire
