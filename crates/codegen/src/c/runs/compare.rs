//! Runs that compare two arrays: those that leave the loop at the first difference, and those that
//! collect it.

use nicforge_ir::{BinOp, BlockId, CmpOp, Op, Type, ValueId};

use super::affine::Trips;
use super::{Bytes, Does, Exit, read};

/// A loop with one exit beside those that count, which is taken where two bytes differ.
pub(super) fn same(trips: &Trips<'_>, exits: &[&Exit<'_>]) -> Option<Does> {
    let [exit] = exits else { return None };
    let (a, b, equal) = equality(trips, exit.cond)?;
    (equal != exit.holds).then_some(Does::Same { a, b })
}

/// True if two bytes are equal (true) or differ (false).
fn equality(trips: &Trips<'_>, cond: ValueId) -> Option<(Bytes, Bytes, bool)> {
    let (equal, a, b) = match trips.body.def_op(cond)? {
        Op::Cmp(CmpOp::Eq, a, b) => (true, *a, *b),
        Op::Cmp(CmpOp::Ne, a, b) => (false, *a, *b),
        _ => return None,
    };
    let (a, b) = pair(trips, a, b)?;
    Some((a, b, equal))
}

/// Two bytes of one type, both widened alike.
fn pair(trips: &Trips<'_>, a: ValueId, b: ValueId) -> Option<(Bytes, Bytes)> {
    let (low, high) = (narrow(trips, a), narrow(trips, b));
    let alike = trips.body.ty(low) == trips.body.ty(high) && trips.body.ty(low).bits() == Some(8);
    if alike { Some((read(trips, low)?, read(trips, high)?)) } else { None }
}

/// The value before it was widened.
fn narrow(trips: &Trips<'_>, value: ValueId) -> ValueId {
    match trips.body.def_op(value) {
        Some(Op::Cast(of)) if trips.body.ty(*of).bits() <= trips.body.ty(value).bits() => {
            narrow(trips, *of)
        }
        _ => value,
    }
}

/// A carried value in which differences are collected.
pub(super) fn collected(trips: &Trips<'_>, param: usize, region: BlockId) -> Option<Does> {
    differences(trips, param).or_else(|| verdict(trips, param, region))
}

/// `differs = differs | (a ^ b)`.
fn differences(trips: &Trips<'_>, param: usize) -> Option<Does> {
    let differs = trips.params[param];
    let width = trips.body.ty(differs).bits()?;
    let mut next = trips.next[param];
    while let Some(Op::Cast(of)) = trips.body.def_op(next) {
        if trips.body.ty(*of).bits()? < width {
            return None;
        }
        next = *of;
    }
    let Op::Bin(BinOp::Or, x, y) = trips.body.def_op(next)? else { return None };
    let other = match (narrow(trips, *x) == differs, narrow(trips, *y) == differs) {
        (true, false) => *y,
        (false, true) => *x,
        _ => return None,
    };
    let Op::Bin(BinOp::Xor, a, b) = trips.body.def_op(narrow(trips, other))? else { return None };
    let (a, b) = (*a, *b);
    let unsigned = |value| trips.body.ty(narrow(trips, value)) == Type::U8;
    if !unsigned(a) || !unsigned(b) || trips.body.ty(differs) == Type::BOOL {
        return None;
    }
    let (a, b) = pair(trips, a, b)?;
    Some(Does::Differ { a, b, differs })
}

/// A value that becomes a constant where two bytes differ, and stays where they do not.
fn verdict(trips: &Trips<'_>, param: usize, region: BlockId) -> Option<Does> {
    let carried = trips.params[param];
    let (a, b, becomes) = match trips.body.def_op(trips.next[param])? {
        Op::Bin(BinOp::And, x, y) if trips.body.ty(carried) == Type::BOOL => {
            let (own, cond) = if *x == carried { (*x, *y) } else { (*y, *x) };
            let (a, b, equal) = equality(trips, cond)?;
            (own == carried && equal).then_some((a, b, 0))?
        }
        Op::Select { cond, then, other } => chosen(trips, carried, *cond, *then, *other)?,
        Op::If { cond, then, other, .. } => {
            let inst = trips.body.def_inst(trips.next[param])?;
            if trips.body.insts[inst].results.len() != 1
                || !trips.body.blocks[region].insts.contains(&inst)
            {
                return None;
            }
            let yielded = |arm| match &trips.body.terminator(arm)?.op {
                Op::Yield(values) => values.first().copied(),
                _ => None,
            };
            chosen(trips, carried, *cond, yielded(*then)?, yielded(*other)?)?
        }
        _ => return None,
    };
    Some(Does::Verdict { a, b, carried, becomes })
}

/// `cond ? then : other` as a verdict: the bytes, and the constant for those that differ.
fn chosen(
    trips: &Trips<'_>,
    carried: ValueId,
    cond: ValueId,
    then: ValueId,
    other: ValueId,
) -> Option<(Bytes, Bytes, i64)> {
    // `carried && a == b`
    if cond == carried && trips.constant(other) == Some(0) {
        let (a, b, equal) = equality(trips, then)?;
        return equal.then_some((a, b, 0));
    }
    let (a, b, equal) = equality(trips, cond)?;
    let (stays, becomes) = if equal { (then, other) } else { (other, then) };
    (stays == carried).then_some((a, b, trips.constant(becomes)?))
}
