//! The pipeline as constants and small functions around the handlers: what the runtime reads of it.

use std::fmt::Write;

use nicforge_ir::{Body, Direction, EventId, Op, Program, Room, Type, alive};

use super::{Pipeline, SteerBy, edges, goes_round, host_tables};
use crate::host::HostArtifact;

/// Bytes behind the longest frame where a program appends some: as many as the kernel's page has.
const TAIL_ROOM: u32 = 4096;

/// How many events may wait for a worker, and what becomes of one more. Comparisons want
/// everything: in them queues have the room of rings. So have queues that wait before a stage which
/// restores order: it may want to see what comes by another way first.
pub(super) fn rooms(program: &Program, pipeline: &Pipeline) -> String {
    let room = |event| {
        let room = program.handlers[program.handler_of(event)?].room?;
        let stage = &pipeline.stages[pipeline.stage_of(program, event)?];
        (room.loses || !stage.ordered).then_some(room)
    };
    let all: Vec<Option<Room>> = program.events.keys().map(room).collect();
    let some = pipeline.workers() > 1 && all.iter().any(Option::is_some);
    let mut out = format!("#define NF_ROOMS ({} && !NF_VERIFY)\n\n", u32::from(some));
    let list = |of: &dyn Fn(&Room) -> u32| {
        let each = all.iter().map(|room| room.as_ref().map_or(0, of).to_string());
        each.collect::<Vec<String>>().join(", ")
    };
    if some {
        for (ty, name, words) in [
            ("u32", "nf_room", list(&|room| room.entries)),
            ("bool", "nf_loses", list(&|room| u32::from(room.loses))),
        ] {
            let _ = writeln!(
                out,
                "static const {ty} {name}[NF_EVENTS] __attribute__((unused)) = {{{words}}};\n"
            );
        }
    }
    out
}

/// An event that has a handler.
pub(super) fn input(program: &Program, name: &str) -> Option<EventId> {
    program.event_named(name).filter(|event| program.handler_of(*event).is_some())
}

/// Constants that the runtime has to know before the handlers come.
pub(crate) fn constants(program: &Program, pipeline: &Pipeline, host: &HostArtifact) -> String {
    let workers = pipeline.workers();
    let params = host.event_sizes.iter().copied().max().unwrap_or(8).next_multiple_of(8);
    let clocks: Vec<(bool, bool)> =
        program.handlers.values().map(crate::c::globals::clock_use).collect();
    let internal = program.events.values().any(|event| event.direction == Direction::Internal);
    let number = |name| input(program, name).map_or(u32::MAX, EventId::as_u32);
    let mut out = String::new();
    for (name, value) in [
        ("WORKERS", workers),
        ("STAGES", pipeline.stages.len() as u32),
        ("FUSED", u32::from(workers == 1)),
        ("EVENTS", program.events.len() as u32),
        ("TABLES", program.tables.len() as u32),
        ("REASONS", host.reasons.len() as u32),
        ("PARAM_BYTES", params),
        ("USES_TIME", u32::from(clocks.iter().any(|(time, _)| *time))),
        ("USES_RANDOM", u32::from(clocks.iter().any(|(_, random)| *random))),
        ("SENDS_ITSELF", u32::from(internal)),
        ("ORDERED_OUTPUT", u32::from(pipeline.ordered_output)),
        ("ENTRY", number("net_recv")),
        ("MESSAGE", number("host_send")),
        ("LOCKS", host.locks),
        ("POOL", 8192),
        ("ROUND", u32::from(goes_round(program, pipeline))),
        ("ALIVE", alive::most_alive(program).unwrap_or(0)),
    ] {
        let _ = writeln!(out, "#define NF_{name} {value}u");
    }
    let extends =
        |body: &Body| body.insts.values().any(|inst| matches!(inst.op, Op::Extend { .. }));
    if program.handlers.values().any(|handler| extends(&handler.body)) {
        let _ = writeln!(out, "#define NF_TAIL_ROOM {TAIL_ROOM}");
    }
    out.push_str(&timers(program));
    out.push_str(
        "#define NF_HOOKS \"nf_hooks.h\"\n#define NF_HANDLER static inline __attribute__((unused))\n\n",
    );
    out
}

/// Periods and events of timers, where there are any.
fn timers(program: &Program) -> String {
    let list: Vec<(EventId, u64)> =
        program.timers().filter(|(event, _)| program.handler_of(*event).is_some()).collect();
    if list.is_empty() {
        return String::new();
    }
    let periods: Vec<String> = list.iter().map(|(_, period)| format!("{period}ull")).collect();
    let events: Vec<String> =
        list.iter().map(|(event, _)| format!("{}u", event.as_u32())).collect();
    format!(
        "#define NF_TIMERS {}u\n#define NF_TIMER_PERIODS {{{}}}\n#define NF_TIMER_EVENTS {{{}}}\n",
        list.len(),
        periods.join(", "),
        events.join(", ")
    )
}

/// The pipeline as constants and functions behind the handlers; `queues` where workers send each
/// other anything.
pub(crate) fn around(
    program: &Program,
    pipeline: &Pipeline,
    (sharded, one_room): (&[bool], &[bool]),
    queues: bool,
) -> String {
    let mut out = "\n/* ---- The pipeline */\n\n".to_string();
    out.push_str(&stages(program, pipeline));
    let far = host_tables(program, pipeline);
    for (name, flags) in [("sharded", sharded), ("one_room", one_room), ("host_tables", &far)] {
        let flags: Vec<String> = flags
            .iter()
            .map(|flag| u32::from(*flag).to_string())
            .chain(["0".to_string()])
            .collect();
        let _ = writeln!(
            out,
            "static const bool nf_{name}[NF_TABLES + 1] = {{{}}};\n",
            flags.join(", ")
        );
    }
    if queues {
        out.push_str(&sends(program, pipeline));
    }
    out.push_str(&steer(program, pipeline));
    out
}

fn stages(program: &Program, pipeline: &Pipeline) -> String {
    let mut out = "const struct nf_stage_spec nf_stages[NF_STAGES] = {\n".to_string();
    let mut first = 0;
    for stage in &pipeline.stages {
        let _ = writeln!(out, "    {{{first}, {}, {}}},", stage.replicas, stage.ordered);
        first += stage.replicas;
    }
    out.push_str("};\n\n");
    let (mut takes, mut packets) = (Vec::new(), Vec::new());
    for (id, event) in &program.events {
        takes.push(
            pipeline.stage_of(program, id).map_or(u8::MAX as usize, |stage| stage).to_string(),
        );
        let packet = event.params.iter().position(|param| param.ty == Type::Packet);
        let at = packet.map(|param| pipeline.context.offset(program, id, param).to_string());
        packets.push(at.unwrap_or_else(|| "UINT16_MAX".to_string()));
    }
    let _ = writeln!(out, "const u8 nf_stage_of[NF_EVENTS] = {{{}}};", takes.join(", "));
    let _ = writeln!(out, "const u16 nf_packet_at[NF_EVENTS] = {{{}}};", packets.join(", "));
    out
}

/// The function that says which workers have a ring between them.
fn sends(program: &Program, pipeline: &Pipeline) -> String {
    let mut first = vec![0u32];
    for stage in &pipeline.stages {
        first.push(first.last().copied().unwrap_or(0) + stage.replicas);
    }
    let range = |variable: &str, stage: usize| {
        format!("{variable} >= {}u && {variable} < {}u", first[stage], first[stage + 1])
    };
    let mut lines: Vec<String> = edges(program, pipeline)
        .iter()
        .map(|(from, to)| format!("({} && {})", range("from", *from), range("to", *to)))
        .collect();
    let inputs = program.events.iter().filter(|(_, event)| event.direction == Direction::In);
    let mut entries: Vec<usize> =
        inputs.filter_map(|(id, _)| pipeline.stage_of(program, id)).collect();
    entries.sort();
    entries.dedup();
    lines.extend(entries.iter().map(|to| format!("(from == NF_IO && {})", range("to", *to))));
    lines.push("(from != NF_IO && to == NF_IO)".to_string());
    format!(
        "/* Whether one worker sends another one anything. */\nstatic inline bool nf_sends(u32 from, u32 to)\n{{\n    return {};\n}}\n\n",
        lines.join(" ||\n           ")
    )
}

/// The function that gives 32 bits by which the replica of an event's stage is chosen.
fn steer(program: &Program, pipeline: &Pipeline) -> String {
    let mut out = "static inline u32 nf_steer(struct nf_worker *w, u32 event, const void *params, const u8 *data,\n                          const u8 *end)\n{\n".to_string();
    out.push_str("    (void)params;\n    (void)data;\n    (void)end;\n    switch (event) {\n");
    for steering in &pipeline.steering {
        let _ = writeln!(out, "    case {}: {{", steering.event.as_u32());
        match &steering.by {
            SteerBy::RoundRobin => out.push_str("        break;\n"),
            SteerBy::Frame(bytes) => hash_of(&mut out, bytes, true),
            SteerBy::FrameByPort(ports) => {
                out.push_str(
                    "        const struct nf_packet *pkt;\n        memcpy(&pkt, params, sizeof(pkt));\n",
                );
                for (port, bytes) in ports.iter().enumerate() {
                    let _ = writeln!(out, "        if (pkt->in_port == {port}) {{");
                    hash_of(&mut out, bytes, true);
                    out.push_str("        }\n");
                }
                out.push_str("        return 0;\n");
            }
            SteerBy::Params(paths) => {
                let parts: Vec<(u32, u32)> = paths
                    .iter()
                    .map(|(at, path)| param_bytes(program, pipeline, steering.event, *at, path))
                    .collect();
                hash_of(&mut out, &parts, false);
            }
            SteerBy::Number(at, instances) => {
                let (at, size) = param_bytes(program, pipeline, steering.event, *at, &[]);
                out.push_str("        u32 number = 0;\n");
                let _ = writeln!(
                    out,
                    "        memcpy(&number, (const u8 *)params + {at}, {});",
                    size.min(4)
                );
                // Rounded up, so that the product with the replicas is of the right one.
                let _ = writeln!(
                    out,
                    "        return (u32)((((u64)(number % {instances}) << 32) + {}) / {instances});",
                    instances - 1
                );
            }
        }
        out.push_str("    }\n");
    }
    out.push_str("    default:\n        break;\n    }\n    return w->turn += 0x9e3779b9u;\n}\n\n");
    out
}

/// Returns a hash of bytes of the frame, or of the parameters.
fn hash_of(out: &mut String, parts: &[(u32, u32)], frame: bool) {
    let total: u32 = parts.iter().map(|(_, size)| size).sum();
    let _ = writeln!(out, "        u8 key[{}] = {{0}};", total.max(1));
    let mut to = 0;
    for (at, size) in parts {
        if frame {
            let _ = writeln!(out, "        if (data + {} <= end)", at + size);
            let _ = writeln!(out, "            memcpy(key + {to}, data + {at}, {size});");
        } else {
            let _ = writeln!(out, "        memcpy(key + {to}, (const u8 *)params + {at}, {size});");
        }
        to += size;
    }
    let _ = writeln!(out, "        return nf_key_hash(key, {total});");
}

/// Offset and size of a part of an event's parameters.
pub fn param_bytes(
    program: &Program,
    pipeline: &Pipeline,
    event: EventId,
    at: usize,
    path: &[u32],
) -> (u32, u32) {
    let mut offset = pipeline.context.offset(program, event, at);
    let mut ty = program.events[event].params[at].ty;
    for field in path {
        if let Type::Struct(id) = ty {
            offset += program.struct_layout(id).1[*field as usize].bit_offset / 8;
            ty = program.structs[id].fields[*field as usize].ty;
        }
    }
    (offset, program.size_of(ty))
}
