// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_lock: says which packets of a pipe wait because an earlier one may still change what they
// are about to read.
//
// A table whose entries are changed APART cycles after they are read must not be read meanwhile
// where it will be changed. Packets stand in the pipe's gate, a stage in front of the table, as
// long as one that left it at most APART cycles ago has an entry in the same place: of arrays the
// same number (in the same part), of tables that hash a row of either side, so that two new entries
// never choose the same way of a row either. All others leave one behind the other. Ports of an
// array have parts of it, or, with SHARED, all of it.
//
// `k_key` is the keys of the packet that comes to the gate next, two stages in front of it where
// they are hashed, else one; `k_used` says of which of them entries may be asked for, and
// `k_changed` changed: who only reads waits for nobody but those that change, and nobody for him.
// `hold` says that it and all behind stay where they are, `sent` that the packet in the gate
// leaves. What is compared with what is known a cycle ahead, so `waits` comes from registers.
//
// Latency: none beside the gate's stage, and the one in which keys are hashed. Throughput: a packet
// a cycle, of the same place one in APART + 1. Reset: nobody waits.
`default_nettype none
module nf_pipe_lock #(
    parameter integer KEY = 32,
    parameter integer PORTS = 1,
    parameter integer APART = 1,
    parameter integer HASHED = 1,
    parameter integer R = 4,  // bits of a row's number, or of an array's
    parameter integer SHARED = 0,  // every port may ask for every number
    parameter [2*KEY*R-1:0] H3 = {2 * KEY * R{1'b1}}
) (
    input  wire                  clk,
    input  wire                  rst,
    input  wire  [PORTS*KEY-1:0] k_key,
    input  wire  [    PORTS-1:0] k_used,
    input  wire  [    PORTS-1:0] k_changed,
    input  wire                  hold,
    input  wire                  sent,
    output logic                 waits
);
  localparam integer SIDES = HASHED != 0 ? 2 : 1;
  localparam integer TAG = PORTS * SIDES * R;
  logic [TAG-1:0] tags, tags_next, tags_here;
  logic [PORTS-1:0] used_next, changed_next, changed_here;
  logic [APART-1:0] sent_before, meets;  // the lowest: a cycle ago
  logic [APART*TAG-1:0] tags_before;
  logic [APART*PORTS-1:0] changed_before;

  genvar p, i;
  generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
      // Of a number only what tells an array's entries apart.
      // verilator lint_off UNUSEDSIGNAL
      wire [KEY-1:0] key = k_key[KEY*p+:KEY];
      // verilator lint_on UNUSEDSIGNAL
      for (i = 0; i < SIDES * R; i = i + 1) begin : g_bit
        if (HASHED != 0) begin : g_hashed
          assign tags[SIDES*R*p+i] = ^(key & H3[KEY*i+:KEY]);
        end else begin : g_number
          assign tags[SIDES*R*p+i] = key[i];
        end
      end
    end
    if (HASHED != 0) begin : g_stage
      always_ff @(posedge clk) if (!hold) {tags_next, used_next, changed_next} <=
          {tags, k_used, k_changed};
    end else begin : g_no_stage
      assign {tags_next, used_next, changed_next} = {tags, k_used, k_changed};
    end
  endgenerate

  // Every port's row with every port's, side by side; parts of an array are apart.
  function meet(input [TAG-1:0] a, input [TAG-1:0] b, input [PORTS-1:0] a_used,
      input [PORTS-1:0] b_changed);
    integer x, y, s;
    begin
      meet = 1'b0;
      for (x = 0; x < PORTS; x = x + 1)
        for (y = 0; y < PORTS; y = y + 1)
          for (s = 0; s < SIDES; s = s + 1)
            if (HASHED != 0 || SHARED != 0 || x == y)
              meet = meet || (a_used[x] && b_changed[y]
                  && a[R*(SIDES*x+s)+:R] == b[R*(SIDES*y+s)+:R]);
    end
  endfunction

  integer c;
  always_ff @(posedge clk) begin
    sent_before[0] <= sent && !rst;
    tags_before[TAG-1:0] <= tags_here;
    changed_before[PORTS-1:0] <= changed_here;
    if (!hold) begin
      {tags_here, changed_here} <= {tags_next, changed_next};
      meets[0] <= sent && meet(tags_next, tags_here, used_next, changed_here) && !rst;
    end else meets[0] <= 1'b0;
    for (c = 1; c < APART; c = c + 1) begin
      sent_before[c] <= sent_before[c-1] && !rst;
      tags_before[TAG*c+:TAG] <= tags_before[TAG*(c-1)+:TAG];
      changed_before[PORTS*c+:PORTS] <= changed_before[PORTS*(c-1)+:PORTS];
      if (!hold)
        meets[c] <= sent_before[c-1] && !rst
            && meet(tags_next, tags_before[TAG*(c-1)+:TAG], used_next,
                changed_before[PORTS*(c-1)+:PORTS]);
      else meets[c] <= meets[c-1] && !rst;
    end
  end
  assign waits = meets != '0;
endmodule
`default_nettype wire
