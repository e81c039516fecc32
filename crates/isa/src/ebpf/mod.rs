//! eBPF: instruction encoding (RFC 9669) and an interpreter that counts what it executes.

pub mod context;
pub mod generate;
pub mod insn;
mod machine;
mod memory;
mod pipeline;
mod predictor;
mod tally;
pub mod world;

pub use insn::{Insn, LDDW, decode};
pub use machine::{Fault, Host, LOOP, MOST_TRIPS, Machine, Run};
pub use memory::{Access, Memory, RegionId};
pub use pipeline::{Pipeline, Processor};
pub use tally::{Item, Tally};

mod helpers;
pub mod kinds;
mod upper;

pub use helpers::helper_name;
pub use upper::upper_read;
