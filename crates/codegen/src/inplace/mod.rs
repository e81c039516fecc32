//! Handlers that change the frame and table entries where they lie, for targets that run C on whole
//! frames.
//!
//! [`packet`] turns the packet's cursor into offsets and the emitted headers into stores at the
//! point where the packet leaves; [`tables`] turns table ops into accesses through entry pointers;
//! [`state`] is what is known at a point of a handler. A [`Target`] says how the text around that
//! is spelled.

pub mod packet;
mod rewound;
mod runs;
pub mod state;
pub mod tables;

use std::collections::HashMap;

use nicforge_ir::{
    BlockId, Body, BufSource, InstId, Op, TableId, TableKind, Type, ValueDef, ValueId,
};

use crate::c::Emitter;
use crate::c::body::{AtOnce, Dialect, Joined, Unsupported};
use crate::c::runs::Run;
use rewound::stores_over_headers;
use state::{Cursor, Emits, Emitted, EntryPointer, State};

/// An emitter of such a handler.
pub type E<'a, T> = Emitter<'a, InPlace<T>>;

/// A target's spelling of what is not the same everywhere.
pub trait Target: Sized {
    /// Bytes from the frame's start that an access may reach.
    const REACH: u64;
    /// Bytes that a frame cannot be shorter than while a handler runs.
    const SHORTEST: u32 = 0;
    /// How the frame is passed to functions of the runtime.
    const FRAME: &'static str;
    /// The next number of the event's random stream.
    const RANDOM: &'static str;
    /// C constant that is 0 where code is traced line by line, and loops shall run as they are
    /// written.
    const TRACED: Option<&'static str> = None;

    /// C name of a table.
    fn table_name(&self, table: TableId) -> &str;

    /// True if functions of the runtime take pointers into tables.
    fn plain_pointers(_e: &E<'_, Self>) -> bool {
        true
    }

    /// True if inserting an entry into a table of this kind leaves the others where they are.
    fn entries_stay(&self, kind: TableKind) -> bool;

    /// Prints an op that is neither arithmetic, control, packet nor table: where packets go, time,
    /// logs. See [`Dialect::statement`].
    fn statement(e: &mut E<'_, Self>, inst: InstId, last: bool) -> Result<bool, Unsupported>;

    /// Declares and reads a parameter that is no packet.
    fn parameter(e: &mut E<'_, Self>, param: ValueId);

    /// See [`Dialect::straight_line`].
    fn straight_line(_e: &mut E<'_, Self>, _insts: &[InstId]) {}

    /// The statement that ends the C function.
    fn end_of_handler(e: &mut E<'_, Self>);

    // ---- packets ----------------------------------------------------------------------------------------

    /// Prints what makes `at` a checked offset: gives the address of `size` bytes there and the
    /// condition under which they are there.
    fn place_at(e: &mut E<'_, Self>, at: &str, size: u32) -> (String, String);

    /// Called where a loop begins with the cursor in its variable, which depends on the way to
    /// there.
    fn cursor_enters_loop(_e: &mut E<'_, Self>) {}

    /// Prints the cut of the unread rest, `rest` bytes, to `keep` bytes, if `ok`.
    fn trim(e: &mut E<'_, Self>, ok: &str, keep: &str, rest: &str);

    /// Prints the append of `by` zero bytes to the frame, if `ok`.
    fn extend(e: &mut E<'_, Self>, ok: &str, by: &str);

    /// True if the frame's start may be moved before it leaves, so that it does not become too
    /// short.
    fn may_move_early(_e: &E<'_, Self>) -> bool {
        true
    }

    /// Called before an instruction is printed.
    fn before(_e: &mut E<'_, Self>, _inst: InstId) {}

    /// Called behind an instruction, where control goes on to the next one.
    fn after(_e: &mut E<'_, Self>, _inst: InstId) {}

    /// Prints the move of the frame's start by `by` bytes (negative: room for headers); `constant`
    /// if it is one.
    fn move_head(e: &mut E<'_, Self>, by: &str, constant: Option<i64>);

    /// Prints the check that the frame has room for `total` bytes of headers, if the target does
    /// not know.
    fn check_headers(e: &mut E<'_, Self>, total: u32);

    /// Prints the store of staged headers at the frame's start.
    fn unstage(e: &mut E<'_, Self>);

    /// The line that stages a header.
    fn stage(name: &str, size: u32) -> String;

    /// The lines that stage headers where none is staged.
    fn stage_all(_e: &E<'_, Self>, list: &[Emitted]) -> Vec<String> {
        let each = list.iter().map(|item| Self::stage(&item.name, item.size));
        std::iter::once("staged_len = 0;".to_string()).chain(each).collect()
    }

    // ---- tables -----------------------------------------------------------------------------------------

    /// C type of a table's entries.
    fn entry_type(e: &E<'_, Self>, table: TableId) -> String;

    /// True if an entry is a struct with the value as its member `value`.
    fn wraps(e: &E<'_, Self>, table: TableId) -> bool {
        e.program.tables[table].buf.is_some()
    }

    /// Prints the declaration of `pointer` to the entry of `key`, null on a miss.
    fn find(e: &mut E<'_, Self>, table: TableId, key: ValueId, pointer: &str);

    /// Prints the declaration of `pointer` to the entry of the longest prefix of `key` that has at
    /// most so many bits, null on a miss.
    fn find_bits(e: &mut E<'_, Self>, table: TableId, key: ValueId, bits: ValueId, pointer: &str);

    /// Prints the declaration of `pointer` to the entry whose integer of type `part`, `at` bytes
    /// into its value, is least, null in an empty table; gives the address of its key.
    fn least(e: &mut E<'_, Self>, table: TableId, at: u32, part: Type, pointer: &str) -> String;

    /// Prints what has to happen when an entry is used through a pointer that an earlier op found.
    fn found_again(_e: &mut E<'_, Self>, _table: TableId, _pointer: &str) {}

    /// Called where an entry is written through a pointer.
    fn written(_e: &mut E<'_, Self>, _table: TableId, _indent: &str) {}

    /// Prints what the target needs to believe that an entry of an array exists.
    fn exists(_e: &mut E<'_, Self>, _pointer: &str) {}

    /// Prints what goes before the insertion of an entry that is not there; gives the C expression
    /// that inserts it and is true on success.
    fn insert(
        e: &mut E<'_, Self>,
        table: TableId,
        key: ValueId,
        value: ValueId,
        indent: &str,
    ) -> String;

    /// C expression of a new, zero entry; null if the table refuses.
    fn create(e: &mut E<'_, Self>, table: TableId, key: ValueId) -> String;

    /// C expression that counts a refused insertion and is false.
    fn refuse(e: &mut E<'_, Self>, table: TableId) -> String;

    /// C expression that deletes and says whether there was such an entry.
    fn delete(e: &mut E<'_, Self>, table: TableId, key: ValueId) -> String;

    /// C statement of a commutative update of the integer at lvalue `at`, whose type is `part`.
    fn commute(
        e: &E<'_, Self>,
        table: TableId,
        op: nicforge_ir::CommuteOp,
        at: &str,
        part: Type,
        amount: &str,
    ) -> String;
}

/// Facts about one handler.
pub struct InPlace<T> {
    pub target: T,
    pub uses_cursor: bool,
    pub uses_staging: bool,
    /// The handler writes into the frame where it lies, at or behind the cursor, so loaded bytes
    /// may have changed since.
    pub stores: bool,
    /// It does so after having set the cursor back, so extracted bytes may have changed since, too.
    pub stores_over_headers: bool,
    /// The cursor is set back somewhere.
    pub resets: bool,
    /// The frame is cut somewhere.
    pub trims: bool,
    /// The frame's start is moved before a cut: where it was is in the C variable `start`.
    pub uses_start: bool,
    /// Offset in the frame each `extract` read from, where it is a constant.
    pub extracted: HashMap<InstId, u32>,
    /// Bytes of the frame a truth value proves.
    pub proves: HashMap<ValueId, u32>,
    /// Program order of instructions, to tell what is written later.
    order: HashMap<InstId, usize>,
}

impl<T: Target> InPlace<T> {
    pub fn new(body: &Body, target: T) -> InPlace<T> {
        let mut order = HashMap::new();
        let (mut stores, mut resets, mut trims) = (false, false, false);
        body.for_each_inst(body.entry(), &mut |inst| {
            order.insert(inst, order.len());
            stores |= body.insts[inst].op.overwrites();
            resets |= matches!(body.insts[inst].op, Op::Reset { .. });
            trims |= matches!(body.insts[inst].op, Op::Trim { .. });
        });
        InPlace {
            target,
            uses_cursor: false,
            uses_staging: false,
            stores,
            resets,
            trims: trims && T::SHORTEST > 0,
            uses_start: false,
            stores_over_headers: stores && stores_over_headers(body),
            extracted: HashMap::new(),
            proves: HashMap::new(),
            order,
        }
    }

    /// True if the variable of `value` gets another value after `inst`.
    pub fn written_after(&self, e: &E<'_, T>, inst: InstId, value: ValueId) -> bool {
        let here = self.order[&inst];
        let behind = |inst: &InstId| self.order.get(inst).is_some_and(|at| *at > here);
        e.body.values.keys().filter(|other| *other != value && e.vars.same(*other, value)).any(
            |other| {
                let ValueDef::Result(def, nth) = e.body.values[other].def else { return true };
                if behind(&def) {
                    return true;
                }
                // Results are written where regions end, not where they begin.
                let ends = |region: BlockId| {
                    let Some(end) = e.body.blocks[region].insts.last() else { return false };
                    let kept = match &e.body.insts[*end].op {
                        Op::Yield(values) => {
                            values.get(nth as usize).is_none_or(|v| e.vars.same(*v, value))
                        }
                        _ => true,
                    };
                    behind(end) && !kept
                };
                match e.body.insts[def].op {
                    Op::If { then, other, .. } => ends(then) || ends(other),
                    // Who leaves a loop in the midst of it writes its results there.
                    Op::Loop { body, .. } => {
                        let mut found = false;
                        e.body.for_each_inst(body, &mut |inst| found |= behind(&inst));
                        found
                    }
                    _ => false,
                }
            },
        )
    }

    /// Facts that follow from `cond` being `holds`.
    fn facts(e: &mut E<'_, T>, cond: ValueId, holds: bool) {
        let op = e.body.def_op(cond).cloned();
        match op {
            Some(Op::Cmp(nicforge_ir::CmpOp::Eq, a, b))
                if e.constant(b) == Some(0) && is_bool(e, a) =>
            {
                Self::facts(e, a, !holds);
            }
            Some(Op::Cmp(nicforge_ir::CmpOp::Ne, a, b))
                if e.constant(b) == Some(0) && is_bool(e, a) =>
            {
                Self::facts(e, a, holds);
            }
            Some(Op::Un(nicforge_ir::UnOp::Not, a)) if is_bool(e, a) => Self::facts(e, a, !holds),
            Some(Op::Bin(nicforge_ir::BinOp::And, a, b)) if holds => {
                Self::facts(e, a, true);
                Self::facts(e, b, true);
            }
            Some(Op::Bin(nicforge_ir::BinOp::Or, a, b)) if !holds => {
                Self::facts(e, a, false);
                Self::facts(e, b, false);
            }
            _ => {
                // Truth that lies in memory tells the verifier nothing of packets and pointers.
                if holds
                    && !e.forgets
                    && let Some(bytes) = e.dialect.proves.get(&cond)
                {
                    e.state.proved = e.state.proved.max(*bytes);
                }
                if let Cursor::Static { at, unless: Some((ok, before)) } = e.state.cursor
                    && ok == cond
                {
                    e.state.cursor =
                        Cursor::Static { at: if holds { at } else { before }, unless: None };
                }
                let told = !(e.forgets && holds);
                let of = |entry: &&mut EntryPointer| told && entry.hit == Some(cond);
                for entry in e.state.entries.iter_mut().filter(of) {
                    entry.known = Some(holds);
                }
            }
        }
    }
}

fn is_bool<T: Target>(e: &E<'_, T>, value: ValueId) -> bool {
    e.body.ty(value) == Type::BOOL
}

/// True if a region moves packets: their cursor, their headers or their length.
fn moves_packets(body: &Body, block: BlockId) -> bool {
    let mut found = false;
    body.for_each_inst(block, &mut |inst| {
        found |= matches!(
            body.insts[inst].op,
            Op::Extract { .. }
                | Op::Skip { .. }
                | Op::Trim { .. }
                | Op::Extend { .. }
                | Op::Emit { .. }
                | Op::Reset { .. }
        );
    });
    found
}

/// True if an op takes the packet, so that the handler has none any more.
fn consumes<T: Target>(e: &E<'_, T>, op: &Op) -> bool {
    match op {
        op if op.drops() => true,
        Op::Generate { event, args } => {
            let params = &e.program.events[*event].params;
            let taken = |(param, arg): (&nicforge_ir::Param, &ValueId)| {
                e.body.ty(*arg) == Type::Packet && !param.borrowed
            };
            params.iter().zip(args).any(taken)
        }
        _ => false,
    }
}

impl<T: Target> Dialect for InPlace<T> {
    type State = State;

    fn statement(e: &mut E<'_, T>, inst: InstId, last: bool) -> Result<bool, Unsupported> {
        let data = &e.body.insts[inst];
        let result = data.results.first().copied();
        match data.op.clone() {
            Op::Random => e.define(inst, result.expect("one result"), T::RANDOM),
            Op::Extract { .. } => packet::read(e, inst, None, true),
            Op::Load { off, .. } => packet::read(e, inst, Some(off), false),
            Op::Store { off, value, .. } => packet::store(e, inst, off, value),
            Op::Skip { len, .. } => packet::skip(e, inst, len),
            Op::Trim { len, .. } => packet::trim(e, inst, len),
            Op::Extend { len, .. } => packet::extend(e, inst, len),
            Op::Emit { value, .. } => packet::emit(e, inst, value),
            Op::Reset { .. } => packet::reset(e),
            Op::Len { .. } => {
                let text = packet::rest_length(e);
                e.define(inst, result.expect("one result"), &text);
            }
            Op::PktCsum { sum, len, .. } => {
                let off = packet::cursor_text(e);
                let text =
                    format!("nf_csum_frame({}, {off}, {}, {})", T::FRAME, e.text(sum), e.text(len));
                e.define(inst, result.expect("one result"), &text);
            }
            Op::Lookup { table, key } => tables::lookup(e, inst, table, key),
            Op::LookupBits { table, key, bits } => {
                tables::lookup_bits(e, inst, table, [key, bits]);
            }
            Op::Contains { table, key } => tables::contains(e, inst, table, key),
            Op::Update { table, key, value } => tables::update(e, inst, table, key, value),
            Op::Least { table, path } => tables::least(e, inst, table, &path),
            Op::Delete { table, key } => tables::delete(e, inst, table, key),
            Op::Commute { op, table, key, path, amount } => {
                tables::commute(e, op, table, key, &path, amount)
            }
            Op::BufAppend { table, key, source: BufSource::Value(value) } => {
                tables::append_value(e, inst, table, key, value);
            }
            Op::BufAppend { table, key, source: BufSource::Packet { len, .. } } => {
                tables::append_packet(e, inst, table, key, len);
            }
            Op::BufLen { table, key } => tables::buf_len(e, inst, table, key),
            Op::BufRead { table, key, off } => tables::buf_read(e, inst, table, key, off),
            Op::BufClear { table, key } => tables::buf_clear(e, table, key),
            Op::Call { func, .. } => {
                return Err(Unsupported {
                    message: format!("call of `{}` was not inlined", e.program.funcs[func].name),
                    help: "run the pass `inline` before generating code".into(),
                    span: data.span,
                });
            }
            op => {
                let ended = T::statement(e, inst, last)?;
                if consumes(e, &op) {
                    packet::gone(e);
                }
                return Ok(ended);
            }
        }
        Ok(false)
    }

    fn parameter(e: &mut E<'_, T>, param: ValueId) {
        T::parameter(e, param);
    }

    fn straight_line(e: &mut E<'_, T>, insts: &[InstId]) {
        T::straight_line(e, insts);
    }

    fn before(e: &mut E<'_, T>, inst: InstId) {
        T::before(e, inst);
    }

    fn after(e: &mut E<'_, T>, inst: InstId) {
        T::after(e, inst);
    }

    fn assume(e: &mut E<'_, T>, cond: ValueId, holds: bool) {
        Self::facts(e, cond, holds);
    }

    fn source(e: &E<'_, T>, agg: ValueId) -> Option<String> {
        if let Some((_, pointer, bytes)) = e.state.wire.iter().find(|(value, ..)| *value == agg) {
            return (*bytes <= e.state.proved).then(|| format!("(*{pointer})"));
        }
        let holds = |entry: &&EntryPointer| entry.content == Some(agg) && entry.known == Some(true);
        let entry = e.state.entries.iter().find(holds)?;
        Some(tables::value_of(e, entry.table, &entry.name))
    }

    fn join(e: &mut E<'_, T>, a: &State, b: &State) -> Joined<Self> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (mut a, mut b) = (a.clone(), b.clone());
        if a.cursor != b.cursor {
            for (side, lines) in [(&mut a, &mut first), (&mut b, &mut second)] {
                e.state = side.clone();
                lines.extend(packet::materialise_cursor(e));
                side.cursor = e.state.cursor.clone();
            }
        }
        if a.emits != b.emits {
            for (side, lines) in [(&mut a, &mut first), (&mut b, &mut second)] {
                e.state = side.clone();
                lines.extend(packet::materialise_emits(e));
                side.emits = Emits::Staged;
            }
        }
        let entries = a
            .entries
            .iter()
            .filter_map(|x| {
                let y = b.entries.iter().find(|y| y.name == x.name && y.key == x.key)?;
                let mut both = x.clone();
                both.known = if x.known == y.known { x.known } else { None };
                both.content = if x.content == y.content { x.content } else { None };
                Some(both)
            })
            .collect();
        let wire = a.wire.iter().filter(|w| b.wire.contains(w)).cloned().collect();
        let recent = a.recent.iter().filter(|r| b.recent.contains(r)).cloned().collect();
        let hashes = a.hashes.iter().filter(|h| b.hashes.contains(h)).cloned().collect();
        let (pinned, proved, moved) = (a.pinned, a.proved.min(b.proved), a.moved || b.moved);
        let (cursor, emits) = (a.cursor, a.emits);
        let state = State { cursor, emits, proved, entries, wire, pinned, moved, recent, hashes };
        Joined { state, first, second }
    }

    fn enter_loop(e: &mut E<'_, T>, body: BlockId) {
        if e.state.cursor == Cursor::Dynamic {
            T::cursor_enters_loop(e);
        }
        if moves_packets(e.body, body) {
            packet::materialise_cursor(e).into_iter().for_each(|l| e.line(&l));
            packet::materialise_emits(e).into_iter().for_each(|l| e.line(&l));
            e.state.proved = 0;
            e.state.pinned = true;
            e.state.moved |= e.dialect.trims;
        } else if let Cursor::Static { unless: Some(_), .. } = e.state.cursor {
            packet::materialise_cursor(e).into_iter().for_each(|l| e.line(&l));
        }
        // A later trip may find what an earlier one changed.
        let mut written = Vec::new();
        e.body.for_each_inst(body, &mut |inst| {
            written.extend(e.body.insts[inst].op.effects().table_write)
        });
        written.into_iter().for_each(|table| e.state.entries_moved(table));
        e.state.recent.clear();
    }

    fn run(e: &mut E<'_, T>, run: &Run) -> Option<AtOnce> {
        runs::run(e, run)
    }

    fn trip_starts(e: &mut E<'_, T>, params: &[ValueId]) {
        if !e.forgets {
            return;
        }
        let mut names: Vec<String> = params
            .iter()
            .filter(|param| e.body.ty(**param).is_int() && e.body.ty(**param) != Type::BOOL)
            .map(|param| e.vars.name(*param).to_string())
            .collect();
        if e.state.cursor == Cursor::Dynamic {
            names.push("cursor".to_string());
        }
        names
            .iter()
            .filter(|name| !name.is_empty())
            .for_each(|name| e.line(&format!("NF_FORGET({name});")));
        if e.open_loops {
            e.line("NF_MAY_BREAK;");
        }
    }

    fn leave_loop(e: &mut E<'_, T>, before: &State) {
        e.state.pinned = before.pinned;
    }

    fn end_of_handler(e: &mut E<'_, T>) {
        T::end_of_handler(e);
    }
}
