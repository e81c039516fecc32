//! What numbers may be: one of a few, or a multiple of something.

use std::collections::BTreeSet;

use nicforge_ir::{BinOp, Op, ValueId};

use crate::lifter::Lifter;
use crate::value::Num;

/// Ops behind each other that are looked at for what a number is a multiple of.
const DEEPEST: u32 = 4096;
/// Places at most that one access with a varying place may mean.
const MOST_PLACES: u64 = 64;

impl Lifter<'_> {
    /// Every number that a varying part may be, if there are few.
    pub fn places(&self, var: Num) -> Option<Vec<(u64, Num)>> {
        if let Some(few) = var.id.and_then(|id| self.choice(id, 0)) {
            let inside = few.into_iter().filter(|at| (var.lo..=var.hi).contains(at));
            return Some(inside.map(|at| (at, Num::known(at))).collect());
        }
        let stride = self.stride(var).max(1);
        let first = var.lo.checked_next_multiple_of(stride)?;
        let last = var.hi.saturating_sub(first) / stride;
        let one = |nth| (first + nth * stride, Num::known(first + nth * stride));
        (last < MOST_PLACES).then(|| (0..=last).map(one).collect())
    }

    /// The numbers that a value is one of, where ways or conditions choose among known ones.
    pub fn choice(&self, id: ValueId, depth: u32) -> Option<BTreeSet<u64>> {
        if depth > 8 || self.body.ty(id).is_signed() {
            return None;
        }
        let most = crate::value::low(self.body.ty(id).bits()?.into());
        let of = |id: &ValueId| self.choice(*id, depth + 1);
        let both = |a: BTreeSet<u64>, b: BTreeSet<u64>| a.union(&b).copied().collect();
        let found: BTreeSet<u64> = match self.body.def_op(id)? {
            Op::Int(value) => BTreeSet::from([*value]),
            Op::Cast(inner) => of(inner)?.into_iter().map(|value| value & most).collect(),
            Op::Select { then, other, .. } => both(of(then)?, of(other)?),
            Op::If { then, other, .. } => {
                let nicforge_ir::ValueDef::Result(_, nth) = self.body.values[id].def else {
                    return None;
                };
                let ways = [*then, *other].into_iter();
                let yielded: Vec<ValueId> =
                    ways.filter_map(|region| self.yielded(region, nth)).collect();
                let each = yielded.iter().map(of).collect::<Option<Vec<_>>>()?;
                each.into_iter().reduce(both)?
            }
            Op::Bin(BinOp::Add, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                let sums = a.iter().flat_map(|x| b.iter().map(|y| x.wrapping_add(*y) & most));
                sums.collect()
            }
            _ => return None,
        };
        (found.len() as u64 <= MOST_PLACES).then_some(found)
    }

    /// The number that a number is a multiple of.
    pub fn stride(&self, num: Num) -> u64 {
        let Some(id) = num.id else { return num.lo.max(1) };
        self.stride_of(id, 0).max(1)
    }

    /// A power of two that a value is a multiple of.
    pub fn stride_of_value(&self, id: ValueId) -> u64 {
        1 << self.stride_of(id, 0).trailing_zeros().min(31)
    }

    fn stride_of(&self, id: ValueId, depth: u32) -> u64 {
        if let Some(known) = self.strides.borrow().get(&id) {
            return *known;
        }
        if depth > DEEPEST {
            return 1;
        }
        let found = self.stride_by_op(id, depth);
        self.strides.borrow_mut().insert(id, found);
        found
    }

    fn stride_by_op(&self, id: ValueId, depth: u32) -> u64 {
        let constant = |id: ValueId| match self.body.def_op(id) {
            Some(Op::Int(value)) => Some(*value),
            _ => None,
        };
        let of = |id: ValueId| constant(id).unwrap_or_else(|| self.stride_of(id, depth + 1));
        // An odd factor does not outlive a number that wraps or loses its upper bits.
        let power = |stride: u64| 1 << stride.trailing_zeros().min(31);
        let whole = |stride: u64| {
            if self.whole.contains(&id) { stride } else { power(stride) }
        };
        match self.body.def_op(id) {
            Some(Op::Cast(inner)) if self.body.ty(*inner).bits() <= self.body.ty(id).bits() => {
                of(*inner)
            }
            Some(Op::Cast(inner)) => whole(of(*inner)),
            Some(Op::Select { then, other, .. }) => gcd(of(*then), of(*other)),
            Some(Op::If { then, other, .. }) => {
                let nicforge_ir::ValueDef::Result(_, nth) = self.body.values[id].def else {
                    return 1;
                };
                [*then, *other]
                    .into_iter()
                    .filter_map(|region| self.yielded(region, nth))
                    .fold(0, |all, one| gcd(all, of(one)))
            }
            Some(Op::Bin(BinOp::Shl, a, b)) => {
                constant(*b).filter(|by| *by < 32).map_or(1, |by| whole(of(*a) << by))
            }
            Some(Op::Bin(BinOp::Mul, a, b)) => whole(of(*a).saturating_mul(of(*b))),
            Some(Op::Bin(BinOp::Add | BinOp::Sub, a, b)) => whole(gcd(of(*a), of(*b))),
            Some(Op::Bin(BinOp::Or, a, b)) => power(of(*a)).min(power(of(*b))),
            Some(Op::Bin(BinOp::And, a, b)) => power(of(*a)).max(power(of(*b))),
            _ => 1,
        }
    }

    /// The value that a region gives as result number `nth`, unless it ends the handler.
    fn yielded(&self, region: nicforge_ir::BlockId, nth: u32) -> Option<ValueId> {
        match &self.body.insts[*self.body.blocks[region].insts.last()?].op {
            Op::Yield(values) => values.get(nth as usize).copied(),
            _ => None,
        }
    }
}

/// The greatest common divisor; that of 0 and a number is the number.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
