//! The road from a program and a target to a result: read, checked, planned, bounded, simulated,
//! generated, compared. It prints nothing; the command and the Python package do.

pub mod backend;
pub mod bench;
pub mod beyond;
pub mod by_target;
pub mod codes;
pub mod color;
pub mod compare;
pub mod cost;
pub mod design;
pub mod diagnose;
pub mod events;
pub mod executed;
pub mod fit;
pub mod given_up;
pub mod guaranteed;
pub mod installed;
pub mod measure;
pub mod options;
pub mod pipelines;
pub mod planning;
pub mod program;
pub mod rates;
pub mod simulation;
pub mod stop;
pub mod support;
pub mod targets;
pub mod tried;
pub mod tune;
pub mod verify;

mod align;
mod failure;
mod runtime;

pub use failure::{Failure, INTERRUPTED};
pub use program::Loaded;
pub use runtime::Runtime;
