// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_table_hash: exact match for engines. Interface: see nf_table_array.
//
// Entries stay where they were put, so that byte strings beside them need not move. Buckets are
// chains: `head` names a bucket's first entry, `next` the one behind each. Deleted entries go on a
// list through `next` and are used again first. The table takes exactly CAPACITY entries, whatever
// their keys, and refuses the next one; with LRU it evicts the entry that was used longest ago
// instead: a list in order of use runs through `older` and `newer`.
//
// The bucket is H3 of the key: bit i is the parity of the key under mask i of H3 (Carter and
// Wegman, 1979).
//
// Latency: 4 cycles for a hit on the first entry of a chain, one more for every entry before it; an
// update that inserts 6, with an eviction some 12. Throughput: one operation at a time. After a
// reset `ready` stays low until all buckets are empty.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_table_hash #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer EXTRA = 0,
    parameter integer CAPACITY = 16,
    parameter integer LRU = 0,
    parameter integer W = VALUE + EXTRA,
    parameter integer B = CAPACITY > 1 ? $clog2(CAPACITY) : 1,  // bits of a bucket's number
    parameter [KEY*B-1:0] H3 = {KEY * B{1'b1}}
) (
    input  wire            clk,
    input  wire            rst,
    output logic           ready,
    input  wire            req,
    input  wire  [    3:0] op,
    input  wire  [KEY-1:0] key,
    input  wire  [  W-1:0] value,
    input  wire  [KEY-1:0] mask,
    input  wire  [   31:0] detail,
    input  wire  [   31:0] index,
    output logic           done,
    output logic           ok,
    output logic [KEY-1:0] r_key,
    output logic [KEY-1:0] r_mask,
    output logic [   31:0] r_detail,
    output logic [  W-1:0] r_value,
    output logic [   31:0] r_index,
    output logic [   31:0] n_refused,
    output logic [   31:0] n_evicted
);
  localparam integer A = CAPACITY > 1 ? $clog2(CAPACITY) : 1;
  localparam integer BUCKETS = 1 << B;
  // Bits that an update of an entry leaves as they are.
  localparam [W-1:0] KEPT = ~({W{1'b1}} >> EXTRA);
  localparam logic [3:0] UPDATE = 4'd1, DELETE = 4'd2, ENSURE = 4'd3, WRITE = 4'd4, PEEK = 4'd5,
      NEXT = 4'd6;
  localparam logic [3:0] CLEAR = 4'd0, IDLE = 4'd1, HEAD = 4'd2, LOOK = 4'd3, HIT = 4'd4,
      MISS = 4'd5, FREE = 4'd6,
      TAKE = 4'd7, FILL = 4'd8, LIFT = 4'd9, FRONT = 4'd10, OLDEST = 4'd11, VICTIM = 4'd12,
          SCAN = 4'd13, SEEN = 4'd14,
      DONE = 4'd15;
  logic [3:0] state;

  function [B-1:0] bucket_of(input [KEY-1:0] of);
    integer i;
    for (i = 0; i < B; i = i + 1) bucket_of[i] = ^(of & H3[i*KEY+:KEY]);
  endfunction

  logic [B:0] sweep;
  logic [B-1:0] bucket, h_at;
  logic [A:0] fresh, count;
  logic [A-1:0] cur, prior, free_first, e_at;
  logic has_before, free_any, evicting, lifting, for_insert;

  // ---- memories: one read port and one write port each
  // ---------------------------------------------------
  logic [A:0] head[0:BUCKETS-1];
  logic [A:0] next[0:CAPACITY-1];
  logic [KEY-1:0] keys[0:CAPACITY-1];
  logic [W-1:0] values[0:CAPACITY-1];
  logic live[0:CAPACITY-1];
  logic [A:0] head_q, next_q;
  logic [KEY-1:0] key_q;
  logic [W-1:0] value_q;
  logic live_q;
  logic head_w, next_w, key_w, value_w, live_w, live_d;
  logic [B-1:0] head_wa;
  logic [A:0] head_d, next_d;
  logic [A-1:0] next_wa, live_wa;
  logic [W-1:0] value_d;

  always_ff @(posedge clk) begin
    head_q <= head[h_at];
    if (head_w) head[head_wa] <= head_d;
  end
  always_ff @(posedge clk) begin
    next_q <= next[e_at];
    if (next_w) next[next_wa] <= next_d;
  end
  always_ff @(posedge clk) begin
    key_q <= keys[e_at];
    if (key_w) keys[cur] <= key;
  end
  always_ff @(posedge clk) begin
    value_q <= values[e_at];
    if (value_w) values[cur] <= value_d;
  end
  always_ff @(posedge clk) begin
    live_q <= live[e_at];
    if (live_w) live[live_wa] <= live_d;
  end

  // ---- order of use
  // --------------------------------------------------------------------------------------
  logic [A-1:0] newest, oldest, newer_q, older_q;
  logic newer_w, older_w;
  logic [A-1:0] newer_wa, older_wa, newer_d, older_d;
  generate
    if (LRU != 0) begin : g_order
      logic [A-1:0] newer[0:CAPACITY-1];
      logic [A-1:0] older[0:CAPACITY-1];
      always_ff @(posedge clk) begin
        newer_q <= newer[e_at];
        if (newer_w) newer[newer_wa] <= newer_d;
      end
      always_ff @(posedge clk) begin
        older_q <= older[e_at];
        if (older_w) older[older_wa] <= older_d;
      end
    end else begin : g_none
      assign newer_q = '0;
      assign older_q = '0;
    end
  endgenerate

  logic found, uses;
  assign found = evicting ? cur == oldest : key_q == key;
  assign uses = LRU != 0 && op != PEEK && op != WRITE;

  // Addresses of the reads whose data the next state looks at.
  always_comb begin
    h_at = bucket;
    if (state == IDLE) h_at = bucket_of(key);
    if (state == VICTIM) h_at = bucket_of(key_q);
    e_at = cur;
    if (state == HEAD) e_at = head_q[A-1:0];
    if (state == LOOK && !found) e_at = next_q[A-1:0];
    if (state == MISS) e_at = free_first;
    if (state == OLDEST) e_at = oldest;
    if (state == SCAN) e_at = cur;
  end

  always_comb begin
    head_w = 1'b0;
    head_wa = bucket;
    head_d = '0;
    next_w = 1'b0;
    next_wa = cur;
    next_d = '0;
    key_w = 1'b0;
    value_w = 1'b0;
    value_d = value;
    live_w = 1'b0;
    live_wa = cur;
    live_d = 1'b0;
    newer_w = 1'b0;
    newer_wa = cur;
    newer_d = '0;
    older_w = 1'b0;
    older_wa = cur;
    older_d = '0;
    case (state)
      CLEAR: begin
        head_w = 1'b1;
        head_wa = sweep[B-1:0];
        live_w = 32'(sweep) < 32'(CAPACITY);
        live_wa = A'(sweep);
      end
      HIT: begin
        if (op == WRITE) value_w = 1'b1;
        if (op == UPDATE && !evicting) begin
          value_w = 1'b1;
          value_d = (value & ~KEPT) | (value_q & KEPT);
        end
        if (op == DELETE || evicting) begin
          next_w = has_before;
          next_wa = prior;
          next_d = next_q;
          head_w = !has_before;
          head_d = next_q;
        end
      end
      FREE: begin
        next_w = 1'b1;
        next_d = {free_any, free_first};
        live_w = 1'b1;
        // Out of the order of use.
        newer_w = cur != oldest;
        newer_wa = older_q;
        newer_d = newer_q;
        older_w = cur != newest;
        older_wa = newer_q;
        older_d = older_q;
      end
      FILL: begin
        key_w = 1'b1;
        value_w = 1'b1;
        if (op == ENSURE) value_d = '0;
        value_d = value_d & ~KEPT;
        live_w = 1'b1;
        live_d = 1'b1;
        next_w = 1'b1;
        next_d = head_q;
        head_w = 1'b1;
        head_d = {1'b1, cur};
      end
      LIFT: begin
        newer_w = cur != oldest;
        newer_wa = older_q;
        newer_d = newer_q;
        older_w = 1'b1;
        older_wa = newer_q;
        older_d = older_q;
      end
      FRONT: begin
        newer_w = 1'b1;
        newer_wa = newest;
        newer_d = cur;
        older_w = 1'b1;
        older_wa = cur;
        older_d = newest;
      end
      default: ;
    endcase
  end

  assign ready = state != CLEAR;
  assign done = state == DONE;
  assign r_mask = '0;
  assign r_detail = '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= CLEAR;
      sweep <= '0;
      fresh <= '0;
      count <= '0;
      free_any <= 1'b0;
      evicting <= 1'b0;
      n_refused <= '0;
      n_evicted <= '0;
    end else
      case (state)
        CLEAR: begin
          sweep <= sweep + 1'b1;
          if (sweep == (B + 1)'(BUCKETS - 1)) state <= IDLE;
        end
        IDLE: begin
          bucket <= bucket_of(key);
          has_before <= 1'b0;
          ok <= 1'b0;
          r_value <= '0;
          r_index <= '0;
          if (op == NEXT || op == WRITE) cur <= A'(index);
          if (req)
            state <= op == NEXT ? (index < 32'(CAPACITY) ? SCAN : DONE) : op == WRITE ? HIT : HEAD;
        end
        HEAD: begin
          cur   <= head_q[A-1:0];
          state <= head_q[A] ? LOOK : MISS;
        end
        LOOK:
        if (found) state <= HIT;
        else begin
          prior <= cur;
          has_before <= 1'b1;
          cur <= next_q[A-1:0];
          state <= next_q[A] ? LOOK : MISS;
        end
        HIT: begin
          ok <= 1'b1;
          r_value <= value_q;
          r_index <= 32'(cur);
          state <= op == DELETE || evicting ? FREE : uses && cur != newest ? LIFT : DONE;
        end
        MISS:
        if (op != UPDATE && op != ENSURE) state <= DONE;
        else if (count == (A + 1)'(CAPACITY)) begin
          if (LRU != 0) state <= OLDEST;
          else begin
            n_refused <= n_refused + 1'b1;
            state <= DONE;
          end
        end else begin
          cur   <= free_any ? free_first : fresh[A-1:0];
          state <= TAKE;
        end
        // The entry behind the free one is read while its number becomes current.
        TAKE: begin
          if (free_any) {free_any, free_first} <= next_q;
          else fresh <= fresh + 1'b1;
          state <= FILL;
        end
        FILL: begin
          count <= count + 1'b1;
          ok <= 1'b1;
          r_value <= '0;
          r_index <= 32'(cur);
          if (LRU != 0 && count == '0) begin
            newest <= cur;
            oldest <= cur;
          end
          state <= LRU != 0 && count != '0 ? FRONT : DONE;
        end
        LIFT: begin
          if (cur == oldest) oldest <= newer_q;
          state <= FRONT;
        end
        FRONT: begin
          newest <= cur;
          state  <= DONE;
        end
        FREE: begin
          free_any <= 1'b1;
          free_first <= cur;
          count <= count - 1'b1;
          if (cur == newest) newest <= older_q;
          if (cur == oldest) oldest <= newer_q;
          has_before <= 1'b0;
          evicting <= 1'b0;
          if (evicting) begin
            n_evicted <= n_evicted + 1'b1;
            bucket <= bucket_of(key);
            state <= SEEN;
          end else state <= DONE;
        end
        // An eviction: the oldest entry's key leads to its chain, in which it is looked for by
        // number.
        OLDEST: begin
          evicting <= 1'b1;
          has_before <= 1'b0;
          state <= VICTIM;
        end
        VICTIM: begin
          bucket <= bucket_of(key_q);
          state  <= HEAD;
        end
        // Back to the bucket of the key that is to be inserted.
        SEEN:
        if (op == NEXT) begin
          if (live_q) begin
            ok <= 1'b1;
            r_key <= key_q;
            r_value <= value_q;
            r_index <= 32'(cur);
            state <= DONE;
          end else if (32'(cur) == 32'(CAPACITY - 1)) state <= DONE;
          else begin
            cur   <= cur + 1'b1;
            state <= SCAN;
          end
        end else state <= HEAD;
        SCAN: state <= SEEN;
        default: state <= IDLE;
      endcase
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
