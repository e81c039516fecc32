//! What the message scheduler is built with: its contexts, its sizes, and which of the hardware's
//! faults it has.

use std::num::NonZeroU32;

/// State of an execution context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its share of handler time is this by the sum of all weights.
    pub weight: NonZeroU32,
    /// Has a header handler.
    pub header: bool,
    /// Has a completion handler.
    pub completion: bool,
    /// Payload handlers of one message run one at a time, in order of arrival. Hardware has no such
    /// switch.
    pub serial: bool,
}

/// Faults of the hardware that can be had on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A queue is chosen by the low bits of the message's number alone; whoever comes while it is
    /// in use joins that message and runs under its context. Else messages of different contexts or
    /// numbers never meet.
    pub shared_queues: bool,
    /// A message closes when its end is known and one packet is left, which gets the completion
    /// handler, be it the last or not. What comes after that waits, and starts only when yet
    /// another packet comes. Else the message is open until its handlers have ended, completion
    /// runs on the packet that is marked, and what comes later starts a new message.
    pub drains_early: bool,
    /// All queues in turn, whoever they belong to. Else contexts share by weight.
    pub no_shares: bool,
}

/// Sizes of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// By number of the context.
    pub contexts: Vec<Context>,
    /// At least 1.
    pub queues: usize,
    /// Packets that wait; every queue has room for one besides.
    pub cells: usize,
    /// At least 1.
    pub clusters: usize,
    /// Tasks in the home cluster from which on others are asked.
    pub home_limit: u32,
    /// Cycles without a packet after which an unfinished message has to give its queue to another.
    pub patience: u64,
    pub faults: Faults,
}

impl Config {
    /// Four clusters at 1 GHz.
    pub fn pspin(contexts: Vec<Context>) -> Config {
        let (queues, clusters, patience) = (256, 4, 1_000_000);
        let faults = Faults::default();
        Config { contexts, queues, cells: 128, clusters, home_limit: 20, patience, faults }
    }

    /// Two clusters at 40 MHz.
    pub fn fpspin(contexts: Vec<Context>) -> Config {
        Config { queues: 16, clusters: 2, patience: 40_000, ..Config::pspin(contexts) }
    }
}
