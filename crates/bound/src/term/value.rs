//! Operations on constants.

use super::Op;

/// The lowest `bits` bits.
pub fn ones(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// A value's sign extended from `bits`.
pub fn signed(value: u64, bits: u8) -> i64 {
    let shift = 64 - u32::from(bits);
    (value << shift) as i64 >> shift
}

/// An operation on constants.
pub fn evaluate(op: Op, x: u64, y: u64, bits: u8) -> u64 {
    let mask = ones(bits);
    (match op {
        Op::Add => x.wrapping_add(y),
        Op::Mul => x.wrapping_mul(y),
        Op::UDiv => x.checked_div(y).unwrap_or(mask),
        Op::URem => x.checked_rem(y).unwrap_or(x),
        Op::And => x & y,
        Op::Or => x | y,
        Op::Xor => x ^ y,
        Op::Shl => {
            if y >= bits.into() {
                0
            } else {
                x << y
            }
        }
        Op::Lshr => {
            if y >= bits.into() {
                0
            } else {
                x >> y
            }
        }
        Op::Ashr => (signed(x, bits) >> y.min(u64::from(bits) - 1)) as u64,
        Op::Eq => (x == y).into(),
        Op::Ult => (x < y).into(),
        Op::Slt => (signed(x, bits) < signed(y, bits)).into(),
        Op::Concat | Op::Zext | Op::Sext => x,
    }) & mask
}
