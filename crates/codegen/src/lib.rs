//! Generated code: one C emitter with a dialect per target. It decides nothing about placement.

pub mod abi;
pub mod artifact;
pub mod attach;
pub mod c;
pub mod dpdk;
pub mod host;
pub mod inplace;
pub mod nfp;
pub mod pipeline;
pub mod rtl;
pub mod spin;
pub mod xdp;

pub use artifact::*;
pub use c::LineStyle;
pub use c::body::Unsupported;
