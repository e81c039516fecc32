//! Code made ready to run: every halfword of a region decoded once, with what is known of its cost
//! before it runs.
//!
//! An entry stands for the instruction that begins at its halfword, whether or not the program ever
//! goes there, so jumps need no lookup but an index. A load is charged for the use of its result by
//! the next instruction when both are decoded: what follows a load in memory is what follows it in
//! time. Cores of a cluster share one `Code`. Memory: 12 bytes per halfword.

use super::decode::{Decoder, word_at};
use super::insn::{Class, Op, Pure};
use super::timing::Timing;

/// Register to which writes of `x0` go.
pub(super) const NOWHERE: u8 = 32;

/// An instruction as the core runs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub op: Op,
    pub rd: u8,
    pub rs1: u8,
    pub rs2: u8,
    /// Immediate; the word of an illegal instruction.
    pub imm: u32,
    /// Cycles, for branches if not taken.
    pub cost: u8,
    pub len: u8,
    /// Cycles of a branch if taken; the row of [`Op::Pure`].
    pub extra: u16,
}

/// A region of predecoded instructions.
#[derive(Clone, Debug)]
pub struct Code {
    pub(super) base: u32,
    pub(super) steps: Vec<Step>,
    decoder: Decoder,
    pub(super) timing: Timing,
}

impl Code {
    /// Decodes the bytes at `base`, which must be even. Later changes of memory do not show; make a
    /// new one after `fence.i`.
    pub fn new(base: u32, bytes: &[u8], decoder: &Decoder, timing: &Timing) -> Code {
        let mut code = Code { base, steps: Vec::new(), decoder: decoder.clone(), timing: *timing };
        code.steps = (0..bytes.len() / 2)
            .map_while(|half| {
                let rest = &bytes[half * 2..];
                let word = word_at(rest)?;
                Some(code.step(word, base.wrapping_add(half as u32 * 2), &mut |at| {
                    word_at(bytes.get(at.wrapping_sub(base) as usize..)?)
                }))
            })
            .collect();
        code
    }

    /// The instructions and costs that code was prepared for.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Address of the first byte.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Bytes covered.
    pub fn len(&self) -> usize {
        self.steps.len() * 2
    }

    /// True if nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Cycles of the instruction at an address, as far as they do not depend on values and
    /// memories, and those of a branch that is taken.
    pub fn cycles(&self, at: u32) -> Option<(u8, u16)> {
        let step = self.steps.get((at.wrapping_sub(self.base) >> 1) as usize)?;
        Some((step.cost, step.extra))
    }

    /// Makes one instruction ready. `peek` gives words at other addresses.
    pub(super) fn step(
        &self,
        word: u32,
        at: u32,
        peek: &mut dyn FnMut(u32) -> Option<u32>,
    ) -> Step {
        let (decoder, timing) = (&self.decoder, &self.timing);
        let Some(insn) = decoder.decode(word) else {
            let (len, word) = if word & 3 == 3 { (4, word) } else { (2, word & 0xffff) };
            return Step {
                op: Op::Illegal,
                rd: NOWHERE,
                rs1: 0,
                rs2: 0,
                imm: word,
                cost: 1,
                len,
                extra: 0,
            };
        };
        let row = decoder.row(&insn);
        let mut cost = timing.base(row.class);
        let mut extra = 0;
        match row.class {
            Class::Load | Class::Atomic if insn.rd != 0 => {
                let next = peek(at.wrapping_add(u32::from(insn.len)))
                    .and_then(|word| decoder.decode(word));
                let used = next.is_some_and(|next| {
                    let (first, second) = decoder.row(&next).format.reads();
                    first && next.rs1 == insn.rd || second && next.rs2 == insn.rd
                });
                cost = cost.saturating_add(if used { timing.load_use } else { 0 });
            }
            Class::Branch | Class::Jump if insn.op != Op::Jalr => {
                let target = at.wrapping_add(insn.imm as u32);
                let crossing = target & 2 != 0 && peek(target).is_some_and(|word| word & 3 == 3);
                let penalty = if crossing { timing.crossing_target } else { 0 };
                if row.class == Class::Branch {
                    extra = u16::from(timing.branch_taken) + u16::from(penalty);
                } else {
                    cost = cost.saturating_add(penalty);
                }
            }
            _ if insn.op == Op::Pure => extra = insn.row,
            _ => {}
        }
        Step {
            op: insn.op,
            rd: if insn.rd == 0 { NOWHERE } else { insn.rd },
            rs1: insn.rs1,
            rs2: insn.rs2,
            imm: insn.imm as u32,
            cost,
            len: insn.len,
            extra,
        }
    }

    /// The function of a row, and whether its second operand is a register.
    pub(super) fn pure(&self, row: u16) -> Option<(Pure, bool)> {
        let row = self.decoder.row_at(row);
        Some((row.pure?, row.format.reads().1))
    }
}
