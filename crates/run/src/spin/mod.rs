//! sPIN handlers: C becomes images for RISC-V handler units, which run on the NIC of `nicforge-spin`.

mod build;
mod lines;
pub mod live;
mod native;
mod serve;
mod simulate;
mod traffic;

pub use build::{Api, BuildError, Built, ImageOptions, build, build_native, join, native_of};
pub use lines::Lines;
pub use native::{Native, NativeError, NativeImage};
pub use serve::{ServeError, serve};
pub use simulate::{Freed, HOST, Simulated, Simulation, handlers_of, simulate, simulate_with, throughput};
pub use traffic::{Load, Traffic, generate};
