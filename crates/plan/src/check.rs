//! Reading plans and comparing them with program and target.

use std::collections::BTreeMap;

use nicforge_ir::{Program, text};
use nicforge_target::Target;

use crate::{Plan, VERSION};

/// Why a plan cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {reason}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct PlanError {
    pub file: String,
    pub line: Option<usize>,
    pub reason: String,
}

fn refuse<T>(file: &str, reason: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError { file: file.to_string(), line: None, reason: reason.into() })
}

/// Reads a plan file. Unknown keys, missing ones and wrong types are refused with their line.
pub fn parse(file: &str, content: &str) -> Result<Plan, PlanError> {
    let plan: Plan = serde_json::from_str(content).map_err(|e| PlanError {
        file: file.to_string(),
        line: Some(e.line()),
        reason: e.to_string(),
    })?;
    if plan.schema != "nicforge/plan" || plan.version != VERSION {
        return refuse(
            file,
            format!(
                "this is `{}` version {}, not a plan of version {VERSION}",
                plan.schema, plan.version
            ),
        );
    }
    Ok(plan)
}

/// Compares a plan with its target and gives its program: every stage a handler, every replica a
/// unit that exists and runs nothing else, every table in a memory that holds it.
pub fn check(file: &str, plan: &Plan, target: &Target) -> Result<Program, PlanError> {
    if plan.target != target.name {
        return refuse(
            file,
            format!("the plan is for `{}`, not for `{}`", plan.target, target.name),
        );
    }
    let program = text::parse(&plan.air).or_else(|e| {
        refuse(file, format!("the planned program: line {}: {}", e.line, e.message))
    })?;
    for handler in program.handlers.values() {
        if !plan.stages.iter().any(|stage| stage.handlers.contains(&handler.name)) {
            return refuse(
                file,
                format!("the handler `{}` of the planned program has no stage", handler.name),
            );
        }
    }
    let mut used: BTreeMap<&str, &str> = BTreeMap::new();
    for stage in &plan.stages {
        let name = &stage.name;
        let known = |name: &String| program.handlers.values().any(|handler| &handler.name == name);
        if let Some(missing) = stage.handlers.iter().find(|handler| !known(handler)) {
            return refuse(
                file,
                format!("stage `{name}`: the planned program has no handler `{missing}`"),
            );
        }
        let Some(group) = target.units.iter().find(|group| group.name == stage.group) else {
            return refuse(
                file,
                format!("stage `{name}`: `{}` has no units `{}`", target.name, stage.group),
            );
        };
        if stage.replicas == 0 || stage.units.len() != stage.replicas as usize {
            return refuse(
                file,
                format!(
                    "stage `{name}`: {} replicas but {} units",
                    stage.replicas,
                    stage.units.len()
                ),
            );
        }
        if let (crate::Replication::Single { reason }, 2..) = (&stage.replication, stage.replicas) {
            return refuse(
                file,
                format!("stage `{name}` cannot have {} replicas: {reason}", stage.replicas),
            );
        }
        for unit in &stage.units {
            let number =
                unit.strip_prefix(&format!("{}.", group.name)).and_then(|n| n.parse::<u32>().ok());
            if number.is_none_or(|n| n >= group.count) {
                return refuse(
                    file,
                    format!(
                        "stage `{name}`: there is no unit `{unit}`; `{}` has {}",
                        group.name, group.count
                    ),
                );
            }
            if let Some(other) = used.insert(unit, name) {
                return refuse(file, format!("unit `{unit}` runs both `{other}` and `{name}`"));
            }
        }
    }
    for table in &plan.tables {
        if program.table_named(&table.name).is_none() {
            return refuse(file, format!("the planned program has no table `{}`", table.name));
        }
        let Some(memory) = target.memories.iter().find(|memory| memory.name == table.memory) else {
            return refuse(
                file,
                format!(
                    "table `{}`: `{}` has no memory `{}`",
                    table.name, target.name, table.memory
                ),
            );
        };
        if table.bytes as f64 > memory.size.value {
            let reason = format!(
                "table `{}` takes {} bytes, `{}` has {}",
                table.name, table.bytes, memory.name, memory.size
            );
            return refuse(file, reason);
        }
    }
    context(file, plan, target)?;
    Ok(program)
}

/// Checks that values in the context have room, and those of one event do not overlap.
fn context(file: &str, plan: &Plan, target: &Target) -> Result<(), PlanError> {
    let room = target.context.as_ref().map_or(0, |size| size.value as u32);
    if plan.context_bytes > room {
        let reason =
            format!("a context of {} bytes; `{}` has {room}", plan.context_bytes, target.name);
        return refuse(file, reason);
    }
    for edge in &plan.edges {
        let mut taken: Vec<(u64, u64, &str)> = Vec::new();
        for value in &edge.values {
            let Some(slot) = value.context else { continue };
            let (from, to) = (u64::from(slot.at), u64::from(slot.at) + u64::from(value.bytes));
            if to > u64::from(plan.context_bytes) {
                let reason = format!(
                    "event `{}`: `{}` lies at bytes {from} to {to} of a context of {} bytes",
                    edge.event, value.name, plan.context_bytes
                );
                return refuse(file, reason);
            }
            if let Some((_, _, other)) = taken.iter().find(|(a, b, _)| from < *b && *a < to) {
                let reason = format!(
                    "event `{}`: `{}` and `{other}` overlap in the context",
                    edge.event, value.name
                );
                return refuse(file, reason);
            }
            taken.push((from, to, &value.name));
        }
    }
    Ok(())
}

/// Fuzz entry: any bytes end with a plan or an error.
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(plan) = parse("fuzz", text)
        && let Ok(target) = nicforge_target::find("panic")
    {
        let _ = check("fuzz", &plan, &target);
    }
}
