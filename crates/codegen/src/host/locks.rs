//! Which locks the handlers of a pipeline take, and where ([`nicforge_ir::critical`] says why that
//! is right).
//!
//! Locks have numbers: a table has one, or [`STRIPES`] of them, by the entry's index, where every
//! handler of the stage knows the only entry that it uses. With 64 of them two of sixteen replicas
//! that use different entries meet in fewer than a quarter of all events.

use std::collections::HashMap;

use nicforge_ir::critical::{self, Section};
use nicforge_ir::{HandlerId, Program, TableId};

use crate::dpdk::Pipeline;

/// Locks of a table that is locked by entry.
pub const STRIPES: u32 = 64;

/// Locks of a whole program.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// How many there are.
    pub count: u32,
    sections: HashMap<HandlerId, Section>,
    first: HashMap<TableId, u32>,
}

impl Locks {
    pub fn of(program: &Program, pipeline: &Pipeline) -> Locks {
        let mut locks = Locks::default();
        for stage in pipeline.stages.iter().filter(|stage| stage.locked && stage.replicas > 1) {
            let tables = critical::mutable_tables(program, &stage.handlers);
            let whole = critical::locked_whole(program, &stage.handlers);
            let by_entry = |table: &TableId| !whole.contains(table);
            let fine: Vec<TableId> = tables.iter().copied().filter(by_entry).collect();
            for table in &tables {
                locks.first.insert(*table, locks.count);
                locks.count += if fine.contains(table) { STRIPES } else { 1 };
            }
            for handler in &stage.handlers {
                let Some(mut section) =
                    critical::section(program, &program.handlers[*handler].body, &tables)
                else {
                    continue;
                };
                for (table, key) in &mut section.locks {
                    *key = key.filter(|_| fine.contains(table));
                }
                locks.sections.insert(*handler, section);
            }
        }
        locks
    }

    pub fn section(&self, handler: HandlerId) -> Option<&Section> {
        self.sections.get(&handler)
    }

    /// Number of the first lock of a table that has any.
    pub fn first(&self, table: TableId) -> u32 {
        self.first.get(&table).copied().unwrap_or(0)
    }

    /// By table number: handlers share the table under locks.
    pub fn of_table(&self, table: TableId) -> bool {
        self.first.contains_key(&table)
    }
}
