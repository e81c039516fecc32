//! Words to instructions, by tables.
//!
//! A decoder is the base table plus any number of extension tables, whose rows go first. Rows are
//! grouped by the five opcode bits, so a word is compared with at most a couple of dozen rows.

use super::compressed::{RV32C, Reserved, immediate, register};
use super::insn::{Format, Insn, Row};
use super::table::RV32IMA;

/// Which instructions there are.
#[derive(Clone, Debug)]
pub struct Decoder {
    rows: Vec<Row>,
    /// Rows by bits 6 to 2 of the word, in the order in which they are tried.
    groups: Vec<Vec<u16>>,
    /// Row of every operation of the base table that compressed instructions expand to, by row of
    /// that table.
    short_rows: Vec<u16>,
    compressed: bool,
}

impl Decoder {
    /// RV32IMAC, Zicsr, Zifencei.
    pub fn rv32imac() -> Decoder {
        Decoder::with(&[])
    }

    /// RV32IMAC and extensions.
    ///
    /// # Panics
    /// A table with more than 65,535 rows.
    pub fn with(extensions: &[&[Row]]) -> Decoder {
        let rows: Vec<Row> = extensions
            .iter()
            .copied()
            .chain([RV32IMA])
            .flat_map(|table| table.iter().copied())
            .collect();
        let mut groups = vec![Vec::new(); 32];
        for (number, row) in rows.iter().enumerate() {
            let number = u16::try_from(number).expect("a table fits 16 bits");
            groups[(row.value >> 2 & 31) as usize].push(number);
        }
        let short_rows = RV32C
            .iter()
            .map(|short| {
                let base = rows.len() - RV32IMA.len();
                let at = RV32IMA.iter().position(|row| row.op == short.op);
                (base + at.expect("compressed instructions stand for base instructions")) as u16
            })
            .collect();
        Decoder { rows, groups, short_rows, compressed: true }
    }

    /// A decoder without compressed instructions: jumps to addresses that are no multiple of four
    /// then trap.
    pub fn without_compressed(self) -> Decoder {
        Decoder { compressed: false, ..self }
    }

    /// Bits of an instruction address that must be zero, apart from the lowest, which jumps clear.
    pub fn alignment_mask(&self) -> u32 {
        if self.compressed { 0 } else { 2 }
    }

    /// The row of a decoded instruction.
    pub fn row(&self, insn: &Insn) -> &Row {
        self.row_at(insn.row)
    }

    pub(super) fn row_at(&self, number: u16) -> &Row {
        &self.rows[usize::from(number)]
    }

    /// The instruction at the start of four bytes, of which compressed ones use two. `None` if
    /// there is no such instruction.
    pub fn decode(&self, word: u32) -> Option<Insn> {
        if word & 3 != 3 {
            return if self.compressed { self.decode_short(word as u16) } else { None };
        }
        let group = &self.groups[(word >> 2 & 31) as usize];
        let number = *group.iter().find(|&&number| {
            let row = &self.rows[usize::from(number)];
            word & row.mask == row.value
        })?;
        let row = &self.rows[usize::from(number)];
        let field = |at: u32| (word >> at & 31) as u8;
        let signed = word as i32;
        let imm = match row.format {
            Format::Register | Format::Unary | Format::Bare => 0,
            Format::Immediate | Format::Load => signed >> 20,
            Format::Shift => signed >> 20 & 31,
            Format::Fence => signed >> 20 & 0xfff,
            Format::Store => (signed >> 25 << 5) | i32::from(field(7)),
            Format::Branch => {
                (signed >> 31 << 12)
                    | (signed >> 7 & 1) << 11
                    | (signed >> 25 & 0x3f) << 5
                    | (signed >> 8 & 15) << 1
            }
            Format::Upper => signed & !0xfff,
            Format::Jump => {
                (signed >> 31 << 20)
                    | (signed & 0xf_f000)
                    | (signed >> 20 & 1) << 11
                    | (signed >> 21 & 0x3ff) << 1
            }
            Format::Csr | Format::CsrImmediate => signed >> 20 & 0xfff,
            Format::Atomic | Format::Reserve => signed >> 25 & 3,
        };
        let rd = if row.format.writes() { field(7) } else { 0 };
        let (first, second) = row.format.reads();
        let rs1 = if first || row.format == Format::CsrImmediate { field(15) } else { 0 };
        let rs2 = if second { field(20) } else { 0 };
        Some(Insn { op: row.op, row: number, rd, rs1, rs2, imm, len: 4 })
    }

    fn decode_short(&self, word: u16) -> Option<Insn> {
        let at = RV32C.iter().position(|row| word & row.mask == row.value)?;
        let row = &RV32C[at];
        let imm = immediate(word, row);
        let refused = match row.reserved {
            Reserved::Nothing => false,
            Reserved::ZeroImmediate => imm == 0,
            Reserved::ZeroRegister => word >> 7 & 31 == 0,
            Reserved::ZeroSource => word >> 2 & 31 == 0,
        };
        let of = |reg| register(word, reg);
        (!refused).then(|| Insn {
            op: row.op,
            row: self.short_rows[at],
            rd: of(row.rd),
            rs1: of(row.rs1),
            rs2: of(row.rs2),
            imm,
            len: 2,
        })
    }
}

/// The four bytes at the start of a slice, zeros where it is shorter; `None` if not even a
/// compressed instruction fits.
pub fn word_at(bytes: &[u8]) -> Option<u32> {
    let low = u32::from(u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]));
    let high = match bytes.get(2..4) {
        Some(half) => u32::from(u16::from_le_bytes([half[0], half[1]])),
        None if low & 3 == 3 => return None,
        None => 0,
    };
    Some(low | high << 16)
}
