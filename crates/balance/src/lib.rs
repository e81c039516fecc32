//! Load balancing between a NIC's processor and the host behind it, to save energy.
//!
//! The NIC's processor is on anyway and takes little power; the host takes much when it is awake.
//! So packets go to the NIC up to a rate, the *threshold*, and what exceeds it goes to the host,
//! which sleeps as long as nothing comes. Three parts, after HAL (ISCA'24): a *monitor* measures, a
//! *director* decides per packet and rewrites addresses, a *merger* makes the host's answers look
//! like the NIC's.
//!
//! * [`policy`] chooses the threshold from what was observed in the last period: state machines
//!   without a clock.
//! * [`director`] is the behaviour of director and merger, packet by packet. Every director there
//!   is (XDP, RTL, simulated) does the same and is compared with it.
//! * [`profile`] says what a function costs on either side: capacity, queues, latency, power.
//! * [`traffic`] makes rates over time, [`sim`] plays them through director, both sides and a
//!   policy.
//!
//! Architecture invariant: no clock, no file, no operating system, no αIR. Equal inputs give equal
//! outputs.

pub mod director;
pub mod latency;
pub mod policy;
pub mod profile;
pub mod rng;
pub mod sim;
pub mod traffic;
