//! What NICs are made of, as data: units, memories, links, costs, ports, power, and the events they
//! offer.
//!
//! A target is a TOML file ([`spec`] says what may be in it, [`load`] reads it). [`cost`] prices
//! programs with its numbers; [`area`] what they take of programmable logic; [`support`] says which
//! constructs of a program it lacks. Adding a NIC that fits an existing code generator is writing
//! such a file.
//!
//! Architecture invariant: no code here knows a particular target by name.

pub mod accelerate;
pub mod area;
pub mod bpf;
pub mod cost;
pub mod load;
pub mod quantity;
pub mod spec;
pub mod spin;
pub mod support;

pub use bpf::Bpf;
pub use cost::Traffic;
pub use load::{SpecError, find, names, parse, source};
pub use spec::*;
pub use spin::{Headers, PacketMemory, Spin};
