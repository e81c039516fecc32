//! Immediates and single words.

use super::{Lower, other};
use crate::nfp::{AluOp, Insn, Op, Operand, Shift};

impl Lower<'_> {
    /// How a value is loaded by one `immed`, if it can: 16 bits and a rotation, the rest all zeroes
    /// or else all ones.
    pub(super) fn short(value: u32) -> Option<(u32, u8)> {
        [0, 0xffff].into_iter().find_map(|rest| {
            [0u8, 8, 16].into_iter().find_map(|shift| {
                let turned = value.rotate_right(shift.into());
                (turned >> 16 == rest).then_some((turned, shift))
            })
        })
    }

    /// Loads a word into both banks: one instruction, or two.
    pub(super) fn immediate(&mut self, dst: Operand, value: u32) {
        self.load_word(dst, value, true);
    }

    /// Loads a word into one register.
    pub(super) fn immediate_one(&mut self, dst: Operand, value: u32) {
        self.load_word(dst, value, false);
    }

    fn load_word(&mut self, dst: Operand, value: u32, both: bool) {
        match Self::short(value) {
            Some((value, shift)) => self.push(Insn { op: Op::Immed { dst, value, shift }, both }),
            None => {
                self.push(Insn { op: Op::Immed { dst, value: value & 0xffff, shift: 0 }, both });
                self.push(Insn { op: Op::ImmedW1 { dst, value: value >> 16 }, both });
            }
        }
    }

    /// An operand for arithmetic: small values fit the instruction, others go through scratch
    /// register 21 of bank B.
    pub(super) fn operand(&mut self, value: u32) -> Operand {
        self.operand_up_to(value, 0xff)
    }

    /// An operand for memory instructions and shifts, where less fits.
    pub(super) fn small_operand(&mut self, value: u32) -> Operand {
        self.operand_up_to(value, 0x7f)
    }

    fn operand_up_to(&mut self, value: u32, most: u32) -> Operand {
        if value <= most {
            return Operand::Imm(value);
        }
        self.immediate_one(Operand::B(21), value);
        Operand::B(21)
    }

    /// One word of a logical operation with a constant, leaving out what changes nothing.
    pub(super) fn logical_word(&mut self, dst: Operand, op: AluOp, value: u32) {
        match (op, value) {
            (AluOp::And, u32::MAX) | (AluOp::Or | AluOp::Xor, 0) => {}
            (AluOp::And, 0) => self.both(Op::Immed { dst, value: 0, shift: 0 }),
            (AluOp::Or, u32::MAX) => self.both(Op::Immed { dst, value: u32::MAX, shift: 0 }),
            (AluOp::Xor, u32::MAX) => self.alu(dst, Operand::None, AluOp::NotB, other(dst)),
            _ => {
                let operand = self.operand(value);
                self.alu(dst, dst, op, operand);
            }
        }
    }

    /// Bytes of `src` into a register of both banks. Where `src` is of bank A, what stays comes
    /// from bank B.
    pub(super) fn field(&mut self, dst: Operand, mask: u8, src: Operand, shift: Shift) {
        self.both(Op::LdField { dst: from_other_bank(dst, src), mask, src, shift, clear: false });
    }

    pub(super) fn clear(&mut self, dst: Operand) {
        self.both(Op::Immed { dst, value: 0, shift: 0 });
    }

    /// Clears the upper half, if anybody reads it.
    pub(super) fn clear_upper(&mut self, register: u8) {
        if self.upper_is_read(register) {
            self.clear(super::high(register));
        }
    }

    /// True if somebody reads a register's upper half after this instruction.
    pub(super) fn upper_is_read(&self, register: u8) -> bool {
        self.upper[self.at] >> register & 1 != 0
    }
}

/// A register of both banks, named by the bank that the other operand leaves free.
fn from_other_bank(dst: Operand, src: Operand) -> Operand {
    match (dst, src) {
        (Operand::A(n), Operand::A(_)) => Operand::B(n),
        _ => dst,
    }
}
