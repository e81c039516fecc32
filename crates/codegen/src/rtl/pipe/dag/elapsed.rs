//! Differences that are compared, such as how long ago an entry was used: `now - last <= idle`.
//!
//! As written, what the table says goes through two carry chains, one behind the other, in the
//! cycle that ends with the entry's change. But `a - b <= c` says that `b` is between `a - c` and
//! `a`, and that `a` is between `b` and `b + c`, where numbers go on from the greatest to zero; so
//! where one of them comes from a table and the others do not, it is compared with two bounds that
//! are known before, side by side.

use nicforge_ir::{BinOp, CmpOp};

use super::*;

/// A comparison `a - b <= c`, or `<`; or the opposite.
struct Elapsed {
    difference: (ValueId, ValueId),
    limit: ValueId,
    strictly: bool,
    not: bool,
}

impl Walk<'_, '_, '_> {
    fn elapsed(&self, op: CmpOp, x: ValueId, y: ValueId) -> Option<Elapsed> {
        let difference = |value: ValueId| match self.body.def_op(value) {
            Some(Op::Bin(BinOp::Sub, a, b)) => Some((*a, *b)),
            _ => None,
        };
        let (difference, limit, op) = match (difference(x), op) {
            (Some(found), op) => (found, y, op),
            (None, CmpOp::Lt) => (difference(y)?, x, CmpOp::Gt),
            (None, CmpOp::Le) => (difference(y)?, x, CmpOp::Ge),
            (None, CmpOp::Gt) => (difference(y)?, x, CmpOp::Lt),
            (None, CmpOp::Ge) => (difference(y)?, x, CmpOp::Le),
            (None, CmpOp::Eq | CmpOp::Ne) => return None,
        };
        let (strictly, not) = match op {
            CmpOp::Le => (false, false),
            CmpOp::Gt => (false, true),
            CmpOp::Lt => (true, false),
            CmpOp::Ge => (true, true),
            CmpOp::Eq | CmpOp::Ne => return None,
        };
        (!self.low.ty(limit).is_signed()).then_some(Elapsed { difference, limit, strictly, not })
    }

    /// True if a value depends on entries of tables that are changed.
    fn stateful(&mut self, value: ValueId) -> bool {
        let text = self.low.operand(value);
        used(&text).any(|name| self.dag.stateful.contains(name))
    }

    /// Compares a difference by bounds, if that is shorter; says whether it did.
    pub(super) fn compare_elapsed(
        &mut self,
        result: ValueId,
        op: CmpOp,
        x: ValueId,
        y: ValueId,
    ) -> bool {
        let Some(Elapsed { difference: (a, b), limit, strictly, not }) = self.elapsed(op, x, y)
        else {
            return false;
        };
        let of = [a, b, limit].map(|value| self.stateful(value));
        if !matches!(of, [true, false, false] | [false, true, false]) {
            return false;
        }
        let width = self.low.width(limit);
        let [first, second, limit] = [a, b, limit].map(|value| self.low.operand(value));
        // `< c` is `<= c - 1`, unless `c` is zero.
        let carry = timing::carry(width);
        let one = number(width, 1);
        let most = match strictly {
            true => self.wire("most", width, format!("{limit} - {one}"), carry),
            false => limit.clone(),
        };
        let (late, low, high) = match of[0] {
            true => (
                &first,
                second.clone(),
                self.wire("until", width, format!("{second} + {most}"), carry),
            ),
            false => (
                &second,
                self.wire("since", width, format!("{first} - {most}"), carry),
                first.clone(),
            ),
        };
        let compared = timing::cmp(CmpOp::Le, width);
        let wraps = self.wire("wraps", 1, format!("{high} < {low}"), compared);
        let above = self.wire("above", 1, format!("{late} >= {low}"), compared);
        let below = self.wire("below", 1, format!("{late} <= {high}"), compared);
        let within = format!("{wraps} ? {above} || {below} : {above} && {below}");
        let within = self.wire("within", 1, within, timing::CHOOSE);
        let within = match strictly {
            true => {
                let some = self.wire(
                    "some",
                    1,
                    format!("{limit} != {}", number(width, 0)),
                    timing::tree(width),
                );
                self.wire("within", 1, format!("{some} && {within}"), timing::CHOOSE)
            }
            false => within,
        };
        let (text, delay) = if not { (format!("!{within}"), timing::CHOOSE) } else { (within, 0) };
        self.result(result, text, delay);
        true
    }
}
