// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_entries: an array for pipelines: lookups of PORTS numbers and changes of all of these
// entries every cycle.
//
// Lookups enter together with `k_valid`, and three cycles later `c_hit` (the number is below
// CAPACITY) and `c_value` are what the table holds then, port by port. APART cycles later each
// port's entry may be written (its bit of `w_write`, with its own `w_value`), or, where APART is 0,
// as long as no other lookup comes out. Ports may ask for the same entry, of which then one at most
// writes it. Lookups on their way take over what the two changes before theirs wrote (forwarding);
// none of the same entries may come out in between, which nf_pipe_lock sees to.
//
// A memory takes one change a cycle, so each port that changes entries (WRITTEN) has one of its
// own, with a copy for each port that reads. An entry is the exclusive or of what all of them hold
// under its number (LaForest et al., 2012). A port that changes an entry has read it, so it knows
// what the others hold: it writes what makes the new value of them, and nothing needs to remember
// who wrote last. WRITTEN * PORTS memories of the array's size.
//
// h_: the host's operations as nf_table_array defines them, while no lookup is on its way; KEPT is
// the EXTRA there, whose bits VALUE includes; without it found entries' indices are not said.
// Latency: 3 cycles. Throughput: one a cycle. After a reset `ready` stays low until all entries are
// zero, CAPACITY cycles.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_entries #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer KEPT = 0,
    parameter integer APART = 0,
    parameter integer PORTS = 2,
    parameter [PORTS-1:0] WRITTEN = {PORTS{1'b1}}
) (
    input  wire                    clk,
    input  wire                    rst,
    output logic                   ready,
    input  wire                    k_valid,
    input  wire  [  PORTS*KEY-1:0] k_key,
    output logic [      PORTS-1:0] c_hit,
    output logic [PORTS*VALUE-1:0] c_value,
    output wire  [      PORTS-1:0] c_room,
    input  wire  [      PORTS-1:0] w_write,
    input  wire  [      PORTS-1:0] w_delete,
    input  wire  [PORTS*VALUE-1:0] w_value,
    input  wire                    h_req,
    input  wire  [            3:0] h_op,
    input  wire  [        KEY-1:0] h_key,
    input  wire  [      VALUE-1:0] h_value,
    input  wire  [           31:0] h_index,
    output logic                   h_done,
    output logic                   h_ok,
    output logic [        KEY-1:0] h_r_key,
    output logic [      VALUE-1:0] h_r_value,
    output logic [           31:0] h_r_index,
    output logic [           31:0] n_evicted
);
  localparam integer A = CAPACITY > 1 ? $clog2(CAPACITY) : 1;
  // {it may be changed, number, what the other memories hold}
  localparam integer PAST = 1 + A + VALUE;

  // The host changes entries by the first port that does.
  function integer first(input [PORTS-1:0] of);
    integer i;
    begin
      first = 0;
      for (i = PORTS - 1; i >= 0; i = i - 1) if (of[i]) first = i;
    end
  endfunction
  localparam integer HOST = first(WRITTEN);

  localparam logic [2:0] CLEAR = 3'd0, IDLE = 3'd1, ASK = 3'd2, WAIT = 3'd3, ACT = 3'd4, END = 3'd5;
  logic [2:0] state;
  logic [A-1:0] sweep;
  // Cycles of a lookup and of the change behind it.
  localparam integer WAIT_BITS = $clog2(APART + 5);
  logic [WAIT_BITS-1:0] waited;
  logic ask, act, v1, v2;
  assign ready = state != CLEAR;
  assign ask = state == ASK;
  assign act = state == ACT;
  assign h_done = state == END;
  assign n_evicted = '0;
  // The host's write, and the upper bits that its update leaves as they are.
  localparam [VALUE-1:0] STAY = KEPT > 0 ? ~({VALUE{1'b1}} >> KEPT) : '0;
  wire h_write = KEPT > 0 && h_op == 4'd4;
  wire by_index = h_op == 4'd6 || h_write;
  wire [VALUE-1:0] h_new = h_op == 4'd2 ? '0 : h_op == 4'd1
      ? (h_value & ~STAY) | (c_value[VALUE*HOST+:VALUE] & STAY) : h_value;
  assign c_room = c_hit;

  // ---- changes: of each port the number, the value, and what its own memory gets
  // ---------------------------
  logic [PORTS-1:0] change, p_change;
  logic [PORTS*A-1:0] at_w, p_at;
  logic [PORTS*VALUE-1:0] value, p_value, part, p_part;
  always_ff @(posedge clk) begin
    p_change <= rst ? '0 : change;
    {p_at, p_value, p_part} <= {at_w, value, part};
  end

  genvar p, w;
  generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
      // ---- a lookup
      // ----------------------------------------------------------------------------------------
      logic [KEY-1:0] key_in;
      logic [A-1:0] at1, at2, at3;
      logic in1, in2;
      wire [PORTS*VALUE-1:0] read;  // by memory
      assign key_in = !ask ? k_key[KEY*p+:KEY] : by_index ? KEY'(h_index) : h_key;
      for (w = 0; w < PORTS; w = w + 1) begin : g_memory
        if (WRITTEN[w]) begin : g_copy
          logic [VALUE-1:0] mem[0:CAPACITY-1];
          logic [VALUE-1:0] q;
          always_ff @(posedge clk) begin
            if (change[w] || state == CLEAR) mem[state==CLEAR?sweep : at_w[A*w+:A]] <=
                state == CLEAR ? '0 : part[VALUE*w+:VALUE];
            q <= mem[at1];
          end
          assign read[VALUE*w+:VALUE] = q;
        end else begin : g_none
          assign read[VALUE*w+:VALUE] = '0;
        end
      end

      // ---- forwarding: at most one port changed the entry in a cycle
      // ------------------------------------------
      logic [PORTS-1:0] by_now, by_past;
      logic [VALUE-1:0] found, own, mine;
      integer m;
      always_comb begin
        for (m = 0; m < PORTS; m = m + 1) begin
          by_now[m]  = in2 && change[m] && at_w[A*m+:A] == at2;
          by_past[m] = in2 && p_change[m] && p_at[A*m+:A] == at2;
        end
        found = '0;
        for (m = 0; m < PORTS; m = m + 1) found = found ^ read[VALUE*m+:VALUE];
        found = found & {VALUE{in2 && by_now == '0 && by_past == '0}};
        for (m = 0; m < PORTS; m = m + 1)
          found = found | ({VALUE{by_now[m]}} & value[VALUE*m+:VALUE])
              | ({VALUE{by_past[m] && by_now == '0}} & p_value[VALUE*m+:VALUE]);
        own = by_now[p] ? part[VALUE*p+:VALUE] : by_past[p] ? p_part[VALUE*p+:VALUE]
            : read[VALUE*p+:VALUE];
      end
      always_ff @(posedge clk) begin
        {at1, in1} <= {A'(key_in), key_in < KEY'(CAPACITY)};
        {at2, in2} <= {at1, in1};
        if (v2) begin
          at3 <= at2;
          c_hit[p] <= in2;
          c_value[VALUE*p+:VALUE] <= found;
          mine <= own;
        end
        if (rst) c_hit[p] <= 1'b0;
      end

      // ---- the entry that may be changed
      // -----------------------------------------------------------------------
      wire hit_w;
      wire [VALUE-1:0] rest;
      if (!WRITTEN[p]) begin : g_never
        assign {hit_w, at_w[A*p+:A], rest} = '0;
      end else if (APART == 0) begin : g_now
        assign {hit_w, at_w[A*p+:A], rest} = {c_hit[p], at3, c_value[VALUE*p+:VALUE] ^ mine};
      end else begin : g_apart
        logic [APART*PAST-1:0] past;
        always_ff @(posedge clk) past <=
            (APART * PAST)'({past, c_hit[p] && !rst, at3, c_value[VALUE*p+:VALUE] ^ mine});
        assign {hit_w, at_w[A*p+:A], rest} = past[APART*PAST-1-:PAST];
      end
      assign change[p] = hit_w && (act ? p == HOST && (h_op == 4'd1 || h_op == 4'd2 || h_write)
          : w_write[p] || w_delete[p]);
      assign value[VALUE*p+:VALUE] = act ? h_new : w_delete[p] ? '0 : w_value[VALUE*p+:VALUE];
      assign part[VALUE*p+:VALUE] = value[VALUE*p+:VALUE] ^ rest;
    end
  endgenerate

  always_ff @(posedge clk)
    if (rst) {v1, v2} <= 2'b00;
    else {v1, v2} <= {k_valid || ask, v1};

  // ---- the host, and clearing
  // --------------------------------------------------------------------------------
  always_ff @(posedge clk) begin
    if (rst) begin
      state <= CLEAR;
      sweep <= '0;
    end else
      case (state)
        CLEAR: begin
          sweep <= sweep + 1'b1;
          if (sweep == A'(CAPACITY - 1)) state <= IDLE;
        end
        IDLE: begin
          waited <= '0;
          if (h_req) state <= ASK;
        end
        ASK: begin
          h_r_key <= by_index ? KEY'(h_index) : h_key;
          state   <= WAIT;
        end
        WAIT: begin
          waited <= waited + 1'b1;
          if (waited == WAIT_BITS'(1 + APART)) state <= ACT;
        end
        ACT: begin
          h_ok <= c_hit[HOST];
          h_r_value <= c_value[VALUE*HOST+:VALUE];
          h_r_key <= KEY'(h_index);
          h_r_index <= KEPT == 0 || by_index ? h_index : 32'(h_key);
          state <= END;
        end
        default: state <= IDLE;
      endcase
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
