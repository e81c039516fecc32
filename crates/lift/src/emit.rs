//! Numbers of the program as ops of αIR: what is known is worked out, the rest is as narrow as its
//! range allows.

use nicforge_ir::{BinOp, BodyBuilder, CmpOp, Op, Type, UnOp, ValueId};

use crate::lifter::Lifter;
use crate::value::{Cond, Num, low, sign_extend};

impl Lifter<'_> {
    /// A builder at the end of the region that is being written.
    pub fn build(&mut self) -> BodyBuilder<'_> {
        let mut builder = BodyBuilder::new(&mut self.body);
        builder.switch_to(self.at);
        builder.span = self.span;
        builder
    }

    pub fn push1(&mut self, op: Op, ty: Type) -> ValueId {
        self.build().push1(op, ty)
    }

    /// Bits of the value that stands for a number.
    pub fn bits(&self, num: Num) -> u32 {
        match num.id {
            Some(id) => self.body.ty(id).bits().unwrap_or(64).into(),
            None => (64 - num.lo.leading_zeros()).max(1).next_power_of_two().max(8),
        }
    }

    /// A number as a value of `bits` bits.
    pub fn value(&mut self, num: Num, bits: u32) -> ValueId {
        let ty = Type::u(bits as u8);
        match num.id {
            Some(id) => {
                let cast = self.build().cast(id, ty);
                if cast != id && num.hi <= low(bits) {
                    self.whole.insert(cast);
                }
                cast
            }
            None => self.build().int(num.lo, ty),
        }
    }

    fn signed(&mut self, num: Num, bits: u32) -> ValueId {
        let value = self.value(num, bits);
        self.build().cast(value, Type::i(bits as u8))
    }

    /// The low bits of a number.
    pub fn truncate(&mut self, num: Num, bits: u32) -> Num {
        let most = low(bits);
        if num.hi <= most {
            return num;
        }
        match num.constant() {
            Some(value) => Num::known(value & most),
            None => {
                let (lo, hi) = around(num.lo.into(), num.hi.into(), most);
                Num::within(self.value(num, bits), lo, hi)
            }
        }
    }

    /// The low bits of a number as a signed one of 64 bits, of which the low `to` bits remain.
    pub fn extend(&mut self, num: Num, from: u32, to: u32) -> Num {
        let num = self.truncate(num, from);
        if let Some(value) = num.constant() {
            return Num::known(sign_extend(value, from) & low(to));
        }
        if num.hi <= low(from - 1) {
            return num;
        }
        let value = self.signed(num, from);
        let wide = self.build().cast(value, Type::i(to as u8));
        let id = self.build().cast(wide, Type::u(to as u8));
        if num.lo > low(from - 1) {
            let [lo, hi] = [num.lo, num.hi].map(|end| sign_extend(end, from) & low(to));
            return Num::within(id, lo, hi);
        }
        Num::of(id, to)
    }

    pub fn add(&mut self, a: Num, b: Num) -> Num {
        self.binary(BinOp::Add, a, b, 64)
    }

    pub fn sub(&mut self, a: Num, b: Num) -> Num {
        self.binary(BinOp::Sub, a, b, 64)
    }

    /// Unsigned arithmetic on numbers of `bits` bits; shifts by less than that.
    pub fn binary(&mut self, op: BinOp, a: Num, b: Num, bits: u32) -> Num {
        let (a, b) = (self.truncate(a, bits), self.truncate(b, bits));
        let most = low(bits);
        if let (Some(x), Some(y)) = (a.constant(), b.constant()) {
            return Num::known(fold(op, x, y) & most);
        }
        match (op, a.constant(), b.constant()) {
            (BinOp::Add | BinOp::Or | BinOp::Xor, Some(0), _) => return b,
            (BinOp::Add | BinOp::Or | BinOp::Xor | BinOp::Sub, _, Some(0)) => return a,
            (BinOp::Shl | BinOp::Shr, _, Some(0)) | (BinOp::Mul | BinOp::Div, _, Some(1)) => {
                return a;
            }
            (BinOp::And, _, Some(0)) | (BinOp::And, Some(0), _) => return Num::known(0),
            // A mask that keeps all there is.
            (BinOp::And, _, Some(mask)) if mask & mask.wrapping_add(1) == 0 && a.hi <= mask => {
                return a;
            }
            _ => {}
        }
        if let Some(num) = self.cut_out(op, a, b, bits) {
            return num;
        }
        let mut joined = None;
        if op == BinOp::Or {
            let (whole, bytes) = self.side_by_side(a, b);
            if let Some(whole) = whole {
                return whole;
            }
            joined = bytes;
        }
        let (mut lo, mut hi) = range(op, a, b, most);
        // Bits that were zero for sure.
        if let (BinOp::Or, Some(id), Some(set)) = (op, a.id, b.constant())
            && set < self.stride_of_value(id)
        {
            (lo, hi) = (a.lo | set, a.hi | set);
        }
        let narrow = match op {
            BinOp::And => a.hi.min(b.hi),
            BinOp::Shr | BinOp::Or | BinOp::Xor | BinOp::Div | BinOp::Rem => a.hi.max(b.hi),
            // Whatever the range is, nothing wrapped in it.
            BinOp::Sub if a.lo >= b.hi => a.hi,
            BinOp::Sub => most,
            _ => hi.max(a.hi).max(b.hi),
        };
        let width = if narrow <= low(32) { 32 } else { 64 };
        let (x, y) = (self.value(a, width), self.value(b, width));
        let id = self.push1(Op::Bin(op, x, y), Type::u(width as u8));
        if !wraps(op, a, b, most) {
            self.whole.insert(id);
        }
        if op == BinOp::Shl {
            self.note_shift(id, a, b, width);
        }
        if let Some(bytes) = joined {
            self.bytes.insert(id, bytes);
        }
        Num::within(id, lo, hi)
    }

    /// Shifts there and back leave the low bits, which older compilers write for a cast.
    fn cut_out(&mut self, op: BinOp, a: Num, b: Num, bits: u32) -> Option<Num> {
        let by = b.constant().filter(|_| op == BinOp::Shr)? as u32;
        let inner = self.shifted_left(a, by, bits)?;
        let left = bits.checked_sub(by).filter(|left| matches!(left, 8 | 16 | 32))?;
        Some(self.low_part(inner, a, by, left))
    }

    /// The low bits of what was shifted left, of which the range says what they are.
    fn low_part(&mut self, inner: ValueId, shifted: Num, by: u32, left: u32) -> Num {
        let id = self.build().cast(inner, Type::u(left as u8));
        if shifted.id.is_some_and(|shifted| self.whole.contains(&shifted)) {
            self.whole.insert(id);
        }
        Num::within(id, shifted.lo >> by, shifted.hi >> by)
    }

    /// The number that was shifted left by so many bits to give one of `bits` bits.
    fn shifted_left(&self, num: Num, by: u32, bits: u32) -> Option<ValueId> {
        let Op::Bin(BinOp::Shl, inner, amount) = self.body.def_op(num.id?)? else { return None };
        let Op::Int(found) = self.body.def_op(*amount)? else { return None };
        let whole = self.body.ty(*inner).bits() == Some(bits as u8);
        (whole && *found == u64::from(by)).then_some(*inner)
    }

    /// Signed arithmetic: right shifts, quotients, remainders.
    pub fn signed_binary(&mut self, op: BinOp, a: Num, b: Num, bits: u32) -> Num {
        let (a, b) = (self.truncate(a, bits), self.truncate(b, bits));
        let half = low(bits - 1);
        if a.hi <= half && (op == BinOp::Shr || b.hi <= half) {
            return self.binary(op, a, b, bits);
        }
        if op == BinOp::Shr
            && let Some(by) = b.constant()
            && let Some(inner) = self.shifted_left(a, by as u32, bits)
            && matches!(bits - by as u32, 8 | 16 | 32)
        {
            let (by, left) = (by as u32, bits - by as u32);
            let low = self.low_part(inner, a, by, left);
            return self.extend(low, left, bits);
        }
        if let (Some(x), Some(y)) = (a.constant(), b.constant()) {
            let (x, y) = (sign_extend(x, bits) as i64, sign_extend(y, bits) as i64);
            let value = match op {
                BinOp::Shr => x >> (y & 63),
                BinOp::Div => {
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_div(y)
                    }
                }
                _ => {
                    if y == 0 {
                        x
                    } else {
                        x.wrapping_rem(y)
                    }
                }
            };
            return Num::known(value as u64 & low(bits));
        }
        let (x, y) = (self.signed(a, bits), self.signed(b, bits));
        let found = self.push1(Op::Bin(op, x, y), Type::i(bits as u8));
        let id = self.build().cast(found, Type::u(bits as u8));
        Num::of(id, bits)
    }

    /// The low `bits` bits with their bytes turned round.
    pub fn swap(&mut self, num: Num, bits: u32) -> Num {
        let num = self.truncate(num, bits);
        if let Some(value) = num.constant() {
            return Num::known(value.swap_bytes() >> (64 - bits));
        }
        let value = self.value(num, bits);
        let id = self.push1(Op::Un(UnOp::Bswap, value), Type::u(bits as u8));
        Num::of(id, bits)
    }

    /// A comparison of numbers of `bits` bits.
    pub fn compare(&mut self, op: CmpOp, signed: bool, a: Num, b: Num, bits: u32) -> Cond {
        let (a, b) = (self.truncate(a, bits), self.truncate(b, bits));
        let half = low(bits - 1);
        if signed && !(a.hi <= half && b.hi <= half) {
            if let (Some(x), Some(y)) = (a.constant(), b.constant()) {
                let (x, y) = (sign_extend(x, bits) as i64, sign_extend(y, bits) as i64);
                return Cond::Known(holds(op, x, y));
            }
            // One of them is negative for sure, and the other is not.
            if a.lo > half && b.hi <= half {
                return Cond::Known(holds(op, -1, 0));
            }
            if b.lo > half && a.hi <= half {
                return Cond::Known(holds(op, 0, -1));
            }
            let (x, y) = (self.signed(a, bits), self.signed(b, bits));
            return Cond::Value(self.push1(Op::Cmp(op, x, y), Type::BOOL));
        }
        if let Some(known) = decided(op, a, b) {
            return Cond::Known(known);
        }
        // A truth value that is asked for as a number.
        if let (Some(id), Some(asked @ (0 | 1))) = (a.id, b.constant())
            && self.body.ty(id) == Type::BOOL
            && matches!(op, CmpOp::Eq | CmpOp::Ne)
        {
            let same = (op == CmpOp::Eq) == (asked == 1);
            return if same { Cond::Value(id) } else { self.negate(Cond::Value(id)) };
        }
        let width = self.bits(a).max(self.bits(b));
        let (x, y) = (self.value(a, width), self.value(b, width));
        Cond::Value(self.push1(Op::Cmp(op, x, y), Type::BOOL))
    }

    pub fn negate(&mut self, cond: Cond) -> Cond {
        match cond {
            Cond::Known(known) => Cond::Known(!known),
            Cond::Value(id) => Cond::Value(self.push1(Op::Un(UnOp::Not, id), Type::BOOL)),
        }
    }

    /// One of two numbers.
    pub fn select(&mut self, cond: Cond, a: Num, b: Num) -> Num {
        match cond {
            Cond::Known(known) => {
                if known {
                    a
                } else {
                    b
                }
            }
            Cond::Value(_) if a == b => a,
            Cond::Value(cond) => {
                let width = self.bits(a).max(self.bits(b));
                let (then, other) = (self.value(a, width), self.value(b, width));
                let ty = Type::u(width as u8);
                let id = self.push1(Op::Select { cond, then, other }, ty);
                Num { id: Some(id), lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) }
            }
        }
    }
}

/// The result of an operator, where it is known; in 64 bits.
pub fn fold(op: BinOp, x: u64, y: u64) -> u64 {
    match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div => x.checked_div(y).unwrap_or(0),
        BinOp::Rem => x.checked_rem(y).unwrap_or(x),
        BinOp::And => x & y,
        BinOp::Or => x | y,
        BinOp::Xor => x ^ y,
        BinOp::Shl => x << (y & 63),
        BinOp::Shr => x >> (y & 63),
    }
}

/// True if a result may be more than fits, or less than zero.
fn wraps(op: BinOp, a: Num, b: Num, most: u64) -> bool {
    match op {
        BinOp::Add => a.hi.checked_add(b.hi).is_none_or(|hi| hi > most),
        BinOp::Sub => a.lo < b.hi,
        BinOp::Mul => a.hi.checked_mul(b.hi).is_none_or(|hi| hi > most),
        BinOp::Shl => b.hi >= 64 || a.hi > most >> b.hi,
        _ => false,
    }
}

/// Between what a result lies.
fn range(op: BinOp, a: Num, b: Num, most: u64) -> (u64, u64) {
    let within = |lo: Option<u64>, hi: Option<u64>| match (lo, hi) {
        (Some(lo), Some(hi)) if hi <= most => (lo, hi),
        _ => (0, most),
    };
    let wide = i128::from;
    let wrapped = |lo: i128, hi: i128| around(lo, hi, most);
    let filled = |value: u64| if value == 0 { 0 } else { u64::MAX >> value.leading_zeros() };
    match op {
        BinOp::Add => wrapped(wide(a.lo) + wide(b.lo), wide(a.hi) + wide(b.hi)),
        BinOp::Sub => wrapped(wide(a.lo) - wide(b.hi), wide(a.hi) - wide(b.lo)),
        BinOp::Mul => within(a.lo.checked_mul(b.lo), a.hi.checked_mul(b.hi)),
        BinOp::Div if b.lo > 0 => (a.lo / b.hi, a.hi / b.lo),
        BinOp::Div => (0, a.hi),
        BinOp::Rem if b.lo > 0 => (0, a.hi.min(b.hi - 1)),
        BinOp::Rem => (0, a.hi),
        BinOp::And if b.lo == b.hi && b.lo & b.lo.wrapping_add(1) == 0 && b.lo < most => {
            around(wide(a.lo), wide(a.hi), b.lo)
        }
        BinOp::And => (0, a.hi.min(b.hi)),
        BinOp::Or => (a.lo.max(b.lo), filled(a.hi | b.hi)),
        BinOp::Xor => (0, filled(a.hi | b.hi)),
        BinOp::Shl if !wraps(op, a, b, most) => (a.lo << b.lo, a.hi << b.hi),
        BinOp::Shl if b.lo == b.hi && b.lo < 63 => wrapped(wide(a.lo) << b.lo, wide(a.hi) << b.lo),
        BinOp::Shl => (0, most),
        BinOp::Shr => (a.lo >> b.hi.min(63), a.hi >> b.lo.min(63)),
    }
}

/// The range of the low bits of numbers in a range; `most` has all of these bits set. What wraps
/// in every case keeps its order.
fn around(lo: i128, hi: i128, most: u64) -> (u64, u64) {
    let size = i128::from(most) + 1;
    match lo.div_euclid(size) == hi.div_euclid(size) {
        true => (lo.rem_euclid(size) as u64, hi.rem_euclid(size) as u64),
        false => (0, most),
    }
}

/// True if a comparison holds.
pub fn holds<T: PartialOrd>(op: CmpOp, x: T, y: T) -> bool {
    match op {
        CmpOp::Eq => x == y,
        CmpOp::Ne => x != y,
        CmpOp::Lt => x < y,
        CmpOp::Le => x <= y,
        CmpOp::Gt => x > y,
        CmpOp::Ge => x >= y,
    }
}

/// A comparison that ranges, or equal operands, decide.
fn decided(op: CmpOp, a: Num, b: Num) -> Option<bool> {
    if a.id.is_some() && a.id == b.id {
        return Some(holds(op, 0, 0));
    }
    let (below, above) = (a.hi < b.lo, a.lo > b.hi);
    let (never_above, never_below) = (a.hi <= b.lo, a.lo >= b.hi);
    let known = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
    match op {
        _ if known => Some(holds(op, 0, 0)),
        CmpOp::Eq => (below || above).then_some(false),
        CmpOp::Ne => (below || above).then_some(true),
        CmpOp::Lt => {
            if below {
                Some(true)
            } else {
                never_below.then_some(false)
            }
        }
        CmpOp::Ge => {
            if below {
                Some(false)
            } else {
                never_below.then_some(true)
            }
        }
        CmpOp::Gt => {
            if above {
                Some(true)
            } else {
                never_above.then_some(false)
            }
        }
        CmpOp::Le => {
            if above {
                Some(false)
            } else {
                never_above.then_some(true)
            }
        }
    }
}
