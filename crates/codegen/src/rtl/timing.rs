//! How long operators take in the logic of an UltraScale+ device, in picoseconds, wires included.
//!
//! Modelled, not measured: a level of six-input LUTs with its wire is taken as 400 ps, a carry
//! chain as 600 ps and 8 ps a bit, and a multiplication of 32 bits in DSP blocks without registers
//! as 3 ns. What shares a clock cycle is chosen with them; yosys' logic depth shows how well they
//! fit.

use nicforge_ir::{BinOp, CmpOp};

/// What operators may take between two registers at 250 MHz: 4 ns less clock-to-output, setup and
/// skew.
pub const BUDGET: u32 = 3600;

const LEVEL: u32 = 400;

/// Levels of LUTs that join `inputs` signals into one.
fn levels(inputs: u32) -> u32 {
    let (mut reach, mut count) = (1, 0);
    while reach < inputs {
        reach *= 6;
        count += 1;
    }
    count
}

/// A tree of LUTs over so many signals.
pub fn tree(inputs: u32) -> u32 {
    LEVEL * levels(inputs)
}

/// A number of whichever of many ways was taken, its bits joined: yosys takes a level more than a
/// tree of so many would (4 for 48 ways, dns_cache).
pub fn gathered(inputs: u32) -> u32 {
    tree(inputs) + if inputs > 36 { LEVEL } else { 0 }
}

/// An adder of so many bits.
pub fn carry(bits: u32) -> u32 {
    600 + 8 * bits
}

/// A two-operand operator; `constant` says that the second operand is.
pub fn bin(op: BinOp, bits: u32, constant: bool) -> u32 {
    match op {
        BinOp::Add | BinOp::Sub => carry(bits),
        BinOp::Mul if bits <= 16 => 2000,
        BinOp::Mul => 3000,
        BinOp::And | BinOp::Or | BinOp::Xor if constant => 0,
        BinOp::And | BinOp::Or | BinOp::Xor => LEVEL,
        BinOp::Shl | BinOp::Shr if constant => 0,
        BinOp::Shl | BinOp::Shr => mux(bits),
        BinOp::Div | BinOp::Rem => 0,
    }
}

/// A comparison.
pub fn cmp(op: CmpOp, bits: u32) -> u32 {
    match op {
        CmpOp::Eq | CmpOp::Ne => tree(2 * bits),
        // A LUT of the chain compares two bits.
        _ => carry(bits.div_ceil(2)),
    }
}

/// One of so many signals, by a number.
pub fn mux(inputs: u32) -> u32 {
    // A LUT chooses one of four.
    let (mut reach, mut count) = (1, 0);
    while reach < inputs {
        reach *= 4;
        count += 1;
    }
    LEVEL * count
}

/// One of two by a condition.
pub const CHOOSE: u32 = LEVEL;

/// The sum of so many words of 16 bits, carries kept.
pub fn word_sum(words: u32) -> u32 {
    // Three become two in a level of LUTs, as yosys does it, and the last two are added.
    let (mut left, mut count) = (words + 1, 0);
    while left > 2 {
        left -= left / 3;
        count += 1;
    }
    count * LEVEL + carry(20)
}
