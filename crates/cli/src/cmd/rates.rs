//! Rates of one plan side by side: what the simulator finds, what is guaranteed, and what this machine's kernel does.

use std::time::Duration;

use nicforge_bound::graph::Place;
use nicforge_bound::plan as bound;
use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Program, Verified};
use nicforge_plan::Plan;
use nicforge_planner::{assemble, instance};
use nicforge_target::{Target, Traffic};

use super::run::cost;
use crate::args::Inputs;
use crate::context::Failure;
use crate::program::Loaded;
use crate::{events, program};

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

/// Packets per second of one CPU in the kernel's test run on the program's capture, on this machine; `None` without a capture.
pub fn measured(loaded: &Loaded, inputs: &Inputs) -> Result<Option<f64>, Failure> {
    let source: &Verified<Program> = &loaded.program;
    let list = events::captures(inputs, source, &loaded.path)?;
    let entries = events::tables(inputs, source, &loaded.path)?;
    let compiled = program::lower(source)?;
    let artifact =
        xdp::generate(&compiled, LineStyle::Directives).map_err(|e| program::unsupported(&compiled, &e))?;
    let cost = cost(&compiled, &artifact, &list, &entries)?;
    Ok(cost.map(|cost| 1e9 / cost.mean_ns))
}
