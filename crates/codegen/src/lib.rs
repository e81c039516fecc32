//! Generated code: one C emitter with a dialect per target. It decides nothing about placement.

pub mod artifact;

pub use artifact::*;
