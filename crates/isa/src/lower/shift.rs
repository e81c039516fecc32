//! Shifts. A shift by a register takes its amount, five bits, from the A operand of the logical
//! instruction before, and an arithmetic one its sign from that instruction's result.

use super::{Lower, high, low, other};
use crate::ebpf::Insn;
use crate::ebpf::kinds::Kind;
use crate::nfp::{AluOp, Cond, Op, Operand, Shift};

impl Lower<'_> {
    pub(super) fn shift(&mut self, insn: Insn, narrow: bool, register: bool) -> Result<(), String> {
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
                    self.one(Op::Alu {
                        dst: by,
                        a: low(insn.src),
                        op: AluOp::And,
                        b: Operand::Imm(31),
                    });
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
                self.one(Op::Alu {
                    dst: Operand::A(21),
                    a: Operand::Imm(32),
                    op: AluOp::Sub,
                    b: other(by),
                });
                self.test(Operand::A(21), AluOp::Or, Operand::Imm(0));
                self.both(Op::DblShf { dst: h, high: h, low: other(l), shift: indirect });
                self.test(by, AluOp::Or, Operand::Imm(0));
                self.both(word_shift(l, Shift::LeftIndirect));
            }
            (0x70 | 0xc0, (_, ..=31)) => {
                self.test(by, AluOp::Or, Operand::Imm(0));
                self.both(Op::DblShf { dst: l, high: h, low: other(l), shift: indirect });
                self.test(
                    by,
                    AluOp::Or,
                    if operation == 0xc0 { other(h) } else { Operand::Imm(0) },
                );
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
                self.both(Op::DblShf {
                    dst: l,
                    high: h,
                    low: other(l),
                    shift: Shift::RightIndirect,
                });
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
}

/// Shifts a word in place.
fn word_shift(word: Operand, shift: Shift) -> Op {
    Op::AluShf { dst: word, a: Operand::None, op: AluOp::B, b: other(word), shift }
}
