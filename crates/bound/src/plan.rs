//! The rate no packet sequence makes a planned pipeline fall below.
//!
//! Every stage is bounded along whole ways through the pipeline: the graph goes from handler to
//! handler, and only what runs in the stage, with what it sends and receives, costs anything. So a
//! way that a stage before makes impossible does not count. If all packets have one key, a stage
//! steered by keys has one replica; if keys spread evenly, all of them.
//!
//! What stages share (operations of memories, the host link) bounds the rate besides, see
//! [`crate::shared`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_ir::{HandlerId, InstId, Op, Program};
use nicforge_plan::{Edge, Plan, Replication, Stage};
use nicforge_target::cost::Load;
use nicforge_target::{Link, Target};

use crate::air;
use crate::analysis::{Options, analyse};
use crate::graph::{Cost, Graph, Place, Step};
use crate::method::Method;
use crate::search::{By, Machine};
use crate::shared;
use crate::unit::Unit;

/// Guarantees of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarantee {
    /// Packets per second whatever the packets are, ports left out.
    pub pps: f64,
    /// Packets per second where keys are spread evenly over replicas.
    pub uniform_keys_pps: f64,
    /// What decides the first figure: a stage, a memory of the target, or the host link.
    pub limit: String,
    /// Cycles of a unit per packet, of each stage.
    pub cycles: Vec<f64>,
    /// Every stage's slowest packet was found within the time there was; otherwise the rates are
    /// still valid.
    pub exact: bool,
    /// Source lines that the slowest packet of the stage that is slowest runs through, in order;
    /// none if it was not found.
    pub lines: Vec<Place>,
}

/// The guarantee of a plan. `program` is the planned program; each stage's analysis may take
/// `timeout`.
///
/// # Errors
/// What is not handled, in words: locks, pipelines in hardware, programs that [`air::graph`]
/// refuses.
pub fn guarantee(
    plan: &Plan,
    program: &Program,
    target: &Target,
    timeout: Option<Duration>,
) -> Result<Guarantee, String> {
    let first = program.event_named("net_recv").and_then(|event| program.handler_of(event));
    let first = first.ok_or("the program has no handler for `net_recv`")?;
    let mut whole = Guarantee {
        pps: f64::INFINITY,
        uniform_keys_pps: f64::INFINITY,
        limit: String::new(),
        cycles: Vec::new(),
        exact: true,
        lines: Vec::new(),
    };
    for stage in &plan.stages {
        let found = worst(plan, program, target, first, stage, timeout)?;
        let cycles = found.worst;
        let group = target.units.iter().find(|group| group.name == stage.group);
        let taken = ticks(program, &mut |timer| {
            Ok(worst(plan, program, target, timer, stage, timeout)?.worst)
        })?;
        let left = group.map_or(0.0, |group| group.clock.value) - taken;
        if left <= 0.0 {
            return Err(format!("stage `{}`: timers alone may take all of a unit", stage.name));
        }
        let one = left / cycles;
        let all = one * f64::from(stage.replicas);
        let guaranteed = match &stage.replication {
            Replication::Free => all,
            Replication::Sharded { .. } | Replication::Single { .. } => one,
            Replication::Locked { .. } => {
                let reason = "replicas wait for each other's locks, which is not bounded";
                return Err(format!("stage `{}`: {reason}", stage.name));
            }
        };
        if guaranteed < whole.pps {
            (whole.pps, whole.limit) = (guaranteed, stage.name.clone());
            whole.lines = found.lines;
        }
        whole.uniform_keys_pps = whole.uniform_keys_pps.min(all);
        whole.cycles.push(cycles);
        whole.exact &= found.proved;
    }
    let mut exact = true;
    let mut worst = |cost: &dyn Fn(HandlerId, InstId) -> Cost| {
        let graph = air::graph(program, first, cost).map_err(|e| e.to_string())?.graph;
        let found = dearest(graph, target, timeout)?;
        exact &= found.proved;
        Ok(found.worst)
    };
    for resource in shared::rates(plan, program, target, &mut worst)? {
        if resource.pps < whole.pps {
            (whole.pps, whole.limit) = (resource.pps, resource.name);
        }
        whole.uniform_keys_pps = whole.uniform_keys_pps.min(resource.uniform_keys_pps);
    }
    whole.exact &= exact;
    Ok(whole)
}

/// Most cycles a second that handlers of timers take, by the most cycles of each.
fn ticks(
    program: &Program,
    worst: &mut dyn FnMut(HandlerId) -> Result<f64, String>,
) -> Result<f64, String> {
    let mut sum = 0.0;
    for (event, period) in program.timers() {
        if let Some(handler) = program.handler_of(event) {
            sum += worst(handler)? * 1e9 / period as f64;
        }
    }
    Ok(sum)
}

/// Most cycles a second that handlers of timers take of the units that run a program alone.
///
/// # Errors
/// Code that [`air::graph`] refuses.
pub fn timer_cycles(unit: &Unit, timeout: Option<Duration>) -> Result<f64, String> {
    ticks(unit.program, &mut |timer| {
        let graph = unit.graph(timer).map_err(|e| e.to_string())?.graph;
        Ok(dearest(graph, unit.target, timeout)?.worst)
    })
}

/// Most cycles of one replica per packet.
fn worst(
    plan: &Plan,
    program: &Program,
    target: &Target,
    first: HandlerId,
    stage: &Stage,
    timeout: Option<Duration>,
) -> Result<Dearest, String> {
    let group = target.units.iter().find(|group| group.name == stage.group);
    let group = group.ok_or_else(|| format!("{} has no units `{}`", target.name, stage.group))?;
    if group.initiation_interval.is_some() {
        return Err(format!("stage `{}` is hardware, whose cycles are not analysed", stage.name));
    }
    let longest = target.ports.mtu;
    let homes =
        plan.tables.iter().map(|table| (table.name.clone(), table.memory.clone())).collect();
    let unit = Unit { program, target, group, units: 1, longest, homes };
    let here = |handler: HandlerId| stage.handlers.contains(&program.handlers[handler].name);
    let cost = |handler: HandlerId, inst: InstId| {
        let mut load = if here(handler) { unit.load(handler, inst) } else { Load::default() };
        load.cycles += crossing(plan, program, target, stage, handler, inst);
        unit.sums(&load)
    };
    let cost: &dyn Fn(HandlerId, InstId) -> Cost = &cost;
    let mut graph = air::graph(program, first, cost).map_err(|e| e.to_string())?.graph;
    if here(first) {
        let steered =
            matches!(stage.replication, Replication::Sharded { .. }) && stage.replicas > 1;
        let spread = if steered { target.spread.cycles } else { 0.0 };
        let cycles = target.costs[&group.costs].receive + spread;
        let cost = unit.sums(&Load { cycles, ..Load::default() });
        let step = Step { effects: Vec::new(), cost, place: 0 };
        graph.blocks[graph.entry.0 as usize].steps.insert(0, step);
    }
    dearest(graph, target, timeout).map_err(|e| format!("stage `{}`: {e}", stage.name))
}

/// Cycles besides, so that paths that cost nothing are paths.
const BASE: f64 = 1.0;

/// The dearest path of a graph.
struct Dearest {
    /// Its cost on cores that take a second a cycle.
    worst: f64,
    /// A packet takes it.
    proved: bool,
    /// Source lines it runs through, if a packet takes it.
    lines: Vec<Place>,
}

/// Finds the dearest path.
fn dearest(graph: Graph, target: &Target, timeout: Option<Duration>) -> Result<Dearest, String> {
    let options = Options {
        machine: Machine { base_cycles: BASE, cores: 1.0, hz: 1.0, port_pps: None, port_bps: None },
        sizes: (target.ports.min_frame.into(), target.ports.mtu.into()),
        by: vec![By::PacketRate],
        required: None,
        top: 0,
        all: false,
        unroll: None,
        timeout,
        given: Vec::new(),
        method: Method::Default,
        path: None,
    };
    let report = analyse(graph, &options, Arc::new(AtomicBool::new(false)), &mut |_, _| {})
        .map_err(|e| e.to_string())?;
    let record = &report.records[0];
    let path = record.slowest.as_ref().filter(|_| record.exact);
    let places = path.iter().flat_map(|path| &path.witness.places);
    let lines: BTreeSet<Place> = places
        .filter_map(|place| report.graph.lines.get(*place as usize).cloned().flatten())
        .collect();
    let worst = (record.bound - BASE).max(1e-3);
    Ok(Dearest { worst, proved: record.exact, lines: lines.into_iter().collect() })
}

/// Cycles a stage spends on an event that goes from stage to stage here.
fn crossing(
    plan: &Plan,
    program: &Program,
    target: &Target,
    stage: &Stage,
    handler: HandlerId,
    inst: InstId,
) -> f64 {
    let Op::Generate { event, .. } = &program.handlers[handler].body.insts[inst].op else {
        return 0.0;
    };
    let Some(receiver) = program.handler_of(*event) else { return 0.0 };
    let of = |handler: HandlerId| {
        plan.stages.iter().find(|stage| stage.handlers.contains(&program.handlers[handler].name))
    };
    let (Some(from), Some(to)) = (of(handler), of(receiver)) else { return 0.0 };
    if from.name == to.name {
        return 0.0;
    }
    let joins = |link: &&Link| link.from == from.group && link.to == to.group;
    let Some(link) = target.links.iter().find(joins) else { return 0.0 };
    let name = &program.events[*event].name;
    let edge = plan.edges.iter().find(|edge| edge.event == *name && edge.to == to.name);
    let copied = |of: fn(&Edge) -> u32| link.byte_cycles * edge.map_or(0.0, |edge| of(edge).into());
    let mut cycles = 0.0;
    if stage.name == from.name {
        cycles += link.send_cycles + copied(Edge::sent_bytes);
    }
    if stage.name == to.name {
        let order = edge.is_some_and(|edge| edge.reorder.is_some());
        let reorder = if order { link.reorder_cycles } else { 0.0 };
        cycles += link.receive_cycles
            + copied(Edge::received_bytes)
            + reorder
            + link.incast_cycles * f64::from(from.replicas);
    }
    cycles
}
