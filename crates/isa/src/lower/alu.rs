//! Arithmetic.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::insn::SOURCE_REGISTER;
use crate::ebpf::kinds::Kind;
use crate::nfp::{AluOp, MulStep, Op, Operand, Shift};

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
            return Err(
                "sign-extending moves (cpu v4) are not supported on the NFP; compile with -mcpu=v3"
                    .to_string(),
            );
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
        let (mut op, mut carry) = if insn.code & 0xf0 == 0 {
            (AluOp::Add, AluOp::AddCarry)
        } else {
            (AluOp::Sub, AluOp::SubCarry)
        };
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
                let operand =
                    if sign(value) == 0 { Operand::Imm(0) } else { self.operand(u32::MAX) };
                self.alu(high(d), high(d), carry, operand);
            }
        }
        if narrow {
            self.clear_upper(d);
        }
    }

    /// The largest value an operand can have.
    pub(super) fn most(&self, register: u8) -> u64 {
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
        let small =
            self.most(d).min(if narrow { wide } else { u64::MAX }) <= 0xffff && second <= 0xffff;
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
            return Err(
                "division on the NFP takes dividends of 32 bits; use 32-bit types".to_string()
            );
        }
        Ok(insn.imm as u32)
    }

    /// A word divided by a constant: a shift, or the high word of a multiplication (Granlund,
    /// Montgomery, PLDI'94).
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
        // ceil(2^(32+n) / divisor) fits 32 bits and is exact if its error times the dividend stays
        // below 2^(32+n).
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

    /// The bytes of a word reversed: turned by one byte every second is right, and by two more the
    /// others are.
    fn swap_word(&mut self, dst: Operand, src: Operand) {
        let field =
            |mask, src, by| Op::LdField { dst, mask, src, shift: Shift::Rotate(by), clear: false };
        self.both(field(0b1111, src, 8));
        self.both(field(0b0101, other(dst), 16));
    }

    /// Byte order conversions.
    fn swap(&mut self, insn: Insn) -> Result<(), String> {
        let (l, h) = (low(insn.dst), high(insn.dst));
        let to_big =
            insn.code & SOURCE_REGISTER != 0 || insn.code & 7 == crate::ebpf::insn::class::ALU64;
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
                self.one(Op::Alu {
                    dst: Operand::B(21),
                    a: Operand::None,
                    op: AluOp::B,
                    b: other(h),
                });
                self.swap_word(h, other(l));
                self.swap_word(l, Operand::B(21));
            }
            _ => return Err(format!("no byte order of {} bits", insn.imm)),
        }
        Ok(())
    }
}
