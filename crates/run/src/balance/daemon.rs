//! What runs beside the director: reads counters and heartbeats, asks the policy, sets the meters.
//!
//! One [`step`](Daemon::step) a period. It takes the time from outside, so that tests can say what
//! time it is.

use nicforge_balance::director::flows::{BUCKETS, rebalance};
use nicforge_balance::director::meter::{Mode, setting};
use nicforge_balance::director::{Counters, Route, WIRE_OVERHEAD};
use nicforge_balance::policy::failover::{Failover, Limits, Signs, State};
use nicforge_balance::policy::{Observation, Policy};
use nicforge_balance::profile::Power;

use super::Balancer;
use super::heartbeat::{Heartbeat, Receiver, Side};
use crate::xdp::XdpError;

/// Period of the policy, ns.
pub const PERIOD_NS: u64 = 2_000_000;
/// Periods between two moves of flows.
const REBALANCE: u64 = 50;
/// A window of the meters and what a bucket holds: as in the simulator.
const WINDOW_NS: u64 = 100_000;
const BURST: u64 = 8 * 1524;

/// Facts about a side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SideState {
    /// Heartbeats so far.
    pub beats: u64,
    pub last_beat_ns: u64,
    pub asleep: bool,
    pub queue: u64,
    pub done: u64,
    pub p99_ns: u64,
    /// Packets a second, between the last two heartbeats.
    pub rate: f64,
}

/// Everything that metrics show.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub now_ns: u64,
    pub state: State,
    pub counters: Counters,
    /// bit/s on the wire in the last period, and as a mean over some.
    pub received: f64,
    pub threshold: f64,
    pub mode: Mode,
    pub nic: SideState,
    pub host: SideState,
    /// Estimated from the profile, W; none without one.
    pub watts: Option<f64>,
    pub shadow: bool,
    /// Changes of state so far, with their times.
    pub changes: Vec<(u64, State)>,
    pub refused_beats: u64,
}

/// The daemon's state.
pub struct Daemon {
    balancer: Balancer,
    beats: Receiver,
    policy: Box<dyn Policy>,
    failover: Failover,
    power: Option<Power>,
    status: Status,
    /// Of each processor, last time.
    last: Vec<Counters>,
    last_done: u64,
    last_buckets: Vec<u64>,
    wanted: Vec<bool>,
    steps: u64,
    /// When the host was given packets first, after it slept.
    host_given_ns: Option<u64>,
    silence_ns: u64,
    /// Where packets go by somebody's order, whatever policy and heartbeats say.
    pub order: Option<Route>,
    /// A threshold by somebody's order, bit/s.
    pub order_threshold: Option<f64>,
    mode: Mode,
}

/// Weight of the newest rate in the mean.
const NEWEST: f64 = 0.2;

impl Daemon {
    /// For an attached balancer that meters by `mode`.
    pub fn new(
        balancer: Balancer,
        beats: Receiver,
        policy: Box<dyn Policy>,
        limits: Limits,
        power: Option<Power>,
        (mode, shadow): (Mode, bool),
    ) -> Daemon {
        Daemon {
            balancer,
            beats,
            policy,
            failover: Failover::new(limits),
            power,
            status: Status {
                now_ns: 0,
                state: State::Both,
                counters: Counters::default(),
                received: 0.0,
                threshold: 0.0,
                mode,
                nic: SideState::default(),
                host: SideState { asleep: true, ..SideState::default() },
                watts: None,
                shadow,
                changes: Vec::new(),
                refused_beats: 0,
            },
            last: Vec::new(),
            last_done: 0,
            last_buckets: vec![0; BUCKETS],
            wanted: vec![false; BUCKETS],
            steps: 0,
            host_given_ns: None,
            silence_ns: limits.silence_ns,
            order: None,
            order_threshold: None,
            mode,
        }
    }

    /// As of the last step.
    pub fn status(&self) -> &Status {
        &self.status
    }

    fn hear(&mut self, now_ns: u64) {
        while let Some(beat) = self.beats.receive() {
            let Heartbeat { side, asleep, queue, done, p99_ns, .. } = beat;
            let state =
                if side == Side::Nic { &mut self.status.nic } else { &mut self.status.host };
            let passed = now_ns.saturating_sub(state.last_beat_ns);
            if state.last_beat_ns != 0 && passed > 0 {
                state.rate = done.saturating_sub(state.done) as f64 * 1e9 / passed as f64;
            }
            let beats = state.beats + 1;
            *state = SideState {
                beats,
                last_beat_ns: now_ns,
                asleep,
                queue,
                done,
                p99_ns,
                rate: state.rate,
            };
        }
        self.status.refused_beats = self.beats.refused;
    }

    /// A period: `now_ns` is any monotonic clock.
    ///
    /// # Errors
    /// The kernel's, when counters cannot be read.
    pub fn step(&mut self, now_ns: u64) -> Result<&Status, XdpError> {
        self.hear(now_ns);
        let counters = self.balancer.counters()?;
        let passed = now_ns.saturating_sub(self.status.now_ns).max(1);
        let first = self.steps == 0;
        self.steps += 1;
        let total = counters.iter().fold(Counters::default(), add);
        let before = self.status.counters;
        let (packets, bytes) = (
            given(&total) - given(&before),
            (total.nic_bytes + total.host_bytes) - (before.nic_bytes + before.host_bytes),
        );
        let active = counters
            .iter()
            .enumerate()
            .filter(|(cpu, now)| self.last.get(*cpu).is_none_or(|last| given(now) > given(last)));
        let active = active.count() as u64;
        let nic_given = total.nic_packets - before.nic_packets;
        let host_given = total.host_packets - before.host_packets;
        (self.status.counters, self.status.now_ns, self.last) = (total, now_ns, counters);
        if first {
            self.status.nic.last_beat_ns = now_ns;
            self.status.host.last_beat_ns = now_ns;
        } else {
            let rate = bytes as f64 * 8e9 / passed as f64;
            self.status.received += NEWEST * (rate - self.status.received);
        }

        let state = self.judge(now_ns, nic_given, host_given);
        if state != self.status.state {
            self.status.changes.push((now_ns, state));
            self.status.state = state;
        }
        let packet_bits = if packets > 0 {
            bytes as f64 * 8.0 / packets as f64
        } else {
            8.0 * (64 + WIRE_OVERHEAD) as f64
        };
        let nic = &self.status.nic;
        let decision = self.policy.observe(&Observation {
            function: 0,
            received: self.status.received,
            nic_done: nic.rate * packet_bits,
            nic_queue: nic.queue.min(u32::MAX.into()) as u32,
            host_queue: self.status.host.queue.min(u32::MAX.into()) as u32,
            nic_p99_ns: (nic.p99_ns > 0).then_some(nic.p99_ns as f64),
        });
        self.status.threshold = self.order_threshold.unwrap_or(decision.threshold);
        let set =
            setting(self.status.threshold / 8.0, self.status.received / 8.0, WINDOW_NS, BURST);
        self.balancer.apply(&set, active, self.order.unwrap_or(state.route()));
        if self.mode == Mode::FlowAffine && self.steps.is_multiple_of(REBALANCE) {
            self.move_flows(passed * REBALANCE);
        }
        self.status.watts = self.power.as_ref().map(|power| {
            let awake = f64::from(!self.status.host.asleep);
            let busy = if packets > 0 { nic_given as f64 / packets as f64 } else { 0.0 };
            power.idle_watts + power.nic_watts * busy + power.host_watts * awake
        });
        Ok(&self.status)
    }

    /// A host that slept owes no heartbeat until some time after it was given packets.
    fn judge(&mut self, now_ns: u64, nic_given: u64, host_given: u64) -> State {
        let host = &self.status.host;
        if !host.asleep {
            self.host_given_ns = None;
        } else if host_given > 0 && self.host_given_ns.is_none() {
            self.host_given_ns = Some(now_ns);
        }
        let overdue = self.host_given_ns.is_some_and(|since| {
            now_ns.saturating_sub(since) > self.silence_ns && host.last_beat_ns < since
        });
        let done = self.status.nic.done.saturating_sub(self.last_done);
        self.last_done = self.status.nic.done;
        self.failover.observe(&Signs {
            now_ns,
            nic_beat_ns: self.status.nic.last_beat_ns,
            host_beat_ns: host.last_beat_ns,
            nic_done: done,
            nic_given,
            nic_queue: self.status.nic.queue.min(u32::MAX.into()) as u32,
            host_sleeps: host.asleep && !overdue,
        })
    }

    fn move_flows(&mut self, passed_ns: u64) {
        let bytes = self.balancer.bucket_bytes();
        let rates: Vec<f64> = (bytes.iter().zip(&self.last_buckets))
            .map(|(now, last)| now.saturating_sub(*last) as f64 * 8e9 / passed_ns as f64)
            .collect();
        self.last_buckets = bytes;
        rebalance(&mut self.wanted, &rates, self.status.threshold);
        self.balancer.want(&self.wanted);
    }
}

fn given(counters: &Counters) -> u64 {
    counters.nic_packets + counters.host_packets
}

fn add(a: Counters, b: &Counters) -> Counters {
    Counters {
        nic_packets: a.nic_packets + b.nic_packets,
        nic_bytes: a.nic_bytes + b.nic_bytes,
        host_packets: a.host_packets + b.host_packets,
        host_bytes: a.host_bytes + b.host_bytes,
        merged: a.merged + b.merged,
    }
}
