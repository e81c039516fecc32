// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_pipe_lpm: longest prefix match for pipelines: one lookup every cycle, filled by the host entry
// by entry.
//
// A trie in block memory, STRIDE key bits a level, a cycle a level: the entry that a level's memory
// shows names the node of the next one, which is that memory's address with no logic between. An
// entry is {has child, child, has prefix, rank, prefix}: the longest prefix that ends on this level
// and covers it (controlled prefix expansion, Srinivasan and Varghese 1999), and by how many bits
// it reaches into the level. The last prefix on the way down is the answer; `list` has its value.
// Prefixes count from the first byte's most significant bit.
//
// The host's operations are nf_table_array's, `h_detail` being a prefix's length, while no lookup
// is on its way. Each looks through `list` first. A new prefix gets the nodes it lacks on its way
// and is written into the entries it covers where none longer is. One that is deleted is replaced
// there by the next longer one of its level, and nodes that only it used go back to their level's
// free nodes. There are never more nodes on a level than prefixes, so a table with room in `list`
// has room for the prefix.
//
// Latency: LEVELS + 2 cycles, 10 for IPv4. Throughput: one a cycle. Operations of the host: a cycle
// for every prefix, and up to some 210 for IPv4 (seven new nodes of 22, 16 entries of 3).
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_pipe_lpm #(
    parameter integer KEY = 32,  // whole bytes
    parameter integer VALUE = 32,
    parameter integer CAPACITY = 16,
    parameter integer STRIDE = 4,
    parameter integer LEVELS = KEY / STRIDE
) (
    input  wire              clk,
    input  wire              rst,
    output logic             ready,
    input  wire              k_valid,
    input  wire  [  KEY-1:0] k_key,
    output logic             c_hit,
    output logic [VALUE-1:0] c_value,
    input  wire              h_req,
    input  wire  [      3:0] h_op,
    input  wire  [  KEY-1:0] h_key,
    input  wire  [VALUE-1:0] h_value,
    input  wire  [     31:0] h_detail,
    input  wire  [     31:0] h_index,
    output logic             h_done,
    output logic             h_ok,
    output logic [  KEY-1:0] h_r_key,
    output logic [VALUE-1:0] h_r_value,
    output logic [     31:0] h_r_detail,
    output logic [     31:0] h_r_index
);
  // bits of a node's and a prefix's number
  localparam integer N = CAPACITY > 1 ? $clog2(CAPACITY) : 1;
  localparam integer LENGTH = $clog2(KEY + 1);
  localparam integer LEVEL = $clog2(LEVELS + 1);
  localparam integer RANK = $clog2(STRIDE + 1);
  localparam integer ENTRY = 2 + RANK + 2 * N;
  localparam integer HAS = N + RANK, CHILD = N + RANK + 1;  // places in an entry
  localparam integer ROW = 1 + LENGTH + KEY + VALUE;
  localparam integer SPAN = 1 << STRIDE;  // entries of a node
  localparam logic [3:0] CLEAR = 4'd0, IDLE = 4'd1, ASK = 4'd2, WAIT = 4'd3, SCAN = 4'd4,
      JUDGE = 4'd5, READ = 4'd6, LOOK = 4'd7,
      POP = 4'd8, POPPED = 4'd9, WIPE = 4'd10, LINK = 4'd11, END = 4'd12, SHOW = 4'd13;
  localparam logic [3:0] FIND = 4'd0, UPDATE = 4'd1, DELETE = 4'd2, NEXT = 4'd6;

  // The key with its first byte on top, so that prefixes are top bits.
  function [KEY-1:0] path_of(input [KEY-1:0] of);
    integer i;
    for (i = 0; i < KEY; i = i + 8) path_of[KEY-1-i-:8] = of[i+:8];
  endfunction
  function [KEY-1:0] mask_of(input [LENGTH-1:0] length);
    integer i;
    for (i = 0; i < KEY; i = i + 1) mask_of[KEY-1-i] = LENGTH'(i) < length;
  endfunction
  // The level on which a prefix of this length ends.
  function [LEVEL-1:0] level_of(input [LENGTH-1:0] length);
    level_of = length == '0 ? '0 : LEVEL'((32'(length) - 32'd1) / STRIDE);
  endfunction

  logic [3:0] state;

  // ---- levels: a memory each
  // -------------------------------------------------------------------------------
  logic w_en, trie_of_host;
  logic [LEVEL-1:0] w_level;
  logic [N-1:0] w_node, r_node;
  logic [STRIDE-1:0] w_digit, r_digit;
  logic [ENTRY-1:0] w_entry;
  wire [LEVELS*ENTRY-1:0] q;
  // Slice l of these belongs to the lookup that enters level l: whether it gets there, and what it
  // has found above.
  wire [LEVELS:0] enters, found;
  wire [(LEVELS+1)*N-1:0] best;
  wire [(LEVELS+1)*KEY-1:0] path;
  assign path[KEY-1:0] = path_of(state == ASK ? h_key : k_key);
  assign enters[0] = 1'b1;
  assign found[0] = 1'b0;
  assign best[N-1:0] = '0;

  genvar l;
  generate
    for (l = 0; l < LEVELS; l = l + 1) begin : g_level
      localparam integer NODES = l == 0 ? 1 : STRIDE * l >= N ? CAPACITY : 1 << (STRIDE * l);
      localparam integer A = (NODES > 1 ? $clog2(NODES) : 0) + STRIDE;
      logic [ENTRY-1:0] mem[0:NODES*SPAN-1];
      logic [ENTRY-1:0] read;
      logic [N-1:0] parent;
      logic [N+STRIDE-1:0] at;
      logic entered, found_above;
      logic [N-1:0] best_above;
      logic [KEY-1:0] path_next;
      if (l == 0) begin : g_root
        assign parent = '0;
      end else begin : g_below
        assign parent = q[ENTRY*(l-1)+CHILD+:N];
      end
      assign at = trie_of_host ? {r_node, r_digit} : {parent, path[KEY*(l+1)-1-STRIDE*l-:STRIDE]};
      always_ff @(posedge clk) begin
        if (w_en && w_level == LEVEL'(l)) mem[A'({w_node, w_digit})] <= w_entry;
        read <= mem[A'(at)];
        entered <= enters[l];
        found_above <= found[l];
        best_above <= best[N*l+:N];
        path_next <= path[KEY*l+:KEY];
      end
      assign q[ENTRY*l+:ENTRY] = read;
      assign enters[l+1] = entered && read[ENTRY-1];
      assign found[l+1] = found_above || (entered && read[HAS]);
      assign best[N*(l+1)+:N] = entered && read[HAS] ? read[N-1:0] : best_above;
      assign path[KEY*(l+1)+:KEY] = path_next;
    end
  endgenerate

  // ---- prefixes and their values
  // ---------------------------------------------------------------------------
  logic [ROW-1:0] list[0:CAPACITY-1];
  logic [ROW-1:0] row;
  logic list_w, hit;
  logic [N-1:0] list_at;
  logic [ROW-1:0] list_d;
  logic [N:0] at, top;  // `top`: as many rows were ever in use
  logic [N-1:0] number;
  always_ff @(posedge clk) begin
    if (list_w) list[list_at] <= list_d;
    row <= list[state==SCAN?N'(at) : best[N*LEVELS+:N]];
    hit <= found[LEVELS];
    c_hit <= hit;
    c_value <= hit ? row[VALUE-1:0] : '0;
  end

  // ---- the host: what it names, compared with every row
  // ----------------------------------------------------
  logic [KEY-1:0] prefix;
  logic [LENGTH-1:0] length;
  logic [LEVEL-1:0] target;
  logic [RANK-1:0] rank;
  logic row_used;
  logic [LENGTH-1:0] row_length;
  logic [KEY-1:0] row_path;
  logic [VALUE-1:0] row_value;
  assign {row_used, row_length, row_path, row_value} = row;
  // A row, then what is to be known of it.
  logic looking, seen, is_used, is_same, covers;
  logic [N:0] looked, place;
  logic [LENGTH-1:0] its_length;
  logic [LEVEL-1:0] its_level, common, shared;
  logic [KEY-1:0] its_path;
  logic [VALUE-1:0] its_value;
  logic any, free_any, longer;
  logic [N-1:0] free, longer_number;
  logic [RANK-1:0] longer_rank;
  logic [LEVEL-1:0] keep;  // the deepest level on which another prefix needs the node
  logic [LEVELS-1:0] same_digit;
  integer d, e;
  always_comb begin
    for (d = 0; d < LEVELS; d = d + 1)
      same_digit[d] = row_path[KEY-1-STRIDE*d-:STRIDE] == prefix[KEY-1-STRIDE*d-:STRIDE];
    shared = common < its_level ? common : its_level;
    if (shared > target) shared = target;
  end

  // ---- nodes that nobody uses: from `fresh` on never, others in a chain through their first
  // entries ---------
  logic [LEVELS*N-1:0] heads;
  logic [LEVELS*(N+1)-1:0] fresh;
  logic [LEVELS-1:0] chained;
  logic [LEVEL-1:0] level, below;
  logic [N-1:0] node, child;
  logic [STRIDE-1:0] digit, filled;
  // In SHOW: the entry that was read, and what is kept for its level and the one below.
  logic [ENTRY-1:0] now, parent_entry;
  logic [N-1:0] head, head_below, fresh_below;
  logic chained_here, chained_below, is_target, at_keep;
  logic now_has_child, now_has;
  logic [N-1:0] now_child, now_best;
  logic [RANK-1:0] now_rank;
  logic inserting, last_fill, frees;
  logic [7:0] waited;
  assign below = level + 1'b1;
  // By a bit for each level, since a slice at a computed place would be a multiplication.
  wire [LEVELS-1:0] here, under;
  logic [ENTRY-1:0] q_here;
  logic [N-1:0] q_under_child, heads_here, heads_under, fresh_under;
  logic q_under_has;
  integer x;
  generate
    for (l = 0; l < LEVELS; l = l + 1) begin : g_here
      assign here[l] = level == LEVEL'(l);
      assign under[l] = l > 0 && level == LEVEL'(l - 1);
    end
  endgenerate
  always_comb begin
    {digit, q_here, q_under_child, q_under_has, heads_here, heads_under, fresh_under} = '0;
    for (x = 0; x < LEVELS; x = x + 1) begin
      digit = digit | ({STRIDE{here[x]}} & prefix[KEY-1-STRIDE*x-:STRIDE]);
      q_here = q_here | ({ENTRY{here[x]}} & q[ENTRY*x+:ENTRY]);
      q_under_child = q_under_child | ({N{under[x]}} & q[ENTRY*x+CHILD+:N]);
      q_under_has = q_under_has | (under[x] & q[ENTRY*x+HAS]);
      heads_here = heads_here | ({N{here[x]}} & heads[N*x+:N]);
      heads_under = heads_under | ({N{under[x]}} & heads[N*x+:N]);
      fresh_under = fresh_under | ({N{under[x]}} & fresh[(N+1)*x+:N]);
    end
  end
  assign {now_has_child, now_child, now_has, now_rank, now_best} = now;
  assign inserting = h_op == UPDATE;
  assign trie_of_host = state == READ || state == POP;
  assign r_node = state == POP ? head_below : node;
  assign r_digit = state == POP ? '0 : level == target ? digit | filled : digit;

  always_comb begin
    w_en = 1'b0;
    w_level = level;
    w_node = node;
    w_digit = level == target ? digit | filled : digit;
    w_entry = now;
    case (state)
      CLEAR: begin
        w_en = 1'b1;
        w_level = '0;
        w_node = '0;
        w_digit = filled;
        w_entry = '0;
      end
      LOOK:
      if (frees) begin
        w_en = 1'b1;
        w_digit = '0;
        w_entry = {1'b0, head, chained_here, {RANK + N{1'b0}}};
      end else if (is_target) begin
        w_en = inserting ? !now_has || now_rank <= rank : now_has && now_best == number;
        w_entry = {now_has_child, now_child, inserting || longer, inserting ? rank : longer_rank,
            inserting ? number : longer_number};
      end else if (!inserting && at_keep) begin
        w_en = 1'b1;
        w_entry = {1'b0, now_child, now[HAS:0]};
      end
      WIPE: begin
        w_en = 1'b1;
        w_level = below;
        w_node = child;
        w_digit = filled;
        w_entry = '0;
      end
      LINK: begin
        w_en = 1'b1;
        w_entry = {1'b1, child, parent_entry[HAS:0]};
      end
      default: ;
    endcase
  end

  assign list_w = state == JUDGE
      && (any ? inserting || h_op == DELETE : inserting && (free_any || top != (N + 1)'(CAPACITY)));
  assign list_at = any ? number : free_any ? free : N'(top);
  assign list_d = {inserting, length, prefix, h_value};

  assign ready = state != CLEAR;
  assign h_done = state == END;
  integer y;
  always_ff @(posedge clk) begin
    looking <= state == SCAN && at != top;
    looked <= at;
    seen <= looking;
    place <= looked;
    is_used <= row_used;
    is_same <= row_used && row_length == length && row_path == prefix;
    covers <= ((row_path ^ prefix) & mask_of(row_length)) == '0;
    its_length <= row_length;
    its_level <= level_of(row_length);
    its_path <= row_path;
    its_value <= row_value;
    common <= '0;
    for (e = 0; e < LEVELS; e = e + 1)
      if (&(same_digit | ~(({{LEVELS - 1{1'b0}}, 1'b1} << (e + 1)) - 1'b1))) common <=
          LEVEL'(e + 1);
    if (seen && is_used && (h_op == NEXT ? !any : is_same)) begin
      any <= 1'b1;
      number <= N'(place);
      h_r_key <= path_of(its_path);
      h_r_value <= its_value;
      h_r_detail <= 32'(its_length);
      h_r_index <= 32'(place);
    end
    if (seen && !is_used && !free_any) begin
      free_any <= 1'b1;
      free <= N'(place);
    end
    if (seen && is_used && !is_same) begin
      if (shared > keep) keep <= shared;
      if (covers && its_level == target && its_length < length
          && (!longer || RANK'(its_length - STRIDE * its_level) >= longer_rank)) begin
        longer <= 1'b1;
        longer_number <= N'(place);
        longer_rank <= RANK'(its_length - STRIDE * its_level);
      end
    end
    if (rst) begin
      state <= CLEAR;
      filled <= '0;
      top <= '0;
      chained <= '0;
      fresh <= '0;
      looking <= 1'b0;
      seen <= 1'b0;
    end else
      case (state)
        CLEAR: begin
          filled <= filled + 1'b1;
          if (filled == {STRIDE{1'b1}}) state <= IDLE;
        end
        IDLE: begin
          waited <= '0;
          at <= h_op == NEXT ? h_index[N:0] : '0;
          {any, free_any, longer, h_ok} <= 4'b0000;
          longer_rank <= '0;
          keep <= '0;
          filled <= '0;
          level <= '0;
          node <= '0;
          length <= LENGTH'(h_detail);
          prefix <= path_of(h_key) & mask_of(LENGTH'(h_detail));
          target <= level_of(LENGTH'(h_detail));
          rank <= RANK'(LENGTH'(h_detail) - STRIDE * level_of(LENGTH'(h_detail)));
          if (h_req)
            state <= h_op == FIND ? ASK : h_detail > KEY && h_op != NEXT ? END
                : h_op == NEXT && h_index >= 32'(top) ? END : SCAN;
        end
        ASK: state <= WAIT;
        WAIT: begin
          waited <= waited + 1'b1;
          if (waited == 8'(LEVELS + 1)) begin
            h_ok <= c_hit;
            h_r_value <= c_value;
            state <= END;
          end
        end
        SCAN: begin
          if (at != top) at <= at + 1'b1;
          else if (!looking && !seen) state <= JUDGE;
        end
        JUDGE: begin
          h_ok <= any || list_w;
          if (list_w && !any) begin
            number <= list_at;
            h_r_index <= 32'(list_at);
            if (!free_any) top <= top + 1'b1;
          end
          state <= list_w && (!any || !inserting) ? READ : END;
        end
        READ: state <= SHOW;
        SHOW: begin
          now <= q_here;
          head <= heads_here;
          head_below <= heads_under;
          fresh_below <= fresh_under;
          chained_here <= (chained & here) != '0;
          chained_below <= (chained & under) != '0;
          frees <= !inserting && level > keep;
          is_target <= level == target;
          at_keep <= level == keep;
          last_fill <= filled == STRIDE'(({{STRIDE{1'b0}}, 1'b1} << (RANK'(STRIDE) - rank)) - 1'b1);
          state <= LOOK;
        end
        LOOK: begin
          state <= READ;
          if (frees) begin
            for (y = 0; y < LEVELS; y = y + 1) if (here[y]) heads[N*y+:N] <= node;
            chained <= chained | here;
            node <= now_child;
            level <= below;
            if (is_target) state <= END;
          end else if (is_target) begin
            filled <= filled + 1'b1;
            if (last_fill) state <= END;
          end else if (now_has_child || !inserting) begin
            node  <= now_child;
            level <= below;
          end else begin
            parent_entry <= now;
            child <= chained_below ? head_below : fresh_below;
            for (y = 0; y < LEVELS; y = y + 1)
              if (under[y] && !chained_below) fresh[(N+1)*y+:N+1] <= fresh[(N+1)*y+:N+1] + 1'b1;
            state <= chained_below ? POP : WIPE;
          end
        end
        POP: state <= POPPED;
        POPPED: begin
          for (y = 0; y < LEVELS; y = y + 1) if (under[y]) heads[N*y+:N] <= q_under_child;
          chained <= (chained & ~under) | ({LEVELS{q_under_has}} & under);
          state <= WIPE;
        end
        WIPE: begin
          filled <= filled + 1'b1;
          if (filled == {STRIDE{1'b1}}) state <= LINK;
        end
        LINK: begin
          node  <= child;
          level <= below;
          state <= READ;
        end
        default: state <= IDLE;
      endcase
  end
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
