//! Words of the NFP's instruction memory, as the translator of Linux leaves them before it
//! relocates them: what a branch leads to stands in the uppermost byte.

use nicforge_isa::nfp::{AluOp, Cond, Insn, MemOp, MulStep, Op, Operand, Shift, Target};

/// A word's bits from `low` on.
fn bits(word: u64, low: u32, count: u32) -> u64 {
    word >> low & ((1 << count) - 1)
}

/// Where registers 0 to 31 are.
type Bank = fn(u8) -> Operand;

pub fn decode(word: u64) -> Option<Insn> {
    let both = bits(word, 41, 1) != 0;
    let op = match (bits(word, 39, 1), bits(word, 37, 3), bits(word, 35, 5)) {
        (0, ..) => return command(word).map(Insn::one),
        (_, 0b100, _) => shift_op(word)?,
        (_, 0b101, _) => alu(word)?,
        (.., 0b11000) => field(word)?,
        (.., 0b11011) => return branch(word).map(Insn::one),
        (.., 0b11010) => return branch_bit(word).map(Insn::one),
        (.., 0b11110) => immediate(word)?,
        (.., 0b11111) if bits(word, 34, 1) != 0 => csr(word)?,
        (.., 0b11111) => multiply(word)?,
        _ => return None,
    };
    Some(Insn { op, both })
}

/// Ten bits that name an operand.
fn wide(value: u64, bank: Bank, extended: bool) -> Option<Operand> {
    Some(match value {
        0..=0x1f => bank(value as u8),
        0x180..=0x19f => Operand::Xfer(value as u8 & 0x1f),
        0x200..=0x23f => {
            let index = bits(value, 5, 1) as u8 + if extended { 2 } else { 0 };
            match value & 0x1f {
                0x10 => Operand::LocalNext { index },
                word @ 0..=0xf => Operand::Local { index, word: word as u8 },
                _ => return None,
            }
        }
        0x300..=0x3ff => Operand::Imm(value as u32 & 0xff),
        _ => return None,
    })
}

/// Eight bits that name an operand.
fn narrow(value: u64, bank: Bank, eighth: bool, extended: bool) -> Option<Operand> {
    Some(match value {
        _ if value & 0x20 != 0 => {
            let low = value & 0x1f | value >> 1 & 0x60;
            Operand::Imm(low as u32 | u32::from(eighth) << 7)
        }
        0..=0x1f => bank(value as u8),
        0x50..=0x5f => Operand::Local {
            index: bits(value, 3, 1) as u8 + if extended { 2 } else { 0 },
            word: value as u8 & 7,
        },
        0x80..=0x9f => Operand::Xfer(value as u8 & 0x1f),
        _ => return None,
    })
}

fn destination(operand: Operand) -> Operand {
    if matches!(operand, Operand::Imm(_)) { Operand::None } else { operand }
}

fn ordered(swap: u64, a: Operand, b: Operand) -> (Operand, Operand) {
    if swap != 0 { (b, a) } else { (a, b) }
}

fn bank(which: u64) -> Bank {
    if which == 0 { Operand::A } else { Operand::B }
}

fn alu(word: u64) -> Option<Op> {
    let extended = bits(word, 42, 1) != 0;
    let op = match bits(word, 31, 5) {
        0x00 => AluOp::B,
        0x01 => AluOp::Add,
        0x04 => AluOp::NotB,
        0x05 => AluOp::Add16,
        0x08 => AluOp::And,
        0x0c => AluOp::NotAnd,
        0x0d => AluOp::SubCarry,
        0x10 => AluOp::AndNot,
        0x11 => AluOp::AddCarry,
        0x14 => AluOp::Or,
        0x15 => AluOp::Sub,
        0x18 => AluOp::Xor,
        _ => return None,
    };
    let (a, b) = (bits(word, 0, 10), bits(word, 10, 10));
    let (a, b) = (wide(a, Operand::A, extended)?, wide(b, Operand::B, extended)?);
    let (a, b) = ordered(bits(word, 30, 1), a, b);
    let a = if matches!(op, AluOp::B | AluOp::NotB) { Operand::None } else { a };
    let to = wide(bits(word, 20, 10), bank(bits(word, 36, 1)), bits(word, 43, 1) != 0)?;
    Some(Op::Alu { dst: destination(to), a, op, b })
}

fn shift_op(word: u64) -> Option<Op> {
    let (eighth, extended) = (bits(word, 18, 1) != 0, bits(word, 42, 1) != 0);
    let a = narrow(bits(word, 0, 8), Operand::A, eighth, extended)?;
    let b = narrow(bits(word, 10, 8), Operand::B, eighth, extended)?;
    let (a, b) = ordered(bits(word, 19, 1), a, b);
    let to = narrow(bits(word, 20, 8), bank(bits(word, 36, 1)), false, bits(word, 43, 1) != 0)?;
    let dst = destination(to);
    let by = bits(word, 28, 5) as u8;
    let right = if by == 0 { Shift::RightIndirect } else { Shift::Right(by) };
    let shift = match bits(word, 8, 2) {
        0 if by == 0 => Shift::None,
        0 => Shift::Rotate(by),
        2 if by == 0 => Shift::LeftIndirect,
        2 => Shift::Left(32 - by),
        _ => right,
    };
    let double = bits(word, 8, 2) == 3;
    Some(match bits(word, 33, 3) {
        0 if double => Op::DblShf { dst, high: a, low: b, shift },
        0 => Op::AluShf { dst, a: Operand::None, op: AluOp::B, b, shift },
        2 => Op::AluShf { dst, a, op: AluOp::And, b, shift },
        5 => Op::AluShf { dst, a, op: AluOp::Or, b, shift },
        6 => Op::Asr { dst, src: b, shift },
        _ => return None,
    })
}

fn field(word: u64) -> Option<Op> {
    let (eighth, extended) = (bits(word, 18, 1) != 0, bits(word, 42, 1) != 0);
    let to_extended = bits(word, 43, 1) != 0 || extended;
    let a = narrow(bits(word, 0, 8), Operand::A, eighth, to_extended)?;
    let b = narrow(bits(word, 10, 8), Operand::B, eighth, to_extended)?;
    let (dst, src) = ordered(bits(word, 19, 1), a, b);
    let by = bits(word, 28, 5) as u8;
    let shift = match bits(word, 8, 2) {
        0 if by == 0 => Shift::None,
        0 => Shift::Rotate(by),
        1 => Shift::Right(by),
        2 => Shift::Left(32 - by),
        _ => return None,
    };
    let mask = bits(word, 24, 4) as u8;
    Some(Op::LdField { dst, mask, src, shift, clear: bits(word, 20, 1) != 0 })
}

fn immediate(word: u64) -> Option<Op> {
    let extended = bits(word, 43, 1) != 0 || bits(word, 42, 1) != 0;
    let (a, b) = (bits(word, 0, 10), bits(word, 10, 10));
    let (a, b) = (wide(a, Operand::A, extended)?, wide(b, Operand::B, extended)?);
    let (dst, low) = match (a, b) {
        (to, Operand::Imm(low)) => (destination(to), low),
        (Operand::Imm(low), to) => (to, low),
        _ => return None,
    };
    let value = low | (bits(word, 20, 8) as u32) << 8;
    let value = if bits(word, 31, 1) != 0 { !value } else { value };
    let shift = 8 * bits(word, 33, 2) as u8;
    Some(match bits(word, 29, 2) {
        0 if dst == Operand::None && value == 0 && shift == 0 => Op::Nop,
        0 => Op::Immed { dst, value, shift },
        2 => Op::ImmedW1 { dst, value },
        _ => return None,
    })
}

fn multiply(word: u64) -> Option<Op> {
    let extended = bits(word, 42, 1) != 0;
    let step = match (bits(word, 31, 2), bits(word, 20, 3)) {
        (0, 0) => MulStep::Start,
        (2, n @ 0..=1) => MulStep::Narrow(n as u8 + 1),
        (2, 4) => MulStep::NarrowLast,
        (3, n @ 0..=3) => MulStep::Wide(n as u8 + 1),
        (3, 4) => MulStep::WideLast,
        (3, 5) => MulStep::WideHigh,
        _ => return None,
    };
    if matches!(step, MulStep::NarrowLast | MulStep::WideLast | MulStep::WideHigh) {
        let to = wide(bits(word, 0, 10), bank(bits(word, 23, 1)), extended)?;
        return Some(Op::Mul { a: destination(to), b: Operand::None, step });
    }
    let a = wide(bits(word, 0, 10), Operand::A, extended)?;
    let b = wide(bits(word, 10, 10), Operand::B, extended)?;
    let (a, b) = ordered(bits(word, 30, 1), a, b);
    Some(Op::Mul { a, b, step })
}

fn csr(word: u64) -> Option<Op> {
    let index = match 4 * bits(word, 22, 11) {
        0x64 => 0,
        0x6c => 1,
        0x94 => 2,
        0x9c => 3,
        _ => return None,
    };
    let a = wide(bits(word, 0, 10), Operand::A, false)?;
    let b = wide(bits(word, 10, 10), Operand::B, false)?;
    let src = if matches!(a, Operand::Imm(_)) { b } else { a };
    Some(Op::CsrWrite { index, src })
}

fn command(word: u64) -> Option<Op> {
    let op = match (bits(word, 18, 2), bits(word, 32, 7)) {
        (2, 0x5c) => MemOp::Read32,
        (2, 0x42) => MemOp::Write8,
        (2, 0x5f) => MemOp::Write32,
        (0, 0x47) => MemOp::Add,
        (2, 0x47) => MemOp::AddImm,
        _ => return None,
    };
    let a = narrow(bits(word, 0, 8), Operand::A, false, false)?;
    let b = narrow(bits(word, 10, 8), Operand::B, false, false)?;
    let far = match bits(word, 42, 3) {
        1 => true,
        4 => false,
        _ => return None,
    };
    let (base, offset) = if far { (b, a) } else { (a, b) };
    let wait = bits(word, 8, 2) as u8;
    Some(Op::Mem {
        op,
        xfer: bits(word, 20, 5) as u8,
        base,
        far,
        offset,
        count: bits(word, 25, 3) as u8 + 1,
        indirect: bits(word, 41, 1) != 0,
        swap: wait != 3,
        defer: if wait == 3 { 0 } else { wait },
    })
}

/// Where a branch goes.
fn target(word: u64) -> Option<Target> {
    let address = (bits(word, 22, 13) | bits(word, 40, 1) << 13) as u32;
    Some(match word >> 56 {
        1 => Target::Insn(address),
        2 | 6 => Target::Exit,
        7 => Target::Helper(address.checked_sub(nicforge_isa::nfp::EXIT_LABEL)?),
        _ => return None,
    })
}

fn branch(word: u64) -> Option<Op> {
    let cond = match bits(word, 0, 5) {
        0 => Cond::Eq,
        1 => Cond::Ne,
        2 => Cond::Minus,
        4 => Cond::CarrySet,
        5 => Cond::CarryClear,
        8 => Cond::Ge,
        9 => Cond::Lt,
        0x18 => Cond::Always,
        _ => return None,
    };
    Some(Op::Branch { cond, target: target(word)?, defer: bits(word, 20, 2) as u8 })
}

fn branch_bit(word: u64) -> Option<Op> {
    let a = narrow(bits(word, 0, 8), Operand::A, false, false)?;
    let b = narrow(bits(word, 10, 8), Operand::B, false, false)?;
    let Operand::Imm(bit) = b else { return None };
    (bits(word, 18, 1) == 1).then_some(())?;
    Some(Op::BranchBit { src: a, bit: bit as u8 - 1, target: target(word)? })
}
