// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_slots: which slots of the packet buffer are free. After a reset all are; they are given out in
// turn and taken back in any order. Latency: a slot given back can be taken in the next cycle.
// Throughput: one given out and one taken back each cycle.
`default_nettype none
module nf_slots #(
    parameter integer SLOTS = 32,  // a power of two
    parameter integer SW = $clog2(SLOTS)
) (
    input  wire           clk,
    input  wire           rst,
    output logic          f_valid,
    output logic [SW-1:0] f_slot,
    input  wire           f_take,
    input  wire           b_valid,
    input  wire  [SW-1:0] b_slot
);
  // Slots never given out yet, from `fresh` on, come before those that came back.
  logic [SW:0] fresh;
  logic q_valid, unused_room;
  logic [SW-1:0] q_slot;

  assign f_valid = !fresh[SW] || q_valid;
  assign f_slot  = fresh[SW] ? q_slot : fresh[SW-1:0];

  always_ff @(posedge clk) begin
    if (rst) fresh <= '0;
    else if (f_take && !fresh[SW]) fresh <= fresh + 1'b1;
  end

  nf_queue #(
      .WIDTH(SW),
      .DEPTH(SLOTS)
  ) u_back (
      .clk(clk),
      .rst(rst),
      .put(b_valid),
      .put_data(b_slot),
      .room(unused_room),
      .valid(q_valid),
      .data(q_slot),
      .take(f_take && fresh[SW])
  );
endmodule
`default_nettype wire
