//! Between which numbers a value lies, whatever the packet: two keys whose ranges do not meet are
//! never the same.
//!
//! Intervals of unsigned numbers, from constants, widths, and what masks, shifts, remainders, sums
//! and choices do to them; a result that could wrap around may be anything. Looks at the value's
//! own ops only, a bounded number of them.

use nicforge_ir::BinOp;

use super::*;

/// Ops that are looked at for one value.
const MOST_OPS: u32 = 200;

/// The least and the greatest number.
pub type Range = (u64, u64);

fn ones(bits: u32) -> u64 {
    if bits < 64 { (1 << bits) - 1 } else { u64::MAX }
}

/// True if two ranges have a number in common.
pub fn meet(a: Range, b: Range) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

/// The range of an operation's result that has so many bits; `None`: it may be anything.
fn of_bin(op: BinOp, bits: u32, a: Range, b: Range) -> Option<Range> {
    let most = ones(bits);
    let fits =
        |low: Option<u64>, high: Option<u64>| Some((low?, high.filter(|high| *high <= most)?));
    match op {
        BinOp::Add => fits(a.0.checked_add(b.0), a.1.checked_add(b.1)),
        BinOp::Sub => fits(a.0.checked_sub(b.1), a.1.checked_sub(b.0)),
        BinOp::Mul => fits(a.0.checked_mul(b.0), a.1.checked_mul(b.1)),
        BinOp::And => Some((0, a.1.min(b.1))),
        BinOp::Or => Some((a.0.max(b.0), ones(64 - (a.1 | b.1).leading_zeros()))),
        BinOp::Xor => Some((0, ones(64 - (a.1 | b.1).leading_zeros()))),
        BinOp::Div if b.0 > 0 => Some((a.0 / b.1, a.1 / b.0)),
        BinOp::Rem if b.0 > 0 => Some((0, a.1.min(b.1 - 1))),
        BinOp::Shl if b.0 == b.1 && b.0 < u64::from(bits) && a.1 <= most >> b.0 => {
            Some((a.0 << b.0, a.1 << b.0))
        }
        BinOp::Shr if b.0 == b.1 && b.0 < u64::from(bits) => Some((a.0 >> b.0, a.1 >> b.0)),
        _ => None,
    }
}

impl Walk<'_, '_, '_> {
    /// Between which numbers a value lies on whatever way, read as unsigned.
    pub(super) fn range(&self, value: ValueId) -> Range {
        self.range_within(value, false, &mut MOST_OPS.clone())
    }

    /// The range of a value on this way.
    pub(super) fn range_here(&self, value: ValueId) -> Range {
        self.range_within(value, true, &mut MOST_OPS.clone())
    }

    fn range_within(&self, value: ValueId, here: bool, left: &mut u32) -> Range {
        let (low, high) = self.range_by_op(value, here, left);
        match self.bounds.get(&value) {
            // On a way that nobody comes, what is known may be at odds.
            Some(known) if here => (low.max(known.0).min(high.min(known.1)), high.min(known.1)),
            _ => (low, high),
        }
    }

    fn range_by_op(&self, value: ValueId, here: bool, left: &mut u32) -> Range {
        if let Some(number) = self.low.constant(value) {
            return (number, number);
        }
        let ty = self.low.ty(value);
        let any = (0, if ty.is_int() { ones(self.low.width(value)) } else { u64::MAX });
        *left = left.saturating_sub(1);
        if *left == 0 || !ty.is_int() {
            return any;
        }
        match self.body.def_op(value) {
            Some(Op::Bin(op, a, b)) => {
                let (a, b) = (self.range_within(*a, here, left), self.range_within(*b, here, left));
                // Signed numbers are like others as long as none is negative.
                let bits = self.low.width(value) - u32::from(ty.is_signed());
                let positive = a.1.max(b.1) <= ones(bits);
                of_bin(*op, bits, a, b).filter(|_| positive).unwrap_or(any)
            }
            // Negative numbers would become large ones, larger than fit small ones.
            Some(Op::Cast(a)) => {
                let from = self.low.ty(*a);
                let range = self.range_within(*a, here, left);
                let most = if from.is_signed() { ones(self.low.width(*a) - 1) } else { u64::MAX };
                if range.1 <= any.1.min(most) { range } else { any }
            }
            Some(Op::Select { then, other, .. }) => {
                let (a, b) =
                    (self.range_within(*then, here, left), self.range_within(*other, here, left));
                (a.0.min(b.0), a.1.max(b.1))
            }
            Some(Op::If { then, other, .. }) => {
                let ValueDef::Result(_, at) = self.body.values[value].def else { return any };
                let mut all: Option<Range> = None;
                for arm in [*then, *other] {
                    // A way that does not come here yields nothing.
                    let Some(Op::Yield(values)) = self.body.terminator(arm).map(|inst| &inst.op)
                    else {
                        continue;
                    };
                    let Some(value) = values.get(at as usize) else { return any };
                    let range = self.range_within(*value, here, left);
                    all = Some(all.map_or(range, |all| (all.0.min(range.0), all.1.max(range.1))));
                }
                all.unwrap_or(any)
            }
            _ => any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_results() {
        let bin = |op, a, b| of_bin(op, 32, a, b);
        let any = (0, ones(32));
        assert_eq!(bin(BinOp::Rem, any, (100, 100)), Some((0, 99)));
        assert_eq!(bin(BinOp::Rem, any, (0, 5)), None, "the divisor may be zero");
        assert_eq!(bin(BinOp::Add, (0, 99), (100, 100)), Some((100, 199)));
        assert_eq!(bin(BinOp::Add, any, (1, 1)), None, "wraps around");
        assert_eq!(bin(BinOp::Sub, (0, 99), (1, 1)), None, "wraps around");
        assert_eq!(bin(BinOp::Or, (0, 5), (8, 8)), Some((8, 15)));
        assert_eq!(bin(BinOp::Xor, (0, 5), (8, 8)), Some((0, 15)));
        assert_eq!(bin(BinOp::Shl, (1, 3), (4, 4)), Some((16, 48)));
        assert_eq!(bin(BinOp::Shl, any, (1, 1)), None);
        assert_eq!(bin(BinOp::Shr, any, (28, 28)), Some((0, 15)));
        assert_eq!(of_bin(BinOp::Mul, 64, (0, u64::MAX), (2, 2)), None);
        assert!(meet((0, 5), (5, 9)) && !meet((0, 5), (6, 9)) && meet((0, 9), (3, 4)));
    }
}
