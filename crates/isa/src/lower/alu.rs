//! Arithmetic.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::insn::SOURCE_REGISTER;
use crate::ebpf::kinds::Kind;
use crate::nfp::{AluOp, Cond, MulStep, Op, Operand, Shift};

/// Upper word of a constant: its sign.
fn sign(value: i32) -> u32 {
    (value >> 31) as u32
}

impl Lower<'_> {
    pub(super) fn arithmetic(&mut self, insn: Insn, narrow: bool) -> Result<(), String> {
        let register = insn.code & SOURCE_REGISTER != 0;
        let (d, s) = (insn.dst, insn.src);
        let logical = |code: u8| match code {
            0x40 => AluOp::Or,
            0x50 => AluOp::And,
            _ => AluOp::Xor,
        };
        match insn.code & 0xf0 {
            0xb0 => return self.movement(insn, narrow, register),
            0x00 | 0x10 => self.add(insn, narrow, register),
            code @ (0x40 | 0x50 | 0xa0) => {
                let op = logical(code);
                if register {
                    self.alu(low(d), low(d), op, other(low(s)));
                    if !narrow {
                        self.alu(high(d), high(d), op, other(high(s)));
                    }
                } else {
                    self.logical_word(low(d), op, insn.imm as u32);
                    if !narrow {
                        self.logical_word(high(d), op, sign(insn.imm));
                    }
                }
                if narrow {
                    self.clear_upper(d);
                }
            }
            0x20 => self.multiply(insn, narrow, register)?,
            0x30 => self.divide(insn, narrow, register)?,
            0x80 => {
                self.alu(low(d), Operand::Imm(0), AluOp::Sub, other(low(d)));
                if narrow {
                    self.clear_upper(d);
                } else {
                    self.alu(high(d), Operand::Imm(0), AluOp::SubCarry, other(high(d)));
                }
            }
            0x60 | 0x70 | 0xc0 => self.shift(insn, narrow, register)?,
            0xd0 => self.swap(insn)?,
            0x90 => self.remainder(insn, narrow, register)?,
            code => return Err(format!("unknown arithmetic {code:#04x}")),
        }
        Ok(())
    }

    fn movement(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let (d, s) = (insn.dst, insn.src);
        if insn.off != 0 {
            return Err("sign-extending moves (cpu v4) are not supported on the NFP; compile with -mcpu=v3"
                .to_string());
        }
        match (register, narrow) {
            (true, false) if s == 10 => {
                let operand = self.operand(self.depth as u32);
                self.alu(low(d), Operand::A(22), AluOp::Add, operand);
                self.clear(high(d));
            }
            (true, _) => {
                self.alu(low(d), Operand::None, AluOp::B, other(low(s)));
                if narrow {
                    self.clear(high(d));
                } else {
                    self.alu(high(d), Operand::None, AluOp::B, other(high(s)));
                }
            }
            (false, _) => {
                self.immediate(low(d), insn.imm as u32);
                self.immediate(high(d), if narrow { 0 } else { sign(insn.imm) });
            }
        }
        Ok(())
    }

    fn add(&mut self, insn: Insn, narrow: bool, register: bool) {
        let (d, s) = (insn.dst, insn.src);
        let (mut op, mut carry) =
            if insn.code & 0xf0 == 0 { (AluOp::Add, AluOp::AddCarry) } else { (AluOp::Sub, AluOp::SubCarry) };
        if register {
            self.alu(low(d), low(d), op, other(low(s)));
            if !narrow {
                self.alu(high(d), high(d), carry, other(high(s)));
            }
        } else {
            let mut value = insn.imm;
            if value < 0 && value != i32::MIN {
                value = -value;
                (op, carry) = if op == AluOp::Add {
                    (AluOp::Sub, AluOp::SubCarry)
                } else {
                    (AluOp::Add, AluOp::AddCarry)
                };
            }
            let operand = self.operand(value as u32);
            self.alu(low(d), low(d), op, operand);
            if !narrow {
                let operand = if sign(value) == 0 { Operand::Imm(0) } else { self.operand(u32::MAX) };
                self.alu(high(d), high(d), carry, operand);
            }
        }
        if narrow {
            self.clear_upper(d);
        }
    }

    /// The largest value an operand can have.
    fn most(&self, register: u8) -> u64 {
        match self.kind(register) {
            Kind::Number(_, most) => most,
            _ => u64::MAX,
        }
    }

    fn multiply(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let (d, s) = (insn.dst, insn.src);
        let second = if register { self.most(s) } else { insn.imm as i64 as u64 };
        let wide = u64::from(u32::MAX);
        if !narrow && (self.most(d) > wide || second > wide) {
            return Err(
                "the NFP multiplies 32 by 32 bits, and a factor may be wider; mask the factors or use 32-bit types".to_string()
            );
        }
        let b = if register { other(low(s)) } else { self.operand(insn.imm as u32) };
        let a = low(d);
        let small = self.most(d).min(if narrow { wide } else { u64::MAX }) <= 0xffff && second <= 0xffff;
        let step = |step| Op::Mul { a, b, step };
        self.one(step(MulStep::Start));
        if small {
            self.one(step(MulStep::Narrow(1)));
            self.one(step(MulStep::Narrow(2)));
            self.both(Op::Mul { a, b: Operand::None, step: MulStep::NarrowLast });
            self.clear(high(d));
            return Ok(());
        }
        for n in 1..=4 {
            self.one(step(MulStep::Wide(n)));
        }
        self.both(Op::Mul { a, b: Operand::None, step: MulStep::WideLast });
        if narrow {
            self.clear(high(d));
        } else {
            self.both(Op::Mul { a: high(d), b: Operand::None, step: MulStep::WideHigh });
        }
        Ok(())
    }

    fn divide(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let divisor = self.divisor(insn, narrow, register)?;
        self.quotient(insn.dst, low(insn.dst), divisor)?;
        self.clear_upper(insn.dst);
        Ok(())
    }

    /// The remainder: the dividend less what goes into it.
    fn remainder(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let d = low(insn.dst);
        let divisor = self.divisor(insn, narrow, register)?;
        if divisor.is_power_of_two() {
            self.logical_word(d, AluOp::And, divisor - 1);
        } else {
            let whole = Operand::A(21);
            self.quotient(insn.dst, whole, divisor)?;
            let b = self.operand(divisor);
            self.one(Op::Mul { a: whole, b, step: MulStep::Start });
            for n in 1..=4 {
                self.one(Op::Mul { a: whole, b, step: MulStep::Wide(n) });
            }
            self.both(Op::Mul { a: whole, b: Operand::None, step: MulStep::WideLast });
            self.alu(d, d, AluOp::Sub, other(whole));
        }
        self.clear_upper(insn.dst);
        Ok(())
    }

    /// The constant that a word is divided by.
    fn divisor(&self, insn: Insn, narrow: bool, register: bool) -> Result<u32, String> {
        if register || insn.imm <= 0 || insn.off != 0 {
            return Err("division is supported on the NFP by positive constants only".to_string());
        }
        if !narrow && self.most(insn.dst) > u64::from(u32::MAX) {
            return Err("division on the NFP takes dividends of 32 bits; use 32-bit types".to_string());
        }
        Ok(insn.imm as u32)
    }

    /// A word divided by a constant: a shift, or the high word of a multiplication (Granlund, Montgomery, PLDI'94).
    fn quotient(&mut self, dividend: u8, dst: Operand, divisor: u32) -> Result<(), String> {
        let d = low(dividend);
        let shift_from = |src: Operand, by| Op::AluShf {
            dst,
            a: Operand::None,
            op: AluOp::B,
            b: other(src),
            shift: Shift::Right(by),
        };
        if divisor.is_power_of_two() {
            let by = divisor.trailing_zeros() as u8;
            if by > 0 {
                self.both(shift_from(d, by));
            }
            return Ok(());
        }
        // ceil(2^(32+n) / divisor) fits 32 bits and is exact if its error times the dividend stays below 2^(32+n).
        let most = self.most(dividend).min(u32::MAX.into());
        let fitting = (0..32u32).find_map(|n| {
            let power = 1u128 << (32 + n);
            let factor = power.div_ceil(divisor.into());
            let error = factor * u128::from(divisor) - power;
            (factor <= u32::MAX.into() && error * (u128::from(most) + 1) <= power)
                .then_some((factor as u32, n as u8))
        });
        let Some((factor, shift)) = fitting else {
            return Err(format!(
                "division by {divisor} needs more than 32 bits on the NFP; mask the dividend first"
            ));
        };
        let b = self.operand(factor);
        self.one(Op::Mul { a: d, b, step: MulStep::Start });
        for n in 1..=4 {
            self.one(Op::Mul { a: d, b, step: MulStep::Wide(n) });
        }
        self.one(Op::Mul { a: Operand::None, b: Operand::None, step: MulStep::WideLast });
        self.both(Op::Mul { a: dst, b: Operand::None, step: MulStep::WideHigh });
        if shift > 0 {
            self.both(shift_from(dst, shift));
        }
        Ok(())
    }

    fn shift(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let operation = insn.code & 0xf0;
        match (narrow, register) {
            (true, false) => self.shift_narrow(insn.dst, operation, (insn.imm & 31) as u8),
            (false, false) => self.shift_wide(insn.dst, operation, (insn.imm & 63) as u8),
            (true, true) => {
                let d = low(insn.dst);
                let sign = if operation == 0xc0 { other(d) } else { Operand::Imm(0) };
                let mut by = low(insn.src);
                if operation == 0xc0 && self.most(insn.src) >= 1 << 31 {
                    // The amount's own top bit must not become the sign.
                    by = Operand::A(21);
                    self.one(Op::Alu { dst: by, a: low(insn.src), op: AluOp::And, b: Operand::Imm(31) });
                }
                self.test(by, AluOp::Or, sign);
                match operation {
                    0x60 => self.both(word_shift(d, Shift::LeftIndirect)),
                    0x70 => self.both(word_shift(d, Shift::RightIndirect)),
                    _ => self.both(Op::Asr { dst: d, src: other(d), shift: Shift::RightIndirect }),
                }
                self.clear_upper(insn.dst);
            }
            (false, true) => self.shift_wide_by_register(insn, operation),
        }
        Ok(())
    }

    fn shift_narrow(&mut self, register: u8, operation: u8, by: u8) {
        let d = low(register);
        match (operation, by) {
            (_, 0) => {}
            (0x60, _) => self.both(word_shift(d, Shift::Left(by))),
            (0x70, _) => self.both(word_shift(d, Shift::Right(by))),
            _ => {
                self.test(d, AluOp::Or, Operand::Imm(0));
                self.both(Op::Asr { dst: d, src: other(d), shift: Shift::Right(by) });
            }
        }
        self.clear_upper(register);
    }

    fn shift_wide(&mut self, register: u8, operation: u8, by: u8) {
        let (l, h) = (low(register), high(register));
        let double = |dst, by| Op::DblShf { dst, high: h, low: other(l), shift: Shift::Right(by) };
        match (operation, by) {
            (_, 0) => {}
            (0x60, 1..32) => {
                self.both(double(h, 32 - by));
                self.both(word_shift(l, Shift::Left(by)));
            }
            (0x60, 32) => {
                self.alu(h, Operand::None, AluOp::B, other(l));
                self.clear(l);
            }
            (0x60, _) => {
                self.both(Op::AluShf {
                    dst: h,
                    a: Operand::None,
                    op: AluOp::B,
                    b: other(l),
                    shift: Shift::Left(by - 32),
                });
                self.clear(l);
            }
            (0x70, 1..32) => {
                self.both(double(l, by));
                self.both(word_shift(h, Shift::Right(by)));
            }
            (0x70, 32) => {
                self.alu(l, Operand::None, AluOp::B, other(h));
                self.clear(h);
            }
            (0x70, _) => {
                self.both(Op::AluShf {
                    dst: l,
                    a: Operand::None,
                    op: AluOp::B,
                    b: other(h),
                    shift: Shift::Right(by - 32),
                });
                self.clear(h);
            }
            (_, 1..32) => {
                self.both(double(l, by));
                self.test(h, AluOp::Or, Operand::Imm(0));
                self.both(Op::Asr { dst: h, src: other(h), shift: Shift::Right(by) });
            }
            (_, 32) => {
                self.alu(l, Operand::None, AluOp::B, other(h));
                self.both(Op::Asr { dst: h, src: other(h), shift: Shift::Right(31) });
            }
            _ => {
                self.test(h, AluOp::Or, Operand::Imm(0));
                self.both(Op::Asr { dst: l, src: other(h), shift: Shift::Right(by - 32) });
                // The sign is latched again: asr itself latches nothing.
                self.test(h, AluOp::Or, Operand::Imm(0));
                self.both(Op::Asr { dst: h, src: other(h), shift: Shift::Right(31) });
            }
        }
    }

    fn shift_wide_by_register(&mut self, insn: Insn, operation: u8) {
        let (l, h, by) = (low(insn.dst), high(insn.dst), low(insn.src));
        let range = match self.kind(insn.src) {
            Kind::Number(least, most) if insn.src != insn.dst => (least, most),
            _ => (0, u64::MAX),
        };
        let indirect = Shift::RightIndirect;
        match (operation, range) {
            (0x60, (1.., ..=31)) => {
                // The high word takes from the low one what the complement to 32 shifts out.
                self.one(Op::Alu { dst: Operand::A(21), a: Operand::Imm(32), op: AluOp::Sub, b: other(by) });
                self.test(Operand::A(21), AluOp::Or, Operand::Imm(0));
                self.both(Op::DblShf { dst: h, high: h, low: other(l), shift: indirect });
                self.test(by, AluOp::Or, Operand::Imm(0));
                self.both(word_shift(l, Shift::LeftIndirect));
            }
            (0x70 | 0xc0, (_, ..=31)) => {
                self.test(by, AluOp::Or, Operand::Imm(0));
                self.both(Op::DblShf { dst: l, high: h, low: other(l), shift: indirect });
                self.test(by, AluOp::Or, if operation == 0xc0 { other(h) } else { Operand::Imm(0) });
                if operation == 0xc0 {
                    self.both(Op::Asr { dst: h, src: other(h), shift: indirect });
                } else {
                    self.both(word_shift(h, indirect));
                }
            }
            _ => self.shift_wide_by_anything(insn, operation),
        }
    }

    /// A 64-bit shift whose amount may be 32 or more: bit 5 decides which way the words go.
    fn shift_wide_by_anything(&mut self, insn: Insn, operation: u8) {
        let (l, h, zero) = (low(insn.dst), high(insn.dst), Operand::Imm(0));
        // The amount's register may be the one that is shifted.
        let by = Operand::A(20);
        let moved = |dst, a, op, b, shift| Op::AluShf { dst, a, op, b, shift };
        self.one(Op::Alu { dst: by, a: low(insn.src), op: AluOp::And, b: Operand::Imm(31) });
        self.test(low(insn.src), AluOp::And, Operand::Imm(32));
        let far = self.inner_branch(Cond::Ne);
        match operation {
            0x60 => {
                // What leaves the low word, shifted in two steps, since a shift by 32 is none.
                let (rest, complement) = (Operand::B(21), Operand::A(21));
                self.one(moved(rest, Operand::None, AluOp::B, other(l), Shift::Right(1)));
                self.one(Op::Alu { dst: complement, a: Operand::Imm(31), op: AluOp::Sub, b: by });
                self.test(complement, AluOp::Or, zero);
                self.one(moved(complement, Operand::None, AluOp::B, rest, Shift::RightIndirect));
                self.test(by, AluOp::Or, zero);
                self.both(moved(h, complement, AluOp::Or, other(h), Shift::LeftIndirect));
                self.test(by, AluOp::Or, zero);
                self.both(word_shift(l, Shift::LeftIndirect));
            }
            _ => {
                self.test(by, AluOp::Or, zero);
                self.both(Op::DblShf { dst: l, high: h, low: other(l), shift: Shift::RightIndirect });
                self.word_by_latch(h, h, by, operation);
            }
        }
        let end = self.inner_branch(Cond::Always);
        self.land(far);
        if operation == 0x60 {
            self.test(by, AluOp::Or, zero);
            self.both(moved(h, Operand::None, AluOp::B, other(l), Shift::LeftIndirect));
            self.clear(l);
        } else {
            self.word_by_latch(l, h, by, operation);
            if operation == 0x70 {
                self.clear(h);
            } else {
                self.test(h, AluOp::Or, zero);
                self.both(Op::Asr { dst: h, src: other(h), shift: Shift::Right(31) });
            }
        }
        self.land(end);
    }

    /// A word shifted right by 0 to 31, into a word.
    fn word_by_latch(&mut self, dst: Operand, src: Operand, by: Operand, operation: u8) {
        let shift = Shift::RightIndirect;
        if operation == 0xc0 {
            self.test(by, AluOp::Or, other(src));
            self.both(Op::Asr { dst, src: other(src), shift });
        } else {
            self.test(by, AluOp::Or, Operand::Imm(0));
            self.both(Op::AluShf { dst, a: Operand::None, op: AluOp::B, b: other(src), shift });
        }
    }

    /// The bytes of a word reversed: turned by one byte every second is right, and by two more the others are.
    fn swap_word(&mut self, dst: Operand, src: Operand) {
        let field = |mask, src, by| Op::LdField { dst, mask, src, shift: Shift::Rotate(by), clear: false };
        self.both(field(0b1111, src, 8));
        self.both(field(0b0101, other(dst), 16));
    }

    /// Byte order conversions.
    fn swap(&mut self, insn: Insn) -> Result<(), String> {
        let (l, h) = (low(insn.dst), high(insn.dst));
        let to_big = insn.code & SOURCE_REGISTER != 0 || insn.code & 7 == crate::ebpf::insn::class::ALU64;
        let field = |dst, mask, src, shift, clear| Op::LdField { dst, mask, src, shift, clear };
        match (to_big, insn.imm) {
            (false, 64) => {}
            (false, bits) => {
                if bits == 16 {
                    self.logical_word(l, AluOp::And, 0xffff);
                }
                self.clear(h);
            }
            (true, 16) => {
                self.both(field(l, 0b0100, other(l), Shift::Left(16), false));
                self.both(field(l, 0b0011, other(l), Shift::Right(8), true));
                self.clear(h);
            }
            (true, 32) => {
                self.swap_word(l, other(l));
                self.clear(h);
            }
            (true, 64) => {
                self.one(Op::Alu { dst: Operand::B(21), a: Operand::None, op: AluOp::B, b: other(h) });
                self.swap_word(h, other(l));
                self.swap_word(l, Operand::B(21));
            }
            _ => return Err(format!("no byte order of {} bits", insn.imm)),
        }
        Ok(())
    }
}

/// Shifts a word in place.
fn word_shift(word: Operand, shift: Shift) -> Op {
    Op::AluShf { dst: word, a: Operand::None, op: AluOp::B, b: other(word), shift }
}
