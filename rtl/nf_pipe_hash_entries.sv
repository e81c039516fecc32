// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_hash_entries: exact match for pipelines: lookups of PORTS keys and changes of all of
// these entries every cycle.
//
// Keys enter together with `k_valid`, and five cycles later `c_hit`, `c_value` and `c_room` are
// what the table holds then, port by port. APART cycles later (at least PORTS - 1; there are two
// PORTS or more) each port's entry may be written (its bit of `w_write`, with its own `w_value`) or
// deleted (`w_delete`). Ports may be given the same key, whose entry then at most one of them
// changes. Lookups on their way take over what is changed under their key (forwarding); none of a
// key with a row in common may come out in between, which nf_pipe_lock sees to.
//
// Two sides of four ways, as in nf_pipe_hash, without a stash. A memory takes one change a cycle,
// so each port that changes entries (WRITTEN) has one of its own, with a copy for each port that
// reads. An entry is the exclusive or of what all of them hold (LaForest et al., 2012), and an
// empty place is zero. Each writer has one copy more, by which it finds what its own memory holds
// at the place that it is going to change.
//
// A new entry's place is found beside the lookup, whether or not it is needed: one port after the
// other takes one that none before it takes, nor others on their way, a cycle each. `c_room` is low
// where the key is not there and CAPACITY leaves no room, or the key's two rows have no place
// beside those of the ports before; entries that others on their way may yet add are counted as if
// they had been.
//
// With KEPT, PORTS - 1 cycles behind `c_hit`, `c_place` is the number {row, way} of each entry's
// place, or of the one where a new one would be put; ports with the same key have the same place,
// so whichever of them makes the entry puts it there. Of the upper KEPT bits of values the host's
// update (1) leaves what there is, its write (4) does not.
//
// h_: the host's operations as nf_table_array defines them, while no lookup is on its way.
// Latency: 5 cycles. Throughput: one a cycle. After a reset `ready` stays low until all rows are
// empty.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_hash_entries #(
    parameter integer KEY = 32,
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer PORTS = 2,
    parameter [PORTS-1:0] WRITTEN = {PORTS{1'b1}},
    parameter integer APART = PORTS - 1,
    parameter integer KEPT = 0,
    parameter integer R = CAPACITY > 8 ? $clog2(CAPACITY) - 2 : 1,  // bits of a row's number
    parameter [2*KEY*R-1:0] H3 = {2 * KEY * R{1'b1}}
) (
    input  wire                    clk,
    input  wire                    rst,
    output logic                   ready,
    input  wire                    k_valid,
    input  wire  [  PORTS*KEY-1:0] k_key,
    output logic [      PORTS-1:0] c_hit,
    output logic [PORTS*VALUE-1:0] c_value,
    output logic [      PORTS-1:0] c_room,
    output wire  [   32*PORTS-1:0] c_place,
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
  localparam integer ENTRY = 1 + KEY + VALUE;  // {it is there, key, value}
  localparam integer PLACE = R + 3;  // {side, way, row}
  localparam integer COUNT = $clog2(CAPACITY + 2 + PORTS * (APART + 2)) + 1;
  localparam integer MANY = $clog2(PORTS + 1);

  // The host changes entries by the first port that does.
  function integer first(input [PORTS-1:0] of);
    integer i;
    begin
      first = 0;
      for (i = PORTS - 1; i >= 0; i = i - 1) if (of[i]) first = i;
    end
  endfunction
  localparam integer HOST = first(WRITTEN);

  function [R-1:0] row_of(input [KEY-1:0] of, input side);
    integer i;
    for (i = 0; i < R; i = i + 1) row_of[i] = ^(of & (side ? H3[(R+i)*KEY+:KEY] : H3[i*KEY+:KEY]));
  endfunction
  // At least one, two, three, all of four.
  function [3:0] at_least(input [3:0] of);
    at_least[0] = |of;
    at_least[1] = (of[0] && of[1]) || (of[2] && of[3]) || ((of[0] || of[1]) && (of[2] || of[3]));
    at_least[2] = (of[0] && of[1] && (of[2] || of[3])) || ((of[0] || of[1]) && of[2] && of[3]);
    at_least[3] = &of;
  endfunction
  // The first free way of the emptier row, on the left when equal.
  function [2:0] free_way(input [7:0] used);
    logic [3:0] row;
    logic side;
    begin
      side = (at_least(used[3:0]) & ~at_least(used[7:4])) != '0;
      row = side ? used[7:4] : used[3:0];
      free_way = {side, !row[0] ? 2'd0 : !row[1] ? 2'd1 : !row[2] ? 2'd2 : 2'd3};
    end
  endfunction
  function [MANY-1:0] ones(input [PORTS-1:0] of);
    integer i;
    begin
      ones = '0;
      for (i = 0; i < PORTS; i = i + 1) ones = ones + MANY'(of[i]);
    end
  endfunction

  function [3:0] zeros(input [7:0] of);
    integer i;
    begin
      zeros = '0;
      for (i = 0; i < 8; i = i + 1) zeros = zeros + 4'(!of[i]);
    end
  endfunction

  // ---- the host's operations, and clearing
  // ---------------------------------------------------------------
  localparam logic [2:0] CLEAR = 3'd0, IDLE = 3'd1, ASK = 3'd2, WAIT = 3'd3, ACT = 3'd4,
      SCAN = 3'd5, SEE = 3'd6, END = 3'd7;
  logic [2:0] state;
  logic [PLACE-1:0] sweep;
  // Cycles of a lookup and of the change behind it.
  localparam integer WAIT_BITS = $clog2(APART + 5);
  logic [WAIT_BITS-1:0] waited;
  logic ask, act;
  logic [R:0] scan_row;
  logic [2:0] scan_from;
  wire [8*ENTRY-1:0] row_q;
  assign ready = state != CLEAR;
  assign ask = state == ASK;
  assign act = state == ACT;
  assign h_done = state == END;
  assign n_evicted = '0;

  // ---- changes: of each port whether its memory is written, where, and what with
  // ---------------------------
  wire [PORTS-1:0] change, hit_w, inserts, removes;
  wire [PORTS*PLACE-1:0] place_w;
  wire [PORTS*ENTRY-1:0] part;
  wire [PORTS*KEY-1:0] keys_w;
  wire [PORTS*(VALUE+1)-1:0] fresh;  // {it is there, value}
  // Places of those that may have been changed since rows were read that are in stage 3, but for
  // the newest.
  wire [4*PORTS-1:0] kept_valid;
  wire [4*PORTS*PLACE-1:0] kept_places;
  // The last port's place is found in the cycle in which those behind look for what is taken, if
  // APART is the least. They look at it a cycle later, and have compared rows before.
  localparam integer NEWEST = APART == PORTS - 1 && WRITTEN[PORTS-1] ? PORTS - 1 : PORTS;
  wire [PLACE:0] newest;  // {it may be changed, place}
  wire [PORTS*R-1:0] near_a, near_b;  // rows of the nearest of those, whose places take a while
  logic v1, v2, v3, v4, v5;  // a packet's lookup, not the host's
  always_ff @(posedge clk) {v1, v2, v3, v4, v5} <= rst ? 5'd0 : {k_valid, v1, v2, v3, v4};
  logic any4, any3, any2, any1;
  always_ff @(posedge clk) {any1, any2, any3, any4} <= rst ? 4'd0
      : {k_valid || ask, any1, any2, any3};

  // ---- lookups
  // ---------------------------------------------------------------------------------------------
  wire [PORTS*8-1:0] used_begin;
  wire [PORTS*R-1:0] begin_a, begin_b, rows_a, rows_b;
  wire [PORTS*3-1:0] ways5;
  wire [PORTS*KEY-1:0] keys3, keys5;
  // places that CAPACITY leaves, less those that lookups on their way may take
  logic [COUNT-1:0] available;
  genvar p, w, g;
  generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
      logic [KEY-1:0] key_in, key1, key2, key3, key4, key5;
      logic [R-1:0] a1, b1, a2, b2, a3, b3, a4, b4, a5, b5, read_a, read_b;
      assign key_in = ask ? h_key : k_key[KEY*p+:KEY];
      assign read_a = state == SCAN || state == SEE ? scan_row[R-1:0] : a1;
      assign read_b = state == SCAN || state == SEE ? scan_row[R-1:0] : b1;
      // Stage 1: rows, by memory. Stage 2: what they make together. Stage 3: who has the key. Stage
      // 4: one of them.
      logic [8*ENTRY-1:0] whole, row3;
      wire [PORTS*8*ENTRY-1:0] read;
      for (w = 0; w < PORTS; w = w + 1) begin : g_memory
        for (g = 0; g < 8; g = g + 1) begin : g_way
          if (WRITTEN[w]) begin : g_copy
            logic [ENTRY-1:0] mem[0:(1<<R)-1];
            logic [ENTRY-1:0] q;
            always_ff @(posedge clk) begin
              if (state == CLEAR || (change[w] && place_w[PLACE*w+R+:3] == 3'(g)))
                mem[state==CLEAR?sweep[R-1:0] : place_w[PLACE*w+:R]] <= state == CLEAR ? '0
                    : part[ENTRY*w+:ENTRY];
              q <= mem[g<4?read_a : read_b];
            end
            assign read[ENTRY*(8*w+g)+:ENTRY] = q;
          end else begin : g_none
            assign read[ENTRY*(8*w+g)+:ENTRY] = '0;
          end
        end
      end
      integer m;
      always_comb begin
        whole = '0;
        for (m = 0; m < PORTS; m = m + 1) whole = whole ^ read[8*ENTRY*m+:8*ENTRY];
      end
      if (p == 0) begin : g_first
        assign row_q = row3;
      end
      logic [7:0] same4, used4, kept, kept4, used;
      logic [2*PORTS-1:0] near;  // by side and port: the same row
      logic newest_a4, newest_b4, newest_here;
      assign newest_here = NEWEST < PORTS && newest[PLACE]
          && (newest[PLACE-1] ? newest_b4 : newest_a4);
      logic [8*VALUE-1:0] values4;
      logic [VALUE-1:0] found;
      logic [2:0] way, way5;
      // What was changed under the key since its rows were read, by stage: {that, it is there, way,
      // value}.
      localparam integer LATER = 5 + VALUE;
      logic [LATER-1:0] later1, later2, later3, later4, now1, now2, now3, now4;
      assign later1 = '0;
      integer i, j, c, t;
      always_comb begin
        {now1, now2, now3, now4} = {later1, later2, later3, later4};
        for (c = 0; c < PORTS; c = c + 1)
          if (change[c]) begin
            if (keys_w[KEY*c+:KEY] == key1) now1 = {1'b1, fresh[(VALUE+1)*c+VALUE],
                place_w[PLACE*c+R+:3], fresh[(VALUE+1)*c+:VALUE]};
            if (keys_w[KEY*c+:KEY] == key2) now2 = {1'b1, fresh[(VALUE+1)*c+VALUE],
                place_w[PLACE*c+R+:3], fresh[(VALUE+1)*c+:VALUE]};
            if (keys_w[KEY*c+:KEY] == key3) now3 = {1'b1, fresh[(VALUE+1)*c+VALUE],
                place_w[PLACE*c+R+:3], fresh[(VALUE+1)*c+:VALUE]};
            if (keys_w[KEY*c+:KEY] == key4) now4 = {1'b1, fresh[(VALUE+1)*c+VALUE],
                place_w[PLACE*c+R+:3], fresh[(VALUE+1)*c+:VALUE]};
          end
        for (c = 0; c < PORTS; c = c + 1) begin
          near[c] = near_a[R*c+:R] == a3;
          near[PORTS+c] = near_b[R*c+:R] == b3;
        end
        // Places that those on their way took when the rows were read, needed or not.
        kept = '0;
        for (t = 4 * PORTS - 1; t >= 0; t = t - 1)
          kept = kept | ({8{kept_valid[t]
              && (t < PORTS ? (kept_places[PLACE*t+R+2] ? near[PORTS+t%PORTS] : near[t%PORTS])
              : kept_places[PLACE*t+:R] == (kept_places[PLACE*t+R+2] ? b3 : a3))}}
                  & (8'd1 << kept_places[PLACE*t+R+:3]));
      end
      always_comb begin
        found = '0;
        way   = '0;
        for (i = 0; i < 8; i = i + 1) begin
          found = found | ({VALUE{same4[i]}} & values4[VALUE*i+:VALUE]);
          way   = way | ({3{same4[i]}} & 3'(i));
        end
      end
      always_ff @(posedge clk) begin
        {key1, a1, b1} <= {key_in, row_of(key_in, 1'b0), row_of(key_in, 1'b1)};
        {key2, a2, b2} <= {key1, a1, b1};
        {key3, a3, b3} <= {key2, a2, b2};
        {key4, a4, b4} <= {key3, a3, b3};
        {later2, later3, later4} <= {now1, now2, now3};
        kept4 <= kept;
        {newest_a4, newest_b4} <= {near[PORTS-1], near[2*PORTS-1]};
        row3 <= whole;
        for (j = 0; j < 8; j = j + 1) begin
          used4[j] <= row3[ENTRY*j+ENTRY-1];
          same4[j] <= row3[ENTRY*j+ENTRY-1] && row3[ENTRY*j+VALUE+:KEY] == key3;
          values4[VALUE*j+:VALUE] <= row3[ENTRY*j+:VALUE];
        end
        if (any4) begin
          {key5, a5, b5} <= {key4, a4, b4};
          way5 <= now4[LATER-1] ? now4[VALUE+:3] : way;
          c_hit[p] <= now4[LATER-1] ? now4[LATER-2] : same4 != '0;
          c_value[VALUE*p+:VALUE] <= now4[LATER-1] ? now4[VALUE-1:0] : found;
        end
        if (rst) c_hit[p] <= 1'b0;
      end
      always_comb begin
        used = used4 | kept4;
        if (newest_here) used[newest[PLACE-1-:3]] = 1'b1;
      end
      assign used_begin[8*p+:8] = used;
      assign {begin_a[R*p+:R], begin_b[R*p+:R]} = {a4, b4};
      assign ways5[3*p+:3] = way5;
      assign {rows_a[R*p+:R], rows_b[R*p+:R], keys5[KEY*p+:KEY]} = {a5, b5, key5};
      assign keys3[KEY*p+:KEY] = key3;

      // ---- room beside the new entries of the ports before
      // --------------------------------------------------
      logic [MANY-1:0] earlier;
      logic free5;
      always_comb earlier = ones(~c_hit & WRITTEN & PORTS'((1 << p) - 1));
      // The newest one's is none of those that are used, unless its rows are full.
      localparam [3:0] BEFORE = 4'(ones(WRITTEN & PORTS'((1 << p) - 1)));
      always_ff @(posedge clk) if (any4) free5 <= newest_here
          ? zeros(used4 | kept4) > BEFORE + 4'd1 : zeros(used4 | kept4) > BEFORE;
      assign c_room[p] = c_hit[p] || (available > COUNT'(earlier) && !available[COUNT-1] && free5);
    end
  endgenerate

  // ---- what was shown before
  // -----------------------------------------------------------------------------------
  localparam integer SHOWN = PORTS * (4 + 2 * R + KEY + VALUE);
  localparam integer ROWS_B = PORTS * (KEY + VALUE);
  localparam integer ROWS_A = ROWS_B + PORTS * R;
  localparam integer WAYS = ROWS_A + PORTS * R;
  localparam integer HITS = WAYS + PORTS * 3;
  logic [APART*SHOWN-1:0] past;
  logic [(APART+1)*SHOWN-1:0] shown;  // the lowest: in this cycle
  assign shown = {past, c_hit, ways5, rows_a, rows_b, keys5, c_value};
  always_ff @(posedge clk) past <= shown[APART*SHOWN-1:0];
  logic [APART+1:0] v_past;
  always_ff @(posedge clk) v_past <= rst ? '0 : (APART + 2)'({v_past, v5});
  wire [APART+2:0] v_shown = {v_past, v5};
  assign near_a = shown[SHOWN*(APART-1)+ROWS_A+:PORTS*R];
  assign near_b = shown[SHOWN*(APART-1)+ROWS_B+:PORTS*R];

  // ---- places: in step s, the first beside stage 4, port s takes one, and those behind it keep
  // from that -----------
  logic [(PORTS-1)*PORTS*8-1:0] used_past;
  logic [(PORTS-1)*PORTS*3-1:0] taken_past;
  wire [PORTS*PORTS*8-1:0] used_all = {used_past, used_begin};
  wire [PORTS*PORTS*3-1:0] taken_all = {taken_past, {PORTS * 3{1'b0}}};
  wire [PORTS*3-1:0] taken_now;  // by the port whose turn it is
  genvar s;
  // Where places are told: by port, which ports before it that take places have its key. The
  // lowest: in step 0.
  wire [PORTS*PORTS*PORTS-1:0] same_keys;
  generate
    if (KEPT > 0) begin : g_same_keys
      logic [PORTS*PORTS*PORTS-1:0] same_past;
      integer x, y;
      always_ff @(posedge clk) begin
        same_past <= same_past << PORTS * PORTS;
        for (x = 0; x < PORTS; x = x + 1)
          for (y = 0; y < PORTS; y = y + 1) same_past[PORTS*x+y] <= y < x && WRITTEN[y]
              && keys3[KEY*x+:KEY] == keys3[KEY*y+:KEY];
      end
      assign same_keys = same_past;
    end else begin : g_no_same_keys
      assign same_keys = '0;
    end
  endgenerate
  generate
    for (s = 0; s < PORTS; s = s + 1) begin : g_step
      wire [PORTS*R-1:0] a, b;
      if (s == 0) begin : g_begin
        assign {a, b} = {begin_a, begin_b};
      end else begin : g_behind
        assign {a, b} = {shown[SHOWN*(s-1)+ROWS_A+:PORTS*R], shown[SHOWN*(s-1)+ROWS_B+:PORTS*R]};
      end
      // One with the key of a port before takes what that one took.
      wire [2:0] taken = same_keys[PORTS*(PORTS*s+s)+:PORTS] != '0 ? taken_all[3*(PORTS*s+s)+:3]
          : free_way(used_all[8*(PORTS*s+s)+:8]);
      assign taken_now[3*s+:3] = taken;
      for (p = 0; p < PORTS && s < PORTS - 1; p = p + 1) begin : g_port
        wire same = taken[2] ? b[R*s+:R] == b[R*p+:R] : a[R*s+:R] == a[R*p+:R];
        always_ff @(posedge clk) begin
          used_past[8*(PORTS*s+p)+:8] <= used_all[8*(PORTS*s+p)+:8]
              | (WRITTEN[s] && p > s && same ? 8'd1 << taken : 8'd0);
          taken_past[3*(PORTS*s+p)+:3] <= p == s || same_keys[PORTS*(PORTS*s+p)+s] ? taken
              : taken_all[3*(PORTS*s+p)+:3];
        end
      end
    end
  endgenerate

  localparam [VALUE-1:0] STAY = KEPT > 0 ? ~({VALUE{1'b1}} >> KEPT) : '0;
  wire [VALUE-1:0] host_value = h_op == 4'd1
      ? (h_value & ~STAY) | (c_value[VALUE*HOST+:VALUE] & STAY) : h_value;

  // ---- what each writer's own memory holds at its place, and the change
  // ---------------------------------------
  localparam integer LAST = PORTS - 2;  // cycles from what is shown to its ports' places
  generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_change
      wire hit = shown[SHOWN*LAST+HITS+p];
      wire [2:0] taken = p == PORTS - 1 ? taken_now[3*p+:3] : taken_all[3*(PORTS*(PORTS-1)+p)+:3];
      wire [2:0] way = hit ? shown[SHOWN*LAST+WAYS+3*p+:3] : taken;
      wire [PLACE-1:0] place = {way, shown[SHOWN*LAST+(way[2]?ROWS_B : ROWS_A)+R*p+:R]};
      if (KEPT > 0) begin : g_place
        logic [PLACE-1:0] place_now;
        always_ff @(posedge clk) place_now <= place;
        assign c_place[32*p+:32] = 32'({place_now[R-1:0], place_now[R+:3]});
      end else begin : g_no_place
        assign c_place[32*p+:32] = '0;
      end
      if (WRITTEN[p]) begin : g_writer
        // The place, until nobody reads rows from before the change.
        localparam integer AGES = APART + 2 - LAST;
        logic [AGES*PLACE-1:0] places_past;
        wire [(AGES+1)*PLACE-1:0] places = {places_past, place};
        always_ff @(posedge clk) places_past <= places[AGES*PLACE-1:0];
        assign place_w[PLACE*p+:PLACE] = places[PLACE*(APART-LAST)+:PLACE];
        logic [1:0] hits_past;
        always_ff @(posedge clk) hits_past <= {hits_past[0], hit_w[p]};
        wire [3:0] hits = {hits_past, hit_w[p], shown[SHOWN*(APART-1)+HITS+p]};
        for (s = 0; s < 4; s = s + 1) begin : g_kept
          assign kept_places[PLACE*(PORTS*s+p)+:PLACE] = places[PLACE*(APART-1-LAST+s)+:PLACE];
          // Found in this very cycle, it is looked at in the next one.
          assign kept_valid[PORTS*s+p] = !(s == 0 && p == NEWEST) && v_shown[APART-1+s] && !hits[s];
        end
        if (p == NEWEST) begin : g_newest
          assign newest = {v_shown[APART] && !hit_w[p], place_w[PLACE*p+:PLACE]};
        end
        // What is there but for what the port's own memory holds; an empty place is zero.
        logic [ENTRY-1:0] mem[0:(8<<R)-1];
        logic [ENTRY-1:0] q;
        wire [ENTRY-1:0] rest, rest_w;
        always_ff @(posedge clk) begin
          if (state == CLEAR || change[p]) mem[state==CLEAR?sweep : place_w[PLACE*p+:PLACE]] <=
              state == CLEAR ? '0 : part[ENTRY*p+:ENTRY];
          q <= mem[place];
        end
        localparam integer READ = SHOWN * (LAST + 1);
        assign rest = ({ENTRY{shown[READ+HITS+p]}} & {
            1'b1, shown[READ+PORTS*VALUE+KEY*p+:KEY], shown[READ+VALUE*p+:VALUE]}) ^ q;
        localparam integer WAITS = APART - LAST - 1;
        if (WAITS == 0) begin : g_now
          assign rest_w = rest;
        end else begin : g_later
          logic [WAITS*ENTRY-1:0] rests;
          always_ff @(posedge clk) rests <= (WAITS * ENTRY)'({rests, rest});
          assign rest_w = rests[WAITS*ENTRY-1-:ENTRY];
        end
        wire writes = act ? p == HOST
            && ((h_op == 4'd1 && c_room[p]) || (KEPT > 0 && h_op == 4'd4 && hit_w[p])) : w_write[p];
        assign hit_w[p] = shown[SHOWN*APART+HITS+p];
        assign keys_w[KEY*p+:KEY] = shown[SHOWN*APART+PORTS*VALUE+KEY*p+:KEY];
        assign removes[p] = (act ? p == HOST && h_op == 4'd2 : w_delete[p]) && hit_w[p];
        assign inserts[p] = writes && !hit_w[p];
        assign change[p] = writes || removes[p];
        assign fresh[(VALUE+1)*p+:VALUE+1] = {VALUE + 1{writes}}
            & {1'b1, act ? host_value : w_value[VALUE*p+:VALUE]};
        assign part[ENTRY*p+:ENTRY] = rest_w ^ {
            fresh[(VALUE+1)*p+VALUE], {KEY{writes}} & keys_w[KEY*p+:KEY],
                fresh[(VALUE+1)*p+:VALUE]};
      end else begin : g_reader
        assign {change[p], hit_w[p], inserts[p], removes[p]} = 4'd0;
        assign place_w[PLACE*p+:PLACE] = '0;
        assign part[ENTRY*p+:ENTRY] = '0;
        assign keys_w[KEY*p+:KEY] = '0;
        assign fresh[(VALUE+1)*p+:VALUE+1] = '0;
        for (s = 0; s < 4; s = s + 1) begin : g_kept
          assign kept_places[PLACE*(PORTS*s+p)+:PLACE] = '0;
          assign kept_valid[PORTS*s+p] = 1'b0;
        end
      end
    end
  endgenerate

  generate
    if (NEWEST == PORTS) begin : g_all_known
      assign newest = '0;
    end
  endgenerate

  // ---- how many more there may be
  // --------------------------------------------------------------------------------
  logic [COUNT-1:0] back;
  always_ff @(posedge clk)
    if (rst || state == CLEAR) begin
      available <= COUNT'(CAPACITY);
      back <= '0;
    end else begin
      available <= available + back - (v5 ? COUNT'(ones(~c_hit & WRITTEN)) : '0);
      back <= (v_past[APART-1] ? COUNT'(ones(~hit_w & WRITTEN)) : '0)
          + COUNT'(ones(removes)) - COUNT'(ones(inserts));
    end

  // The host: a lookup of its own, or rows one behind the other. Number of an entry: {row, way}.
  logic [2:0] seen;
  logic any;
  integer e;
  always_comb begin
    any  = 1'b0;
    seen = 3'd0;
    for (e = 7; e >= 0; e = e - 1)
      if (3'(e) >= scan_from && row_q[ENTRY*e+ENTRY-1]) begin
        any  = 1'b1;
        seen = 3'(e);
      end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= CLEAR;
      sweep <= '0;
    end else
      case (state)
        CLEAR: begin
          sweep <= sweep + 1'b1;
          if (sweep == {PLACE{1'b1}}) state <= IDLE;
        end
        IDLE: begin
          waited <= '0;
          scan_row <= h_index[R+3:3];
          scan_from <= h_index[2:0];
          h_ok <= 1'b0;
          if (h_req) state <= h_op == 4'd6 ? SCAN : ASK;
        end
        ASK: state <= WAIT;
        WAIT: begin
          waited <= waited + 1'b1;
          if (waited == WAIT_BITS'(3 + APART)) state <= ACT;
        end
        ACT: begin
          h_ok <= h_op == 4'd1 ? c_room[HOST] : c_hit[HOST];
          h_r_value <= c_hit[HOST] ? c_value[VALUE*HOST+:VALUE] : '0;
          // Whoever keeps bytes beside values goes by the number.
          if (KEPT > 0) begin
            h_r_index <= 32'({place_w[PLACE*HOST+:R], place_w[PLACE*HOST+R+:3]});
            h_r_key <= h_key;
          end
          state <= END;
        end
        // A row is there two cycles later.
        SCAN: begin
          waited <= WAIT_BITS'(!waited[0]);
          if (scan_row[R]) state <= END;
          else if (waited[0]) state <= SEE;
        end
        SEE:
        if (any) begin
          h_ok <= 1'b1;
          {h_r_key, h_r_value} <= row_q[ENTRY*seen+:KEY+VALUE];
          h_r_index <= 32'({scan_row, seen});
          state <= END;
        end else begin
          scan_from <= 3'd0;
          scan_row <= scan_row + 1'b1;
          state <= SCAN;
        end
        default: state <= IDLE;
      endcase
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
