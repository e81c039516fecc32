//! What each NFP instruction does, as effects on slots.

use nicforge_isa::nfp::{
    AluOp, CSR_DELAY, Insn, MemOp, MulStep, Op, Operand, Shift, field_mask, immediate,
};

use super::{DRAM, Front, Local, word};
use crate::graph::{Effect, Expr};
use crate::term::Op as TermOp;

impl Front {
    fn shifted(&self, value: Expr, shift: Shift, local: &Local) -> Result<Expr, String> {
        let by = |n: u8| word(n.into());
        Ok(match shift {
            Shift::None | Shift::Rotate(0) => value,
            Shift::Left(n) => Expr::binary(TermOp::Shl, value, by(n)),
            Shift::Right(n) => Expr::binary(TermOp::Lshr, value, by(n)),
            Shift::Rotate(n) => {
                Expr::concat(Expr::extract(value.clone(), 0, n), Expr::extract(value, n, 32 - n))
            }
            Shift::LeftIndirect => Expr::binary(TermOp::Shl, value, self.indirect(local)?),
            Shift::RightIndirect => Expr::binary(TermOp::Lshr, value, self.indirect(local)?),
        })
    }

    /// The amount of an indirect shift.
    fn indirect(&self, local: &Local) -> Result<Expr, String> {
        if !local.fresh_latch {
            return Err("an indirect shift needs a logical instruction right before it".to_string());
        }
        Ok(Expr::binary(TermOp::And, Expr::Slot(self.latch_a), word(31)))
    }

    /// Sets zero and negative by a result that has been put into a slot.
    fn set_nz(&self, value: &Expr, effects: &mut Vec<Effect>) {
        effects.push(Effect::Set(self.flags[0], Expr::extract(value.clone(), 31, 1)));
        effects.push(Effect::Set(self.flags[1], Expr::binary(TermOp::Eq, value.clone(), word(0))));
    }

    /// The result in its slot, with flags; then to its destination.
    fn finish(&self, dst: Operand, both: bool, value: Expr, effects: &mut Vec<Effect>) {
        effects.push(Effect::Set(self.result, value));
        self.set_nz(&Expr::Slot(self.result), effects);
        self.write(dst, both, Expr::Slot(self.result), effects);
    }

    fn alu(
        &self,
        dst: Operand,
        both: bool,
        op: AluOp,
        a: Expr,
        b: Expr,
        effects: &mut Vec<Effect>,
    ) {
        let carry = Expr::Slot(self.flags[3]);
        let bits = |op, a, b| Expr::binary(op, a, b);
        // Overflow: the operands' signs agree and the result's does not.
        let overflow = |x: &Expr, y: &Expr, sum: &Expr| {
            let differs = |operand: &Expr| bits(TermOp::Xor, operand.clone(), sum.clone());
            Expr::extract(bits(TermOp::And, differs(x), differs(y)), 31, 1)
        };
        let less = |x: &Expr, y: &Expr| bits(TermOp::Ult, x.clone(), y.clone());
        let plain = |value| (value, Expr::Const(1, 0), Expr::Const(1, 0));
        let (value, carry, overflow) = match op {
            AluOp::B => plain(b),
            AluOp::NotB => plain(Expr::not(b)),
            AluOp::And => plain(bits(TermOp::And, a, b)),
            AluOp::NotAnd => plain(bits(TermOp::And, Expr::not(a), b)),
            AluOp::AndNot => plain(bits(TermOp::And, a, Expr::not(b))),
            AluOp::Or => plain(bits(TermOp::Or, a, b)),
            AluOp::Xor => plain(bits(TermOp::Xor, a, b)),
            AluOp::Add | AluOp::Add8 | AluOp::Add16 => {
                let b = match op {
                    AluOp::Add8 => bits(TermOp::And, b, word(0xff)),
                    AluOp::Add16 => bits(TermOp::And, b, word(0xffff)),
                    _ => b,
                };
                let sum = Expr::add(a.clone(), b.clone());
                let (carry, overflow) = (less(&sum, &b), overflow(&a, &b, &sum));
                (sum, carry, overflow)
            }
            AluOp::AddCarry => {
                let half = Expr::add(a.clone(), b.clone());
                let sum = Expr::add(half.clone(), Expr::zext(carry.clone(), 32));
                let wrapped =
                    bits(TermOp::And, carry, bits(TermOp::Eq, half.clone(), word(u32::MAX)));
                let carried = bits(TermOp::Or, less(&half, &b), wrapped);
                let overflow = overflow(&a, &b, &sum);
                (sum, carried, overflow)
            }
            AluOp::Sub | AluOp::Reverse => {
                let (a, b) = if op == AluOp::Sub { (a, b) } else { (b, a) };
                let difference = Expr::sub(a.clone(), b.clone());
                let overflow = overflow(&a, &Expr::not(b.clone()), &difference);
                (difference, Expr::not(less(&a, &b)), overflow)
            }
            AluOp::SubCarry => {
                let borrow = Expr::not(carry);
                let difference =
                    Expr::sub(Expr::sub(a.clone(), b.clone()), Expr::zext(borrow.clone(), 32));
                let equal = bits(TermOp::And, bits(TermOp::Eq, a.clone(), b.clone()), borrow);
                let borrowed = bits(TermOp::Or, less(&a, &b), equal);
                let overflow = overflow(&a, &Expr::not(b), &difference);
                (difference, Expr::not(borrowed), overflow)
            }
        };
        // All three depend on the old carry, which therefore changes last.
        effects.push(Effect::Set(self.result, value));
        effects.push(Effect::Set(self.flags[2], overflow));
        effects.push(Effect::Set(self.flags[3], carry));
        self.set_nz(&Expr::Slot(self.result), effects);
        self.write(dst, both, Expr::Slot(self.result), effects);
    }

    pub(super) fn translate(
        &mut self,
        insn: &Insn,
        local: &mut Local,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let both = insn.both;
        let latched = std::mem::take(&mut local.fresh_latch);
        let shift_state = Local { fresh_latch: latched, ..Local::default() };
        let multiplying = local.multiplying.take();
        match insn.op {
            Op::Alu { dst, a, op, b } => {
                let (a, b) = self.operands(a, b, effects)?;
                let a = self.keep_old(op, a, effects);
                self.alu(dst, both, op, a, b, effects);
                if !op.is_arithmetic() {
                    self.latch(effects, local);
                }
            }
            Op::AluShf { dst, a, op, b, shift } => {
                let (a, b) = self.operands(a, b, effects)?;
                // The shift may take its amount from a latch that is written next.
                let b = self.shifted(b, shift, &shift_state)?;
                effects.push(Effect::Set(self.shifted, b));
                let b = Expr::Slot(self.shifted);
                let a = self.keep_old(op, a, effects);
                self.alu(dst, both, op, a, b, effects);
                self.latch(effects, local);
            }
            Op::Asr { dst, src, shift } => {
                let sign = Expr::extract(Expr::Slot(self.latch), 31, 1);
                let src = self.read(src, effects);
                let by = match shift {
                    Shift::Right(n) => word(n.into()),
                    _ => self.indirect(&shift_state)?,
                };
                let shifted = Expr::binary(TermOp::Lshr, src, by.clone());
                let fill = Expr::not(Expr::binary(TermOp::Lshr, word(u32::MAX), by));
                let value =
                    Expr::ite(sign, Expr::binary(TermOp::Or, shifted.clone(), fill), shifted);
                effects.push(Effect::Set(self.flags[2], Expr::Const(1, 0)));
                effects.push(Effect::Set(self.flags[3], Expr::Const(1, 0)));
                self.finish(dst, both, value, effects);
            }
            Op::DblShf { dst, high, low, shift } => {
                let (high, low) = self.operands(high, low, effects)?;
                let by = match shift {
                    Shift::Right(n) => Expr::Const(64, n.into()),
                    _ => Expr::zext(self.indirect(&shift_state)?, 64),
                };
                let wide = Expr::binary(TermOp::Lshr, Expr::concat(high, low), by);
                self.finish(dst, both, Expr::extract(wide, 0, 32), effects);
            }
            Op::Immed { dst, value, shift } => {
                let value = immediate(value, shift);
                local.immed = Some(value);
                self.write(dst, both, word(value), effects);
            }
            Op::ImmedW1 { dst, value } => {
                let old = match dst {
                    Operand::Xfer(n) => Expr::Slot(self.xfer_out[usize::from(n) & 31]),
                    _ => self.read(dst, effects),
                };
                let value = Expr::concat(Expr::Const(16, value.into()), Expr::extract(old, 0, 16));
                self.write(dst, both, value, effects);
            }
            Op::LdField { dst, mask, src, shift, clear } => {
                let bits = field_mask(mask);
                let src = self.read(src, effects);
                let src =
                    Expr::binary(TermOp::And, self.shifted(src, shift, &shift_state)?, word(bits));
                let value = if clear {
                    src
                } else {
                    let old = match dst {
                        Operand::Local { .. } => {
                            // Reading the old word may overwrite the source.
                            effects.push(Effect::Set(self.result, src.clone()));
                            self.read(dst, effects)
                        }
                        Operand::Xfer(n) => Expr::Slot(self.xfer_out[usize::from(n) & 31]),
                        _ => self.read(dst, effects),
                    };
                    let src = if matches!(dst, Operand::Local { .. }) {
                        Expr::Slot(self.result)
                    } else {
                        src
                    };
                    Expr::binary(TermOp::Or, Expr::binary(TermOp::And, old, word(!bits)), src)
                };
                self.finish(dst, both, value, effects);
            }
            Op::Mul { a, b, step } => {
                self.multiply(multiplying, (a, b, step), both, local, effects)?
            }
            Op::CsrWrite { index, src } => {
                let value = self.read(src, effects);
                // The register may change before the pointer is in force.
                let value = match value {
                    Expr::Const(..) => value,
                    _ => {
                        let kept = self.graph.slot(32);
                        effects.push(Effect::Set(kept, value));
                        Expr::Slot(kept)
                    }
                };
                local.pending.push((CSR_DELAY + 1, index, value));
            }
            Op::Mem { op, xfer, base, far, offset, count, indirect, .. } => {
                let count = match (indirect && op != MemOp::AddImm, local.immed) {
                    (false, _) => u32::from(count),
                    (true, Some(latch)) if !latched => (latch >> 8 & 31) + 1,
                    (true, _) => {
                        return Err(
                            "the count of this access is not a constant of its block".to_string()
                        );
                    }
                };
                let (base, offset) = self.operands(base, offset, effects)?;
                self.memory(op, xfer, (base, far, offset), count, effects)?;
            }
            Op::Nop | Op::Branch { .. } | Op::BranchBit { .. } => {}
        }
        Ok(())
    }

    /// Both operands; at most one of them may be in local memory.
    fn operands(
        &self,
        a: Operand,
        b: Operand,
        effects: &mut Vec<Effect>,
    ) -> Result<(Expr, Expr), String> {
        let local = |operand| matches!(operand, Operand::Local { .. } | Operand::LocalNext { .. });
        if local(a) && local(b) {
            return Err("two operands in local memory".to_string());
        }
        Ok((self.read(a, effects), self.read(b, effects)))
    }

    /// The A operand, kept for the latch where the instruction may overwrite it.
    fn keep_old(&self, op: AluOp, a: Expr, effects: &mut Vec<Effect>) -> Expr {
        if op.is_arithmetic() {
            return a;
        }
        effects.push(Effect::Set(self.latch_a, a));
        Expr::Slot(self.latch_a)
    }

    fn latch(&self, effects: &mut Vec<Effect>, local: &mut Local) {
        effects.push(Effect::Set(self.latch, Expr::Slot(self.result)));
        local.fresh_latch = true;
    }

    fn multiply(
        &mut self,
        before: Option<(Operand, Operand, u8)>,
        (a, b, step): (Operand, Operand, MulStep),
        both: bool,
        local: &mut Local,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let (expected, next) = match step {
            MulStep::Start => (None, 1),
            MulStep::Narrow(n) => (Some(if n == 1 { 1 } else { 10 + n - 1 }), 10 + n),
            MulStep::NarrowLast => (Some(12), 0),
            MulStep::Wide(n) => (Some(if n == 1 { 1 } else { 20 + n - 1 }), 20 + n),
            MulStep::WideLast => (Some(24), 25),
            MulStep::WideHigh => (Some(25), 0),
        };
        match (expected, before) {
            (None, _) => {
                let (x, y) = self.operands(a, b, effects)?;
                effects.push(Effect::Set(self.mul[0], x));
                effects.push(Effect::Set(self.mul[1], y));
                local.multiplying = Some((a, b, next));
            }
            (Some(expected), Some((x, y, at))) if at == expected => {
                let [p, q] = self.mul.map(Expr::Slot);
                let wide = |value| Expr::zext(value, 64);
                match step {
                    MulStep::NarrowLast | MulStep::WideLast => {
                        self.finish(a, both, Expr::binary(TermOp::Mul, p, q), effects);
                    }
                    MulStep::WideHigh => {
                        let product = Expr::binary(TermOp::Mul, wide(p), wide(q));
                        self.finish(a, both, Expr::extract(product, 32, 32), effects);
                    }
                    _ if (a, b) != (x, y) => {
                        return Err("the steps of a multiplication name other operands".to_string());
                    }
                    _ => {}
                }
                if next != 0 {
                    local.multiplying = Some((x, y, next));
                }
            }
            _ => return Err("the steps of a multiplication are out of order".to_string()),
        }
        Ok(())
    }

    fn memory(
        &self,
        op: MemOp,
        xfer: u8,
        (base, far, offset): (Expr, bool, Expr),
        count: u32,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let first = usize::from(xfer);
        let words = if op == MemOp::Write8 { count.div_ceil(4) } else { count };
        if first + words as usize > 32 {
            return Err("more words than transfer registers".to_string());
        }
        if matches!(op, MemOp::AddImm | MemOp::Add) {
            // Counters are not read back in the model; the addition costs time and nothing else.
            return Ok(());
        }
        let address = if far {
            let upper = Expr::binary(TermOp::Shl, Expr::zext(base, 64), Expr::Const(64, 8));
            Expr::add(Expr::add(upper, Expr::zext(offset, 64)), Expr::Const(64, DRAM))
        } else {
            Expr::zext(Expr::add(base, offset), 64)
        };
        let at = |by: u32| Expr::add(address.clone(), Expr::Const(64, by.into()));
        for index in 0..words as usize {
            let by = 4 * index as u32;
            match op {
                MemOp::Read32 => {
                    effects.push(Effect::Load {
                        slot: self.xfer_in[first + index],
                        address: at(by),
                        bytes: 4,
                    });
                }
                _ => {
                    let bytes = if op == MemOp::Write8 { (count - by).min(4) as u8 } else { 4 };
                    let value =
                        Expr::extract(Expr::Slot(self.xfer_out[first + index]), 0, 8 * bytes);
                    effects.push(Effect::Store { address: at(by), bytes, value });
                }
            }
        }
        Ok(())
    }
}
