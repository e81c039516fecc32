//! The NFP flow-processing core: instructions, listings, costs, and an interpreter.
//!
//! What is modelled is what XDP offload on an Agilio CX uses, as published with "Determination of
//! Throughput Guarantees for Processor-based SmartNICs" (CoNEXT'21).

pub mod cost;
mod insn;
mod machine;
mod parse;
mod print;

pub use insn::*;
pub use machine::{
    CONTEXT_BASE, CSR_DELAY, DRAM_BASE, DramRead, Entry, LOCAL_BYTES, Machine, NfpFault,
    PACKET_BASE, Run, STACK_BASE, field_mask,
};
pub use parse::{Listing, ListingError, MAX_INSNS, looks_like_listing, parse};
pub use print::{EXIT_LABEL, print, text};
