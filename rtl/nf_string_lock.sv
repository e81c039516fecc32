// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_string_lock: says which packets of a pipe wait because bytes of a string that they may read
// are still on their way into it.
//
// The deparser puts bytes into strings, in the order of packets, when these leave, and streams that
// wait make it late by any time. So nothing is scheduled: a packet that may store is noted under
// its slot of the packet buffer when it passes the pipe's gate, and forgotten when the deparser
// gives the slot back, which is with the last line of the last thing it leads to. One that may read
// stands in the gate as long as one before it is noted under the same key, and all behind it. Keys
// are compared by a hash of T bits, so one packet in 2^T also waits for one of another key. Where
// keys are not known in front of the gate all are given the same.
//
// `k_` is the packet that comes to the gate next, two stages in front of it: its keys, and under
// which of these it may read or store; `slot` is that of the packet in the gate, `hold` says that
// it stays, `sent` that it leaves. `waits` comes from a register.
//
// Stores of the slot that is given back are in memory three cycles later; a table behind the gate
// answers after more than that. Latency: none beside the gate's stage and the two in front of it.
// Throughput: a packet a cycle. Reset: nobody waits, nothing is noted.
`default_nettype none
module nf_string_lock #(
    parameter integer KEY = 32,
    parameter integer PORTS = 1,
    parameter integer SLOTS = 32,
    parameter integer T = 12,
    parameter integer SW = $clog2(SLOTS),
    parameter [KEY*T-1:0] H3 = {KEY * T{1'b1}}
) (
    input  wire                  clk,
    input  wire                  rst,
    input  wire  [PORTS*KEY-1:0] k_key,
    input  wire  [    PORTS-1:0] k_reads,
    input  wire  [    PORTS-1:0] k_stores,
    input  wire  [       SW-1:0] slot,
    input  wire                  hold,
    input  wire                  sent,
    // the deparser gives a slot back
    input  wire                  done,
    input  wire  [       SW-1:0] done_slot,
    output logic                 waits
);
  localparam integer TAGS = PORTS * T;
  logic [TAGS-1:0] tags, tags_next, tags_here;
  logic [PORTS-1:0] reads_next, stores_next, stores_here;
  logic [SLOTS-1:0] is_done, meets, meets_next, meets_still;
  // By slot: under which keys it may store.
  logic [SLOTS*PORTS-1:0] noted;
  logic [SLOTS*TAGS-1:0] noted_tags;

  genvar p, i, s;
  generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
      for (i = 0; i < T; i = i + 1) begin : g_bit
        assign tags[T*p+i] = ^(k_key[KEY*p+:KEY] & H3[KEY*i+:KEY]);
      end
    end
    for (s = 0; s < SLOTS; s = s + 1) begin : g_slot
      wire here = sent && slot == s;
      assign is_done[s] = done && done_slot == s;
      assign meets_next[s] = here ? meet(tags_next, reads_next, tags_here, stores_here)
          : !is_done[s] && meet(tags_next, reads_next, noted_tags[TAGS*s+:TAGS],
              noted[PORTS*s+:PORTS]);
      always_ff @(posedge clk) begin
        if (rst || is_done[s]) noted[PORTS*s+:PORTS] <= '0;
        else if (here) noted[PORTS*s+:PORTS] <= stores_here;
        if (here) noted_tags[TAGS*s+:TAGS] <= tags_here;
      end
    end
  endgenerate
  assign meets_still = meets & ~is_done;

  // Each key that is read with each that is stored under.
  function meet(input [TAGS-1:0] a, input [PORTS-1:0] a_reads, input [TAGS-1:0] b,
      input [PORTS-1:0] b_stores);
    integer x, y;
    begin
      meet = 1'b0;
      for (x = 0; x < PORTS; x = x + 1)
        for (y = 0; y < PORTS; y = y + 1)
          meet = meet || (a_reads[x] && b_stores[y] && a[T*x+:T] == b[T*y+:T]);
    end
  endfunction

  always_ff @(posedge clk) begin
    if (!hold) begin
      {tags_next, reads_next, stores_next} <= {tags, k_reads, k_stores};
      {tags_here, stores_here} <= {tags_next, stores_next};
    end
    if (rst) begin
      meets <= '0;
      waits <= 1'b0;
    end else begin
      meets <= hold ? meets_still : meets_next;
      waits <= hold ? meets_still != '0 : meets_next != '0;
    end
  end
endmodule
`default_nettype wire
