//! A share of the NIC's capacity, spread by a token bucket.
//!
//! Near its capacity a queue grows without bound, so the last tenth costs more latency than it
//! saves power. The capacity is the profile's until the NIC shows that it is another one: while
//! queues are long it completes what it can, and that is the capacity; so an estimate follows what
//! is completed then. Estimates grow back towards the profile slowly, since the cause may have
//! gone.

use super::{Decision, Mode, Observation, Policy};

/// The policy with its state.
#[derive(Clone, Debug)]
pub struct Headroom {
    /// Of the profile, bit/s.
    capacity: f64,
    /// Share of the capacity that is not used.
    room: f64,
    /// Packets in the fullest queue that mean the NIC is behind.
    long_queue: u32,
    estimate: f64,
    moved: bool,
}

/// Part of the difference that an estimate goes down, and of the capacity that it goes up, per
/// period.
const DOWN: f64 = 0.25;
const UP: f64 = 0.000_1;

impl Headroom {
    /// `room` is usually 0.1; `long_queue` half of what a queue holds.
    pub fn new(capacity: f64, room: f64, long_queue: u32) -> Headroom {
        Headroom { capacity, room, long_queue: long_queue.max(1), estimate: capacity, moved: false }
    }

    /// Estimates what the NIC completes at most, bit/s.
    pub fn estimate(&self) -> f64 {
        self.estimate
    }
}

impl Policy for Headroom {
    fn observe(&mut self, seen: &Observation) -> Decision {
        let before = self.estimate;
        if seen.nic_queue >= self.long_queue && seen.nic_done < self.estimate {
            self.estimate += DOWN * (seen.nic_done - self.estimate);
        } else if seen.nic_queue < self.long_queue / 2 {
            self.estimate = (self.estimate + UP * self.capacity).min(self.capacity);
        }
        self.moved = self.estimate != before;
        Decision { threshold: self.estimate * (1.0 - self.room), mode: Mode::TokenBucket }
    }

    fn settled(&self) -> bool {
        !self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_a_nic_that_became_slow_and_recovers() {
        let mut policy = Headroom::new(40e9, 0.1, 64);
        let calm = Observation { nic_done: 10e9, nic_queue: 0, ..Observation::default() };
        assert_eq!(policy.observe(&calm).threshold, 36e9);
        assert!(policy.settled());
        let slow = Observation { nic_done: 20e9, nic_queue: 100, ..Observation::default() };
        for _ in 0..20 {
            policy.observe(&slow);
        }
        assert!((policy.estimate() / 20e9 - 1.0).abs() < 0.02 && !policy.settled());
        for _ in 0..10_000 {
            policy.observe(&calm);
        }
        assert_eq!(policy.observe(&calm).threshold, 36e9);
    }
}
