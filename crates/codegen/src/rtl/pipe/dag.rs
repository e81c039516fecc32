//! A handler without control flow: every op is a wire, whatever way the packet takes.
//!
//! Regions are walked with the condition under which they run. Loops are written out; a value that
//! is the same number on every way is a constant, so that loop counters leave no trace. Where ways
//! join, values are chosen by condition. What changes something happens under its condition: an
//! entry's value and whether it is there are chosen step by step, and written once, at the end.
//!
//! A table may be asked for several keys, by ways that exclude each other or at once; an event
//! changes the entry of one of them, and asks for no other one behind that. So nobody needs to know
//! whether two keys are the same. Keys of an array whose `range`s do not meet never are the same:
//! entries of all of them may change. Of an array or a hash table for which that is not enough keys
//! are asked for in turn, or all at once (`at_once`): each finds what was changed under those
//! before it, so keys have an order in which every way asks for them. What an event inserts into
//! such a table after a refusal is refused too, so that simulators can say which insertions these
//! are.
//!
//! Where ways join on which different headers were emitted, all lists are kept, and the packet
//! leaves by one of several exits.
//!
//! Handlers of internal events are part of it (`events`).
//!
//! A packet may lead to several things one behind the other: logs, messages to the host, writes
//! into its memory, and what becomes of itself.
//!
//! A pipe takes programs for which that holds. Others run on an engine; [`NoPipe`] says why, with
//! the place.

pub mod beside;
mod division;
mod edits;
mod elapsed;
mod entries;
mod events;
mod flow;
mod guards;
mod logs;
mod ops;
mod packet;
pub mod patches;
mod pieces;
mod ragged;
pub mod range;
mod reread;
pub mod strings;
mod sums;
mod ways;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use nicforge_ir::interp::arith;
use nicforge_ir::{
    BlockId, Body, CommuteOp, Direction, EventId, Inst, InstId, Op, Program, Span, TableId,
    TableKind, Type, ValueDef, ValueId,
};

use super::super::cfg::only_computes;
use super::super::device::LUTS;
use super::super::expr::{Lower, Wire, at_least, divides_by_wires, mark, used};
use super::super::shape::{Bits, number};
use super::super::tables::TableForm;
use super::super::timing;
use super::super::trigger::Trigger;
use crate::abi::left as kind;
use crate::artifact::LogFormat;
use beside::Question;
use edits::Edited;
use events::Waiting;
use patches::Patch;
use pieces::Piece;
use ragged::Ragged;
use range::Range;
use reread::Own;
use strings::Moved;
use ways::gate;
pub use ways::opposite;

/// Most bytes of a frame that go through the pipe.
pub const MOST_WINDOW: u32 = 384;
/// A place that no frame reaches.
const BEYOND: u32 = 1 << 15;
/// Lists of emitted headers that are kept where ways join.
const MOST_LISTS: usize = 16;

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

/// Headers that were emitted on some of the ways that joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Emitted {
    /// Conditions that hold on these ways, and not on all others.
    when: Vec<String>,
    /// Bytes, and how many.
    parts: Vec<(String, u32)>,
    /// How many of the bytes in front of others there are, if that is data.
    ragged: Option<Ragged>,
}

/// The packet on a way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    cursor: Cursor,
    /// Signal of 16 bits: where the frame ends.
    end: String,
    /// Bytes that are known to be there from the frame's first one on.
    has: u32,
    /// What was emitted so far: one list, or several of which the ways that joined say which it is.
    emitted: Vec<Emitted>,
    /// What was overwritten where it lies.
    edited: Option<Edited>,
    /// An `extract` of which it is not known yet whether it succeeded: its result, and the cursor
    /// if it did not.
    doubt: Option<(ValueId, Box<Cursor>)>,
}

/// Fates of a packet, or of a part of it.
#[derive(Clone, Debug)]
pub struct Exit {
    pub when: Way,
    /// What is known on the way.
    pub given: Given,
    pub kind: u64,
    /// The packet, if there is one, goes on.
    pub stays: bool,
    /// Port or number of the reason, 32 bits.
    pub number: String,
    /// Of a write into the host's memory: where to, of a log its number; 64 bits.
    pub addr: Option<String>,
    /// Bytes of strings in tables, in place of the packet's or to be put there.
    pub moved: Option<Moved>,
    /// New headers, and bytes that were overwritten in place.
    pub header: Vec<(String, u32)>,
    /// Bytes of them, where payload begins, and where it ends; 16 bits each.
    pub hlen: String,
    pub from: String,
    pub end: String,
    /// Bytes that were overwritten anywhere in the payload.
    pub patches: Vec<Patch>,
    /// Where the cursor is, if that is known, and how many bytes of headers were emitted.
    pub cursor: Option<u32>,
    pub emitted: u32,
}

/// Conditions that hold, `‹c›` or `!‹c›`.
pub type Given = BTreeSet<String>;

/// What a way has made of a table's entry: whether it is there, its value, and by which of the
/// table's changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    hit: String,
    value: String,
    changes: Vec<usize>,
}

/// What a way has made of state: entries that it has asked for, by table and key, and the stream of
/// random numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slots {
    entries: BTreeMap<(usize, usize), Slot>,
    /// The stream's signal, if a number was drawn.
    stream: Option<String>,
}

/// A change of an entry.
#[derive(Clone, Debug)]
pub struct Change {
    /// Number of the key.
    pub key: usize,
    pub when: String,
    /// Conditions under which a later change takes the place of this one.
    pub unless: Vec<String>,
    /// None: the entry is deleted.
    pub value: Option<String>,
    pub given: Given,
}

/// A key of a table that is changed.
#[derive(Clone, Debug)]
pub struct Key {
    pub text: String,
    /// What is known wherever it is asked for.
    pub given: Vec<Given>,
    /// Of arrays: between which numbers it lies.
    pub range: Range,
    /// Where it is asked for first.
    pub span: Span,
}

/// The name of a signal of the entry under a key, before keys have ports.
pub fn under(signals: &str, field: &str, key: usize) -> String {
    format!("{signals}_{field}#{key}")
}

/// One table in the pipe.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Tables that are changed.
    pub keys: Vec<Key>,
    pub changes: Vec<Change>,
    /// Conditions under which an insertion is refused, with what holds on their ways.
    pub refused: Vec<(String, Given)>,
    /// Of tables that hash and are asked in turn, those under which one is made.
    pub inserted: Vec<String>,
    /// Keys, and conditions under which their entries are used, which says what is evicted.
    pub uses: Vec<(usize, String)>,
    /// Of byte strings: keys under which bytes are read, and appended, and what is known where that
    /// is done.
    pub read: Vec<(usize, Given)>,
    pub stored: Vec<(usize, Given)>,
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
    /// In the order of the interpreter.
    pub exits: Vec<Exit>,
    pub logs: Vec<LogFormat>,
    pub asked: Vec<Question>,
    /// Bytes of the frame that are looked at.
    pub window: u32,
    pub notes: HashMap<String, String>,
    /// Wires by width and value, so that nothing is computed twice.
    made: HashMap<(u32, String), String>,
    /// Of each wire, which bits of which others it puts together.
    pieces: HashMap<String, Vec<Piece>>,
    /// Bits of all wires that are more than other names of bits.
    logic: u64,
    /// Names of wires that depend on entries of tables that are changed.
    stateful: BTreeSet<String>,
    /// Tables whose keys are asked for in turn, by number, and one for which that would help.
    pub in_turn: BTreeSet<usize>,
    pub again: Option<usize>,
    /// Those of them that give all entries at once: what was changed under the keys before is put
    /// in beside the table.
    pub at_once: BTreeSet<usize>,
    /// Conditions that an event is a tick, of each timer so far.
    ticks: Vec<String>,
}

/// A way out of a loop, or to its next trip, and what there is then.
struct Left {
    way: Way,
    values: Vec<Known>,
    slots: Slots,
    packet: Option<Packet>,
}

/// A loop that is written out.
struct LoopFrame {
    breaks: Vec<Left>,
    continues: Vec<Left>,
    /// What was not known about the packet before the loop.
    doubt: Option<(ValueId, Box<Cursor>)>,
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
    slots: Slots,
    /// The conditions that ways are made of.
    conditions: HashMap<String, Vec<String>>,
    /// What is known on a way, also where others joined it.
    given: HashMap<String, Given>,
    loops: Vec<LoopFrame>,
    /// Internal events whose handlers have not run, in their order, and how many there were.
    waiting: VecDeque<Waiting>,
    received: u32,
    /// What was appended to byte strings.
    appended: Vec<Own>,
    /// The ways that handlers' ends are reached by, and what there is then; the first one that was
    /// taken counts, the last one is what remains.
    ended: Vec<(Way, Slots)>,
    /// Between which numbers a value lies here: each way gives it a constant, or a condition on the
    /// way says so.
    bounds: HashMap<ValueId, Range>,
    /// Where the op that is looked at comes from.
    span: Span,
}

/// Ends of a region where it goes on.
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
            logs: Vec::new(),
            asked: Vec::new(),
            window: 1,
            notes: HashMap::new(),
            made: HashMap::new(),
            pieces: HashMap::new(),
            logic: 0,
            stateful: BTreeSet::new(),
            in_turn: BTreeSet::new(),
            again: None,
            at_once: BTreeSet::new(),
            ticks: Vec::new(),
        }
    }
}

impl Dag<'_, '_> {
    /// True if a table shows a packet's entries one behind the other.
    pub fn asks_in_turn(&self, table: usize) -> bool {
        self.in_turn.contains(&table) && !self.at_once.contains(&table)
    }
}

impl<'a, 'b, 'c> Walk<'a, 'b, 'c> {
    /// Adds a handler of events from outside and what these lead to. Bytes of messages are in the
    /// window too.
    pub fn handler(
        dag: &'c mut Dag<'a, 'b>,
        low: Lower<'a>,
        body: &'a Body,
        trigger: Trigger,
    ) -> Result<Lower<'a>, NoPipe> {
        let span = Span::default();
        let mut walk = Walk {
            dag,
            low,
            body,
            packet: None,
            slots: Slots::default(),
            conditions: HashMap::new(),
            given: HashMap::new(),
            loops: Vec::new(),
            waiting: VecDeque::new(),
            received: 0,
            appended: Vec::new(),
            ended: Vec::new(),
            bounds: HashMap::new(),
            span,
        };
        // An event is a frame, a message, or a tick of one timer.
        let (frame, tick) = (mark("for_frame"), mark("tick"));
        let (way, atoms) = match trigger {
            Trigger::Message(_) => (mark("for_message"), vec![opposite(&frame), opposite(&tick)]),
            Trigger::Tick(number) => {
                let ticks = format!("{tick} && {} == 8'd{number}", mark("port"));
                let way = walk.wire("ticks", 1, ticks, timing::carry(8));
                let others = walk.dag.ticks.iter().map(|other| opposite(other));
                let atoms = [opposite(&frame), tick, way.clone()].into_iter().chain(others);
                let atoms = atoms.collect();
                walk.dag.ticks.push(way.clone());
                (way, atoms)
            }
            Trigger::Frame | Trigger::Internal => (frame.clone(), vec![frame, opposite(&tick)]),
        };
        walk.given.insert(way.clone(), atoms.into_iter().collect());
        if let Trigger::Message(_) = trigger {
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
        } else if trigger == Trigger::Frame {
            walk.packet = Some(Packet {
                cursor: Cursor::At(0),
                end: mark("length"),
                has: 0,
                emitted: vec![Emitted::default()],
                edited: None,
                doubt: None,
            });
        }
        walk.region(body.entry(), Some(way))?;
        walk.receive_all()?;
        Ok(walk.low)
    }

    fn no<T>(&self, reason: &str) -> Result<T, NoPipe> {
        Err(NoPipe { reason: reason.to_string(), span: self.span })
    }

    fn put(&mut self, name: &str, width: u32, value: String, delay: u32) {
        if let Some(file) = self.span.file {
            let source = &self.dag.program.files[file];
            let path = source.path.rsplit('/').next().unwrap_or_default();
            self.dag
                .notes
                .insert(name.to_string(), format!("{path}:{}", self.span.line_col(&source.text).0));
        }
        // Names of entries' signals have the number of a key behind this mark.
        if used(&value).any(|below| below.contains('#') || self.dag.stateful.contains(below)) {
            self.dag.stateful.insert(name.to_string());
        }
        if delay > 0 {
            self.dag.logic += u64::from(width);
        }
        self.note_pieces(name, width, &value, delay);
        self.dag.wires.push(Wire { name: name.to_string(), width, value, delay });
    }

    fn wire(&mut self, wanted: &str, width: u32, value: String, delay: u32) -> String {
        if let Some(name) = self.dag.made.get(&(width, value.clone())) {
            return mark(name);
        }
        let name = self.low.fresh(wanted);
        self.dag.made.insert((width, value.clone()), name.clone());
        self.put(&name, width, value, delay);
        mark(&name)
    }

    fn result(&mut self, value: ValueId, text: String, delay: u32) {
        let width = self.low.width(value);
        if delay > 0
            && let Some(name) = self.dag.made.get(&(width, text.clone()))
        {
            self.low.rename_to(value, name);
            return;
        }
        let name = self.low.rename(value);
        self.dag.made.insert((width, text.clone()), name.clone());
        self.put(&name, width, text, delay);
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
        let numbers: Option<Vec<u64>> = from.iter().map(|(_, known)| known.number).collect();
        let ends = |numbers: Vec<u64>| Some((*numbers.iter().min()?, *numbers.iter().max()?));
        match numbers.and_then(ends) {
            Some(range) => self.bounds.insert(target, range),
            None => self.bounds.remove(&target),
        };
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
        let width = self.low.width(target);
        if from.len() >= MANY {
            let texts: Vec<(Way, String)> =
                from.iter().map(|(way, known)| (way.clone(), known.text.clone())).collect();
            if let Some(text) = self.taken_in_pieces(width, &texts) {
                return self.result(target, text, 0);
            }
        }
        let ways = self.among(from.iter().map(|(way, _)| way.clone()).collect());
        let from: Vec<(&Way, &str)> =
            ways.iter().zip(from).map(|(way, (_, known))| (way, known.text.as_str())).collect();
        let (text, delay) = taken(width, &from);
        self.result(target, text, delay);
    }
}

/// Ways from which on a value is not looked for one by one.
const MANY: usize = 5;

/// The text of whichever way was taken, which is one of these, and how long that takes.
fn taken(width: u32, from: &[(&Way, &str)]) -> (String, u32) {
    let ways: Option<Vec<&String>> = from.iter().map(|(way, _)| way.as_ref()).collect();
    if let Some(ways) = ways.filter(|ways| ways.len() >= MANY) {
        // Zero is what nobody says, and a number's bits are those of its way.
        let terms = || ways.iter().zip(from).filter(|(_, (_, text))| *text != number(width, 0));
        let one = |(way, (_, text)): (&&String, &(&Way, &str))| {
            format!("({{{width}{{{way}}}}} & {text})")
        };
        let text: Vec<String> = terms().map(one).collect();
        let inputs = terms().map(|(_, (_, text))| if text.contains('‹') { 2 } else { 1 }).sum();
        return match text.is_empty() {
            true => (number(width, 0), 0),
            false => (text.join(" | "), timing::gathered(inputs)),
        };
    }
    let mut text = String::new();
    for (way, value) in &from[..from.len() - 1] {
        text.push_str(&format!("{} ? {value} : ", way.as_deref().unwrap_or("1'b1")));
    }
    text.push_str(from[from.len() - 1].1);
    (text, timing::mux(2 * from.len() as u32))
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
