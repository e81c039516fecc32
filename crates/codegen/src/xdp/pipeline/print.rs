//! The C around handlers of a planned program: structs of events, queues, the program of each
//! stage, and how a handler takes its event off a packet.

use std::collections::HashMap;
use std::fmt::Write;

use nicforge_ir::{HandlerId, Program};

use super::{Pipe, needs};
use crate::c::types::CTypes;
use crate::inplace::state::{Cursor, Emits, State};
use crate::xdp::process;

impl Pipe {
    /// Structs of events, and the queues of stages.
    pub fn declarations(&self, program: &Program, types: &CTypes<'_>) -> String {
        let mut out = String::new();
        let replicas: u32 = self.stages.iter().map(|stage| stage.replicas).sum();
        let _ = writeln!(out, "const volatile u32 nf_cpus[{replicas}] = {{0}};\n");
        for stage in &self.stages {
            if let Some(queue) = &stage.queue {
                let _ = writeln!(
                    out,
                    "struct {{\n    __uint(type, BPF_MAP_TYPE_CPUMAP);\n    __uint(max_entries, 1);\n    __type(key, u32);\n    __type(value, struct bpf_cpumap_val);\n}} {queue} SEC(\".maps\");\n"
                );
            }
        }
        if self.spread.is_some() {
            out.push_str(
                "struct nf_packet_in {\n    NF_CLOCK_MEMBERS\n    NF_TRIP_MEMBERS\n} __attribute__((aligned(4)));\n\n",
            );
        }
        for (id, event) in &program.events {
            let Some(edge) = self.edges.get(&id) else { continue };
            if edge.packed {
                out.push_str(&process::declaration(self, program, types, id));
                continue;
            }
            let form = self.forms.get(&id).copied().unwrap_or_default();
            let mut members: Vec<(u32, String)> = Vec::new();
            for (param, member) in event.params.iter().zip(&edge.members) {
                if let Some(member) = member {
                    let align = program.layout(param.ty).align;
                    members.push((align, format!("{} {member};", types.name(param.ty))));
                }
            }
            for (carried, text) in [(edge.now, "u64 nf_now;"), (edge.seed, "u64 nf_seed;")] {
                if carried {
                    members.push((8, text.to_string()));
                }
            }
            let small = [
                (edge.draws, "u32 nf_draws;"),
                (form.cursor.is_none(), "u32 nf_cursor;"),
                (form.staged, "u32 nf_staged;"),
                (edge.kind.is_some(), "u32 nf_kind;"),
            ];
            for (_, text) in small.iter().filter(|(carried, _)| *carried) {
                members.push((4, text.to_string()));
            }
            members.sort_by_key(|(align, _)| std::cmp::Reverse(*align));
            let _ = writeln!(out, "struct nf_event_{} {{", edge.name);
            // What tells events of a stage apart stands where all of them have it.
            if edge.kind.is_some() {
                members.retain(|(_, text)| text != "u32 nf_kind;");
                out.push_str("    u32 nf_kind;\n");
            }
            // C has no struct without members.
            if members.is_empty() && edge.kind.is_none() {
                members.push((4, "u32 nf_nothing;".to_string()));
            }
            for (_, text) in &members {
                let _ = writeln!(out, "    {text}");
            }
            out.push_str("    NF_TRIP_MEMBERS\n} __attribute__((aligned(4)));\n\n");
        }
        out
    }

    /// The program of each stage, around its handlers' functions.
    pub fn programs(&self, program: &Program, functions: &HashMap<HandlerId, String>) -> String {
        let mut out = String::new();
        for (at, stage) in self.stages.iter().enumerate() {
            let list: Vec<HandlerId> = self.handlers[at]
                .iter()
                .copied()
                .filter(|h| !program.events[program.handlers[*h].event].is_aside())
                .collect();
            if stage.process {
                continue;
            }
            let (list, entering): (Vec<HandlerId>, Vec<HandlerId>) =
                list.iter().partition(|h| self.queued(program, **h) || stage.queue.is_none());
            for handler in &entering {
                let _ = writeln!(
                    out,
                    "SEC(\"xdp\")\nint nf_enter_{at}(struct xdp_md *ctx)\n{{\n    return nf_counted({at}, {}(ctx));\n}}\n",
                    functions[handler]
                );
            }
            let Some(one) = list.first() else { continue };
            let section = if stage.queue.is_some() { "xdp/cpumap" } else { "xdp" };
            let _ =
                writeln!(out, "SEC(\"{section}\")\nint {}(struct xdp_md *ctx)\n{{", stage.program);
            // Verdicts count packets; of events without one it is known that they are done.
            let done = |handler: &HandlerId| {
                let edge = self.edges.get(&program.handlers[*handler].event);
                let call = &functions[handler];
                match edge.is_none_or(|edge| edge.packet) {
                    true => format!("nf_counted({at}, {call}(ctx))"),
                    false => format!("nf_took_values({call}(ctx))"),
                }
            };
            if list.len() == 1 {
                let _ = writeln!(out, "    return {};", done(one));
            } else {
                out.push_str("    switch (nf_kind_of(ctx)) {\n");
                for handler in &list {
                    let kind = self
                        .edges
                        .get(&program.handlers[*handler].event)
                        .and_then(|edge| edge.kind);
                    let Some(kind) = kind else { continue };
                    let _ = writeln!(out, "    case {kind}:\n        return {};", done(handler));
                }
                let _ = writeln!(out, "    }}\n    return nf_counted({at}, XDP_ABORTED);");
            }
            out.push_str("}\n\n");
        }
        out
    }

    /// The program on the interfaces that spreads packets over the first stage's replicas.
    pub fn spreading(&self, program: &Program) -> String {
        let Some(ports) = &self.spread else { return String::new() };
        let handler = program.event_named("net_recv").and_then(|event| program.handler_of(event));
        let Some((handler, at)) = handler.and_then(|h| Some((h, self.stage_of(h)?))) else {
            return String::new();
        };
        let stage = &self.stages[at];
        let (now, seed) = needs(program, handler, &mut Vec::new());
        let mut out = "SEC(\"xdp\")\nint nf_spread(struct xdp_md *ctx)\n{\n".to_string();
        out.push_str(
            "    u8 *data = (u8 *)(long)ctx->data;\n    u8 *end = (u8 *)(long)ctx->data_end;\n",
        );
        let _ = writeln!(out, "    struct nf_clock clock = nf_clock({now}, {seed});");
        let _ = writeln!(out, "    struct nf_packet_in made NF_LOCAL = {{0}};");
        let mix = |out: &mut String, indent: &str, fields: &[(u32, u32)]| {
            for (offset, bytes) in fields {
                let _ =
                    writeln!(out, "{indent}key = nf_mix_frame(key, data, end, {offset}, {bytes});");
            }
        };
        let replicas = stage.replicas;
        if ports.iter().all(|fields| fields.is_empty()) {
            let _ =
                writeln!(out, "    u32 replica = nf_in_turn({}, {replicas});", self.stages.len());
        } else {
            out.push_str("    u64 key = 0;\n");
            if ports.iter().all(|fields| *fields == ports[0]) {
                mix(&mut out, "    ", &ports[0]);
            } else {
                let _ = writeln!(out, "    switch (nf_in_port(ctx, {})) {{", program.ports.max(1));
                for (port, fields) in ports.iter().enumerate() {
                    let _ = writeln!(out, "    case {port}:");
                    mix(&mut out, "        ", fields);
                    out.push_str("        break;\n");
                }
                out.push_str("    }\n");
            }
            let _ = writeln!(out, "    u32 replica = nf_replica(key, {replicas});");
        }
        out.push_str("    NF_CLOCK_TO(made, clock);\n    NF_TRIP_TO(made, clock, replica);\n");
        let _ = writeln!(
            out,
            "    return nf_counted({0}, nf_hand(ctx, {0}, &{1}, {2} + nf_index(replica, {replicas}), &made, sizeof(made)));\n}}\n",
            self.stages.len(),
            stage.queue.as_deref().unwrap_or(""),
            stage.first,
        );
        out
    }

    /// Head of a handler's function behind a queue: takes its event off the packet.
    pub fn receive(
        &self,
        program: &Program,
        handler: HandlerId,
        state: &State,
        own: (bool, bool),
    ) -> String {
        let mut out = String::new();
        let (name, edge) = match self.edges.get(&program.handlers[handler].event) {
            Some(edge) => (format!("nf_event_{}", edge.name), Some(edge)),
            None => ("nf_packet_in".to_string(), None),
        };
        let large = edge.is_some_and(|edge| edge.large);
        let event = if large { "*event" } else { "event" };
        if large {
            let _ = writeln!(out, "    struct {name} *event = nf_event_room();");
            out.push_str("    if (!event)\n        return XDP_ABORTED;\n");
        } else {
            let _ = writeln!(out, "    struct {name} event NF_LOCAL;");
        }
        match edge
            .map(|edge| (edge, process::words(program, program.handlers[handler].event, edge)))
        {
            Some((edge, [first, second])) if !edge.strings.is_empty() => {
                let _ = writeln!(out, "    NF_TAKE_STRINGS(ctx, {event}, {first}, {second});");
            }
            _ => {
                let _ = writeln!(out, "    NF_TAKE(ctx, {event});");
            }
        }
        out.push_str(
            "    u8 *data = (u8 *)(long)ctx->data;\n    u8 *end = (u8 *)(long)ctx->data_end;\n",
        );
        let member = |name: &str| edge.map_or(format!("event.{name}"), |edge| edge.member(name));
        let clock =
            |carried: bool, name: &str| if carried { member(name) } else { "0".to_string() };
        match edge {
            Some(edge) => {
                let _ = writeln!(
                    out,
                    "    struct nf_clock clock = {{ .now = {}, .seed = {} }};",
                    clock(edge.now, "nf_now"),
                    clock(edge.seed, "nf_seed")
                );
            }
            None => out
                .push_str("    struct nf_clock clock = { 0 };\n    NF_CLOCK_FROM(clock, event);\n"),
        }
        let _ = writeln!(out, "    NF_TRIP_FROM(clock, {event});");
        if own.1 || edge.is_some_and(|edge| edge.draws) {
            let from = clock(edge.is_some_and(|edge| edge.draws), "nf_draws");
            let _ = writeln!(out, "    u64 draws = {from};");
        }
        if state.cursor == Cursor::Dynamic {
            let _ = writeln!(out, "    u64 cursor = {};", member("nf_cursor"));
        }
        if state.emits == Emits::Staged {
            let _ = writeln!(
                out,
                "    u32 staged_len = {};\n    u8 *staged = nf_staging();",
                member("nf_staged")
            );
            out.push_str(
                "    if (!staged || !nf_restage(ctx, staged, staged_len))\n        return XDP_ABORTED;\n",
            );
            out.push_str(
                "    data = (u8 *)(long)ctx->data;\n    end = (u8 *)(long)ctx->data_end;\n",
            );
            if large {
                // The verifier knows by now which of 256 lengths it is, and would walk the handler
                // once for each.
                let _ = writeln!(out, "    staged_len = {};", member("nf_staged"));
            }
        }
        out
    }
}
