//! Parts of a sPIN NIC: which packets go to handlers ([`matching`]), and where they lie meanwhile ([`memory`]).
//!
//! Architecture invariant: nothing here knows αIR, files or the operating system.

pub mod matching;
pub mod memory;
