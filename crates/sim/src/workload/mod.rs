//! What comes in: frames and when they come.

use nicforge_ir::EventId;

mod accept;
mod frames;
mod replay;
mod syntax;
mod synthetic;
mod ticking;

pub use accept::accepted;
pub use frames::{Templates, plain};
pub use replay::{Replay, Timed};
pub use syntax::{Arrivals, Rate, Sizes, Spec, fuzz, parse, parse_rate, parse_rates};
pub use synthetic::Synthetic;
pub use ticking::Ticking;

/// A frame that comes in, or a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    /// When its first bit may be on the wire, in picoseconds.
    pub at: u64,
    pub port: u32,
    /// Without CRC.
    pub bytes: u32,
    /// What handlers read as time, and where their random stream starts.
    pub time_ns: u64,
    pub seed: u64,
    /// The timer whose tick it is; then there is no frame.
    pub timer: Option<EventId>,
}

/// A stream of frames in order of time.
pub trait Workload {
    /// The next frame, or the end.
    fn next(&mut self) -> Option<Arrival>;
    /// The bytes of the frame that `next` gave last.
    fn frame(&self) -> &[u8];
}
