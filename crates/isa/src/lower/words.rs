//! Immediates and single words.

use super::{Lower, other};
use crate::nfp::{AluOp, Op, Operand};

impl Lower<'_> {
    /// How a value is loaded by one `immed`, if it can: 16 bits and a rotation, the rest all zeroes
    /// or all ones.
    pub(super) fn short(value: u32) -> Option<(u32, u8)> {
        [0u8, 8, 16].into_iter().find_map(|shift| {
            let turned = value.rotate_right(shift.into());
            matches!(turned >> 16, 0 | 0xffff).then_some((turned, shift))
        })
    }

    /// Loads a word into both banks: one instruction, or two.
    pub(super) fn immediate(&mut self, dst: Operand, value: u32) {
        match Self::short(value) {
            Some((value, shift)) => self.both(Op::Immed { dst, value, shift }),
            None => {
                self.both(Op::Immed { dst, value: value & 0xffff, shift: 0 });
                self.both(Op::ImmedW1 { dst, value: value >> 16 });
            }
        }
    }

    /// An operand for arithmetic: small values fit the instruction, others go through scratch
    /// register 20 of bank B.
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
        let scratch = Operand::B(20);
        match Self::short(value) {
            Some((value, shift)) => self.one(Op::Immed { dst: scratch, value, shift }),
            None => {
                self.one(Op::Immed { dst: scratch, value: value & 0xffff, shift: 0 });
                self.one(Op::ImmedW1 { dst: scratch, value: value >> 16 });
            }
        }
        scratch
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

    pub(super) fn clear(&mut self, dst: Operand) {
        self.both(Op::Immed { dst, value: 0, shift: 0 });
    }

    /// Clears the upper half, if anybody reads it.
    pub(super) fn clear_upper(&mut self, register: u8) {
        if self.upper[self.at] >> register & 1 != 0 {
            self.clear(super::high(register));
        }
    }
}
