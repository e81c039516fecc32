// Sides of flows: 1024 buckets, each on the NIC or on the host, moved without reordering a flow.
//
// A bucket is ten bits of the folded flow. Software says where each is wanted (and chooses so that
// those on the NIC carry no more than the threshold). A bucket moves with the first packet that
// comes `drain` after the one before it, when the old side has sent all it had; before, its packets
// only stamp the time. Times are in units of 1024 cycles, 14 bits.
//
// Ports       b_flow: of the packet at stage b of nf_balance_rewrite; e_*: the same packet at e.
//             `host`: where it goes, at e. w_*: where a bucket is wanted.
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
    logic [9:0]       c_bucket, d_bucket, e_bucket;
    logic [STATE-1:0] d_state;
    logic             d_wanted, e_wanted, e_side;
    logic             d_next, d_written, written_side, written_stamped, at_once;
    wire  [13:0]      now = cycles[23:10];

    // At d: where the packet will go. The one right before may be of the same bucket (`d_next`: it
    // is at e and writes now), or the one before that (`d_written`: it wrote when the state was
    // read). Nothing was quiet since then, so the side changes only if `drain` is zero.
    wire e_stamped = e_side != e_wanted;
    wire write = advance && e_first;
    wire [13:0] quiet = now - d_state[13:0];
    wire recent = d_next && e_first || d_written;
    wire recent_side = d_next && e_first ? e_side : written_side;
    wire recent_stamped = d_next && e_first ? e_stamped : written_stamped;
    wire side = recent ? recent_side : d_state[STATE-1];
    wire moves = recent ? recent_stamped && at_once : d_state[STATE-2] && quiet >= drain;
    assign host = e_side;

    always_ff @(posedge clk) begin
        cycles <= cycles + 1'b1;
        at_once <= drain == 0;
        if (w_valid) wanted[w_bucket] <= w_host;
        if (write) states[e_bucket] <= {e_side, e_stamped, now};
        if (advance) begin
            c_bucket <= b_flow[9:0] ^ {4'b0, b_flow[15:10]};
            d_bucket <= c_bucket;
            d_state <= states[c_bucket];
            d_wanted <= wanted[c_bucket];
            e_bucket <= d_bucket;
            e_wanted <= d_wanted;
            e_side <= moves ? d_wanted : side;
            d_next <= c_bucket == d_bucket;
            d_written <= e_first && c_bucket == e_bucket;
            written_side <= e_side;
            written_stamped <= e_stamped;
        end
    end
`ifndef SYNTHESIS
    initial cycles = 0;
`endif
endmodule
`default_nettype wire
