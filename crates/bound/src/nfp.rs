//! Front end: NFP listings to the block language.
//!
//! What instructions mean is defined by the interpreter in `nicforge_isa::nfp`; this file says the same in expressions. What
//! the interpreter decides while it runs but a listing fixes (which result a latch holds, how many words a read moves, when
//! a new local memory pointer is in force) is decided here, instruction by instruction within a block.

use nicforge_isa::nfp::cost::{self, branch_cycles};
use nicforge_isa::nfp::{
    AluOp, CONTEXT_BASE, CSR_DELAY, Cond, DRAM_BASE, Insn, LOCAL_BYTES, MemOp, MulStep, Op, Operand,
    PACKET_BASE, STACK_BASE, Shift, Target, field_mask, immediate,
};

use crate::graph::{
    Block, BlockId, BranchCost, Contents, Cost, Effect, Expr, Graph, Next, Region, Slot, Step,
};
use crate::term::Op as TermOp;

/// Address of local memory in the graph's space.
const LOCAL: u64 = 1 << 40;
/// Address of DRAM.
const DRAM: u64 = 1 << 44;

/// A listing that cannot be analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction .{insn}: {reason}")]
pub struct NfpError {
    pub insn: usize,
    pub reason: String,
}

struct Front {
    graph: Graph,
    a: Vec<Slot>,
    b: Vec<Slot>,
    xfer_in: Vec<Slot>,
    xfer_out: Vec<Slot>,
    pointers: Vec<Slot>,
    /// Negative, zero, overflow, carry.
    flags: [Slot; 4],
    latch_a: Slot,
    latch: Slot,
    mul: [Slot; 2],
    /// A local memory word an instruction reads.
    temp: Slot,
    result: Slot,
    /// A shifted operand.
    shifted: Slot,
}

/// What is known while a block is translated.
#[derive(Default)]
struct Local {
    /// The instruction before left operand and result in the latches.
    fresh_latch: bool,
    /// Value of the last `immed`.
    immed: Option<u32>,
    /// The steps of a multiplication so far.
    multiplying: Option<(Operand, Operand, u8)>,
    /// New pointers, with the cycles until they are in force.
    pending: Vec<(u64, u8, Expr)>,
}

/// Translates a listing. `shared` says that others may change DRAM while a packet is handled.
///
/// # Errors
/// The first instruction whose meaning depends on what the listing does not say.
pub fn graph(insns: &[Insn], shared: bool) -> Result<Graph, NfpError> {
    let mut front = Front::new(shared);
    let leaders = leaders(insns);
    let block_of = |index: usize| leaders.partition_point(|leader| *leader <= index) - 1;
    let exit = BlockId(leaders.len() as u32);
    let reached = reached(insns);
    for (number, start) in leaders.iter().enumerate() {
        if !reached[*start] {
            // Stubs and padding; nothing leads here.
            front.graph.blocks.push(leave());
            continue;
        }
        let end = leaders.get(number + 1).copied().unwrap_or(insns.len());
        let block = front.block(insns, *start..end, |target| match target {
            Target::Insn(index) => BlockId(block_of(index as usize) as u32),
            Target::Exit => exit,
        })?;
        front.graph.blocks.push(block);
    }
    front.graph.blocks.push(leave());
    Ok(front.graph)
}

fn leave() -> Block {
    Block { steps: Vec::new(), next: Next::Exit, branch: BranchCost::default(), place: None }
}

/// Instructions control can come to.
fn reached(insns: &[Insn]) -> Vec<bool> {
    let mut reached = vec![false; insns.len()];
    let mut queue = vec![0];
    while let Some(at) = queue.pop() {
        if at >= insns.len() || std::mem::replace(&mut reached[at], true) {
            continue;
        }
        match insns[at].op {
            Op::Branch { cond, target, .. } => {
                if let Target::Insn(to) = target {
                    queue.push(to as usize);
                }
                if cond != Cond::Always {
                    queue.push(at + 1);
                }
            }
            _ => queue.push(at + 1),
        }
    }
    reached
}

/// First instructions of blocks, rising.
fn leaders(insns: &[Insn]) -> Vec<usize> {
    let mut leaders = vec![0];
    for (index, insn) in insns.iter().enumerate() {
        if let Op::Branch { target, .. } = insn.op {
            if let Target::Insn(target) = target {
                leaders.push(target as usize);
            }
            leaders.push(index + 1);
        }
    }
    leaders.retain(|leader| *leader < insns.len());
    leaders.sort_unstable();
    leaders.dedup();
    leaders
}

fn word(value: u32) -> Expr {
    Expr::Const(32, value.into())
}

impl Front {
    fn new(shared: bool) -> Front {
        let mut graph = Graph::default();
        let mut bank = |count: usize, bits: u8| (0..count).map(|_| graph.slot(bits)).collect::<Vec<_>>();
        let (a, b, xfer_in, xfer_out, pointers) =
            (bank(32, 32), bank(32, 32), bank(32, 32), bank(32, 32), bank(4, 32));
        let flags = bank(4, 1);
        let rest = bank(7, 32);
        graph.start = vec![
            (a[22], word(STACK_BASE)),
            (pointers[0], word(STACK_BASE)),
            (pointers[1], word(CONTEXT_BASE)),
            (b[23], word(DRAM_BASE)),
        ];
        graph.bytes = vec![
            (LOCAL + u64::from(CONTEXT_BASE), Expr::zext(Expr::Size, 32)),
            (LOCAL + u64::from(CONTEXT_BASE) + 8, word(PACKET_BASE)),
        ];
        let dram = if shared { Contents::Shared } else { Contents::Table };
        let region =
            |name: &str, base, size, contents| Region { name: name.to_string(), base, size, contents };
        graph.regions = vec![
            region("packet", u64::from(PACKET_BASE) - 0x1000, 0x12000, Contents::Packet),
            region("local memory", LOCAL, LOCAL_BYTES.into(), Contents::Private),
            region("DRAM", DRAM, 1 << 42, dram),
        ];
        Front {
            a,
            b,
            xfer_in,
            xfer_out,
            pointers,
            flags: [flags[0], flags[1], flags[2], flags[3]],
            latch_a: rest[0],
            latch: rest[1],
            mul: [rest[2], rest[3]],
            temp: rest[4],
            result: rest[5],
            shifted: rest[6],
            graph,
        }
    }

    fn block(
        &mut self,
        insns: &[Insn],
        range: std::ops::Range<usize>,
        target_of: impl Fn(Target) -> BlockId,
    ) -> Result<Block, NfpError> {
        let mut steps = Vec::new();
        let mut local = Local::default();
        for index in range.clone() {
            let insn = &insns[index];
            let fail = |reason: &str| NfpError { insn: index, reason: reason.to_string() };
            if let Op::Branch { cond, target, .. } = insn.op {
                let mut last = Step { effects: Vec::new(), cost: Cost::default(), place: index as u32 };
                self.commit(&mut local, u64::MAX, &mut last.effects);
                if !last.effects.is_empty() {
                    steps.push(last);
                }
                let taken = target_of(target);
                let milli = |taken, fresh| 1000 * u64::from(branch_cycles(cond, taken, fresh));
                let branch = BranchCost {
                    taken: milli(true, false),
                    fall: milli(false, false),
                    fresh: milli(true, true) - milli(true, false),
                };
                let next = if cond == Cond::Always {
                    Next::Goto(taken)
                } else if index + 1 == insns.len() {
                    return Err(fail("the last instruction falls through"));
                } else {
                    Next::Branch {
                        cond: self.condition(cond),
                        taken,
                        fall: target_of(Target::Insn(index as u32 + 1)),
                    }
                };
                return Ok(Block { steps, next, branch, place: Some(index as u32) });
            }
            let mut effects = Vec::new();
            self.commit(&mut local, 1, &mut effects);
            self.translate(insn, &mut local, &mut effects).map_err(|reason| fail(&reason))?;
            steps.push(Step { effects, cost: step_cost(&insn.op), place: index as u32 });
        }
        if range.end == insns.len() {
            return Err(NfpError {
                insn: range.end - 1,
                reason: "runs past the end of the listing".to_string(),
            });
        }
        let mut last = Step { effects: Vec::new(), cost: Cost::default(), place: range.end as u32 - 1 };
        self.commit(&mut local, u64::MAX, &mut last.effects);
        if !last.effects.is_empty() {
            // It must not hide that the instruction before wrote the flags.
            last.cost.flags = steps.last().is_some_and(|step| step.cost.flags);
            steps.push(last);
        }
        let next = Next::Goto(target_of(Target::Insn(range.end as u32)));
        Ok(Block { steps, next, branch: BranchCost::default(), place: None })
    }

    /// Pointers whose time has come are in force from here on.
    fn commit(&self, local: &mut Local, cycles: u64, effects: &mut Vec<Effect>) {
        for (left, index, value) in std::mem::take(&mut local.pending) {
            if left <= cycles {
                effects.push(Effect::Set(self.pointers[usize::from(index)], value));
            } else {
                local.pending.push((left - cycles, index, value));
            }
        }
    }

    fn condition(&self, cond: Cond) -> Expr {
        let [n, z, v, c] = self.flags.map(Expr::Slot);
        let differ = |a, b| Expr::binary(TermOp::Xor, a, b);
        match cond {
            Cond::Always => Expr::Const(1, 1),
            Cond::Eq => z,
            Cond::Ne => Expr::not(z),
            Cond::CarryClear => Expr::not(c),
            Cond::CarrySet => c,
            Cond::Lt => differ(n, v),
            Cond::Ge => Expr::not(differ(n, v)),
            Cond::Gt => Expr::not(Expr::binary(TermOp::Or, z, differ(n, v))),
            Cond::Le => Expr::binary(TermOp::Or, z, differ(n, v)),
            Cond::Minus => n,
            Cond::Plus => Expr::not(n),
            Cond::OverflowClear => Expr::not(v),
            Cond::OverflowSet => v,
        }
    }

    fn local_address(&self, index: u8, word_index: u8) -> Expr {
        let address =
            Expr::add(Expr::Slot(self.pointers[usize::from(index)]), word(4 * u32::from(word_index)));
        Expr::add(Expr::zext(address, 64), Expr::Const(64, LOCAL))
    }

    /// An operand's value; a local memory word is loaded first.
    fn read(&self, operand: Operand, effects: &mut Vec<Effect>) -> Expr {
        match operand {
            Operand::None => word(0),
            Operand::A(n) => Expr::Slot(self.a[usize::from(n) & 31]),
            Operand::B(n) => Expr::Slot(self.b[usize::from(n) & 31]),
            Operand::Xfer(n) => Expr::Slot(self.xfer_in[usize::from(n) & 31]),
            Operand::Imm(value) => word(value),
            Operand::Local { index, word } => {
                let address = self.local_address(index, word);
                effects.push(Effect::Load { slot: self.temp, address, bytes: 4 });
                Expr::Slot(self.temp)
            }
        }
    }

    fn write(&self, operand: Operand, both: bool, value: Expr, effects: &mut Vec<Effect>) {
        match operand {
            Operand::A(n) | Operand::B(n) => {
                let (a, b) = (self.a[usize::from(n) & 31], self.b[usize::from(n) & 31]);
                let (first, second) = if matches!(operand, Operand::A(_)) { (a, b) } else { (b, a) };
                effects.push(Effect::Set(first, value));
                if both {
                    effects.push(Effect::Set(second, Expr::Slot(first)));
                }
            }
            Operand::Xfer(n) => effects.push(Effect::Set(self.xfer_out[usize::from(n) & 31], value)),
            Operand::Local { index, word } => {
                effects.push(Effect::Store { address: self.local_address(index, word), bytes: 4, value });
            }
            Operand::None | Operand::Imm(_) => {}
        }
    }

    fn shifted(&self, value: Expr, shift: Shift, local: &Local) -> Result<Expr, String> {
        let by = |n: u8| word(n.into());
        let indirect = || {
            if local.fresh_latch {
                Ok(Expr::binary(TermOp::And, Expr::Slot(self.latch_a), word(31)))
            } else {
                Err("an indirect shift needs a logical instruction right before it".to_string())
            }
        };
        Ok(match shift {
            Shift::None | Shift::Rotate(0) => value,
            Shift::Left(n) => Expr::binary(TermOp::Shl, value, by(n)),
            Shift::Right(n) => Expr::binary(TermOp::Lshr, value, by(n)),
            Shift::Rotate(n) => {
                Expr::concat(Expr::extract(value.clone(), 0, n), Expr::extract(value, n, 32 - n))
            }
            Shift::LeftIndirect => Expr::binary(TermOp::Shl, value, indirect()?),
            Shift::RightIndirect => Expr::binary(TermOp::Lshr, value, indirect()?),
        })
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

    fn alu(&self, dst: Operand, both: bool, op: AluOp, a: Expr, b: Expr, effects: &mut Vec<Effect>) {
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
                let wrapped = bits(TermOp::And, carry, bits(TermOp::Eq, half.clone(), word(u32::MAX)));
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
                let difference = Expr::sub(Expr::sub(a.clone(), b.clone()), Expr::zext(borrow.clone(), 32));
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

    fn translate(&mut self, insn: &Insn, local: &mut Local, effects: &mut Vec<Effect>) -> Result<(), String> {
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
                if !latched {
                    return Err("asr takes its sign from a logical instruction right before it".to_string());
                }
                let sign = Expr::extract(Expr::Slot(self.latch), 31, 1);
                let src = self.read(src, effects);
                let by = match shift {
                    Shift::Right(n) => word(n.into()),
                    _ => Expr::binary(TermOp::And, Expr::Slot(self.latch_a), word(31)),
                };
                let shifted = Expr::binary(TermOp::Lshr, src, by.clone());
                let fill = Expr::not(Expr::binary(TermOp::Lshr, word(u32::MAX), by));
                let value = Expr::ite(sign, Expr::binary(TermOp::Or, shifted.clone(), fill), shifted);
                effects.push(Effect::Set(self.flags[2], Expr::Const(1, 0)));
                effects.push(Effect::Set(self.flags[3], Expr::Const(1, 0)));
                self.finish(dst, both, value, effects);
            }
            Op::DblShf { dst, high, low, shift } => {
                let (high, low) = self.operands(high, low, effects)?;
                let by = match shift {
                    Shift::Right(n) => Expr::Const(64, n.into()),
                    _ if latched => {
                        Expr::zext(Expr::binary(TermOp::And, Expr::Slot(self.latch_a), word(31)), 64)
                    }
                    _ => {
                        return Err(
                            "an indirect shift needs a logical instruction right before it".to_string()
                        );
                    }
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
                let old = self.read(dst, effects);
                let value = Expr::concat(Expr::Const(16, value.into()), Expr::extract(old, 0, 16));
                self.write(dst, both, value, effects);
            }
            Op::LdField { dst, mask, src, shift, clear } => {
                let bits = field_mask(mask);
                let src = self.read(src, effects);
                let src = Expr::binary(TermOp::And, self.shifted(src, shift, &shift_state)?, word(bits));
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
                    let src =
                        if matches!(dst, Operand::Local { .. }) { Expr::Slot(self.result) } else { src };
                    Expr::binary(TermOp::Or, Expr::binary(TermOp::And, old, word(!bits)), src)
                };
                self.finish(dst, both, value, effects);
            }
            Op::Mul { a, b, step } => self.multiply(multiplying, (a, b, step), both, local, effects)?,
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
                        return Err("the count of this access is not a constant of its block".to_string());
                    }
                };
                let (base, offset) = self.operands(base, offset, effects)?;
                self.memory(op, xfer, (base, far, offset), count, effects)?;
            }
            Op::Nop | Op::Branch { .. } => {}
        }
        Ok(())
    }

    /// Both operands; at most one of them may be in local memory.
    fn operands(&self, a: Operand, b: Operand, effects: &mut Vec<Effect>) -> Result<(Expr, Expr), String> {
        if matches!((a, b), (Operand::Local { .. }, Operand::Local { .. })) {
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
        if op == MemOp::AddImm {
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
                    let value = Expr::extract(Expr::Slot(self.xfer_out[first + index]), 0, 8 * bytes);
                    effects.push(Effect::Store { address: at(by), bytes, value });
                }
            }
        }
        Ok(())
    }
}

fn step_cost(op: &Op) -> Cost {
    let cost = cost::cost(op);
    Cost {
        milli: 1000,
        latency: cost.latency,
        memory: cost.memory,
        flags: cost.flags,
        engine_micro: cost.dram_micro,
    }
}

/// Offset of an address in the DRAM of the NFP, as the interpreter counts.
pub fn dram_offset(address: u64) -> u64 {
    address.wrapping_sub(DRAM)
}
