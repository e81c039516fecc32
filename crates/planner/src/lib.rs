//! From a program and a target to a plan: cut into stages, replicate them, place their tables.
//!
//! Architecture invariant: the planner never reads source text and generates no code.

pub mod mapping;
pub mod origin;
pub mod shard;
