//! Compressed instructions, each a row that says which full instruction it stands for and where its
//! operands are.
//!
//! Source: The RISC-V Instruction Set Manual, volume I (20191213), chapter 16, tables 16.5 to 16.7,
//! the RV32 columns without floating point. Rows are tried in order: `c.addi16sp` shadows `c.lui`,
//! and the jumps shadow `c.mv` and `c.add`.

use super::insn::Op;

/// Where a register's number comes from.
#[derive(Clone, Copy, Debug)]
pub enum Reg {
    Fixed(u8),
    /// Five bits from this bit up.
    Five(u8),
    /// Three bits from this bit up; they name `x8` to `x15`.
    Three(u8),
}

/// Reserved encodings that a row refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    Nothing,
    ZeroImmediate,
    /// Register zero in bits 11 to 7.
    ZeroRegister,
    /// Register zero in bits 6 to 2.
    ZeroSource,
}

/// One compressed instruction.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    pub mask: u16,
    pub value: u16,
    /// The instruction it stands for.
    pub op: Op,
    pub rd: Reg,
    pub rs1: Reg,
    pub rs2: Reg,
    /// Parts of the immediate: bits `hi` to `lo` of the word, and where `lo` goes.
    pub imm: &'static [(u8, u8, u8)],
    /// The immediate's highest bit is its sign.
    pub signed: bool,
    pub reserved: Reserved,
}

const X0: Reg = Reg::Fixed(0);
const RA: Reg = Reg::Fixed(1);
const SP: Reg = Reg::Fixed(2);
const D: Reg = Reg::Five(7);
const S: Reg = Reg::Five(2);
const D3: Reg = Reg::Three(7);
const S3: Reg = Reg::Three(2);

const SIX: &[(u8, u8, u8)] = &[(12, 12, 5), (6, 2, 0)];
const SHAMT: &[(u8, u8, u8)] = &[(6, 2, 0)];
const WORD: &[(u8, u8, u8)] = &[(12, 10, 3), (6, 6, 2), (5, 5, 6)];
const JUMP: &[(u8, u8, u8)] = &[
    (12, 12, 11),
    (11, 11, 4),
    (10, 9, 8),
    (8, 8, 10),
    (7, 7, 6),
    (6, 6, 7),
    (5, 3, 1),
    (2, 2, 5),
];
const BRANCH: &[(u8, u8, u8)] = &[(12, 12, 8), (11, 10, 3), (6, 5, 6), (4, 3, 1), (2, 2, 5)];
const SCALED: &[(u8, u8, u8)] = &[(12, 11, 4), (10, 7, 6), (6, 6, 2), (5, 5, 3)];
const ADJUST: &[(u8, u8, u8)] = &[(12, 12, 9), (6, 6, 4), (5, 5, 6), (4, 3, 7), (2, 2, 5)];
const UPPER: &[(u8, u8, u8)] = &[(12, 12, 17), (6, 2, 12)];
const FROM_STACK: &[(u8, u8, u8)] = &[(12, 12, 5), (6, 4, 2), (3, 2, 6)];
const TO_STACK: &[(u8, u8, u8)] = &[(12, 9, 2), (8, 7, 6)];

const fn short(mask: u16, value: u16, op: Op, rd: Reg, rs1: Reg, rs2: Reg) -> Short {
    Short { mask, value, op, rd, rs1, rs2, imm: &[], signed: false, reserved: Reserved::Nothing }
}

impl Short {
    const fn imm(self, imm: &'static [(u8, u8, u8)]) -> Short {
        Short { imm, ..self }
    }

    const fn signed(self, imm: &'static [(u8, u8, u8)]) -> Short {
        Short { imm, signed: true, ..self }
    }

    const fn not(self, reserved: Reserved) -> Short {
        Short { reserved, ..self }
    }
}

/// RV32C.
pub const RV32C: &[Short] = &[
    short(0xe003, 0x0000, Op::Addi, S3, SP, X0).imm(SCALED).not(Reserved::ZeroImmediate),
    short(0xe003, 0x4000, Op::Lw, S3, D3, X0).imm(WORD),
    short(0xe003, 0xc000, Op::Sw, X0, D3, S3).imm(WORD),
    short(0xe003, 0x0001, Op::Addi, D, D, X0).signed(SIX),
    short(0xe003, 0x2001, Op::Jal, RA, X0, X0).signed(JUMP),
    short(0xe003, 0x4001, Op::Addi, D, X0, X0).signed(SIX),
    short(0xef83, 0x6101, Op::Addi, SP, SP, X0).signed(ADJUST).not(Reserved::ZeroImmediate),
    short(0xe003, 0x6001, Op::Lui, D, X0, X0).signed(UPPER).not(Reserved::ZeroImmediate),
    short(0xfc03, 0x8001, Op::Srli, D3, D3, X0).imm(SHAMT),
    short(0xfc03, 0x8401, Op::Srai, D3, D3, X0).imm(SHAMT),
    short(0xec03, 0x8801, Op::Andi, D3, D3, X0).signed(SIX),
    short(0xfc63, 0x8c01, Op::Sub, D3, D3, S3),
    short(0xfc63, 0x8c21, Op::Xor, D3, D3, S3),
    short(0xfc63, 0x8c41, Op::Or, D3, D3, S3),
    short(0xfc63, 0x8c61, Op::And, D3, D3, S3),
    short(0xe003, 0xa001, Op::Jal, X0, X0, X0).signed(JUMP),
    short(0xe003, 0xc001, Op::Beq, X0, D3, X0).signed(BRANCH),
    short(0xe003, 0xe001, Op::Bne, X0, D3, X0).signed(BRANCH),
    short(0xf003, 0x0002, Op::Slli, D, D, X0).imm(SHAMT),
    short(0xe003, 0x4002, Op::Lw, D, SP, X0).imm(FROM_STACK).not(Reserved::ZeroRegister),
    short(0xffff, 0x9002, Op::Ebreak, X0, X0, X0),
    short(0xf07f, 0x8002, Op::Jalr, X0, D, X0).not(Reserved::ZeroRegister),
    short(0xf003, 0x8002, Op::Add, D, X0, S).not(Reserved::ZeroSource),
    short(0xf07f, 0x9002, Op::Jalr, RA, D, X0).not(Reserved::ZeroRegister),
    short(0xf003, 0x9002, Op::Add, D, D, S).not(Reserved::ZeroSource),
    short(0xe003, 0xc002, Op::Sw, X0, SP, S).imm(TO_STACK),
];

/// The immediate of a word by a row's parts.
pub fn immediate(word: u16, row: &Short) -> i32 {
    let mut value = 0u32;
    let mut top = 0;
    for &(hi, lo, to) in row.imm {
        let width = hi - lo + 1;
        value |= ((u32::from(word) >> lo) & ((1 << width) - 1)) << to;
        top = top.max(to + width);
    }
    if row.signed {
        let unused = 32 - u32::from(top);
        return ((value << unused) as i32) >> unused;
    }
    value as i32
}

/// The number of the register a row names.
pub fn register(word: u16, reg: Reg) -> u8 {
    match reg {
        Reg::Fixed(number) => number,
        Reg::Five(at) => (word >> at & 31) as u8,
        Reg::Three(at) => (word >> at & 7) as u8 + 8,
    }
}
