//! How much the NIC gets: policies as state machines.
//!
//! Every period (1 ms unless said otherwise) a policy sees one [`Observation`] and gives one
//! [`Decision`]. It has no clock and no side effects, so simulator, daemon and tests run the same
//! code. All rates are bits a second on the wire.
//!
//! | policy | threshold |
//! |---|---|
//! | [`Fixed`] | a constant, as in the published figures |
//! | [`Published`](published::Published) | an integrator over queue lengths with a dead band (HAL's Algorithm 1, with the debounce of its code) |
//! | [`Headroom`](headroom::Headroom) | a share of the capacity, spread by a token bucket; learns the capacity when the NIC falls short |
//! | [`Objective`](objective::Objective) | the largest whose estimated p99 is within an objective: fast down, slow up |
//! | [`Gate`](gate::Gate) | everything up to a limit; above it the host is awake anyway and both get their part |
//! | [`Remembering`](memory::Remembering) | another policy's, beginning where it was when the same function ran last |
//!
//! [`wake`] says when to wake the host ahead of need, [`share`] divides one NIC between functions,
//! [`failover`] says what to do when a side dies.

pub mod failover;
pub mod gate;
pub mod headroom;
pub mod memory;
pub mod objective;
pub mod published;
pub mod share;
pub mod wake;

use crate::director::meter::Mode;

/// The usual period, ns.
pub const PERIOD_NS: u64 = 1_000_000;

/// Observations of the last period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Number of the function that runs; for policies that remember.
    pub function: u32,
    /// Eligible traffic that came in, bit/s.
    pub received: f64,
    /// What the NIC side completed, bit/s.
    pub nic_done: f64,
    /// Packets in the NIC's fullest queue.
    pub nic_queue: u32,
    /// Packets in the host's fullest queue.
    pub host_queue: u32,
    /// p99 on the NIC side in this period, ns, if enough packets were measured.
    pub nic_p99_ns: Option<f64>,
}

/// Decisions until the next observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// What the NIC may get, bit/s.
    pub threshold: f64,
    /// How the director is to meter.
    pub mode: Mode,
}

/// A policy.
pub trait Policy {
    /// Takes what happened, says what to do.
    fn observe(&mut self, seen: &Observation) -> Decision;

    /// True if another equal observation would change nothing, now or later; a simulator may then
    /// look less often.
    fn settled(&self) -> bool;
}

/// A constant threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fixed {
    /// bit/s.
    pub threshold: f64,
    pub mode: Mode,
}

impl Policy for Fixed {
    fn observe(&mut self, _: &Observation) -> Decision {
        Decision { threshold: self.threshold, mode: self.mode }
    }

    fn settled(&self) -> bool {
        true
    }
}
