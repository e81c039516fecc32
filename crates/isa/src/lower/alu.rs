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
        let small = self.most(d) <= 0xffff && second <= 0xffff;
        if small {
            // The upper half is zero already.
            self.one(Op::Mul { a, b, step: MulStep::Start });
            self.one(Op::Mul { a, b, step: MulStep::Narrow(1) });
            self.one(Op::Mul { a, b, step: MulStep::Narrow(2) });
            self.both(Op::Mul { a, b: Operand::None, step: MulStep::NarrowLast });
            return Ok(());
        }
        self.multiply_words(a, b);
        self.both(Op::Mul { a, b: Operand::None, step: MulStep::WideLast });
        if narrow {
            self.clear(high(d));
        } else {
            self.both(Op::Mul { a: high(d), b: Operand::None, step: MulStep::WideHigh });
        }
        Ok(())
    }

    /// Multiplies two words; the results are taken next.
    fn multiply_words(&mut self, a: Operand, b: Operand) {
        self.one(Op::Mul { a, b, step: MulStep::Start });
        for n in 1..=4 {
            self.one(Op::Mul { a, b, step: MulStep::Wide(n) });
        }
    }

    fn divide(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let divisor = self.divisor(insn, narrow, register)?;
        let d = low(insn.dst);
        if divisor > 1 << 31 {
            // One or zero: whether it goes into the dividend.
            let b = self.operand(divisor);
            self.test(d, AluOp::Sub, b);
            self.one(Op::Immed { dst: Operand::A(21), value: 0, shift: 0 });
            self.alu(d, Operand::A(21), AluOp::AddCarry, Operand::Imm(0));
            return Ok(());
        }
        let mut by = Reciprocal::of(divisor, 32);
        let mut before = 0;
        if by.wide && divisor.is_multiple_of(2) {
            before = divisor.trailing_zeros() as u8;
            by = Reciprocal::of(divisor >> before, 32 - before);
        }
        let factor = self.operand(by.factor);
        // By nothing, the driver's word means an indirect shift, whose amount nobody set.
        let shift = |lower: &mut Self, by| {
            lower.both(Op::AluShf {
                dst: d,
                a: Operand::None,
                op: AluOp::B,
                b: d,
                shift: if by == 0 { Shift::RightIndirect } else { Shift::Right(by) },
            });
        };
        if divisor.is_power_of_two() {
            shift(self, divisor.trailing_zeros() as u8);
            return Ok(());
        }
        let none = Operand::None;
        if by.wide {
            // The factor has a 33rd bit: the dividend is added once more, half before.
            let product = Operand::B(21);
            self.multiply_words(d, factor);
            self.one(Op::Mul { a: none, b: none, step: MulStep::WideLast });
            self.both(Op::Mul { a: Operand::A(21), b: none, step: MulStep::WideHigh });
            self.alu(d, d, AluOp::Sub, product);
            shift(self, 1);
            self.alu(d, d, AluOp::Add, product);
            shift(self, by.shift - 1);
            return Ok(());
        }
        if before > 0 {
            shift(self, before);
        }
        self.multiply_words(d, factor);
        self.one(Op::Mul { a: none, b: none, step: MulStep::WideLast });
        self.both(Op::Mul { a: d, b: none, step: MulStep::WideHigh });
        shift(self, by.shift);
        Ok(())
    }

    /// The remainder, which the driver does not have: the dividend less what goes into it.
    fn remainder(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let d = low(insn.dst);
        let divisor = self.divisor(insn, narrow, register)?;
        if divisor.is_power_of_two() {
            self.logical_word(d, AluOp::And, divisor - 1);
        } else {
            let dividend = Operand::A(20);
            self.alu(dividend, Operand::None, AluOp::B, d);
            self.divide(Insn { code: 0x34, imm: divisor as i32, ..insn }, true, false)?;
            let b = self.operand(divisor);
            self.multiply_words(d, b);
            self.both(Op::Mul { a: d, b: Operand::None, step: MulStep::WideLast });
            self.alu(d, dividend, AluOp::Sub, other(d));
        }
        self.clear_upper(insn.dst);
        Ok(())
    }

    /// The constant that a word is divided by.
    fn divisor(&self, insn: Insn, narrow: bool, register: bool) -> Result<u32, String> {
        let constant = if register {
            match self.kind(insn.src) {
                Kind::Number(low, high) if low == high => u32::try_from(low).ok(),
                _ => None,
            }
        } else {
            u32::try_from(insn.imm).ok()
        };
        let constant = constant.filter(|constant| *constant > 0 && insn.off == 0);
        let Some(constant) = constant else {
            return Err("division is supported on the NFP by positive constants only".to_string());
        };
        if self.most(insn.dst) > u64::from(u32::MAX) && !narrow {
            return Err(
                "division on the NFP takes dividends of 32 bits; use 32-bit types".to_string()
            );
        }
        Ok(constant)
    }

    /// The bytes of a word reversed: turned by one byte every second is right, and by two more the
    /// others are.
    fn swap_word(&mut self, dst: Operand, src: Operand) {
        self.field(dst, 0b1111, src, Shift::Rotate(8));
        self.field(dst, 0b0101, dst, Shift::Rotate(16));
    }

    /// Byte order conversions.
    fn swap(&mut self, insn: Insn) -> Result<(), String> {
        let (l, h) = (low(insn.dst), high(insn.dst));
        let to_big =
            insn.code & SOURCE_REGISTER != 0 || insn.code & 7 == crate::ebpf::insn::class::ALU64;
        match (to_big, insn.imm) {
            (false, 64) => {}
            (false, bits) => {
                if bits == 16 {
                    self.logical_word(l, AluOp::And, 0xffff);
                }
                self.clear(h);
            }
            (true, 16) => {
                self.field(l, 0b1001, other(l), Shift::Rotate(8));
                self.field(l, 0b1110, l, Shift::Right(16));
                self.clear(h);
            }
            (true, 32) => {
                self.swap_word(l, l);
                self.clear(h);
            }
            (true, 64) => {
                let kept = Operand::A(21);
                self.one(Op::Alu { dst: kept, a: Operand::None, op: AluOp::B, b: other(h) });
                self.swap_word(h, l);
                self.swap_word(l, kept);
            }
            _ => return Err(format!("no byte order of {} bits", insn.imm)),
        }
        Ok(())
    }
}

/// A division as a multiplication and a shift (Granlund, Montgomery, PLDI'94, figure 6.2).
struct Reciprocal {
    /// Its low 32 bits; the 33rd is set if `wide`.
    factor: u32,
    wide: bool,
    shift: u8,
}

impl Reciprocal {
    /// For dividends of so many bits.
    fn of(divisor: u32, bits: u8) -> Reciprocal {
        let mut shift = 32 - (divisor - 1).leading_zeros() as u8;
        let power = 1u128 << (32 + shift);
        let least = power / u128::from(divisor);
        let most = (power + (1 << (32 + shift - bits))) / u128::from(divisor);
        let (mut least, mut most) = (least, most);
        while shift > 0 && least >> 1 < most >> 1 {
            (least, most) = (least >> 1, most >> 1);
            shift -= 1;
        }
        Reciprocal { factor: most as u32, wide: most > u32::MAX.into(), shift }
    }
}
