//! Integer arithmetic: what the ops compute. Passes fold constants with the same functions.
//!
//! Values are in the low bits of a `u64`, the bits above the type's width zero.

use crate::build::mask;
use crate::ops::{BinOp, CmpOp, UnOp};
use crate::types::Type;

/// The value of a `bits`-wide two's complement number.
pub fn sign_extend(raw: u64, bits: u8) -> i64 {
    let shift = 64 - bits as u32;
    ((raw << shift) as i64) >> shift
}

/// The value that a bit-field of `width` bits makes of one of its type.
pub fn bit_field(raw: u64, width: u8, ty: Type) -> u64 {
    let raw = mask(raw, width);
    mask(if ty.is_signed() { sign_extend(raw, width) as u64 } else { raw }, ty.bits().unwrap_or(64))
}

/// Two-operand arithmetic of `bits` wide integers.
pub fn bin(op: BinOp, bits: u8, signed: bool, a: u64, b: u64) -> u64 {
    let (sa, sb) = (sign_extend(a, bits), sign_extend(b, bits));
    let raw = match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div if b == 0 => 0,
        BinOp::Div if signed => sa.wrapping_div(sb) as u64,
        BinOp::Div => a / b,
        BinOp::Rem if b == 0 => a,
        BinOp::Rem if signed => sa.wrapping_rem(sb) as u64,
        BinOp::Rem => a % b,
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl if b >= bits as u64 => 0,
        BinOp::Shl => a << b,
        BinOp::Shr if signed => (sa >> b.min(63)) as u64,
        BinOp::Shr if b >= bits as u64 => 0,
        BinOp::Shr => a >> b,
    };
    mask(raw, bits)
}

/// A number whose order is that of `bits` wide integers.
pub fn order(bits: u8, signed: bool, raw: u64) -> u64 {
    if signed { sign_extend(raw, bits) as u64 ^ 1 << 63 } else { raw }
}

/// Comparison of `bits` wide integers.
pub fn cmp(op: CmpOp, bits: u8, signed: bool, a: u64, b: u64) -> bool {
    let order = if signed { sign_extend(a, bits).cmp(&sign_extend(b, bits)) } else { a.cmp(&b) };
    match op {
        CmpOp::Eq => order.is_eq(),
        CmpOp::Ne => order.is_ne(),
        CmpOp::Lt => order.is_lt(),
        CmpOp::Le => order.is_le(),
        CmpOp::Gt => order.is_gt(),
        CmpOp::Ge => order.is_ge(),
    }
}

/// One-operand arithmetic of a `bits` wide integer. A byte swap needs 16, 32 or 64 bits.
pub fn un(op: UnOp, bits: u8, a: u64) -> u64 {
    let raw = match op {
        UnOp::Not => !a,
        UnOp::Neg => a.wrapping_neg(),
        UnOp::Bswap => a.swap_bytes() >> (64 - bits as u32),
        UnOp::Popcount => a.count_ones().into(),
    };
    mask(raw, bits)
}

/// Conversion of a `from` bits wide integer to `to` bits.
pub fn cast(raw: u64, from: u8, from_signed: bool, to: u8) -> u64 {
    mask(if from_signed { sign_extend(raw, from) as u64 } else { raw }, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_division() {
        assert_eq!(bin(BinOp::Div, 8, false, 7, 0), 0);
        assert_eq!(bin(BinOp::Rem, 8, false, 7, 0), 7);
        assert_eq!(bin(BinOp::Div, 8, true, 0x80, 0xff), 0x80, "MIN / -1 = MIN");
        assert_eq!(bin(BinOp::Rem, 8, true, 0x80, 0xff), 0, "MIN % -1 = 0");
        assert_eq!(bin(BinOp::Div, 8, true, 0xf9, 2), 0xfd, "-7 / 2 = -3");
        assert_eq!(bin(BinOp::Rem, 8, true, 0xf9, 2), 0xff, "-7 % 2 = -1");
        assert_eq!(bin(BinOp::Div, 64, true, 1 << 63, u64::MAX), 1 << 63);
    }

    #[test]
    fn shifts_by_the_width_or_more() {
        assert_eq!(bin(BinOp::Shl, 8, false, 1, 8), 0);
        assert_eq!(bin(BinOp::Shr, 12, false, 0xfff, 12), 0);
        assert_eq!(bin(BinOp::Shr, 8, true, 0x80, 200), 0xff, "the sign stays");
        assert_eq!(bin(BinOp::Shr, 64, true, 1 << 63, u64::MAX), u64::MAX);
        assert_eq!(bin(BinOp::Shl, 64, false, 1, 63), 1 << 63);
        assert_eq!(bin(BinOp::Shl, 8, true, 1, 0xff), 0, "amounts are unsigned");
    }

    #[test]
    fn widths_wrap_and_signs_decide() {
        assert_eq!(bin(BinOp::Add, 5, false, 31, 1), 0);
        assert_eq!(bin(BinOp::Sub, 16, false, 0, 1), 0xffff);
        assert!(cmp(CmpOp::Lt, 8, true, 0xff, 0) && !cmp(CmpOp::Lt, 8, false, 0xff, 0));
        assert_eq!(un(UnOp::Bswap, 16, 0x1234), 0x3412);
        assert_eq!(un(UnOp::Bswap, 32, 0x1234_5678), 0x7856_3412);
        assert_eq!(un(UnOp::Neg, 1, 1), 1);
        assert_eq!((un(UnOp::Popcount, 12, 0xf0f), un(UnOp::Popcount, 2, 3)), (8, 2));
        assert_eq!(un(UnOp::Not, 12, 0), 0xfff);
        assert_eq!(cast(0x80, 8, true, 16), 0xff80);
        assert_eq!(cast(0x80, 8, false, 16), 0x80);
        assert_eq!(cast(0x1fe, 16, false, 8), 0xfe);
        assert_eq!(cast(2, 8, false, 1), 0, "a cast to u1 truncates");
    }
}
