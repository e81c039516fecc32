//! What the stages of a plan share: operations of memories, and the link to the host.
//!
//! One packet makes a memory do so many operations at most, along any whole way through the
//! pipeline, whichever stages they come from; a memory that serves b a second bounds the rate by b
//! over that. Memories of islands and units have several instances where a stage has replicas on
//! several, but a stage that is steered by keys may get one key only, and then has one. Frames that
//! cross to the host are as long as they may be.

use nicforge_ir::{HandlerId, InstId, Op, Program};
use nicforge_plan::{Plan, Replication, Stage};
use nicforge_target::cost::memory_operations;
use nicforge_target::{Device, Memory, Scope, Target, UnitGroup};

use crate::graph::Cost;
use crate::unit::Unit;

/// A resource and the packets per second it serves: whatever they are, and if keys are spread
/// evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// The memory's name in the target, or `host link`.
    pub name: String,
    pub pps: f64,
    pub uniform_keys_pps: f64,
}

/// The dearest path by what one instruction costs.
pub type Worst<'a> = dyn FnMut(&dyn Fn(HandlerId, InstId) -> Cost) -> Result<f64, String> + 'a;

/// Rates of everything shared that the plan uses.
///
/// # Errors
/// Those of `worst`.
pub fn rates(
    plan: &Plan,
    program: &Program,
    target: &Target,
    worst: &mut Worst,
) -> Result<Vec<Shared>, String> {
    let mut list = Vec::new();
    let stage_of = |handler: HandlerId| {
        plan.stages.iter().find(|stage| stage.handlers.contains(&program.handlers[handler].name))
    };
    let group = |stage: &Stage| target.units.iter().find(|group| group.name == stage.group);
    let homes =
        || plan.tables.iter().map(|table| (table.name.clone(), table.memory.clone())).collect();
    let longest = target.ports.mtu;
    let unit = |group| Unit { program, target, group, units: 1, longest, homes: homes() };
    let units: Vec<Option<Unit>> = plan.stages.iter().map(|stage| group(stage).map(unit)).collect();
    let operations = |memory: &Memory, only: Option<&Stage>, handler: HandlerId, inst: InstId| {
        let stage =
            stage_of(handler).filter(|stage| only.is_none_or(|only| only.name == stage.name))?;
        let at = plan.stages.iter().position(|other| other.name == stage.name)?;
        let (access, home) = units[at].as_ref()?.access(handler, inst)?;
        (home.name == memory.name).then(|| memory_operations(home, &access))
    };
    for memory in target.memories.iter().filter(|memory| memory.operations.is_some()) {
        let used = plan.tables.iter().any(|table| table.memory == memory.name);
        let Some(rate) = memory.operations.as_ref().filter(|_| used).map(|rate| rate.value) else {
            continue;
        };
        if memory.scope == Scope::Device {
            let most =
                worst(&|h, i| Cost::fraction(operations(memory, None, h, i).unwrap_or(0.0)))?;
            add(&mut list, &memory.name, most, rate, rate);
            continue;
        }
        for stage in &plan.stages {
            let most = worst(&|h, i| {
                Cost::fraction(operations(memory, Some(stage), h, i).unwrap_or(0.0))
            })?;
            let all = instances(memory, group(stage), stage.replicas) * rate;
            let one = if stage.replication == Replication::Free { all } else { rate };
            add(&mut list, &memory.name, most, one, all);
        }
    }
    if let Some(link) = &target.host_link {
        let side = |handler: HandlerId| stage_of(handler).and_then(group).map(|group| group.device);
        let bits = |handler: HandlerId, inst: InstId| {
            let Op::Generate { event, .. } = &program.handlers[handler].body.insts[inst].op else {
                return 0.0;
            };
            let Some(receiver) = program.handler_of(*event) else { return 0.0 };
            let crosses = |a: Device, b: Device| a != b;
            if !matches!((side(handler), side(receiver)), (Some(a), Some(b)) if crosses(a, b)) {
                return 0.0;
            }
            let edge = plan.edges.iter().find(|edge| edge.event == program.events[*event].name);
            8.0 * (f64::from(longest) + edge.map_or(0.0, |edge| edge.bytes.into()))
        };
        let most = worst(&|handler, inst| Cost::fraction(bits(handler, inst)))?;
        add(&mut list, "host link", most, link.rate.value, link.rate.value);
    }
    Ok(list)
}

/// Instances of a memory that replicas of a stage have.
fn instances(memory: &Memory, group: Option<&UnitGroup>, replicas: u32) -> f64 {
    let units = match (memory.scope, group) {
        (Scope::Unit, _) => 1,
        (_, Some(group)) => group.per_island.unwrap_or(group.count).max(1),
        (_, None) => replicas.max(1),
    };
    f64::from(replicas.div_ceil(units))
}

fn add(list: &mut Vec<Shared>, name: &str, each: f64, one: f64, all: f64) {
    // A path without any costs the least there is, which is no use of it.
    if each >= 0.01 {
        list.push(Shared { name: name.to_string(), pps: one / each, uniform_keys_pps: all / each });
    }
}
