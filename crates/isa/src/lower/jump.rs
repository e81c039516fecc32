//! Comparisons and branches.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::insn::{SOURCE_REGISTER, class};
use crate::nfp::{AluOp, Cond, Op, Operand};

impl Lower<'_> {
    pub(super) fn jump(&mut self, insn: Insn) -> Result<(), String> {
        let narrow = insn.code & 7 == class::JMP32;
        let by = if insn.code == 0x06 { i64::from(insn.imm) } else { insn.off.into() };
        let to = self.at as i64 + 1 + by;
        if to < 0 || to >= self.program.insns.len() as i64 {
            return Err("a jump out of the program".to_string());
        }
        if insn.code & 0xf0 == 0 {
            self.branch(Cond::Always, Some(to));
            return Ok(());
        }
        if insn.code & SOURCE_REGISTER != 0 {
            self.jump_register(insn, narrow, to)
        } else {
            self.jump_immediate(insn, narrow, to)
        }
    }

    fn jump_register(&mut self, insn: Insn, narrow: bool, to: i64) -> Result<(), String> {
        let (d, s) = (insn.dst, insn.src);
        match insn.code & 0xf0 {
            code @ (0x10 | 0x50) => {
                let cond = if code == 0x10 { Cond::Eq } else { Cond::Ne };
                if code == 0x10 {
                    self.scratch(Operand::A(21), low(d), AluOp::Xor, other(low(s)));
                    if !narrow {
                        self.scratch(Operand::B(21), high(d), AluOp::Xor, other(high(s)));
                        self.test(Operand::A(21), AluOp::Or, Operand::B(21));
                    }
                    self.branch(cond, Some(to));
                } else {
                    self.test(low(d), AluOp::Xor, other(low(s)));
                    self.branch(cond, Some(to));
                    if !narrow {
                        self.test(high(d), AluOp::Xor, other(high(s)));
                        self.branch(cond, Some(to));
                    }
                }
            }
            0x40 => {
                self.test(low(d), AluOp::And, other(low(s)));
                self.branch(Cond::Ne, Some(to));
                if !narrow {
                    self.test(high(d), AluOp::And, other(high(s)));
                    self.branch(Cond::Ne, Some(to));
                }
            }
            code => {
                let (cond, swapped) = order(code)?;
                let (x, y) = if swapped { (s, d) } else { (d, s) };
                self.test(low(x), AluOp::Sub, other(low(y)));
                if !narrow {
                    self.test(high(x), AluOp::SubCarry, other(high(y)));
                }
                self.branch(cond, Some(to));
            }
        }
        Ok(())
    }

    /// A word into a register of one bank.
    fn scratch(&mut self, dst: Operand, a: Operand, op: AluOp, b: Operand) {
        self.one(Op::Alu { dst, a, op, b });
    }

    fn jump_immediate(&mut self, insn: Insn, narrow: bool, to: i64) -> Result<(), String> {
        let d = insn.dst;
        let (value, upper) = (insn.imm as u32, (insn.imm >> 31) as u32);
        match insn.code & 0xf0 {
            0x10 if narrow => {
                self.compare_word(low(d), value);
                self.branch(Cond::Eq, Some(to));
            }
            0x10 => {
                let (mut first, mut second) = (low(d), other(high(d)));
                if value != 0 {
                    let operand = self.operand(value);
                    self.scratch(Operand::A(21), first, AluOp::Xor, operand);
                    first = Operand::A(21);
                }
                if upper != 0 {
                    let operand = self.operand(upper);
                    self.scratch(Operand::B(21), high(d), AluOp::Xor, operand);
                    second = Operand::B(21);
                }
                self.test(first, AluOp::Or, second);
                self.branch(Cond::Eq, Some(to));
            }
            0x50 if narrow && value == 0 => {
                self.test(Operand::None, AluOp::B, other(low(d)));
                self.branch(Cond::Ne, Some(to));
            }
            0x50 if narrow => {
                self.compare_word(low(d), value);
                self.branch(Cond::Ne, Some(to));
            }
            0x50 if value == 0 => {
                self.test(low(d), AluOp::Or, other(high(d)));
                self.branch(Cond::Ne, Some(to));
            }
            0x50 => {
                self.compare_word(low(d), value);
                self.branch(Cond::Ne, Some(to));
                self.compare_word(high(d), upper);
                self.branch(Cond::Ne, Some(to));
            }
            0x40 => {
                let operand = self.operand(value);
                self.scratch(Operand::B(21), low(d), AluOp::And, operand);
                if upper != 0 && !narrow {
                    self.test(high(d), AluOp::Or, Operand::B(21));
                }
                self.branch(Cond::Ne, Some(to));
            }
            code => {
                let (cond, swapped) = order(code)?;
                // Comparing with -n is adding n; the carry then says the same.
                let negative = insn.imm < 0 && insn.imm != i32::MIN && !swapped;
                let (operand, op, carry) = if negative {
                    (self.operand(insn.imm.unsigned_abs()), AluOp::Add, AluOp::AddCarry)
                } else {
                    (self.operand(value), AluOp::Sub, AluOp::SubCarry)
                };
                let order = |word: Operand, operand| {
                    if swapped { (operand, word) } else { (word, operand) }
                };
                let (x, y) = order(low(d), operand);
                self.test(x, op, y);
                if !narrow {
                    let operand = if negative { Operand::Imm(0) } else { self.operand(upper) };
                    let (x, y) = order(high(d), operand);
                    self.test(x, carry, y);
                }
                self.branch(cond, Some(to));
            }
        }
        Ok(())
    }

    fn compare_word(&mut self, word: Operand, value: u32) {
        let operand = self.operand(value);
        self.test(word, AluOp::Xor, operand);
    }
}

/// The branch after subtracting, and whether the operands are exchanged.
fn order(code: u8) -> Result<(Cond, bool), String> {
    Ok(match code {
        0x20 => (Cond::CarryClear, true),
        0x30 => (Cond::CarrySet, false),
        0xa0 => (Cond::CarryClear, false),
        0xb0 => (Cond::CarrySet, true),
        0x60 => (Cond::Lt, true),
        0x70 => (Cond::Ge, false),
        0xc0 => (Cond::Lt, false),
        0xd0 => (Cond::Ge, true),
        _ => return Err(format!("unknown jump {code:#04x}")),
    })
}
