//! What αIR costs on a unit of a target, in the terms of a path: sums over instructions.
//!
//! An event takes `max(c, (c + w·f) / T)` cycles of a unit with `T` threads at clock `f`, where `c`
//! is processing and `w` the time waited for memory (see [`nicforge_target::cost`]). That is two
//! sums and their larger one: the first is the graph's core, the second its shared engine. Every
//! table access searches anew and frames are as long as they may be, so the sums are never below
//! those the planner expects.
//!
//! Accesses count with their latency; how many of them a memory serves a second is
//! [`crate::shared`]'s business.

use std::collections::BTreeMap;

use nicforge_ir::{HandlerId, InstId, Program, TableId};
use nicforge_target::cost::{Load, TableAccess, Traffic, accesses, appended, op_cycles, searched};
use nicforge_target::{Memory, Target, UnitGroup};

use crate::air::{self, Lowered, Refused};
use crate::graph::{Cost, Step};
use crate::search::Machine;

/// A program on units of one group.
pub struct Unit<'a> {
    pub program: &'a Program,
    pub target: &'a Target,
    pub group: &'a UnitGroup,
    /// Units that run it side by side.
    pub units: u32,
    /// Longest frames, in bytes without checksum.
    pub longest: u32,
    /// Memories of tables, by name; others are in the last memory that takes them, which targets
    /// list from near to far.
    pub homes: BTreeMap<String, String>,
}

impl<'a> Unit<'a> {
    /// A program alone on a target's first unit group: on all units if it has no state that packets
    /// change, else on one.
    pub fn alone(program: &'a Program, target: &'a Target, longest: u32) -> Option<Unit<'a>> {
        let group = target.units.first()?;
        let units = if changes_tables(program) { 1 } else { group.count };
        Some(Unit { program, target, group, units, longest, homes: BTreeMap::new() })
    }

    /// The program's graph with these costs.
    ///
    /// # Errors
    /// What is not handled, with its place; units whose rate does not follow from cycles.
    pub fn graph(&self, handler: HandlerId) -> Result<Lowered, Refused> {
        if self.group.initiation_interval.is_some() {
            let place = self.target.name.clone();
            let reason = format!(
                "`{}` are pipelines: their rate is the same for all packets",
                self.group.name
            );
            return Err(Refused { place, reason });
        }
        let mut lowered = air::graph(self.program, handler, &|handler, inst| {
            self.sums(&self.load(handler, inst))
        })?;
        let receive =
            Load { cycles: self.target.costs[&self.group.costs].receive, ..Load::default() };
        let entry = lowered.graph.entry.0 as usize;
        let first = Step { effects: Vec::new(), cost: self.sums(&receive), place: 0 };
        lowered.graph.blocks[entry].steps.insert(0, first);
        Ok(lowered)
    }

    /// The units and the target's ports.
    pub fn machine(&self) -> Machine {
        let ports = &self.target.ports;
        Machine {
            base_cycles: 0.0,
            cores: self.units.into(),
            hz: self.group.clock.value,
            port_pps: ports.packet_rate.as_ref().map(|rate| rate.value),
            port_bps: Some(f64::from(ports.count) * ports.rate.value),
        }
    }

    /// Where a table is.
    fn memory(&self, table: TableId) -> Option<&'a Memory> {
        let def = &self.program.tables[table];
        if let Some(home) = self.homes.get(&def.name) {
            return self.target.memories.iter().find(|memory| memory.name == *home);
        }
        self.target.memories.iter().rfind(|memory| {
            memory.device == self.group.device
                && memory.max_entries.is_none_or(|most| def.capacity <= most)
                && (def.buf.is_none() || memory.buffers)
        })
    }

    /// One execution of an instruction.
    pub fn load(&self, handler: HandlerId, inst: InstId) -> Load {
        let body = &self.program.handlers[handler].body;
        let costs = &self.target.costs[&self.group.costs];
        let traffic = Traffic { frame_bytes: self.longest, ..Traffic::default() };
        let cycles = op_cycles(self.program, body, inst, costs, traffic);
        let mut load = Load { cycles, ..Load::default() };
        if let Some((access, memory)) = self.access(handler, inst) {
            load.add_access(self.group, memory, &access);
        }
        load
    }

    /// Access of an instruction to a table, and the memory that is in.
    pub fn access(&self, handler: HandlerId, inst: InstId) -> Option<(TableAccess, &'a Memory)> {
        let body = &self.program.handlers[handler].body;
        let op = &body.insts[inst].op;
        let table = op.table()?;
        let (reads, writes) = accesses(op);
        let buffer_bytes = match op.event() {
            Some(_) => f64::from(self.program.tables[table].buf.unwrap_or(0)),
            None => appended(self.program, body, op, f64::from(self.longest)),
        };
        let bytes = self.program.size_of(self.program.tables[table].value).max(1);
        let search_cycles = self.target.costs[&self.group.costs].table;
        let access = TableAccess {
            table,
            reads,
            writes,
            bytes,
            buffer_bytes,
            search_cycles,
            searches: f64::from(u8::from(searched(self.program, table))),
            held_cycles: 0.0,
            one_entry: false,
        };
        Some((access, self.memory(table)?))
    }

    /// Costs as the two sums of a path.
    pub fn sums(&self, load: &Load) -> Cost {
        let wait = load.wait_ns * 1e-9 * self.group.clock.value;
        if self.group.threads <= 1 {
            return Cost::fraction(load.cycles + wait);
        }
        let busy = load.cycles + load.waits * self.group.switch_cycles;
        let shared = (busy + wait) / f64::from(self.group.threads) / f64::from(self.units);
        Cost { engine_micro: (shared * 1e6).ceil() as u64, ..Cost::fraction(busy) }
    }
}

/// True if packets change tables.
pub fn changes_tables(program: &Program) -> bool {
    program.handlers.values().any(|handler| {
        handler.body.insts.values().any(|inst| inst.op.effects().table_write.is_some())
    })
}
