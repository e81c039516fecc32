//! Transformations of αIR.
//!
//! A [`Pass`] changes a program without changing what it means: for the same events and initial
//! tables the interpreter gives the same outputs and final tables. Passes are plain functions of a
//! program; what they are called and in which order they run by default is in [`registry`]. The
//! [`PassManager`] runs them, verifies what each one leaves, and can show programs and times in
//! between.
//!
//! Architecture invariant: a pass knows no target and reads no source text.

pub mod registry;

mod cse;
mod dce;
mod event_params;
mod fold;
pub mod fuse;
mod inline;
mod live_members;
mod manager;
mod merge_checksums;
mod regex_loops;
pub mod rewrite;
mod simplify_control;
mod sink;
mod split_paths;
mod split_structs;
mod thread_branches;
mod unroll;

pub use manager::{PassError, PassManager, PassTime};

use nicforge_ir::Program;

/// One transformation.
pub trait Pass {
    /// Its kebab-case name on command lines.
    fn name(&self) -> &'static str;
    /// One line on what it does.
    fn description(&self) -> &'static str;
    /// Transforms a verified program into a verified program; whether it changed anything.
    fn run(&self, program: &mut Program) -> bool;
}
