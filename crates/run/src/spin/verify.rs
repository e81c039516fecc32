//! A run on bare cores, and its comparison with the interpreter.

use nicforge_codegen::spin::Cores;
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};

use super::cores::{CoresError, CoresRun};
use super::program::CoresProgram;
use super::{nic, panic};
use crate::dpdk::{Difference, compare};

impl CoresProgram {
    /// Runs input events in order.
    ///
    /// # Errors
    /// Tables do not fit, or a handler does what it must not.
    pub fn run(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
    ) -> Result<CoresRun, CoresError> {
        match self.artifact().cores {
            Cores::Spin => nic::run(self, events, entries),
            Cores::Panic => panic::run(self, events, entries),
        }
    }

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
