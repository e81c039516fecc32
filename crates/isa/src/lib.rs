//! Machine code of the targets: decoding and semantics.
//!
//! Architecture invariant: nothing here knows αIR, files or the operating system. What a program
//! calls (helpers, maps) is handed in by whoever runs it.

pub mod ebpf;
pub mod lower;
pub mod nfp;
pub mod object;
pub mod rv32;
