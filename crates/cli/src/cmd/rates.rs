//! Rates of one plan side by side: what the simulator finds, what is guaranteed, and what this
//! machine's kernel does.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::analysis::{Options, analyse};
use nicforge_bound::ebpf;
use nicforge_bound::graph::Place;
use nicforge_bound::method::Method;
use nicforge_bound::plan as bound;
use nicforge_bound::search::{By, Machine};
use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Program, Verified};
use nicforge_isa::object;
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

/// What a plan guarantees as far as a moment's search shows, or why nothing.
pub fn quickly(plan: &Plan, source: &Program, target: &Target) -> String {
    match guaranteed(plan, source, target, QUICK) {
        Ok(found) => words(&found),
        Err(failure) => failure.reason().to_string(),
    }
}

/// The same for a run's report.
pub fn quick(plan: &Plan, source: &Program, target: &Target) -> Option<Guaranteed> {
    guaranteed(plan, source, target, QUICK).ok()
}

/// Packets per second of one CPU in the kernel's test run on the program's capture, on this
/// machine; `None` without a capture.
pub fn measured(loaded: &Loaded, inputs: &Inputs) -> Result<Option<f64>, Failure> {
    let source: &Verified<Program> = &loaded.program;
    let list = events::captures(inputs, source, &loaded.path)?;
    let entries = events::tables(inputs, source, &loaded.path)?;
    let compiled = program::lower(source)?;
    let artifact = xdp::generate(&compiled, LineStyle::Directives)
        .map_err(|e| program::unsupported(&compiled, &e))?;
    let cost = cost(&compiled, &artifact, &list, &entries)?;
    match cost {
        // The clock of the test run has whole nanoseconds.
        Some(cost) if cost.mean_ns < 5.0 => {
            Err(Failure::user("a packet takes less than the kernel's clock can tell"))
        }
        cost => Ok(cost.map(|cost| 1e9 / cost.mean_ns)),
    }
}

/// Instructions that no packet exceeds in the kernel, and whether one takes so many; `None` if the
/// object has what is not bounded.
pub fn most_instructions(object: &[u8]) -> Option<(u64, bool)> {
    let read = object::parse(object).ok()?;
    let [program] = &read.programs[..] else { return None };
    let graph = ebpf::graph(program, &read.maps).ok()?;
    let options = Options {
        machine: Machine { base_cycles: 0.0, cores: 1.0, hz: 1.0, port_pps: None, port_bps: None },
        sizes: (60, 1500),
        by: vec![By::PacketRate],
        required: None,
        top: 0,
        all: false,
        unroll: None,
        timeout: Some(QUICK),
        given: Vec::new(),
        method: Method::Default,
        path: None,
    };
    let report = analyse(graph, &options, Arc::new(AtomicBool::new(false)), &mut |_, _| {}).ok()?;
    let record = report.records.first()?;
    Some((record.bound.ceil() as u64, record.exact))
}
