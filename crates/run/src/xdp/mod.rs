//! Programs in the kernel's XDP hook.
//!
//! [`Loaded`] is an object in the kernel: its tables ([`Tables`]), counters and global data, single
//! packets through the kernel's test run ([`Loaded::test_run`]), costs ([`bench`]) and attachment
//! to interfaces ([`attach`]).

pub mod attach;
pub mod bench;
mod cost;
mod count;
pub mod device;
mod error;
mod forms;
mod globals;
mod host_ring;
mod load;
mod loaded;
mod messages;
mod object;
mod original;
mod pinned;
mod process;
mod stages;
mod tables;
mod test_run;
mod verifier;

pub use attach::{Attached, MAX_PORTS, attach};
pub use cost::{RunCount, RunStats};
pub use count::StageCount;
pub use error::XdpError;
pub use forms::{Forms, compile_bpf};
pub(crate) use globals::{Globals, Place};
pub(crate) use host_ring::drain as drain_ring;
pub use load::LoadOptions;
pub use loaded::{Loaded, Refusal};
pub use messages::Message;
pub use object::refusal;
pub(crate) use object::{load as load_object, open as open_object};
pub use original::{Loader, Original, Ran};
pub(crate) use pinned::{open_pin, pin};
pub(crate) use stages::feeding_cpu;
pub use tables::Tables;
pub(crate) use test_run::run_once;
pub use test_run::{HEADROOM, LARGEST_TEST_FRAME, SMALLEST_FRAME};

/// C source of the small programs that measurements and test networks need; compiled when they are
/// used.
pub const HARNESS_SOURCE: &str = include_str!("../../../../runtime/xdp/harness.bpf.c");

/// C source of the small programs that tell what eBPF takes on a machine.
pub const MEASURE_SOURCE: &str = include_str!("../../../../runtime/xdp/measure.bpf.c");
