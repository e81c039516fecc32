//! All to the NIC, or both sides equally: the threshold follows from whether the host is awake.
//!
//! An awake host costs the same power whatever it does. So a threshold near the NIC's capacity
//! while the host is awake saves nothing and makes packets on the NIC wait. This policy keeps
//! everything on the NIC up to a *limit*, the largest rate with which its p99 is within the
//! objective. Above it the host has to be awake, and then both sides get load in proportion to
//! their capacities, which keeps both queues shortest. Back below the limit for a while, the host
//! may sleep again. While a change is noticed (one period) the limit is kept as a token bucket's
//! rate.
//!
//! What is measured on the NIC corrects the limit: down when p99 is above the objective, back up
//! slowly when it is far below.

use super::{Decision, Mode, Observation, Policy};

/// The policy with its state.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Capacities, bit/s.
    nic: f64,
    host: f64,
    /// Largest rate for the NIC alone: by the profile, and as corrected; bit/s.
    planned: f64,
    limit: f64,
    /// p99 that is wanted on the NIC, ns; infinite if nobody wants one.
    objective_ns: f64,
    /// Periods below the limit until the host may sleep.
    patience: u32,
    /// Periods left, while the host is needed.
    awake: u32,
    moved: bool,
}

/// Part by which the limit goes down per period above the objective, and up far below it.
const DOWN: f64 = 0.01;
const UP: f64 = 0.000_2;
/// While the host is awake nothing is seen of the limit; it is tried again, a per cent a second
/// later.
const RETRY: f64 = 0.000_01;
/// Where "far below" begins.
const ROOM: f64 = 0.7;
/// Part of the limit below which the host is not needed.
const BACK: f64 = 0.97;

impl Gate {
    /// Capacities of both sides and the limit, bit/s; what p99 is wanted, ns.
    pub fn new(nic: f64, host: f64, limit: f64, objective_ns: f64) -> Gate {
        Gate {
            nic,
            host,
            planned: limit,
            limit,
            objective_ns,
            patience: 10,
            awake: 0,
            moved: false,
        }
    }

    /// The largest rate for the NIC alone, bit/s.
    pub fn limit(&self) -> f64 {
        self.limit
    }
}

impl Policy for Gate {
    fn observe(&mut self, seen: &Observation) -> Decision {
        let before = (self.limit, self.awake);
        // Alone and near its limit, the NIC shows whether the limit is right.
        let telling =
            self.awake == 0 && seen.received > 0.8 * self.limit && seen.received <= self.limit;
        match seen.nic_p99_ns.filter(|_| telling) {
            // A single period's p99 scatters: only what is clearly above counts.
            Some(p99) if p99 > 1.5 * self.objective_ns => self.limit *= 1.0 - DOWN,
            Some(p99) if p99 < ROOM * self.objective_ns => {
                self.limit = (self.limit * (1.0 + UP)).min(self.planned.max(self.limit));
            }
            _ => {}
        }
        if self.awake > 0 && self.limit < self.planned {
            self.limit *= 1.0 + RETRY;
        }
        self.limit = self.limit.max(0.05 * self.planned);
        let needed = seen.received > if self.awake > 0 { BACK * self.limit } else { self.limit };
        self.awake = if needed { self.patience } else { self.awake.saturating_sub(1) };
        self.moved = before != (self.limit, self.awake);
        if self.awake > 0 {
            let part = self.nic / (self.nic + self.host);
            return Decision { threshold: seen.received * part, mode: Mode::Proportional };
        }
        Decision { threshold: self.limit, mode: Mode::TokenBucket }
    }

    fn settled(&self) -> bool {
        !self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(received: f64) -> Observation {
        Observation { received, nic_done: received, ..Observation::default() }
    }

    #[test]
    fn an_awake_host_takes_its_part() {
        let mut gate = Gate::new(40e9, 80e9, 36e9, f64::INFINITY);
        assert_eq!(
            gate.observe(&seen(20e9)),
            Decision { threshold: 36e9, mode: Mode::TokenBucket }
        );
        assert_eq!(
            gate.observe(&seen(60e9)),
            Decision { threshold: 20e9, mode: Mode::Proportional }
        );
        // A little below the limit it stays, and sleeps ten periods later.
        assert_eq!(gate.observe(&seen(35.5e9)).mode, Mode::Proportional);
        let more =
            (0..100).take_while(|_| gate.observe(&seen(30e9)).mode == Mode::Proportional).count();
        assert_eq!(more, 9);
    }

    #[test]
    fn the_limit_follows_the_objective() {
        let mut gate = Gate::new(40e9, 80e9, 36e9, 30e3);
        let late = Observation { nic_p99_ns: Some(90e3), ..seen(30e9) };
        for _ in 0..300 {
            gate.observe(&late);
        }
        assert!(gate.limit() <= 30e9 && gate.limit() > 29e9, "{}", gate.limit());
        let early = Observation { nic_p99_ns: Some(15e3), ..seen(0.0) };
        for _ in 0..10_000 {
            gate.observe(&Observation { received: gate.limit() * 0.9, ..early });
        }
        assert_eq!(gate.limit(), 36e9);
    }
}
