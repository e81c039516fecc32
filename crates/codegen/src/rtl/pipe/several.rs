//! What one packet leads to, one behind the other: logs, messages to the host, writes into its
//! memory, and what becomes of the packet.
//!
//! A packet has at most one command for each position (`exits`). All of them go into one word of
//! the queue in front of the deparser, which is given them one a cycle.

use std::fmt::Write as _;

use super::super::module::Body;
use super::super::{ADDRESS_BITS, SLOT_LINES};
use super::leave::Command;
use super::schedule::Pipe;
use crate::abi::left as kind;

/// True if bytes of strings are moved.
pub fn has_strings(commands: &[Command]) -> bool {
    commands.iter().any(|command| command.fields.contains_key("line"))
}

/// True if commands go through this queue.
pub fn is_needed(commands: &[Command]) -> bool {
    commands.len() > 1 || has_strings(commands) || commands.iter().any(|command| command.beside)
}

/// The commands' queue, and what gives them to the deparser and records them one by one; `commands`
/// have signals of the last stage, `exit`.
pub fn print(out: &mut Body, pipe: &Pipe, commands: &[Command]) {
    let (exit, slots, slot) = (pipe.exit, pipe.slots, pipe.slot_bits());
    let count = commands.len();
    let header = commands.iter().map(|command| command.header_bytes).max().unwrap_or(1);
    let fields = |command: &Command| {
        [
            ("kind", 4),
            ("number", 32),
            ("addr", 64),
            ("hlen", 16),
            ("hdr", 8 * command.header_bytes),
            ("from", 16),
            ("rest", 16),
            ("mem", 4),
            ("line", ADDRESS_BITS),
            ("patch", command.patches.bits()),
        ]
    };
    out.push_str("\n  // ---- out: what a packet leads to, one behind the other\n");
    let (mut put, mut get, mut width) = (Vec::new(), Vec::new(), slot + count as u32);
    for (at, command) in commands.iter().enumerate() {
        for (name, bits) in fields(command) {
            let Some(text) = command.fields.get(name) else { continue };
            out.logic(bits, &format!("q{at}_{name}"));
            put.push(text.clone());
            get.push(format!("q{at}_{name}"));
            width += bits;
        }
    }
    let there: Vec<String> = commands
        .iter()
        .rev()
        .map(|command| format!("{} != 4'd15", command.fields["kind"]))
        .collect();
    out.bits(&["q_valid", "q_more", "q_step", "q_kept", "unused_room"]);
    for name in ["there", "loud", "done", "open", "pick"] {
        out.logic(count as u32, &format!("q_{name}"));
    }
    out.logic(slot, "q_slot");
    out.logic(4, "kind");
    out.logic(32, "number");
    let _ = write!(
        out,
        "  nf_queue #(\n      .WIDTH({width}),\n      .DEPTH({slots})\n  ) u_commands (\n      .clk(clk),\n      .rst(rst),\n      \
         .put(valid[{exit}]),\n      .put_data({{{}, {}, slot_s{exit}}}),\n      .room(unused_room),\n      .valid(q_valid),\n      \
         .data({{q_there, {}, q_slot}}),\n      .take(q_step && !q_more)\n  );\n",
        there.join(", "),
        put.join(",\n        "),
        get.join(", "),
    );
    let dropped = |at: usize| format!("q{at}_kind == 4'd{}", kind::DROP + 8);
    let silent: Vec<String> = (0..count).rev().map(dropped).collect();
    let silent = silent.join(", ");
    let _ = write!(
        out,
        "  assign q_open = q_there & ~q_done;\n  assign q_pick = q_open & (~q_open + 1'b1);\n  assign q_more = (q_open & ~q_pick) != '0;\n  \
         // What is dropped behind or in front of others takes no cycle of the deparser: the last of these gives the slot back.\n  \
         assign q_loud = q_there & ~{{{silent}}};\n  assign q_kept = q_loud != '0 && (q_pick & ~q_loud) != '0;\n  \
         assign q_step = q_valid && (q_kept || !c_valid || c_take);\n"
    );
    let chosen = |name: &str, bits: u32| {
        let part = |(at, command): (usize, &Command)| {
            let own = fields(command).into_iter().find(|(field, _)| *field == name)?.1;
            command.fields.get(name)?;
            let text = format!("q{at}_{name}");
            let text = super::super::expr::Lower::resize(&text, own, bits);
            Some(format!("({{{bits}{{q_pick[{at}]}}}} & {text})"))
        };
        let parts: Vec<String> = commands.iter().enumerate().filter_map(part).collect();
        if parts.is_empty() { "'0".to_string() } else { parts.join(" | ") }
    };
    let _ = writeln!(out, "  assign kind = q_open == '0 ? 4'd15 : {};", chosen("kind", 4));
    let _ = writeln!(out, "  assign number = {};", chosen("number", 32));
    let addressed = commands.iter().any(|command| command.fields.contains_key("addr"));
    let _ = write!(
        out,
        "  assign rec_valid = q_step && (kind[3] || !q_more);\n  assign rec_kind = {{!q_more, kind[3] ? kind : 4'd15}};\n  assign rec_data = {}{{32'd0, number}};\n",
        if addressed {
            let (write, log) = (kind::DMA_WRITE + 8, kind::LOG + 8);
            format!("kind == 4'd{write} || kind == 4'd{log} ? {} : ", chosen("addr", 64))
        } else {
            String::new()
        }
    );
    let _ = write!(
        out,
        "  always_ff @(posedge clk) begin\n    if (rst) begin\n      c_valid <= 1'b0;\n      q_done <= '0;\n    end else begin\n      \
         c_valid <= (q_valid && !q_kept) || (c_valid && !c_take);\n      if (q_step) q_done <= q_more ? q_done | q_pick : '0;\n    end\n    if (q_step && !q_kept) begin\n      \
         c_host <= kind[3] && kind[3:1] != 3'b111 && kind[2:0] > 3'd1;\n      c_silent <= kind[3:1] == 3'b111;\n      c_free <= (q_open & ~q_pick & q_loud) == '0;\n      c_slot <= q_slot;\n      \
         c_kind <= {{5'd0, kind[2:0]}};\n      c_port <= number[7:0];\n      c_addr <= {};\n      c_hlen <= {};\n      c_hdr <= {};\n      c_from <= {};\n      c_rest <= {};\n    \
         end\n  end\n",
        chosen("addr", 64),
        chosen("hlen", 16),
        chosen("hdr", 8 * header),
        chosen("from", 16),
        chosen("rest", 16),
    );
    if pipe.patches.count > 0 {
        let _ = writeln!(
            out,
            "  always_ff @(posedge clk) if (q_step && !q_kept) c_patch <= {};",
            chosen("patch", pipe.patches.bits())
        );
    }
    if has_strings(commands) {
        out.logic(4, "q_mem");
        let _ = write!(
            out,
            "  assign q_mem = {};\n  always_ff @(posedge clk)\n    if (q_step && !q_kept) begin\n      \
             c_store <= !kind[3];\n      c_mem <= kind[3] ? q_mem : 4'd0;\n      c_to_mem <= q_mem;\n      c_to_line <= {line};\n      \
             c_line <= kind[3] && q_mem != 4'd0 ? {line} : {ADDRESS_BITS}'(q_slot * {SLOT_LINES});\n    end\n",
            chosen("mem", 4),
            line = chosen("line", ADDRESS_BITS),
        );
    }
    out.push_str(
        "`ifdef NF_DRIVER\n  // Tables' choices are of the event that passes here.\n  import \"DPI-C\" function void nf_passed();\n  \
         always_ff @(posedge clk) if (valid[",
    );
    let _ = writeln!(out, "{exit}] && !rst) nf_passed();\n`endif");
}
