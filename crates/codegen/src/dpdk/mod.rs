//! C for DPDK: host handlers in an application whose stages are lcores joined by rings.
//!
//! The generated file is the handlers' C with the pipeline as constants around it; what does not
//! depend on the program is `runtime/dpdk`, included by it, so that everything is one translation
//! unit and handlers are inlined into their loops.

mod described;

use std::fmt::Write;

use nicforge_ir::{
    CommuteOp, EventId, HandlerId, Op, Side, Span, TableId, TableKind, Type, Verified,
};
use nicforge_ir::{Program, alive, row, verify::MAX_FRAME};

use crate::c::LineStyle;
use crate::c::body::Unsupported;
use crate::host::locks::Locks;
use crate::host::{self, Context, HostArtifact, Pointers};

pub use described::param_bytes;
pub(crate) use described::{around, constants};
use described::{input, rooms};

/// Emitted bytes that may wait in an mbuf's private area.
const MAX_STAGED: u32 = 4096;

/// A program's stages and how events are spread over them. Stages send forward, or back where
/// [`goes_round`] says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    pub stages: Vec<PipeStage>,
    /// For events that go to a stage with several replicas; those not named are spread round robin.
    pub steering: Vec<Steering>,
    /// Packets leave in the order in which they came, whatever replicas they went through. Else in
    /// the order of each replica.
    pub ordered_output: bool,
    /// What stays with packets instead of travelling with events.
    pub context: Context,
}

/// Handlers that run on the same lcores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeStage {
    pub handlers: Vec<HandlerId>,
    pub replicas: u32,
    /// Events are taken in the order of the packets they come from, whoever sent them.
    pub ordered: bool,
    /// Replicas share the tables that the stage changes, under locks, instead of having shards of
    /// them.
    pub locked: bool,
}

/// Ways to choose the replica that gets an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steering {
    pub event: EventId,
    pub by: SteerBy,
}

/// What of an event chooses the replica. Equal values go to the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SteerBy {
    RoundRobin,
    /// Parameters, or members of them: number of the parameter, then of the members.
    Params(Vec<(usize, Vec<u32>)>),
    /// A parameter that is a number below so many instances, which replicas have in ranges.
    Number(usize, u32),
    /// Bytes of the frame, for `net_recv`: offset and length. Bytes behind its end count as zero.
    Frame(Vec<(u32, u32)>),
    /// Fields of frames, other ones for every port.
    FrameByPort(Vec<Vec<(u32, u32)>>),
}

impl Pipeline {
    /// Everything on one lcore.
    pub fn single(program: &Program) -> Pipeline {
        let handlers = program.handlers.keys().collect();
        Pipeline {
            stages: vec![PipeStage { handlers, replicas: 1, ordered: false, locked: false }],
            steering: Vec::new(),
            ordered_output: false,
            context: Context::default(),
        }
    }

    /// Lcores that run handlers.
    pub fn workers(&self) -> u32 {
        self.stages.iter().map(|stage| stage.replicas).sum()
    }

    /// The stage that takes an event.
    pub fn stage_of(&self, program: &Program, event: EventId) -> Option<usize> {
        let handler = program.handler_of(event)?;
        self.stages.iter().position(|stage| stage.handlers.contains(&handler))
    }
}

/// A DPDK application's source, with what is needed to run and read it.
#[derive(Clone, Debug)]
pub struct DpdkArtifact {
    pub source: String,
    pub host: HostArtifact,
    pub pipeline: Pipeline,
    /// By table number: every worker has its own.
    pub sharded: Vec<bool>,
    /// By table number: a sharded hash table, whose shards together hold what the table may hold.
    pub one_room: Vec<bool>,
    /// By table number: replicas share it under locks.
    pub locked: Vec<bool>,
    /// By table number: the commutative op that is all that handlers write to it with, if it is.
    pub commutes: Vec<Option<CommuteOp>>,
}

/// C for a DPDK application.
///
/// # Errors
/// Ops that a process cannot do, and pipelines that are none for this program.
pub fn generate(
    program: &Verified<Program>,
    pipeline: &Pipeline,
    lines: LineStyle,
) -> Result<DpdkArtifact, Vec<Unsupported>> {
    let mut artifact = prepared(program, pipeline, Pointers::Plain, lines)?;
    let host = &artifact.host;
    if host.staged_bytes > MAX_STAGED {
        let message = format!("a packet may wait with {} bytes of headers", host.staged_bytes);
        let help = format!(
            "{MAX_STAGED} are the most on DPDK: emit less in loops and in cycles of events"
        );
        return Err(vec![Unsupported { message, help, span: Span::default() }]);
    }
    if pipeline.ordered_output && goes_round(program, pipeline) {
        let message =
            "packets cannot leave in order where events come back to an earlier stage".to_string();
        let help = "take a pipeline without ordered output".to_string();
        return Err(vec![Unsupported { message, help, span: Span::default() }]);
    }
    artifact.source =
        file(program, pipeline, &artifact.host, (&artifact.sharded, &artifact.one_room));
    Ok(artifact)
}

/// Everything but the application around the handlers, whose C is the artifact's source so far.
pub(crate) fn prepared(
    program: &Verified<Program>,
    pipeline: &Pipeline,
    pointers: Pointers<'_>,
    lines: LineStyle,
) -> Result<DpdkArtifact, Vec<Unsupported>> {
    check(program, pipeline).map_err(|message| {
        let help = "take the pipeline from a plan of this program".to_string();
        vec![Unsupported { message, help, span: Span::default() }]
    })?;
    let locks = Locks::of(program, pipeline);
    let host = host::generate_with(program, &pipeline.context, &locks, pointers, lines)?;
    // Replicas under locks share what they write.
    let tables = table_uses(program, pipeline);
    let locked = program.tables.keys().map(|table| locks.of_table(table)).collect();
    let sharded: Vec<bool> = tables.iter().map(|(sharded, _)| *sharded).collect();
    let one_room = one_room(program, pipeline);
    let commutes = tables.into_iter().map(|(_, op)| op).collect();
    Ok(DpdkArtifact {
        source: host.source.clone(),
        host,
        pipeline: pipeline.clone(),
        sharded,
        one_room,
        locked,
        commutes,
    })
}

/// By table number: hash tables that replicas have shards of, which together hold what the table
/// may hold.
pub fn one_room(program: &Program, pipeline: &Pipeline) -> Vec<bool> {
    let hash = program.tables.values().map(|table| table.kind == TableKind::Hash);
    // Where all only ever apply one commutative op, several shards may have the same key.
    let uses =
        table_uses(program, pipeline).into_iter().map(|(sharded, op)| sharded && op.is_none());
    hash.zip(uses).map(|(hash, keyed)| hash && keyed).collect()
}

/// What [`table_use`] says of each table in a pipeline's stages. Replicas under locks share what
/// they write.
fn table_uses(program: &Program, pipeline: &Pipeline) -> Vec<(bool, Option<CommuteOp>)> {
    let parts: Vec<(&[HandlerId], u32)> = pipeline
        .stages
        .iter()
        .map(|s| (&s.handlers[..], if s.locked { 1 } else { s.replicas }))
        .collect();
    program.tables.keys().map(|table| table_use(program, &parts, table)).collect()
}

/// The reason why a pipeline is none for a program.
fn check(program: &Program, pipeline: &Pipeline) -> Result<(), String> {
    for (id, handler) in &program.handlers {
        let count = pipeline.stages.iter().flat_map(|s| &s.handlers).filter(|h| **h == id).count();
        if count != 1 {
            return Err(format!(
                "handler `{}` is in {count} stages of the pipeline; it must be in one",
                handler.name
            ));
        }
    }
    if let Some(at) = pipeline.stages.iter().position(|s| s.replicas == 0 || s.handlers.is_empty())
    {
        return Err(format!("stage {} of the pipeline has no replicas or no handlers", at + 1));
    }
    let entry = program.event_named("net_recv").and_then(|event| program.handler_of(event));
    if entry.is_none() {
        return Err("the program has no handler for `net_recv`".to_string());
    }
    if let Some((from, to)) = back(program, pipeline) {
        let where_to = format!("stage {} sends events back to stage {}", from + 1, to + 1);
        if alive::most_alive(program).is_none_or(|most| most > alive::MOST_ROUND) {
            return Err(format!("{where_to}, and there is no bound on what one packet leads to"));
        }
        if let Some(at) = pipeline.stages.iter().position(|stage| stage.ordered) {
            return Err(format!("{where_to}, and stage {} takes events in order", at + 1));
        }
        if waits_round(program, pipeline) {
            return Err(format!("{where_to}, and queues that wait when they are full lead round"));
        }
    }
    for steering in &pipeline.steering {
        let event = &program.events[steering.event];
        let fits = match &steering.by {
            SteerBy::RoundRobin => true,
            SteerBy::Params(paths) => {
                paths.iter().all(|(at, path)| param_type(program, event, *at, path).is_some())
            }
            SteerBy::Number(at, _) => {
                param_type(program, event, *at, &[]).is_some_and(|ty| ty.is_int())
            }
            SteerBy::Frame(bytes) => event.name == "net_recv" && inside_frame(bytes),
            SteerBy::FrameByPort(ports) => {
                event.name == "net_recv" && ports.iter().all(|bytes| inside_frame(bytes))
            }
        };
        if !fits {
            return Err(format!(
                "event `{}` cannot be steered by what the pipeline says",
                event.name
            ));
        }
    }
    Ok(())
}

fn inside_frame(bytes: &[(u32, u32)]) -> bool {
    bytes.iter().all(|(at, len)| (*at as u64 + *len as u64) <= MAX_FRAME as u64)
}

fn param_type(
    program: &Program,
    event: &nicforge_ir::Event,
    at: usize,
    path: &[u32],
) -> Option<Type> {
    let mut ty = event.params.get(at)?.ty;
    for field in path {
        let Type::Struct(id) = ty else { return None };
        let field = program.structs[id].fields.get(*field as usize)?;
        // A bit-field shares its bytes with others, whose values must not matter.
        if field.bit_width.is_some() {
            return None;
        }
        ty = field.ty;
    }
    (ty != Type::Packet).then_some(ty)
}

/// Stages that send each other events, without those that send to themselves.
fn edges(program: &Program, pipeline: &Pipeline) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (from, stage) in pipeline.stages.iter().enumerate() {
        for handler in &stage.handlers {
            let body = &program.handlers[*handler].body;
            body.for_each_inst(body.entry(), &mut |inst| {
                if let Op::Generate { event, .. } = &body.insts[inst].op
                    && let Some(to) = pipeline.stage_of(program, *event)
                    && to != from
                    && !found.contains(&(from, to))
                {
                    found.push((from, to));
                }
            });
        }
    }
    found
}

/// The first stage that sends events to an earlier one, with that.
fn back(program: &Program, pipeline: &Pipeline) -> Option<(usize, usize)> {
    edges(program, pipeline).into_iter().find(|(from, to)| from > to)
}

/// True if queues with a room of their own in which senders wait lead from a stage to itself.
fn waits_round(program: &Program, pipeline: &Pipeline) -> bool {
    let waits = |event: EventId| {
        let handler = program.handler_of(event);
        handler.and_then(|handler| program.handlers[handler].room).is_some_and(|room| !room.loses)
    };
    let mut to: Vec<Vec<usize>> = pipeline.stages.iter().map(|_| vec![]).collect();
    for (from, stage) in pipeline.stages.iter().enumerate() {
        for handler in &stage.handlers {
            let events = row::generated(program, &program.handlers[*handler].body);
            let waited = events.into_iter().filter(|(event, _)| waits(*event));
            to[from].extend(waited.filter_map(|(event, _)| pipeline.stage_of(program, event)));
        }
        to[from].retain(|other| *other != from);
    }
    // Whoever waits for nobody that waits leaves the rest alone.
    let mut left: Vec<usize> = (0..to.len()).collect();
    loop {
        let before = left.len();
        let waiting = left.clone();
        left.retain(|stage| to[*stage].iter().any(|other| waiting.contains(other)));
        if left.len() == before {
            return !left.is_empty();
        }
    }
}

/// True if events come back to earlier stages. Then workers count events instead of publishing
/// progress, and so few packets are let in that each ring has room for all that is alive.
pub fn goes_round(program: &Program, pipeline: &Pipeline) -> bool {
    back(program, pipeline).is_some()
}

/// True if a table has a shard per worker, and the one commutative op that writes it, if that is
/// all. Of each stage its handlers and how many replicas have shards. Workers of several stages
/// have shards, too, of what all of them only add to.
pub(crate) fn table_use(
    program: &Program,
    stages: &[(&[HandlerId], u32)],
    table: TableId,
) -> (bool, Option<CommuteOp>) {
    let (mut written, mut users, mut ops, mut plain) = (false, 0, Vec::new(), false);
    for (handlers, replicas) in stages {
        let mut uses = false;
        for handler in *handlers {
            let body = &program.handlers[*handler].body;
            body.for_each_inst(body.entry(), &mut |inst| {
                let op = &body.insts[inst].op;
                let effects = op.effects();
                if [effects.table_read, effects.table_write].contains(&Some(table)) {
                    uses = true;
                    // An LRU table's order of use is written by reading, too.
                    let by_reading = program.tables[table].kind == nicforge_ir::TableKind::Lru;
                    written |= effects.table_write == Some(table) || by_reading;
                    match op.commute() {
                        Some(op) => ops.push(op),
                        None => plain = true,
                    }
                }
            });
        }
        users += if uses { *replicas } else { 0 };
    }
    ops.dedup();
    (written && users > 1, if plain || ops.len() != 1 { None } else { Some(ops[0]) })
}

/// The whole application.
fn file(
    program: &Program,
    pipeline: &Pipeline,
    host: &HostArtifact,
    tables: (&[bool], &[bool]),
) -> String {
    let mut out = format!("/* Generated by nicforge from {}; for DPDK. */\n\n", program.name);
    out.push_str("#include <sched.h>\n#include <signal.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n");
    out.push_str(&constants(program, pipeline, host));
    let far = host_stages(program, pipeline);
    let split = pipeline.workers() > 1 && far.contains(&true);
    let _ = writeln!(out, "#define NF_SPLIT {}\n", u32::from(split));
    out.push_str(&host.source);
    out.push_str(&around(program, pipeline, tables, pipeline.workers() > 1));
    if split {
        let flags: Vec<String> = far.iter().map(|far| u32::from(*far).to_string()).collect();
        let _ = writeln!(
            out,
            "static const bool nf_host_stages[NF_STAGES] = {{{}}};\n",
            flags.join(", ")
        );
    }
    out.push_str(&rooms(program, pipeline));
    let sizes: Vec<String> = host.event_sizes.iter().map(u32::to_string).collect();
    let _ = writeln!(
        out,
        "static const u32 nf_event_bytes[NF_EVENTS] __attribute__((unused)) = {{{}}};\n",
        sizes.join(", ")
    );
    let entry = input(program, "net_recv")
        .and_then(|event| host.handlers.iter().find(|h| h.event == event));
    let entry = entry.map_or("", |handler| handler.name.as_str());
    let _ = writeln!(out, "#define nf_enter(env, params) {entry}((env), (const void *)(params))\n");
    out.push_str("#include \"nf_main.h\"\n");
    out
}

/// By stage whether its handlers are pinned to the host: a process of their own may have them.
pub fn host_stages(program: &Program, pipeline: &Pipeline) -> Vec<bool> {
    let pinned = |h: &HandlerId| program.handlers[*h].side == Some(Side::Host);
    pipeline.stages.iter().map(|stage| stage.handlers.iter().all(pinned)).collect()
}

/// By table whether stages that are pinned to the host have it, and no other.
fn host_tables(program: &Program, pipeline: &Pipeline) -> Vec<bool> {
    let far = host_stages(program, pipeline);
    let users = |table: TableId, wanted: bool| {
        let stages = pipeline.stages.iter().zip(&far).filter(|(_, far)| **far == wanted);
        stages.flat_map(|(stage, _)| &stage.handlers).any(|handler| {
            let body = &program.handlers[*handler].body;
            let mut uses = false;
            body.for_each_inst(body.entry(), &mut |inst| {
                let effects = body.insts[inst].op.effects();
                uses |= [effects.table_read, effects.table_write].contains(&Some(table));
            });
            uses
        })
    };
    program.tables.keys().map(|table| users(table, true) && !users(table, false)).collect()
}
