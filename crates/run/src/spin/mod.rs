//! sPIN handlers: C becomes images for RISC-V handler units, which run on the NIC of
//! `nicforge-spin`. Planned programs become such images, too, or those of cores behind a scheduler.

pub mod agree;
pub(crate) mod build;
mod cores;
pub mod datapath;
mod gdb;
mod image;
mod lines;
pub mod live;
mod native;
mod nic;
mod panic;
mod program;
mod said;
mod serve;
mod simulate;
mod steer;
mod table;
mod tables;
mod traffic;
mod verify;

pub use build::{
    Api, BuildError, Built, ImageOptions, Layout, NoLayout, build, build_native, check, join,
    native_of,
};
pub use cores::{CoresError, CoresRun, LONGEST, Stay, takes};
pub use gdb::{Gdb, Session};
pub use lines::Lines;
pub use native::{Native, NativeError, NativeImage};
pub use program::CoresProgram;
pub use said::{Place, Said};
pub use serve::{ServeError, serve};
pub use simulate::{
    Freed, HOST, HostProgram, Simulated, Simulation, handlers_of, simulate, simulate_on,
    simulate_with, throughput,
};
pub use traffic::{Load, TraceError, Traffic, generate, read_trace};
