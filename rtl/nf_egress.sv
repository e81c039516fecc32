// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_egress: the deparser. A command becomes a packet on the network stream or on the host stream:
// the first `c_hlen` bytes of `c_hdr`, then `c_rest` bytes of memory from byte `c_from` behind line
// `c_line`, moved to where the header ends.
//
// The two parts are rarely aligned: with d = (from - hlen) mod 64 every beat is made of the end of
// one line and the start of the next, so one line is read for each beat and the one before is kept.
// Only a packet whose first beat needs two lines takes a cycle more (`prime`). Payload goes from
// the buffer to the stream and nowhere else.
//
// h_axis_tuser says what a packet to the host is: [7:0] the kind, [15:8] the port, [47:32] its
// bytes, [127:64] `c_addr`; beside the stream and not in front of it, since a beat more for each
// packet would halve the rate of small ones. For the same reason a header of at most 8 bytes in
// front of a packet to the host (kind 2) is there instead of `c_addr`, [51:48] being its bytes, and
// the stream has the rest. Kinds: 0 send, 1 to the operating system (both on the network stream), 2
// packet, 3 message, 4 DMA write, 5 log.
//
// A command with `c_store` sends nothing: it writes what would be sent into lines of memory number
// `c_to_mem` from `c_to_line` on, beat by beat, but for the first `c_port` bytes of the header
// (below 64), which stand for those that are in the first line already. What it writes is there for
// the commands behind it.
//
// Bytes of a beat without its bit of `keep` are of no meaning.
// Latency: five cycles from command to beat. Throughput: a beat each cycle. When a stream waits, so
// does everything. The slot of the packet is given back with its last line, if the command says so;
// a silent command only gives it back.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_egress #(
    parameter integer HB = 64,  // most bytes of a header
    // 0: the payload is moved to where the header ends; 1: all commands have it there, so `c_from`
    // and `c_hlen` (0 if the header is beside the stream) differ by whole lines; 2: and none has a
    // header in the stream
    parameter integer ALIGNED = 0,
    parameter integer SW = 5,
    parameter integer AW = 10
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             c_valid,
    output logic            c_take,
    input  wire             c_host,
    input  wire             c_silent,
    input  wire  [     7:0] c_kind,
    input  wire  [     7:0] c_port,
    input  wire  [    63:0] c_addr,
    input  wire  [    15:0] c_hlen,
    input  wire  [8*HB-1:0] c_hdr,
    input  wire  [     3:0] c_mem,
    input  wire  [  AW-1:0] c_line,
    input  wire  [    15:0] c_from,
    input  wire  [    15:0] c_rest,
    input  wire             c_free,
    input  wire  [  SW-1:0] c_slot,
    input  wire             c_store,
    input  wire  [     3:0] c_to_mem,
    input  wire  [  AW-1:0] c_to_line,
    // a command is inside whose lines are not all asked for
    output logic            reading,
    // lines of memory number r_mem, on r_data two cycles after r_en without r_stall
    output logic            r_en,
    output logic [     3:0] r_mem,
    output logic [  AW-1:0] r_addr,
    input  wire             r_stall,
    input  wire  [   511:0] r_data,
    // lines that commands store
    output logic            w_en,
    output logic [     3:0] w_mem,
    output logic [  AW-1:0] w_addr,
    output logic [   511:0] w_data,
    output logic [    63:0] w_keep,
    output logic            b_valid,
    output logic [  SW-1:0] b_slot,
    output logic [   511:0] m_axis_tdata,
    output logic [    63:0] m_axis_tkeep,
    output logic            m_axis_tlast,
    output logic            m_axis_tvalid,
    input  wire             m_axis_tready,
    output logic [    15:0] m_axis_tuser,
    output logic [   511:0] h_axis_tdata,
    output logic [    63:0] h_axis_tkeep,
    output logic [   127:0] h_axis_tuser,
    output logic            h_axis_tlast,
    output logic            h_axis_tvalid,
    input  wire             h_axis_tready,
    output logic [    31:0] n_sent,
    output logic [    31:0] n_host
);
  localparam integer HL = (HB + 63) / 64;
  localparam integer UW = 64 + 4 + 16 + 8 + 8;
  localparam integer CW = 512 + 7 + 7 + 6 + 1 + 1 + 1 + 1 + 1 + UW + 1 + 1 + 4 + AW + 6;
  localparam integer HW = $clog2(64 * HL + 1);
  localparam integer ROOM = 16;

  // The number of `c_kind` for a packet to the host side (runtime/common/nf_abi.h).
  localparam logic [7:0] HOST_PACKET = 8'd2;

  // ---- a command, and what follows from it for all its beats
  // ----------------------------------------------
  logic taken, n_valid, to_host, n_silent, n_free, n_prime, n_one_line, n_any, first;
  logic [7:0] n_kind, n_port;
  logic [63:0] n_addr, c_hdr_low;
  logic [3:0] n_side;
  logic [3:0] n_mem, n_to_mem;
  logic [AW-1:0] n_line, n_to_line;
  logic n_store;
  logic [5:0] n_skip;
  logic [SW-1:0] n_slot;
  logic [5:0] shift;
  logic [15:0] total;
  logic [512*HL-1:0] header;
  logic signed [11:0] first_line, last_line;
  // A short header to the host is beside the stream.
  logic i_beside;
  logic [15:0] i_hlen, i_end, i_total;
  // The byte in memory that the first byte of the stream would be, with the header in front and
  // without; up to the next line.
  logic [5:0] i_shift;
  logic signed [16:0] i_source, i_up, i_up_beside;
  assign c_hdr_low = 64'(c_hdr);
  assign i_beside = c_host && c_kind == HOST_PACKET && c_hlen <= 16'd8 && c_rest != 16'd0;
  assign i_hlen = i_beside ? 16'd0 : c_hlen;
  assign i_total = i_beside ? c_rest : c_hlen + c_rest;
  assign i_end = c_from + c_rest - 16'd1;
  assign i_shift = c_from[5:0] - c_hlen[5:0];
  assign i_source = $signed({1'b0, c_from}) - $signed({1'b0, c_hlen});
  assign i_up = $signed({1'b0, c_from}) - $signed({1'b0, c_hlen}) + 17'sd63;
  assign i_up_beside = $signed({1'b0, c_from}) + 17'sd63;
  // Whether that is one beat. Where payload is moved a header's length comes late: both answers are
  // there before it is known which counts.
  logic i_one_beat;
  generate
    if (ALIGNED == 0) begin : g_one_beat
      logic [15:0] both;
      logic few;
      assign both = c_hlen + c_rest;
      assign few = c_hlen[15:4] == 12'd0 && (!c_hlen[3] || c_hlen[2:0] == 3'd0);
      assign i_one_beat = few && c_host && c_kind == HOST_PACKET && c_rest != 16'd0
          ? c_rest[15:6] == 10'd0 || c_rest == 16'd64
          : both[15:6] == 10'd0 || both == 16'd64;
    end else begin : g_one_beat
      assign i_one_beat = 1'b0;
    end
  endgenerate

  // ---- beat by beat
  // --------------------------------------------------------------------------------------
  logic primed;
  logic [15:0] left;  // of this beat and those behind it
  logic [HW-1:0] header_left;
  logic last_beat;  // left <= 64, found out a beat before: everything in front waits for it
  logic signed [11:0] line_now;
  logic is_prime, reads, as_previous, is_last, go, has_room;
  logic [11:0] wanted;
  assign is_prime = n_prime && first && !n_one_line && !primed;
  assign as_previous = n_prime && first && n_one_line;
  assign reads = !n_silent && n_any
      && (is_prime || as_previous || (line_now >= first_line && line_now <= last_line));
  assign wanted = is_prime || as_previous ? first_line : line_now;
  assign is_last = n_silent || (!is_prime && last_beat);

  // Nothing is read before what was stored is there. The packet buffer, memory 0, is never stored
  // into.
  logic s_store, s_store_1, storing, v_1, v_2;
  assign storing = n_mem != 4'd0 && ((v_1 && s_store_1) || (v_2 && s_store));

  assign go = n_valid && has_room && !storing && !(reads && r_stall);
  assign taken = go && is_last;
  assign c_take = c_valid && (!n_valid || taken);
  assign reading = n_valid;
  assign r_en = n_valid && has_room && !storing && reads;
  assign r_mem = n_mem;
  assign r_addr = n_line + AW'(wanted);
  assign b_valid = taken && n_free;
  assign b_slot = n_slot;

  always_ff @(posedge clk) begin
    if (rst) n_valid <= 1'b0;
    else n_valid <= c_valid || (n_valid && !taken);
    if (c_take) begin
      {to_host, n_silent, n_free, n_kind, n_port, n_mem, n_line, n_slot} <=
          {c_host, c_silent, c_free, c_kind, c_port, c_mem, c_line, c_slot};
      {n_store, n_to_mem, n_to_line} <= {c_store, c_to_mem, c_to_line};
      n_skip <= c_store ? c_port[5:0] : 6'd0;
      n_addr <= i_beside ? c_hdr_low & ~({64{1'b1}} << {c_hlen[3:0], 3'b000}) : c_addr;
      n_side <= i_beside ? c_hlen[3:0] : 4'd0;
      n_any <= c_rest != 16'd0;
      n_prime <= ALIGNED == 0 && c_rest != 16'd0 && (i_beside ? c_from[5:0] != 6'd0
          : c_hlen < 16'd64 && i_shift != 6'd0 && !i_source[16] && i_source[15:6] == c_from[15:6]);
      n_one_line <= i_end[15:6] == c_from[15:6];
      first <= 1'b1;
      primed <= 1'b0;
      shift <= i_beside ? c_from[5:0] : i_shift;
      total <= i_total;
      left <= i_total;
      last_beat <= ALIGNED == 0 ? i_one_beat : i_total <= 16'd64;
      header_left <= HW'(i_hlen);
      header <= {{(512 * HL - 8 * HB) {1'b0}}, c_hdr};
      first_line <= {2'b00, c_from[15:6]};
      last_line <= {2'b00, i_end[15:6]};
      line_now <= i_beside ? {i_up_beside[16], i_up_beside[16:6]} : {i_up[16], i_up[16:6]};
    end else if (go) begin
      if (is_prime) primed <= 1'b1;
      else begin
        first <= 1'b0;
        left <= left - 16'd64;
        last_beat <= left[15:7] == 9'd0 || left == 16'd128;
        header_left <= HL > 1 && header_left > HW'(64) ? header_left - HW'(64) : '0;
        header <= header >> 511 >> 1;
        n_to_line <= n_to_line + 1'b1;
        n_skip <= 6'd0;
        line_now <= line_now + 12'sd1;
      end
    end
  end

  // ---- two cycles while memory answers
  // -------------------------------------------------------------------
  logic [CW-1:0] step, step_1, step_2;
  logic [6:0] keep_count, header_count;
  assign keep_count = left > 16'd64 ? 7'd64 : left[6:0];
  assign header_count = HL > 1 && header_left > HW'(64) ? 7'd64 : header_left[6:0];
  assign step = {header[511:0], header_count, keep_count, shift, is_prime || n_silent || n_store,
      reads, as_previous, is_last, to_host,
                 n_addr, n_side, total, n_port, n_kind, n_store, is_prime, n_to_mem, n_to_line,
                     n_skip};
  assign s_store_1 = step_1[AW+11];
  always_ff @(posedge clk) begin
    step_1 <= step;
    step_2 <= step_1;
    if (rst) {v_1, v_2} <= 2'b00;
    else {v_1, v_2} <= {go, v_1};
  end

  logic [511:0] s_header;
  logic [6:0] s_hcount, s_kcount;
  logic [5:0] s_shift;
  logic s_prime, s_reads, s_as_previous, s_last, s_host;
  logic [UW-1:0] s_user;
  logic s_only_reads;
  logic [3:0] s_to_mem;
  logic [5:0] s_skip;
  logic [AW-1:0] s_to_line;
  assign {s_header, s_hcount, s_kcount, s_shift, s_prime, s_reads, s_as_previous, s_last, s_host,
      s_user,
          s_store, s_only_reads, s_to_mem, s_to_line, s_skip} = step_2;

  logic [511:0] previous, moved, merged;
  logic [1023:0] pair;
  logic [63:0] keep, from_header;
  assign pair = {r_data, s_as_previous ? r_data : previous};
  assign moved = ALIGNED != 0 || (s_shift == 6'd0 && !s_as_previous) ? r_data
      : 512'(pair >> {s_shift, 3'b000});
  assign keep = s_kcount[6] ? {64{1'b1}} : ~({64{1'b1}} << s_kcount[5:0]);
  assign from_header = s_hcount[6] ? {64{1'b1}} : ~({64{1'b1}} << s_hcount[5:0]);
  integer b;
  always_comb
    for (b = 0; b < 64; b = b + 1)
      merged[8*b+:8] = ALIGNED != 2 && from_header[b] ? s_header[8*b+:8] : moved[8*b+:8];

  always_ff @(posedge clk) if (v_2 && s_reads) previous <= r_data;

  assign w_en = v_2 && s_store && !s_only_reads;
  assign w_mem = s_to_mem;
  assign w_addr = s_to_line;
  assign w_data = merged;
  assign w_keep = keep & ({64{1'b1}} << s_skip);

  // ---- out
  // -----------------------------------------------------------------------------------------------
  logic put, q_valid, q_take, q_host, unused_room;
  logic [4:0] used;
  logic [511:0] q_data;
  // The queue has what `keep` and `tuser` are made of, which is less.
  logic [6:0] q_count;
  logic [63:0] q_keep;
  logic q_last;
  logic [UW-1:0] q_made;
  logic [127:0] q_user;
  // By eights: those below the last one are whole.
  logic [7:0] k_whole, k_last, k_below;
  integer k;
  assign k_below = ~(8'hff << q_count[2:0]);
  always_comb
    for (k = 0; k < 8; k = k + 1) begin
      k_whole[k] = q_count[6] || 3'(k) < q_count[5:3];
      k_last[k] = 3'(k) == q_count[5:3];
      q_keep[8*k+:8] = {8{k_whole[k]}} | ({8{k_last[k]}} & k_below);
    end
  assign q_user = {q_made[UW-1-:64], 12'd0, q_made[35-:20], 16'd0, q_made[15:0]};
  assign put = v_2 && !s_prime;
  assign q_take = q_valid && (q_host ? h_axis_tready : m_axis_tready);
  // Steps on their way are counted as if they were in the queue already.
  assign has_room = used < 5'(ROOM - 4);

  always_ff @(posedge clk) begin
    if (rst) used <= '0;
    else used <= used + {4'd0, go} - {4'd0, q_take} - {4'd0, v_2 && s_prime};
    if (rst) begin
      n_sent <= '0;
      n_host <= '0;
    end else begin
      if (q_take && q_last && !q_host) n_sent <= n_sent + 1'b1;
      if (q_take && q_last && q_host) n_host <= n_host + 1'b1;
    end
  end

  nf_queue #(
      .WIDTH(512 + 7 + 1 + 1 + UW),
      .DEPTH(ROOM)
  ) u_out (
      .clk(clk),
      .rst(rst),
      .put(put),
      .put_data({merged, s_kcount, s_last, s_host, s_user}),
      .room(unused_room),
      .valid(q_valid),
      .data({q_data, q_count, q_last, q_host, q_made}),
      .take(q_take)
  );

  assign m_axis_tdata = q_data;
  assign m_axis_tkeep = q_keep;
  assign m_axis_tlast = q_last;
  assign m_axis_tvalid = q_valid && !q_host;
  // The network stream has {kind, port}.
  assign m_axis_tuser = {q_user[7:0], q_user[15:8]};
  assign h_axis_tuser = q_user;
  assign h_axis_tdata = q_data;
  assign h_axis_tkeep = q_keep;
  assign h_axis_tlast = q_last;
  assign h_axis_tvalid = q_valid && q_host;
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
