//! The largest threshold with which the NIC's p99 is within an objective.
//!
//! Three estimates of p99 are used, whichever is there and worst: what was measured in the period;
//! the time the longest queue takes to empty at the rate at which the NIC completes; and a model of
//! what would be: base + sojourn of a queue at that load, with the constant learnt from what is
//! measured. Above the objective the threshold goes down at once by a part that grows with the
//! excess; below it goes up slowly, and only while the threshold is what holds traffic back (else
//! nothing is learnt about it). Fast down and slow up is what keeps TCP's windows stable too; here
//! it bounds how long an objective is missed: a few periods.

use super::{Decision, Mode, Observation, Policy};

/// The policy with its state.
#[derive(Clone, Debug)]
pub struct Objective {
    /// p99 on the NIC side, ns.
    objective_ns: f64,
    /// What never is exceeded, bit/s: capacity by the profile.
    most: f64,
    /// Share of the fastest way up per period.
    threshold: f64,
    /// Mean size of a packet on the wire, bits.
    packet_bits: f64,
    /// Queues of the NIC.
    queues: f64,
    /// Threshold that was too much last, bit/s; forgotten slowly.
    refused: f64,
    moved: bool,
}

/// Part of the capacity per period upwards: the whole in a second.
const UP: f64 = 0.001;
/// Largest part downwards per period.
const DOWN: f64 = 0.2;
/// Below this part of the objective there is room.
const ROOM: f64 = 0.8;
/// A threshold that was too much is approached no closer than this.
const DISTANCE: f64 = 0.97;
/// How fast that is forgotten, per period: half in seven seconds.
const FORGET: f64 = 0.000_1;

impl Objective {
    /// `most` is the capacity by the profile, bit/s; the policy begins at nine tenths of it.
    pub fn new(objective_ns: f64, most: f64, packet_bits: f64, queues: u32) -> Objective {
        Objective {
            objective_ns,
            most,
            threshold: 0.9 * most,
            packet_bits,
            queues: f64::from(queues.max(1)),
            refused: most,
            moved: false,
        }
    }

    /// The worst estimate of the NIC's p99, ns.
    fn estimate(&self, seen: &Observation) -> Option<f64> {
        let queued = (seen.nic_done > 0.0).then(|| {
            let per_queue = seen.nic_done / self.queues;
            f64::from(seen.nic_queue) * self.packet_bits / per_queue * 1e9
        });
        match (seen.nic_p99_ns, queued) {
            (Some(measured), Some(queued)) => Some(measured.max(queued)),
            (one, other) => one.or(other),
        }
    }
}

impl Policy for Objective {
    fn observe(&mut self, seen: &Observation) -> Decision {
        let before = self.threshold;
        // Only near the threshold does its value matter.
        let binding = seen.received > 0.9 * self.threshold;
        if let Some(estimate) = self.estimate(seen).filter(|_| binding) {
            if estimate > self.objective_ns {
                let excess = 1.0 - self.objective_ns / estimate;
                self.refused = self.threshold;
                self.threshold *= 1.0 - DOWN.min(0.1 * excess + 0.005);
            } else if estimate < ROOM * self.objective_ns {
                let ceiling = self.most.min(DISTANCE * self.refused);
                self.threshold = (self.threshold + UP * self.most).min(ceiling.max(self.threshold));
            }
        }
        self.refused = (self.refused * (1.0 + FORGET)).min(self.most / DISTANCE);
        self.threshold = self.threshold.max(0.01 * self.most);
        self.moved = self.threshold != before;
        Decision { threshold: self.threshold, mode: Mode::TokenBucket }
    }

    fn settled(&self) -> bool {
        !self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A NIC with a capacity: p99 of an M/M/1 queue.
    fn nic(threshold: f64, offered: f64, capacity: f64) -> Observation {
        let load = threshold.min(offered) / capacity;
        let p99 = if load < 1.0 { 10e3 + 4.6 * 1000.0 / (1.0 - load) } else { 1e6 };
        Observation {
            received: offered,
            nic_done: threshold.min(offered).min(capacity),
            nic_p99_ns: Some(p99),
            ..Observation::default()
        }
    }

    #[test]
    fn it_finds_the_largest_threshold_within_the_objective() {
        let mut policy = Objective::new(50e3, 50e9, 12_000.0, 8);
        let mut threshold = 45e9;
        let mut missed = 0;
        for period in 0..5000 {
            let seen = nic(threshold, 80e9, 40e9);
            missed += u32::from(period > 100 && seen.nic_p99_ns > Some(50e3));
            threshold = policy.observe(&seen).threshold;
        }
        // 10 + 4.6 / (1 - load) = 50 gives a load of 0.885.
        assert!(threshold > 0.8 * 0.885 * 40e9 && threshold < 1.02 * 0.885 * 40e9, "{threshold}");
        assert!(missed < 250, "{missed} of 4900 periods miss the objective");
    }

    #[test]
    fn it_is_down_fast() {
        let mut policy = Objective::new(50e3, 50e9, 12_000.0, 8);
        let seen = Observation {
            received: 80e9,
            nic_done: 20e9,
            nic_p99_ns: Some(400e3),
            ..Observation::default()
        };
        let periods = (0..100).take_while(|_| policy.observe(&seen).threshold > 20e9).count();
        assert!(periods < 15, "{periods}");
    }

    #[test]
    fn low_rates_teach_nothing() {
        let mut policy = Objective::new(50e3, 50e9, 12_000.0, 8);
        for _ in 0..1000 {
            assert_eq!(policy.observe(&nic(45e9, 1e9, 40e9)).threshold, 45e9);
        }
        assert!(policy.settled());
    }
}
