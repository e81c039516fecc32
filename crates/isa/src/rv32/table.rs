//! RV32IMA, Zicsr, Zifencei and the machine-mode instructions, one row each.
//!
//! Source: The RISC-V Instruction Set Manual, volume I (20191213), chapter 24 "RV32/64G Instruction
//! Set Listings", and volume II (20211203), section 3.3.

use super::insn::{Class, Format, Op, Row};

const fn row(
    name: &'static str,
    mask: u32,
    value: u32,
    format: Format,
    op: Op,
    class: Class,
) -> Row {
    Row { name, mask, value, format, op, class, pure: None }
}

/// Opcode only; with funct3; with funct3 and funct7; atomics, whose `aq` and `rl` are free;
/// everything.
const OPCODE: u32 = 0x0000_007f;
const FUNCT3: u32 = 0x0000_707f;
const FUNCT7: u32 = 0xfe00_707f;
const ATOMIC: u32 = 0xf800_707f;
const RESERVE: u32 = 0xf9f0_707f;
const WHOLE: u32 = 0xffff_ffff;

/// The base machine's instructions. No word matches two of them.
pub const RV32IMA: &[Row] = &[
    row("lui", OPCODE, 0x37, Format::Upper, Op::Lui, Class::Alu),
    row("auipc", OPCODE, 0x17, Format::Upper, Op::Auipc, Class::Alu),
    row("jal", OPCODE, 0x6f, Format::Jump, Op::Jal, Class::Jump),
    row("jalr", FUNCT3, 0x67, Format::Load, Op::Jalr, Class::Jump),
    row("beq", FUNCT3, 0x0063, Format::Branch, Op::Beq, Class::Branch),
    row("bne", FUNCT3, 0x1063, Format::Branch, Op::Bne, Class::Branch),
    row("blt", FUNCT3, 0x4063, Format::Branch, Op::Blt, Class::Branch),
    row("bge", FUNCT3, 0x5063, Format::Branch, Op::Bge, Class::Branch),
    row("bltu", FUNCT3, 0x6063, Format::Branch, Op::Bltu, Class::Branch),
    row("bgeu", FUNCT3, 0x7063, Format::Branch, Op::Bgeu, Class::Branch),
    row("lb", FUNCT3, 0x0003, Format::Load, Op::Lb, Class::Load),
    row("lh", FUNCT3, 0x1003, Format::Load, Op::Lh, Class::Load),
    row("lw", FUNCT3, 0x2003, Format::Load, Op::Lw, Class::Load),
    row("lbu", FUNCT3, 0x4003, Format::Load, Op::Lbu, Class::Load),
    row("lhu", FUNCT3, 0x5003, Format::Load, Op::Lhu, Class::Load),
    row("sb", FUNCT3, 0x0023, Format::Store, Op::Sb, Class::Store),
    row("sh", FUNCT3, 0x1023, Format::Store, Op::Sh, Class::Store),
    row("sw", FUNCT3, 0x2023, Format::Store, Op::Sw, Class::Store),
    row("addi", FUNCT3, 0x0013, Format::Immediate, Op::Addi, Class::Alu),
    row("slti", FUNCT3, 0x2013, Format::Immediate, Op::Slti, Class::Alu),
    row("sltiu", FUNCT3, 0x3013, Format::Immediate, Op::Sltiu, Class::Alu),
    row("xori", FUNCT3, 0x4013, Format::Immediate, Op::Xori, Class::Alu),
    row("ori", FUNCT3, 0x6013, Format::Immediate, Op::Ori, Class::Alu),
    row("andi", FUNCT3, 0x7013, Format::Immediate, Op::Andi, Class::Alu),
    row("slli", FUNCT7, 0x1013, Format::Shift, Op::Slli, Class::Alu),
    row("srli", FUNCT7, 0x5013, Format::Shift, Op::Srli, Class::Alu),
    row("srai", FUNCT7, 0x4000_5013, Format::Shift, Op::Srai, Class::Alu),
    row("add", FUNCT7, 0x0033, Format::Register, Op::Add, Class::Alu),
    row("sub", FUNCT7, 0x4000_0033, Format::Register, Op::Sub, Class::Alu),
    row("sll", FUNCT7, 0x1033, Format::Register, Op::Sll, Class::Alu),
    row("slt", FUNCT7, 0x2033, Format::Register, Op::Slt, Class::Alu),
    row("sltu", FUNCT7, 0x3033, Format::Register, Op::Sltu, Class::Alu),
    row("xor", FUNCT7, 0x4033, Format::Register, Op::Xor, Class::Alu),
    row("srl", FUNCT7, 0x5033, Format::Register, Op::Srl, Class::Alu),
    row("sra", FUNCT7, 0x4000_5033, Format::Register, Op::Sra, Class::Alu),
    row("or", FUNCT7, 0x6033, Format::Register, Op::Or, Class::Alu),
    row("and", FUNCT7, 0x7033, Format::Register, Op::And, Class::Alu),
    row("mul", FUNCT7, 0x0200_0033, Format::Register, Op::Mul, Class::Multiply),
    row("mulh", FUNCT7, 0x0200_1033, Format::Register, Op::Mulh, Class::MultiplyHigh),
    row("mulhsu", FUNCT7, 0x0200_2033, Format::Register, Op::Mulhsu, Class::MultiplyHigh),
    row("mulhu", FUNCT7, 0x0200_3033, Format::Register, Op::Mulhu, Class::MultiplyHigh),
    row("div", FUNCT7, 0x0200_4033, Format::Register, Op::Div, Class::Divide),
    row("divu", FUNCT7, 0x0200_5033, Format::Register, Op::Divu, Class::Divide),
    row("rem", FUNCT7, 0x0200_6033, Format::Register, Op::Rem, Class::Divide),
    row("remu", FUNCT7, 0x0200_7033, Format::Register, Op::Remu, Class::Divide),
    row("lr.w", RESERVE, 0x1000_202f, Format::Reserve, Op::LrW, Class::Atomic),
    row("sc.w", ATOMIC, 0x1800_202f, Format::Atomic, Op::ScW, Class::Atomic),
    row("amoswap.w", ATOMIC, 0x0800_202f, Format::Atomic, Op::AmoSwap, Class::Atomic),
    row("amoadd.w", ATOMIC, 0x0000_202f, Format::Atomic, Op::AmoAdd, Class::Atomic),
    row("amoxor.w", ATOMIC, 0x2000_202f, Format::Atomic, Op::AmoXor, Class::Atomic),
    row("amoand.w", ATOMIC, 0x6000_202f, Format::Atomic, Op::AmoAnd, Class::Atomic),
    row("amoor.w", ATOMIC, 0x4000_202f, Format::Atomic, Op::AmoOr, Class::Atomic),
    row("amomin.w", ATOMIC, 0x8000_202f, Format::Atomic, Op::AmoMin, Class::Atomic),
    row("amomax.w", ATOMIC, 0xa000_202f, Format::Atomic, Op::AmoMax, Class::Atomic),
    row("amominu.w", ATOMIC, 0xc000_202f, Format::Atomic, Op::AmoMinu, Class::Atomic),
    row("amomaxu.w", ATOMIC, 0xe000_202f, Format::Atomic, Op::AmoMaxu, Class::Atomic),
    row("fence", FUNCT3, 0x000f, Format::Fence, Op::Fence, Class::System),
    row("fence.i", FUNCT3, 0x100f, Format::Bare, Op::FenceI, Class::System),
    row("ecall", WHOLE, 0x0000_0073, Format::Bare, Op::Ecall, Class::System),
    row("ebreak", WHOLE, 0x0010_0073, Format::Bare, Op::Ebreak, Class::System),
    row("mret", WHOLE, 0x3020_0073, Format::Bare, Op::Mret, Class::System),
    row("wfi", WHOLE, 0x1050_0073, Format::Bare, Op::Wfi, Class::System),
    row("csrrw", FUNCT3, 0x1073, Format::Csr, Op::Csrrw, Class::Csr),
    row("csrrs", FUNCT3, 0x2073, Format::Csr, Op::Csrrs, Class::Csr),
    row("csrrc", FUNCT3, 0x3073, Format::Csr, Op::Csrrc, Class::Csr),
    row("csrrwi", FUNCT3, 0x5073, Format::CsrImmediate, Op::Csrrwi, Class::Csr),
    row("csrrsi", FUNCT3, 0x6073, Format::CsrImmediate, Op::Csrrsi, Class::Csr),
    row("csrrci", FUNCT3, 0x7073, Format::CsrImmediate, Op::Csrrci, Class::Csr),
];
