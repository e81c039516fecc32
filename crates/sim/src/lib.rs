//! Discrete-event simulation of a planned program on a NIC and its host.
//!
//! [`run`] executes every packet for real, by compiled code or the interpreter behind [`Handlers`],
//! and plays what the handlers did in a model of ports, units, memories, links and power whose
//! every number is the target's. What comes in is a [`Workload`]; what comes out a [`Report`] in
//! which every packet is accounted for.
//!
//! Architecture invariant: `sim` generates and compiles nothing, and depends neither on `codegen`
//! nor on `run`. Architecture invariant: costs come from `target::cost` and the plan; there is no
//! second price list.

mod calendar;
mod context;
mod engine;
pub mod find;
pub mod handlers;
mod histogram;
pub mod interp;
mod keys;
mod model;
mod price;
mod reorder;
pub mod report;
mod stats;
pub mod steer;
#[cfg(test)]
mod tests;
pub mod workload;

use std::time::Instant;

use nicforge_ir::{Program, Verified};
use nicforge_plan::{Plan, Steering};
use nicforge_target::Target;

pub use handlers::{Effect, HandlerError, Handlers, Line, Message, Step, Trace};
pub use interp::InterpHandlers;
pub use model::SimError;
pub use report::{MemoryLoad, Report};
pub use workload::{Arrival, Workload};

/// Duration and manner of a run.
pub struct Options<'a> {
    /// Simulated time after which the run ends; without one it ends with the workload.
    pub duration_ps: Option<u64>,
    /// What happens before is not part of rates and latencies.
    pub warm_up_ps: u64,
    /// After the workload's last frame everything under way is finished.
    pub drain: bool,
    /// Frames that wait in front of each unit that takes frames from the ports.
    pub receive_depth: u32,
    /// Frames that wait in front of a port, on either side.
    pub wire_depth: u32,
    /// Told the number of each packet, in order of acceptance, and the port as the packet goes to
    /// its wire.
    pub departed: Option<&'a dyn Fn(u64, u32)>,
    /// Where keys choose replicas, every new key goes to the next replica in turn instead of where
    /// its hash says: the published prototype that `nicforge validate alkali` looks at takes the
    /// key itself, and its keys are numbered in a row.
    pub evenly: bool,
    /// Looked at now and then: whether to end at once.
    pub stop: &'a dyn Fn() -> bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            duration_ps: None,
            warm_up_ps: 0,
            drain: true,
            receive_depth: 512,
            wire_depth: 1024,
            departed: None,
            evenly: false,
            stop: &|| false,
        }
    }
}

/// Simulates a plan. `program` is the plan's program, as `handlers` run it.
///
/// # Errors
/// A plan that names what the target does not have; a handler that cannot be run.
pub fn run(
    target: &Target,
    plan: &Plan,
    program: &Verified<Program>,
    handlers: &mut dyn Handlers,
    workload: &mut dyn Workload,
    options: &Options,
) -> Result<Report, SimError> {
    let model = model::Model::new(target, plan, program, &handlers.lines(), options.receive_depth)?;
    for edge in &plan.edges {
        if let (Steering::Key { param, instances }, Some(event)) =
            (&edge.steering, program.event_named(&edge.event))
        {
            let at = program.events[event].params.iter().position(|p| &p.name == param);
            let at = at.ok_or_else(|| SimError::Steering {
                event: edge.event.clone(),
                reason: format!("it has no parameter `{param}`"),
            })?;
            handlers.steer_by(event, at, instances.is_some());
        }
    }
    let started = Instant::now();
    let mut engine = engine::Engine::new(&model, handlers, options, program.reasons.len());
    engine.run(workload)?;
    let wall = started.elapsed().as_secs_f64();
    Ok(Report::new(target, plan, program, &model, &engine.stats, engine.in_flight(), wall))
}
