//! Instructions to words, by the same tables: what tests, benchmarks and patches need of an
//! assembler.

use super::insn::{Format, Insn, Row};

/// The word of a row with these operands; those that its format has no place for are left out, and
/// immediates lose the bits that do not fit.
pub fn encode(row: &Row, insn: &Insn) -> u32 {
    let imm = insn.imm as u32;
    let rd = u32::from(insn.rd & 31) << 7;
    let rs1 = u32::from(insn.rs1 & 31) << 15;
    let rs2 = u32::from(insn.rs2 & 31) << 20;
    let operands = match row.format {
        Format::Register => rd | rs1 | rs2,
        Format::Unary => rd | rs1,
        Format::Immediate | Format::Load => rd | rs1 | imm << 20,
        Format::Shift => rd | rs1 | (imm & 31) << 20,
        Format::Store => rs1 | rs2 | (imm >> 5 & 0x7f) << 25 | (imm & 31) << 7,
        Format::Branch => {
            let low = (imm >> 1 & 15) << 8 | (imm >> 11 & 1) << 7;
            rs1 | rs2 | (imm >> 12 & 1) << 31 | (imm >> 5 & 0x3f) << 25 | low
        }
        Format::Upper => rd | imm & !0xfff,
        Format::Jump => {
            let low = (imm >> 11 & 1) << 20 | imm & 0xf_f000;
            rd | (imm >> 20 & 1) << 31 | (imm >> 1 & 0x3ff) << 21 | low
        }
        Format::Csr | Format::CsrImmediate => rd | rs1 | (imm & 0xfff) << 20,
        Format::Atomic => rd | rs1 | rs2 | (imm & 3) << 25,
        Format::Reserve => rd | rs1 | (imm & 3) << 25,
        Format::Fence => (imm & 0xfff) << 20,
        Format::Bare => 0,
    };
    row.value | operands & !row.mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rv32::{Decoder, RV32IMA};
    use nicforge_util::Random;

    #[test]
    fn words_come_back() {
        let decoder = Decoder::rv32imac();
        let mut noise = Random::new(1);
        for row in RV32IMA {
            for _ in 0..1000 {
                let word = row.value | noise.next() as u32 & !row.mask;
                // Fields that a fence or `fence.i` ignores are not kept.
                let word = match row.format {
                    Format::Fence => word & 0x0ff0_707f,
                    Format::Bare => row.value,
                    _ => word,
                };
                let insn =
                    decoder.decode(word).unwrap_or_else(|| panic!("{}: {word:#010x}", row.name));
                assert_eq!(decoder.row(&insn).name, row.name, "{word:#010x}");
                assert_eq!(encode(row, &insn), word, "{}", row.name);
            }
        }
    }

    #[test]
    fn no_word_is_two_instructions() {
        for (number, one) in RV32IMA.iter().enumerate() {
            assert_eq!(one.value & !one.mask, 0, "{}", one.name);
            for other in &RV32IMA[number + 1..] {
                let both = one.mask & other.mask;
                assert_ne!(one.value & both, other.value & both, "{} and {}", one.name, other.name);
            }
        }
    }
}
