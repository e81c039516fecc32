//! Calls between BPF functions, written out: every call becomes a copy of its callee.
//!
//! Frames of the chain of calls lie below one another under one frame pointer, so that accesses to
//! the stack stay constants for the packet cache and for local memory. A copy works on its own
//! frame because what it takes from `r10` is moved down by the frames above it; registers 6 to 9
//! that it writes are kept in slots on top of its frame. Hardware calls pay for a branch each way
//! and so does this: a call is a jump, and so is every return. What is written here is never less
//! than what a call costs that saves what it must. Cost: a copy per call, so the program is limited
//! to [`MOST`] instructions and [`DEEPEST`] calls within each other.

use std::collections::HashMap;

use crate::ebpf::insn::class;
use crate::ebpf::{Insn, LDDW, kinds};
use crate::object::Program;

/// Instructions after inlining: jumps still reach every place.
const MOST: usize = 32_000;
/// Frames of a chain of calls, as in the kernel.
const DEEPEST: usize = 8;
/// Stack of all frames of a chain.
const STACK: i64 = 512;
const EXIT: u8 = 0x95;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;

/// A program without calls, and the instruction of the original each of its instructions came from.
pub struct Inlined {
    pub program: Program,
    pub origin: Vec<u32>,
}

/// Instruction of the original and the reason.
pub type Refused = (usize, String);

/// Writes out all calls.
///
/// # Errors
/// Recursion, too deep chains, more stack than there is, jumps between functions, too many
/// instructions.
pub fn inline(program: &Program) -> Result<Inlined, Refused> {
    let insns = &program.insns;
    if !insns.iter().any(is_call) {
        let origin = (0..insns.len() as u32).collect();
        return Ok(Inlined { program: program.clone(), origin });
    }
    let mut starts = vec![0, insns.len()];
    for (at, insn) in insns.iter().enumerate().filter(|(_, insn)| is_call(insn)) {
        starts.push(callee(insns, at, insn)?);
    }
    starts.sort_unstable();
    starts.dedup();
    let mut writer =
        Writer { insns, starts, out: Vec::new(), origin: Vec::new(), chain: Vec::new() };
    writer.function(0, 0, false)?;
    let line = |origin: &u32| program.lines.get(*origin as usize).cloned().flatten();
    let lines = writer.origin.iter().map(line).collect();
    let inlined = Program {
        name: program.name.clone(),
        section: program.section.clone(),
        insns: writer.out,
        lines,
    };
    Ok(Inlined { program: inlined, origin: writer.origin })
}

fn is_call(insn: &Insn) -> bool {
    insn.code == CALL && insn.src == 1
}

fn callee(insns: &[Insn], at: usize, call: &Insn) -> Result<usize, Refused> {
    let to = at as i64 + 1 + i64::from(call.imm);
    usize::try_from(to)
        .ok()
        .filter(|to| *to < insns.len())
        .ok_or_else(|| (at, "a call out of the program".to_string()))
}

struct Writer<'a> {
    insns: &'a [Insn],
    /// First instructions of functions and the end, rising.
    starts: Vec<usize>,
    out: Vec<Insn>,
    origin: Vec<u32>,
    /// Functions that are being written.
    chain: Vec<usize>,
}

impl Writer<'_> {
    fn push(&mut self, insn: Insn, origin: usize) {
        self.out.push(insn);
        self.origin.push(origin as u32);
    }

    /// Writes a function whose frame begins `above` bytes below the program's frame pointer.
    fn function(&mut self, start: usize, above: i64, called: bool) -> Result<(), Refused> {
        if self.chain.contains(&start) {
            return Err((start, "a recursive call".to_string()));
        }
        if self.chain.len() == DEEPEST {
            return Err((start, format!("calls nest deeper than {DEEPEST}")));
        }
        self.chain.push(start);
        let end =
            self.starts.iter().copied().find(|next| *next > start).unwrap_or(self.insns.len());
        let insns = self.insns;
        let body = &insns[start..end];
        let saved: Vec<u8> = (6..10).filter(|register| called && writes(body, *register)).collect();
        let above = above + 8 * saved.len() as i64;
        let slot = |index: usize| (8 * (index as i64) - above) as i16;
        for (index, register) in saved.iter().enumerate() {
            self.push(
                Insn { code: 0x7b, dst: 10, src: *register, off: slot(index), imm: 0 },
                start,
            );
        }
        let below = above + super::depth(body, &kinds::kinds(body));
        if below > STACK {
            return Err((
                start,
                format!("the calls need {below} bytes of stack; there are {STACK}"),
            ));
        }
        let mut places: HashMap<usize, usize> = HashMap::new();
        // Jumps wait for the places of all instructions; `None` is the end of this copy.
        let mut waiting: Vec<(usize, Option<usize>)> = Vec::new();
        let mut at = start;
        while at < end {
            if self.out.len() > MOST {
                return Err((
                    at,
                    format!("more than {MOST} instructions once calls are written out"),
                ));
            }
            let insn = insns[at];
            places.insert(at, self.out.len());
            match insn.code {
                LDDW => {
                    self.push(insn, at);
                    at += 1;
                    let second =
                        insns.get(at).ok_or((at - 1, "half an instruction".to_string()))?;
                    self.push(*second, at);
                }
                EXIT if called => {
                    for (index, register) in saved.iter().enumerate() {
                        let load =
                            Insn { code: 0x79, dst: *register, src: 10, off: slot(index), imm: 0 };
                        self.push(load, at);
                    }
                    waiting.push((self.out.len(), None));
                    self.push(Insn { code: JUMP, dst: 0, src: 0, off: 0, imm: 0 }, at);
                }
                CALL if insn.src == 1 => {
                    // The way there; it falls through.
                    self.push(Insn { code: JUMP, dst: 0, src: 0, off: 0, imm: 0 }, at);
                    self.function(callee(insns, at, &insn)?, below, true)?;
                }
                CALL | EXIT => self.push(insn, at),
                code if matches!(code & 7, class::JMP | class::JMP32) => {
                    let by = if code == 0x06 { i64::from(insn.imm) } else { insn.off.into() };
                    let to = usize::try_from(at as i64 + 1 + by)
                        .ok()
                        .filter(|to| (start..end).contains(to));
                    let to = to.ok_or_else(|| (at, "a jump out of its function".to_string()))?;
                    waiting.push((self.out.len(), Some(to)));
                    self.push(if code == 0x06 { Insn { code: JUMP, ..insn } } else { insn }, at);
                }
                _ => self.within_frame(insn, at, above)?,
            }
            at += 1;
        }
        for (from, to) in waiting {
            let to = match to {
                None => self.out.len(),
                Some(to) => {
                    *places.get(&to).ok_or((to, "a jump into an instruction".to_string()))?
                }
            };
            self.out[from].off = i16::try_from(to as i64 - from as i64 - 1).map_err(|_| {
                (start, "jumps become too long once calls are written out".to_string())
            })?;
        }
        self.chain.pop();
        Ok(())
    }

    /// An instruction whose frame pointer is `above` bytes below the program's.
    fn within_frame(&mut self, insn: Insn, at: usize, above: i64) -> Result<(), Refused> {
        let kind = insn.code & 7;
        let base = match kind {
            class::LDX => insn.src == 10,
            class::ST | class::STX => insn.dst == 10,
            _ => false,
        };
        if above == 0 {
            self.push(insn, at);
        } else if base {
            let off = i16::try_from(i64::from(insn.off) - above)
                .map_err(|_| (at, "a stack access outside the frame".to_string()))?;
            self.push(Insn { off, ..insn }, at);
        } else if insn.code == 0xbf && insn.src == 10 && insn.off == 0 {
            self.push(insn, at);
            self.push(Insn { code: 0x07, dst: insn.dst, src: 0, off: 0, imm: -above as i32 }, at);
        } else if insn.src == 10
            && (kind == class::STX || insn.code & 8 != 0 && insn.code & 0xf0 != 0xd0)
        {
            return Err((at, "arithmetic with the frame pointer in a called function".to_string()));
        } else {
            self.push(insn, at);
        }
        Ok(())
    }
}

/// True if instructions write a register, calls within them aside, which keep 6 to 9.
fn writes(body: &[Insn], register: u8) -> bool {
    body.iter().any(|insn| {
        let fetches = insn.code & 7 == class::STX && insn.code & 0xe0 == 0xc0 && insn.imm & 1 != 0;
        match insn.code & 7 {
            class::LD | class::LDX | class::ALU | class::ALU64 => insn.dst == register,
            _ => fetches && insn.src == register,
        }
    })
}
