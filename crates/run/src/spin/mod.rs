//! sPIN handlers: C becomes images for RISC-V handler units.

mod build;

pub use build::{Api, BuildError, Built, ImageOptions, build};
