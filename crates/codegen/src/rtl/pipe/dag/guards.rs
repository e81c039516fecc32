//! What the conditions on a way say about values: after `if (length > 32) return;` it is 32 at
//! most.

use nicforge_ir::{BinOp, CmpOp, UnOp};

use super::range::meet;
use super::*;

/// Conditions inside conditions that are looked at.
const MOST_DEPTH: u32 = 32;

impl Walk<'_, '_, '_> {
    /// Takes note of what follows from a condition that holds, or does not.
    pub(super) fn heed(&mut self, cond: ValueId, holds: bool) {
        self.heed_within(cond, holds, MOST_DEPTH);
    }

    fn heed_within(&mut self, cond: ValueId, holds: bool, depth: u32) {
        let body = self.body;
        let (Some(op), Some(depth)) = (body.def_op(cond), depth.checked_sub(1)) else { return };
        match op {
            Op::Un(UnOp::Not, a) if self.low.width(cond) == 1 => {
                self.heed_within(*a, !holds, depth)
            }
            Op::Cast(a) if self.low.width(*a) == 1 => self.heed_within(*a, holds, depth),
            Op::Bin(op @ (BinOp::And | BinOp::Or), a, b)
                if self.low.width(cond) == 1 && holds == (*op == BinOp::And) =>
            {
                self.heed_within(*a, holds, depth);
                self.heed_within(*b, holds, depth);
            }
            Op::Cmp(op, a, b) => self.compared(*op, *a, *b, holds),
            Op::Select { cond, then, other } => {
                self.chosen(*cond, [Some(*then), Some(*other)], holds, depth)
            }
            Op::If { cond: which, then, other, .. } => {
                let ValueDef::Result(_, at) = body.values[cond].def else { return };
                let given = |arm: BlockId| match &body.terminator(arm)?.op {
                    Op::Yield(values) => values.get(at as usize).copied(),
                    _ => None,
                };
                self.chosen(*which, [given(*then), given(*other)], holds, depth);
            }
            _ => {}
        }
    }

    /// Of two values, of which a way without one gives none: where one of them is not what it is
    /// known to be, it is the other one.
    fn chosen(&mut self, which: ValueId, given: [Option<ValueId>; 2], holds: bool, depth: u32) {
        let possible = given.map(|value| {
            let number =
                |value| self.low.constant(value).is_none_or(|number| (number != 0) == holds);
            value.filter(|value| number(*value))
        });
        let (taken, value) = match possible {
            [Some(value), None] => (true, value),
            [None, Some(value)] => (false, value),
            _ => return,
        };
        self.heed_within(which, taken, depth);
        self.heed_within(value, holds, depth);
    }

    fn compared(&mut self, op: CmpOp, a: ValueId, b: ValueId, holds: bool) {
        if self.low.ty(a).is_signed() {
            return;
        }
        let (op, value, limit) = match (self.low.constant(a), self.low.constant(b)) {
            (None, Some(limit)) => (op, a, limit),
            (Some(limit), None) => (op.mirrored(), b, limit),
            _ => return,
        };
        let (least, most) = match (op, holds) {
            (CmpOp::Eq, true) | (CmpOp::Ne, false) => (limit, limit),
            (CmpOp::Le, true) | (CmpOp::Gt, false) => (0, limit),
            (CmpOp::Lt, true) | (CmpOp::Ge, false) => (0, limit.saturating_sub(1)),
            (CmpOp::Ge, true) | (CmpOp::Lt, false) => (limit, u64::MAX),
            (CmpOp::Gt, true) | (CmpOp::Le, false) => (limit.saturating_add(1), u64::MAX),
            (CmpOp::Ne, true) | (CmpOp::Eq, false) if limit == 0 => (1, u64::MAX),
            _ => return,
        };
        let before = self.bounds.entry(value).or_insert((least, most));
        *before = (least.max(before.0), most.min(before.1));
    }

    /// True if a condition holds, if what is known of a value says so.
    pub(super) fn decided(&self, cond: ValueId) -> Option<bool> {
        let Some(Op::Cmp(op, a, b)) = self.body.def_op(cond) else { return None };
        if self.low.ty(*a).is_signed() || !self.low.ty(*a).is_int() {
            return None;
        }
        let (a, b) = (self.range_here(*a), self.range_here(*b));
        match op {
            CmpOp::Lt | CmpOp::Ge if a.1 < b.0 => Some(*op == CmpOp::Lt),
            CmpOp::Lt | CmpOp::Ge if a.0 >= b.1 => Some(*op == CmpOp::Ge),
            CmpOp::Gt | CmpOp::Le if a.0 > b.1 => Some(*op == CmpOp::Gt),
            CmpOp::Gt | CmpOp::Le if a.1 <= b.0 => Some(*op == CmpOp::Le),
            CmpOp::Eq | CmpOp::Ne if !meet(a, b) => Some(*op == CmpOp::Ne),
            _ => None,
        }
    }
}
