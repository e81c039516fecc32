//! What lines of a handler and accesses to tables cost, from `target::cost` and nowhere else.
//!
//! Ops over the payload cost something per byte. `cost::op_cycles` is linear in the payload, which
//! it takes to be the frame without 42 bytes of headers, so two evaluations give base and slope,
//! and a line is then priced for the packet that is there.

use nicforge_ir::{Body, BufSource, InstId, Program, TableId};
use nicforge_target::cost::{self, Traffic};
use nicforge_target::{Target, UnitGroup, accelerate};

use crate::handlers::Line;

/// Frame bytes that `cost::op_cycles` does not count as payload.
const HEADERS: f64 = 42.0;
/// The shortest frame whose payload it counts as it is.
const SHORTEST: u32 = 64;
/// Far enough from the shortest for an exact slope.
const LONGER: u32 = SHORTEST + 1024;

/// Cycles of a line, and the bytes it moves to or from byte strings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinePrice {
    pub cycles: f64,
    pub byte_cycles: f64,
    /// There is nothing else.
    pub only_cycles: bool,
    /// Table, constant bytes, bytes per byte of payload.
    pub stored: Option<(TableId, f64, f64)>,
    /// A table whose byte string is sent: every byte is read once.
    pub read_back: Option<TableId>,
    /// What runs on accelerators.
    pub served: Vec<ServedPrice>,
}

/// An op on an accelerator.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedPrice {
    pub accelerator: usize,
    pub issue_cycles: f64,
    pub latency_ns: f64,
    /// Nanoseconds of the accelerator for the shortest frame and for `LONGER` bytes.
    busy_ns: (f64, f64),
}

impl ServedPrice {
    /// Nanoseconds of the accelerator for a payload. Straight between the two frames and beyond:
    /// what is constant below some length is priced as if it grew from there.
    pub fn busy_ns(&self, payload_bytes: f64) -> f64 {
        let (short, long) = self.busy_ns;
        let share = (payload_bytes - payload(SHORTEST)) / (payload(LONGER) - payload(SHORTEST));
        (short + share * (long - short)).max(short.min(long))
    }
}

/// Payload bytes of a frame as the cost model counts them.
pub fn payload(frame_bytes: u32) -> f64 {
    f64::from(frame_bytes.max(SHORTEST)) - HEADERS
}

impl LinePrice {
    /// Sums up the ops of a line.
    pub fn new(program: &Program, line: &Line, target: &Target, group: &UnitGroup) -> LinePrice {
        let costs = &target.costs[&group.costs];
        let body = &program.handlers[line.handler].body;
        let at = |inst: InstId, frame_bytes: u32| {
            let traffic = Traffic { frame_bytes, ..Traffic::default() };
            cost::op_cycles(program, body, inst, costs, traffic)
        };
        let mut price = LinePrice::default();
        for inst in &line.insts {
            let served = |frame_bytes: u32| {
                let traffic = Traffic { frame_bytes, ..Traffic::default() };
                accelerate::served(program, body, *inst, target, group, traffic)
            };
            if let (Some(short), Some(long)) = (served(SHORTEST), served(LONGER)) {
                price.served.push(ServedPrice {
                    accelerator: short.accelerator,
                    issue_cycles: short.issue_cycles,
                    latency_ns: target.accelerators[short.accelerator].latency.value,
                    busy_ns: (short.seconds * 1e9, long.seconds * 1e9),
                });
                continue;
            }
            let (short, long) = (at(*inst, SHORTEST), at(*inst, LONGER));
            let slope = (long - short) / f64::from(LONGER - SHORTEST);
            price.byte_cycles += slope;
            price.cycles += short - slope * payload(SHORTEST);
            price.note_buffers(program, body, *inst);
        }
        price.only_cycles =
            price.served.is_empty() && price.stored.is_none() && price.read_back.is_none();
        price
    }

    fn note_buffers(&mut self, program: &Program, body: &Body, inst: InstId) {
        let op = &body.insts[inst].op;
        let Some(table) = op.table() else { return };
        if let Some(source) = op.source() {
            let (_, constant, per_byte) = self.stored.get_or_insert((table, 0.0, 0.0));
            match source {
                BufSource::Packet { .. } => *per_byte += 1.0,
                BufSource::Value(value) => *constant += f64::from(program.size_of(body.ty(value))),
            }
        }
        if op.event().is_some() {
            self.read_back = Some(table);
        }
    }
}

/// Costs of a stage's accesses to a table.
#[derive(Clone, Debug)]
pub struct TablePrice {
    /// Index of the target's memory.
    pub memory: usize,
    /// Picoseconds of an access.
    pub read_ps: f64,
    pub write_ps: f64,
    /// Operations of the memory that one access is.
    pub operations: f64,
    /// Picoseconds and operations per byte of byte strings.
    pub byte_ps: f64,
    pub byte_operations: f64,
    /// Cycles of the search, once per key.
    pub search: f64,
    pub blocking: bool,
}

impl TablePrice {
    pub fn new(
        program: &Program,
        table: TableId,
        at: usize,
        target: &Target,
        group: &UnitGroup,
    ) -> TablePrice {
        let costs = &target.costs[&group.costs];
        let memory = &target.memories[at];
        let found = if cost::searched(program, table) { cost::search_time(memory) } else { 0.0 };
        let bytes = f64::from(program.size_of(program.tables[table].value).max(1));
        let (read_ns, operations) = cost::access_time(memory, bytes, false);
        let (write_ns, _) = cost::access_time(memory, bytes, true);
        let chunk = memory.access.last().map_or(1.0, |step| f64::from(step.bytes));
        let (burst, _) = cost::access_time(memory, chunk, true);
        TablePrice {
            memory: at,
            read_ps: read_ns * 1e3,
            write_ps: write_ns * 1e3,
            operations,
            byte_ps: burst / chunk * 1e3,
            byte_operations: memory.operation_bytes.map_or(0.0, |width| 1.0 / f64::from(width)),
            search: if memory.associative {
                0.0
            } else {
                costs.table + found * 1e-9 * group.clock.value
            },
            blocking: memory.blocking,
        }
    }
}

/// Picoseconds of a cycle.
pub fn cycle_ps(group: &UnitGroup) -> f64 {
    1e12 / group.clock.value
}
