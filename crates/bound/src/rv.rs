//! Front end: RISC-V handlers of sPIN NICs, or plain functions, in RV32 ELF files.
//!
//! [`text`] finds the instructions that can be reached, [`front`] writes calls out and makes blocks
//! of them, [`ops`] says what an instruction does in the block language, [`memory`] what lies where
//! and what the command registers do. [`world`] runs a handler on `isa`'s core, which shares
//! nothing with the former; [`replay`] does so with a witness.
//!
//! What is known of memory: the stack, the packet (its copy in L1 and the one in L2) and read-only
//! data. What others may write is a new value each time. Taken for granted: calls return, accesses
//! do not fault unless they always do, instructions are in the cache, and no two cores want the
//! same bank at once. What was taken as unknown is listed with its place.

pub mod front;
pub mod memory;
mod ops;
pub mod replay;
pub mod text;
pub mod world;

pub use front::{Front, graph};
pub use memory::Surroundings;
pub use text::{Program, entry};

/// A program that cannot be analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct RvError {
    /// Function and offset, with the address.
    pub place: String,
    pub reason: String,
}
