//! What each op does: packets, tables, and what is not known.

use nicforge_ir::verify::MAX_FRAME;
use nicforge_ir::{InstId, Op, TableId, TableKind, Type, ValueId, Words};

use super::value::fit;
use super::{ARRAYS, ARRAYS_EACH, Front, Refused};
use crate::graph::{Effect, Expr};
use crate::term::Op as TermOp;

/// What [`super::Lowered::unknown`] calls the port a packet came in by.
pub const PORT: &str = "the port of arrival";

/// Bytes that an `extend` clears one by one at most.
pub(super) const MOST_CLEARED: u64 = 512;

/// A constant of 64 bits.
pub(super) fn word(value: u64) -> Expr {
    Expr::Const(64, value)
}

/// Bytes as a number, the first of them lowest; zero if there are none.
pub(super) fn joined(bytes: &[Expr]) -> Expr {
    let whole = bytes.iter().cloned().reduce(|low, high| Expr::concat(high, low));
    whole.unwrap_or(Expr::Const(8, 0))
}

/// Stores of bytes from an address on, in words.
pub(super) fn stores(to: Expr, bytes: &[Expr]) -> Vec<Effect> {
    let store = |(index, chunk): (usize, &[Expr])| Effect::Store {
        address: Expr::add(to.clone(), word(8 * index as u64)),
        bytes: chunk.len() as u8,
        value: joined(chunk),
    };
    bytes.chunks(8).enumerate().map(store).collect()
}

impl Front<'_> {
    /// Translates an op without regions.
    pub fn op(&mut self, id: InstId) -> Result<(), Refused> {
        self.small(id)?;
        if self.exact_op(id) {
            return Ok(());
        }
        let body = self.body();
        let inst = &body.insts[id];
        let result = |n: usize| inst.results[n];
        let parts = match &inst.op {
            Op::Int(_)
            | Op::Log { .. }
            | Op::NewPacket { .. }
            | Op::Emit { .. }
            | Op::Drop { .. } => {
                self.charged(id, Vec::new());
                return Ok(());
            }
            Op::Zero => {
                let effects = self.set_zero(result(0));
                self.charged(id, effects);
                return Ok(());
            }
            Op::Bin(op, a, b) => vec![self.binary(*op, *a, *b)],
            Op::Cmp(op, a, b) => vec![self.compare(*op, *a, *b)],
            Op::Un(op, a) => vec![self.unary(*op, *a)],
            Op::Cast(a) => vec![self.cast(*a, body.ty(result(0)).bits().unwrap_or(64))],
            Op::Select { cond, then, other } => {
                let cond = self.int(*cond);
                let (a, b) = (self.parts(*then), self.parts(*other));
                a.into_iter().zip(b).map(|(a, b)| Expr::ite(cond.clone(), a, b)).collect()
            }
            Op::Get { agg, path } => match self.get(*agg, path, body.ty(result(0))) {
                Some(parts) => parts,
                None => {
                    return self
                        .anything(id, "an element at two changing indices, or among very many");
                }
            },
            Op::Set { agg, path, value } => match self.replaced(*agg, path, *value) {
                Some(parts) => parts,
                None => {
                    return self
                        .anything(id, "an element at two changing indices, or among very many");
                }
            },
            Op::ConstElem { array, index } => {
                let def = &self.program.consts[*array];
                let size = self.shapes.size(def.elem) as u64;
                let count = def.bytes.len() as u64 / size.max(1);
                let index = self.int_as(*index, 64);
                let base = ARRAYS + u64::from(array.as_u32()) * ARRAYS_EACH;
                let offset = Expr::binary(TermOp::Mul, index.clone(), word(size));
                let read = self.read(result(0), Expr::add(word(base), offset));
                let zero = self.set_zero(result(0));
                self.charged(id, Vec::new());
                self.either(id, Expr::binary(TermOp::Ult, index, word(count)), read, zero);
                return Ok(());
            }
            Op::Now => vec![Expr::Slot(self.now)],
            Op::InPort { .. } => vec![Expr::Slot(self.port)],
            Op::Crypto { op, .. } if !op.changes_packet() => return self.anything(id, "a digest"),
            Op::Crypto { op, .. } => {
                let word = op.word();
                return self
                    .refuse(id, format!("what `nf_{word}` leaves in the packet is unknown"));
            }
            Op::Regex { .. } => return self.anything(id, "what matches"),
            Op::Hash { .. } => return self.anything(id, "a hash"),
            Op::Random => return self.anything(id, "a random number"),
            Op::CsumAdd { .. } | Op::PktCsum { .. } => {
                self.note(id, "a checksum");
                let bits = body.ty(result(0)).bits().unwrap_or(32);
                vec![fit(Expr::Fresh(16), 16, bits)]
            }
            Op::Len { .. } => vec![Expr::sub(Expr::Slot(self.end), Expr::Slot(self.cursor))],
            Op::Extract { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Skip { .. }
            | Op::Trim { .. }
            | Op::Extend { .. }
            | Op::Reset { .. } => {
                self.packet(id);
                return Ok(());
            }
            Op::Lookup { table, key } | Op::LookupBits { table, key, .. } => {
                self.charged(id, Vec::new());
                let hit = self.hit(id, *table, Some(*key));
                let mut yes = self.set(result(0), vec![Expr::Const(1, 1)]);
                yes.extend(self.set_unknown(result(1)));
                let mut no = self.set(result(0), vec![Expr::Const(1, 0)]);
                no.extend(self.set_zero(result(1)));
                self.either(id, hit, yes, no);
                return Ok(());
            }
            Op::Contains { table, key } | Op::Update { table, key, .. } => {
                vec![self.hit(id, *table, Some(*key))]
            }
            Op::Delete { table, .. }
            | Op::BufAppend { table, .. }
            | Op::BufGenerate { table, .. } => {
                vec![self.hit(id, *table, None)]
            }
            Op::Least { .. } => return self.anything(id, "contents of a table or byte string"),
            Op::BufLen { .. } => return self.anything(id, "a byte string's length"),
            Op::Commute { .. } | Op::BufClear { .. } => {
                self.charged(id, Vec::new());
                return Ok(());
            }
            Op::Extern { name, .. } => {
                return self
                    .refuse(id, format!("nobody knows how long the C function `{name}` takes"));
            }
            Op::BufRead { .. } | Op::FibLookup { .. } => {
                self.charged(id, Vec::new());
                self.note(id, "contents of a table or byte string");
                let mut yes = self.set(result(0), vec![Expr::Const(1, 1)]);
                yes.extend(self.set_unknown(result(1)));
                let mut no = self.set(result(0), vec![Expr::Const(1, 0)]);
                no.extend(self.set_zero(result(1)));
                self.either(id, Expr::Fresh(1), yes, no);
                return Ok(());
            }
            Op::Call { func, .. } => {
                let name = &self.program.funcs[*func].name;
                return self.refuse(id, format!("a call of `{name}`; inline functions first"));
            }
            Op::If { .. }
            | Op::Loop { .. }
            | Op::Yield(_)
            | Op::Break { .. }
            | Op::Continue { .. }
            | Op::Return(_)
            | Op::Generate { .. } => return self.refuse(id, "control in the place of a value"),
        };
        match inst.op {
            Op::Now => self.note(id, "the time of arrival"),
            Op::InPort { .. } => self.note(id, PORT),
            _ => {}
        }
        let effects = self.set(result(0), parts);
        self.charged(id, effects);
        Ok(())
    }

    fn note(&mut self, id: InstId, what: &'static str) {
        let place = self.place(id);
        self.unknown.push((place, what));
    }

    /// The op's results are unknown.
    fn anything(&mut self, id: InstId, what: &'static str) -> Result<(), Refused> {
        if self.exact.is_some() {
            self.open(id, what);
            return Ok(());
        }
        self.note(id, what);
        let mut effects = Vec::new();
        for value in &self.body().insts[id].results {
            effects.extend(self.set_unknown(*value));
        }
        self.charged(id, effects);
        Ok(())
    }

    /// Condition that an entry is there: arrays have all of theirs, of other tables it is unknown.
    fn hit(&mut self, id: InstId, table: TableId, key: Option<ValueId>) -> Expr {
        let def = &self.program.tables[table];
        self.note(id, "contents of a table or byte string");
        match (def.kind, key, def.key) {
            (TableKind::Array, Some(key), Type::Int { .. }) => {
                let key = self.int_as(key, 64);
                Expr::binary(TermOp::Ult, key, word(def.capacity.into()))
            }
            _ => Expr::Fresh(1),
        }
    }

    /// Reads a value from memory.
    pub(super) fn read(&mut self, value: ValueId, address: Expr) -> Vec<Effect> {
        let ty = self.body().ty(value);
        let size = self.shapes.size(ty);
        let at = |by: usize| Expr::add(address.clone(), word(by as u64));
        let temp = Expr::Slot(self.temp);
        if let Some(bits) = ty.bits() {
            let load = Effect::Load { slot: self.temp, address, bytes: size as u8 };
            let mut effects = vec![load];
            effects.extend(self.set(value, vec![fit(temp, 64, bits)]));
            return effects;
        }
        let mut effects = Vec::new();
        let slots = self.slots(value).to_vec();
        for (index, chunk) in slots.chunks(8).enumerate() {
            let bytes = chunk.len() as u8;
            effects.push(Effect::Load { slot: self.temp, address: at(8 * index), bytes });
            let byte = |(n, slot): (usize, &_)| {
                Effect::Set(*slot, Expr::extract(temp.clone(), 8 * n as u8, 8))
            };
            effects.extend(chunk.iter().enumerate().map(byte));
        }
        let held = slots.iter().map(|slot| Expr::Slot(*slot)).collect();
        let cleaned = slots.iter().zip(self.clean(ty, held));
        let changed = cleaned.filter(|(slot, part)| *part != Expr::Slot(**slot));
        effects.extend(changed.map(|(slot, part)| Effect::Set(*slot, part)));
        effects
    }

    /// Appends zeroes, which is only followed where their number is known.
    fn extend(&mut self, id: InstId, len: ValueId) {
        let end = Expr::Slot(self.end);
        let more = Expr::zext(self.int_as(len, 32), 64);
        let behind = Expr::add(Expr::zext(end.clone(), 64), more);
        let long = Expr::binary(TermOp::Ult, word(MAX_FRAME.into()), behind.clone());
        let mut yes = Vec::new();
        match self.body().def_op(len) {
            Some(Op::Int(bytes)) if *bytes <= MOST_CLEARED => {
                for at in 0..*bytes {
                    let to = Expr::add(Expr::zext(end.clone(), 64), word(self.packet + at));
                    yes.push(Effect::Store { address: to, bytes: 1, value: Expr::Const(8, 0) });
                }
            }
            _ => self.note(id, "bytes by which the packet grew"),
        }
        yes.push(Effect::Set(self.end, Expr::extract(behind, 0, 32)));
        let ok = self.body().insts[id].results[0];
        yes.extend(self.set(ok, vec![Expr::Const(1, 1)]));
        let no = self.set(ok, vec![Expr::Const(1, 0)]);
        self.charged(id, Vec::new());
        self.either(id, Expr::not(long), yes, no);
    }

    /// Ops on the packet: a check against its end, then what they do.
    fn packet(&mut self, id: InstId) {
        let inst = &self.body().insts[id];
        if let Op::Extend { len, .. } = inst.op {
            return self.extend(id, len);
        }
        let (cursor, end) = (Expr::Slot(self.cursor), Expr::Slot(self.end));
        let wide = |offset: Expr| Expr::zext(offset, 64);
        let size = |this: &Self, value: ValueId| this.shapes.size(this.body().ty(value)) as u64;
        // Offset from the cursor and bytes that must be there.
        let (offset, bytes) = match &inst.op {
            Op::Extract { .. } => (word(0), word(size(self, inst.results[1]))),
            Op::Load { off, .. } => {
                (wide(self.int_as(*off, 32)), word(size(self, inst.results[1])))
            }
            Op::Store { off, value, .. } => (wide(self.int_as(*off, 32)), word(size(self, *value))),
            Op::Skip { len, .. } | Op::Trim { len, .. } => (word(0), wide(self.int_as(*len, 32))),
            _ => {
                let start = Effect::Set(self.cursor, Expr::Const(32, 0));
                self.charged(id, vec![start]);
                return;
            }
        };
        let behind = Expr::add(Expr::add(wide(cursor.clone()), offset.clone()), bytes);
        let short = Expr::binary(TermOp::Ult, wide(end), behind.clone());
        let address = Expr::add(word(self.packet), Expr::add(wide(cursor), offset));
        let moved = Expr::extract(behind, 0, 32);
        let mut yes = Vec::new();
        match &inst.op {
            Op::Extract { .. } => {
                yes = self.read(inst.results[1], address);
                yes.push(Effect::Set(self.cursor, moved));
            }
            Op::Load { .. } => yes = self.read(inst.results[1], address),
            Op::Store { value, .. } => {
                let bytes = self.bytes(*value);
                yes = stores(address, &bytes);
            }
            Op::Skip { .. } => yes.push(Effect::Set(self.cursor, moved)),
            _ => yes.push(Effect::Set(self.end, moved)),
        }
        yes.extend(self.set(inst.results[0], vec![Expr::Const(1, 1)]));
        let mut no = self.set(inst.results[0], vec![Expr::Const(1, 0)]);
        if let Some(value) = inst.results.get(1) {
            no.extend(self.set_zero(*value));
        }
        self.charged(id, Vec::new());
        self.either(id, Expr::not(short), yes, no);
    }
}
