//! Where the upper half of a register matters: a backward analysis.
//!
//! A 32-bit operation clears the upper half; on a machine of 32-bit words that is an instruction of
//! its own, wanted only if somebody reads the half before it is written again. What reads it is as
//! in the kernel's verifier, by which the driver goes: every 64-bit operation, whatever becomes of
//! its result.

use super::insn::{Insn, LDDW, SOURCE_REGISTER, class, width};

/// Registers whose upper half is read after each instruction, one bit each.
pub fn upper_read(insns: &[Insn]) -> Vec<u16> {
    let mut before = vec![0u16; insns.len() + 1];
    let mut after = vec![0u16; insns.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (at, insn) in insns.iter().enumerate().rev() {
            let to = |by: i64| {
                usize::try_from(at as i64 + 1 + by)
                    .ok()
                    .and_then(|at| before.get(at))
                    .copied()
                    .unwrap_or(0)
            };
            let next = match insn.code {
                0x95 => 0,
                0x05 => to(insn.off.into()),
                0x06 => to(insn.imm.into()),
                LDDW => to(1),
                0x85 => to(0),
                code if matches!(code & 7, class::JMP | class::JMP32) => {
                    to(insn.off.into()) | to(0)
                }
                _ => to(0),
            };
            let now = through(insn, next);
            changed |= before[at] != now || after[at] != next;
            (before[at], after[at]) = (now, next);
        }
    }
    after
}

fn through(insn: &Insn, after: u16) -> u16 {
    let (dst, src) = (1u16 << (insn.dst & 15), 1u16 << (insn.src & 15));
    let register = insn.code & SOURCE_REGISTER != 0;
    match insn.code & 7 {
        class::LD => after & !dst,
        // Addresses are whole.
        class::LDX => after & !dst | src,
        class::ST => after | dst,
        class::STX if insn.code & 0xe0 == 0xc0 => after | dst | src,
        class::STX => after | dst | if width(insn.code) == 8 { src } else { 0 },
        class::ALU if insn.code & 0xf0 == 0xd0 => {
            // Swapping 64 bits reads them.
            if insn.imm == 64 { after | dst } else { after & !dst }
        }
        class::ALU => after & !dst,
        class::ALU64 => match insn.code & 0xf0 {
            0xb0 if register => after & !dst | src,
            0xb0 => after & !dst,
            _ => after | dst | if register && insn.code & 0xf0 != 0xd0 { src } else { 0 },
        },
        class::JMP if insn.code == 0x85 => after & !0x3f | 0x3e,
        class::JMP if insn.code == 0x95 => after | 1,
        class::JMP if insn.code == 0x05 => after,
        class::JMP => after | dst | if register { src } else { 0 },
        _ => after,
    }
}
