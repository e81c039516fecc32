//! Front end: NFP listings to the block language.
//!
//! What instructions mean is defined by the interpreter in `nicforge_isa::nfp`; this file says the
//! same in expressions. What the interpreter decides while it runs but a listing fixes (which
//! result a latch holds, how many words a read moves, when a new local memory pointer is in force)
//! is decided here, instruction by instruction within a block.

mod ops;

use nicforge_isa::nfp::cost::{self, branch_cycles};
use nicforge_isa::nfp::{
    CONTEXT_BASE, Cond, DRAM_BASE, Insn, LOCAL_BYTES, Op, Operand, PACKET_BASE, STACK_BASE, Target,
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
    /// The condition of a branch whose slots are executed.
    kept: Slot,
}

/// Facts while a block is translated.
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
    let reached = reached(insns, |_| true);
    let unsigned = self::reached(insns, |op| !op.is_logical());
    let asr = |index: &usize| matches!(insns[*index].op, Op::Asr { .. }) && unsigned[*index];
    if let Some(insn) = (0..insns.len()).find(asr) {
        let reason = "asr takes its sign from a logical instruction, and none comes before it";
        return Err(NfpError { insn, reason: reason.to_string() });
    }
    for (number, start) in leaders.iter().enumerate() {
        if !reached[*start] {
            // Stubs and padding; nothing leads here.
            front.graph.blocks.push(leave());
            continue;
        }
        let end = leaders.get(number + 1).copied().unwrap_or(insns.len());
        let block = front.block(insns, *start..end, |target| match target {
            Target::Insn(index) => BlockId(block_of(index as usize) as u32),
            Target::Exit | Target::Helper(_) => exit,
        })?;
        front.graph.blocks.push(block);
    }
    front.graph.blocks.push(leave());
    Ok(front.graph)
}

fn leave() -> Block {
    Block { steps: Vec::new(), next: Next::Exit, branch: BranchCost::default(), place: None }
}

/// Instructions control can come to through instructions that `through` lets pass.
fn reached(insns: &[Insn], through: impl Fn(&Op) -> bool) -> Vec<bool> {
    let mut reached = vec![false; insns.len()];
    let mut queue = vec![0];
    while let Some(at) = queue.pop() {
        if at >= insns.len() || std::mem::replace(&mut reached[at], true) {
            continue;
        }
        if !through(&insns[at].op) {
            continue;
        }
        match insns[at].op {
            Op::Branch { cond, target, defer } => {
                if let Target::Insn(to) = target {
                    queue.push(to as usize);
                }
                if cond != Cond::Always || defer > 0 && target != Target::Exit {
                    queue.push(at + 1);
                }
            }
            Op::BranchBit { target, .. } => {
                if let Target::Insn(to) = target {
                    queue.push(to as usize);
                }
                queue.push(at + 1);
            }
            _ => queue.push(at + 1),
        }
    }
    reached
}

/// Target of a branch, and the number of instructions behind it that are executed before.
fn branch(op: &Op) -> Option<(Target, usize)> {
    match *op {
        // Nothing that counts comes from the slots of what leaves.
        Op::Branch { target: target @ Target::Exit, .. } => Some((target, 0)),
        Op::Branch { target, defer, .. } => Some((target, defer.into())),
        Op::BranchBit { target, .. } => Some((target, 0)),
        _ => None,
    }
}

/// First instructions of blocks, rising.
fn leaders(insns: &[Insn]) -> Vec<usize> {
    let mut leaders = vec![0];
    for (index, insn) in insns.iter().enumerate() {
        let Some((target, slots)) = branch(&insn.op) else { continue };
        if let Target::Insn(target) = target {
            leaders.push(target as usize);
        }
        leaders.push(index + 1 + slots);
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
        let mut bank =
            |count: usize, bits: u8| (0..count).map(|_| graph.slot(bits)).collect::<Vec<_>>();
        let (a, b, xfer_in, xfer_out, pointers) =
            (bank(32, 32), bank(32, 32), bank(32, 32), bank(32, 32), bank(4, 32));
        let flags = bank(5, 1);
        let rest = bank(7, 32);
        graph.start = vec![
            (a[22], word(STACK_BASE)),
            (pointers[0], word(STACK_BASE)),
            (pointers[1], word(CONTEXT_BASE)),
            (b[23], word(DRAM_BASE)),
        ];
        graph.bytes = vec![
            (LOCAL + u64::from(CONTEXT_BASE), Expr::zext(Expr::Size(0), 32)),
            (LOCAL + u64::from(CONTEXT_BASE) + 8, word(PACKET_BASE)),
        ];
        let dram = if shared { Contents::Shared } else { Contents::Table };
        let region = |name: &str, base, size, contents| Region {
            name: name.to_string(),
            base,
            size,
            contents,
        };
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
            kept: flags[4],
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
        // A branch whose slots follow: how many, and how the block ends.
        let mut deferred: Option<(usize, Next, BranchCost, u32)> = None;
        for index in range.clone() {
            let insn = &insns[index];
            let fail = |reason: &str| NfpError { insn: index, reason: reason.to_string() };
            if let Some((target, slots)) = branch(&insn.op) {
                if deferred.is_some() {
                    return Err(fail("a branch in a branch's slot"));
                }
                let mut last =
                    Step { effects: Vec::new(), cost: Cost::default(), place: index as u32 };
                let (cond, test) = match insn.op {
                    Op::BranchBit { src, bit, .. } => {
                        let word = self.read(src, &mut last.effects);
                        (Cond::Ne, Expr::extract(word, bit, 1))
                    }
                    Op::Branch { cond, .. } => (cond, self.condition(cond)),
                    _ => unreachable!("`branch` knows two kinds"),
                };
                let bit = matches!(insn.op, Op::BranchBit { .. });
                if slots == 0 {
                    self.commit(&mut local, u64::MAX, &mut last.effects);
                }
                let milli = |taken, fresh| 1000 * u64::from(branch_cycles(cond, taken, fresh));
                let cost = BranchCost {
                    taken: milli(true, false),
                    fall: milli(false, false),
                    fresh: if bit { 0 } else { milli(true, true) - milli(true, false) },
                };
                if let Target::Helper(number) = target {
                    return Err(fail(&format!(
                        "calls the firmware's code for BPF helper {number}, which is not published"
                    )));
                }
                let taken = target_of(target);
                let next = if cond == Cond::Always {
                    Next::Goto(taken)
                } else if index + 1 + slots >= insns.len() {
                    return Err(fail("the last instruction falls through"));
                } else {
                    // Slots may change the flags.
                    let cond = if slots == 0 {
                        test
                    } else {
                        last.effects.push(Effect::Set(self.kept, test));
                        Expr::Slot(self.kept)
                    };
                    let fall = target_of(Target::Insn((index + 1 + slots) as u32));
                    Next::Branch { cond, taken, fall }
                };
                if !last.effects.is_empty() {
                    last.cost.flags = steps.last().is_some_and(|step: &Step| step.cost.flags);
                    steps.push(last);
                }
                if slots == 0 {
                    return Ok(Block { steps, next, branch: cost, place: Some(index as u32) });
                }
                local.fresh_latch = false;
                deferred = Some((slots, next, cost, index as u32));
                continue;
            }
            let mut effects = Vec::new();
            self.commit(&mut local, 1, &mut effects);
            self.translate(insn, &mut local, &mut effects).map_err(|reason| fail(&reason))?;
            steps.push(Step { effects, cost: step_cost(&insn.op), place: index as u32 });
            let Some((slots, next, branch, place)) = &mut deferred else { continue };
            *slots -= 1;
            if *slots == 0 {
                let mut last =
                    Step { effects: Vec::new(), cost: Cost::default(), place: index as u32 };
                self.commit(&mut local, u64::MAX, &mut last.effects);
                if !last.effects.is_empty() {
                    last.cost.flags = steps.last().is_some_and(|step| step.cost.flags);
                    steps.push(last);
                }
                return Ok(Block {
                    steps,
                    next: next.clone(),
                    branch: *branch,
                    place: Some(*place),
                });
            }
        }
        if deferred.is_some() {
            return Err(NfpError {
                insn: range.end - 1,
                reason: "a jump into the slots of a branch".to_string(),
            });
        }
        if range.end == insns.len() {
            return Err(NfpError {
                insn: range.end - 1,
                reason: "runs past the end of the listing".to_string(),
            });
        }
        let mut last =
            Step { effects: Vec::new(), cost: Cost::default(), place: range.end as u32 - 1 };
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
        let address = Expr::add(
            Expr::Slot(self.pointers[usize::from(index)]),
            word(4 * u32::from(word_index)),
        );
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
            Operand::LocalNext { index } => {
                let address = self.local_address(index, 0);
                effects.push(Effect::Load { slot: self.temp, address, bytes: 4 });
                self.move_on(index, effects);
                Expr::Slot(self.temp)
            }
        }
    }

    fn move_on(&self, index: u8, effects: &mut Vec<Effect>) {
        let pointer = self.pointers[usize::from(index)];
        effects.push(Effect::Set(pointer, Expr::add(Expr::Slot(pointer), word(4))));
    }

    fn write(&self, operand: Operand, both: bool, value: Expr, effects: &mut Vec<Effect>) {
        match operand {
            Operand::A(n) | Operand::B(n) => {
                let (a, b) = (self.a[usize::from(n) & 31], self.b[usize::from(n) & 31]);
                let (first, second) =
                    if matches!(operand, Operand::A(_)) { (a, b) } else { (b, a) };
                effects.push(Effect::Set(first, value));
                if both {
                    effects.push(Effect::Set(second, Expr::Slot(first)));
                }
            }
            Operand::Xfer(n) => {
                effects.push(Effect::Set(self.xfer_out[usize::from(n) & 31], value))
            }
            Operand::Local { index, word } => {
                effects.push(Effect::Store {
                    address: self.local_address(index, word),
                    bytes: 4,
                    value,
                });
            }
            Operand::LocalNext { index } => {
                let address = self.local_address(index, 0);
                effects.push(Effect::Store { address, bytes: 4, value });
                self.move_on(index, effects);
            }
            Operand::None | Operand::Imm(_) => {}
        }
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
