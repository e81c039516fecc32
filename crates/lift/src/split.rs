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
            at = self.undone(id, (value, value)).map(|(id, (value, _))| (id, value));
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

    /// Narrows a value, and what it is computed from where that follows.
    pub fn narrow(&self, state: &mut State, id: ValueId, range: (u64, u64)) {
        let mut at = Some((id, range));
        for _ in 0..DEPTH {
            let Some((id, (lo, hi))) = at else { break };
            state.narrow(id, lo, hi);
            at = self.undone(id, (lo, hi));
        }
    }

    /// The value that a value was computed from by one invertible operation, and its range if that
    /// gave one in `lo` to `hi`.
    fn undone(&self, id: ValueId, (lo, hi): (u64, u64)) -> Option<(ValueId, (u64, u64))> {
        let (most, whole) = (self.mask(id)?, self.whole.contains(&id));
        let found = match *self.body.def_op(id)? {
            Op::Cast(inner) => {
                let within = self.mask(inner)?;
                (within <= most || whole).then_some((inner, (lo, hi.min(within))))?
            }
            Op::Bin(op, a, b) => {
                let plus = |by: u64| (lo.wrapping_add(by) & most, hi.wrapping_add(by) & most);
                match (op, self.literal(a), self.literal(b)) {
                    (BinOp::Add, None, Some(by)) => (a, plus(by.wrapping_neg())),
                    (BinOp::Add, Some(by), None) => (b, plus(by.wrapping_neg())),
                    (BinOp::Sub, None, Some(by)) => (a, plus(by)),
                    (BinOp::Sub, Some(from), None) => {
                        let left = |value: u64| from.wrapping_sub(value) & most;
                        (b, (left(hi), left(lo)))
                    }
                    // Bits that are there in any case.
                    (BinOp::Or, None, Some(by))
                        if lo == hi && by < self.stride_of_value(a) && lo & by == by =>
                    {
                        (a, (lo & !by, lo & !by))
                    }
                    (BinOp::Shl, None, Some(by)) if whole && by < 64 => {
                        (a, (lo.div_ceil(1 << by), hi >> by))
                    }
                    (BinOp::Mul, None, Some(by)) if whole && by > 0 => {
                        (a, (lo.div_ceil(by), hi / by))
                    }
                    (BinOp::Mul, Some(by), None) if whole && by > 0 => {
                        (b, (lo.div_ceil(by), hi / by))
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        // What wraps is no range.
        (found.1.0 <= found.1.1).then_some(found)
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
