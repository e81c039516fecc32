//! eBPF: instruction encoding (RFC 9669) and an interpreter that counts what it executes.

mod insn;
mod machine;
mod memory;

pub use insn::{Insn, decode};
pub use machine::{Fault, Host, Machine, Run};
pub use memory::{Access, Memory, RegionId};
