//! A plan in the simulator against the interpreter: `nicforge verify --sim`.

use nicforge_ir::Input;
use nicforge_run::sim::verify_sim;
use nicforge_target::Target;

use super::{Case, Comparison, of_differences};
use crate::{Failure, pipelines, stop};

/// Plans, simulates, compares.
///
/// # Errors
/// There is no plan, or it cannot be simulated.
pub fn run(target: &Target, case: &Case) -> Result<Comparison, Failure> {
    let (events, entries) = (case.events, case.entries);
    let mut job = pipelines::on(case.planned, case.subject, target)?;
    let reference = job.make_room(case.source, entries, events, |_| true)?;
    let what = (target, &job.plan, &job.pipeline);
    let (_, differences) =
        verify_sim(what, &reference, &job.program, entries, events, &stop::stopped)
            .map_err(|e| Failure::of(e.fault(), e))?;
    let host = events.iter().filter(|event| matches!(event.input, Input::Host { .. })).count();
    let agreement = of_differences(&case.given(events), events.len() - host, differences)?;
    Ok(Comparison {
        stands_in: Some("functional: simulated"),
        limits: "the simulator takes (they come from the host side)".to_string(),
        plan: Some(job.plan),
        ..Comparison::of(target, agreement, host)
    })
}
