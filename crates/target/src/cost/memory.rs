//! Accesses to tables, in the memories where a plan puts them.

use nicforge_ir::{Program, TableId, TableKind};

use super::TableAccess;
use crate::spec::{Memory, SEARCHED_BYTES, UnitGroup};

/// Nanoseconds of one access of `bytes` bytes, and how many operations of the memory it is.
pub fn access_time(memory: &Memory, bytes: f64, write: bool) -> (f64, f64) {
    let time = |step: &crate::spec::Access| if write { step.write.value } else { step.read.value };
    let fitting = memory.access.iter().find(|step| f64::from(step.bytes) >= bytes);
    let ns = match (fitting, memory.access.last()) {
        (Some(step), _) => time(step),
        (None, Some(last)) => time(last) * (bytes / f64::from(last.bytes)).ceil(),
        (None, None) => 0.0,
    };
    let operations =
        memory.operation_bytes.map_or(0.0, |width| (bytes / f64::from(width)).ceil().max(1.0));
    (ns, operations)
}

/// Nanoseconds that one search of a table waits for its memory.
pub fn search_time(memory: &Memory) -> f64 {
    f64::from(memory.search_reads) * access_time(memory, SEARCHED_BYTES, false).0
}

/// True if a key of the table is searched; an index says where an array's entry is.
pub fn searched(program: &Program, table: TableId) -> bool {
    program.tables[table].kind != TableKind::Array
}

/// A handler's event with its tables where a plan puts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Processing cycles.
    pub cycles: f64,
    /// Nanoseconds spent waiting for memories that let other threads run.
    pub wait_ns: f64,
    /// Number of such waits.
    pub waits: f64,
}

impl Load {
    /// Adds the accesses to one table in `memory`, with one transfer per value and the transfers of
    /// its byte strings.
    pub fn add_access(&mut self, group: &UnitGroup, memory: &Memory, access: &TableAccess) {
        let (read, _) = access_time(memory, f64::from(access.bytes), false);
        let (write, _) = access_time(memory, f64::from(access.bytes), true);
        let chunk = memory.access.last().map_or(1.0, |step| f64::from(step.bytes));
        let (burst, _) = access_time(memory, chunk, true);
        let bursts = access.buffer_bytes / chunk;
        let found = access.searches * search_time(memory);
        let ns = found + access.reads * read + access.writes * write + bursts * burst;
        if !memory.associative {
            self.cycles += access.search_cycles;
        }
        if memory.blocking {
            self.cycles += ns * 1e-9 * group.clock.value;
        } else {
            self.wait_ns += ns;
            self.waits += access.reads + access.writes + bursts;
        }
    }

    /// Cycles of one unit per event, threads taken into account.
    pub fn unit_cycles(&self, group: &UnitGroup) -> f64 {
        let threads = f64::from(group.threads);
        let busy =
            self.cycles + if group.threads > 1 { self.waits * group.switch_cycles } else { 0.0 };
        busy.max((busy + self.wait_ns * 1e-9 * group.clock.value) / threads)
    }
}

/// Seconds for which one event keeps the entry it uses from the next event that wants the same one.
pub fn held_seconds(group: &UnitGroup, memory: &Memory, access: &TableAccess) -> f64 {
    let mut load = Load::default();
    load.add_access(group, memory, &TableAccess { search_cycles: 0.0, searches: 0.0, ..*access });
    (load.cycles + access.held_cycles) / group.clock.value + load.wait_ns * 1e-9
}

/// Share of events that find the lock of their entry where another of `replicas` used it last. With
/// a lock for each entry they seldom wait for each other, but the lock's memory comes from
/// elsewhere; with one lock a table all replicas queue for it.
pub fn elsewhere(replicas: u32) -> f64 {
    1.0 - 1.0 / f64::from(replicas.max(1))
}

/// Operations a memory performs for one event's accesses to a table.
pub fn memory_operations(memory: &Memory, access: &TableAccess) -> f64 {
    let Some(width) = memory.operation_bytes else { return 0.0 };
    let one = (f64::from(access.bytes) / f64::from(width)).ceil().max(1.0);
    (access.reads + access.writes) * one + access.buffer_bytes / f64::from(width)
}
