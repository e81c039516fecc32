//! Intervals of SSA values, by their definitions and the facts that hold at a place.
//!
//! SSA values never change, so a fact stays true wherever it is in scope. Everything that is not
//! understood has the range of its type, so an interval is always an over-approximation.

use std::cell::Cell;
use std::collections::HashMap;

use nicforge_ir::{BinOp, BlockId, Body, CmpOp, Op, Proj, Type, UnOp, ValueDef, ValueId};

use crate::consts::{limits, wrap};

/// A closed interval of integers.
pub type Range = (i128, i128);

/// How many definitions are followed; ranges of longer chains are those of their types.
pub const DEPTH: u32 = 24;

/// A condition that holds here: a `u1` value and its truth.
pub type Fact = (ValueId, bool);

/// Ranges of what loops count in: values, and parts of values.
pub type Counters = HashMap<(ValueId, Vec<Proj>), Range>;

/// Values that calls gave for variables, each with the value before and the ways to its integers
/// that are the same.
pub type Kept = HashMap<ValueId, (ValueId, Vec<Vec<Proj>>)>;

/// Ranges of values, for whoever asks.
pub struct Values<'b> {
    pub body: &'b Body,
    pub facts: &'b [Fact],
    pub counters: &'b Counters,
    pub kept: &'b Kept,
    /// What a bit-field's width says, of a member of a type.
    pub fields: &'b dyn Fn(Type, &[Proj]) -> Option<Range>,
    /// Number of values that may still be looked at: ways through arms double at each `if`.
    pub left: Cell<u32>,
}

/// Most values that are looked at for one answer.
pub const MOST: u32 = 5_000;

impl Values<'_> {
    /// Range of a value; `depth` definitions are followed.
    pub fn range(&self, value: ValueId, depth: u32) -> Range {
        let Type::Int { bits, signed } = self.body.ty(value) else { return (i128::MIN, i128::MAX) };
        let whole = limits(bits, signed);
        if depth == 0 || self.is_tired() {
            return whole;
        }
        let defined = self.by_definition(value, depth).unwrap_or(whole);
        let mut range = if defined.0 >= whole.0 && defined.1 <= whole.1 { defined } else { whole };
        for (cond, truth) in self.facts {
            range = self.cut(range, value, *cond, *truth, depth);
        }
        range
    }

    /// True if enough was looked at.
    fn is_tired(&self) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.left.get() == 0
    }

    fn by_definition(&self, value: ValueId, depth: u32) -> Option<Range> {
        let below = |v: ValueId| self.range(v, depth - 1);
        let Type::Int { bits, signed } = self.body.ty(value) else { return None };
        if let Some(range) = self.counters.get(&(value, Vec::new())) {
            return Some(*range);
        }
        let whole = limits(bits, signed);
        let fits = |range: Range| range.0 >= whole.0 && range.1 <= whole.1;
        match self.body.def_op(value)? {
            Op::Int(raw) => {
                let exact = wrap(i128::from(*raw), bits, signed);
                Some((exact, exact))
            }
            Op::Zero => Some((0, 0)),
            Op::Cast(inner) => Some(below(*inner)),
            Op::Un(UnOp::Neg, inner) => interval(BinOp::Sub, (0, 0), below(*inner)),
            // Taking away a part of the bits, or what a division leaves.
            Op::Bin(BinOp::Sub, a, b) if below(*a).0 >= 0 && self.is_part(*b, *a) => {
                Some((0, below(*a).1))
            }
            Op::Bin(op, a, b) => interval(*op, below(*a), below(*b)),
            Op::Get { agg, path } => {
                let declared = (self.fields)(self.body.ty(*agg), path);
                let room = declared.unwrap_or(limits(bits, signed));
                let part = self.part(*agg, path, depth - 1);
                part.filter(|part| part.0 >= room.0 && part.1 <= room.1).or(declared)
            }
            Op::Select { then, other, .. } => Some(join(below(*then), below(*other))),
            Op::If { cond, then, other, .. } => {
                let ValueDef::Result(_, number) = self.body.values[value].def else { return None };
                let arm = |block, truth| {
                    let Op::Yield(values) = &self.body.terminator(block)?.op else { return None };
                    let yielded = *values.get(number as usize)?;
                    let cut = |range, value| self.cut(range, value, *cond, truth, depth - 1);
                    // The condition is of what the arm does something to.
                    let range = match self.body.def_op(yielded) {
                        Some(Op::Bin(op, a, b)) if !self.is_part(*b, *a) => {
                            let (a, b) = (cut(below(*a), *a), cut(below(*b), *b));
                            interval(*op, a, b).filter(|range| fits(*range)).unwrap_or(whole)
                        }
                        _ => below(yielded),
                    };
                    Some(cut(range, yielded))
                };
                match (arm(*then, true), arm(*other, false)) {
                    (Some(a), Some(b)) => Some(join(a, b)),
                    (one, two) => one.or(two),
                }
            }
            _ => None,
        }
    }

    /// True if `part` is at most `whole`, which is not negative, by its definition.
    fn is_part(&self, part: ValueId, whole: ValueId) -> bool {
        match self.body.def_op(part) {
            Some(Op::Bin(BinOp::And, a, b)) => self.same(*a, whole) || self.same(*b, whole),
            Some(Op::Bin(BinOp::Rem | BinOp::Shr, a, _)) => self.same(*a, whole),
            _ => false,
        }
    }

    /// A power of two that a value is a multiple of, by its definition.
    pub fn multiple(&self, value: ValueId, depth: u32) -> u64 {
        const ANY: u64 = 1 << 63;
        let below = |value: ValueId| if depth == 0 { 1 } else { self.multiple(value, depth - 1) };
        match self.body.def_op(value) {
            Some(Op::Int(0)) => ANY,
            Some(Op::Int(known)) => 1 << known.trailing_zeros(),
            Some(Op::Cast(inner)) => below(*inner),
            Some(Op::Bin(BinOp::Add | BinOp::Sub | BinOp::Or, a, b)) => below(*a).min(below(*b)),
            Some(Op::Bin(BinOp::And, a, b)) => below(*a).max(below(*b)),
            Some(Op::Bin(BinOp::Mul, a, b)) => below(*a).saturating_mul(below(*b)).min(ANY),
            Some(Op::Bin(BinOp::Shl, a, by)) => match self.body.def_op(*by) {
                Some(Op::Int(by @ 0..63)) => below(*a).saturating_mul(1 << by).min(ANY),
                _ => below(*a),
            },
            _ => 1,
        }
    }

    /// Range of the part of a value at the end of a path, by what was written there.
    pub fn part(&self, value: ValueId, path: &[Proj], depth: u32) -> Option<Range> {
        if path.is_empty() {
            return Some(self.range(value, depth));
        }
        if depth == 0 || self.is_tired() {
            return None;
        }
        if let Some(range) = self.counters.get(&(value, path.to_vec())) {
            return Some(*range);
        }
        if let Some(before) = self.before(value, path) {
            return self.part(before, path, depth - 1);
        }
        match self.body.def_op(value)? {
            Op::Zero => Some((0, 0)),
            Op::Get { agg, path: front } => self.part(*agg, &[front, path].concat(), depth - 1),
            Op::Set { agg, path: to, value: new } => {
                if self.leads_into(path, to) {
                    return self.part(*new, &path[to.len()..], depth - 1);
                }
                self.are_apart(to, path).then(|| self.part(*agg, path, depth - 1)).flatten()
            }
            Op::Loop { init, body, .. } => {
                let ValueDef::Result(_, number) = self.body.values[value].def else { return None };
                let begin = *init.get(number as usize)?;
                let kept = self.keeps(*body, number as usize, path, depth - 1);
                kept.then(|| self.part(begin, path, depth - 1)).flatten()
            }
            Op::Select { then, other, .. } => {
                Some(join(self.part(*then, path, depth - 1)?, self.part(*other, path, depth - 1)?))
            }
            Op::If { then, other, .. } => {
                let ValueDef::Result(_, number) = self.body.values[value].def else { return None };
                let arm = |block| match &self.body.terminator(block)?.op {
                    Op::Yield(values) => {
                        Some(self.part(*values.get(number as usize)?, path, depth - 1))
                    }
                    _ => None,
                };
                // An arm that does not yield is no way here; one whose part is not known decides.
                match (arm(*then), arm(*other)) {
                    (Some(a), Some(b)) => Some(join(a?, b?)),
                    (one, two) => one.or(two)?,
                }
            }
            _ => None,
        }
    }

    /// True if two steps to parts of the same thing are the same, false if they are not.
    fn same_step(&self, a: &Proj, b: &Proj) -> Option<bool> {
        match (a, b) {
            (Proj::Index(a), Proj::Index(b)) if a != b => {
                let (a, b) = (self.range(*a, 3), self.range(*b, 3));
                (a.0 == a.1 && b.0 == b.1).then_some(a == b)
            }
            _ => Some(a == b),
        }
    }

    /// True if a way begins with all of another one.
    fn leads_into(&self, way: &[Proj], front: &[Proj]) -> bool {
        let mut steps = front.iter().zip(way);
        front.len() <= way.len() && steps.all(|(a, b)| self.same_step(a, b) == Some(true))
    }

    /// True for ways to parts that share no byte.
    fn are_apart(&self, a: &[Proj], b: &[Proj]) -> bool {
        a.iter().zip(b).any(|(a, b)| self.same_step(a, b) == Some(false))
    }

    /// The value that a call began with, if it left this part as it was.
    fn before(&self, value: ValueId, path: &[Proj]) -> Option<ValueId> {
        let (before, ways) = self.kept.get(&value)?;
        ways.iter().any(|way| way[..] == *path).then_some(*before)
    }

    /// True if a loop leaves a part of one of the values that it carries as it is.
    fn keeps(&self, block: BlockId, number: usize, path: &[Proj], depth: u32) -> bool {
        let carried = self.body.blocks[block].params[number];
        let mut kept = true;
        for_each_trip(self.body, block, 0, &mut |values: &[ValueId]| {
            kept &= self.is_kept(values[number], carried, path, depth);
        });
        kept
    }

    /// True if a value's part is that of another value, in which other parts were set.
    pub fn is_kept(&self, value: ValueId, of: ValueId, path: &[Proj], depth: u32) -> bool {
        if value == of {
            return true;
        }
        if depth == 0 || self.is_tired() {
            return false;
        }
        let below = |value: &ValueId| self.is_kept(*value, of, path, depth - 1);
        if let Some(before) = self.before(value, path) {
            return below(&before);
        }
        match self.body.def_op(value) {
            Some(Op::Set { agg, path: to, .. }) => self.are_apart(to, path) && below(agg),
            Some(Op::Select { then, other, .. }) => below(then) && below(other),
            Some(Op::If { then, other, .. }) => {
                let ValueDef::Result(_, number) = self.body.values[value].def else { return false };
                [*then, *other].iter().all(|arm| {
                    match self.body.terminator(*arm).map(|end| &end.op) {
                        Some(Op::Yield(values)) => values.get(number as usize).is_some_and(below),
                        // It leaves.
                        _ => true,
                    }
                })
            }
            Some(Op::Loop { init, body, .. }) => {
                let ValueDef::Result(_, number) = self.body.values[value].def else { return false };
                let number = number as usize;
                init.get(number).is_some_and(below) && self.keeps(*body, number, path, depth - 1)
            }
            _ => false,
        }
    }

    /// Cuts `range` of `value` by a condition's truth.
    fn cut(&self, range: Range, value: ValueId, cond: ValueId, truth: bool, depth: u32) -> Range {
        if depth == 0 {
            return range;
        }
        match self.body.def_op(cond) {
            Some(Op::Un(UnOp::Not, inner)) => self.cut(range, value, *inner, !truth, depth - 1),
            Some(Op::Cmp(op, a, b)) => {
                let op = if truth { *op } else { op.inverse() };
                if self.same(*a, value) {
                    cut_by(range, op, self.range(*b, depth - 1))
                } else if self.same(*b, value) {
                    cut_by(range, op.mirrored(), self.range(*a, depth - 1))
                } else {
                    range
                }
            }
            // `a && b` that is true and `a || b` that is false say the same of both parts.
            Some(Op::If { cond: first, then, other, .. }) => {
                let constant = |block| match &self.body.terminator(block)?.op {
                    Op::Yield(values) => match self.body.def_op(*values.last()?)? {
                        Op::Int(bit) => Some(*bit == 1),
                        _ => None,
                    },
                    _ => None,
                };
                let last = |block| match &self.body.terminator(block)?.op {
                    Op::Yield(values) => values.last().copied(),
                    _ => None,
                };
                let second = match truth {
                    true if constant(*other) == Some(false) => last(*then),
                    false if constant(*then) == Some(true) => last(*other),
                    _ => return range,
                };
                let range = self.cut(range, value, *first, truth, depth - 1);
                second.map_or(range, |second| self.cut(range, value, second, truth, depth - 1))
            }
            _ => range,
        }
    }

    /// Truth of a condition, if its parts' ranges leave no choice.
    pub fn truth(&self, cond: ValueId, depth: u32) -> Option<bool> {
        if depth == 0 || self.is_tired() {
            return None;
        }
        let below = |value: ValueId| self.truth(value, depth - 1);
        match self.body.def_op(cond)? {
            Op::Int(bit) => Some(bit & 1 == 1),
            Op::Zero => Some(false),
            Op::Un(UnOp::Not, inner) => below(*inner).map(|truth| !truth),
            Op::Cmp(op, a, b) => decided(*op, self.range(*a, depth - 1), self.range(*b, depth - 1)),
            Op::If { cond: first, then, other, .. } => {
                let ValueDef::Result(_, number) = self.body.values[cond].def else { return None };
                let arm = |block| match &self.body.terminator(block)?.op {
                    Op::Yield(values) => below(*values.get(number as usize)?),
                    _ => None,
                };
                match below(*first) {
                    Some(true) => arm(*then),
                    Some(false) => arm(*other),
                    None => arm(*then).filter(|truth| arm(*other) == Some(*truth)),
                }
            }
            _ => None,
        }
    }

    /// True if `seen` has `value`'s number: itself, or a conversion that keeps every value.
    fn same(&self, mut seen: ValueId, value: ValueId) -> bool {
        loop {
            if seen == value || self.same_read(seen, value) {
                return true;
            }
            let Some(Op::Cast(inner)) = self.body.def_op(seen) else { return false };
            let (
                Type::Int { bits: to, signed: to_signed },
                Type::Int { bits: from, signed: from_signed },
            ) = (self.body.ty(seen), self.body.ty(*inner))
            else {
                return false;
            };
            let keeps = (to_signed == from_signed && to >= from)
                || (to_signed && !from_signed && to > from);
            if !keeps {
                return false;
            }
            seen = *inner;
        }
    }

    /// True if two values were read from the same place of one aggregate value.
    fn same_read(&self, a: ValueId, b: ValueId) -> bool {
        let read = self.body.def_op(a).filter(|op| matches!(op, Op::Get { .. }));
        read.is_some() && read == self.body.def_op(b)
    }
}

fn join(a: Range, b: Range) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Calls `visit` with what a loop carries at the ends of its trips and beyond its end; `inside` is
/// the number of loops between it and a region.
fn for_each_trip(body: &Body, block: BlockId, inside: u32, visit: &mut dyn FnMut(&[ValueId])) {
    for &inst in &body.blocks[block].insts {
        match &body.insts[inst].op {
            Op::Break { depth, values } | Op::Continue { depth, values } if *depth == inside => {
                visit(values);
            }
            Op::If { then, other, .. } => {
                for_each_trip(body, *then, inside, visit);
                for_each_trip(body, *other, inside, visit);
            }
            Op::Loop { body: inner, .. } => for_each_trip(body, *inner, inside + 1, visit),
            _ => {}
        }
    }
}

/// Truth of a comparison of any two numbers of two intervals, if it is always the same.
fn decided(op: CmpOp, a: Range, b: Range) -> Option<bool> {
    let never = |op| {
        let (a, b) = (cut_by(a, op, b), cut_by(b, op.mirrored(), a));
        a.0 > a.1 || b.0 > b.1
    };
    let same = a == b && a.0 == a.1 && matches!(op, CmpOp::Eq | CmpOp::Ne);
    match (never(op), never(op.inverse())) {
        _ if same => Some(op == CmpOp::Eq),
        (true, false) => Some(false),
        (false, true) => Some(true),
        _ => None,
    }
}

fn cut_by(range: Range, op: CmpOp, other: Range) -> Range {
    match op {
        CmpOp::Lt => (range.0, range.1.min(other.1.saturating_sub(1))),
        CmpOp::Le => (range.0, range.1.min(other.1)),
        CmpOp::Gt => (range.0.max(other.0.saturating_add(1)), range.1),
        CmpOp::Ge => (range.0.max(other.0), range.1),
        CmpOp::Eq => (range.0.max(other.0), range.1.min(other.1)),
        CmpOp::Ne => range,
    }
}

/// The mathematical range of an operator's result; the caller checks that it fits the type.
pub fn interval(op: BinOp, a: Range, b: Range) -> Option<Range> {
    // Where facts contradict each other, or a loop has no trips, nothing runs: any range holds.
    if a.0 > a.1 || b.0 > b.1 {
        return Some((0, 0));
    }
    let not_negative = a.0 >= 0 && b.0 >= 0;
    if not_negative && a.0 == a.1 && b.0 == b.1 {
        let (a, b) = (a.0, b.0);
        let exact = match op {
            BinOp::Div => a.checked_div(b),
            BinOp::Rem => a.checked_rem(b),
            BinOp::And => Some(a & b),
            BinOp::Or => Some(a | b),
            BinOp::Xor => Some(a ^ b),
            _ => None,
        };
        if let Some(exact) = exact {
            return Some((exact, exact));
        }
    }
    match op {
        BinOp::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        BinOp::Sub => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        BinOp::Mul if not_negative => Some((a.0.checked_mul(b.0)?, a.1.checked_mul(b.1)?)),
        BinOp::Div if not_negative && b.0 > 0 => Some((a.0 / b.1, a.1 / b.0)),
        BinOp::Div if not_negative => Some((0, a.1)),
        BinOp::Rem if not_negative && b.0 > 0 => Some((0, a.1.min(b.1 - 1))),
        BinOp::Rem if not_negative => Some((0, a.1)),
        // A mask that is not negative bounds the result, whatever the other operand.
        BinOp::And if not_negative => Some((0, a.1.min(b.1))),
        BinOp::And if a.0 >= 0 => Some((0, a.1)),
        BinOp::And if b.0 >= 0 => Some((0, b.1)),
        BinOp::Or | BinOp::Xor if not_negative => {
            let bits = 128 - a.1.max(b.1).leading_zeros();
            (bits < 127).then(|| (0, (1i128 << bits) - 1))
        }
        BinOp::Shr if not_negative => {
            let down = |value: i128, by: i128| if by < 127 { value >> by } else { 0 };
            Some((down(a.0, b.1), down(a.1, b.0)))
        }
        BinOp::Shl if not_negative && b.1 < 63 && a.1 < 1 << 63 => Some((a.0 << b.0, a.1 << b.1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_intervals_give_any_range() {
        use BinOp::{Add, And, Div, Mul, Or, Rem, Shl, Shr, Sub, Xor};
        for op in [Add, Sub, Mul, Div, Rem, And, Or, Xor, Shl, Shr] {
            assert_eq!(interval(op, (1, 2), (200, 0)), Some((0, 0)), "{op:?}");
            assert_eq!(interval(op, (200, 0), (1, 2)), Some((0, 0)), "{op:?}");
        }
    }

    #[test]
    fn intervals_cover_every_pair() {
        // Brute force over small ranges: each operator's interval contains all results.
        let ranges = [(0, 5), (3, 7), (-4, 3), (1, 1), (0, 12)];
        for op in [
            BinOp::Add,
            BinOp::Sub,
            BinOp::Mul,
            BinOp::Div,
            BinOp::Rem,
            BinOp::And,
            BinOp::Or,
            BinOp::Xor,
            BinOp::Shl,
            BinOp::Shr,
        ] {
            for a in ranges {
                for b in ranges {
                    let Some(range) = interval(op, a, b) else { continue };
                    for x in a.0..=a.1 {
                        for y in b.0..=b.1 {
                            let exact = match op {
                                BinOp::Add => x + y,
                                BinOp::Sub => x - y,
                                BinOp::Mul => x * y,
                                BinOp::Div => x.checked_div(y).unwrap_or(0),
                                BinOp::Rem => x.checked_rem(y).unwrap_or(x),
                                BinOp::And => x & y,
                                BinOp::Or => x | y,
                                BinOp::Xor => x ^ y,
                                BinOp::Shl => x << y,
                                BinOp::Shr => x >> y,
                            };
                            assert!(
                                range.0 <= exact && exact <= range.1,
                                "{op:?} {x} {y} = {exact} not in {range:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}
