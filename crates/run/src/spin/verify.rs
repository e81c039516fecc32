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

/// Capacities with which no table is ever full with these inputs, by table number; the program's own where they are enough. Where
/// replicas run side by side it is a matter of luck which key finds a table full, and memories on a chip have no room for one
/// table's worth of it in every shard. Capacities are minima.
///
/// Doubling ends: there are no more entries than events and what tables are filled with.
pub fn roomy_capacities(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Vec<u32> {
    let mut roomy = program.clone();
    loop {
        let found = full_tables(&roomy, entries, events);
        if found.is_empty() {
            return roomy.tables.values().map(|table| table.capacity).collect();
        }
        let mut wider = roomy.into_inner();
        for table in found {
            let capacity = &mut wider.tables[table].capacity;
            *capacity = capacity.saturating_mul(2);
        }
        match nicforge_ir::verify(wider) {
            Ok(wider) => roomy = wider,
            // Larger than a table may be: the comparison will tell.
            Err(_) => return program.tables.values().map(|table| table.capacity).collect(),
        }
    }
}

/// Tables that refuse or evict entries.
fn full_tables(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Vec<TableId> {
    let mut interp = Interp::new(program);
    if control::apply(&mut interp, entries).is_err() {
        return Vec::new();
    }
    for event in events {
        if interp.run(event).is_err() {
            return Vec::new();
        }
    }
    let counters = interp.counters();
    let full = |table: &TableId| {
        program.tables[*table].kind.takes_inserts() && counters.refused[*table] + counters.evicted[*table] > 0
    };
    program.tables.keys().filter(full).collect()
}
