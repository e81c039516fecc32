//! `nicforge verify --exec` for targets whose images do not speak the packet protocol themselves:
//! the user's command stands between it and the device.

use nicforge_run::exec::Device;
use nicforge_target::Target;

use super::verify::Subject;
use super::{pipelines, verify_dpdk};
use crate::backend::Case;
use crate::context::Failure;
use crate::program;

/// Plays the events into the command and into the interpreter, and reports what differs.
pub fn run(target: &Target, case: &Case) -> Result<(), Failure> {
    let command = case.args.exec.as_deref().unwrap_or_default();
    let program = program::lower(case.subject)?;
    let failure = |e| pipelines::failure(&program, e);
    let device = Device::new(&program).map_err(failure)?;
    let verified = device.verify(command, case.source, case.entries, case.events);
    let (differences, has_tables) = verified.map_err(failure)?;
    if !has_tables && !case.source.tables.is_empty() {
        errln!("warning: tables were not compared: the command says `nf no-tables`");
    }
    let what = Subject {
        target: &target.name,
        stands_in: Some("run by --exec"),
        limits: "the command takes".to_string(),
    };
    verify_dpdk::finish(case, &what, None, case.events.len(), 0, differences)
}
