//! What instructions cost (CoNEXT'21, section 4; agrees with all 21,442 predicted paths of its
//! data).
//!
//! A core runs several threads, so a wait for memory is partly hidden: what remains shrinks with
//! the cycles since the memory instruction before. A branch needs the flags of the instruction
//! before it one cycle later than others.

use super::insn::{Cond, Insn, MemOp, MulStep, Op};

/// Cycles the firmware takes for a packet besides the program.
pub const BASE_CYCLES: u32 = 224;
/// Clock of cores and of the DRAM engine.
pub const CLOCK_HZ: f64 = 800e6;
/// Cores that run programs.
pub const CORES: u32 = 50;
/// Packets per second the ports carry.
pub const PORT_PPS: f64 = 54.4e6;
/// Latency of the packet's memory and of DRAM, and the least a wait takes.
pub const PACKET_LATENCY: u32 = 16;
pub const DRAM_LATENCY: u32 = 25;
pub const LEAST_WAIT: u32 = 3;
/// Engine cycles of a DRAM read (197.41 M a second) and of an atomic addition (248.46 M), in
/// millionths.
pub const DRAM_READ_MICRO: u64 = 4_052_463;
pub const DRAM_ADD_MICRO: u64 = 3_219_819;

/// Time of an instruction that is no branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// A wait of `max(LEAST_WAIT, latency - cycles since the last memory instruction)` instead of
    /// one cycle.
    pub latency: Option<u32>,
    /// It is a memory instruction: later waits count from its end.
    pub memory: bool,
    /// It writes flags.
    pub flags: bool,
    /// Millionths of DRAM engine cycles.
    pub dram_micro: u64,
}

/// The cost rule of an instruction; branches have [`branch_cycles`].
pub fn cost(op: &Op) -> Cost {
    let mut cost = Cost { latency: None, memory: false, flags: writes_flags(op), dram_micro: 0 };
    if let Op::Mem { op, far, swap, .. } = op {
        cost.memory = true;
        cost.latency = swap.then_some(if *far { DRAM_LATENCY } else { PACKET_LATENCY });
        cost.dram_micro = match (op, far) {
            (MemOp::AddImm, _) => DRAM_ADD_MICRO,
            (_, true) => DRAM_READ_MICRO,
            _ => 0,
        };
    }
    cost
}

/// True if costs of these instructions were never measured: writes of DRAM and atomic additions of
/// more than 16 bits, which are priced as reads (the published data has neither).
pub fn modelled(insns: &[Insn]) -> bool {
    insns.iter().any(|insn| match insn.op {
        Op::Mem { op, far, .. } => {
            op == MemOp::Add || far && matches!(op, MemOp::Write8 | MemOp::Write32)
        }
        _ => false,
    })
}

/// True if an instruction writes the flags.
pub fn writes_flags(op: &Op) -> bool {
    match op {
        Op::Alu { .. }
        | Op::AluShf { .. }
        | Op::Asr { .. }
        | Op::DblShf { .. }
        | Op::LdField { .. } => true,
        Op::Mul { step, .. } => {
            matches!(step, MulStep::NarrowLast | MulStep::WideLast | MulStep::WideHigh)
        }
        _ => false,
    }
}

/// Cycles of a branch, which one with slots spends behind them; `fresh` says that the instruction right before it wrote the flags.
pub fn branch_cycles(cond: Cond, taken: bool, fresh: bool) -> u32 {
    match (cond, taken) {
        (Cond::Always, _) => 4,
        (_, false) => 1,
        (_, true) => 3 + u32::from(fresh),
    }
}

/// Time on a path so far, as the rules see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    pub cycles: u64,
    pub dram_micro: u64,
    /// Cycles since the end of the last memory instruction, or since the start.
    pub since_memory: u64,
    /// The last instruction wrote the flags.
    pub fresh: bool,
}

impl Clock {
    /// An instruction that is no branch.
    pub fn step(&mut self, cost: Cost) {
        let cycles = match cost.latency {
            Some(latency) => {
                u64::from(LEAST_WAIT).max(u64::from(latency).saturating_sub(self.since_memory))
            }
            None => 1,
        };
        self.spend(cycles);
        if cost.memory {
            self.since_memory = 0;
        }
        self.fresh = cost.flags;
        self.dram_micro += cost.dram_micro;
    }

    /// A branch.
    pub fn branch(&mut self, cond: Cond, taken: bool) {
        self.spend(branch_cycles(cond, taken, self.fresh).into());
        self.fresh = false;
    }

    fn spend(&mut self, cycles: u64) {
        self.cycles += cycles;
        self.since_memory += cycles;
    }
}
