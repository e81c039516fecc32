//! sPIN handlers: C becomes images for RISC-V handler units, which run on the NIC of `nicforge-spin`.

mod build;
pub mod live;
mod serve;
mod simulate;
mod traffic;

pub use build::{Api, BuildError, Built, ImageOptions, build};
pub use serve::{ServeError, serve};
pub use simulate::{Freed, HOST, Simulated, Simulation, handlers_of, simulate, throughput};
pub use traffic::{Load, Traffic, generate};
