//! RV32IMAC: decoding by tables, meaning, cost.
//!
//! [`Decoder`] turns words into [`Insn`]s, [`Code`] prepares a region of them, a [`Hart`] runs it
//! on a [`Bus`]. Floating point, interrupts and supervisor mode are left out: the cores of sPIN
//! clusters have none that handlers use.

pub mod bus;
mod code;
pub mod compressed;
pub mod csr;
mod decode;
pub mod encode;
pub mod fuzz;
mod hart;
pub mod insn;
mod print;
mod run;
pub mod runner;
mod table;
#[cfg(test)]
mod tests;
mod timing;

pub use bus::{Access, Amo, Bus, FlatMemory, Refusal, Reply};
pub use code::Code;
pub use decode::{Decoder, word_at};
pub use hart::{Cause, Hart, Trap};
pub use insn::{Class, Format, Insn, Op, Row};
pub use print::print;
pub use run::Stop;
pub use table::RV32IMA;
pub use timing::Timing;

/// Names of the general registers in the calling convention.
pub const REGISTERS: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];
