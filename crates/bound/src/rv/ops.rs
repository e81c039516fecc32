//! What instructions other than jumps do, in the block language.

use nicforge_isa::rv32::csr::{self, number as n};
use nicforge_isa::rv32::{Insn, Op};

use super::RvError;
use super::front::Front;
use super::memory::OUTSIDE;
use crate::graph::{Effect, Expr};
use crate::term::Op as TermOp;

fn word(value: u32) -> Expr {
    Expr::Const(32, value.into())
}

fn negative(value: Expr) -> Expr {
    Expr::sub(word(0), value)
}

fn sign(value: Expr) -> Expr {
    Expr::extract(value, 31, 1)
}

fn magnitude(value: Expr) -> Expr {
    Expr::ite(sign(value.clone()), negative(value.clone()), value)
}

/// The high half of a product of two factors of 64 bits.
fn high(a: Expr, b: Expr) -> Expr {
    Expr::extract(Expr::binary(TermOp::Mul, a, b), 32, 32)
}

impl Front<'_> {
    pub(super) fn reg(&self, number: u8) -> Expr {
        if number == 0 { word(0) } else { Expr::Slot(self.slots.regs[usize::from(number & 31)]) }
    }

    /// Sets a register; writing x0 sets a slot that nobody reads.
    pub(super) fn set(&self, number: u8, value: Expr) -> Effect {
        Effect::Set(self.slots.regs[usize::from(number & 31)], value)
    }

    /// First source plus immediate.
    pub(super) fn address(&self, insn: Insn) -> Expr {
        Expr::add(self.reg(insn.rs1), word(insn.imm as u32))
    }

    /// Address of an unknown value of an instruction.
    pub(super) fn outside(&self, place: u32) -> Expr {
        Expr::Const(32, OUTSIDE + 0x1000 + 8 * u64::from(place))
    }

    pub(super) fn condition(&self, insn: Insn) -> Expr {
        let (a, b) = (self.reg(insn.rs1), self.reg(insn.rs2));
        match insn.op {
            Op::Beq => Expr::binary(TermOp::Eq, a, b),
            Op::Bne => Expr::not(Expr::binary(TermOp::Eq, a, b)),
            Op::Blt => Expr::binary(TermOp::Slt, a, b),
            Op::Bge => Expr::not(Expr::binary(TermOp::Slt, a, b)),
            Op::Bltu => Expr::binary(TermOp::Ult, a, b),
            _ => Expr::not(Expr::binary(TermOp::Ult, a, b)),
        }
    }

    /// Effects of an instruction that does not jump.
    pub(super) fn effects(&self, at: u32, insn: Insn, place: u32) -> Result<Vec<Effect>, RvError> {
        let temp = self.slots.temp;
        let access = |address: &Expr, bytes, write| Effect::Access {
            address: address.clone(),
            bytes,
            write,
        };
        match insn.op {
            Op::Lb | Op::Lh | Op::Lw | Op::Lbu | Op::Lhu => {
                let address = self.address(insn);
                let bytes = match insn.op {
                    Op::Lw => 4,
                    Op::Lh | Op::Lhu => 2,
                    _ => 1,
                };
                let time = access(&address, bytes, false);
                if matches!(insn.op, Op::Lb | Op::Lh) {
                    let load = Effect::Load { slot: temp, address, bytes };
                    let value = Expr::sext(Expr::extract(Expr::Slot(temp), 0, 8 * bytes), 32);
                    return Ok(vec![time, load, self.set(insn.rd, value)]);
                }
                let slot = self.slots.regs[usize::from(insn.rd & 31)];
                Ok(vec![time, Effect::Load { slot, address, bytes }])
            }
            Op::Sb | Op::Sh | Op::Sw => {
                let address = self.address(insn);
                let bytes = match insn.op {
                    Op::Sw => 4,
                    Op::Sh => 2,
                    _ => 1,
                };
                let value = Expr::extract(self.reg(insn.rs2), 0, 8 * bytes);
                Ok(vec![access(&address, bytes, true), Effect::Store { address, bytes, value }])
            }
            Op::LrW => {
                let address = self.reg(insn.rs1);
                let slot = self.slots.regs[usize::from(insn.rd & 31)];
                Ok(vec![access(&address, 1, false), Effect::Load { slot, address, bytes: 4 }])
            }
            Op::ScW => {
                // Whether the reservation still stands is others' business too.
                let (address, other) = (self.reg(insn.rs1), self.slots.other);
                let failed = Expr::extract(Expr::Slot(other), 0, 1);
                let value = Expr::ite(failed.clone(), Expr::Slot(temp), self.reg(insn.rs2));
                Ok(vec![
                    access(&address, 1, true),
                    Effect::Load { slot: other, address: self.outside(place), bytes: 1 },
                    Effect::Load { slot: temp, address: address.clone(), bytes: 4 },
                    Effect::Store { address, bytes: 4, value },
                    self.set(insn.rd, Expr::zext(failed, 32)),
                ])
            }
            Op::AmoSwap
            | Op::AmoAdd
            | Op::AmoXor
            | Op::AmoAnd
            | Op::AmoOr
            | Op::AmoMin
            | Op::AmoMax
            | Op::AmoMinu
            | Op::AmoMaxu => {
                let (address, old, with) =
                    (self.reg(insn.rs1), Expr::Slot(temp), self.reg(insn.rs2));
                let choose = |op, swap: bool| {
                    let (a, b) = (old.clone(), with.clone());
                    let less = Expr::binary(op, a.clone(), b.clone());
                    if swap { Expr::ite(less, b, a) } else { Expr::ite(less, a, b) }
                };
                let both = |op| Expr::binary(op, old.clone(), with.clone());
                let value = match insn.op {
                    Op::AmoSwap => with.clone(),
                    Op::AmoAdd => both(TermOp::Add),
                    Op::AmoXor => both(TermOp::Xor),
                    Op::AmoAnd => both(TermOp::And),
                    Op::AmoOr => both(TermOp::Or),
                    Op::AmoMin => choose(TermOp::Slt, false),
                    Op::AmoMax => choose(TermOp::Slt, true),
                    Op::AmoMinu => choose(TermOp::Ult, false),
                    _ => choose(TermOp::Ult, true),
                };
                // Atomics trap where they would cross a word.
                Ok(vec![
                    access(&address, 1, false),
                    access(&address, 1, true),
                    Effect::Load { slot: temp, address: address.clone(), bytes: 4 },
                    Effect::Store { address, bytes: 4, value },
                    self.set(insn.rd, Expr::Slot(temp)),
                ])
            }
            Op::Fence | Op::FenceI => Ok(Vec::new()),
            Op::Csrrw | Op::Csrrs | Op::Csrrc | Op::Csrrwi | Op::Csrrsi | Op::Csrrci => {
                let number = insn.imm as u16;
                let name =
                    || csr::name(number).map_or_else(|| format!("{number:#x}"), str::to_string);
                if matches!(insn.op, Op::Csrrw | Op::Csrrwi) || insn.rs1 != 0 {
                    return Err(self
                        .program
                        .error(at, format!("control register `{}` is written", name())));
                }
                let counts = matches!(
                    number,
                    n::CYCLE
                        | n::CYCLEH
                        | n::INSTRET
                        | n::INSTRETH
                        | n::MCYCLE
                        | n::MCYCLEH
                        | n::MINSTRET
                        | n::MINSTRETH
                        | n::MHARTID
                );
                if !counts {
                    return Err(self
                        .program
                        .error(at, format!("control register `{}` is not supported", name())));
                }
                let slot = self.slots.regs[usize::from(insn.rd & 31)];
                Ok(vec![Effect::Load { slot, address: self.outside(place), bytes: 4 }])
            }
            Op::Div | Op::Divu | Op::Rem | Op::Remu => Ok(self.division(insn)),
            _ => {
                let value = self.arithmetic(at, insn);
                let value = value.ok_or_else(|| {
                    let name = self.program.decoder.row(&insn).name;
                    self.program.error(at, format!("`{name}` is not supported"))
                })?;
                Ok(vec![self.set(insn.rd, value)])
            }
        }
    }

    /// Divisions take a cycle for every leading zero of the divisor.
    fn division(&self, insn: Insn) -> Vec<Effect> {
        let (a, b) = (self.reg(insn.rs1), self.reg(insn.rs2));
        let (temp, signed) = (self.slots.temp, matches!(insn.op, Op::Div | Op::Rem));
        let divisor = || Expr::Slot(temp);
        let of = |value: &Expr| if signed { magnitude(value.clone()) } else { value.clone() };
        // Innermost is the highest bit, so that the lowest power that is larger decides.
        let zeros = (0..32).rev().fold(word(0), |zeros, bit| {
            Expr::ite(Expr::binary(TermOp::Ult, divisor(), word(1 << bit)), word(32 - bit), zeros)
        });
        let op = if matches!(insn.op, Op::Div | Op::Divu) { TermOp::UDiv } else { TermOp::URem };
        let plain = Expr::binary(op, of(&a), divisor());
        let value = match insn.op {
            Op::Div => {
                let differ = Expr::binary(TermOp::Xor, sign(a), sign(b.clone()));
                let none = Expr::binary(TermOp::Eq, b.clone(), word(0));
                Expr::ite(none, word(u32::MAX), Expr::ite(differ, negative(plain.clone()), plain))
            }
            Op::Rem => Expr::ite(sign(a), negative(plain.clone()), plain),
            _ => plain,
        };
        vec![Effect::Set(temp, of(&b)), Effect::Delay(zeros), self.set(insn.rd, value)]
    }

    fn arithmetic(&self, at: u32, insn: Insn) -> Option<Expr> {
        let (a, b, imm) = (self.reg(insn.rs1), self.reg(insn.rs2), word(insn.imm as u32));
        let by = |amount: Expr| Expr::binary(TermOp::And, amount, word(31));
        let binary = |op, a, b| Some(Expr::binary(op, a, b));
        let flag = |op, a, b| Some(Expr::zext(Expr::binary(op, a, b), 32));
        let (wide, far) = (|a| Expr::sext(a, 64), |a| Expr::zext(a, 64));
        match insn.op {
            Op::Lui => Some(imm),
            Op::Auipc => Some(word(at.wrapping_add(insn.imm as u32))),
            Op::Addi => Some(Expr::add(a, imm)),
            Op::Slti => flag(TermOp::Slt, a, imm),
            Op::Sltiu => flag(TermOp::Ult, a, imm),
            Op::Xori => binary(TermOp::Xor, a, imm),
            Op::Ori => binary(TermOp::Or, a, imm),
            Op::Andi => binary(TermOp::And, a, imm),
            Op::Slli => binary(TermOp::Shl, a, by(imm)),
            Op::Srli => binary(TermOp::Lshr, a, by(imm)),
            Op::Srai => binary(TermOp::Ashr, a, by(imm)),
            Op::Add => Some(Expr::add(a, b)),
            Op::Sub => Some(Expr::sub(a, b)),
            Op::Sll => binary(TermOp::Shl, a, by(b)),
            Op::Slt => flag(TermOp::Slt, a, b),
            Op::Sltu => flag(TermOp::Ult, a, b),
            Op::Xor => binary(TermOp::Xor, a, b),
            Op::Srl => binary(TermOp::Lshr, a, by(b)),
            Op::Sra => binary(TermOp::Ashr, a, by(b)),
            Op::Or => binary(TermOp::Or, a, b),
            Op::And => binary(TermOp::And, a, b),
            Op::Mul => binary(TermOp::Mul, a, b),
            Op::Mulh => Some(high(wide(a), wide(b))),
            Op::Mulhsu => Some(high(wide(a), far(b))),
            Op::Mulhu => Some(high(far(a), far(b))),
            _ => None,
        }
    }
}
