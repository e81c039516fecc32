//! The user's command against the interpreter, for targets whose images do not speak the packet
//! protocol themselves: the command stands between it and the device (`nicforge verify --exec`).

use nicforge_run::exec::Device;
use nicforge_target::Target;

use super::{Case, Comparison, of_differences};
use crate::{Failure, pipelines, program};

/// Plays the events into the command and into the interpreter.
///
/// # Errors
/// The command fails.
pub fn run(target: &Target, case: &Case) -> Result<Comparison, Failure> {
    let command = case.exec.unwrap_or_default();
    let program = program::lower(case.subject)?;
    let failure = |e| pipelines::failure(&program, e);
    let device = Device::new(&program).map_err(failure)?;
    let verified = device.verify(command, case.source, case.entries, case.events);
    let (differences, has_tables) = verified.map_err(failure)?;
    let agreement = of_differences(&case.given(case.events), case.events.len(), differences)?;
    Ok(Comparison {
        stands_in: Some("run by --exec"),
        limits: "the command takes".to_string(),
        without_tables: !has_tables && !case.source.tables.is_empty(),
        ..Comparison::of(target, agreement, 0)
    })
}
