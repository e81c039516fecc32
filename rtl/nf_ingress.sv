// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_ingress: frames from a stream into slots of the packet buffer, and one descriptor for every
// whole frame.
//
// A frame's beats are written to a slot as they come. With the last one its descriptor is queued:
// slot, length, port, time and seed at its first beat, and the first WIN_LINES * 64 bytes of the
// frame (the header window). Frames that are marked as bad, shorter than MIN_BYTES or longer than
// MAX_BYTES are dropped whole and counted, and their slot is used again.
//
// s_axis_tuser: [7:0] port, [8] the frame is bad (CRC, truncated), [9] a message of the host side
// instead of a frame, [10] a tick of timer [7:0], whose bytes mean nothing. Latency: one cycle from
// the last beat to the descriptor. Throughput: a beat each cycle, so a packet of 64 bytes each
// cycle. No free slot: with DROP_WHEN_FULL = 0 the stream waits; with 1 (beside a MAC, which cannot
// wait) whole frames are dropped and counted.
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */
module nf_ingress #(
    parameter integer SLOTS = 32,  // a power of two
    parameter integer LINES = 24,  // of a slot
    parameter integer MIN_BYTES = 14,  // at most a beat
    parameter integer MAX_BYTES = 1518,
    parameter integer WIN_LINES = 1,
    parameter integer DROP_WHEN_FULL = 0,
    parameter integer SW = $clog2(SLOTS),
    parameter integer AW = $clog2(SLOTS * LINES)
) (
    input  wire                      clk,
    input  wire                      rst,
    input  wire  [              63:0] time_ns,
    input  wire  [              63:0] seed,
    input  wire  [             511:0] s_axis_tdata,
    input  wire  [              63:0] s_axis_tkeep,
    input  wire                       s_axis_tlast,
    input  wire                       s_axis_tvalid,
    output logic                      s_axis_tready,
    input  wire  [              15:0] s_axis_tuser,
    // free slots
    input  wire                       f_valid,
    input  wire  [            SW-1:0] f_slot,
    output logic                      f_take,
    // the packet buffer's write port
    output logic                      w_en,
    output logic                      w_first,  // a frame's first line
    output logic [            AW-1:0] w_addr,
    output logic [             511:0] w_data,
    input  wire                       w_stall,
    // descriptors
    output logic                      d_valid,
    input  wire                       d_take,
    output logic [            SW-1:0] d_slot,
    output logic [              15:0] d_length,
    output logic [               7:0] d_port,
    output logic                      d_host,
    output logic                      d_tick,
    output logic [              63:0] d_time,
    output logic [              63:0] d_seed,
    output logic [512*WIN_LINES-1:0] d_window,
    // counters
    output logic [              31:0] n_frames,
    output logic [              31:0] n_bad,
    output logic [              31:0] n_short,
    output logic [              31:0] n_long,
    output logic [              31:0] n_full
);
  localparam integer LW = $clog2(LINES + 1);
  // The first byte that no frame has.
  localparam integer LONG_LINE = MAX_BYTES / 64, LONG_BYTE = MAX_BYTES % 64;
  localparam integer DW = SW + 16 + 8 + 2 + 128 + 512 * WIN_LINES;

  logic in_frame, skipping, have_slot;
  logic [SW-1:0] slot;
  logic [LW-1:0] line;
  logic [63:0] first_time, first_seed;
  logic [512*WIN_LINES-1:0] window, window_now;

  logic beat, last, skip_now, too_long;
  logic [6:0] bytes;
  logic [15:0] length;
  logic good, bad, is_short, is_long, is_host, is_tick;

  assign s_axis_tready = !w_stall && (have_slot || in_frame || DROP_WHEN_FULL != 0) && !rst;
  assign beat = s_axis_tvalid && s_axis_tready;
  assign last = beat && s_axis_tlast;
  assign skip_now = in_frame ? skipping : !have_slot;
  assign too_long = line == LW'(LINES);
  assign is_host = s_axis_tuser[9];
  assign is_tick = s_axis_tuser[10];

  // A beat's bytes are without holes, so their number is where they end.
  integer i;
  always_comb begin
    bytes = 7'd0;
    for (i = 0; i < 64; i = i + 1) bytes = bytes
        | ({7{s_axis_tkeep[i] && (i == 63 || !s_axis_tkeep[i==63?63 : i+1])}} & 7'(i + 1));
  end
  assign length = {{(10 - LW) {1'b0}}, line, 6'd0} + {9'd0, bytes};

  assign bad = s_axis_tuser[8];
  // By the bit of a beat's keep that tells, not by its number of bytes, which is there later.
  assign is_short = !is_host && !is_tick && line == '0 && !s_axis_tkeep[MIN_BYTES-1];
  assign is_long = too_long || line > LW'(LONG_LINE)
      || (line == LW'(LONG_LINE) && s_axis_tkeep[LONG_BYTE]);
  assign good = last && !skip_now && !bad && !is_short && !is_long;

  assign w_en = beat && !skip_now && !too_long;
  assign w_first = line == '0;
  assign w_addr = AW'(slot * LINES) + AW'(line);
  assign w_data = s_axis_tdata;
  assign f_take = f_valid && (!have_slot || good);

  genvar w;
  generate
    for (w = 0; w < WIN_LINES; w = w + 1) begin : g_window
      assign window_now[512*w+:512] = line == LW'(w) ? s_axis_tdata : window[512*w+:512];
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (rst) begin
      in_frame <= 1'b0;
      skipping <= 1'b0;
      have_slot <= 1'b0;
      line <= '0;
      n_frames <= '0;
      n_bad <= '0;
      n_short <= '0;
      n_long <= '0;
      n_full <= '0;
    end else begin
      if (f_take) have_slot <= 1'b1;
      else if (good) have_slot <= 1'b0;
      if (beat) begin
        in_frame <= !s_axis_tlast;
        skipping <= skip_now;
        if (s_axis_tlast) line <= '0;
        else if (!too_long) line <= line + 1'b1;
      end
      if (good) n_frames <= n_frames + 1'b1;
      if (last && skip_now) n_full <= n_full + 1'b1;
      else if (last && bad) n_bad <= n_bad + 1'b1;
      else if (last && is_long) n_long <= n_long + 1'b1;
      else if (last && is_short) n_short <= n_short + 1'b1;
    end
    if (f_take) slot <= f_slot;
    if (beat && !in_frame) begin
      first_time <= time_ns;
      first_seed <= seed;
    end
    if (beat) window <= window_now;
  end

  // There are no more whole frames than slots, so the queue always has room.
  logic unused_room;
  nf_queue #(
      .WIDTH(DW),
      .DEPTH(SLOTS)
  ) u_descriptors (
      .clk(clk),
      .rst(rst),
      .put(good),
      .put_data({
        slot,
        length,
        s_axis_tuser[7:0],
        is_host,
        is_tick,
        in_frame ? first_time : time_ns,
        in_frame ? first_seed : seed,
        window_now
      }),
      .room(unused_room),
      .valid(d_valid),
      .data({d_slot, d_length, d_port, d_host, d_tick, d_time, d_seed, d_window}),
      .take(d_take)
  );
endmodule
/* verilator lint_on UNUSEDSIGNAL */
`default_nettype wire
