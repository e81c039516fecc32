//! Instruction encoding: eight bytes each, `lddw` two of them (RFC 9669, section 3).

/// One 64-bit instruction slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    pub code: u8,
    pub dst: u8,
    pub src: u8,
    pub off: i16,
    pub imm: i32,
}

impl Insn {
    /// Its eight bytes.
    pub fn encode(&self) -> [u8; 8] {
        let [low, high] = self.off.to_le_bytes();
        let [a, b, c, d] = self.imm.to_le_bytes();
        [self.code, self.src << 4 | self.dst & 15, low, high, a, b, c, d]
    }
}

/// `may_goto` (Linux 6.9): it jumps once it was met eight million times in a run of the program,
/// which no run comes to. Until then it does nothing.
const MAY_GOTO: u8 = 0xe5;

/// Splits an instruction stream into slots.
///
/// # Errors
/// The number of bytes is not a multiple of eight.
pub fn decode(bytes: &[u8]) -> Result<Vec<Insn>, String> {
    if !bytes.len().is_multiple_of(8) {
        return Err(format!("{} bytes are not a whole number of eBPF instructions", bytes.len()));
    }
    Ok(bytes
        .chunks_exact(8)
        .map(|b| match b[0] {
            MAY_GOTO => Insn { code: 0x05, dst: 0, src: 0, off: 0, imm: 0 },
            code => Insn {
                code,
                dst: b[1] & 15,
                src: b[1] >> 4,
                off: i16::from_le_bytes([b[2], b[3]]),
                imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            },
        })
        .collect())
}

/// Instruction classes, the low three bits of the opcode.
pub mod class {
    pub const LD: u8 = 0;
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU: u8 = 4;
    pub const JMP: u8 = 5;
    pub const JMP32: u8 = 6;
    pub const ALU64: u8 = 7;
}

/// Bit of arithmetic and jump opcodes: the second operand is a register.
pub const SOURCE_REGISTER: u8 = 0x08;
/// `lddw`, the only instruction of two slots.
pub const LDDW: u8 = 0x18;

/// Bytes a load or store moves, from the size bits of its opcode.
pub fn width(code: u8) -> usize {
    match code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        0x10 => 1,
        _ => 8,
    }
}

/// Marks of instructions that jumps lead to, one for each and for what is behind the last.
pub fn targets(insns: &[Insn]) -> Vec<bool> {
    let mut targets = vec![false; insns.len() + 1];
    for (at, insn) in insns.iter().enumerate() {
        let by = match insn.code {
            0x06 => i64::from(insn.imm),
            0x85 | 0x95 => continue,
            code if matches!(code & 7, class::JMP | class::JMP32) => insn.off.into(),
            _ => continue,
        };
        let to = usize::try_from(at as i64 + 1 + by).ok();
        if let Some(target) = to.and_then(|to| targets.get_mut(to)) {
            *target = true;
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn may_goto_does_nothing() {
        let far = [MAY_GOTO, 0, 7, 0, 0, 0, 0, 0];
        let nothing = Insn { code: 0x05, dst: 0, src: 0, off: 0, imm: 0 };
        assert_eq!(decode(&far), Ok(vec![nothing]));
    }
}
