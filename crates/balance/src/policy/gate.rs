//! All to the NIC, or both sides equally: the threshold follows from whether the host is awake.
//!
//! This policy keeps everything on the NIC up to a *limit*, the largest rate with which its p99 is
//! within the objective. Above it the host has to help. What a host takes is the time that its
//! cores are awake, so packets come to it in one piece of every window, the NIC's in the other, as
//! far as the queue that such a piece builds on the NIC is within the objective too. At rates at
//! which this leaves the NIC less than its part by capacities, both get load by capacities, evenly:
//! then the host is awake all the time anyway, and both queues are shortest.
//!
//! Rates of single periods scatter, and a host that is woken for that saves nothing: the limit is
//! compared with a mean, which a clear change sets anew. Back below the limit for a while, all goes
//! to the NIC again. Until a change is noticed (one period) the NIC gets its capacity at most, as a
//! token bucket.
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
    /// Mean rate of the last periods, bit/s.
    mean: f64,
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
const BACK: f64 = 0.985;
/// Weight of a period in the mean rate, and the part of it that is a clear change.
const WEIGHT: f64 = 1.0 / 16.0;
const CHANGE: f64 = 0.2;
/// The window in which packets come to the host in one piece, ns, and the part of the objective
/// that the NIC's queue may take of it.
const WINDOW_NS: f64 = 100e3;
const QUEUE: f64 = 0.4;
/// Fewer bits cannot be a piece of a window: 16 full packets.
const PIECE: f64 = 16.0 * 12_000.0;

impl Gate {
    /// Capacities of both sides and the limit, bit/s; what p99 is wanted, ns.
    pub fn new(nic: f64, host: f64, limit: f64, objective_ns: f64) -> Gate {
        Gate {
            nic,
            host,
            planned: limit,
            limit,
            objective_ns,
            mean: 0.0,
            patience: 10,
            awake: 0,
            moved: false,
        }
    }

    /// The largest rate for the NIC alone, bit/s.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// The NIC's share while the host is awake.
    fn shared(&self) -> Decision {
        let part = self.mean * self.nic / (self.nic + self.host);
        // A piece of T·W bits at rate R builds a queue of (R - C) T W / R bits, C a second.
        let excess = self.mean - self.nic;
        let room = QUEUE * self.objective_ns * self.nic * self.mean / (excess * WINDOW_NS);
        let piece = if excess > 0.0 { self.limit.min(room) } else { self.limit };
        match piece > part && piece * WINDOW_NS >= PIECE * 1e9 {
            true => Decision { threshold: piece, mode: Mode::Window },
            false => Decision { threshold: part, mode: Mode::Proportional },
        }
    }
}

impl Policy for Gate {
    fn observe(&mut self, seen: &Observation) -> Decision {
        let before = (self.limit, self.awake);
        let change = seen.received - self.mean;
        let clear = change.abs() > CHANGE * self.mean;
        self.mean += if clear { change } else { WEIGHT * change };
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
        let needed = self.mean > if self.awake > 0 { BACK * self.limit } else { self.limit };
        self.awake = if needed { self.patience } else { self.awake.saturating_sub(1) };
        self.moved = before != (self.limit, self.awake);
        match self.awake > 0 {
            true => self.shared(),
            false => Decision { threshold: self.nic, mode: Mode::TokenBucket },
        }
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
        let mut gate = Gate::new(40e9, 80e9, 36e9, 50e3);
        let alone = Decision { threshold: 40e9, mode: Mode::TokenBucket };
        assert_eq!(gate.observe(&seen(20e9)), alone);
        // In one piece, as long as the NIC's queue stays short: 20 us at 40 Gbit/s of 100 us.
        let piece = Decision { threshold: 36e9, mode: Mode::Window };
        assert_eq!(gate.observe(&seen(50e9)), piece);
        let Decision { threshold, mode } = gate.observe(&seen(70e9));
        assert!((threshold / 18.67e9 - 1.0).abs() < 0.01 || mode == Mode::Proportional);
        // At 90 Gbit/s that would be 14.4 of them; by capacities it is a third.
        let even = Decision { threshold: 30e9, mode: Mode::Proportional };
        assert_eq!(gate.observe(&seen(90e9)), even);
        // Below the limit it sleeps ten periods later.
        let more = (0..100).take_while(|_| gate.observe(&seen(30e9)) != alone).count();
        assert_eq!(more, 9);
    }

    #[test]
    fn a_scattering_rate_wakes_nobody() {
        let mut gate = Gate::new(40e9, 80e9, 36e9, 50e3);
        for period in 0..1000 {
            let rate = if period % 2 == 0 { 37e9 } else { 33e9 };
            let decision = gate.observe(&seen(rate));
            // Only the first rate is taken as it is.
            assert!(period < 100 || decision.mode == Mode::TokenBucket, "{period}");
        }
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
