//! A pipe as text.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use nicforge_ir::{Program, TableKind};

use super::super::SLOTS;
use super::super::expr::{Wire, resolve, used};
use super::super::module::{Port as ModulePort, range};
use super::super::tables::TableForm;
use super::schedule::Pipe;

/// Stages of the longest pipe. Packets on their way are at most as many as there are slots, and so commands in the queue behind it.
pub const MOST_STAGES: u32 = 64;

/// Ports of the module, beside `clk` and `rst`.
pub fn ports(pipe: &Pipe, tables: &[TableForm]) -> Vec<ModulePort> {
    let (input, output) = (ModulePort::input, ModulePort::output);
    let mut list = vec![
        input("go", 1),
        output("idle", 1),
        input("d_valid", 1),
        output("d_take", 1),
        input("d_slot", 5),
        input("d_length", 16),
        input("d_port", 8),
        input("d_host", 1),
        input("d_time", 64),
        input("d_window", 8 * pipe.window_bytes),
        output("c_valid", 1),
        input("c_take", 1),
        output("c_host", 1),
        output("c_silent", 1),
        output("c_kind", 8),
        output("c_port", 8),
        output("c_hlen", 16),
        output("c_hdr", 8 * pipe.header_bytes),
        output("c_from", 16),
        output("c_rest", 16),
        output("c_slot", 5),
        output("rec_valid", 1),
        output("rec_kind", 5),
        output("rec_data", 64),
    ];
    if pipe.random {
        list.push(input("d_seed", 64));
    }
    if pipe.beside {
        list.extend([output("c_addr", 64), output("c_free", 1)]);
    }
    for port in &pipe.ports {
        let form = &tables[port.table];
        let name = |field: &str| format!("{}_{field}{}", form.signals, port.end);
        list.extend([
            output(&name("k_valid"), 1),
            output(&name("k_key"), form.key_bits),
            input(&name("hit"), 1),
            input(&name("value"), form.value_bits),
        ]);
        if !port.fixed {
            list.extend([input(&name("room"), 1), output(&name("w_write"), 1), output(&name("w_delete"), 1)]);
        }
    }
    for commit in &pipe.commits {
        let form = &tables[commit.table];
        let name = |field: &str| format!("{}_{field}", form.signals);
        list.extend(commit.value_ends().map(|end| output(&name(&format!("w_value{end}")), form.value_bits)));
        list.push(output(&name("refused"), 1));
        if form.kind == TableKind::Lru {
            list.push(output(&name("w_used"), 1));
        }
    }
    list
}

/// Where signals are and how long they are needed.
struct Lives<'a> {
    stages: &'a HashMap<String, u32>,
    until: BTreeMap<String, u32>,
}

impl Lives<'_> {
    fn use_at(&mut self, value: &str, stage: u32) {
        for name in used(value) {
            let until = self.until.entry(name.to_string()).or_insert(stage);
            *until = (*until).max(stage);
        }
    }

    fn text(&self, value: &str, stage: u32) -> String {
        resolve(value, |name| match self.stages.get(name) {
            Some(made) if *made < stage => format!("{name}_s{stage}"),
            _ => name.to_string(),
        })
    }
}

/// The text of `nf_handlers.sv`.
pub fn print(program: &Program, pipe: &Pipe, tables: &[TableForm]) -> String {
    let mut lives = Lives { stages: &pipe.stages, until: BTreeMap::new() };
    for wire in &pipe.wires {
        lives.use_at(&wire.value, stage_of(pipe, &wire.name));
    }
    for port in &pipe.ports {
        lives.use_at(&port.key, port.ask);
    }
    for commit in &pipe.commits {
        for text in commit.deciding() {
            lives.use_at(text, commit.last);
        }
        lives.use_at(&commit.refused, pipe.exit);
    }
    for (command, stage) in pipe.commands.iter().zip(pipe.exit..) {
        for text in command.values() {
            lives.use_at(text, stage);
        }
    }
    let mut out = head(program, pipe, tables);
    out.push_str("`default_nettype none\n/* verilator lint_off UNUSEDSIGNAL */\n/* verilator lint_off UNSIGNED */\nmodule nf_handlers (\n");
    let mut list = vec!["    input  wire  clk".to_string(), "    input  wire  rst".to_string()];
    let ports = ports(pipe, tables);
    list.extend(ports.iter().map(|port| {
        let kind = if port.output { "output logic" } else { "input  wire " };
        format!("    {kind} {} {}", range(port.width), port.name)
    }));
    let _ = writeln!(out, "{}\n);", list.join(",\n"));
    entry(&mut out, pipe);
    for wire in &pipe.constants {
        let _ = writeln!(
            out,
            "  logic {} {};\n  assign {} = {};",
            range(wire.width),
            wire.name,
            wire.name,
            wire.value
        );
    }
    stages(&mut out, pipe, &lives);
    keep(&mut out, pipe, tables, &lives);
    table_signals(&mut out, pipe, tables, &lives);
    leave(&mut out, pipe, &lives);
    out.push_str("endmodule\n/* verilator lint_on UNSIGNED */\n/* verilator lint_on UNUSEDSIGNAL */\n`default_nettype wire\n");
    out
}

fn stage_of(pipe: &Pipe, name: &str) -> u32 {
    pipe.stages.get(name).copied().unwrap_or(0)
}

fn head(program: &Program, pipe: &Pipe, tables: &[TableForm]) -> String {
    let mut out = format!(
        "// Generated by nicforge from {}: its handlers as a pipe of {} stages, a packet every {} cycle(s).\n//\n",
        program.name,
        pipe.last() + 1,
        pipe.interval
    );
    for commit in &pipe.commits {
        let name = &tables[commit.table].name;
        let _ = writeln!(
            out,
            "// Table {name} answers in stage {}, and is changed in stage {}.",
            commit.first, commit.last
        );
    }
    out.push_str(
        "// Signals have the names of the source's variables; NAME_s7 is NAME as stage 7 sees it. d_: the event's descriptor, c_: commands to\n\
         // the deparser (nf_egress), t_TABLE_: tables, x_: the exit that was taken, rec_: what happened, in order.\n",
    );
    out
}

/// Stage 0, and the stages' valid bits and slots.
fn entry(out: &mut String, pipe: &Pipe) {
    let exit = pipe.last();
    let message =
        pipe.message_bytes.map_or("1'b0".to_string(), |size| format!("d_host && d_length == 16'd{size}"));
    let _ = write!(
        out,
        "  // ---- in: a packet enters when its command will have room in the queue\n\
         \x20 logic [{exit}:0] valid;\n  logic [6:0] inside_now;\n  logic [{}:0] window;\n  logic [15:0] length;\n  logic [7:0] port;\n  \
         logic [63:0] now;\n  logic for_frame, for_message, turn{};\n\
         \x20 assign window = d_window;\n  assign length = d_length;\n  assign port = d_port;\n  assign now = d_time;\n  \
         assign for_frame = !d_host;\n  assign for_message = {message};\n  assign idle = inside_now == 7'd0;\n  \
         assign d_take = d_valid && go && turn && inside_now < 7'd{SLOTS};\n  assign valid[0] = d_take;\n",
        8 * pipe.window_bytes - 1,
        if pipe.beside { ", c_over" } else { "" }
    );
    if pipe.interval > 1 {
        let bits = super::super::tables::bits_below(pipe.interval + 1);
        let _ = write!(
            out,
            "  // The next packet may only see tables that this one has changed.\n  logic [{}:0] pause;\n  assign turn = pause == '0;\n  \
             always_ff @(posedge clk) begin\n    if (rst) pause <= '0;\n    else if (d_take) pause <= {bits}'d{};\n    else if (!turn) pause <= pause - 1'b1;\n  end\n",
            bits - 1,
            pipe.interval - 1
        );
    } else {
        out.push_str("  assign turn = 1'b1;\n");
    }
    let over = if pipe.beside { "c_over" } else { "(c_valid && c_take)" };
    let _ = write!(
        out,
        "  always_ff @(posedge clk) begin\n    if (rst) inside_now <= '0;\n    else if (d_take != {over}) inside_now <= d_take ? inside_now + 1'b1 : inside_now - 1'b1;\n  end\n"
    );
    if pipe.random {
        out.push_str("  logic [63:0] seed;\n  assign seed = d_seed;\n");
    }
    let _ = writeln!(out, "  logic [4:0] slot_s0;\n  assign slot_s0 = d_slot;");
    for stage in 1..=exit {
        let _ = writeln!(out, "  logic [4:0] slot_s{stage};");
    }
    out.push_str("  always_ff @(posedge clk) begin\n");
    if exit > 0 {
        let _ = writeln!(out, "    valid[{exit}:1] <= rst ? '0 : valid[{}:0];", exit - 1);
    }
    for stage in 1..=exit {
        let _ = writeln!(out, "    slot_s{stage} <= slot_s{};", stage - 1);
    }
    out.push_str("  end\n");
}

fn stages(out: &mut String, pipe: &Pipe, lives: &Lives) {
    let mut last = None;
    for wire in &pipe.wires {
        let stage = stage_of(pipe, &wire.name);
        if last != Some(stage) {
            let _ = writeln!(out, "\n  // ---- stage {stage}");
            last = Some(stage);
        }
        let note = pipe.notes.get(&wire.name).map_or(String::new(), |note| format!("  // {note}"));
        let _ = writeln!(out, "  logic {} {};{note}", range(wire.width), wire.name);
        let _ = writeln!(out, "  assign {} = {};", wire.name, lives.text(&wire.value, stage));
    }
}

/// Width of every signal that may be kept.
fn widths<'a>(pipe: &'a Pipe, tables: &[TableForm]) -> HashMap<String, u32> {
    let mut list: HashMap<String, u32> = HashMap::new();
    let of = |wire: &'a Wire| (wire.name.clone(), wire.width);
    list.extend(pipe.wires.iter().map(of));
    let sources = [
        ("window", 8 * pipe.window_bytes),
        ("length", 16),
        ("port", 8),
        ("now", 64),
        ("seed", 64),
        ("for_frame", 1),
        ("for_message", 1),
    ];
    list.extend(sources.map(|(name, width)| (name.to_string(), width)));
    for port in &pipe.ports {
        let form = &tables[port.table];
        let end = &port.end;
        list.insert(format!("{}_hit{end}", form.signals), 1);
        list.insert(format!("{}_room{end}", form.signals), 1);
        list.insert(format!("{}_value{end}", form.signals), form.value_bits);
    }
    list
}

/// Registers for what later stages need.
fn keep(out: &mut String, pipe: &Pipe, tables: &[TableForm], lives: &Lives) {
    let widths = widths(pipe, tables);
    let mut moves = String::new();
    out.push_str("\n  // ---- what later stages need\n");
    for (name, until) in &lives.until {
        let Some(width) = widths.get(name) else { continue };
        let made = stage_of(pipe, name);
        for stage in made + 1..=*until {
            let _ = writeln!(out, "  logic {} {name}_s{stage};", range(*width));
            let from = if stage == made + 1 { name.clone() } else { format!("{name}_s{}", stage - 1) };
            let _ = writeln!(moves, "    {name}_s{stage} <= {from};");
        }
    }
    if !moves.is_empty() {
        let _ = writeln!(out, "  always_ff @(posedge clk) begin\n{moves}  end");
    }
}

fn table_signals(out: &mut String, pipe: &Pipe, tables: &[TableForm], lives: &Lives) {
    if !pipe.ports.is_empty() {
        out.push_str("\n  // ---- tables\n");
    }
    for port in &pipe.ports {
        let signals = &tables[port.table].signals;
        let end = &port.end;
        let _ = writeln!(out, "  assign {signals}_k_valid{end} = valid[{}];", port.ask);
        let _ = writeln!(out, "  assign {signals}_k_key{end} = {};", lives.text(&port.key, port.ask));
    }
    for commit in &pipe.commits {
        let signals = &tables[commit.table].signals;
        let last = commit.last;
        let mut when = |field: &str, text: &str| {
            let _ =
                writeln!(out, "  assign {signals}_{field} = valid[{last}] && {};", lives.text(text, last));
        };
        for ((write, delete), end) in commit.writes.iter().zip(&commit.deletes).zip(&commit.ends) {
            when(&format!("w_write{end}"), write);
            when(&format!("w_delete{end}"), delete);
        }
        if let Some(used) = &commit.used {
            when("w_used", used);
        }
        for (value, end) in commit.values.iter().zip(commit.value_ends()) {
            let _ = writeln!(out, "  assign {signals}_w_value{end} = {};", lives.text(value, last));
        }
        let exit = pipe.exit;
        let _ = writeln!(
            out,
            "  assign {signals}_refused = valid[{exit}] && {};",
            lives.text(&commit.refused, exit)
        );
    }
}

/// The exit: record and command.
fn leave(out: &mut String, pipe: &Pipe, lives: &Lives) {
    if pipe.beside {
        return leave_in_turn(out, pipe, lives);
    }
    let exit = pipe.exit;
    let field = |name: &str| lives.text(&pipe.commands[0][name], exit);
    let width = 1 + 1 + 3 + 8 + 16 + 8 * pipe.header_bytes + 16 + 16 + 5;
    let kind = field("kind");
    let _ = write!(
        out,
        "\n  // ---- out\n  logic [3:0] kind;\n  logic [31:0] number;\n  logic unused_room;\n  assign kind = {kind};\n  assign number = {};\n  \
         assign rec_valid = valid[{exit}];\n  assign rec_kind = {{1'b1, kind}};\n  assign rec_data = {{32'd0, number}};\n  assign c_kind[7:3] = 5'd0;\n  \
         nf_queue #(\n      .WIDTH({width}),\n      .DEPTH({SLOTS})\n  ) u_commands (\n      .clk(clk),\n      .rst(rst),\n      .put(valid[{exit}]),\n      \
         .put_data({{kind == 4'd10, kind[3:1] == 3'b111, kind[2:0], number[7:0], {}, {}, {}, {}, slot_s{exit}}}),\n      .room(unused_room),\n      \
         .valid(c_valid),\n      .data({{c_host, c_silent, c_kind[2:0], c_port, c_hlen, c_hdr, c_from, c_rest, c_slot}}),\n      .take(c_take)\n  );\n",
        field("number"),
        field("hlen"),
        field("hdr"),
        field("from"),
        field("rest"),
    );
}

/// The exit where things leave beside packets: a command in each of the last stages, and each with a record. Packets are so many cycles apart, so one
/// of these stages has one at most. The last command gives the slot back if nobody has; if nothing is left to do it does nothing and is not
/// shown to the deparser.
fn leave_in_turn(out: &mut String, pipe: &Pipe, lives: &Lives) {
    let last = pipe.last();
    let names = ["kind", "ends", "number", "addr", "hlen", "hdr", "from", "rest"];
    let widths = [4, 1, 32, 64, 16, 8 * pipe.header_bytes, 16, 16];
    out.push_str("\n  // ---- out: one command behind the other\n");
    for (name, width) in names.iter().zip(widths) {
        let _ = writeln!(out, "  logic {} a_{name};", range(width));
        let _ = write!(out, "  assign a_{name} = ");
        for (command, stage) in pipe.commands.iter().zip(pipe.exit..) {
            let text = lives.text(&command[name], stage);
            let _ = match stage == last {
                true => writeln!(out, "{text};"),
                false => write!(out, "valid[{stage}] ? {text}\n      : "),
            };
        }
    }
    let any: Vec<String> = (pipe.exit..=last).map(|stage| format!("valid[{stage}]")).collect();
    let width = 4 + 1 + 1 + 8 + 64 + 16 + 8 * pipe.header_bytes + 16 + 16 + 5;
    let _ = write!(
        out,
        "  logic is_last, ended, nothing, free, put, q_valid, q_last, q_nothing, q_take, unused_room;\n  logic [4:0] a_slot;\n  logic [3:0] q_kind;\n  \
         assign a_slot = {};\n  \
         assign is_last = valid[{last}];\n  assign nothing = a_kind == 4'd15;\n  assign free = a_ends || (is_last && !ended);\n  \
         assign put = is_last || (!nothing && ({}));\n  \
         // whether the packet is over\n  always_ff @(posedge clk) begin\n    if (rst || is_last) ended <= 1'b0;\n    else if (put && a_ends) ended <= 1'b1;\n  end\n  \
         assign rec_valid = put;\n  assign rec_kind = {{is_last, a_kind}};\n  assign rec_data = {{32'd0, a_number}} | a_addr;\n",
        slots(pipe),
        any.join(" || "),
    );
    let _ = write!(
        out,
        "  nf_queue #(\n      .WIDTH({width}),\n      .DEPTH({})\n  ) u_commands (\n      .clk(clk),\n      .rst(rst),\n      .put(put),\n      \
         .put_data({{a_kind, is_last, free, a_number[7:0], a_addr, a_hlen, a_hdr, a_from, a_rest, a_slot}}),\n      .room(unused_room),\n      \
         .valid(q_valid),\n      .data({{q_kind, q_last, c_free, c_port, c_addr, c_hlen, c_hdr, c_from, c_rest, c_slot}}),\n      .take(q_take)\n  );\n  \
         assign q_nothing = q_kind == 4'd15 && !c_free;\n  assign c_valid = q_valid && !q_nothing;\n  assign q_take = c_take || (q_valid && q_nothing);\n  \
         assign c_over = q_take && q_valid && q_last;\n  assign c_host = q_kind[2:0] >= 3'd2 && q_kind[2:0] <= 3'd5;\n  assign c_silent = q_kind[3:1] == 3'b111;\n  \
         assign c_kind = {{5'd0, q_kind[2:0]}};\n",
        (SLOTS * pipe.commands.len() as u32).next_power_of_two()
    );
}

/// The slot of the packet that gives a command.
fn slots(pipe: &Pipe) -> String {
    let early = (pipe.exit..pipe.last()).map(|stage| format!("valid[{stage}] ? slot_s{stage} : "));
    early.chain([format!("slot_s{}", pipe.last())]).collect()
}
