//! What programs cost on a target.
//!
//! The only place that prices ops. Planner, bound, simulator and reports take cycles and memory
//! accesses from here.
//!
//! # Model
//!
//! An event of a handler costs, in expectation over the branches it may take, **processing** cycles
//! of its unit (instructions, and memories that block) and **accesses** to tables, which cost
//! latency. A unit with `T` threads at clock `f` that needs `c` cycles of processing and waits `w`
//! seconds for memory per event takes
//!
//! ```text
//! max(c, (c + w·f) / T)   cycles per event
//! ```
//!
//! since threads take turns: either the processor is always busy, or every thread is always
//! waiting. Hardware pipelines cost their initiation interval instead. Independently, a memory that
//! serves `b` operations per second bounds the rate of all stages together by `b` over the
//! operations one packet needs. (Simple throughput model as in LogNIC, ISCA'23, and the NFP guide's
//! latency hiding; queueing is the simulator's business.)
//!
//! # Branches
//!
//! `NF_LIKELY` decides where it is given. Otherwise a side that gives the packet up (drop, or on to
//! the operating system) while the other goes on is taken by [`UNUSUAL`] of events, and everything
//! else is even.

use nicforge_ir::{
    BinOp, BlockId, Body, BufSource, Class, CryptoOp, EventId, HandlerId, InstId, Op, Program,
    TableId, Words, Work,
};

mod memory;

pub use memory::{
    Load, access_time, elsewhere, held_seconds, memory_operations, search_time, searched,
};

use crate::accelerate;
use crate::spec::{OpCosts, Target, UnitGroup};

/// Share of events that take a side which gives packets up.
pub const UNUSUAL: f64 = 0.02;

/// Traffic, where the program does not say what it is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Frame size in bytes, without CRC.
    pub frame_bytes: u32,
    /// Flows at a time, for working sets and key skew.
    pub flows: u32,
}

impl Default for Traffic {
    /// 256 bytes, as the Alkali paper measures (NSDI'25, section 6); 1024 flows.
    fn default() -> Traffic {
        Traffic { frame_bytes: 256, flows: 1024 }
    }
}

/// Accesses to one table, per event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableAccess {
    pub table: TableId,
    pub reads: f64,
    pub writes: f64,
    /// Bytes of one access: the value's.
    pub bytes: u32,
    /// Bytes moved to and from its byte strings.
    pub buffer_bytes: f64,
    /// Cycles of instructions that search, which associative memories save, and how often they do.
    pub search_cycles: f64,
    pub searches: f64,
    /// Cycles between the first access of an event and its last: nobody else may use the entry
    /// meanwhile.
    pub held_cycles: f64,
    /// All accesses have one constant key: every event uses the same entry.
    pub one_entry: bool,
}

/// One event of a handler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HandlerCost {
    /// Processing, without receiving, sending on and memories.
    pub cycles: f64,
    pub accesses: Vec<TableAccess>,
    /// Internal events per event of the handler.
    pub generates: Vec<(EventId, f64)>,
    /// Packets sent to ports per event.
    pub sends: f64,
    /// Nanoseconds and times that a thread waits for accelerators.
    pub wait_ns: f64,
    pub waits: f64,
    /// Seconds for which the event keeps one of an accelerator busy, by its number in the target.
    pub served: Vec<(usize, f64)>,
}

/// Bytes of a frame behind its headers.
pub fn payload_bytes(traffic: Traffic) -> f64 {
    f64::from(traffic.frame_bytes).max(64.0) - 42.0
}

/// Bytes that a cipher, a digest or a search goes over: its length where that is constant, else the
/// payload.
pub fn worked_bytes(body: &Body, op: &Op, traffic: Traffic) -> f64 {
    let payload = payload_bytes(traffic);
    let (Op::Crypto { len, .. } | Op::Regex { len, .. }) = op else { return payload };
    match body.def_op(*len) {
        Some(Op::Int(len)) => payload.min(*len as f64),
        _ => payload,
    }
}

/// Cycles of one op on a unit, without the memories behind tables and without what regions of it
/// cost.
pub fn op_cycles(
    program: &Program,
    body: &Body,
    inst: InstId,
    costs: &OpCosts,
    traffic: Traffic,
) -> f64 {
    let size = |value| program.size_of(body.ty(value)) as f64;
    let word = if costs.word_bytes > 0.0 { costs.word_bytes } else { 8.0 };
    let words = |bytes: f64| (bytes / word).ceil().max(1.0);
    let payload = payload_bytes(traffic);
    let data = &body.insts[inst];
    let result = |n: usize| data.results.get(n).map_or(0.0, |value| size(*value));
    let op = &data.op;
    let last = || op.operands().last().map_or(0.0, size);
    match op.work() {
        Work::Free => 0.0,
        Work::Clock => costs.now,
        Work::Alu => match op {
            Op::Bin(BinOp::Mul, ..) => costs.mul,
            Op::Bin(BinOp::Div | BinOp::Rem, _, by) => match body.def_op(*by) {
                Some(Op::Int(_)) => costs.mul + costs.alu,
                _ => costs.div,
            },
            _ => costs.alu * words(result(0)),
        },
        Work::Compare => costs.alu * words(op.operand(0).map_or(0.0, size)),
        Work::Member => costs.field * words(result(0).min(8.0)),
        Work::Replace => costs.field * words(last()),
        Work::Element => costs.field + costs.alu,
        Work::Hash => costs.hash + costs.hash_byte * last(),
        Work::Sum => costs.checksum + costs.checksum_byte * last(),
        Work::PacketSum => costs.checksum + costs.checksum_byte * payload,
        Work::Crypto => {
            let bytes = worked_bytes(body, op, traffic);
            let is = |known: &(CryptoOp, &str, &str)| op.crypto() == Some(known.0);
            let [call, byte] =
                CryptoOp::ALL.iter().position(is).map_or([0.0; 2], |at| costs.crypto[at]);
            call + byte * bytes
        }
        // The loop that the pass `regex-loops` makes of it, a trip for each byte.
        Work::Regex => {
            let byte = costs.extract + costs.extract_byte + 2.0 * (costs.field + costs.alu);
            worked_bytes(body, op, traffic) * (byte + 4.0 * costs.alu + 2.0 * costs.branch)
        }
        Work::Draw => costs.random,
        Work::Port => costs.field,
        Work::Read => costs.extract + costs.extract_byte * result(1),
        Work::Write => costs.emit + costs.emit_byte * last(),
        Work::Cursor => costs.cursor,
        Work::Entry => {
            let bytes = |(table, key)| size(key) + value_bytes(program, table);
            costs.table_byte * op.entry().map_or(0.0, bytes) + costs.alu
        }
        // As if the table were full. An entry's cycles are counted on RISC-V
        // cores; elsewhere they are an estimate.
        Work::Scan => {
            let table = op.table().map(|table| &program.tables[table]);
            let entry = costs.table_byte * 24.0 + 10.0 * costs.alu + 6.0 * costs.branch;
            table.map_or(0.0, |table| f64::from(table.capacity)) * entry
        }
        Work::Append => {
            costs.table_byte * 8.0 + costs.copy_byte * appended(program, body, op, payload)
        }
        Work::Bytes => costs.table_byte * 8.0 + costs.copy_byte * result(1),
        Work::Length => costs.table_byte * 8.0,
        Work::Leave => match op.event().map(|event| program.events[event].name.as_str()) {
            None => costs.drop,
            Some(_) if op.class() == Class::Bytes => costs.send,
            Some(_) if op.makes_packet() => {
                costs.send + costs.copy_byte * op.operand(0).map_or(0.0, size)
            }
            Some("net_send") => costs.send,
            Some("dma_write") => costs.dma,
            Some("net_copy") => costs.send + costs.copy_byte * payload,
            Some("host_copy") => costs.host + costs.copy_byte * payload,
            Some("stack_recv" | "host_recv" | "host_msg") => costs.host,
            Some(_) => 0.0,
        },
        Work::Log => costs.log,
        Work::Routes => costs.hash + costs.table,
        Work::Branch => costs.branch,
        // Nobody knows what it does: taken to be a call that reads what it gets once.
        Work::Call if op.class() == Class::Outside => {
            20.0 * costs.branch
                + costs.field * op.operands().map(|arg| words(size(arg))).sum::<f64>()
        }
        Work::Call => 2.0 * costs.branch,
    }
}

/// Bytes that an op appends to a byte string, of a packet `payload`.
pub fn appended(program: &Program, body: &Body, op: &Op, payload: f64) -> f64 {
    match op.source() {
        Some(BufSource::Packet { .. }) => payload,
        Some(BufSource::Value(value)) => f64::from(program.size_of(body.ty(value))),
        None => 0.0,
    }
}

/// How often an op reads and writes the entry it names: byte strings are counted by their bytes.
pub fn accesses(op: &Op) -> (f64, f64) {
    match (op.class(), op.work()) {
        (Class::Bytes, Work::Append | Work::Leave) => (0.0, 0.0),
        (Class::Entry, _) if op.effects().table_write.is_some() => (0.0, 1.0),
        _ => (1.0, 0.0),
    }
}

fn value_bytes(program: &Program, table: TableId) -> f64 {
    f64::from(program.size_of(program.tables[table].value))
}

/// Expected cost of one event of a handler, all of it in instructions.
pub fn handler_cost(
    program: &Program,
    handler: HandlerId,
    costs: &OpCosts,
    traffic: Traffic,
) -> HandlerCost {
    summed(program, handler, costs, traffic, None)
}

/// Expected cost of one event of a handler on units of a group, with the target's accelerators.
pub fn handler_cost_on(
    program: &Program,
    handler: HandlerId,
    target: &Target,
    group: &UnitGroup,
    traffic: Traffic,
) -> HandlerCost {
    summed(program, handler, &target.costs[&group.costs], traffic, Some((target, group)))
}

fn summed(
    program: &Program,
    handler: HandlerId,
    costs: &OpCosts,
    traffic: Traffic,
    accelerated: Option<(&Target, &UnitGroup)>,
) -> HandlerCost {
    let body = &program.handlers[handler].body;
    let mut sum = Sum {
        program,
        body,
        costs,
        traffic,
        accelerated,
        cost: HandlerCost::default(),
        searched: Vec::new(),
        since: Vec::new(),
    };
    sum.block(body.entry(), 1.0);
    sum.cost
}

struct Sum<'a> {
    program: &'a Program,
    body: &'a Body,
    costs: &'a OpCosts,
    traffic: Traffic,
    accelerated: Option<(&'a Target, &'a UnitGroup)>,
    cost: HandlerCost,
    /// Keys whose place in their table is known already.
    searched: Vec<(TableId, nicforge_ir::ValueId)>,
    /// Cycles before the first access to each table of `cost.accesses`.
    since: Vec<f64>,
}

impl Sum<'_> {
    fn block(&mut self, block: BlockId, share: f64) {
        let (program, body) = (self.program, self.body);
        walk(program, body, block, share, false, &mut |inst, frequency| self.inst(inst, frequency));
    }

    fn inst(&mut self, inst: InstId, frequency: f64) {
        let accelerated = self.accelerated.and_then(|(target, group)| {
            accelerate::served(self.program, self.body, inst, target, group, self.traffic)
        });
        match accelerated {
            Some(one) => {
                self.cost.cycles += frequency * one.issue_cycles;
                self.cost.wait_ns += frequency * one.wait_ns;
                self.cost.waits += frequency;
                self.cost.served.push((one.accelerator, frequency * one.seconds));
            }
            None => {
                let cycles = op_cycles(self.program, self.body, inst, self.costs, self.traffic);
                self.cost.cycles += frequency * cycles;
            }
        }
        let op = &self.body.insts[inst].op;
        if let Some((table, key)) = op.entry() {
            let (reads, writes) = accesses(op);
            let bytes = appended(self.program, self.body, op, payload_bytes(self.traffic));
            self.access(table, Some(key), frequency, reads, writes, bytes);
            if op.event().is_some() {
                // Every byte that was stored is read again once, when its buffer is sent.
                let appended = self.entry(table).buffer_bytes;
                self.entry(table).buffer_bytes += appended;
            }
        }
        if let Some(table) = op.table().filter(|_| op.scans()) {
            self.access(table, None, frequency, 1.0, 0.0, 0.0);
        }
        if let Some(event) = op.event() {
            let def = &self.program.events[event];
            if self.program.sends(op) {
                self.cost.sends += frequency;
            } else if def.direction == nicforge_ir::Direction::Internal {
                match self.cost.generates.iter_mut().find(|(known, _)| *known == event) {
                    Some((_, rate)) => *rate += frequency,
                    None => self.cost.generates.push((event, frequency)),
                }
            }
        }
    }

    fn entry(&mut self, table: TableId) -> &mut TableAccess {
        let at = match self.cost.accesses.iter().position(|access| access.table == table) {
            Some(at) => at,
            None => {
                let bytes = self.program.size_of(self.program.tables[table].value).max(1);
                self.cost.accesses.push(TableAccess {
                    table,
                    reads: 0.0,
                    writes: 0.0,
                    bytes,
                    buffer_bytes: 0.0,
                    search_cycles: 0.0,
                    searches: 0.0,
                    held_cycles: 0.0,
                    one_entry: true,
                });
                self.since.push(self.cost.cycles);
                self.cost.accesses.len() - 1
            }
        };
        &mut self.cost.accesses[at]
    }

    fn access(
        &mut self,
        table: TableId,
        key: Option<nicforge_ir::ValueId>,
        frequency: f64,
        reads: f64,
        writes: f64,
        buffer_bytes: f64,
    ) {
        // The second access with one key finds the entry where the first one did.
        let known = key.is_some_and(|key| self.searched.contains(&(table, key)));
        if let (false, Some(key)) = (known, key) {
            self.searched.push((table, key));
        }
        let search = if known { 0.0 } else { self.costs.table };
        let searches = if known || !searched(self.program, table) { 0.0 } else { frequency };
        let constant = key.is_some_and(|key| matches!(self.body.def_op(key), Some(Op::Int(_))));
        let now = self.cost.cycles;
        let entry = self.entry(table);
        entry.one_entry &= constant;
        entry.reads += frequency * reads;
        entry.writes += frequency * writes;
        entry.buffer_bytes += frequency * buffer_bytes;
        entry.search_cycles += frequency * search;
        entry.searches += searches;
        if let Some(at) = self.cost.accesses.iter().position(|access| access.table == table) {
            self.cost.accesses[at].held_cycles = now - self.since[at];
        }
    }
}

/// Visits every instruction with its expected frequency; gives back the share of events that reach
/// the region's end. `leaves`: how often breaks happen is known, so what breaks or goes on is not
/// here any more.
fn walk(
    program: &Program,
    body: &Body,
    block: BlockId,
    share: f64,
    leaves: bool,
    visit: &mut dyn FnMut(InstId, f64),
) -> f64 {
    let mut share = share;
    for &inst in &body.blocks[block].insts {
        visit(inst, share);
        match &body.insts[inst].op {
            Op::If { then, other, likely, .. } => {
                let p = likely.map_or_else(|| guess(program, body, *then, *other), f64::from);
                let a = walk(program, body, *then, share * p, leaves, visit);
                let b = walk(program, body, *other, share * (1.0 - p), leaves, visit);
                share = a + b;
            }
            Op::Loop { max_trips, body: region, .. } => {
                let (trips, known) = expected_trips(program, body, *region, f64::from(*max_trips));
                walk(program, body, *region, share * trips, known, visit);
            }
            Op::Return(_) => return 0.0,
            Op::Break { .. } | Op::Continue { .. } => return if leaves { 0.0 } else { share },
            _ => {}
        }
    }
    share
}

/// Trips of a loop, and whether they come from how likely its breaks are; else half of what is
/// possible.
fn expected_trips(program: &Program, body: &Body, region: BlockId, most: f64) -> (f64, bool) {
    let mut known = false;
    let (falls, goes_on) = going_on(program, body, region, 1.0, &mut known);
    let stays = falls + goes_on;
    if known && stays < 1.0 {
        ((1.0 - stays.powf(most)) / (1.0 - stays), true)
    } else {
        ((1.0 + most) / 2.0, false)
    }
}

/// Shares of a trip that reach a region's end and that start the next trip from inside; `known` if
/// a break's frequency is.
fn going_on(
    program: &Program,
    body: &Body,
    block: BlockId,
    mut share: f64,
    known: &mut bool,
) -> (f64, f64) {
    let breaks = |block: BlockId| {
        let last = body.blocks[block].insts.last();
        last.is_some_and(|last| matches!(body.insts[*last].op, Op::Break { .. }))
    };
    let mut goes_on = 0.0;
    for &inst in &body.blocks[block].insts {
        match &body.insts[inst].op {
            Op::If { then, other, likely, .. } => {
                let p = likely.map_or_else(|| guess(program, body, *then, *other), f64::from);
                *known |= likely.is_some() && (breaks(*then) || breaks(*other));
                let (a, on) = going_on(program, body, *then, share * p, known);
                let (b, too) = going_on(program, body, *other, share * (1.0 - p), known);
                (share, goes_on) = (a + b, goes_on + on + too);
            }
            Op::Return(_) | Op::Break { .. } => return (0.0, goes_on),
            Op::Continue { .. } => return (0.0, goes_on + share),
            _ => {}
        }
    }
    (share, goes_on)
}

fn guess(program: &Program, body: &Body, then: BlockId, other: BlockId) -> f64 {
    match (gives_up(program, body, then), gives_up(program, body, other)) {
        (true, false) => UNUSUAL,
        (false, true) => 1.0 - UNUSUAL,
        _ => 0.5,
    }
}

/// Writes the guesses down where the program has none, so that they outlive cutting: what gives a
/// packet up today may hand it to another stage tomorrow.
pub fn annotate(program: &mut Program) {
    let copy = program.clone();
    for (handler, data) in program.handlers.iter_mut() {
        let body = &copy.handlers[handler].body;
        for inst in data.body.insts.values_mut() {
            if let Op::If { then, other, likely: likely @ None, .. } = &mut inst.op {
                let p = guess(&copy, body, *then, *other);
                *likely = (p != 0.5).then_some(p as f32);
            }
        }
    }
}

/// Regions that give the packet up: they drop it or pass it to the operating system.
fn gives_up(program: &Program, body: &Body, block: BlockId) -> bool {
    body.blocks[block].insts.iter().any(|inst| match &body.insts[*inst].op {
        op if op.drops() => true,
        Op::Generate { event, .. } => program.events[*event].name == "stack_recv",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests in a row, each of which drops the packet and goes on to a common end, as the passes
    /// leave what was `if (a || b || c) { nf_drop(pkt); return; }`.
    #[test]
    fn what_follows_sides_that_drop_is_usual() {
        let text = r#"program guarded ports 1
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out
reason "guarded"
handler net_recv on net_recv(%pkt: packet) {
  %ok: u1, %x: u32 = extract %pkt
  %port: u32 = in_port %pkt
  %more: u1 = eq %x, %port
  if %ok {
    if %more {
      drop %pkt, "guarded"
    } else {
      generate net_send(%pkt, %port)
    }
  } else {
    drop %pkt, "guarded"
  }
  return
}
"#;
        let program = nicforge_ir::text::parse(text).expect("the test's program");
        let (handler, _) = program.handlers.iter().next().expect("it has a handler");
        let cost = handler_cost(&program, handler, &OpCosts::default(), Traffic::default());
        assert!((cost.sends - (1.0 - UNUSUAL).powi(2)).abs() < 1e-9, "{}", cost.sends);
    }
}
