//! Stages that run in a process beside the kernel: what crosses between both, and the programs that
//! join them.
//!
//! The process is the host of a program whose NIC is the kernel's hook. A packet for it is
//! redirected to the AF_XDP socket of the queue it came in by, with the event's values in front, as
//! stages give them to each other. Where an event has no packet there is nothing to redirect; its
//! values go through a ring buffer. Two ways and several sockets would lose the order in which one
//! stage made its events, so each carries a number, by which the process merges them again.
//!
//! Replica `r` of every stage of the process is its thread `r`, and each thread is such a receiver
//! of its own: sockets on the same queues, a ring, and numbers. The sender chooses the replica as
//! it chooses a CPU, so events of one key meet in one thread in their order.
//!
//! What comes back is a frame on an interface of the process's own, whose program (`nf_return`)
//! turns the values into metadata and redirects the packet to the CPU map of its stage: stages
//! behind the process are stages like others. The packet's port is then among the values, since the
//! interface is not the one it came in by, and the operating system is out of reach: its stack
//! would see a packet of the wrong interface.
//!
//! Byte strings lie last, each in words of 8 bytes, and words of zeros at a string's end do not
//! cross: `nf_words` says how many of each do, one byte a string. The kernel's verifier wants to
//! know where everything lies, so it walks the hand-over once for every length that a string may
//! have; that is why only [`STRINGS`] of an event are cut.

use std::collections::BTreeSet;
use std::fmt::Write;

use nicforge_ir::{Direction, EventId, HandlerId, Op, Program, TableId};

use super::pipeline::{Edge, Form, Pipe, generated};
use crate::artifact::{XdpCursor, XdpEdge, XdpProcess};
use crate::c::body::Unsupported;
use crate::c::types::CTypes;
use crate::dpdk::table_use;

/// Byte strings of an event that are cut; others go as a whole.
const STRINGS: usize = 2;

/// The parameters of an event that are byte strings.
pub fn strings(program: &Program, event: EventId, members: &[Option<String>]) -> Vec<usize> {
    let params = program.events[event].params.iter().enumerate();
    let of = params.filter(|(at, param)| members[*at].is_some() && program.is_string(param.ty));
    of.map(|(at, _)| at).take(STRINGS).collect()
}

/// Words of 8 bytes that each string of an edge has at most, and 0 for those that are not there.
pub fn words(program: &Program, event: EventId, edge: &Edge) -> [u32; STRINGS] {
    let mut most = [0; STRINGS];
    for (words, at) in most.iter_mut().zip(&edge.strings) {
        *words = program.size_of(program.events[event].params[*at].ty).div_ceil(8);
    }
    most
}

impl Pipe {
    /// True if any stage runs in the process.
    pub fn has_process(&self) -> bool {
        self.stages.iter().any(|stage| stage.process)
    }

    /// Threads of the process: one for each replica of the stage there that has most.
    pub fn threads(&self) -> u32 {
        let inside = self.stages.iter().filter(|stage| stage.process);
        inside.map(|stage| stage.replicas).max().unwrap_or(1)
    }

    /// True if a handler runs in the process.
    pub fn inside(&self, handler: HandlerId) -> bool {
        self.stage_of(handler).is_some_and(|at| self.stages[at].process)
    }
}

/// Tables that live in the process, and those of which there are two since nobody changes them.
pub fn tables(program: &Program, pipe: &Pipe) -> (Vec<TableId>, Vec<TableId>) {
    let of = |inside: bool| {
        let mut set = BTreeSet::new();
        for (_, handler) in program.handlers.iter().filter(|(id, _)| pipe.inside(*id) == inside) {
            handler.body.for_each_inst(handler.body.entry(), &mut |inst| {
                let effects = handler.body.insts[inst].op.effects();
                set.extend([effects.table_read, effects.table_write].into_iter().flatten());
            });
        }
        set
    };
    let (inside, outside) = (of(true), of(false));
    (
        inside.difference(&outside).copied().collect(),
        inside.intersection(&outside).copied().collect(),
    )
}

/// Finds which events carry the port, and what stages of the process and behind it cannot do.
pub fn check(program: &Program, pipe: &mut Pipe) -> Vec<Unsupported> {
    let mut errors = Vec::new();
    if !pipe.has_process() {
        return errors;
    }
    errors.extend(several_senders(program, pipe));
    let behind = behind(program, pipe);
    for (id, handler) in &program.handlers {
        let (inside, after) = (pipe.inside(id), behind.contains(&id));
        let event = &program.events[handler.event];
        if inside && event.direction == Direction::In {
            errors.push(Unsupported {
                message: format!("`{}` takes `{}` in the process", handler.name, event.name),
                help: "take it on the NIC side and enqueue it to a handler of the host".into(),
                span: handler.span,
            });
        }
        if !inside && !after {
            continue;
        }
        let place = if inside { "runs in the process" } else { "runs behind the process" };
        handler.body.for_each_inst(handler.body.entry(), &mut |inst| {
            let data = &handler.body.insts[inst];
            let what = match &data.op {
                Op::Generate { event, .. } if program.events[*event].name == "stack_recv" => {
                    "passes packets to the operating system"
                }
                op if op.asks_routes() => "asks for routes",
                _ => return,
            };
            errors.push(Unsupported {
                message: format!("`{}` {place} and {what}", handler.name),
                help: "do that on the NIC side, before the packet goes to the host".into(),
                span: data.span,
            });
        });
        for event in generated(program, id).into_iter().filter(|_| after && !inside) {
            let Some(edge) = pipe.edges.get(&event) else { continue };
            if edge.packet && pipe.stages[edge.stage].process {
                errors.push(Unsupported {
                    message: format!(
                        "`{}` hands a packet to the process that came from there",
                        handler.name
                    ),
                    help: "let the process keep it until all is done, or enqueue values only"
                        .into(),
                    span: handler.span,
                });
            }
        }
    }
    for event in pipe.edges.keys().copied().collect::<Vec<_>>() {
        let Some(handler) = program.handler_of(event) else { continue };
        let asked = behind.contains(&handler) && asks_port(program, handler, &mut Vec::new());
        if let Some(edge) = pipe.edges.get_mut(&event) {
            edge.in_port = asked && edge.packet;
        }
    }
    errors
}

/// The ring of an AF_XDP socket has one producer, and nothing locks it: packets for the process may
/// come from one stage of one replica. A first stage on the interface is that for each of its
/// queues, whose sockets are different ones.
fn several_senders(program: &Program, pipe: &Pipe) -> Option<Unsupported> {
    let hands = |handler: &&HandlerId| {
        generated(program, **handler).iter().any(|event| {
            pipe.edges.get(event).is_some_and(|edge| edge.packet && pipe.stages[edge.stage].process)
        })
    };
    let senders: Vec<(usize, HandlerId)> = pipe
        .handlers
        .iter()
        .enumerate()
        .filter(|(at, _)| !pipe.stages[*at].process)
        .filter_map(|(at, handlers)| Some((at, *handlers.iter().find(hands)?)))
        .collect();
    let all: u32 = senders.iter().map(|(at, _)| pipe.stages[*at].replicas).sum();
    let (_, last) = *senders.last().filter(|_| all > 1)?;
    let handler = &program.handlers[last];
    Some(Unsupported {
        message: format!(
            "{all} replicas of {} stages hand packets to the process, `{}` among them, and an AF_XDP socket takes one sender",
            senders.len(),
            handler.name
        ),
        help: "choose another plan, or hand packets over in one place and values everywhere else"
            .into(),
        span: handler.span,
    })
}

/// Handlers of the NIC side that get events from the process, directly or by others.
fn behind(program: &Program, pipe: &Pipe) -> BTreeSet<HandlerId> {
    let mut set = BTreeSet::new();
    let mut open: Vec<HandlerId> = program.handlers.keys().filter(|id| pipe.inside(*id)).collect();
    while let Some(from) = open.pop() {
        for to in generated(program, from).into_iter().filter_map(|event| program.handler_of(event))
        {
            if !pipe.inside(to) && set.insert(to) {
                open.push(to);
            }
        }
    }
    set
}

/// True if a handler, or one that gets an event because of it, asks for the port.
fn asks_port(program: &Program, handler: HandlerId, seen: &mut Vec<HandlerId>) -> bool {
    if seen.contains(&handler) {
        return false;
    }
    seen.push(handler);
    let body = &program.handlers[handler].body;
    let mut asks = false;
    body.for_each_inst(body.entry(), &mut |inst| asks |= body.insts[inst].op.asks_port());
    let next =
        generated(program, handler).into_iter().filter_map(|event| program.handler_of(event));
    asks || next.into_iter().any(|next| asks_port(program, next, seen))
}

/// Members of an event's struct in the order in which they lie, but for its byte strings: C type
/// (none: a parameter's), C name, parameter, bytes.
struct Member {
    name: String,
    param: Option<usize>,
    bytes: u32,
}

fn members(program: &Program, edge: &Edge, form: Form, event: EventId) -> Vec<Member> {
    let own = |name: &str, bytes: u32| Member { name: name.to_string(), param: None, bytes };
    let mut list = Vec::new();
    if edge.kind.is_some() {
        list.push(own("nf_kind", 4));
    }
    let carried = [
        (edge.now, "nf_now", 8),
        (edge.seed, "nf_seed", 8),
        (edge.draws, "nf_draws", 4),
        (edge.in_port, "nf_in_port", 4),
        (edge.packet && form.cursor.is_none(), "nf_cursor", 4),
        (edge.packet && form.staged, "nf_staged", 4),
    ];
    list.extend(
        carried.iter().filter(|(carried, ..)| *carried).map(|(_, name, bytes)| own(name, *bytes)),
    );
    for (at, member) in edge.members.iter().enumerate() {
        if let Some(name) = member.as_ref().filter(|_| !edge.strings.contains(&at)) {
            let bytes = program.size_of(program.events[event].params[at].ty);
            list.push(Member { name: name.clone(), param: Some(at), bytes });
        }
    }
    let cut = !edge.strings.is_empty();
    if cut {
        list.push(own("nf_words", 4));
    }
    // Metadata comes in words; C has no struct without members.
    let size: u32 = list.iter().map(|member| member.bytes).sum();
    let padding = if size == 0 { 4 } else { size.next_multiple_of(if cut { 8 } else { 4 }) - size };
    if padding > 0 {
        list.push(own("nf_padding", padding));
    }
    list
}

/// The struct of an event that the process reads or writes: packed, so that both sides know where
/// everything is.
pub fn declaration(pipe: &Pipe, program: &Program, types: &CTypes<'_>, event: EventId) -> String {
    let edge = &pipe.edges[&event];
    let form = pipe.forms.get(&event).copied().unwrap_or_default();
    let mut out = format!("struct nf_event_{} {{\n", edge.name);
    for Member { name, param, bytes } in members(program, edge, form, event) {
        let text = match (param, bytes) {
            (Some(at), _) => format!("{} {name};", types.name(program.events[event].params[at].ty)),
            (None, 8) => format!("u64 {name};"),
            (None, 4) => format!("u32 {name};"),
            (None, bytes) => format!("u8 {name}[{bytes}];"),
        };
        let _ = writeln!(out, "    {text}");
    }
    out.push_str("    NF_TRIP_MEMBERS\n");
    for (at, words) in edge.strings.iter().zip(words(program, event, edge)) {
        let ty = program.events[event].params[*at].ty;
        let (bytes, name) =
            (program.size_of(ty), edge.members[*at].as_deref().unwrap_or("nf_string"));
        let _ = writeln!(out, "    {} {name};", types.name(ty));
        if bytes < 8 * words {
            let _ = writeln!(out, "    u8 nf_behind_{at}[{}];", 8 * words - bytes);
        }
    }
    let aligned = if edge.strings.is_empty() { 4 } else { 8 };
    let _ = writeln!(out, "}} __attribute__((packed, aligned({aligned})));\n");
    out
}

/// The program that takes what the process gives back to the kernel.
pub fn returning(pipe: &Pipe) -> String {
    if !pipe.has_process() {
        return String::new();
    }
    let mut out =
        "SEC(\"xdp\")\nint nf_return(struct xdp_md *ctx)\n{\n    u32 stage = 0, cpu = 0;\n"
            .to_string();
    out.push_str(
        "    if (!nf_returned(ctx, &stage, &cpu))\n        return XDP_ABORTED;\n    switch (stage) {\n",
    );
    for (at, stage) in pipe.stages.iter().enumerate() {
        if let Some(queue) = stage.queue.as_ref().filter(|_| !stage.process) {
            let _ = writeln!(
                out,
                "    case {at}:\n        return bpf_redirect_map(&{queue}, cpu, XDP_ABORTED);"
            );
        }
    }
    out.push_str("    }\n    return XDP_ABORTED;\n}\n\n");
    out
}

/// The process, as the artifact describes it.
pub fn describe(program: &Program, pipe: &Pipe) -> Option<XdpProcess> {
    if !pipe.has_process() {
        return None;
    }
    let (own, copied) = tables(program, pipe);
    let mut edges: Vec<XdpEdge> = pipe
        .edges
        .iter()
        .filter(|(_, edge)| edge.packed)
        .map(|(event, edge)| layout(program, pipe, *event, edge))
        .collect();
    edges.sort_by_key(|edge| edge.event);
    let inside = program.handlers.keys().filter(|id| pipe.inside(*id));
    let handlers = inside.filter_map(|id| Some((id, pipe.stage_of(id)?))).collect();
    let stages = pipe.handlers.iter().zip(&pipe.stages).filter(|(_, stage)| stage.process);
    let parts: Vec<(&[HandlerId], u32)> =
        stages.map(|(list, stage)| (&list[..], stage.replicas)).collect();
    let shard = |table: &TableId| {
        let (sharded, commutes) = table_use(program, &parts, *table);
        sharded.then_some((*table, commutes))
    };
    let shards = own.iter().filter_map(shard).collect();
    Some(XdpProcess { handlers, threads: pipe.threads(), tables: own, shards, copied, edges })
}

fn layout(program: &Program, pipe: &Pipe, event: EventId, edge: &Edge) -> XdpEdge {
    let form = pipe.forms.get(&event).copied().unwrap_or_default();
    let mut at = 0;
    let mut placed = Vec::new();
    for member in members(program, edge, form, event) {
        placed.push((at, member));
        at += placed.last().map_or(0, |(_, member)| member.bytes);
    }
    let of = |name: &str| {
        placed.iter().find(|(_, m)| m.param.is_none() && m.name == name).map(|(at, _)| *at)
    };
    let params = placed.iter().filter_map(|(at, m)| m.param.map(|param| (param, *at, m.bytes)));
    XdpEdge {
        event,
        stage: edge.stage,
        kind: edge.kind.map(|kind| kind as u32),
        members: params.collect(),
        now: of("nf_now"),
        seed: of("nf_seed"),
        draws: of("nf_draws"),
        in_port: of("nf_in_port"),
        staged: of("nf_staged"),
        cursor: match form.cursor {
            Some(at) => XdpCursor::At(at),
            None => of("nf_cursor").map_or(XdpCursor::At(0), XdpCursor::Carried),
        },
        steer: edge.steer,
        size: at,
        words: of("nf_words"),
        strings: edge
            .strings
            .iter()
            .map(|at| (*at, program.size_of(program.events[event].params[*at].ty)))
            .collect(),
        packet: edge.packet,
    }
}
