//! The guaranteed rate of a plan.

use std::time::Duration;

use nicforge_bound::graph::Place;
use nicforge_bound::plan as bound;
use nicforge_ir::Program;
use nicforge_plan::Plan;
use nicforge_planner::{assemble, instance};
use nicforge_target::{Target, Traffic};

use crate::Failure;

/// The rate a plan never falls below.
pub struct Guaranteed {
    /// Packets per second whatever comes, and where keys spread evenly.
    pub one_flow: f64,
    pub spread: f64,
    /// Every stage's slowest packet was found.
    pub exact: bool,
    /// The stage, memory or link that decides.
    pub limit: String,
    /// Source lines that the slowest packet of the slowest stage runs through, if it was found.
    pub lines: Vec<Place>,
}

/// Bounds every stage of a plan, each within a time.
pub fn guaranteed(
    plan: &Plan,
    source: &Program,
    target: &Target,
    time: Duration,
) -> Result<Guaranteed, Failure> {
    let program = assemble::program_with(plan, source).map_err(Failure::user)?;
    let found = bound::guarantee(plan, &program, target, Some(time)).map_err(|reason| {
        Failure::user(format!("{} on {}: no guarantee: {reason}", plan.program, target.name))
    })?;
    // Nothing is faster than the ports.
    let traffic = Traffic { frame_bytes: plan.frame_bytes, ..Traffic::default() };
    let line = instance::line_rate(target, program.ports, traffic);
    Ok(Guaranteed {
        one_flow: found.pps.min(line),
        spread: found.uniform_keys_pps.min(line),
        exact: found.exact,
        limit: found.limit,
        lines: found.lines,
    })
}

/// Time the bound of one stage may take where nobody asked for it.
const QUICK: Duration = Duration::from_millis(200);

/// A guarantee in words.
pub fn words(found: &Guaranteed) -> String {
    let bound = if found.exact { "" } else { "at least " };
    format!(
        "guaranteed: {bound}{:.2} Mpps (one flow), {bound}{:.2} Mpps (keys spread evenly), decided by {}",
        found.one_flow / 1e6,
        found.spread / 1e6,
        found.limit
    )
}

/// Guarantees of a plan as far as a moment's search shows, or why there are none.
pub fn quickly(plan: &Plan, source: &Program, target: &Target) -> String {
    match guaranteed(plan, source, target, QUICK) {
        Ok(found) => words(&found),
        Err(failure) => failure.reason().to_string(),
    }
}

/// The guarantee of a run's report, from a short search; none if it finds none.
pub fn quick(plan: &Plan, source: &Program, target: &Target) -> Option<Guaranteed> {
    guaranteed(plan, source, target, QUICK).ok()
}
