//! The compiler's arithmetic that says whether a result fits: `__builtin_add_overflow` and its like
//! (GCC's manual, "Built-in Functions to Perform Arithmetic with Overflow Checking").
//!
//! Operands and result have types of their own, and the result is as if there were bits without
//! end. So an operand is taken apart into a sign and its distance from zero, which fits 64 bits for
//! every type. What is always so, as the sign of an unsigned number, folds away.

use nicforge_ir::{BinOp, CmpOp, Op, Type, UnOp, ValueId};

use crate::ast::Node;
use crate::func::FnLower;
use crate::unit::Lowered;

/// Operations that have such functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    Add,
    Sub,
    Mul,
}

impl Checked {
    /// The operation of a function; those for `int` and `long` differ only in what they take.
    pub fn of(name: &str) -> Option<Checked> {
        let name = name.strip_prefix("__builtin_")?.strip_suffix("_overflow")?;
        let all = [("add", Checked::Add), ("sub", Checked::Sub), ("mul", Checked::Mul)];
        let named = |word: &str| {
            let (before, behind) = name.split_once(word)?;
            let known = match before {
                "" => behind.is_empty(),
                "s" | "u" => matches!(behind, "" | "l" | "ll"),
                _ => false,
            };
            known.then_some(())
        };
        all.into_iter().find_map(|(word, op)| named(word).map(|()| op))
    }
}

/// A number: a sign, its distance from zero, and if that needs more than 64 bits.
#[derive(Clone, Copy)]
struct Number {
    negative: ValueId,
    distance: ValueId,
    beyond: ValueId,
}

impl<'a> FnLower<'_, 'a, '_> {
    /// A call of one of them: stores the result's low bits and gives true if that is not all of it.
    pub fn overflow_call(
        &mut self,
        op: Checked,
        node: &'a Node,
        args: &'a [Node],
    ) -> Lowered<Option<ValueId>> {
        let (a, b) = (self.expr(&args[0])?, self.expr(&args[1])?);
        let target = self.target(&args[2])?;
        let (a, mut b) = (self.number(a), self.number(b));
        if op == Checked::Sub {
            b.negative = self.op(Op::Un(UnOp::Not, b.negative), Type::BOOL);
        }
        let exact = if op == Checked::Mul { self.product(a, b) } else { self.sum(a, b) };
        let minus = self.op(Op::Un(UnOp::Neg, exact.distance), Type::U64);
        let all = self.chosen(exact.negative, minus, exact.distance);
        let cut = self.b.cast(all, target.ty);
        self.write(&target, cut, node.span)?;
        // The largest distances on either side of zero.
        let (most, least) = match target.ty {
            Type::Int { bits, signed: true } => {
                let most = u64::MAX >> (65 - bits);
                (most, most + 1)
            }
            ty => (u64::MAX >> (64 - ty.bits().unwrap_or(64)), 0),
        };
        let (most, least) = (self.b.int(most, Type::U64), self.b.int(least, Type::U64));
        let most = self.chosen(exact.negative, least, most);
        let over = self.b.cmp(CmpOp::Lt, most, exact.distance);
        Ok(Some(self.op(Op::Bin(BinOp::Or, over, exact.beyond), Type::BOOL)))
    }

    fn chosen(&mut self, cond: ValueId, then: ValueId, other: ValueId) -> ValueId {
        let ty = self.b.body.ty(then);
        self.op(Op::Select { cond, then, other }, ty)
    }

    fn number(&mut self, value: ValueId) -> Number {
        let beyond = self.b.int(0, Type::BOOL);
        let signed = matches!(self.b.body.ty(value), Type::Int { signed: true, .. });
        let distance = self.b.cast(value, Type::U64);
        if !signed {
            return Number { negative: beyond, distance, beyond };
        }
        let zero = self.b.int(0, self.b.body.ty(value));
        let negative = self.b.cmp(CmpOp::Lt, value, zero);
        let minus = self.op(Op::Un(UnOp::Neg, distance), Type::U64);
        Number { negative, distance: self.chosen(negative, minus, distance), beyond }
    }

    /// The sum: distances add up if both lie on one side of zero, else the greater one wins.
    fn sum(&mut self, a: Number, b: Number) -> Number {
        let apart = self.op(Op::Bin(BinOp::Xor, a.negative, b.negative), Type::BOOL);
        let sum = self.op(Op::Bin(BinOp::Add, a.distance, b.distance), Type::U64);
        let carry = self.b.cmp(CmpOp::Lt, sum, a.distance);
        let less = self.b.cmp(CmpOp::Lt, a.distance, b.distance);
        let down = self.op(Op::Bin(BinOp::Sub, a.distance, b.distance), Type::U64);
        let up = self.op(Op::Bin(BinOp::Sub, b.distance, a.distance), Type::U64);
        let between = self.chosen(less, up, down);
        let side = self.chosen(less, b.negative, a.negative);
        let never = self.b.int(0, Type::BOOL);
        Number {
            negative: self.chosen(apart, side, a.negative),
            distance: self.chosen(apart, between, sum),
            beyond: self.chosen(apart, never, carry),
        }
    }

    /// The product. Of halves of 32 bits, the upper two give what is beyond; if one of them is
    /// zero, the rest adds up in 64 bits.
    fn product(&mut self, a: Number, b: Number) -> Number {
        let (half, zero) = (self.b.int(32, Type::U64), self.b.int(0, Type::U64));
        let halves = |this: &mut Self, distance: ValueId| {
            let high = this.op(Op::Bin(BinOp::Shr, distance, half), Type::U64);
            let low = this.b.cast(distance, Type::U32);
            (high, this.b.cast(low, Type::U64))
        };
        let mul = |this: &mut Self, x, y| this.op(Op::Bin(BinOp::Mul, x, y), Type::U64);
        let ((a_high, a_low), (b_high, b_low)) =
            (halves(self, a.distance), halves(self, b.distance));
        let (one, other) = (mul(self, a_high, b_low), mul(self, a_low, b_high));
        let cross = self.op(Op::Bin(BinOp::Add, one, other), Type::U64);
        let low = mul(self, a_low, b_low);
        let carried = self.op(Op::Bin(BinOp::Shr, low, half), Type::U64);
        let upper = self.op(Op::Bin(BinOp::Add, cross, carried), Type::U64);
        let left = self.op(Op::Bin(BinOp::Shr, upper, half), Type::U64);
        let left = self.b.cmp(CmpOp::Ne, left, zero);
        let both = [a_high, b_high].map(|high| self.b.cmp(CmpOp::Ne, high, zero));
        let both = self.op(Op::Bin(BinOp::And, both[0], both[1]), Type::BOOL);
        Number {
            negative: self.op(Op::Bin(BinOp::Xor, a.negative, b.negative), Type::BOOL),
            distance: mul(self, a.distance, b.distance),
            beyond: self.op(Op::Bin(BinOp::Or, left, both), Type::BOOL),
        }
    }
}
