//! A pipe as text.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use nicforge_ir::{Program, TableKind};

use super::super::ADDRESS_BITS;
use super::super::expr::{Wire, resolve, used};
use super::super::module::{Body, END, Port as ModulePort, range};
use super::super::tables::TableForm;
use super::super::tables::bits_below;
use super::dag::beside::Question;
use super::gate::{Gate, Queue};
use super::leave::{Command, Commit};
use super::schedule::Pipe;
use super::several::{self, has_strings, is_needed};

/// Ports of the module, beside `clk` and `rst`.
pub fn ports(pipe: &Pipe, tables: &[TableForm]) -> Vec<ModulePort> {
    let (input, output) = (ModulePort::input, ModulePort::output);
    let mut list = vec![
        input("go", 1),
        output("idle", 1),
        input("d_valid", 1),
        output("d_take", 1),
        input("d_slot", pipe.slot_bits()),
        input("d_length", 16),
        input("d_port", 8),
        input("d_host", 1),
        input("d_tick", 1),
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
        output("c_slot", pipe.slot_bits()),
        output("rec_valid", 1),
        output("rec_kind", 5),
        output("rec_data", 64),
    ];
    if pipe.random {
        list.push(input("d_seed", 64));
    }
    if has_strings(&pipe.commands) {
        list.extend([
            output("c_store", 1),
            output("c_mem", 4),
            output("c_line", ADDRESS_BITS),
            output("c_to_mem", 4),
            output("c_to_line", ADDRESS_BITS),
        ]);
    }
    if pipe.patches.count > 0 {
        list.push(output("c_patch", pipe.patches.bits()));
    }
    if is_needed(&pipe.commands) {
        list.extend([output("c_free", 1), output("c_addr", 64)]);
    }
    if waits_for_strings(pipe) {
        list.extend([input("p_done", 1), input("p_slot", pipe.slot_bits())]);
    }
    for (at, asked) in pipe.asked.iter().enumerate() {
        if asked.what.stored().is_none() {
            list.push(output(&format!("b{at}_slot"), pipe.slot_bits()));
        }
        list.extend([
            output(&format!("b{at}_to"), asked.what.place_bits()),
            input(&format!("b{at}_{}", asked.what.field()), asked.what.bits()),
        ]);
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
            list.extend([
                input(&name("room"), 1),
                output(&name("w_write"), 1),
                output(&name("w_delete"), 1),
            ]);
        }
    }
    for port in pipe.ports.iter().filter(|port| tables[port.table].gives_places()) {
        list.push(input(&format!("{}_place{}", tables[port.table].signals, port.end), 32));
    }
    for commit in &pipe.commits {
        let form = &tables[commit.table];
        let name = |field: &str| format!("{}_{field}", form.signals);
        list.extend(
            commit.value_ends().map(|end| output(&name(&format!("w_value{end}")), form.value_bits)),
        );
        list.push(output(&name("refused"), 1));
        list.extend(commit.inserted.as_ref().map(|_| output(&name("inserted"), 8)));
        list.extend(commit.refusals.as_ref().map(|_| output(&name("refusals"), 8)));
        list.extend(commit.used_ends().map(|end| output(&name(&format!("w_used{end}")), 1)));
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

/// The text of `nf_handlers.sv`, and bits and depth of each queue in front of a gate.
pub fn print(program: &Program, pipe: &Pipe, tables: &[TableForm]) -> (String, Vec<(u32, u32)>) {
    let mut lives = Lives { stages: &pipe.stages, until: BTreeMap::new() };
    for wire in &pipe.wires {
        lives.use_at(&wire.value, used_in(pipe, wire));
    }
    for port in &pipe.ports {
        lives.use_at(&port.key, port.ask);
    }
    for lock in pipe.gates.iter().flat_map(|gate| &gate.locks) {
        lock.given().for_each(|text| lives.use_at(text, lock.stage));
    }
    for gate in &pipe.gates {
        let given = gate
            .strings
            .iter()
            .flat_map(|lock| lock.given().map(|text| (text, lock.stage(gate.stage))));
        given.for_each(|(text, stage)| lives.use_at(text, stage));
    }
    for commit in &pipe.commits {
        for port in 0..commit.ends.len() {
            commit.deciding_at(port).for_each(|text| lives.use_at(text, commit.changed(port)));
        }
        lives.use_at(&commit.refused, pipe.exit);
        commit.counted().for_each(|text| lives.use_at(text, pipe.exit));
    }
    for text in pipe.commands.iter().flat_map(|command| command.fields.values()) {
        lives.use_at(text, pipe.exit);
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
    let (head, mut out) = (out, Body::default());
    entry(&mut out, pipe);
    for (at, gate) in pipe.gates.iter().enumerate() {
        gate.print(&mut out, tables, (pipe.slots, pipe.gates.get(at + 1)), |key, stage| {
            lives.text(key, stage)
        });
    }
    for wire in &pipe.constants {
        out.logic(wire.width, &wire.name);
        let _ = writeln!(out, "  assign {} = {};", wire.name, wire.value);
    }
    stages(&mut out, pipe, &lives);
    let queues = keep(&mut out, pipe, tables, &lives);
    table_signals(&mut out, pipe, tables, &lives);
    leave(&mut out, pipe, &lives);
    (head + &out.finish() + END, queues)
}

/// True if packets wait for bytes that others put into strings.
pub fn waits_for_strings(pipe: &Pipe) -> bool {
    pipe.gates.iter().any(|gate| !gate.strings.is_empty())
}

fn stage_of(pipe: &Pipe, name: &str) -> u32 {
    pipe.stages.get(name).copied().unwrap_or(0)
}

/// The stage in which a wire's value is needed.
fn used_in(pipe: &Pipe, wire: &Wire) -> u32 {
    let stage = stage_of(pipe, &wire.name);
    answer(pipe, wire).map_or(stage, |(_, asked)| stage - asked.what.latency())
}

/// The question, with its number, whose answer a wire is.
fn answer<'a>(pipe: &'a Pipe, wire: &Wire) -> Option<(usize, &'a Question)> {
    pipe.asked.iter().enumerate().find(|(_, asked)| asked.name == wire.name)
}

fn head(program: &Program, pipe: &Pipe, tables: &[TableForm]) -> String {
    let mut out = format!(
        "// Generated by nicforge from {}: its handlers as a pipe of {} stages, a packet every {} cycle(s).\n//\n",
        program.name,
        pipe.exit + 1,
        pipe.interval
    );
    for commit in &pipe.commits {
        let name = &tables[commit.table].name;
        let _ = writeln!(
            out,
            "// Table {name} answers in stage {}, and is changed in stage {}.",
            commit.first, commit.last
        );
        if commit.pace > 0 {
            let turns = commit.ends.len();
            let _ = writeln!(
                out,
                "// {turns} entries take turns there, {} stage(s) apart.",
                commit.pace
            );
        }
    }
    for gate in &pipe.gates {
        let _ = writeln!(
            out,
            "// In front of stage {} packets wait that may use the same entry, {} cycle(s) apart.",
            gate.stage + 1,
            gate.meeting(pipe.exit)
        );
    }
    out.push_str(
        "// Signals have the names of the source's variables; NAME_s7 is NAME as stage 7 sees it. d_: the event's descriptor, c_: commands to\n\
         // the deparser (nf_egress), t_TABLE_: tables, x_: the exit that was taken, rec_: what happened, in order.\n",
    );
    out
}

/// Stage 0, and the stages' valid bits and slots.
fn entry(out: &mut Body, pipe: &Pipe) {
    let exit = pipe.exit;
    let inside = bits_below(pipe.slots + 1).max(7);
    let not_held = match pipe.gates.first() {
        Some(Gate { queue: Some(queue), .. }) => {
            format!(" && !{}[{}]", queue.open, queue.open_bits() - 1)
        }
        Some(gate) => format!(" && !{}", gate.hold),
        None => String::new(),
    };
    let message = pipe
        .message_bytes
        .map_or("1'b0".to_string(), |size| format!("d_host && d_length == 16'd{size}"));
    out.logic(exit + 1, "valid");
    out.logic(inside, "inside_now");
    out.logic(8 * pipe.window_bytes, "window");
    out.logic(16, "length");
    out.logic(8, "port");
    out.logic(64, "now");
    out.bits(&["for_frame", "for_message", "tick", "turn"]);
    let _ = write!(
        out,
        "  // ---- in: a packet enters when its command will have room in the queue\n\
         \x20 assign window = d_window;\n  assign length = d_length;\n  assign port = d_port;\n  assign now = d_time;\n  \
         assign for_frame = !d_host && !d_tick;\n  assign tick = d_tick;\n  assign for_message = {message};\n  assign idle = inside_now == {inside}'d0;\n  \
         assign d_take = d_valid && go && turn && inside_now < {inside}'d{}{not_held};\n  assign valid[0] = d_take;\n",
        pipe.slots
    );
    if pipe.at_entry > 1 {
        let bits = bits_below(pipe.at_entry + 1);
        out.logic(bits, "pause");
        let _ = write!(
            out,
            "  // The next packet may only see tables that this one has changed.\n  assign turn = pause == '0;\n  \
             always_ff @(posedge clk) begin\n    if (rst) pause <= '0;\n    else if (d_take) pause <= {bits}'d{};\n    else if (!turn{not_held}) pause <= pause - 1'b1;\n  end\n",
            pipe.at_entry - 1
        );
    } else {
        out.push_str("  assign turn = 1'b1;\n");
    }
    let left = if is_needed(&pipe.commands) {
        "(c_valid && c_take && c_free)"
    } else {
        "(c_valid && c_take)"
    };
    let _ = write!(
        out,
        "  always_ff @(posedge clk) begin\n    if (rst) inside_now <= '0;\n    else if (d_take != {left}) inside_now <= d_take ? inside_now + 1'b1 : inside_now - 1'b1;\n  end\n"
    );
    if pipe.random {
        out.logic(64, "seed");
        out.push_str("  assign seed = d_seed;\n");
    }
    for stage in 0..=exit {
        out.logic(pipe.slot_bits(), &format!("slot_s{stage}"));
    }
    out.push_str("  assign slot_s0 = d_slot;\n");
    moving(out, pipe);
}

/// Packets' ways from stage to stage, and through the queues.
fn moving(out: &mut Body, pipe: &Pipe) {
    let exit = pipe.exit;
    let mut enters = "d_take";
    for gate in &pipe.gates {
        if let Some(queue) = &gate.queue {
            let (bits, last) = (queue.open_bits(), queue.stage);
            let Queue { valid, take, open, slot, .. } = queue;
            out.bits(&[valid, take]);
            out.logic(bits, open);
            out.logic(pipe.slot_bits(), slot);
            let _ = write!(
                out,
                "  // Between stages {last} and {} packets stand in a queue.\n  assign {take} = {valid} && !{};\n  always_ff @(posedge clk) begin\n    if (rst) {open} <= '0;\n    \
                 else if ({enters} != {take}) {open} <= {enters} ? {open} + 1'b1 : {open} - 1'b1;\n  end\n",
                last + 1,
                gate.hold,
            );
        }
        enters = &gate.sent;
    }
    out.push_str("  always_ff @(posedge clk) begin\n");
    // The last stage whose valid bit is there.
    let mut there = 0;
    let free = |out: &mut Body, there: u32, last: u32| {
        if last > there {
            let _ = writeln!(
                out,
                "    valid[{last}:{}] <= rst ? '0 : valid[{}:{there}];",
                there + 1,
                last - 1
            );
        }
    };
    for gate in &pipe.gates {
        let Gate { stage, at_gate, hold, sent, .. } = gate;
        let first = gate.first();
        let behind = match &gate.queue {
            Some(queue) => {
                free(out, there, queue.stage);
                format!("{{valid[{}:{first}], {}}}", stage - 1, queue.valid)
            }
            None => format!("valid[{}:0]", stage - 1),
        };
        let _ = write!(
            out,
            "    if (rst) valid[{stage}:{first}] <= '0;\n    else if (!{hold}) valid[{stage}:{first}] <= {behind};\n    \
             if (rst) {at_gate} <= 1'b0;\n    else if (!{hold}) {at_gate} <= valid[{}];\n    valid[{}] <= {sent} && !rst;\n",
            stage - 1,
            stage + 1
        );
        there = stage + 1;
    }
    free(out, there, exit);
    for stage in 1..=exit {
        let unless =
            pipe.holding(stage).map_or(String::new(), |gate| format!("if (!{}) ", gate.hold));
        let before = format!("slot_s{}", stage - 1);
        let from = pipe.queue_before(stage).map_or(&before, |queue| &queue.slot);
        let _ = writeln!(out, "    {unless}slot_s{stage} <= {from};");
    }
    out.push_str("  end\n");
}

fn stages(out: &mut Body, pipe: &Pipe, lives: &Lives) {
    let mut last = None;
    for wire in &pipe.wires {
        let stage = stage_of(pipe, &wire.name);
        if last != Some(stage) {
            let _ = writeln!(out, "\n  // ---- stage {stage}");
            last = Some(stage);
        }
        let note = pipe.notes.get(&wire.name).map_or(String::new(), |note| format!("  // {note}"));
        out.logic(wire.width, &wire.name);
        if let Some((at, asked)) = answer(pipe, wire) {
            let before = stage - asked.what.latency();
            let _ = writeln!(out, "  assign {} = b{at}_{};{note}", wire.name, asked.what.field());
            if asked.what.stored().is_none() {
                let _ = writeln!(out, "  assign b{at}_slot = slot_s{before};");
            }
            let _ = writeln!(out, "  assign b{at}_to = {};", lives.text(&wire.value, before));
            continue;
        }
        let value = lives.text(&wire.value, stage);
        let _ = writeln!(out, "  assign {} = {value};{note}", wire.name);
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
        ("tick", 1),
    ];
    list.extend(sources.map(|(name, width)| (name.to_string(), width)));
    for port in &pipe.ports {
        let form = &tables[port.table];
        let end = &port.end;
        list.insert(format!("{}_hit{end}", form.signals), 1);
        list.insert(format!("{}_room{end}", form.signals), 1);
        list.insert(format!("{}_place{end}", form.signals), 32);
        list.insert(format!("{}_value{end}", form.signals), form.value_bits);
    }
    list
}

/// Registers for what later stages need, and the queues in front of gates: bits and depth of each.
fn keep(out: &mut Body, pipe: &Pipe, tables: &[TableForm], lives: &Lives) -> Vec<(u32, u32)> {
    let widths = widths(pipe, tables);
    let mut moves = String::new();
    // By the gate that holds them.
    let mut held_moves: BTreeMap<u32, (&str, String)> = BTreeMap::new();
    // What goes through each queue, and its bits.
    let mut queued: BTreeMap<u32, (Vec<String>, u32)> = BTreeMap::new();
    for queue in pipe.gates.iter().filter_map(|gate| gate.queue.as_ref()) {
        queued.insert(queue.stage, (vec![format!("slot_s{}", queue.stage)], pipe.slot_bits()));
    }
    out.push_str("\n  // ---- what later stages need\n");
    for (name, until) in &lives.until {
        let Some(width) = widths.get(name) else { continue };
        let made = stage_of(pipe, name);
        for stage in made + 1..=*until {
            out.logic(*width, &format!("{name}_s{stage}"));
            let mut from =
                if stage == made + 1 { name.clone() } else { format!("{name}_s{}", stage - 1) };
            if let (Some(queue), Some((list, bits))) =
                (pipe.queue_before(stage), queued.get_mut(&(stage - 1)))
            {
                let low = *bits;
                *bits += width;
                list.push(std::mem::replace(
                    &mut from,
                    format!("{}[{}:{low}]", queue.data, *bits - 1),
                ));
            }
            let moves = match pipe.holding(stage) {
                Some(gate) => {
                    &mut held_moves.entry(gate.stage).or_insert((&gate.hold, String::new())).1
                }
                None => &mut moves,
            };
            let _ = writeln!(moves, "    {name}_s{stage} <= {from};");
        }
    }
    let mut queues = Vec::new();
    for queue in pipe.gates.iter().filter_map(|gate| gate.queue.as_ref()) {
        let Queue { stage, valid, take, slot, data, more, .. } = queue;
        let Some((mut list, bits)) = queued.remove(stage) else { continue };
        list.reverse();
        queues.push((bits, queue.depth()));
        out.logic(bits, data);
        out.bits(&[more]);
        let _ = writeln!(
            out,
            "  assign {slot} = {data}[{}:0];\n  nf_queue #(\n      .WIDTH({bits}),\n      .DEPTH({})\n  ) u_{data} (\n      .clk(clk),\n      .rst(rst),\n      \
             .put(valid[{stage}]),\n      .put_data({{{}}}),\n      .room({more}),\n      .valid({valid}),\n      .data({data}),\n      .take({take})\n  );",
            pipe.slot_bits() - 1,
            queue.depth(),
            list.join(",\n        ")
        );
    }
    for (hold, moves) in held_moves.values() {
        let _ = writeln!(out, "  always_ff @(posedge clk) if (!{hold}) begin\n{moves}  end");
    }
    if !moves.is_empty() {
        let _ = writeln!(out, "  always_ff @(posedge clk) begin\n{moves}  end");
    }
    queues
}

fn table_signals(out: &mut Body, pipe: &Pipe, tables: &[TableForm], lives: &Lives) {
    if !pipe.ports.is_empty() {
        out.push_str("\n  // ---- tables\n");
    }
    for port in &pipe.ports {
        let signals = &tables[port.table].signals;
        let end = &port.end;
        let gate = pipe.gates.iter().find(|gate| gate.stage == port.ask);
        let valid = gate.map_or_else(|| format!("valid[{}]", port.ask), |gate| gate.sent.clone());
        let _ = writeln!(out, "  assign {signals}_k_valid{end} = {valid};");
        let _ =
            writeln!(out, "  assign {signals}_k_key{end} = {};", lives.text(&port.key, port.ask));
    }
    // What LRU tables evict is of the event that comes to them.
    let evicts = |commit: &&Commit| tables[commit.table].kind == TableKind::Lru;
    if pipe.commits.iter().any(|commit| evicts(&commit)) {
        out.push_str(
            "`ifdef NF_DRIVER\n  import \"DPI-C\" function void nf_turn(input int table_number);\n",
        );
        for commit in pipe.commits.iter().filter(evicts) {
            let (table, stage) = (commit.table, commit.last);
            let _ = writeln!(
                out,
                "  always_ff @(posedge clk) if (valid[{stage}] && !rst) nf_turn({table});"
            );
        }
        out.push_str("`endif\n");
    }
    for commit in &pipe.commits {
        let signals = &tables[commit.table].signals;
        let mut when = |field: &str, text: &str, stage: u32| {
            let text = lives.text(text, stage);
            let _ = writeln!(out, "  assign {signals}_{field} = valid[{stage}] && {text};");
        };
        for (port, end) in commit.ends.iter().enumerate() {
            when(&format!("w_write{end}"), &commit.writes[port], commit.changed(port));
            when(&format!("w_delete{end}"), &commit.deletes[port], commit.changed(port));
        }
        for (port, (used, end)) in commit.used.iter().zip(commit.used_ends()).enumerate() {
            when(&format!("w_used{end}"), used, commit.changed(port));
        }
        for (port, (value, end)) in commit.values.iter().zip(commit.value_ends()).enumerate() {
            let value = lives.text(value, commit.changed(port));
            let _ = writeln!(out, "  assign {signals}_w_value{end} = {value};");
        }
        let exit = pipe.exit;
        if let Some(inserted) = &commit.inserted {
            let _ = writeln!(out, "  assign {signals}_inserted = {};", lives.text(inserted, exit));
        }
        if let Some(refusals) = &commit.refusals {
            let _ = writeln!(out, "  assign {signals}_refusals = {};", lives.text(refusals, exit));
        }
        let _ = writeln!(
            out,
            "  assign {signals}_refused = valid[{exit}] && {};",
            lives.text(&commit.refused, exit)
        );
    }
}

/// The exit: record and command.
fn leave(out: &mut Body, pipe: &Pipe, lives: &Lives) {
    let exit = pipe.exit;
    if is_needed(&pipe.commands) {
        let here = |command: &Command| {
            let fields = command.fields.iter().map(|(name, text)| (*name, lives.text(text, exit)));
            Command { fields: fields.collect(), ..*command }
        };
        return several::print(out, pipe, &pipe.commands.iter().map(here).collect::<Vec<_>>());
    }
    let field = |name: &str| lives.text(&pipe.commands[0].fields[name], exit);
    let width = 1
        + 1
        + 3
        + 8
        + 16
        + 8 * pipe.header_bytes
        + 16
        + 16
        + pipe.slot_bits()
        + pipe.patches.bits();
    let kind = field("kind");
    let (patch, c_patch) = match pipe.patches.count {
        0 => (String::new(), ""),
        _ => (format!("{}, ", field("patch")), "c_patch, "),
    };
    out.logic(4, "kind");
    out.logic(32, "number");
    out.bits(&["unused_room"]);
    let _ = write!(
        out,
        "\n  // ---- out\n  assign kind = {kind};\n  assign number = {};\n  \
         assign rec_valid = valid[{exit}];\n  assign rec_kind = {{1'b1, kind}};\n  assign rec_data = {{32'd0, number}};\n  assign c_kind[7:3] = 5'd0;\n  \
         nf_queue #(\n      .WIDTH({width}),\n      .DEPTH({})\n  ) u_commands (\n      .clk(clk),\n      .rst(rst),\n      .put(valid[{exit}]),\n      \
         .put_data({{kind == 4'd10, kind[3:1] == 3'b111, kind[2:0], number[7:0], {}, {}, {}, {}, {patch}slot_s{exit}}}),\n      .room(unused_room),\n      \
         .valid(c_valid),\n      .data({{c_host, c_silent, c_kind[2:0], c_port, c_hlen, c_hdr, c_from, c_rest, {c_patch}c_slot}}),\n      .take(c_take)\n  );\n",
        field("number"),
        pipe.slots,
        field("hlen"),
        field("hdr"),
        field("from"),
        field("rest"),
    );
}
