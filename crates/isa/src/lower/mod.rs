//! eBPF to NFP instructions, as the offload driver translates (counts per instruction: CoNEXT'21
//! artifact's description).
//!
//! Register rN is the pair 2N (low word), 2N+1 (high word), in both banks. The BPF stack is local
//! memory behind pointer 0, whose lowest byte `gprA_22` holds; `gprB_22` is the packet's length and
//! `gprB_23` the base of DRAM. Registers 20 and 21 (the pair of the frame pointer, which is never
//! needed) are scratch. Packet loads that follow each other are read at once (the packet cache).
//! Array lookups are inline: an index becomes an offset by mask and shift. Calls between BPF
//! functions are written out first.

mod alu;
mod cache;
mod copies;
mod inline;
mod jump;
mod memory;
mod shift;
mod stack;
mod tables;
mod words;

use std::collections::HashMap;

use crate::ebpf::kinds::{self, Kind, State};
use crate::ebpf::{self, Insn, LDDW};
use crate::nfp::{AluOp, Cond, Insn as Nfp, Op, Operand, Shift, Target};
use crate::object::{Map, Program};

/// A translated program.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    pub insns: Vec<Nfp>,
    /// The eBPF instruction each came from.
    pub origin: Vec<u32>,
    /// Maps that are used, in the order of their place in DRAM.
    pub maps: Vec<u32>,
    /// The program changes maps.
    pub writes: bool,
    /// What costs in it were never compared with hardware: hash maps, whose code here is this
    /// translation's own.
    pub modelled: bool,
}

/// Whose translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// The driver of the published measurements, which writes array look-ups in place.
    #[default]
    Artifact,
    /// Linux 6.1, which calls the firmware for maps.
    Linux61,
}

/// Drivers as command lines name them.
pub const DRIVERS: [(Driver, &str); 2] =
    [(Driver::Artifact, "artifact"), (Driver::Linux61, "linux-6.1")];

/// Things that the NFP, or this translation, cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct LowerError {
    pub insn: usize,
    /// Source line, or section and instruction.
    pub place: String,
    pub reason: String,
}

/// An address for the context that is not null.
const CONTEXT_ADDRESS: u32 = 0x800;

struct Lower<'a> {
    program: &'a Program,
    driver: Driver,
    maps: &'a [Map],
    states: Vec<Option<State>>,
    upper: Vec<u16>,
    /// Bytes of stack the program uses.
    depth: i64,
    out: Vec<Nfp>,
    origin: Vec<u32>,
    at: usize,
    /// Packet reads: by instruction, where its bytes are.
    cached: Vec<Option<cache::Place>>,
    parts: Vec<copies::Part>,
    looked_up: Vec<u32>,
    writes: bool,
    modelled: bool,
    /// Branches within one eBPF instruction: index in `out` and target.
    inner: Vec<(usize, u32)>,
}

/// Translates a program as [`Driver::Artifact`] does.
///
/// # Errors
/// The first instruction, helper or map that is not supported.
pub fn lower(program: &Program, maps: &[Map]) -> Result<Lowered, LowerError> {
    lower_as(program, maps, Driver::Artifact)
}

/// Translates a program as a driver does.
///
/// # Errors
/// The first instruction, helper or map that is not supported.
pub fn lower_as(program: &Program, maps: &[Map], driver: Driver) -> Result<Lowered, LowerError> {
    let inlined = inline::inline(program).map_err(|(at, reason)| error(program, at, reason))?;
    let mut lowered = lower_line(&inlined.program, maps, driver).map_err(|mut error| {
        error.insn = inlined.origin.get(error.insn).map_or(error.insn, |origin| *origin as usize);
        error
    })?;
    for origin in &mut lowered.origin {
        *origin = inlined.origin.get(*origin as usize).copied().unwrap_or(*origin);
    }
    Ok(lowered)
}

/// Translates a program without calls of BPF functions.
fn lower_line(program: &Program, maps: &[Map], driver: Driver) -> Result<Lowered, LowerError> {
    let insns = &program.insns;
    let states = kinds::kinds(insns);
    let parts = copies::copies(insns, &states);
    let cached = cache::groups(insns, &states, &parts);
    let mut lower = Lower {
        program,
        driver,
        maps,
        upper: ebpf::upper_read(insns),
        depth: depth(insns, &states),
        states,
        out: Vec::new(),
        origin: Vec::new(),
        at: 0,
        cached,
        parts,
        looked_up: Vec::new(),
        writes: false,
        modelled: false,
        inner: Vec::new(),
    };
    lower.entry();
    let mut starts = vec![None; insns.len()];
    // Branches hold eBPF targets until all starts are known.
    for at in 0..insns.len() {
        lower.at = at;
        if lower.states[at].is_some() {
            starts[at] = Some(lower.out.len() as u32);
            lower.instruction(insns[at]).map_err(|reason| lower.error(reason))?;
        }
    }
    lower.link(&starts)?;
    lower.stubs();
    let Lower { out, origin, looked_up, writes, modelled, .. } = lower;
    let modelled = modelled || crate::nfp::cost::modelled(&out);
    Ok(Lowered { insns: out, origin, maps: looked_up, writes, modelled })
}

/// Stack bytes below the frame's top that are accessed, in whole words.
pub fn depth(insns: &[Insn], states: &[Option<State>]) -> i64 {
    let mut lowest = 0;
    for (insn, state) in insns.iter().zip(states) {
        let Some(state) = state else { continue };
        let register = if insn.code & 7 == ebpf::insn::class::LDX { insn.src } else { insn.dst };
        if matches!(insn.code & 7, 1..=3)
            && let Some(Kind::Stack(base)) = state.regs.get(usize::from(register))
        {
            lowest = lowest.min(base + i64::from(insn.off));
        }
        if insn.code == 0x85 {
            // Who is called reads and writes from an argument upwards.
            for kind in &state.regs[1..6] {
                if let Kind::Stack(base) = kind {
                    lowest = lowest.min(*base);
                }
            }
        }
    }
    ((-lowest).clamp(0, 512) + 3) & !3
}

fn error(program: &Program, at: usize, reason: String) -> LowerError {
    let place = match program.lines.get(at) {
        // Line 0 is code that no line made.
        Some(Some(line)) if line.line > 0 => format!("{}:{}", line.file, line.line),
        _ => format!("section `{}`, instruction {at}", program.section),
    };
    LowerError { insn: at, place, reason }
}

/// Word of a register pair in bank A or B.
fn low(register: u8) -> Operand {
    Operand::A(2 * register)
}

fn high(register: u8) -> Operand {
    Operand::A(2 * register + 1)
}

/// A register's twin in the other bank.
fn other(operand: Operand) -> Operand {
    match operand {
        Operand::A(n) => Operand::B(n),
        Operand::B(n) => Operand::A(n),
        _ => operand,
    }
}

impl Lower<'_> {
    fn error(&self, reason: String) -> LowerError {
        error(self.program, self.at, reason)
    }

    fn push(&mut self, insn: Nfp) {
        self.out.push(insn);
        self.origin.push(self.at as u32);
    }

    /// A result for both banks.
    fn both(&mut self, op: Op) {
        self.push(Nfp::both(op));
    }

    fn one(&mut self, op: Op) {
        self.push(Nfp::one(op));
    }

    fn alu(&mut self, dst: Operand, a: Operand, op: AluOp, b: Operand) {
        self.both(Op::Alu { dst, a, op, b });
    }

    /// Flags only.
    fn test(&mut self, a: Operand, op: AluOp, b: Operand) {
        self.one(Op::Alu { dst: Operand::None, a, op, b });
    }

    fn kind(&self, register: u8) -> Kind {
        let state = self.states[self.at].as_ref();
        state
            .and_then(|state| state.regs.get(usize::from(register)).copied())
            .unwrap_or(Kind::Nothing)
    }

    fn entry(&mut self) {
        self.one(Op::Immed { dst: Operand::B(22), value: 0x3fff, shift: 0 });
        let length = Operand::Local { index: 1, word: 0 };
        self.one(Op::Alu { dst: Operand::B(22), a: Operand::B(22), op: AluOp::And, b: length });
        if self.compares_context() {
            // Accesses to the context go through a pointer register; who asks whether it is null
            // gets another address.
            self.immediate(low(1), CONTEXT_ADDRESS);
            self.clear(high(1));
        }
    }

    /// True if some branch depends on the context's address.
    fn compares_context(&self) -> bool {
        use ebpf::insn::{SOURCE_REGISTER, class};
        self.program.insns.iter().zip(&self.states).any(|(insn, state)| {
            let context = |register: u8| {
                let kind = state.as_ref().and_then(|state| state.regs.get(usize::from(register)));
                matches!(kind, Some(Kind::Context(_)))
            };
            matches!(insn.code & 7, class::JMP | class::JMP32)
                && !matches!(insn.code, 0x05 | 0x06 | 0x85 | 0x95)
                && (context(insn.dst) || insn.code & SOURCE_REGISTER != 0 && context(insn.src))
        })
    }

    fn instruction(&mut self, insn: Insn) -> Result<(), String> {
        use ebpf::insn::class;
        if insn.dst > 10 || insn.src > 10 && insn.code != LDDW {
            return Err(format!("register r{} does not exist", insn.dst.max(insn.src)));
        }
        match self.parts[self.at] {
            copies::Part::First(copy) => {
                self.copy(insn, copy);
                return Ok(());
            }
            copies::Part::Other => return Ok(()),
            copies::Part::No => {}
        }
        match insn.code & 7 {
            class::LD if insn.code == LDDW => self.load_wide(insn),
            class::LDX => self.load(insn),
            class::ST | class::STX => self.store(insn),
            class::ALU => self.arithmetic(insn, true),
            class::ALU64 => self.arithmetic(insn, false),
            class::JMP if insn.code == 0x85 => self.call(insn),
            class::JMP if insn.code == 0x95 => {
                self.branch(Cond::Always, None);
                Ok(())
            }
            class::JMP | class::JMP32 => self.jump(insn),
            _ => Err(format!("eBPF instruction {:#04x} is not supported on the NFP", insn.code)),
        }
    }

    fn load_wide(&mut self, insn: Insn) -> Result<(), String> {
        match insn.src {
            0 => {
                let high_word =
                    self.program.insns.get(self.at + 1).map_or(0, |next| next.imm as u32);
                self.immediate(low(insn.dst), insn.imm as u32);
                if high_word == insn.imm as u32 {
                    self.alu(high(insn.dst), Operand::None, AluOp::B, low(insn.dst));
                } else {
                    self.immediate(high(insn.dst), high_word);
                }
                Ok(())
            }
            crate::object::PSEUDO_MAP => {
                // A map is known where it is used; its pointer is nothing.
                self.both(Op::Immed { dst: low(insn.dst), value: 0, shift: 0 });
                self.alu(high(insn.dst), Operand::None, AluOp::B, low(insn.dst));
                Ok(())
            }
            crate::object::PSEUDO_VALUE => {
                // Global data is the only entry of an array.
                let offset = self.program.insns.get(self.at + 1).map_or(0, |next| next.imm as u32);
                self.immediate(low(insn.dst), offset);
                self.map_base(insn.imm as u32, high(insn.dst))
            }
            _ => {
                Err("an address of a function or of the kernel is not supported on the NFP"
                    .to_string())
            }
        }
    }

    /// A branch to an eBPF instruction, or out of the program.
    fn branch(&mut self, cond: Cond, to: Option<i64>) {
        let target = match to {
            // Not an index yet: see `link`.
            Some(to) => Target::Insn(to as u32),
            None => Target::Exit,
        };
        self.one(Op::Branch { cond, target, defer: 0 });
    }

    fn link(&mut self, starts: &[Option<u32>]) -> Result<(), LowerError> {
        let inner: HashMap<usize, u32> = self.inner.drain(..).collect();
        for index in 0..self.out.len() {
            if let Some(to) = inner.get(&index) {
                if let Op::Branch { target, .. } | Op::BranchBit { target, .. } =
                    &mut self.out[index].op
                {
                    *target = Target::Insn(*to);
                }
                continue;
            }
            if let Op::Branch { target: Target::Insn(to), .. } = &mut self.out[index].op {
                let start = starts.get(*to as usize).copied().flatten();
                let Some(start) = start else {
                    self.at = self.origin[index] as usize;
                    return Err(self.error("a jump out of the program".to_string()));
                };
                *to = start;
            }
        }
        Ok(())
    }

    /// What comes after the program: verdict 0x82 for aborted programs, then the action code by r0,
    /// then padding.
    fn stubs(&mut self) {
        self.at = self.program.insns.len().saturating_sub(1);
        let (a0, a1, b2, none) = (Operand::A(0), Operand::A(1), Operand::B(2), Operand::None);
        let aborted = self.out.len() as u32;
        let leave = Op::Branch { cond: Cond::Always, target: Target::Exit, defer: 2 };
        let clear = Op::Alu { dst: a0, a: none, op: AluOp::B, b: Operand::Imm(0) };
        let code =
            |src| Op::LdField { dst: a0, mask: 0b1100, src, shift: Shift::Left(16), clear: false };
        let shifted = |dst, a, op, b, shift| Op::AluShf { dst, a, op, b, shift };
        self.one(leave);
        self.one(clear);
        self.one(code(Operand::Imm(0x82)));
        self.test(Operand::Imm(3), AluOp::Sub, Operand::B(0));
        self.one(Op::Branch { cond: Cond::CarryClear, target: Target::Insn(aborted), defer: 0 });
        // A byte for each of 0 to 3.
        self.immediate_one(b2, 0x4411_2282);
        self.one(shifted(a1, none, AluOp::B, Operand::B(0), Shift::Left(3)));
        self.test(a1, AluOp::Or, Operand::Imm(0));
        self.one(shifted(b2, Operand::Imm(0xff), AluOp::And, b2, Shift::RightIndirect));
        self.one(leave);
        self.one(clear);
        self.one(code(b2));
        for _ in 0..8 {
            self.one(Op::Nop);
        }
    }
}

#[cfg(test)]
mod same;
#[cfg(test)]
mod tests;
