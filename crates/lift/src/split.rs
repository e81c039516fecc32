//! A number that is one of a few, as a way for each: what depends on it is known on each way.
//!
//! Headers of several lengths in front of a packet are that: places behind them are constants on
//! each way, and the program behind is followed once for each.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_ir::{BinOp, Op, ValueId};

use crate::emit::fold;
use crate::error::Halt;
use crate::lifter::Lifter;
use crate::state::{Fork, State};
use crate::value::{Abs, Cond, Num, low};

/// Ways that a number is made at most.
const MOST_WAYS: usize = 32;
/// Definitions that are followed one behind the other.
const DEPTH: u32 = 12;

impl Lifter<'_> {
    /// The ways on which what a register's number is computed from is the first that it may be, and
    /// another one; on both the instruction is to be repeated. None if it may be too many, or is
    /// known.
    pub fn split(&mut self, state: &mut State, register: usize) -> Result<Option<Fork>, Halt> {
        loop {
            let Some(id) = self.num(state.regs[register])?.id else { return Ok(None) };
            let mut parts = Vec::new();
            self.parts(id, DEPTH, &mut parts);
            let few = parts.into_iter().find_map(|id| Some((id, self.few(state, id)?)));
            let Some((id, values)) = few else { return Ok(None) };
            let Some((&first, others)) = values.split_first() else { return Ok(None) };
            let mut fails = state.clone();
            self.assume(state, id, first);
            // What nobody holds any more is computed once more.
            if let Some(known) = self.num(state.regs[register])?.id {
                let value = self.computed(known, &state.assumed, DEPTH);
                state.regs[register] = value.map_or(state.regs[register], Abs::known);
            }
            let (Some(next), Some(last)) = (others.first(), others.last()) else { continue };
            fails.narrow(id, *next, *last);
            fails.within.insert(id, (*next, *last));
            let bits = u32::from(self.body.ty(id).bits().unwrap_or(64));
            match self.equals(Num::of(id, bits), first) {
                Cond::Value(cond) => return Ok(Some(Fork { cond, fails, again: true })),
                Cond::Known(true) => {}
                Cond::Known(false) => *state = fails,
            }
        }
    }

    /// Values that a value is computed from, those first that others are computed from.
    fn parts(&self, id: ValueId, depth: u32, found: &mut Vec<ValueId>) {
        if depth > 0 {
            match self.body.def_op(id) {
                Some(Op::Cast(inner)) => self.parts(*inner, depth - 1, found),
                Some(Op::Bin(_, a, b)) => {
                    self.parts(*a, depth - 1, found);
                    self.parts(*b, depth - 1, found);
                }
                _ => {}
            }
        }
        if self.literal(id).is_none() && !found.contains(&id) {
            found.push(id);
        }
    }

    /// The numbers that a value may be here, smallest first, if they are few and it is not known.
    fn few(&self, state: &mut State, id: ValueId) -> Option<Vec<u64>> {
        if state.assumed.contains_key(&id) {
            return None;
        }
        let mut num = Num::within(id, 0, self.mask(id)?);
        let mut cut = |lo: u64, hi: u64| {
            num.lo = num.lo.max(lo);
            num.hi = num.hi.min(hi);
        };
        state.each_num(&mut |held| {
            if held.id == Some(id) {
                cut(held.lo, held.hi);
            }
        });
        if let Some((lo, hi)) = state.within.get(&id) {
            cut(*lo, *hi);
        }
        if num.lo > num.hi {
            return None;
        }
        let places = self.places(num).filter(|places| places.len() <= MOST_WAYS)?;
        let mut values: Vec<u64> = places.into_iter().map(|(value, _)| value).collect();
        values.sort_unstable();
        Some(values)
    }

    /// Takes a value for known, what it is computed from where that follows, and what others are
    /// that are computed from these.
    fn assume(&mut self, state: &mut State, id: ValueId, value: u64) {
        let mut at = Some((id, value));
        for _ in 0..DEPTH {
            let Some((id, value)) = at else { break };
            state.assumed.insert(id, value);
            at = self.undone(id, value);
        }
        let mut held = BTreeSet::new();
        state.each_num(&mut |num| held.extend(num.id));
        for id in held {
            if let Some(value) = self.computed(id, &state.assumed, DEPTH) {
                state.narrow(id, value, value);
            }
        }
    }

    fn mask(&self, id: ValueId) -> Option<u64> {
        let ty = self.body.ty(id);
        Some(low(ty.bits().filter(|_| !ty.is_signed())?.into()))
    }

    fn literal(&self, id: ValueId) -> Option<u64> {
        match self.body.def_op(id)? {
            Op::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The value that a value was computed from by one invertible operation, if that gave `value`.
    fn undone(&self, id: ValueId, value: u64) -> Option<(ValueId, u64)> {
        let most = self.mask(id)?;
        match *self.body.def_op(id)? {
            Op::Cast(inner) => {
                let within = self.mask(inner)?;
                (within <= most && value <= within).then_some((inner, value))
            }
            Op::Bin(op, a, b) => {
                let whole = self.whole.contains(&id);
                match (op, self.literal(a), self.literal(b)) {
                    (BinOp::Add, None, Some(by)) => Some((a, value.wrapping_sub(by) & most)),
                    (BinOp::Add, Some(by), None) => Some((b, value.wrapping_sub(by) & most)),
                    (BinOp::Sub, None, Some(by)) => Some((a, value.wrapping_add(by) & most)),
                    (BinOp::Sub, Some(from), None) => Some((b, from.wrapping_sub(value) & most)),
                    // Bits that are there in any case.
                    (BinOp::Or, None, Some(by))
                        if by < self.stride_of_value(a) && value & by == by =>
                    {
                        Some((a, value & !by))
                    }
                    (BinOp::Shl, None, Some(by)) if whole && by < 64 => Some((a, value >> by)),
                    (BinOp::Mul, None, Some(by)) if whole && by > 0 => Some((a, value / by)),
                    (BinOp::Mul, Some(by), None) if whole && by > 0 => Some((b, value / by)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A value, if it is computed from known ones alone.
    fn computed(&self, id: ValueId, known: &BTreeMap<ValueId, u64>, depth: u32) -> Option<u64> {
        if let Some(value) = known.get(&id) {
            return Some(*value);
        }
        if depth == 0 {
            return None;
        }
        let most = self.mask(id)?;
        let of = |id: ValueId| self.computed(id, known, depth - 1);
        match self.body.def_op(id)? {
            Op::Int(value) => Some(*value),
            Op::Cast(inner) => Some(of(*inner)? & most),
            Op::Bin(op, a, b) => {
                let (a, b) = (of(*a)?, of(*b)?);
                let shifts_out = matches!(op, BinOp::Shl | BinOp::Shr) && b >= 64;
                (!shifts_out).then(|| fold(*op, a, b) & most)
            }
            _ => None,
        }
    }
}
