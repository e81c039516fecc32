// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_ticker: ticks of timers between the frames of a stream, each as one beat of its own.
//
// Time begins with the first frame's first beat: then timer t is due PERIODS[t] later, twice that
// later, and so on. A tick that is due enters before the next frame begins, at the latest in front
// of the first frame whose time is not earlier; of those due, the earliest, and of those due at one
// time the first timer. `m_time` is a tick's due time, and `time_ns` else. A tick's beat has
// tuser[10] and the timer's number in tuser[7:0]; its byte means nothing.
//
// With TICKS = 0 the stream passes as it is: whoever sends it has the ticks in it. A frame that
// waits may give way to a tick. Latency: none. Throughput: a beat each cycle; behind a tick TIMERS
// cycles, in which the next one is found.
`default_nettype none
module nf_ticker #(
    parameter integer TIMERS = 1,
    parameter logic [64*TIMERS-1:0] PERIODS = {TIMERS{64'd1000000}},
    parameter integer TICKS = 1
) (
    input  wire         clk,
    input  wire         rst,
    input  wire  [63:0] time_ns,
    input  wire  [63:0] s_axis_tkeep,
    input  wire         s_axis_tlast,
    input  wire         s_axis_tvalid,
    output logic        s_axis_tready,
    input  wire  [15:0] s_axis_tuser,
    output logic [63:0] m_time,
    output logic [63:0] m_axis_tkeep,
    output logic        m_axis_tlast,
    output logic        m_axis_tvalid,
    input  wire         m_axis_tready,
    output logic [15:0] m_axis_tuser
);
  localparam integer NW = TIMERS > 1 ? $clog2(TIMERS) : 1;

  generate
    if (TICKS == 0) begin : g_passes
      wire unused = &{clk, rst};
      assign s_axis_tready = m_axis_tready;
      assign m_time = time_ns;
      assign m_axis_tkeep = s_axis_tkeep;
      assign m_axis_tlast = s_axis_tlast;
      assign m_axis_tvalid = s_axis_tvalid;
      assign m_axis_tuser = s_axis_tuser;
    end else begin : g_ticks
      // `next` is the timer that is due first, and `due` when, once all were looked at.
      logic in_frame, armed, looking, ticks, beat;
      logic [64*TIMERS-1:0] dues;
      logic [63:0] due, at_due;
      logic [NW-1:0] next, at;

      assign ticks = armed && !looking && !in_frame && time_ns >= due;
      assign beat = s_axis_tvalid && s_axis_tready;
      assign s_axis_tready = m_axis_tready && (in_frame || !(ticks || looking));
      assign m_axis_tvalid = ticks || (s_axis_tvalid && (in_frame || !looking));
      assign m_time = ticks ? due : time_ns;
      assign m_axis_tkeep = ticks ? 64'd1 : s_axis_tkeep;
      assign m_axis_tlast = ticks || s_axis_tlast;
      assign m_axis_tuser = ticks ? {5'd0, 1'b1, 2'd0, 8'(next)} : s_axis_tuser;
      assign at_due = dues[64*at+:64];

      integer t;
      always_ff @(posedge clk) begin
        if (rst) begin
          in_frame <= 1'b0;
          armed <= 1'b0;
          looking <= 1'b0;
        end else begin
          if (beat) in_frame <= !s_axis_tlast;
          if (beat && !armed) begin
            armed <= 1'b1;
            looking <= 1'b1;
          end else if (ticks && m_axis_tready) looking <= 1'b1;
          else if (looking && at == NW'(TIMERS - 1)) looking <= 1'b0;
        end
        if (beat && !armed)
          for (t = 0; t < TIMERS; t = t + 1) dues[64*t+:64] <= time_ns + PERIODS[64*t+:64];
        else if (ticks && m_axis_tready)
          dues[64*next+:64] <= due + PERIODS[64*next+:64];
        // The first timer is taken as it is, later ones only if they are due earlier.
        if (!looking) at <= '0;
        else begin
          at <= at + 1'b1;
          if (at == '0 || at_due < due) begin
            next <= at;
            due <= at_due;
          end
        end
      end
    end
  endgenerate
endmodule
`default_nettype wire
