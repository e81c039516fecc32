//! The core's loop: what every instruction means, and what it costs.
//!
//! An instruction begins at the core's cycle, does all it does there and adds its cost. The loop
//! ends before an instruction when the given cycle has come, and otherwise only where somebody else
//! has to act ([`Stop`]). Instructions inside the predecoded region are an index away; others are
//! fetched and decoded each time, with the same meaning and cost.

use super::bus::{Access, Amo, Bus, Refusal, Reply};
use super::code::{Code, Step};
use super::hart::{Cause, Hart, Registers, Trap};
use super::insn::Op;

/// Why a core came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The cycle it was to run to has come.
    Time,
    /// An access asked for it; the instruction is complete.
    Paused,
    /// An access cannot be made yet ([`Refusal::Later`]); the core stands before the instruction.
    Blocked,
    /// `wfi`; the core stands behind it.
    Waiting,
    /// `fence.i`; the core stands behind it, and the code may have changed.
    CodeChanged,
    /// An instruction cannot be executed, or is `ecall` or `ebreak`; the core stands before it.
    /// [`Hart::take`] goes on at the handler.
    Trap(Trap),
}

const MISPLACED: &str = "instructions stand at multiples of four here";

/// Reasons that end an instruction early.
enum Leave {
    Refused(Refusal, Access, bool),
    Trap(Cause, u32, &'static str),
    /// After the instruction.
    Stop(Stop),
}

/// Running account of one instruction.
struct Bill<'a, B> {
    bus: &'a mut B,
    now: u64,
    user: bool,
    misaligned: u8,
    cost: u64,
    /// Where the run ends; an access that asks for a pause brings it forward.
    until: u64,
}

impl<B: Bus> Bill<'_, B> {
    #[inline(always)]
    fn access(&mut self, at: u32, size: u32) -> Access {
        if (at & 3) + size > 4 {
            self.cost += u64::from(self.misaligned);
        }
        Access { at, size, now: self.now, user: self.user }
    }

    #[inline(always)]
    fn load(&mut self, at: u32, size: u32) -> Result<u32, Leave> {
        let access = self.access(at, size);
        let reply =
            self.bus.load(access).map_err(|refusal| Leave::Refused(refusal, access, false))?;
        self.cost += u64::from(reply.wait);
        if reply.pause {
            self.until = 0;
        }
        Ok(reply.value)
    }

    #[inline(always)]
    fn store(&mut self, at: u32, size: u32, value: u32) -> Result<(), Leave> {
        let access = self.access(at, size);
        let reply = self
            .bus
            .store(access, value)
            .map_err(|refusal| Leave::Refused(refusal, access, true))?;
        self.cost += u64::from(reply.wait);
        if reply.pause {
            self.until = 0;
        }
        Ok(())
    }

    #[inline(always)]
    fn atomic(&mut self, op: Op, at: u32, value: u32) -> Result<u32, Leave> {
        let access = Access { at, size: 4, now: self.now, user: self.user };
        let reply = atomic(self.bus, op, access, value)?;
        self.cost += u64::from(reply.wait);
        if reply.pause {
            self.until = 0;
        }
        Ok(reply.value)
    }
}

/// Atomics and the pair of reserving and conditional accesses.
#[inline(never)]
fn atomic<B: Bus>(bus: &mut B, op: Op, access: Access, value: u32) -> Result<Reply, Leave> {
    let writes = op != Op::LrW;
    if access.at & 3 != 0 {
        let cause = if writes { Cause::MisalignedStore } else { Cause::MisalignedLoad };
        return Err(Leave::Trap(
            cause,
            access.at,
            "atomics need an address that is a multiple of four",
        ));
    }
    let amo = match op {
        Op::AmoSwap => Some(Amo::Swap),
        Op::AmoAdd => Some(Amo::Add),
        Op::AmoXor => Some(Amo::Xor),
        Op::AmoAnd => Some(Amo::And),
        Op::AmoOr => Some(Amo::Or),
        Op::AmoMin => Some(Amo::Min),
        Op::AmoMax => Some(Amo::Max),
        Op::AmoMinu => Some(Amo::MinUnsigned),
        Op::AmoMaxu => Some(Amo::MaxUnsigned),
        _ => None,
    };
    let reply = match amo {
        Some(amo) => bus.amo(access, amo, value),
        None if writes => bus.store_conditional(access, value),
        None => bus.load_reserved(access),
    };
    reply.map_err(|refusal| Leave::Refused(refusal, access, writes))
}

#[inline(always)]
fn done(x: &mut Registers, step: &Step, value: u32) -> Result<(), Leave> {
    x.set(step.rd, value);
    Ok(())
}

#[inline(always)]
fn high(product: i64) -> u32 {
    (product >> 32) as u32
}

impl Hart {
    /// Runs until the cycle `until` has come, or something else ends the run first. An instruction
    /// that begins earlier is completed.
    pub fn run<B: Bus>(&mut self, code: &Code, bus: &mut B, until: u64) -> Stop {
        let (asked, mut until) = (until, until);
        let steps = &code.steps[..];
        let misplaced = code.decoder().alignment_mask();
        let timing = code.timing;
        let (mut pc, mut cycle, mut instret) = (self.pc, self.cycle, self.instret);
        // Lines are even, so that one is none.
        let mut line = self.line.unwrap_or(1);
        let stop = loop {
            if cycle >= until {
                break if until == asked { Stop::Time } else { Stop::Paused };
            }
            let fetched;
            let step = match steps.get((pc.wrapping_sub(code.base) >> 1) as usize) {
                Some(step) => step,
                None => match fetch(code, bus, pc) {
                    Ok(step) => {
                        fetched = step;
                        &fetched
                    }
                    Err(stop) => break stop,
                },
            };
            if B::LINE != 0 {
                let of = |at: u32| at & !(B::LINE - 1);
                let (first, last) = (of(pc), of(pc.wrapping_add(u32::from(step.len) - 1)));
                if first != line || last != line {
                    for next in [first, last] {
                        if next != line {
                            cycle += u64::from(bus.line(next, cycle));
                            line = next;
                        }
                    }
                }
            }
            let mut next = pc.wrapping_add(u32::from(step.len));
            let mut bill = Bill {
                bus,
                now: cycle,
                user: self.user,
                misaligned: timing.misaligned,
                cost: u64::from(step.cost),
                until,
            };
            let x = &mut self.x;
            let (a, b, imm) = (x.get(step.rs1), x.get(step.rs2), step.imm);
            let address = a.wrapping_add(imm);
            let mut branch = |taken: bool| {
                if taken {
                    next = pc.wrapping_add(imm);
                    bill.cost = u64::from(step.extra);
                    if next & misplaced != 0 {
                        return Err(Leave::Trap(Cause::MisalignedJump, next, MISPLACED));
                    }
                }
                Ok(())
            };
            let outcome = match step.op {
                Op::Lui => done(x, step, imm),
                Op::Auipc => done(x, step, pc.wrapping_add(imm)),
                Op::Jal if pc.wrapping_add(imm) & misplaced == 0 => {
                    x.set(step.rd, next);
                    next = pc.wrapping_add(imm);
                    Ok(())
                }
                Op::Jal => Err(Leave::Trap(Cause::MisalignedJump, pc.wrapping_add(imm), MISPLACED)),
                Op::Jalr if address & misplaced != 0 => {
                    Err(Leave::Trap(Cause::MisalignedJump, address & !1, MISPLACED))
                }
                Op::Jalr => {
                    x.set(step.rd, next);
                    next = address & !1;
                    let target = steps.get((next.wrapping_sub(code.base) >> 1) as usize);
                    if next & 2 != 0 && target.is_some_and(|target| target.len == 4) {
                        bill.cost += u64::from(timing.crossing_target);
                    }
                    Ok(())
                }
                Op::Beq => branch(a == b),
                Op::Bne => branch(a != b),
                Op::Blt => branch((a as i32) < b as i32),
                Op::Bge => branch(a as i32 >= b as i32),
                Op::Bltu => branch(a < b),
                Op::Bgeu => branch(a >= b),
                Op::Lb => bill.load(address, 1).map(|value| x.set(step.rd, value as i8 as u32)),
                Op::Lh => bill.load(address, 2).map(|value| x.set(step.rd, value as i16 as u32)),
                Op::Lw => bill.load(address, 4).map(|value| x.set(step.rd, value)),
                Op::Lbu => bill.load(address, 1).map(|value| x.set(step.rd, value)),
                Op::Lhu => bill.load(address, 2).map(|value| x.set(step.rd, value)),
                Op::Sb => bill.store(address, 1, b),
                Op::Sh => bill.store(address, 2, b),
                Op::Sw => bill.store(address, 4, b),
                Op::Addi => done(x, step, address),
                Op::Slti => done(x, step, u32::from((a as i32) < imm as i32)),
                Op::Sltiu => done(x, step, u32::from(a < imm)),
                Op::Xori => done(x, step, a ^ imm),
                Op::Ori => done(x, step, a | imm),
                Op::Andi => done(x, step, a & imm),
                Op::Slli => done(x, step, a << (imm & 31)),
                Op::Srli => done(x, step, a >> (imm & 31)),
                Op::Srai => done(x, step, (a as i32 >> (imm & 31)) as u32),
                Op::Add => done(x, step, a.wrapping_add(b)),
                Op::Sub => done(x, step, a.wrapping_sub(b)),
                Op::Sll => done(x, step, a << (b & 31)),
                Op::Slt => done(x, step, u32::from((a as i32) < b as i32)),
                Op::Sltu => done(x, step, u32::from(a < b)),
                Op::Xor => done(x, step, a ^ b),
                Op::Srl => done(x, step, a >> (b & 31)),
                Op::Sra => done(x, step, (a as i32 >> (b & 31)) as u32),
                Op::Or => done(x, step, a | b),
                Op::And => done(x, step, a & b),
                Op::Mul => done(x, step, a.wrapping_mul(b)),
                Op::Mulh => done(x, step, high(i64::from(a as i32) * i64::from(b as i32))),
                Op::Mulhsu => done(x, step, high(i64::from(a as i32) * i64::from(b))),
                Op::Mulhu => done(x, step, ((u64::from(a) * u64::from(b)) >> 32) as u32),
                Op::Div | Op::Divu | Op::Rem | Op::Remu => {
                    let signed = matches!(step.op, Op::Div | Op::Rem);
                    bill.cost = u64::from(timing.division(b, signed));
                    done(x, step, divide(step.op, a, b))
                }
                Op::LrW
                | Op::ScW
                | Op::AmoSwap
                | Op::AmoAdd
                | Op::AmoXor
                | Op::AmoAnd
                | Op::AmoOr
                | Op::AmoMin
                | Op::AmoMax
                | Op::AmoMinu
                | Op::AmoMaxu => bill.atomic(step.op, a, b).map(|value| x.set(step.rd, value)),
                // One core's accesses happen in order, and cores take turns.
                Op::Fence => Ok(()),
                Op::FenceI => Err(Leave::Stop(Stop::CodeChanged)),
                Op::Wfi => Err(Leave::Stop(Stop::Waiting)),
                Op::Ecall => {
                    let cause =
                        if self.user { Cause::CallFromUser } else { Cause::CallFromMachine };
                    Err(Leave::Trap(cause, 0, "ecall"))
                }
                Op::Ebreak => Err(Leave::Trap(Cause::Breakpoint, pc, "ebreak")),
                Op::Mret if !self.user => {
                    self.leave_trap();
                    next = self.csrs.mepc & !misplaced;
                    Ok(())
                }
                Op::Mret => Err(Leave::Trap(Cause::Illegal, 0x3020_0073, "mret in user mode")),
                Op::Csrrw | Op::Csrrs | Op::Csrrc | Op::Csrrwi | Op::Csrrsi | Op::Csrrci => {
                    let bus = &mut *bill.bus;
                    self.csr_access(step, bus, cycle, instret)
                }
                Op::Pure => match code.pure(step.extra) {
                    Some((pure, register)) => {
                        let old = x.get(step.rd);
                        done(x, step, pure(a, if register { b } else { imm }, old))
                    }
                    None => Err(Leave::Trap(Cause::Illegal, 0, "an instruction without a meaning")),
                },
                Op::Illegal => Err(Leave::Trap(Cause::Illegal, imm, "no such instruction")),
            };
            let cost = bill.cost;
            until = bill.until;
            match outcome {
                Ok(()) => {}
                Err(Leave::Stop(stop)) => {
                    (pc, cycle, instret) = (next, cycle + cost, instret + 1);
                    break stop;
                }
                Err(Leave::Refused(Refusal::Later, ..)) => break Stop::Blocked,
                Err(Leave::Refused(Refusal::Fault(reason), access, write)) => {
                    cycle += cost;
                    let cause = if write { Cause::StoreFault } else { Cause::LoadFault };
                    break Stop::Trap(Trap { cause, pc, value: access.at, reason });
                }
                Err(Leave::Trap(cause, value, reason)) => {
                    cycle += cost;
                    break Stop::Trap(Trap { cause, pc, value, reason });
                }
            }
            pc = next;
            cycle += cost;
            instret += 1;
        };
        (self.pc, self.cycle, self.instret) = (pc, cycle, instret);
        self.line = (line != 1).then_some(line);
        stop
    }

    /// Reads, changes and writes a control register, as far as the operands ask for either.
    #[inline(never)]
    fn csr_access<B: Bus>(
        &mut self,
        step: &Step,
        bus: &mut B,
        cycle: u64,
        instret: u64,
    ) -> Result<(), Leave> {
        let number = step.imm as u16;
        let (operand, immediate) = match step.op {
            Op::Csrrwi | Op::Csrrsi | Op::Csrrci => (u32::from(step.rs1), true),
            _ => (self.x.get(step.rs1), false),
        };
        let sets = matches!(step.op, Op::Csrrw | Op::Csrrwi);
        let writes = sets || step.rs1 != 0;
        let reads = !sets || step.rd < 32;
        let illegal = |reason| {
            let funct3 = match step.op {
                Op::Csrrw | Op::Csrrwi => 1,
                Op::Csrrs | Op::Csrrsi => 2,
                _ => 3,
            };
            let funct3 = funct3 | if immediate { 4 } else { 0 };
            let rd = u32::from(step.rd & 31);
            let word =
                u32::from(number) << 20 | u32::from(step.rs1) << 15 | funct3 << 12 | rd << 7 | 0x73;
            Leave::Trap(Cause::Illegal, word, reason)
        };
        if self.user && number >> 8 & 3 != 0 {
            return Err(illegal("a machine-mode register in user mode"));
        }
        if writes && number >> 10 == 3 {
            return Err(illegal("a register that can only be read"));
        }
        let mut old = 0;
        if reads {
            let own = self.csrs.read(number, cycle, instret, self.user);
            old = own
                .or_else(|| bus.csr_read(number, cycle))
                .ok_or_else(|| illegal("no such register"))?;
        }
        let value = match step.op {
            Op::Csrrs | Op::Csrrsi => old | operand,
            Op::Csrrc | Op::Csrrci => old & !operand,
            _ => operand,
        };
        if writes
            && !self.csrs.write(number, value, cycle, instret)
            && !bus.csr_write(number, value, cycle)
        {
            return Err(illegal("no such register"));
        }
        self.x.set(step.rd, old);
        Ok(())
    }
}

/// Quotients and remainders, with the results that division by zero and overflow have.
#[inline]
fn divide(op: Op, a: u32, b: u32) -> u32 {
    match (op, b) {
        (Op::Div | Op::Divu, 0) => u32::MAX,
        (Op::Rem | Op::Remu, 0) => a,
        (Op::Div, _) => (a as i32).wrapping_div(b as i32) as u32,
        (Op::Rem, _) => (a as i32).wrapping_rem(b as i32) as u32,
        (Op::Divu, _) => a / b,
        _ => a % b,
    }
}

/// An instruction outside the predecoded region.
#[inline(never)]
fn fetch<B: Bus>(code: &Code, bus: &mut B, pc: u32) -> Result<Step, Stop> {
    let mut word = |at: u32| -> Result<u32, (u32, Refusal)> {
        let low = u32::from(bus.fetch(at).map_err(|refusal| (at, refusal))?);
        if low & 3 != 3 {
            return Ok(low);
        }
        let behind = at.wrapping_add(2);
        let high = u32::from(bus.fetch(behind).map_err(|refusal| (behind, refusal))?);
        Ok(low | high << 16)
    };
    match word(pc) {
        Ok(found) => Ok(code.step(found, pc, &mut |at| word(at).ok())),
        Err((_, Refusal::Later)) => Err(Stop::Blocked),
        Err((value, Refusal::Fault(reason))) => {
            Err(Stop::Trap(Trap { cause: Cause::FetchFault, pc, value, reason }))
        }
    }
}
