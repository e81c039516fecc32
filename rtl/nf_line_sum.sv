// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// nf_line_sum: the bytes of a line of 64 bytes, added up: those at even places and those at odd
// ones, of which `keep` has the bit.
//
// 256 times one sum plus the other one is the line as 16-bit words in network order; which one,
// says where the words begin. The sums are exact, so that they may be subtracted from each other.
// Latency: three cycles. Throughput: a line each cycle. Reset: there is none, what comes out is of
// the line three cycles ago.
`default_nettype none
module nf_line_sum (
    input  wire          clk,
    input  wire  [511:0] data,
    input  wire  [ 63:0] keep,
    output logic [ 12:0] even,
    output logic [ 12:0] odd
);
  // Sums of four bytes of one parity, then of four of these.
  logic [79:0] e_1, o_1;
  logic [23:0] e_2, o_2;
  genvar g;
  generate
    for (g = 0; g < 8; g = g + 1) begin : g_four
      logic [63:0] b;
      assign b = data[64*g+:64] & {{8{keep[8*g+7]}}, {8{keep[8*g+6]}}, {8{keep[8*g+5]}},
          {8{keep[8*g+4]}},
                                   {8{keep[8*g+3]}}, {8{keep[8*g+2]}}, {8{keep[8*g+1]}},
                                       {8{keep[8*g]}}};
      always_ff @(posedge clk) begin
        e_1[10*g+:10] <= {2'd0, b[7:0]} + {2'd0, b[23:16]} + {2'd0, b[39:32]} + {2'd0, b[55:48]};
        o_1[10*g+:10] <= {2'd0, b[15:8]} + {2'd0, b[31:24]} + {2'd0, b[47:40]} + {2'd0, b[63:56]};
      end
    end
    for (g = 0; g < 2; g = g + 1) begin : g_half
      always_ff @(posedge clk) begin
        e_2[12*g+:12] <= {2'd0, e_1[40*g+:10]} + {2'd0, e_1[40*g+10+:10]}
            + {2'd0, e_1[40*g+20+:10]} + {2'd0, e_1[40*g+30+:10]};
        o_2[12*g+:12] <= {2'd0, o_1[40*g+:10]} + {2'd0, o_1[40*g+10+:10]}
            + {2'd0, o_1[40*g+20+:10]} + {2'd0, o_1[40*g+30+:10]};
      end
    end
  endgenerate
  always_ff @(posedge clk) begin
    even <= {1'b0, e_2[11:0]} + {1'b0, e_2[23:12]};
    odd  <= {1'b0, o_2[11:0]} + {1'b0, o_2[23:12]};
  end
endmodule
`default_nettype wire
