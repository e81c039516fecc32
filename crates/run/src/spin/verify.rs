//! A run on bare cores against the interpreter.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};

use super::program::{CoresError, CoresProgram, CoresRun};
use crate::dpdk::{Difference, compare};

impl CoresProgram {
    /// Runs events here and in the interpreter, which runs `reference`; gives the run and what
    /// differs.
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
