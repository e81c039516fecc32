//! The published policy (HAL, ISCA'24, Algorithm 1), and the debounce that its code has and the
//! paper does not.
//!
//! Every period, with TP what the NIC completed and occ its fullest queue: if Th < TP + Δ and occ <
//! WM_low, Th grows by Step; if Th < TP + Δ' and occ > WM_high, it shrinks by Step. Between the
//! watermarks nothing happens. In the code a step is taken only when hints that the queue's level
//! adds every period exceed 1000; a level that adds nothing resets them, and a step resets both
//! directions.
//!
//! The paper does not give its constants. [`Published::artifact`] has those of the public code
//! (bytes per 100 µs there; 1000 of them are 80 Mbit/s).

use super::{Decision, Mode, Observation, Policy};

/// Hints above this make a step.
const ENOUGH: u32 = 1000;

/// Levels of a queue with the hint each adds.
type Levels = &'static [(u32, u32)];

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
    /// Those of the public code; `line` is the port's rate.
    pub fn artifact(line: f64) -> Constants {
        Constants {
            step: 80e6,
            delta_up: 80e6,
            delta_down: 800e6,
            low: &[(1, 100), (32, 4), (64, 2), (128, 1)],
            high: &[(1024, 500), (512, 100), (256, 10)],
            range: (80e3, line),
        }
    }

    /// Algorithm 1 as printed: one watermark each way and no debounce.
    pub fn paper(line: f64) -> Constants {
        Constants {
            low: &[(128, ENOUGH + 1)],
            high: &[(256, ENOUGH + 1)],
            ..Constants::artifact(line)
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
    pub fn artifact(line: f64) -> Published {
        let constants = Constants::artifact(line);
        let start = constants.range.0;
        Published::new(constants, start)
    }
}

impl Policy for Published {
    fn observe(&mut self, seen: &Observation) -> Decision {
        let constants = &self.constants;
        let (least, most) = constants.range;
        self.moved = false;
        let hint = |levels: Levels, reached: &dyn Fn(u32) -> bool| {
            levels.iter().find(|(level, _)| reached(*level)).map(|(_, hint)| *hint)
        };
        if self.threshold < seen.nic_done + constants.delta_up {
            match hint(constants.low, &|level| seen.nic_queue < level) {
                Some(more) => (self.up, self.moved) = (self.up + more, true),
                None => self.up = 0,
            }
        }
        if self.threshold < seen.nic_done + constants.delta_down {
            match hint(constants.high, &|level| seen.nic_queue > level) {
                Some(more) => (self.down, self.moved) = (self.down + more, true),
                None => self.down = 0,
            }
        }
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
        let mut policy = Published::artifact(100e9);
        let start = run(&mut policy, 10, 1e9, 0);
        assert_eq!(run(&mut policy, 1, 1e9, 0), start + 80e6);
        // A little in the queue: every 251 periods.
        let start = run(&mut policy, 250, 1e9, 20);
        assert_eq!(run(&mut policy, 1, 1e9, 20), start + 80e6);
    }

    #[test]
    fn long_queues_lower_and_the_dead_band_does_nothing() {
        let mut policy = Published::new(Constants::artifact(100e9), 40e9);
        assert_eq!(run(&mut policy, 1000, 40e9, 200), 40e9);
        assert!(policy.settled());
        assert_eq!(run(&mut policy, 11, 40e9, 600), 40e9 - 80e6);
        assert_eq!(run(&mut policy, 101, 40e9 - 80e6, 300), 40e9 - 160e6);
        assert!(!policy.settled());
        // Far above what the NIC does, nothing moves either.
        assert_eq!(run(&mut policy, 1000, 30e9, 600), 40e9 - 160e6);
    }

    #[test]
    fn it_stays_in_range() {
        let mut policy = Published::new(Constants::paper(10e9), 9.99e9);
        assert_eq!(run(&mut policy, 100, 20e9, 0), 10e9);
        assert_eq!(run(&mut policy, 1000, 20e9, 1000), 80e3);
    }
}
