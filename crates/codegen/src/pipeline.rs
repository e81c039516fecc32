//! From a plan to the pipeline that code generators for processes take.

use nicforge_ir::{Direction, HandlerId, Program};
use nicforge_plan::{HostSide, Plan, PortFields, Replication, Steering as Planned};

use crate::dpdk::{PipeStage, Pipeline, SteerBy, Steering};
use crate::host::{Context, InContext};
use crate::nfp::Placement;

/// The pipeline of a plan; `program` is the plan's own.
///
/// # Errors
/// What in the plan does not fit the program.
pub fn of_plan(plan: &Plan, program: &Program) -> Result<Pipeline, String> {
    let handler = |name: &String| {
        let found = program.handlers.iter().find(|(_, handler)| &handler.name == name);
        found
            .map(|(id, _)| id)
            .ok_or_else(|| format!("the planned program has no handler `{name}`"))
    };
    let mut stages = Vec::new();
    for stage in &plan.stages {
        let handlers: Vec<HandlerId> =
            stage.handlers.iter().map(handler).collect::<Result<_, _>>()?;
        let ordered = plan.edges.iter().any(|edge| edge.to == stage.name && edge.reorder.is_some());
        let locked = matches!(stage.replication, Replication::Locked { .. });
        stages.push(PipeStage { handlers, replicas: stage.replicas, ordered, locked });
    }
    let mut steering = Vec::new();
    for edge in &plan.edges {
        let Some(event) = program.event_named(&edge.event) else {
            return Err(format!("the planned program has no event `{}`", edge.event));
        };
        let by = match &edge.steering {
            Planned::One | Planned::RoundRobin => SteerBy::RoundRobin,
            Planned::Key { param, instances } => {
                let params = &program.events[event].params;
                let at = params.iter().position(|p| &p.name == param);
                let at =
                    at.ok_or_else(|| format!("event `{}` has no parameter `{param}`", edge.event))?;
                instances.map_or_else(
                    || SteerBy::Params(vec![(at, vec![])]),
                    |n| SteerBy::Number(at, n.max(1)),
                )
            }
            Planned::Header { fields } | Planned::Rss { fields, .. } => {
                SteerBy::FrameByPort(by_port(fields))
            }
        };
        let inside = program.events[event].direction == Direction::Internal;
        if inside || by != SteerBy::RoundRobin {
            steering.push(Steering { event, by });
        }
    }
    let ordered_output = plan.ordered_output;
    Ok(Pipeline { stages, steering, ordered_output, context: context(plan, program)? })
}

/// Where a plan has its tables and stages, for engines; `program` is the plan's own.
pub fn placement(plan: &Plan, program: &Program, host: &HostSide) -> Placement {
    let table = |name: &str| plan.tables.iter().find(|table| table.name == name);
    let on_host = |name: &str| table(name).is_some_and(|table| host.has_memory(&table.memory));
    let memory =
        |name: &str| table(name).map_or(String::new(), |table| table.memory.replace('-', "_"));
    Placement {
        memories: program.tables.values().map(|table| memory(&table.name)).collect(),
        units: plan.stages.iter().map(|stage| stage.units.clone()).collect(),
        stages_on_host: plan.stages.iter().map(|stage| host.has_units(&stage.group)).collect(),
        tables_on_host: program.tables.values().map(|of| on_host(&of.name)).collect(),
    }
}

/// What the plan leaves in packets' contexts. Parameters that passes have removed since then need
/// no place.
fn context(plan: &Plan, program: &Program) -> Result<Context, String> {
    let mut context = Context { bytes: plan.context_bytes, values: Vec::new() };
    for edge in &plan.edges {
        let Some(event) = program.event_named(&edge.event) else { continue };
        for value in &edge.values {
            let Some(slot) = value.context else { continue };
            let Some(param) =
                program.events[event].params.iter().position(|p| p.name == value.name)
            else {
                continue;
            };
            if program.size_of(program.events[event].params[param].ty) != value.bytes {
                return Err(format!(
                    "event `{}`: `{}` is not {} bytes",
                    edge.event, value.name, value.bytes
                ));
            }
            context.values.push(InContext { event, param, at: slot.at });
        }
    }
    Ok(context)
}

fn by_port(fields: &[PortFields]) -> Vec<Vec<(u32, u32)>> {
    let ports = fields.iter().map(|port| port.port + 1).max().unwrap_or(0);
    let mut list = vec![Vec::new(); ports as usize];
    for port in fields {
        list[port.port as usize] =
            port.fields.iter().map(|field| (field.offset, field.bytes)).collect();
    }
    list
}
