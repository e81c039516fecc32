//! What to do when a side dies.
//!
//! Both sides send heartbeats; a side that has not been heard of for `silence_ns` is dead. A NIC
//! side is dead too if packets wait, more and more, and it completes nothing. A dead NIC side means
//! all to the host, a dead host all to the NIC. If the sides are alive but nobody says so (the
//! channel of heartbeats is lost: both fall silent at the same time while packets are completed),
//! the threshold falls back to a safe one. A side that returns is used again after it has been
//! heard for `settle_ns`, so that one that dies again and again does not take packets along.

use crate::director::Route;

/// Times, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Silence that means death; the time of a fail-over is this and one period at most.
    pub silence_ns: u64,
    /// How long a side that returns is watched before it is used.
    pub settle_ns: u64,
    /// Periods of growing queues without completions.
    pub stuck_periods: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { silence_ns: 40_000_000, settle_ns: 100_000_000, stuck_periods: 10 }
    }
}

/// Signs of both sides at the end of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    pub now_ns: u64,
    /// When the last heartbeat came, ns; none so far: 0.
    pub nic_beat_ns: u64,
    pub host_beat_ns: u64,
    /// Packets completed by the NIC side in this period.
    pub nic_done: u64,
    /// Packets given to the NIC side in this period.
    pub nic_given: u64,
    /// Packets in its fullest queue.
    pub nic_queue: u32,
    /// The host may be asleep and owes no heartbeat.
    pub host_sleeps: bool,
}

/// The state that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Both sides work.
    Both,
    NicDead,
    HostDead,
    /// Both are silent: nobody is left to choose, packets go where they would.
    BothSilent,
    /// Silence, but packets are completed: the safe threshold holds.
    HeartbeatLost,
}

impl State {
    /// Where packets go.
    pub fn route(self) -> Route {
        match self {
            State::Both | State::BothSilent | State::HeartbeatLost => Route::Metered,
            State::NicDead => Route::Host,
            State::HostDead => Route::Nic,
        }
    }
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Failover {
    limits: Limits,
    state: State,
    /// Since when the dead side has been heard again.
    heard_since: Option<u64>,
    last_queue: u32,
    stuck: u32,
}

impl Failover {
    pub fn new(limits: Limits) -> Failover {
        Failover { limits, state: State::Both, heard_since: None, last_queue: 0, stuck: 0 }
    }

    /// Takes the signs of a period.
    pub fn observe(&mut self, signs: &Signs) -> State {
        let silent = |beat: u64| signs.now_ns.saturating_sub(beat) > self.limits.silence_ns;
        let grew = signs.nic_queue >= self.last_queue && signs.nic_queue > 0;
        let stuck = signs.nic_done == 0 && signs.nic_given > 0 && grew;
        // No packets say nothing.
        if stuck {
            self.stuck += 1;
        } else if signs.nic_done > 0 {
            self.stuck = 0;
        }
        self.last_queue = signs.nic_queue;
        let host_silent = silent(signs.host_beat_ns) && !signs.host_sleeps;
        let nic_silent = silent(signs.nic_beat_ns);
        let now = match (nic_silent, host_silent) {
            (true, true) if signs.nic_done > 0 => State::HeartbeatLost,
            (true, true) => State::BothSilent,
            (true, false) => State::NicDead,
            _ if self.stuck >= self.limits.stuck_periods => State::NicDead,
            (false, true) => State::HostDead,
            (false, false) => State::Both,
        };
        let better = now == State::Both && self.state != State::Both;
        if !better {
            (self.state, self.heard_since) = (now, None);
            return self.state;
        }
        let since = *self.heard_since.get_or_insert(signs.now_ns);
        if signs.now_ns - since >= self.limits.settle_ns {
            (self.state, self.heard_since) = (State::Both, None);
        }
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Periods of 1 ms with heartbeats every 5 ms until a side stops at `stop`; gives the state at
    /// each.
    fn play(nic_until: u64, host_until: u64, back_at: u64, done: u64) -> Vec<State> {
        let mut failover = Failover::new(Limits::default());
        let (mut nic, mut host) = (0, 0);
        (1..=500u64)
            .map(|ms| {
                if ms % 5 == 0 && (ms < nic_until || ms >= back_at) {
                    nic = ms * MS;
                }
                if ms % 5 == 0 && (ms < host_until || ms >= back_at) {
                    host = ms * MS;
                }
                failover.observe(&Signs {
                    now_ns: ms * MS,
                    nic_beat_ns: nic,
                    host_beat_ns: host,
                    nic_done: done,
                    nic_given: 10,
                    ..Signs::default()
                })
            })
            .collect()
    }

    #[test]
    fn a_dead_side_is_left_within_50_ms_and_used_again_when_it_is_back() {
        for (nic, host, dead, route) in
            [(100, 1000, State::NicDead, Route::Host), (1000, 100, State::HostDead, Route::Nic)]
        {
            let states = play(nic, host, 300, 10);
            assert!(states[..98].iter().all(|state| *state == State::Both));
            let found = states.iter().position(|state| *state == dead).unwrap() as u64 + 1;
            assert!(found - 100 <= 50, "{found}");
            assert_eq!(states[(found - 1) as usize].route(), route);
            // Back at 300, used from 400.
            let used =
                states[found as usize..].iter().position(|state| *state == State::Both).unwrap()
                    as u64;
            assert!((100..=105).contains(&(used + found + 1 - 300)), "{used}");
        }
    }

    #[test]
    fn a_lost_channel_is_no_death() {
        let states = play(100, 100, 1000, 10);
        assert_eq!(states[499], State::HeartbeatLost);
        assert_eq!(play(100, 100, 1000, 0)[499], State::BothSilent);
    }

    #[test]
    fn a_nic_that_completes_nothing_is_dead_though_it_beats() {
        let mut failover = Failover::new(Limits::default());
        let at = (1..=100u64).find(|ms| {
            let signs = Signs {
                now_ns: ms * MS,
                nic_beat_ns: ms * MS,
                host_beat_ns: ms * MS,
                nic_given: 5,
                nic_queue: *ms as u32 * 5,
                ..Signs::default()
            };
            failover.observe(&signs) == State::NicDead
        });
        assert_eq!(at, Some(10));
    }

    #[test]
    fn a_sleeping_host_owes_nothing() {
        let mut failover = Failover::new(Limits::default());
        let signs = Signs {
            now_ns: 1000 * MS,
            nic_beat_ns: 1000 * MS,
            host_sleeps: true,
            ..Signs::default()
        };
        assert_eq!(failover.observe(&signs), State::Both);
    }
}
