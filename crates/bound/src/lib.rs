//! Worst-case throughput.
pub mod analysis;
pub mod check;
pub mod clauses;
pub mod ebpf;
pub mod enumerate;
pub mod graph;
mod liveness;
mod loops;
pub mod nfp;
pub mod replay;
pub mod resolve;
pub mod sat;
pub mod search;
pub mod solver;
pub mod term;
pub mod timing;
pub mod unroll;
pub mod witness;
