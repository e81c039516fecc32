//! Control: instructions to blocks, with calls written out.
//!
//! A block exists once for every chain of calls that leads to it. Return addresses are sums with
//! the code's base, so that they are told from other numbers; a return checks that it goes where
//! the chain says.

use std::collections::HashMap;

use nicforge_isa::rv32::{Insn, Op, Timing};

use super::RvError;
use super::memory::{self, FAULT_CYCLES, RETURN, Slots, Surroundings, base};
use super::text::{LINKS, Program};
use crate::graph::{Block, BlockId, BranchCost, Cost, Effect, Expr, Graph, Next, Step};

/// Most copies of instructions by writing out calls.
const MAX_COPIES: usize = 200_000;
/// Number that the runtime's call for the time has in a7.
const TIME: i32 = 1;

/// Calls on the way to a block: where they return to, and what was called.
type Chain = Vec<(u32, u32)>;

/// The translation of a program.
pub struct Front<'a> {
    pub(super) program: &'a Program,
    pub(super) around: &'a Surroundings,
    pub(super) slots: Slots,
    graph: Graph,
    blocks: HashMap<(u32, Chain), BlockId>,
    queue: Vec<(u32, Chain, BlockId)>,
    copies: usize,
}

/// Translates a program.
///
/// # Errors
/// The first instruction that is not supported, with the reason.
pub fn graph(program: &Program, around: &Surroundings) -> Result<Graph, RvError> {
    let mut graph = Graph::default();
    let slots = memory::prepare(&mut graph, program, around);
    graph.names = program.insns.keys().map(|at| program.name(*at)).collect();
    let (blocks, queue) = (HashMap::new(), Vec::new());
    let mut front = Front { program, around, slots, graph, blocks, queue, copies: 0 };
    front.graph.entry = front.block(program.entry.address, Vec::new());
    while let Some((at, chain, id)) = front.queue.pop() {
        let block = front.translate(at, &chain)?;
        front.graph.blocks[id.0 as usize] = block;
    }
    Ok(front.graph)
}

/// Where a call goes on.
fn link(program: &Program, to: u32) -> Expr {
    let offset = to.wrapping_sub(program.code.base());
    Expr::add(Expr::Base(base::CODE), Expr::Const(32, offset.into()))
}

/// Ends a block.
fn end(steps: Vec<Step>, next: Next, place: Option<u32>, taken: u64, fall: u64) -> Block {
    Block {
        steps,
        next,
        branch: BranchCost { taken: 1000 * taken, fall: 1000 * fall, fresh: 0 },
        place,
    }
}

impl Front<'_> {
    fn block(&mut self, at: u32, chain: Chain) -> BlockId {
        if let Some(id) = self.blocks.get(&(at, chain.clone())) {
            return *id;
        }
        let id = self.reserve(end(Vec::new(), Next::Exit, None, 0, 0));
        self.blocks.insert((at, chain.clone()), id);
        self.queue.push((at, chain, id));
        id
    }

    fn reserve(&mut self, block: Block) -> BlockId {
        self.graph.blocks.push(block);
        BlockId(self.graph.blocks.len() as u32 - 1)
    }

    /// Cycles more if a jump through a register goes there.
    fn crossing(&self, to: u32) -> u64 {
        let crosses = to & 2 != 0 && self.program.insns.get(&to).is_some_and(|insn| insn.len == 4);
        if crosses { Timing::RI5CY.crossing_target.into() } else { 0 }
    }

    fn translate(&mut self, start: u32, chain: &Chain) -> Result<Block, RvError> {
        let program = self.program;
        let mut steps: Vec<Step> = Vec::new();
        // What a7 holds in this block, if that is certain: it says what an `ecall` is for.
        let mut call_number = None;
        let mut at = start;
        loop {
            let insn = program.insns.get(&at).copied();
            let insn = insn.ok_or_else(|| program.error(at, "control leaves the code"))?;
            if at != start && program.leaders.contains(&at) {
                let next = Next::Goto(self.block(at, chain.clone()));
                return Ok(end(steps, next, None, 0, 0));
            }
            self.copies += 1;
            if self.copies > MAX_COPIES {
                let reason = format!("more than {MAX_COPIES} instructions after writing out calls");
                return Err(program.error(at, reason));
            }
            let place = program.numbers[&at];
            let (fall, taken) = program.code.cycles(at).unwrap_or_default();
            let (fall, taken) = (u64::from(fall), u64::from(taken));
            let next = at.wrapping_add(u32::from(insn.len));
            let to = at.wrapping_add(insn.imm as u32);
            let step = |effects, cycles| Step { effects, cost: Cost::cycles(cycles), place };
            match insn.op {
                Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu => {
                    let cond = self.condition(insn);
                    if to == next {
                        // Taken or not, only the time differs.
                        let more =
                            Expr::ite(cond, Expr::Const(32, taken - fall), Expr::Const(32, 0));
                        steps.push(step(vec![Effect::Delay(more)], fall));
                        return Ok(end(
                            steps,
                            Next::Goto(self.block(next, chain.clone())),
                            None,
                            0,
                            0,
                        ));
                    }
                    let (there, on) =
                        (self.block(to, chain.clone()), self.block(next, chain.clone()));
                    let next = Next::Branch { cond, taken: there, fall: on };
                    return Ok(end(steps, next, Some(place), taken, fall));
                }
                Op::Jal if !LINKS.contains(&insn.rd) => {
                    if insn.rd != 0 {
                        steps.push(step(vec![self.set(insn.rd, link(program, next))], fall));
                        return Ok(end(
                            steps,
                            Next::Goto(self.block(to, chain.clone())),
                            None,
                            0,
                            0,
                        ));
                    }
                    return Ok(end(
                        steps,
                        Next::Goto(self.block(to, chain.clone())),
                        Some(place),
                        fall,
                        0,
                    ));
                }
                Op::Jal => {
                    steps.push(step(vec![self.set(insn.rd, link(program, next))], fall));
                    let inner = self.called(at, next, to, chain)?;
                    return Ok(end(steps, Next::Goto(self.block(to, inner)), None, 0, 0));
                }
                Op::Jalr => return self.jump(at, insn, chain, steps, fall),
                Op::Ebreak | Op::Illegal => {
                    steps.push(step(Vec::new(), fall + FAULT_CYCLES));
                    return Ok(end(steps, Next::Exit, None, 0, 0));
                }
                Op::Wfi | Op::Mret => {
                    let name = program.decoder.row(&insn).name;
                    return Err(program.error(
                        at,
                        format!(
                            "`{name}`: how long it takes depends on others; handlers do without"
                        ),
                    ));
                }
                Op::Ecall => {
                    if call_number != Some(TIME) {
                        return Err(
                            program.error(at, "`ecall` for something else than the time (li a7,1)")
                        );
                    }
                    let value = self.outside(place);
                    let time = Effect::Load { slot: self.slots.regs[10], address: value, bytes: 4 };
                    steps.push(step(vec![time], self.around.now_cycles));
                }
                _ => {
                    let effects = self.effects(at, insn, place)?;
                    steps.push(step(effects, fall));
                }
            }
            if insn.rd == 17 {
                call_number = (insn.op == Op::Addi && insn.rs1 == 0).then_some(insn.imm);
            }
            at = next;
        }
    }

    /// The chain inside a call.
    fn called(&self, at: u32, back: u32, to: u32, chain: &Chain) -> Result<Chain, RvError> {
        let entered =
            self.program.entry.address == to || chain.iter().any(|(_, callee)| *callee == to);
        if entered {
            let name = self.program.name(to);
            let name = name.trim_end_matches("+0x0");
            return Err(self
                .program
                .error(at, format!("`{name}` calls itself; recursion has no bound here")));
        }
        let mut inner = chain.clone();
        inner.push((back, to));
        Ok(inner)
    }

    /// A jump through a register: a call or jump to an address just made, a return, or a jump
    /// through a table.
    fn jump(
        &mut self,
        at: u32,
        insn: Insn,
        chain: &Chain,
        mut steps: Vec<Step>,
        cycles: u64,
    ) -> Result<Block, RvError> {
        let program = self.program;
        let place = program.numbers[&at];
        let next = at.wrapping_add(u32::from(insn.len));
        let address = self.address(insn);
        let step = |effects, cycles| Step { effects, cost: Cost::cycles(cycles), place };
        if let Some(to) = program.fixed.get(&at).copied().filter(|_| !program.leaders.contains(&at))
        {
            let mut inner = chain.clone();
            let mut effects = Vec::new();
            if insn.rd != 0 {
                effects.push(self.set(insn.rd, link(program, next)));
                inner = self.called(at, next, to, chain)?;
            }
            steps.push(step(effects, cycles + self.crossing(to)));
            return Ok(end(steps, Next::Goto(self.block(to, inner)), None, 0, 0));
        }
        if insn.rd != 0 {
            return Err(program.error(at, "a call through a pointer; call functions by name"));
        }
        if LINKS.contains(&insn.rs1) {
            let Some(((back, _), outer)) = chain.split_last() else {
                let returns = Effect::Returns(address, RETURN.into());
                steps.push(step(vec![returns, self.slots.end()], cycles));
                return Ok(end(steps, Next::Exit, None, 0, 0));
            };
            let offset = back.wrapping_sub(program.code.base());
            let returns = Effect::Returns(address, offset.into());
            steps.push(step(vec![returns], cycles + self.crossing(*back)));
            return Ok(end(steps, Next::Goto(self.block(*back, outer.to_vec())), None, 0, 0));
        }
        let targets = program.tables.get(&at).cloned().unwrap_or_default();
        if targets.is_empty() {
            return Err(program.error(at, "an indirect jump without a table of constants"));
        }
        let value = Expr::binary(crate::term::Op::And, address, Expr::Const(32, 0xffff_fffe));
        let mut list = Vec::new();
        for to in targets {
            let mut id = self.block(to, chain.clone());
            let more = self.crossing(to);
            if more > 0 {
                id = self.reserve(end(Vec::new(), Next::Goto(id), None, more, 0));
            }
            list.push((u64::from(to), id));
        }
        Ok(end(steps, Next::Switch { value, targets: list }, Some(place), cycles, 0))
    }
}
