// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_queue: a small queue in distributed memory; the oldest word is on the output without being
// asked for.
//
// Latency: a word can be taken in the cycle after it was put in. Throughput: one word in and one
// out each cycle. Reset empties it. `room` is low when it is full; a word offered then is not
// taken.
`default_nettype none
module nf_queue #(
    parameter integer WIDTH = 8,
    parameter integer DEPTH = 16  // a power of two, at least 2
) (
    input  wire              clk,
    input  wire              rst,
    input  wire              put,
    input  wire  [WIDTH-1:0] put_data,
    output logic             room,
    output logic             valid,
    output logic [WIDTH-1:0] data,
    input  wire              take
);
  localparam integer A = $clog2(DEPTH);
  logic [WIDTH-1:0] mem[0:DEPTH-1];
  logic [A:0] head, tail;

  assign valid = head != tail;
  assign room  = !(head[A] != tail[A] && head[A-1:0] == tail[A-1:0]);
  assign data  = mem[head[A-1:0]];

  always_ff @(posedge clk) begin
    if (put && room) mem[tail[A-1:0]] <= put_data;
    if (rst) begin
      head <= '0;
      tail <= '0;
    end else begin
      if (put && room) tail <= tail + 1'b1;
      if (take && valid) head <= head + 1'b1;
    end
  end
endmodule
`default_nettype wire
