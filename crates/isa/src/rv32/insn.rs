//! What an RV32 instruction is once decoded, and the shape of the rows that describe instructions.

/// What an instruction does. The core's match over these is the definition of their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    Lui,
    Auipc,
    Jal,
    Jalr,
    Beq,
    Bne,
    Blt,
    Bge,
    Bltu,
    Bgeu,
    Lb,
    Lh,
    Lw,
    Lbu,
    Lhu,
    Sb,
    Sh,
    Sw,
    Addi,
    Slti,
    Sltiu,
    Xori,
    Ori,
    Andi,
    Slli,
    Srli,
    Srai,
    Add,
    Sub,
    Sll,
    Slt,
    Sltu,
    Xor,
    Srl,
    Sra,
    Or,
    And,
    Mul,
    Mulh,
    Mulhsu,
    Mulhu,
    Div,
    Divu,
    Rem,
    Remu,
    LrW,
    ScW,
    AmoSwap,
    AmoAdd,
    AmoXor,
    AmoAnd,
    AmoOr,
    AmoMin,
    AmoMax,
    AmoMinu,
    AmoMaxu,
    Fence,
    FenceI,
    Ecall,
    Ebreak,
    Mret,
    Wfi,
    Csrrw,
    Csrrs,
    Csrrc,
    Csrrwi,
    Csrrsi,
    Csrrci,
    /// The row's own function of registers: how extensions add arithmetic without a change to the
    /// core.
    Pure,
    /// Bits that no row describes.
    Illegal,
}

/// Where operands stand in the word, and how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `rd,rs1,rs2`
    Register,
    /// `rd,rs1`: one operand, as many extensions have.
    Unary,
    /// `rd,rs1,imm`
    Immediate,
    /// `rd,rs1,shamt` with five bits.
    Shift,
    /// `rd,imm(rs1)`
    Load,
    /// `rs2,imm(rs1)`
    Store,
    /// `rs1,rs2,target`
    Branch,
    /// `rd,imm` in the upper twenty bits.
    Upper,
    /// `rd,target`
    Jump,
    /// `rd,csr,rs1`
    Csr,
    /// `rd,csr,imm` with five bits.
    CsrImmediate,
    /// `rd,rs2,(rs1)`
    Atomic,
    /// `rd,(rs1)`
    Reserve,
    /// Predecessors and successors.
    Fence,
    /// No operands.
    Bare,
}

/// Classes of instructions by cost (see [`super::Timing`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Alu,
    Load,
    Store,
    Branch,
    Jump,
    /// Low half of a product.
    Multiply,
    /// High half of a product.
    MultiplyHigh,
    Divide,
    Atomic,
    Csr,
    System,
}

/// Result of a [`Op::Pure`] row from the first source, the second source (a register or the
/// immediate, as the format says) and what the destination holds.
pub type Pure = fn(u32, u32, u32) -> u32;

/// One instruction of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As objdump writes it.
    pub name: &'static str,
    /// A word is this instruction if its bits under `mask` are `value`.
    pub mask: u32,
    pub value: u32,
    pub format: Format,
    pub op: Op,
    pub class: Class,
    /// Meaning of rows with [`Op::Pure`].
    pub pure: Option<Pure>,
}

/// A decoded instruction. Compressed ones are what they expand to, with `len` 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    pub op: Op,
    /// Row of the decoder's table.
    pub row: u16,
    pub rd: u8,
    /// Source register, or the five-bit immediate of CSR instructions that have one.
    pub rs1: u8,
    pub rs2: u8,
    /// Immediate, sign extended; CSR number; shift amount; the bits `aq` (2) and `rl` (1) of
    /// atomics; the sets of a fence.
    pub imm: i32,
    /// Bytes.
    pub len: u8,
}

impl Format {
    /// True if instructions read the register in the first and in the second source field.
    pub fn reads(self) -> (bool, bool) {
        match self {
            Format::Register | Format::Store | Format::Branch | Format::Atomic => (true, true),
            Format::Unary
            | Format::Immediate
            | Format::Shift
            | Format::Load
            | Format::Csr
            | Format::Reserve => (true, false),
            Format::Upper | Format::Jump | Format::CsrImmediate | Format::Fence | Format::Bare => {
                (false, false)
            }
        }
    }

    /// True if instructions write the destination register.
    pub fn writes(self) -> bool {
        !matches!(self, Format::Store | Format::Branch | Format::Fence | Format::Bare)
    }
}
