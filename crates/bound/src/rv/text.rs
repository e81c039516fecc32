//! The instructions of a program that can be reached from its entry.
//!
//! Control is followed from the entry through branches, calls, and jump tables: an indirect jump
//! may go to every address inside its function that stands as a word in read-only data. Which of
//! them it does go to is decided when the program is unrolled.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use nicforge_isa::object::riscv::{Image, Symbol};
use nicforge_isa::rv32::{Code, Decoder, Insn, Op, Timing, word_at};

use super::RvError;

/// Most bytes that executable sections may span.
const MOST_CODE: u32 = 4 << 20;
/// Most instructions that may be reached, and targets of one indirect jump.
const MOST_REACHED: usize = 100_000;
const MOST_TARGETS: usize = 1024;
/// Endings of names of handlers: header, payload, completion.
const HANDLERS: [&str; 3] = ["_ph", "_hh", "_th"];
/// Registers that calls link in.
pub const LINKS: [u8; 2] = [1, 5];

/// A program in memory.
pub struct Program {
    pub image: Image,
    pub code: Code,
    pub decoder: Decoder,
    pub entry: Symbol,
    /// The entry is a handler: it gets the arguments of one.
    pub handler: bool,
    /// Reached instructions by address, and their numbers.
    pub insns: BTreeMap<u32, Insn>,
    pub numbers: HashMap<u32, u32>,
    /// Addresses that control comes to from elsewhere.
    pub leaders: HashSet<u32>,
    /// Where indirect jumps may go, by their address.
    pub tables: HashMap<u32, Vec<u32>>,
    /// Where jumps through a register go that the instruction before has set.
    pub fixed: HashMap<u32, u32>,
}

/// The function to analyse: the one of this name, or the only payload handler, or the only
/// function.
///
/// # Errors
/// There is none, or several, or none of that name; with the names there are.
pub fn entry(image: &Image, name: Option<&str>) -> Result<Symbol, String> {
    let executable = |symbol: &&Symbol| {
        image.sections.iter().any(|section| {
            section.executable
                && symbol.address >= section.address
                && symbol.address - section.address < section.size
        })
    };
    let functions: Vec<&Symbol> = image.symbols.iter().filter(executable).collect();
    if let Some(name) = name {
        return match functions.iter().find(|symbol| symbol.name == name) {
            Some(symbol) => Ok((*symbol).clone()),
            None => Err(format!(
                "no function `{name}` in this file; there are {}",
                near(&functions, name)
            )),
        };
    }
    let sized: Vec<&Symbol> = functions.iter().copied().filter(|symbol| symbol.size > 0).collect();
    let payload: Vec<&Symbol> =
        functions.iter().copied().filter(|symbol| symbol.name.ends_with(HANDLERS[0])).collect();
    match (&payload[..], &sized[..], &functions[..]) {
        ([one], ..) | ([], [one], _) | ([], [], [one]) => Ok((*one).clone()),
        (_, _, []) => {
            Err("no function in this file; keep its symbols (link without -s)".to_string())
        }
        ([], ..) => Err(format!(
            "several functions and no `*_ph`; choose one with --entry: {}",
            near(&functions, "")
        )),
        _ => {
            let names: Vec<&str> = payload.iter().map(|symbol| symbol.name.as_str()).collect();
            Err(format!("several handlers; choose one with --entry: {}", names.join(", ")))
        }
    }
}

/// Some names, those that have most of a wanted one first.
fn near(functions: &[&Symbol], wanted: &str) -> String {
    let common = |name: &str| {
        let pairs =
            |text: &str| text.as_bytes().windows(2).map(<[u8]>::to_vec).collect::<HashSet<_>>();
        pairs(name).intersection(&pairs(wanted)).count()
    };
    let mut names: Vec<&str> = functions.iter().map(|symbol| symbol.name.as_str()).collect();
    names.sort_by_key(|name| std::cmp::Reverse(common(name)));
    let more = names.len().saturating_sub(12);
    names.truncate(12);
    let list = names.join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

impl Program {
    /// Decodes what can be reached from an entry.
    ///
    /// # Errors
    /// Code that is spread too far, and the first instruction that is not supported.
    pub fn new(image: Image, entry: Symbol) -> Result<Program, RvError> {
        let whole = |reason: String| RvError { place: entry.name.clone(), reason };
        if image.segments.is_empty() {
            return Err(whole(
                "the file is not linked; link it (riscv64-unknown-elf-ld -m elf32lriscv)"
                    .to_string(),
            ));
        }
        let executable = || {
            image.sections.iter().filter(|section| section.executable && !section.bytes.is_empty())
        };
        let first = executable().map(|section| section.address).min().unwrap_or(0) & !1;
        let end = |section: &nicforge_isa::object::riscv::Section| {
            u64::from(section.address) + section.bytes.len() as u64
        };
        let last = executable().map(end).max().unwrap_or(0);
        let span = last.saturating_sub(first.into());
        if span > MOST_CODE.into() {
            return Err(whole(format!(
                "code spans {span:#x} bytes, more than {MOST_CODE:#x}; link it closer together"
            )));
        }
        let mut bytes = vec![0; span as usize];
        for section in executable() {
            let at = (section.address - first) as usize;
            bytes[at..at + section.bytes.len()].copy_from_slice(&section.bytes);
        }
        let decoder = Decoder::rv32imac();
        let code = Code::new(first, &bytes, &decoder, &Timing::RI5CY);
        let handler = HANDLERS.iter().any(|ending| entry.name.ends_with(ending));
        let mut program = Program {
            image,
            code,
            decoder,
            handler,
            insns: BTreeMap::new(),
            numbers: HashMap::new(),
            leaders: HashSet::new(),
            tables: HashMap::new(),
            fixed: HashMap::new(),
            entry,
        };
        program.reach(&bytes)?;
        program.numbers =
            program.insns.keys().enumerate().map(|(number, at)| (*at, number as u32)).collect();
        Ok(program)
    }

    /// An address as function and offset.
    pub fn name(&self, at: u32) -> String {
        match self.image.symbol_at(at) {
            Some(symbol) => format!("{}+{:#x}", symbol.name, at - symbol.address),
            None => format!("{at:#x}"),
        }
    }

    /// An error at an instruction.
    pub fn error(&self, at: u32, reason: impl Into<String>) -> RvError {
        RvError { place: format!("{} (pc {at:#010x})", self.name(at)), reason: reason.into() }
    }

    fn reach(&mut self, bytes: &[u8]) -> Result<(), RvError> {
        let base = self.code.base();
        let mut queue = vec![self.entry.address];
        while let Some(mut at) = queue.pop() {
            self.leaders.insert(at);
            let mut before: Option<(u32, Insn)> = None;
            while !self.insns.contains_key(&at) {
                let word = bytes.get(at.wrapping_sub(base) as usize..).and_then(word_at);
                let word = word
                    .filter(|_| at & 1 == 0)
                    .ok_or_else(|| self.error(at, "control leaves the code"))?;
                let Some(insn) = self.decode(word) else {
                    let digits = if word & 3 == 3 {
                        format!("{word:#010x}")
                    } else {
                        format!("{:#06x}", word & 0xffff)
                    };
                    let reason =
                        format!("unknown instruction {digits}; compile with -march=rv32imac");
                    return Err(self.error(at, reason));
                };
                self.insns.insert(at, insn);
                if self.insns.len() > MOST_REACHED {
                    return Err(self.error(at, format!("more than {MOST_REACHED} instructions")));
                }
                let next = at.wrapping_add(u32::from(insn.len));
                let to = at.wrapping_add(insn.imm as u32);
                match insn.op {
                    Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu => {
                        queue.extend([to, next]);
                        break;
                    }
                    Op::Jal => {
                        queue.push(to);
                        if insn.rd != 0 {
                            queue.push(next);
                        }
                        break;
                    }
                    Op::Jalr => {
                        let set =
                            before.filter(|(_, before)| before.rd == insn.rs1 && insn.rs1 != 0);
                        let fixed = match set {
                            Some((from, Insn { op: Op::Auipc, imm, .. })) => {
                                Some(from.wrapping_add(imm as u32))
                            }
                            Some((_, Insn { op: Op::Lui, imm, .. })) => Some(imm as u32),
                            _ => None,
                        };
                        if let Some(fixed) = fixed {
                            let to = fixed.wrapping_add(insn.imm as u32) & !1;
                            self.fixed.insert(at, to);
                            queue.push(to);
                        } else if insn.rd == 0 && !LINKS.contains(&insn.rs1) {
                            let targets = self.targets(at);
                            if targets.len() > MOST_TARGETS {
                                return Err(self.error(
                                    at,
                                    format!(
                                        "an indirect jump with more than {MOST_TARGETS} possible targets"
                                    ),
                                ));
                            }
                            queue.extend(&targets);
                            self.tables.insert(at, targets);
                        }
                        if insn.rd != 0 {
                            queue.push(next);
                        }
                        break;
                    }
                    Op::Ebreak | Op::Illegal | Op::Mret => break,
                    _ => before = Some((at, insn)),
                }
                at = next;
            }
        }
        Ok(())
    }

    /// An instruction; zeros are one that traps, as compilers end what must not be reached.
    fn decode(&self, word: u32) -> Option<Insn> {
        let trap = Insn { op: Op::Illegal, row: 0, rd: 0, rs1: 0, rs2: 0, imm: 0, len: 2 };
        if word & 0xffff == 0 { Some(trap) } else { self.decoder.decode(word) }
    }

    /// Where an indirect jump may go: words of read-only data that are addresses in its function.
    fn targets(&self, at: u32) -> Vec<u32> {
        let (from, to) = match self.image.symbol_at(at) {
            Some(symbol) if symbol.size > 0 => {
                (symbol.address, symbol.address.wrapping_add(symbol.size))
            }
            _ => (self.code.base(), self.code.base().wrapping_add(self.code.len() as u32)),
        };
        let constant = self.image.sections.iter().filter(|section| !section.writable);
        let words = constant.flat_map(|section| {
            let skip = (section.address.wrapping_neg() & 3) as usize;
            section.bytes.get(skip..).unwrap_or_default().chunks_exact(4)
        });
        let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        words
            .filter(|word| *word >= from && *word < to && word & 1 == 0)
            .collect::<BTreeSet<u32>>()
            .into_iter()
            .collect()
    }
}
