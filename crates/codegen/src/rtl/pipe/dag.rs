//! A handler without control flow: every op is a wire, whatever way the packet takes.
//!
//! Regions are walked with the condition under which they run. Loops are written out; a value that is the same number on every way is a
//! constant, so that loop counters leave no trace. Where ways join, values are chosen by condition. What changes something happens under
//! its condition: an entry's value and whether it is there are chosen step by step, and written once, at the end.
//!
//! A pipe takes programs that have, for every table they change, one key an event; that send, drop or hand on a packet at most once on
//! every way; and that emit the same headers on ways that join. Others run on an engine; [`NoPipe`] says why, with the place.

mod entries;
mod packet;

use std::collections::HashMap;

use nicforge_ir::interp::arith;
use nicforge_ir::{BlockId, Body, CommuteOp, Inst, InstId, Op, Program, Span, TableId, TableKind, ValueId};

use super::super::cfg::only_computes;
use super::super::engine::kind;
use super::super::expr::{Lower, Wire, divides_by_wires, mark};
use super::super::shape::{Bits, number};
use super::super::tables::TableForm;
use super::super::timing;

/// Most bytes of a frame that go through the pipe.
pub const MOST_WINDOW: u32 = 192;
/// Trips of loops that are written out.
const MOST_TRIPS: u32 = 64;

/// Why a program is no pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPipe {
    pub reason: String,
    pub span: Span,
}

/// The condition of a way; none: always.
type Way = Option<String>;

/// Where the cursor is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cursor {
    At(u32),
    /// A signal of 16 bits, never more than this.
    Signal(String, u32),
}

/// The packet on a way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    cursor: Cursor,
    /// Signal of 16 bits: where the frame ends.
    end: String,
    /// Bytes emitted so far, and how many.
    emitted: Vec<(String, u32)>,
    /// An `extract` of which it is not known yet whether it succeeded: its result, and the cursor if it did not.
    doubt: Option<(ValueId, Box<Cursor>)>,
}

/// What becomes of a packet.
#[derive(Clone, Debug)]
pub struct Exit {
    pub when: Way,
    pub kind: u64,
    /// Port or number of the reason, 32 bits.
    pub number: String,
    pub header: Vec<(String, u32)>,
    /// Cursor and end, 16 bits each.
    pub from: String,
    pub end: String,
}

/// What a way has made of a table's entry: whether it is there, its value, and when it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    hit: String,
    value: String,
    changed: Option<String>,
    /// Something on the way deletes the entry.
    deletes: bool,
}

/// A change at the end of a way.
#[derive(Clone, Debug)]
pub struct Change {
    /// Together with `hit`: written; without: deleted.
    pub when: String,
    pub hit: String,
    pub value: String,
    /// The entry is there whenever `when` holds: nothing on this way deletes it.
    pub when_there: bool,
}

/// One table in the pipe.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The handler's key: of frames, of messages.
    pub keys: [Option<String>; 2],
    /// Ways on which the entry changes; at most one of them is taken.
    pub changes: Vec<Change>,
    /// Conditions under which an insertion is refused.
    pub refused: Vec<String>,
    /// Tables that nothing changes have a lookup for every key.
    pub lookups: Vec<String>,
    pub written: bool,
}

/// All of a program's handlers.
pub struct Dag<'a, 'b> {
    pub program: &'a Program,
    pub bits: &'a Bits<'a>,
    pub tables: &'b [TableForm],
    pub wires: Vec<Wire>,
    pub access: Vec<Access>,
    pub exits: Vec<Exit>,
    /// Bytes of the frame that are looked at.
    pub window: u32,
    pub notes: HashMap<String, String>,
}

struct LoopFrame {
    breaks: Vec<(Way, Vec<Known>)>,
    continues: Vec<(Way, Vec<Known>)>,
}

/// A value on a way: its text, and its number if it is always the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    text: String,
    number: Option<u64>,
}

/// Walks one body.
pub struct Walk<'a, 'b, 'c> {
    pub dag: &'c mut Dag<'a, 'b>,
    pub low: Lower<'a>,
    body: &'a Body,
    packet: Option<Packet>,
    /// By table; none: not asked for on this way.
    slots: Vec<Option<Slot>>,
    /// The conditions that ways are made of.
    conditions: HashMap<String, Vec<String>>,
    loops: Vec<LoopFrame>,
    message: bool,
    /// Where the op that is looked at comes from.
    span: Span,
}

/// How a region ends where it goes on.
type Ended = Option<(Way, Vec<Known>)>;

impl<'a, 'b> Dag<'a, 'b> {
    pub fn new(program: &'a Program, bits: &'a Bits<'a>, tables: &'b [TableForm]) -> Dag<'a, 'b> {
        let mut access: Vec<Access> = tables.iter().map(|_| Access::default()).collect();
        for handler in program.handlers.values() {
            let body = &handler.body;
            body.for_each_inst(body.entry(), &mut |inst| {
                if let Some(table) = body.insts[inst].op.effects().table_write {
                    access[table.as_u32() as usize].written = true;
                }
            });
        }
        Dag {
            program,
            bits,
            tables,
            wires: Vec::new(),
            access,
            exits: Vec::new(),
            window: 1,
            notes: HashMap::new(),
        }
    }
}

impl<'a, 'b, 'c> Walk<'a, 'b, 'c> {
    /// Adds a handler; `message` says that it takes messages, whose bytes are in the window too.
    pub fn handler(
        dag: &'c mut Dag<'a, 'b>,
        low: Lower<'a>,
        body: &'a Body,
        message: bool,
    ) -> Result<Lower<'a>, NoPipe> {
        let slots = vec![None; dag.tables.len()];
        let span = Span::default();
        let mut walk = Walk {
            dag,
            low,
            body,
            packet: None,
            slots,
            conditions: HashMap::new(),
            loops: Vec::new(),
            message,
            span,
        };
        let way = mark(if message { "for_message" } else { "for_frame" });
        if message {
            let mut at = 0;
            for param in &body.blocks[body.entry()].params {
                let (ty, name) = (body.ty(*param), walk.low.name(*param));
                let size = walk.dag.bits.bytes(ty);
                let part = walk.wire(
                    "bytes",
                    8 * size,
                    format!("{}[{}:{}]", mark("window"), 8 * (at + size) - 1, 8 * at),
                    0,
                );
                let value = walk.low.of_bytes(ty, &part);
                walk.put(&name, walk.dag.bits.width(ty), value, 0);
                at += size;
            }
            walk.dag.window = walk.dag.window.max(at);
        } else {
            walk.packet =
                Some(Packet { cursor: Cursor::At(0), end: mark("length"), emitted: Vec::new(), doubt: None });
        }
        walk.region(body.entry(), Some(way))?;
        Ok(walk.low)
    }

    fn no<T>(&self, reason: &str) -> Result<T, NoPipe> {
        Err(NoPipe { reason: reason.to_string(), span: self.span })
    }

    fn put(&mut self, name: &str, width: u32, value: String, delay: u32) {
        if let Some(file) = self.span.file {
            let source = &self.dag.program.files[file];
            let path = source.path.rsplit('/').next().unwrap_or_default();
            self.dag.notes.insert(name.to_string(), format!("{path}:{}", self.span.line_col(&source.text).0));
        }
        self.dag.wires.push(Wire { name: name.to_string(), width, value, delay });
    }

    fn wire(&mut self, wanted: &str, width: u32, value: String, delay: u32) -> String {
        let name = self.low.fresh(wanted);
        self.put(&name, width, value, delay);
        mark(&name)
    }

    fn result(&mut self, value: ValueId, text: String, delay: u32) {
        let (name, width) = (self.low.rename(value), self.low.width(value));
        self.put(&name, width, text, delay);
    }

    /// `way` and a condition.
    fn and(&mut self, way: &Way, condition: &str) -> Way {
        let Some(way) = way else { return Some(condition.to_string()) };
        // All conditions on the way at once, not one behind the other.
        let mut all = self.conditions.get(way).cloned().unwrap_or_else(|| vec![way.clone()]);
        all.push(condition.to_string());
        let wire = self.wire("way", 1, all.join(" && "), timing::tree(all.len() as u32));
        self.conditions.insert(wire.clone(), all);
        Some(wire)
    }

    /// Either of several ways.
    fn or(&mut self, ways: Vec<Way>) -> Way {
        let texts: Option<Vec<String>> = ways.into_iter().collect();
        let texts = texts?;
        Some(match &texts[..] {
            [one] => one.clone(),
            _ => self.wire("way", 1, texts.join(" || "), timing::tree(texts.len() as u32)),
        })
    }

    fn known(&mut self, value: ValueId) -> Known {
        if self.low.width(value) == 0 {
            return Known { text: String::new(), number: None };
        }
        Known { number: self.low.constant(value), text: self.low.operand(value) }
    }

    /// Gives `target` the value of whichever way was taken.
    fn choose(&mut self, target: ValueId, from: &[(Way, Known)]) {
        if self.low.width(target) == 0 {
            return;
        }
        let first = &from[0].1;
        if from.iter().all(|(_, known)| known == first) || from.len() == 1 {
            let known = first.clone();
            match known.number {
                Some(number) => {
                    self.low.rename(target);
                    self.low.know(target, number);
                }
                None => self.result(target, known.text, 0),
            }
            return;
        }
        let last = from.len() - 1;
        let mut text = String::new();
        for (way, known) in &from[..last] {
            text.push_str(&format!("{} ? {} : ", way.as_deref().unwrap_or("1'b1"), known.text));
        }
        text.push_str(&from[last].1.text);
        self.result(target, text, timing::mux(2 * from.len() as u32));
    }

    fn region(&mut self, region: BlockId, mut way: Way) -> Result<Ended, NoPipe> {
        let body = self.body;
        for &inst in &body.blocks[region].insts {
            let data = &body.insts[inst];
            self.span = data.span;
            match &data.op {
                Op::Yield(values) => {
                    let values = values.iter().map(|value| self.known(*value)).collect();
                    return Ok(Some((way, values)));
                }
                Op::Return(_) => {
                    self.finish(&way);
                    return Ok(None);
                }
                Op::Break { depth, values } | Op::Continue { depth, values } => {
                    let values = values.iter().map(|value| self.known(*value)).collect();
                    let at = self.loops.len() - 1 - *depth as usize;
                    let frame = &mut self.loops[at];
                    let list = match data.op {
                        Op::Break { .. } => &mut frame.breaks,
                        _ => &mut frame.continues,
                    };
                    list.push((way, values));
                    return Ok(None);
                }
                Op::If { .. } => match self.decision(inst, way)? {
                    Some(on) => way = on,
                    None => return Ok(None),
                },
                Op::Loop { .. } => match self.repeat(inst, way)? {
                    Some(on) => way = on,
                    None => return Ok(None),
                },
                _ => self.inst(inst, &way)?,
            }
        }
        Ok(Some((way, Vec::new())))
    }

    /// An `if`: the way behind it, if one goes on.
    fn decision(&mut self, inst: InstId, way: Way) -> Result<Option<Way>, NoPipe> {
        let body = self.body;
        let data = &body.insts[inst];
        let Op::If { cond, then, other, .. } = &data.op else { return Ok(None) };
        if let Some(number) = self.low.constant(*cond) {
            let arm = if number != 0 { *then } else { *other };
            let Some((way, values)) = self.region(arm, way)? else { return Ok(None) };
            for (result, known) in data.results.iter().zip(values) {
                self.choose(*result, &[(None, known)]);
            }
            return Ok(Some(way));
        }
        let cond = self.low.operand(*cond);
        let not = format!("!{cond}");
        let pure = only_computes(body, *then) && only_computes(body, *other);
        let (yes, no) =
            if pure { (way.clone(), way.clone()) } else { (self.and(&way, &cond), self.and(&way, &not)) };
        let before = (self.packet.clone(), self.slots.clone());
        self.learn(data, true);
        let first = self.region(*then, yes)?;
        let after_first = (self.packet.clone(), self.slots.clone());
        (self.packet, self.slots) = before;
        self.learn(data, false);
        let second = self.region(*other, no)?;
        self.span = data.span;
        match (first, second) {
            (None, None) => Ok(None),
            (Some((way, values)), None) => {
                (self.packet, self.slots) = after_first;
                for (result, known) in data.results.iter().zip(values) {
                    self.choose(*result, &[(None, known)]);
                }
                Ok(Some(way))
            }
            (None, Some((way, values))) => {
                for (result, known) in data.results.iter().zip(values) {
                    self.choose(*result, &[(None, known)]);
                }
                Ok(Some(way))
            }
            (Some((yes, a)), Some((no, b))) => {
                self.join(&cond, after_first)?;
                for (result, (a, b)) in data.results.iter().zip(a.into_iter().zip(b)) {
                    self.choose(*result, &[(Some(cond.clone()), a), (None, b)]);
                }
                // Ways that only split and join are the way they came from.
                let leaves = |arm: BlockId| self.leaves(arm);
                let whole = pure || !(leaves(*then) || leaves(*other));
                Ok(Some(if whole { way } else { self.or(vec![yes, no]) }))
            }
        }
    }

    /// Whether a way may leave a region other than at its end.
    fn leaves(&self, region: BlockId) -> bool {
        self.body.blocks[region].insts.iter().any(|inst| match &self.body.insts[*inst].op {
            Op::Return(_) | Op::Break { .. } | Op::Continue { .. } => true,
            op => op.regions().any(|inner| self.leaves(inner)),
        })
    }

    /// What an arm of an `if` says about an `extract` before it.
    fn learn(&mut self, data: &Inst, taken: bool) {
        let Op::If { cond, .. } = data.op else { return };
        let (mut asked, mut holds) = (cond, taken);
        while let Some(Op::Un(nicforge_ir::UnOp::Not, inner)) = self.body.def_op(asked) {
            (asked, holds) = (*inner, !holds);
        }
        let Some(packet) = &mut self.packet else { return };
        if let Some((ok, back)) = packet.doubt.take_if(|(ok, _)| *ok == asked) {
            let _ = ok;
            if !holds {
                packet.cursor = *back;
            }
        }
    }

    /// The end of a way: what it changed.
    fn finish(&mut self, way: &Way) {
        for at in 0..self.slots.len() {
            let Some(Slot { hit, value, changed: Some(changed), deletes }) = self.slots[at].clone() else {
                continue;
            };
            let when = self.and(way, &changed).unwrap_or(changed);
            self.dag.access[at].changes.push(Change { when, hit, value, when_there: !deletes });
        }
    }

    /// Packet and entries where two ways join: `first` if `cond`, else as they are.
    fn join(
        &mut self,
        cond: &str,
        (packet, slots): (Option<Packet>, Vec<Option<Slot>>),
    ) -> Result<(), NoPipe> {
        for (at, first) in slots.into_iter().enumerate() {
            let second = self.slots[at].clone();
            if first == second {
                continue;
            }
            let (first, second) = match (first, second) {
                (Some(a), Some(b)) => (a, b),
                // Asked for on one way only: on the other it is as it was.
                (Some(a), None) => (a, self.untouched(at)),
                (None, Some(b)) => (self.untouched(at), b),
                (None, None) => continue,
            };
            let mut pick = |wanted: &str, width: u32, a: &str, b: &str| match a == b {
                true => a.to_string(),
                false => self.wire(wanted, width, format!("{cond} ? {a} : {b}"), timing::CHOOSE),
            };
            let hit = pick("there", 1, &first.hit, &second.hit);
            let width = self.dag.tables[at].value_bits;
            let mut pick = |wanted: &str, width: u32, a: &str, b: &str| match a == b {
                true => a.to_string(),
                false => self.wire(wanted, width, format!("{cond} ? {a} : {b}"), timing::CHOOSE),
            };
            let value = pick("entry", width, &first.value, &second.value);
            let changed = match (first.changed, second.changed) {
                (None, None) => None,
                (a, b) => {
                    let [a, b] = [a, b].map(|changed| changed.unwrap_or("1'b0".to_string()));
                    Some(pick("changed", 1, &a, &b))
                }
            };
            let deletes = first.deletes || second.deletes;
            self.slots[at] = Some(Slot { hit, value, changed, deletes });
        }
        let (Some(a), Some(b)) = (packet, self.packet.clone()) else { return Ok(()) };
        if a == b {
            return Ok(());
        }
        if a.doubt != b.doubt {
            return self.no("ways join of which one does not look whether its bytes were there");
        }
        if a.emitted != b.emitted {
            return self.no("ways on which different headers were emitted join");
        }
        let cursor = if a.cursor == b.cursor {
            a.cursor
        } else {
            let most = most(&a.cursor).max(most(&b.cursor));
            let value = format!("{cond} ? {} : {}", text(&a.cursor), text(&b.cursor));
            Cursor::Signal(self.wire("cursor", 16, value, timing::CHOOSE), most)
        };
        let end = if a.end == b.end {
            a.end
        } else {
            self.wire("end", 16, format!("{cond} ? {} : {}", a.end, b.end), timing::CHOOSE)
        };
        self.packet = Some(Packet { cursor, end, emitted: a.emitted, doubt: a.doubt });
        Ok(())
    }

    /// A loop, written out.
    fn repeat(&mut self, inst: InstId, way: Way) -> Result<Option<Way>, NoPipe> {
        let body = self.body;
        let data = &body.insts[inst];
        let Op::Loop { init, max_trips, body: inner } = &data.op else { return Ok(None) };
        if *max_trips > MOST_TRIPS {
            return self
                .no(&format!("a loop of {max_trips} trips is written out {MOST_TRIPS} times at most"));
        }
        let before = (self.packet.clone(), self.slots.clone());
        self.loops.push(LoopFrame { breaks: Vec::new(), continues: Vec::new() });
        let mut now: Vec<Known> = init.iter().map(|value| self.known(*value)).collect();
        let mut going = Some(way);
        let depth = self.loops.len() - 1;
        for _ in 0..*max_trips {
            let Some(way) = going.take() else { break };
            for (param, known) in body.blocks[*inner].params.iter().zip(now.clone()) {
                self.choose(*param, &[(None, known)]);
            }
            self.region(*inner, way)?;
            let continues = std::mem::take(&mut self.loops[depth].continues);
            if continues.is_empty() {
                break;
            }
            let ways = continues.iter().map(|(way, _)| way.clone()).collect();
            going = Some(self.or(ways));
            now = (0..now.len())
                .map(|at| {
                    let from: Vec<(Way, Known)> =
                        continues.iter().map(|(way, values)| (way.clone(), values[at].clone())).collect();
                    let param = body.blocks[*inner].params[at];
                    self.choose(param, &from);
                    self.known(param)
                })
                .collect();
        }
        let mut frame = self.loops.pop().unwrap_or(LoopFrame { breaks: Vec::new(), continues: Vec::new() });
        if let Some(way) = going {
            frame.breaks.push((way, now));
        }
        // Ways out of a loop have no entries and packets of their own.
        if (&self.packet, &self.slots) != (&before.0, &before.1) || self.leaves_with_changes(*inner) {
            return self.no("a loop changes tables, moves the packet's cursor or emits headers");
        }
        if frame.breaks.is_empty() {
            return Ok(None);
        }
        for (at, result) in data.results.iter().enumerate() {
            let from: Vec<(Way, Known)> =
                frame.breaks.iter().map(|(way, values)| (way.clone(), values[at].clone())).collect();
            self.choose(*result, &from);
        }
        let ways = frame.breaks.into_iter().map(|(way, _)| way).collect();
        Ok(Some(self.or(ways)))
    }

    /// Whether a region has ops that change more than values.
    fn leaves_with_changes(&self, region: BlockId) -> bool {
        self.body.blocks[region].insts.iter().any(|inst| {
            let op = &self.body.insts[*inst].op;
            let effects = op.effects();
            effects.table_write.is_some()
                || effects.packet_write.is_some()
                || effects.ordered
                || op.regions().any(|inner| self.leaves_with_changes(inner))
        })
    }

    fn inst(&mut self, id: InstId, way: &Way) -> Result<(), NoPipe> {
        let inst = &self.body.insts[id];
        match &inst.op {
            Op::Int(_) | Op::Zero => Ok(()),
            Op::Bin(nicforge_ir::BinOp::Div | nicforge_ir::BinOp::Rem, a, b)
                if !divides_by_wires(self.low.ty(*a), self.low.constant(*b)) =>
            {
                self.no("a division takes many cycles")
            }
            op if op.effects().is_pure() => {
                if let Some(number) = self.folded(id) {
                    let result = inst.results[0];
                    self.low.rename(result);
                    self.low.know(result, number);
                    return Ok(());
                }
                // Operands are read before the result gets its name: a loop's next trip uses its last one's.
                let result = inst.results[0];
                let name = self.low.fresh_of(result);
                let mut wires = self.low.wires(id);
                self.low.rename_to(result, &name);
                if let Some(last) = wires.last_mut() {
                    last.name = name;
                }
                for wire in wires {
                    self.put(&wire.name, wire.width, wire.value, wire.delay);
                }
                Ok(())
            }
            Op::Extract { .. }
            | Op::Load { .. }
            | Op::Skip { .. }
            | Op::Trim { .. }
            | Op::Emit { .. }
            | Op::Reset { .. }
            | Op::Len { .. } => self.packet_op(id),
            Op::Drop { reason, .. } => {
                self.exit(way, kind::DROP, number(32, u64::from(reason.as_u32())));
                Ok(())
            }
            Op::Generate { event, args } => {
                let name = self.dag.program.events[*event].name.clone();
                let (kind, number) = match name.as_str() {
                    "net_send" => (kind::SEND, self.low.u32(args[1])),
                    "stack_recv" => (kind::STACK, number(32, 0)),
                    "host_recv" => (kind::HOST_PACKET, number(32, 0)),
                    _ => {
                        return self.no(&format!("`{name}` may come beside other events of the same packet"));
                    }
                };
                self.certain(&self.packet())?;
                self.exit(way, kind, number);
                Ok(())
            }
            Op::Lookup { .. }
            | Op::Contains { .. }
            | Op::Update { .. }
            | Op::Delete { .. }
            | Op::Commute { .. } => self.table_op(id, way),
            Op::Store { .. } => self.no("bytes of the packet are overwritten in place"),
            Op::PktCsum { .. } => self.no("a checksum over the payload"),
            Op::Random => self.no("random numbers"),
            Op::Log { .. } => self.no("a message to the developer"),
            _ => self.no("byte strings in tables"),
        }
    }

    /// The number that an op on numbers gives.
    fn folded(&self, id: InstId) -> Option<u64> {
        let inst = &self.body.insts[id];
        let ty = |value: ValueId| (self.low.width(value) as u8, self.low.ty(value).is_signed());
        match &inst.op {
            Op::Bin(op, a, b) => {
                let (bits, signed) = ty(*a);
                Some(arith::bin(*op, bits, signed, self.low.constant(*a)?, self.low.constant(*b)?))
            }
            Op::Cmp(op, a, b) => {
                let (bits, signed) = ty(*a);
                Some(u64::from(arith::cmp(*op, bits, signed, self.low.constant(*a)?, self.low.constant(*b)?)))
            }
            Op::Un(op, a) => Some(arith::un(*op, ty(*a).0, self.low.constant(*a)?)),
            Op::Cast(a) => {
                let (bits, signed) = ty(*a);
                Some(arith::cast(self.low.constant(*a)?, bits, signed, ty(inst.results[0]).0))
            }
            _ => None,
        }
    }
}

fn text(cursor: &Cursor) -> String {
    match cursor {
        Cursor::At(at) => number(16, u64::from(*at)),
        Cursor::Signal(signal, _) => signal.clone(),
    }
}

fn most(cursor: &Cursor) -> u32 {
    match cursor {
        Cursor::At(at) => *at,
        Cursor::Signal(_, most) => *most,
    }
}
