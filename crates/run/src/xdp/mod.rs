//! Programs in the kernel's XDP hook.
//!
//! [`Loaded`] is an object in the kernel: its tables ([`Tables`]), counters and global data, single
//! packets through the kernel's test run ([`Loaded::test_run`]), costs ([`bench`]) and attachment
//! to interfaces ([`attach`]).

pub mod attach;
pub mod bench;
mod cost;
pub mod device;
mod error;
mod globals;
mod host_ring;
mod load;
mod messages;
mod original;
mod process;
mod stages;
mod tables;
mod test_run;
mod verifier;

pub use attach::{Attached, attach};
pub use cost::{RunCount, RunStats};
pub use error::XdpError;
pub(crate) use globals::Globals;
pub use load::{LoadOptions, Loaded, MAX_PORTS, Refusal, refusal};
pub(crate) use load::{load as load_object, open as open_object, takes};
pub use messages::Message;
pub use original::{Loader, Original, Ran};
pub use stages::StageCount;
pub(crate) use stages::feeding_cpu;
pub use tables::Tables;
pub(crate) use test_run::run_once;
pub use test_run::{HEADROOM, LARGEST_TEST_FRAME, SMALLEST_FRAME};

/// C source of the small programs that measurements and test networks need; compiled when they are
/// used.
pub const HARNESS_SOURCE: &str = include_str!("../../../../runtime/xdp/harness.bpf.c");
