//! sPIN handlers: C becomes images for RISC-V handler units. Planned programs become such images, too, or those of cores behind a
//! scheduler, and run on simulated machines.

mod build;
mod image;
mod nic;
mod panic;
mod program;
mod steer;
mod table;
mod tables;
mod verify;

pub use build::{Api, BuildError, Built, ImageOptions, build};
pub use program::{CoresError, CoresProgram, CoresRun, LONGEST, takes};
pub use verify::roomy_capacities;
