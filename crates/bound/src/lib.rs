//! Worst-case throughput: how slow can one packet make a program?
//!
//! A front end ([`nfp`], [`ebpf`], [`rv`], [`air`]) compiles a program to the block language
//! ([`graph`]). [`unroll`] turns that into a graph without loops whose values are terms ([`term`])
//! and whose joins are phis; [`timing`] puts exact costs on its edges; [`search`] finds the slowest
//! path that some packet takes, with what [`check`] learns about impossible combinations of edges
//! ([`clauses`]). [`analysis`] is the whole of it, with a [`witness`] that [`replay`] runs.
//!
//! Architecture invariant: nothing here knows files, clang or the kernel, and no front end knows
//! how paths are searched. Architecture invariant: a claim about a path is checked by running its
//! witness on an interpreter that shares no code with the symbolic front end.

pub mod air;
pub mod analysis;
mod cells;
pub mod check;
mod circuits;
pub mod clauses;
pub mod ebpf;
pub mod enumerate;
pub mod equal;
pub mod fuzz;
pub mod graph;
mod hash;
mod liveness;
mod loops;
pub mod method;
pub mod naive;
pub mod nfp;
pub mod plan;
pub mod replay;
pub mod resolve;
pub mod rv;
pub mod sat;
pub mod search;
pub mod shared;
pub mod solver;
pub mod term;
pub mod timing;
pub mod unit;
pub mod unroll;
mod values;
pub mod witness;
