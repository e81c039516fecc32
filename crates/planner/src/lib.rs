//! From a program and a target to a plan: cut into stages, replicate them, place their tables.
//!
//! [`cut`] divides a handler in two, [`shard`] says what may be replicated and how events find
//! their replica, [`mapping`] chooses replicas, unit groups and memories, [`search`] puts them
//! together, and [`assemble`] writes the answer down as a plan.
//!
//! Architecture invariant: the planner never reads source text and generates no code.

pub mod ability;
pub mod assemble;
pub mod context;
pub mod cut;
pub mod instance;
pub mod mapping;
pub mod names;
pub mod number;
pub mod origin;
pub mod profile;
pub mod search;
pub mod shard;
pub mod skew;
pub mod stages;
pub mod start;
pub mod steer;
pub mod tables;
pub mod toeplitz;
