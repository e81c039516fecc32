//! The published policy (HAL, ISCA'24, Algorithm 1), and the debounce that its code has and the
//! paper does not.
//!
//! Every period, with TP what the NIC completed and occ its fullest queue: if Th < TP + Δ and occ <
//! WM_low, Th grows by Step; if Th < TP + Δ' and occ > WM_high, it shrinks by Step. Between the
//! watermarks nothing happens. In the code a step is taken only when hints that the queue's level
//! adds every period exceed 1000; a level that adds nothing resets them, and a step resets both
//! directions.
//!
//! The paper does not give its constants. [`Constants::artifact`] has those of the public code
//! (bytes per 100 µs there; 1000 of them are 80 Mbit/s). Its levels are for rings of 1024
//! descriptors; a ring of another size has the same shares.
//!
//! At a constant rate both stop little above it: the threshold passes TP by Δ at most. So Δ has to
//! cover what a window varies by, or some packets of many windows wake the host. 80 Mbit/s are less
//! than a packet in 100 µs.

use super::{Decision, Mode, Observation, Policy};

/// Hints above this make a step.
const ENOUGH: u32 = 1000;

/// Levels of a queue with the hint each adds.
type Levels = Vec<(u32, u32)>;

/// Descriptors of the rings that the public code's levels are for.
const RING: u32 = 1024;

/// Constants of the algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Constants {
    /// bit/s.
    pub step: f64,
    /// The threshold grows only below TP + this, bit/s.
    pub delta_up: f64,
    /// The threshold shrinks only below TP + this, bit/s.
    pub delta_down: f64,
    /// Queue below the first number: the hint for growing. In ascending order.
    pub low: Levels,
    /// Queue above the first number: the hint for shrinking. In descending order.
    pub high: Levels,
    /// The least and the largest threshold, bit/s.
    pub range: (f64, f64),
}

impl Constants {
    /// Those of the public code; `line` is the port's rate, `ring` what a queue of the NIC holds.
    pub fn artifact(line: f64, ring: u32) -> Constants {
        let levels = |levels: &[(u32, u32)]| {
            levels.iter().map(|(level, hint)| ((level * ring / RING).max(1), *hint)).collect()
        };
        Constants {
            step: 80e6,
            delta_up: 80e6,
            delta_down: 800e6,
            low: levels(&[(1, 100), (32, 4), (64, 2), (128, 1)]),
            high: levels(&[(1024, 500), (512, 100), (256, 10)]),
            range: (80e3, line),
        }
    }

    /// Algorithm 1 as printed: one Δ (the code's larger one), one watermark each way, no debounce.
    pub fn paper(line: f64, ring: u32) -> Constants {
        let artifact = Constants::artifact(line, ring);
        let at_once = |level: Option<&(u32, u32)>| level.map(|l| (l.0, ENOUGH + 1));
        Constants {
            delta_up: artifact.delta_down,
            low: at_once(artifact.low.last()).into_iter().collect(),
            high: at_once(artifact.high.last()).into_iter().collect(),
            ..artifact
        }
    }
}

/// The policy with its state.
#[derive(Clone, Debug)]
pub struct Published {
    constants: Constants,
    threshold: f64,
    up: u32,
    down: u32,
    moved: bool,
}

impl Published {
    /// Begins with a threshold; the public code begins with nothing for the NIC.
    pub fn new(constants: Constants, threshold: f64) -> Published {
        Published { constants, threshold, up: 0, down: 0, moved: true }
    }

    /// As the public code.
    pub fn artifact(line: f64, ring: u32) -> Published {
        let constants = Constants::artifact(line, ring);
        let start = constants.range.0;
        Published::new(constants, start)
    }
}

impl Policy for Published {
    fn observe(&mut self, seen: &Observation) -> Decision {
        let constants = &self.constants;
        let (least, most) = constants.range;
        self.moved = false;
        // The hint that the queue's level adds to a sum; none resets it, and so does a threshold
        // that the NIC does not come near.
        let mut add = |sum: &mut u32, delta: f64, level: Option<&(u32, u32)>| match level {
            Some((_, hint)) if self.threshold < seen.nic_done + delta => {
                (*sum, self.moved) = (*sum + hint, true);
            }
            _ => *sum = 0,
        };
        let low = constants.low.iter().find(|(level, _)| seen.nic_queue < *level);
        let high = constants.high.iter().find(|(level, _)| seen.nic_queue > *level);
        add(&mut self.up, constants.delta_up, low);
        add(&mut self.down, constants.delta_down, high);
        let step = match (self.up > ENOUGH, self.down > ENOUGH) {
            (true, _) => constants.step,
            (_, true) => -constants.step,
            _ => 0.0,
        };
        if step != 0.0 {
            self.threshold = (self.threshold + step).clamp(least, most);
            (self.up, self.down) = (0, 0);
        }
        Decision { threshold: self.threshold, mode: Mode::Window }
    }

    fn settled(&self) -> bool {
        !self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &mut Published, periods: u32, nic_done: f64, nic_queue: u32) -> f64 {
        let seen = Observation { nic_done, nic_queue, ..Observation::default() };
        (0..periods).map(|_| policy.observe(&seen).threshold).last().unwrap()
    }

    #[test]
    fn empty_queues_raise_by_a_step_in_eleven_periods() {
        let mut policy = Published::artifact(100e9, 1024);
        let start = run(&mut policy, 10, 1e9, 0);
        assert_eq!(run(&mut policy, 1, 1e9, 0), start + 80e6);
        // A little in the queue: every 251 periods.
        let start = run(&mut policy, 250, 1e9, 20);
        assert_eq!(run(&mut policy, 1, 1e9, 20), start + 80e6);
    }

    #[test]
    fn long_queues_lower_and_the_dead_band_does_nothing() {
        let mut policy = Published::new(Constants::artifact(100e9, 1024), 40e9);
        assert_eq!(run(&mut policy, 1000, 40e9, 200), 40e9);
        assert!(policy.settled());
        assert_eq!(run(&mut policy, 11, 40e9, 600), 40e9 - 80e6);
        assert_eq!(run(&mut policy, 101, 40e9 - 80e6, 300), 40e9 - 160e6);
        assert!(!policy.settled());
        // Far above what the NIC does, nothing moves either, and hints are forgotten.
        assert_eq!(run(&mut policy, 10, 40e9 - 160e6, 600), 40e9 - 160e6);
        assert_eq!(run(&mut policy, 1000, 30e9, 600), 40e9 - 160e6);
        assert_eq!(run(&mut policy, 10, 40e9 - 160e6, 600), 40e9 - 160e6);
        assert!(run(&mut policy, 1, 40e9 - 160e6, 600) < 40e9 - 160e6);
    }

    #[test]
    fn levels_are_shares_of_the_ring() {
        let constants = Constants::artifact(100e9, 128);
        assert_eq!(constants.low, [(1, 100), (4, 4), (8, 2), (16, 1)]);
        assert_eq!(Constants::paper(100e9, 128).high, [(32, ENOUGH + 1)]);
    }

    #[test]
    fn it_stays_in_range() {
        let mut policy = Published::new(Constants::paper(10e9, 1024), 9.99e9);
        assert_eq!(run(&mut policy, 100, 20e9, 0), 10e9);
        assert_eq!(run(&mut policy, 1000, 20e9, 1000), 80e3);
    }
}
