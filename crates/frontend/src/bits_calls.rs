//! The compiler's functions on the bits of integers, and what it says to its optimiser.

use nicforge_ir::{BinOp, CmpOp, Op, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::func::FnLower;
use crate::unit::Lowered;

impl<'a> FnLower<'_, 'a, '_> {
    /// A call of one of them.
    pub fn bits_call(&mut self, name: &str, args: &'a [Node]) -> Option<Lowered<Option<ValueId>>> {
        let name = name.strip_prefix("__builtin_")?;
        if matches!(name, "assume" | "unreachable" | "prefetch") {
            return Some(Ok(None));
        }
        if name.starts_with("rotateleft") || name.starts_with("rotateright") {
            let [value, by] = args else { return None };
            return Some(self.rotated(value, by, name.starts_with("rotateleft")).map(Some));
        }
        if matches!(name, "abs" | "labs" | "llabs") {
            let value = self.expr(args.first()?);
            return Some(value.map(|value| Some(self.distance(value))));
        }
        // Without the size: of `long` and of `long long` as well.
        let count = match name.trim_end_matches('l') {
            "popcount" => Self::popcount,
            "parity" => Self::parity,
            "ctz" => Self::zeros_below,
            "clz" => Self::zeros_above,
            "ffs" => Self::first_set,
            "clrsb" => Self::sign_bits,
            _ => return None,
        };
        let value = self.expr(args.first()?);
        Some(value.map(|value| {
            let ty = self.as_unsigned(self.b.body.ty(value));
            let value = self.b.cast(value, ty);
            let count = count(self, value, ty);
            Some(self.b.cast(count, Type::i(32)))
        }))
    }

    fn rotated(&mut self, value: &'a Node, by: &'a Node, left: bool) -> Lowered<ValueId> {
        let (value, by) = (self.expr(value)?, self.expr(by)?);
        let ty = self.b.body.ty(value);
        let by = self.b.cast(by, ty);
        let mask = self.b.int(u64::from(ty.bits().unwrap_or(64)) - 1, ty);
        let back = self.op(Op::Un(UnOp::Neg, by), ty);
        let [by, back] = [by, back].map(|n| self.op(Op::Bin(BinOp::And, n, mask), ty));
        let (up, down) = if left { (by, back) } else { (back, by) };
        let high = self.op(Op::Bin(BinOp::Shl, value, up), ty);
        let low = self.op(Op::Bin(BinOp::Shr, value, down), ty);
        Ok(self.op(Op::Bin(BinOp::Or, high, low), ty))
    }

    /// The distance from zero; of the least number there is that number.
    fn distance(&mut self, value: ValueId) -> ValueId {
        let ty = self.b.body.ty(value);
        let (zero, minus) = (self.b.int(0, ty), self.op(Op::Un(UnOp::Neg, value), ty));
        let negative = self.b.cmp(CmpOp::Lt, value, zero);
        self.op(Op::Select { cond: negative, then: minus, other: value }, ty)
    }

    fn popcount(&mut self, value: ValueId, ty: Type) -> ValueId {
        self.op(Op::Un(UnOp::Popcount, value), ty)
    }

    fn parity(&mut self, value: ValueId, ty: Type) -> ValueId {
        let (count, one) = (self.popcount(value, ty), self.b.int(1, ty));
        self.op(Op::Bin(BinOp::And, count, one), ty)
    }

    /// Zeros below the lowest bit that is set: the bits that `x ^ (x - 1)` has beside that one.
    fn zeros_below(&mut self, value: ValueId, ty: Type) -> ValueId {
        let one = self.b.int(1, ty);
        let less = self.op(Op::Bin(BinOp::Sub, value, one), ty);
        let not = self.op(Op::Un(UnOp::Not, value), ty);
        let below = self.op(Op::Bin(BinOp::And, not, less), ty);
        self.popcount(below, ty)
    }

    /// Zeros above the highest bit that is set: all but those that it is spread to downwards.
    fn zeros_above(&mut self, value: ValueId, ty: Type) -> ValueId {
        let bits = u64::from(ty.bits().unwrap_or(64));
        let mut spread = value;
        let mut by = 1;
        while by < bits {
            let down = self.b.int(by, ty);
            let down = self.op(Op::Bin(BinOp::Shr, spread, down), ty);
            spread = self.op(Op::Bin(BinOp::Or, spread, down), ty);
            by *= 2;
        }
        let above = self.op(Op::Un(UnOp::Not, spread), ty);
        self.popcount(above, ty)
    }

    /// The place of the lowest bit that is set, from 1; 0 if there is none.
    fn first_set(&mut self, value: ValueId, ty: Type) -> ValueId {
        let (zeros, one) = (self.zeros_below(value, ty), self.b.int(1, ty));
        let place = self.op(Op::Bin(BinOp::Add, zeros, one), ty);
        let zero = self.b.int(0, ty);
        let none = self.b.cmp(CmpOp::Eq, value, zero);
        self.op(Op::Select { cond: none, then: zero, other: place }, ty)
    }

    /// Bits behind the highest one that are like it.
    fn sign_bits(&mut self, value: ValueId, ty: Type) -> ValueId {
        let (bits, one) = (u64::from(ty.bits().unwrap_or(64)), self.b.int(1, ty));
        let signed = Type::Int { bits: bits as u8, signed: true };
        let (last, value) = (self.b.int(bits - 1, signed), self.b.cast(value, signed));
        let sign = self.op(Op::Bin(BinOp::Shr, value, last), signed);
        let differ = self.op(Op::Bin(BinOp::Xor, value, sign), signed);
        let differ = self.b.cast(differ, ty);
        let zeros = self.zeros_above(differ, ty);
        self.op(Op::Bin(BinOp::Sub, zeros, one), ty)
    }
}
