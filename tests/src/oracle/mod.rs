//! An oracle that is not ours: a user's C program, compiled by clang for this machine with a small
//! shim (`tests/oracle/nf_oracle.h`), run on events. It shares the types of events and entries with
//! the interpreter, and nothing else: no front end, no αIR, no layout.

mod build;
mod calls;
mod compare;
pub mod faults;
mod machine;
mod packet;
mod padding;
mod statics;
mod tables;

pub use build::{Source, build, first_match};
pub use compare::{difference, difference_with, said};
pub use machine::{Oracle, Said};
