//! Parts of a sPIN NIC: which packets go to handlers ([`matching`], [`headers`]), where they lie meanwhile ([`memory`]), and which handler
//! starts when and where ([`messages`]).
//!
//! Architecture invariant: nothing here knows αIR, files or the operating system.

mod fuzz;
pub mod headers;
pub mod matching;
pub mod memory;
pub mod messages;

pub use fuzz::fuzz;
