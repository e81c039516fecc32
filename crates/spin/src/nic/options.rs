//! What a NIC is given: options, contexts, frames; and why it may refuse.

use std::num::NonZeroU32;
use std::ops::Range;

use nicforge_isa::object::riscv::Image;

use super::engine::BootError;
use super::iss::SLICE;
use super::memories::ImageError;
use crate::matching::{Matched, RULESETS, Ruleset};

/// Faults of the hardware, all or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compat {
    /// Rules and ranges as programmed by the published library, shared queues, early draining, no
    /// shares between contexts, no watchdog, protection by pages and none of stacks, sub-word reads
    /// of task registers that give what was read before, tests of commands that say whether all are
    /// done, initialised data that is not loaded (where packets lie in slots), frames that wait
    /// where memory is full.
    pub bugs: bool,
}

/// Fates of frames for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Dropped and counted.
    Drop,
    /// They wait, and all behind them.
    Wait,
}

/// Limits of the memory that a handler may touch. Stacks are guarded either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryRules {
    /// Its own packet and the context's memories, to the byte, and the context's memory on the host.
    Strict,
    /// As PsPIN: pages of 4 KiB around them, and any address on the host.
    Pspin,
}

/// Options of running a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub compat: Compat,
    pub memory: MemoryRules,
    pub full: Full,
    /// Cycles after which a handler is stopped, for contexts that do not say; `None` never does.
    pub watchdog: Option<u64>,
    /// Cycles without a packet after which a message is given up; `None` waits until its queue is
    /// needed.
    pub end_timeout: Option<u64>,
    /// Cycles by which cores may be apart.
    pub slice: u64,
    /// Cycles an image has until all its cores wait for tasks.
    pub boot_cycles: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compat: Compat::default(),
            memory: MemoryRules::Strict,
            full: Full::Drop,
            watchdog: Some(4_000_000),
            end_timeout: None,
            slice: SLICE,
            boot_cycles: 10_000_000,
        }
    }
}

/// Handlers by the image's symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    pub header: Option<String>,
    pub payload: Option<String>,
    pub completion: Option<String>,
}

/// A piece of the host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRegion {
    pub address: u64,
    pub bytes: u32,
}

/// An execution context.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    pub image: &'a Image,
    pub handlers: Handlers,
    /// What frames it gets; `None` if frames come with their message ([`Arrival::matched`]).
    pub ruleset: Option<Ruleset>,
    /// Its handler memory, as addresses; absent: what the image leaves of the part shared with the
    /// host.
    pub handler_memory: Option<Range<u32>>,
    pub host: HostRegion,
    /// Bytes of every cluster's memory.
    pub scratchpad: u32,
    pub weight: NonZeroU32,
    /// Cycles after which a handler is stopped; absent: the NIC's.
    pub watchdog: Option<u64>,
    /// Payload handlers of one message run one at a time, in order of arrival.
    pub serial: bool,
    /// Runs in the memories of this context, which has the same image.
    pub shares: Option<usize>,
}

impl<'a> Context<'a> {
    /// A context with the image's memory, a scratchpad of 4 KiB and no host memory.
    pub fn new(image: &'a Image, handlers: Handlers) -> Context<'a> {
        Context {
            image,
            handlers,
            ruleset: None,
            handler_memory: None,
            host: HostRegion::default(),
            scratchpad: 4096,
            weight: NonZeroU32::MIN,
            watchdog: None,
            serial: false,
            shares: None,
        }
    }
}

/// A frame for the NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Cycle; not before what the NIC has run to.
    pub time: u64,
    pub frame: Vec<u8>,
    /// Whose it is, instead of what rules say.
    pub matched: Option<Matched>,
    /// How much of it is copied to where handlers run; absent: all.
    pub copied: Option<u32>,
    /// Comes back with what becomes of the frame.
    pub user: u64,
}

/// Why a context cannot be set up, or memory not be accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("the image does not start: {0}")]
    Boot(#[from] BootError),
    #[error("the image has no symbol `{0}`; name handlers as they are defined")]
    NoHandler(String),
    #[error("contexts are set up while nothing is under way; run the NIC until it is idle first")]
    Busy,
    #[error("there is no context {0}")]
    NoContext(usize),
    #[error(
        "rules select among {RULESETS} contexts; context {0} needs frames that come with their message"
    )]
    TooMany(usize),
    #[error(
        "scratchpads of {wanted} bytes, with those of other contexts; a cluster has room for {room}"
    )]
    Scratchpad { wanted: u32, room: u32 },
    #[error("{0}")]
    Datapath(String),
    #[error("{bytes} bytes at {address:#010x} are not in NIC memory")]
    Memory { address: u32, bytes: u32 },
}

/// Ends of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until this cycle.
    Cycle(u64),
    /// Until nothing is left to do. Does not end while a handler without a watchdog runs in
    /// circles.
    Idle,
}
