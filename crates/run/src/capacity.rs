//! Which tables are full with given inputs, and how large they must be not to be.

use nicforge_ir::{Entry, InputEvent, Interp, Program, TableId, TableKind, Verified};

use crate::control;

/// Capacities with which none of these tables is ever full with these inputs, by table number; the
/// program's own elsewhere and where they are enough. Replicas that run side by side decide by luck
/// which key finds a table full, and shards of an LRU table evict later than one table would.
///
/// Doubling ends: there are no more entries than events and what tables are filled with.
pub fn roomy(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
    among: impl Fn(TableId) -> bool,
) -> Vec<u32> {
    let mut roomy = program.clone();
    loop {
        let mut found = full(&roomy, entries, events);
        found.retain(|table| among(*table));
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

/// True if a hash table refuses a key with these inputs.
pub fn refuses(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> bool {
    full(program, entries, events)
        .iter()
        .any(|table| program.tables[*table].kind == TableKind::Hash)
}

/// A program with other capacities, by table number.
///
/// # Errors
/// See [`nicforge_ir::verify`]: capacities may be too large.
pub fn with_capacities(
    program: &Verified<Program>,
    capacities: &[u32],
) -> Result<Verified<Program>, Vec<nicforge_ir::VerifyError>> {
    let mut program = program.clone().into_inner();
    program
        .tables
        .values_mut()
        .zip(capacities)
        .for_each(|(table, capacity)| table.capacity = *capacity);
    nicforge_ir::verify(program)
}

/// Tables that refuse or evict entries. None is known of programs whose functions of C have state,
/// since that would be used up here.
fn full(
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Vec<TableId> {
    let mut interp = Interp::new(program);
    if program.calls_in_order() || control::apply(&mut interp, entries).is_err() {
        return Vec::new();
    }
    for event in events {
        if interp.run(event).is_err() {
            return Vec::new();
        }
    }
    let counters = interp.counters();
    let full = |table: &TableId| {
        program.tables[*table].kind.takes_inserts()
            && counters.refused[*table] + counters.evicted[*table] > 0
    };
    program.tables.keys().filter(full).collect()
}
