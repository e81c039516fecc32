//! Shifts. A shift by a register takes its amount, five bits, from the A operand of the logical
//! instruction before, and an arithmetic one its sign from that instruction's result.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::kinds::Kind;
use crate::nfp::{AluOp, Cond, Op, Operand, Shift};

impl Lower<'_> {
    pub(super) fn shift(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
        let operation = insn.code & 0xf0;
        let by = match self.kind(insn.src) {
            _ if !register => Some(insn.imm as u64),
            Kind::Number(least, most) if least == most => Some(least),
            _ => None,
        };
        match (narrow, by) {
            (true, Some(by)) => self.shift_narrow(insn.dst, operation, (by & 31) as u8),
            (false, Some(by)) => self.shift_wide(insn.dst, operation, (by & 63) as u8),
            (true, None) => {
                let d = low(insn.dst);
                let sign = if operation == 0xc0 { other(d) } else { Operand::Imm(0) };
                self.test(low(insn.src), AluOp::Or, sign);
                match operation {
                    0x60 => self.both(word_shift(d, Shift::LeftIndirect)),
                    0x70 => self.both(word_shift(d, Shift::RightIndirect)),
                    _ => self.both(Op::Asr { dst: d, src: other(d), shift: Shift::RightIndirect }),
                }
                self.clear_upper(insn.dst);
            }
            (false, None) => self.shift_wide_by_register(insn, operation),
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
                self.both(Op::Asr { dst: h, src: other(h), shift: Shift::Right(31) });
            }
        }
    }

    /// Bit 5 of the amount decides which way the words go, where it is not known.
    fn shift_wide_by_register(&mut self, insn: Insn, operation: u8) {
        let by = low(insn.src);
        let (least, most) = match self.kind(insn.src) {
            Kind::Number(least, most) => (least, most),
            _ => (0, u64::MAX),
        };
        if most < 32 {
            self.near_first(insn, operation);
            self.near_second(insn, operation);
        } else if least >= 32 {
            self.far(insn, operation);
        } else {
            let far = self.inner_bit_branch(by, 5);
            self.near_first(insn, operation);
            let end = self.inner_branch(Cond::Always, 2);
            self.near_second(insn, operation);
            self.land(far);
            self.far(insn, operation);
            self.land(end);
        }
    }

    /// By less than 32: the word that takes bits from the other one.
    fn near_first(&mut self, insn: Insn, operation: u8) {
        let (l, h, by) = (low(insn.dst), high(insn.dst), low(insn.src));
        let (mut dst, mut from) = (l, by);
        if operation == 0x60 {
            // What the complement to 32 shifts out.
            (dst, from) = (h, Operand::A(21));
            self.alu(from, Operand::Imm(32), AluOp::Sub, other(by));
        }
        self.test(from, AluOp::Or, Operand::Imm(0));
        self.both(Op::DblShf { dst, high: h, low: other(l), shift: Shift::RightIndirect });
    }

    /// By less than 32: the other word, in two instructions.
    fn near_second(&mut self, insn: Insn, operation: u8) {
        let (l, h, by) = (low(insn.dst), high(insn.dst), low(insn.src));
        let sign = if operation == 0xc0 { other(h) } else { Operand::Imm(0) };
        self.test(by, AluOp::Or, sign);
        match operation {
            0x60 => self.both(word_shift(l, Shift::LeftIndirect)),
            0x70 => self.both(word_shift(h, Shift::RightIndirect)),
            _ => self.both(Op::Asr { dst: h, src: other(h), shift: Shift::RightIndirect }),
        }
    }

    /// By 32 or more.
    fn far(&mut self, insn: Insn, operation: u8) {
        let (l, h, by) = (low(insn.dst), high(insn.dst), low(insn.src));
        let (dst, src, shift) = match operation {
            0x60 => (h, l, Shift::LeftIndirect),
            _ => (l, h, Shift::RightIndirect),
        };
        let sign = if operation == 0xc0 { other(h) } else { Operand::Imm(0) };
        self.test(by, AluOp::Or, sign);
        if operation == 0xc0 {
            self.both(Op::Asr { dst, src: other(src), shift });
            self.both(Op::Asr { dst: h, src: other(h), shift: Shift::Right(31) });
        } else {
            self.both(Op::AluShf { dst, a: Operand::None, op: AluOp::B, b: other(src), shift });
            self.clear(src);
        }
    }
}

/// Shifts a word in place.
fn word_shift(word: Operand, shift: Shift) -> Op {
    Op::AluShf { dst: word, a: Operand::None, op: AluOp::B, b: other(word), shift }
}
