//! Instructions of an NFP flow-processing core as XDP offload uses them.
//!
//! Values are 32 bits. There are two banks of general registers, transfer registers (separate files
//! for reading and writing under one name), and words of local memory behind four pointer
//! registers.

/// Where an operand comes from or a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// `--`: no operand, or a result nobody wants.
    None,
    /// `gprA_n`.
    A(u8),
    /// `gprB_n`.
    B(u8),
    /// `$xfer_n`: the read file as a source, the write file as a destination.
    Xfer(u8),
    /// `*l$indexK[word]`.
    Local { index: u8, word: u8 },
    /// `*l$indexK++`: the word behind a pointer, which then moves on by one.
    LocalNext { index: u8 },
    /// An immediate.
    Imm(u32),
}

/// Operations of the shifter on the second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shift {
    None,
    Left(u8),
    Right(u8),
    Rotate(u8),
    /// By the low five bits of the A operand of the instruction before.
    LeftIndirect,
    RightIndirect,
}

/// Arithmetic and logic. `B` moves, `Reverse` is B-A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AluOp {
    B,
    NotB,
    And,
    NotAnd,
    AndNot,
    Or,
    Xor,
    Add,
    AddCarry,
    Sub,
    SubCarry,
    Reverse,
    Add8,
    Add16,
}

impl AluOp {
    /// True if it sets carry and overflow by its operands; the others clear them.
    pub fn is_arithmetic(self) -> bool {
        use AluOp::*;
        matches!(self, Add | AddCarry | Sub | SubCarry | Reverse | Add8 | Add16)
    }
}

/// Operators as listings spell them.
pub const ALU_OPS: [(AluOp, &str); 14] = [
    (AluOp::B, "B"),
    (AluOp::NotB, "~B"),
    (AluOp::And, "AND"),
    (AluOp::NotAnd, "~AND"),
    (AluOp::AndNot, "AND~"),
    (AluOp::Or, "OR"),
    (AluOp::Xor, "XOR"),
    (AluOp::Add, "+"),
    (AluOp::AddCarry, "+carry"),
    (AluOp::Sub, "-"),
    (AluOp::SubCarry, "-carry"),
    (AluOp::Reverse, "B-A"),
    (AluOp::Add8, "+8"),
    (AluOp::Add16, "+16"),
];

/// When a branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cond {
    Always,
    Eq,
    Ne,
    CarryClear,
    CarrySet,
    Lt,
    Ge,
    Gt,
    Le,
    Minus,
    Plus,
    OverflowClear,
    OverflowSet,
}

/// Branches as listings spell them.
pub const BRANCHES: [(Cond, &str); 13] = [
    (Cond::Always, "br"),
    (Cond::Eq, "beq"),
    (Cond::Ne, "bne"),
    (Cond::CarryClear, "bcc"),
    (Cond::CarrySet, "bcs"),
    (Cond::Lt, "blt"),
    (Cond::Ge, "bge"),
    (Cond::Gt, "bgt"),
    (Cond::Le, "ble"),
    (Cond::Minus, "bmi"),
    (Cond::Plus, "bpl"),
    (Cond::OverflowClear, "bvc"),
    (Cond::OverflowSet, "bvs"),
];

/// Steps of a multiplication; they come in this order, on the same operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MulStep {
    Start,
    /// `16x16_stepN`, N = 1, 2.
    Narrow(u8),
    /// `16x16_last`: the product.
    NarrowLast,
    /// `32x32_stepN`, N = 1 to 4.
    Wide(u8),
    /// `32x32_last`: the product's low word.
    WideLast,
    /// `32x32_last2`: its high word.
    WideHigh,
}

/// Steps as listings spell them.
pub const MUL_STEPS: [(MulStep, &str); 10] = [
    (MulStep::Start, "start"),
    (MulStep::Narrow(1), "16x16_step1"),
    (MulStep::Narrow(2), "16x16_step2"),
    (MulStep::NarrowLast, "16x16_last"),
    (MulStep::Wide(1), "32x32_step1"),
    (MulStep::Wide(2), "32x32_step2"),
    (MulStep::Wide(3), "32x32_step3"),
    (MulStep::Wide(4), "32x32_step4"),
    (MulStep::WideLast, "32x32_last"),
    (MulStep::WideHigh, "32x32_last2"),
];

/// Memory commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemOp {
    Read32,
    Write8,
    Write32,
    /// Atomic addition of the 16 bits the instruction before left.
    AddImm,
    /// Atomic addition of a transfer register, or of two if the count is 5.
    Add,
}

/// Commands as listings spell them.
pub const MEM_OPS: [(MemOp, &str); 5] = [
    (MemOp::Read32, "read32_swap"),
    (MemOp::Write8, "write8_swap"),
    (MemOp::Write32, "write32_swap"),
    (MemOp::AddImm, "add_imm"),
    (MemOp::Add, "add"),
];

/// Where a branch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Index of an instruction of the listing.
    Insn(u32),
    /// A label outside the listing: the packet is done.
    Exit,
    /// Firmware's code for a BPF helper, by its number; it comes back to the address in `gprB_0`.
    Helper(u32),
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Alu {
        dst: Operand,
        a: Operand,
        op: AluOp,
        b: Operand,
    },
    AluShf {
        dst: Operand,
        a: Operand,
        op: AluOp,
        b: Operand,
        shift: Shift,
    },
    Asr {
        dst: Operand,
        src: Operand,
        shift: Shift,
    },
    DblShf {
        dst: Operand,
        high: Operand,
        low: Operand,
        shift: Shift,
    },
    /// 16 bits, perhaps extended with ones, rotated left by 0, 8 or 16.
    Immed {
        dst: Operand,
        value: u32,
        shift: u8,
    },
    ImmedW1 {
        dst: Operand,
        value: u32,
    },
    /// Bytes of `src` where `mask` (bit 3: most significant) is set; the others stay, or are
    /// cleared.
    LdField {
        dst: Operand,
        mask: u8,
        src: Operand,
        shift: Shift,
        clear: bool,
    },
    Mul {
        a: Operand,
        b: Operand,
        step: MulStep,
    },
    /// Sets the pointer of `*l$indexK`; in force three cycles later.
    CsrWrite {
        index: u8,
        src: Operand,
    },
    Mem {
        op: MemOp,
        xfer: u8,
        base: Operand,
        far: bool,
        offset: Operand,
        count: u8,
        indirect: bool,
        swap: bool,
        /// Instructions behind it that are executed before it takes effect.
        defer: u8,
    },
    /// The next `defer` instructions are executed before control goes on.
    Branch {
        cond: Cond,
        target: Target,
        defer: u8,
    },
    /// `br_bset`: taken if a bit is set.
    BranchBit {
        src: Operand,
        bit: u8,
        target: Target,
    },
    Nop,
}

impl Op {
    /// True if its operand and result stay behind for indirect shifts and for `asr`.
    pub fn is_logical(&self) -> bool {
        match self {
            Op::Alu { op, .. } => !op.is_arithmetic(),
            Op::AluShf { .. } => true,
            _ => false,
        }
    }
}

/// An instruction and whether its result goes to both register banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Insn {
    pub op: Op,
    pub both: bool,
}

impl Insn {
    /// An instruction that writes one bank.
    pub fn one(op: Op) -> Insn {
        Insn { op, both: false }
    }

    /// An instruction that writes both banks.
    pub fn both(op: Op) -> Insn {
        Insn { op, both: true }
    }
}

/// The value an `immed` loads.
pub fn immediate(value: u32, shift: u8) -> u32 {
    // Listings print the 16 bits extended with zeroes or ones: the rotation moves the extension
    // along.
    value.rotate_left(shift.into())
}
