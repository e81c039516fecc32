// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_prefix_sum: what the bytes of a frame in the packet buffer add up to, from byte START up to
// any place: for checksums of payload, which passes a pipe by.
//
// The lines of a frame are added up as they are written, and in front of each line is noted what
// all before it are. A question is answered from that and from the line in which its place lies, of
// which there is a copy here. `even` and `odd` are the sums of the bytes at even and at odd places
// of the frame (nf_line_sum).
//
// Latency: seven cycles from `slot` and `to` to the sums; a frame may be asked about from the cycle
// in which its descriptor can be taken. Throughput: a line written and a question each cycle. No
// place is answered for that the frame does not have. Reset: a frame's first line begins anew;
// answers on their way come nevertheless.
`default_nettype none
module nf_prefix_sum #(
    parameter integer SLOTS = 32,
    parameter integer LINES = 24,  // of a slot
    parameter integer START = 0,
    parameter integer SW = $clog2(SLOTS),
    parameter integer AW = $clog2(SLOTS * LINES)
) (
    input  wire           clk,
    // lines as nf_ingress writes them
    input  wire           w_en,
    input  wire           w_first,
    input  wire  [AW-1:0] w_addr,
    input  wire  [ 511:0] w_data,
    // what is asked for: bytes before `to`
    input  wire  [SW-1:0] slot,
    input  wire  [  15:0] to,
    output logic [  17:0] even,
    output logic [  17:0] odd
);
  localparam integer FIRST_LINE = START / 64, FIRST_BYTE = START % 64;
  logic [35:0] prefix[0:SLOTS*LINES-1];

  // ---- lines come in
  // ---------------------------------------------------------------------------------------
  logic [9:0] next_line, w_line;
  logic [63:0] w_keep;
  logic [12:0] w_even, w_odd;
  logic [17:0] even_now, odd_now, even_before, odd_before;
  logic [2:0] w_valid, w_begins;
  logic [AW-1:0] w_addr_1, w_addr_2, w_addr_3;
  assign w_line = w_first ? 10'd0 : next_line;
  integer i;
  always_comb
    for (i = 0; i < 64; i = i + 1)
      w_keep[i] = w_line > 10'(FIRST_LINE) || (w_line == 10'(FIRST_LINE) && i >= FIRST_BYTE);
  nf_line_sum u_written (
      .clk (clk),
      .data(w_data),
      .keep(w_keep),
      .even(w_even),
      .odd (w_odd)
  );
  assign even_before = w_begins[2] ? 18'd0 : even_now;
  assign odd_before  = w_begins[2] ? 18'd0 : odd_now;
  always_ff @(posedge clk) begin
    if (w_en) next_line <= w_line + 10'd1;
    w_valid <= {w_valid[1:0], w_en};
    w_begins <= {w_begins[1:0], w_first};
    {w_addr_3, w_addr_2, w_addr_1} <= {w_addr_2, w_addr_1, w_addr};
    if (w_valid[2]) begin
      prefix[w_addr_3] <= {even_before, odd_before};
      even_now <= even_before + {5'd0, w_even};
      odd_now <= odd_before + {5'd0, w_odd};
    end
  end

  // ---- questions
  // ------------------------------------------------------------------------------------------- The
  // line of the last byte that counts; nothing before the frame's first byte.
  logic [15:0] last;
  logic [9:0] r_line;
  logic [AW-1:0] r_base, r_addr, r_addr_2, r_addr_3;
  logic [5:0] r_last, r_last_2;
  logic [63:0] r_keep;
  logic r_some, r_whole, r_partly, r_whole_2, r_partly_2;
  logic [511:0] r_data;
  logic [12:0] r_even, r_odd;
  logic [35:0] found_1, found_2, found_3;
  assign last = to - 16'd1;
  assign r_addr = r_base + AW'(r_line);
  assign r_whole = r_some && r_line > 10'(FIRST_LINE);
  assign r_partly = r_some && r_line == 10'(FIRST_LINE);
  nf_line_ram #(
      .LINES(SLOTS * LINES)
  ) u_lines (
      .clk(clk),
      .w_en(w_en),
      .w_addr(w_addr),
      .w_data(w_data),
      .w_keep({64{1'b1}}),
      .r_en(1'b1),
      .r_addr(r_addr),
      .r_data(r_data)
  );
  nf_line_sum u_asked (
      .clk (clk),
      .data(r_data),
      .keep(r_keep),
      .even(r_even),
      .odd (r_odd)
  );
  integer k;
  always_ff @(posedge clk) begin
    // 1: which line
    r_some <= to != 16'd0;
    r_line <= to != 16'd0 ? last[15:6] : 10'd0;
    r_last <= last[5:0];
    r_base <= AW'(slot * LINES);
    // 2: while memory reads
    r_addr_2 <= r_addr;
    r_last_2 <= r_last;
    r_whole_2 <= r_whole;
    r_partly_2 <= r_partly;
    // 3: which of its bytes
    r_addr_3 <= r_addr_2;
    for (k = 0; k < 64; k = k + 1) r_keep[k] <= (r_whole_2 || (r_partly_2 && k >= FIRST_BYTE))
        && 6'(k) <= r_last_2;
    // 4 to 6: added up, with what is before the line
    found_1 <= prefix[r_addr_3];
    found_2 <= found_1;
  end
  always_ff @(posedge clk) begin
    found_3 <= found_2;
    // 7
    even <= found_3[35:18] + {5'd0, r_even};
    odd <= found_3[17:0] + {5'd0, r_odd};
  end
endmodule
`default_nettype wire
