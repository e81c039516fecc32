//! Values of αIR as expressions: integers, bytes of aggregates, members.

use nicforge_ir::interp::{Part, Val};
use nicforge_ir::{BinOp, CmpOp, InstId, Op, Proj, Type, UnOp, ValueId};

use super::{Front, MOST_BYTES, Refused};
use crate::graph::{Effect, Expr, Slot};
use crate::term::Op as TermOp;

/// Most elements among which an index that is not constant may choose.
const MOST_ELEMENTS: u64 = 256;

/// An expression of `from` bits as one of `to` bits.
pub fn fit(value: Expr, from: u8, to: u8) -> Expr {
    match from.cmp(&to) {
        std::cmp::Ordering::Equal => value,
        std::cmp::Ordering::Less => Expr::zext(value, to),
        std::cmp::Ordering::Greater => Expr::extract(value, 0, to),
    }
}

/// The bytes of an expression of `bits` bits, lowest first.
pub fn split(value: &Expr, bits: u8, bytes: usize) -> Vec<Expr> {
    let whole = fit(value.clone(), bits, 8 * bytes as u8);
    (0..bytes).map(|at| Expr::extract(whole.clone(), 8 * at as u8, 8)).collect()
}

impl Front<'_> {
    /// Slots of a value of the handler being translated; packets have none.
    pub fn slots(&mut self, value: ValueId) -> &[Slot] {
        let ty = self.program.handlers[self.handler].body.ty(value);
        let (out, shapes) = (&mut self.out, &self.shapes);
        self.values.entry((self.handler, value)).or_insert_with(|| match ty {
            Type::Int { bits, .. } => vec![out.slot(bits)],
            Type::Packet => Vec::new(),
            _ => (0..shapes.size(ty)).map(|_| out.slot(8)).collect(),
        })
    }

    /// The number a value is, if it is a constant of the program.
    pub fn constant(&self, value: ValueId) -> Option<u64> {
        match self.body().def_op(value) {
            Some(Op::Int(raw)) => Some(*raw),
            _ => None,
        }
    }

    /// An integer.
    pub fn int(&mut self, value: ValueId) -> Expr {
        match (self.constant(value), self.body().ty(value).bits()) {
            (Some(raw), Some(bits)) => Expr::Const(bits, raw),
            _ => self.slots(value).first().map_or(Expr::Const(1, 0), |slot| Expr::Slot(*slot)),
        }
    }

    /// An integer as `bits` bits, zero-extended.
    pub fn int_as(&mut self, value: ValueId, bits: u8) -> Expr {
        let from = self.body().ty(value).bits().unwrap_or(1);
        fit(self.int(value), from, bits)
    }

    /// Contents of the value's slots.
    pub fn parts(&mut self, value: ValueId) -> Vec<Expr> {
        match self.body().ty(value) {
            Type::Int { .. } => vec![self.int(value)],
            _ => self.slots(value).iter().map(|slot| Expr::Slot(*slot)).collect(),
        }
    }

    /// A value's bytes.
    pub fn bytes(&mut self, value: ValueId) -> Vec<Expr> {
        let ty = self.body().ty(value);
        match ty.bits() {
            Some(bits) => split(&self.int(value), bits, self.shapes.size(ty)),
            None => self.parts(value),
        }
    }

    /// Bits of each byte of a type that mean something.
    fn meaning(&self, ty: Type) -> Vec<u8> {
        let size = self.shapes.size(ty);
        match self.shapes.decode(ty, &vec![0xff; size]) {
            Val::Bytes(bytes) => bytes.to_vec(),
            _ => vec![0xff; size],
        }
    }

    /// Bytes with padding set to zero.
    pub fn clean(&self, ty: Type, bytes: Vec<Expr>) -> Vec<Expr> {
        let keep = |(byte, mask): (Expr, u8)| match mask {
            0xff => byte,
            0 => Expr::Const(8, 0),
            _ => Expr::binary(TermOp::And, byte, Expr::Const(8, mask.into())),
        };
        bytes.into_iter().zip(self.meaning(ty)).map(keep).collect()
    }

    /// Bytes of an aggregate nothing is known about.
    pub fn unknown_bytes(&self, ty: Type) -> Vec<Expr> {
        if !ty.is_aggregate() {
            return Vec::new();
        }
        self.clean(ty, vec![Expr::Fresh(8); self.shapes.size(ty)])
    }

    /// Sets a value to something unknown.
    pub fn set_unknown(&mut self, value: ValueId) -> Vec<Effect> {
        let parts = match self.body().ty(value) {
            Type::Int { bits, .. } => vec![Expr::Fresh(bits)],
            ty => self.unknown_bytes(ty),
        };
        self.set(value, parts)
    }

    /// Sets a value to zero.
    pub fn set_zero(&mut self, value: ValueId) -> Vec<Effect> {
        let parts = match self.body().ty(value) {
            Type::Int { bits, .. } => vec![Expr::Const(bits, 0)],
            ty => vec![Expr::Const(8, 0); self.shapes.size(ty)],
        };
        self.set(value, parts)
    }

    /// Sets what the value's slots hold.
    pub fn set(&mut self, value: ValueId, parts: Vec<Expr>) -> Vec<Effect> {
        self.slots(value).iter().zip(parts).map(|(slot, part)| Effect::Set(*slot, part)).collect()
    }

    /// Refuses values too large to be taken apart.
    pub fn small(&self, inst: InstId) -> Result<(), Refused> {
        let data = &self.body().insts[inst];
        for value in data.results.iter().copied().chain(data.op.operands()) {
            let size = self.shapes.size(self.body().ty(value));
            if size > MOST_BYTES {
                let reason =
                    format!("a value of {size} bytes; values up to {MOST_BYTES} are analysed");
                return self.refuse(inst, reason);
            }
        }
        Ok(())
    }

    pub fn binary(&mut self, op: BinOp, a: ValueId, b: ValueId) -> Expr {
        let ty = self.body().ty(a);
        let (bits, signed) = (ty.bits().unwrap_or(64), ty.is_signed());
        let (a, b) = (self.int(a), self.int(b));
        let zero = || Expr::Const(bits, 0);
        let within = || Expr::binary(TermOp::Ult, b.clone(), Expr::Const(bits, bits.into()));
        let negative = |x: &Expr| Expr::extract(x.clone(), bits - 1, 1);
        let negated = |x: Expr| Expr::sub(Expr::Const(bits, 0), x);
        let size = |x: &Expr| match signed {
            true => Expr::ite(negative(x), negated(x.clone()), x.clone()),
            false => x.clone(),
        };
        let plain = match op {
            BinOp::Add => TermOp::Add,
            BinOp::Mul => TermOp::Mul,
            BinOp::And => TermOp::And,
            BinOp::Or => TermOp::Or,
            BinOp::Xor => TermOp::Xor,
            BinOp::Sub => return Expr::sub(a, b),
            BinOp::Shl => return Expr::ite(within(), Expr::binary(TermOp::Shl, a, b), zero()),
            BinOp::Shr if signed => {
                let most = Expr::Const(bits, u64::from(bits) - 1);
                return Expr::binary(TermOp::Ashr, a, Expr::ite(within(), b.clone(), most));
            }
            BinOp::Shr => return Expr::ite(within(), Expr::binary(TermOp::Lshr, a, b), zero()),
            BinOp::Div | BinOp::Rem => {
                // By magnitude, then the sign: right for the least number too, whose magnitude is
                // itself.
                let divides = Expr::binary(TermOp::Eq, b.clone(), zero());
                let (x, y) = (size(&a), size(&b));
                let (op, default, flips) = match op {
                    BinOp::Div => (
                        TermOp::UDiv,
                        zero(),
                        Expr::binary(TermOp::Xor, negative(&a), negative(&b)),
                    ),
                    _ => (TermOp::URem, a.clone(), negative(&a)),
                };
                let whole = Expr::binary(op, x, y);
                let whole = match signed {
                    true => Expr::ite(flips, negated(whole.clone()), whole),
                    false => whole,
                };
                return Expr::ite(divides, default, whole);
            }
        };
        Expr::binary(plain, a, b)
    }

    pub fn compare(&mut self, op: CmpOp, a: ValueId, b: ValueId) -> Expr {
        let less = if self.body().ty(a).is_signed() { TermOp::Slt } else { TermOp::Ult };
        let (a, b) = (self.int(a), self.int(b));
        match op {
            CmpOp::Eq => Expr::binary(TermOp::Eq, a, b),
            CmpOp::Ne => Expr::not(Expr::binary(TermOp::Eq, a, b)),
            CmpOp::Lt => Expr::binary(less, a, b),
            CmpOp::Ge => Expr::not(Expr::binary(less, a, b)),
            CmpOp::Gt => Expr::binary(less, b, a),
            CmpOp::Le => Expr::not(Expr::binary(less, b, a)),
        }
    }

    pub fn unary(&mut self, op: UnOp, a: ValueId) -> Expr {
        let bits = self.body().ty(a).bits().unwrap_or(64);
        let a = self.int(a);
        match op {
            UnOp::Not => Expr::not(a),
            UnOp::Neg => Expr::sub(Expr::Const(bits, 0), a),
            UnOp::Popcount => {
                let bit = |at: u8| Expr::zext(Expr::extract(a.clone(), at, 1), bits);
                (1..bits).fold(bit(0), |sum, at| Expr::add(sum, bit(at)))
            }
            UnOp::Bswap => {
                let bytes = split(&a, bits, usize::from(bits / 8));
                bytes.into_iter().reduce(Expr::concat).unwrap_or(a)
            }
        }
    }

    pub fn cast(&mut self, a: ValueId, to: u8) -> Expr {
        let ty = self.body().ty(a);
        let from = ty.bits().unwrap_or(64);
        let a = self.int(a);
        if ty.is_signed() && to > from { Expr::sext(a, to) } else { fit(a, from, to) }
    }

    /// Where a path may lead: conditions on an index that is not constant, and the part. `None`:
    /// too many places.
    fn places_of(&mut self, agg: ValueId, path: &[Proj]) -> Option<Vec<(Option<Expr>, Part)>> {
        let ty = self.body().ty(agg);
        let mut open = path.iter().filter_map(|step| match step {
            Proj::Index(value) => Some(*value).filter(|value| self.constant(*value).is_none()),
            Proj::Field(_) => None,
        });
        let (index, more) = (open.next(), open.next());
        let at = |this: &Self, given: u64| {
            this.shapes.locate(ty, path, |value| this.constant(value).unwrap_or(given))
        };
        let Some(index) = index else {
            return Some(at(self, 0).map(|part| (None, part)).into_iter().collect());
        };
        if more.is_some() {
            return None;
        }
        let bits = self.body().ty(index).bits().unwrap_or(64);
        let value = self.int(index);
        let mut list = Vec::new();
        for number in 0..=MOST_ELEMENTS {
            if bits < 64 && number >> bits != 0 {
                return Some(list);
            }
            let Some(part) = at(self, number) else { return Some(list) };
            let here = Expr::binary(TermOp::Eq, value.clone(), Expr::Const(bits, number));
            list.push((Some(here), part));
        }
        None
    }

    /// Reads a part of an aggregate; `None` if nothing is known about it.
    pub fn get(&mut self, agg: ValueId, path: &[Proj], result: Type) -> Option<Vec<Expr>> {
        let bytes = self.parts(agg);
        let zero = match result.bits() {
            Some(bits) => vec![Expr::Const(bits, 0)],
            None => vec![Expr::Const(8, 0); self.shapes.size(result)],
        };
        let places = self.places_of(agg, path)?;
        Some(places.into_iter().rev().fold(zero, |other, (here, part)| {
            let value = read(&bytes, part);
            match here {
                None => value,
                Some(here) => {
                    let choose = |(a, b)| Expr::ite(here.clone(), a, b);
                    value.into_iter().zip(other).map(choose).collect()
                }
            }
        }))
    }

    /// The aggregate with a part replaced; `None` if it may be many.
    pub fn replaced(&mut self, agg: ValueId, path: &[Proj], value: ValueId) -> Option<Vec<Expr>> {
        let mut bytes = self.parts(agg);
        let new = self.parts(value);
        for (here, part) in self.places_of(agg, path)? {
            let old = bytes.clone();
            write(&mut bytes, part, &new);
            if let Some(here) = here {
                for (byte, old) in bytes.iter_mut().zip(old) {
                    if *byte != old {
                        *byte = Expr::ite(here.clone(), byte.clone(), old);
                    }
                }
            }
        }
        Some(bytes)
    }
}

/// A part of bytes: one integer, or the bytes of an aggregate.
pub fn read(bytes: &[Expr], part: Part) -> Vec<Expr> {
    let first = part.at as usize / 8;
    let Some(bits) = part.ty.bits() else {
        return bytes[first..first + part.bits as usize / 8].to_vec();
    };
    let pieces = pieces(part).map(|(byte, low, count)| match count {
        8 => bytes[byte].clone(),
        _ => Expr::extract(bytes[byte].clone(), low, count),
    });
    let value = pieces.reduce(|low, high| Expr::concat(high, low)).unwrap_or(Expr::Const(bits, 0));
    let have = part.bits as u8;
    vec![if part.ty.is_signed() && have < bits {
        Expr::sext(value, bits)
    } else {
        fit(value, have, bits)
    }]
}

pub fn write(bytes: &mut [Expr], part: Part, new: &[Expr]) {
    let first = part.at as usize / 8;
    let Some(bits) = part.ty.bits() else {
        bytes[first..first + new.len()].clone_from_slice(new);
        return;
    };
    let value = fit(new[0].clone(), bits, part.bits as u8);
    let mut done = 0;
    for (byte, low, count) in pieces(part) {
        let mut piece = Expr::extract(value.clone(), done, count);
        if low > 0 {
            piece = Expr::concat(piece, Expr::extract(bytes[byte].clone(), 0, low));
        }
        if low + count < 8 {
            piece = Expr::concat(
                Expr::extract(bytes[byte].clone(), low + count, 8 - low - count),
                piece,
            );
        }
        bytes[byte] = piece;
        done += count;
    }
}

/// Bytes a part covers, each with its first bit in it and the number of bits, lowest first.
fn pieces(part: Part) -> impl Iterator<Item = (usize, u8, u8)> {
    let end = part.at + part.bits;
    let mut at = part.at;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let low = at % 8;
            let count = (8 - low).min(end - at);
            let piece = (at as usize / 8, low as u8, count as u8);
            at += count;
            piece
        })
    })
}
