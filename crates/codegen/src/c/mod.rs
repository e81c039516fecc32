//! The C emitter: one for all targets. What differs between targets is a [`Dialect`].

pub mod body;
mod control;
pub mod expr;
pub mod globals;
pub mod liveness;
pub mod names;
pub mod runs;
pub mod types;
pub mod unchanged;
pub mod vars;

pub use body::{Dialect, Emitter, LineStyle};
