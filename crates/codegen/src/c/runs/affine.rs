//! What values of a loop's body are in its trip `t`: constants, `t` plus a constant, or the same in
//! every trip.

use std::collections::HashSet;

use nicforge_ir::{BinOp, Body, InstId, Op, Program, Proj, Type, ValueId};

use crate::c::vars::Vars;

/// `slope * t + at`, in a type that holds it in every trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Affine {
    pub slope: i64,
    pub at: i64,
}

/// A byte offset in a packet, modulo 2^32: the trip's number, a constant, and values that stay or
/// count along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    pub(super) slope: i64,
    pub constant: u32,
    pub terms: Vec<ValueId>,
}

/// A loop of one straight region.
pub(super) struct Trips<'a> {
    pub program: &'a Program,
    pub body: &'a Body,
    pub vars: &'a Vars,
    pub params: &'a [ValueId],
    pub init: &'a [ValueId],
    /// What the next trip gets.
    pub next: &'a [ValueId],
    /// Trips at most.
    pub most: u32,
    /// Values that the body defines.
    inside: HashSet<ValueId>,
}

impl<'a> Trips<'a> {
    /// The loop of `inst`, if its region ends in its own next trip.
    pub fn new(
        program: &'a Program,
        body: &'a Body,
        vars: &'a Vars,
        inst: InstId,
    ) -> Option<Trips<'a>> {
        let Op::Loop { init, max_trips, body: region } = &body.insts[inst].op else { return None };
        let params = &body.blocks[*region].params;
        let Op::Continue { depth: 0, values: next } = &body.terminator(*region)?.op else {
            return None;
        };
        let mut inside: HashSet<ValueId> = params.iter().copied().collect();
        body.for_each_inst(*region, &mut |inst| inside.extend(&body.insts[inst].results));
        Some(Trips { program, body, vars, params, init, next, most: *max_trips, inside })
    }

    /// The constant a value is, by its type's signedness.
    pub fn constant(&self, value: ValueId) -> Option<i64> {
        let Type::Int { bits, signed } = self.body.ty(value) else { return None };
        let raw = match self.body.def_op(value)? {
            Op::Int(raw) => *raw,
            Op::Zero => 0,
            _ => return None,
        };
        let shift = 64 - u32::from(bits);
        match signed {
            true => Some(((raw << shift) as i64) >> shift),
            false => i64::try_from(raw).ok(),
        }
    }

    /// True if the carried value is one more in every next trip.
    pub fn counts(&self, param: usize) -> bool {
        let Some(Op::Bin(BinOp::Add, a, b)) = self.body.def_op(self.next[param]) else {
            return false;
        };
        let own = self.params[param];
        (*a == own && self.constant(*b) == Some(1)) || (*b == own && self.constant(*a) == Some(1))
    }

    fn param(&self, value: ValueId) -> Option<usize> {
        self.params.iter().position(|param| *param == value)
    }

    /// True if the type holds the value in every trip.
    fn holds(&self, ty: Type, value: Affine) -> bool {
        let Type::Int { bits, signed } = ty else { return false };
        let (least, greatest) = match (bits, signed) {
            (64, true) => (i64::MIN, i64::MAX),
            (63.., false) => (0, i64::MAX),
            (bits, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (bits, false) => (0, (1 << bits) - 1),
        };
        let last = value
            .slope
            .checked_mul(i64::from(self.most.max(1) - 1))
            .and_then(|by| value.at.checked_add(by));
        [Some(value.at), last]
            .into_iter()
            .all(|end| end.is_some_and(|end| (least..=greatest).contains(&end)))
    }

    /// A value that is a constant, or the trip's number plus a constant, and wraps nowhere on its
    /// way.
    pub fn affine(&self, value: ValueId) -> Option<Affine> {
        let found = self.affine_of(value)?;
        self.holds(self.body.ty(value), found).then_some(found)
    }

    fn affine_of(&self, value: ValueId) -> Option<Affine> {
        if let Some(at) = self.constant(value) {
            return Some(Affine { slope: 0, at });
        }
        if let Some(param) = self.param(value) {
            let first = self.constant(self.init[param])?;
            return self.counts(param).then_some(Affine { slope: 1, at: first });
        }
        match self.body.def_op(value)? {
            Op::Cast(of) => self.affine(*of),
            Op::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                let (a, b) = (self.affine(*a)?, self.affine(*b)?);
                let sign = if *op == BinOp::Add { 1 } else { -1 };
                Some(Affine { slope: a.slope + sign * b.slope, at: a.at.checked_add(sign * b.at)? })
            }
            _ => None,
        }
    }

    /// True if C that is printed in front of the loop may compute the value, and it is the same in
    /// every trip.
    pub fn stays(&self, value: ValueId) -> bool {
        if !self.inside.contains(&value) {
            return true;
        }
        if let Some(param) = self.param(value) {
            return self.next[param] == value;
        }
        let Some(op) = self.body.def_op(value) else { return false };
        if !self.vars.is_inline(value) || !op.effects().is_pure() {
            return false;
        }
        match op {
            Op::Get { agg, path } => self.stays(*agg) || self.untouched(*agg, path),
            op => op.operands().into_iter().all(|operand| self.stays(operand)),
        }
    }

    /// True if the loop changes the carried aggregate, but another member of it than the path's.
    fn untouched(&self, agg: ValueId, path: &[Proj]) -> bool {
        let Some(param) = self.param(agg) else { return false };
        let Some(Op::Set { agg: from, path: set, .. }) = self.body.def_op(self.next[param]) else {
            return false;
        };
        let other = matches!((path.first(), set.first()), (Some(Proj::Field(a)), Some(Proj::Field(b))) if a != b);
        *from == agg && other && path.iter().all(|step| matches!(step, Proj::Field(_)))
    }

    /// A packet offset that is one byte further in every trip.
    pub fn offset(&self, value: ValueId) -> Option<Offset> {
        let found = self.sum(value)?;
        (found.slope == 1).then_some(found)
    }

    fn sum(&self, value: ValueId) -> Option<Offset> {
        if let Some(Affine { slope, at }) = self.affine(value) {
            return Some(Offset { slope, constant: at as u32, terms: Vec::new() });
        }
        let whole = |value: ValueId| self.body.ty(value).bits() == Some(32);
        if let Some(param) = self.param(value)
            && self.counts(param)
            && whole(value)
        {
            return Some(Offset { slope: 1, constant: 0, terms: vec![value] });
        }
        match self.body.def_op(value) {
            Some(Op::Bin(BinOp::Add, a, b)) if whole(value) && !self.stays(value) => {
                let (mut a, b) = (self.sum(*a)?, self.sum(*b)?);
                a.slope += b.slope;
                a.constant = a.constant.wrapping_add(b.constant);
                a.terms.extend(b.terms);
                Some(a)
            }
            Some(Op::Cast(of)) if whole(value) && whole(*of) && !self.stays(value) => self.sum(*of),
            _ => self.stays(value).then(|| Offset { terms: vec![value], ..Offset::default() }),
        }
    }
}
