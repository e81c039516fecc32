//! A run on bare cores against the interpreter.

use nicforge_ir::{Entry, InputEvent, Interp, Program, TableId, Verified};

use super::program::{CoresError, CoresProgram, CoresRun};
use crate::control;
use crate::dpdk::{Difference, compare};

impl CoresProgram {
    /// Runs events here and in the interpreter, which runs `reference`; gives the run and what differs.
    ///
    /// # Errors
    /// See [`CoresError`].
    pub fn verify(
        &self,
        reference: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(CoresRun, Vec<Difference>), CoresError> {
        let run = self.run(events, entries)?;
        let pipeline = &self.artifact().base.pipeline;
        let found = compare(&run.run, (reference, self.program()), pipeline, entries, events);
        Ok((run, found))
    }
}

/// Whether a program finds a table full with these inputs. If not, it does not matter how much room replicas have together, and
/// memories on a chip have none to give away.
pub fn fills_tables(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> bool {
    let mut interp = Interp::new(program);
    if control::apply(&mut interp, entries).is_err() {
        return false;
    }
    for event in events {
        if interp.run(event).is_err() {
            return false;
        }
    }
    let counters = interp.counters();
    program.tables.keys().any(|table| counters.refused[table] > 0 || counters.evicted[table] > 0)
}
