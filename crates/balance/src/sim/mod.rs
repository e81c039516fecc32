//! Simulation of both sides behind a director, packet by packet, with a policy and power.
//!
//! Packets come as the trace says, the director's own [`Meter`] decides, each side is a
//! [`Station`], and every millisecond the policy sees what the daemon would see. Two latencies are
//! reported: over packets, and over time (one packet per queue and millisecond), which is how the
//! published figures were measured. Power is idle power, the NIC's by its load, and the host's for
//! the share of its cores' time that they are awake.
//!
//! **Aggregation.** Within a bin of the trace the rate is constant. Once the policy has said for 10
//! periods that it is settled, 160 more periods are simulated and stand for the rest of the bin:
//! everything counted in them gets the weight of the time they stand for. Simulated to the end are
//! bins in which the policy moves, bins of bursts, and bins that bring a side near what it can do,
//! where queues remember for too long. Every bin has random numbers of its own, so those are the
//! same packets with and without aggregation. `exact` turns it off; a test holds both within 1 % of
//! each other.

pub mod limit;
pub mod station;

use station::{Fate, Sleep, Station};

use crate::director::meter::{Meter, Mode, setting};
use crate::latency::Histogram;
use crate::policy::wake::{Power as HostPower, Wake};
use crate::policy::{Decision, Observation, PERIOD_NS, Policy};
use crate::profile::Profile;
use crate::rng::Rng;
use crate::traffic::{Arrivals, LINE_GBPS, Trace};

/// Periods that a policy must be settled before the rest of a bin is estimated, and those that
/// stand for it.
const CALM: u32 = 10;
const STAND_IN: u32 = 160;
/// Most latency samples of a queue in a period, and packets that a queue gets between two.
const SAMPLES: f64 = 16.0;
const PACKETS_PER_SAMPLE: f64 = 40.0;
/// Loads of a side at which some periods do not stand for others.
const NEAR_SATURATION: std::ops::Range<f64> = 0.85..1.15;

/// Systems: who runs where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum System {
    NicOnly,
    /// The host polls all the time, as in the published baseline.
    HostOnly,
    /// The host sleeps whenever it has nothing to do.
    HostSleeping(Sleep),
    /// A director in front of both.
    Balanced(Director),
    /// Cores of the NIC forward instead of a director: at most so many bit/s each, and the rest of
    /// the NIC serves.
    Software {
        cores: u32,
        gbps_per_core: f64,
        threshold_gbps: f64,
    },
}

/// Settings of a director.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Director {
    /// Reads the clock only when it must; the published hardware has a free-running window.
    pub lazy: bool,
    /// What it adds to a round trip, ns.
    pub extra_ns: f64,
    /// Window of mode window, ns.
    pub window_ns: u64,
    /// Bytes that a token bucket holds.
    pub burst: u64,
    pub host_sleep: Sleep,
    /// Wakes the host ahead of need: least time awake, ns.
    pub predictive_ns: Option<f64>,
    /// What a packet of a shared state costs more on either side, ns (coherent accesses across the
    /// host link).
    pub shared_state_ns: f64,
}

impl Default for Director {
    /// The published one: 0.8 µs and windows of 100 µs. The host's cores sleep as the paper's text
    /// says, by DPDK's power API: after 512 empty polls, here of 20 ns, each core by itself. They
    /// wake in the 2 µs that Linux gives for C1 of that server's processors (Skylake).
    fn default() -> Director {
        Director {
            lazy: false,
            extra_ns: 800.0,
            window_ns: 100_000,
            burst: 8 * 1500,
            host_sleep: Sleep { idle_ns: 10e3, wake_ns: 2e3 },
            predictive_ns: None,
            shared_state_ns: 0.0,
        }
    }
}

/// A scenario to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    pub profile: &'a Profile,
    pub trace: &'a Trace,
    pub system: System,
    pub seed: u64,
    /// Every packet of the trace, without aggregation.
    pub exact: bool,
}

/// A bin of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    pub offered_gbps: f64,
    pub served_gbps: f64,
    /// Mean threshold, Gbit/s.
    pub threshold_gbps: f64,
    /// Over packets, µs.
    pub p99_us: f64,
    pub watts: f64,
}

/// Results of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub offered_gbps: f64,
    pub average_gbps: f64,
    /// Of the best bin.
    pub max_gbps: f64,
    /// Share of packets.
    pub lost: f64,
    pub to_host: f64,
    /// One sample per queue and millisecond, µs.
    pub time_p99_us: f64,
    /// Over packets, µs.
    pub packet_p99_us: f64,
    pub nic_p99_us: Option<f64>,
    pub host_p99_us: Option<f64>,
    /// Share of the time of the host's cores.
    pub awake: f64,
    pub watts: f64,
    pub bins: Vec<Bin>,
    /// Packets that were simulated one by one.
    pub simulated: u64,
}

/// Sums of what happened.
#[derive(Clone, Debug, Default)]
struct Tally {
    ns: f64,
    offered: f64,
    lost: f64,
    to_host: f64,
    nic_served: f64,
    asleep_ns: f64,
    threshold_ns: f64,
    time: Histogram,
    nic: Histogram,
    host: Histogram,
}

impl Tally {
    /// Adds `other`, `weight` times; its samples over time have another weight.
    fn merge(&mut self, other: &Tally, weight: f64, sample_weight: f64) {
        self.ns += weight * other.ns;
        self.offered += weight * other.offered;
        self.lost += weight * other.lost;
        self.to_host += weight * other.to_host;
        self.nic_served += weight * other.nic_served;
        self.asleep_ns += weight * other.asleep_ns;
        self.threshold_ns += weight * other.threshold_ns;
        self.time.merge(&other.time, sample_weight);
        self.nic.merge(&other.nic, weight);
        self.host.merge(&other.host, weight);
    }
}

/// Everything that moves.
struct Machine<'a> {
    scenario: &'a Scenario<'a>,
    rng: Rng,
    nic: Station,
    host: Station,
    /// Cores that forward in software.
    forwarder: Option<Station>,
    meter: Meter,
    decision: Decision,
    wake: Option<Wake>,
    bits: f64,
    now: f64,
    next: f64,
    /// End of the burst that goes on.
    burst_until: f64,
    /// Latencies on the NIC in this period.
    period_nic: Vec<f64>,
    last_waiting: f64,
    received: f64,
    simulated: u64,
}

/// Simulates.
pub fn simulate(scenario: &Scenario, policy: &mut dyn Policy) -> Report {
    let mut machine = Machine::new(scenario);
    machine.decision = policy.observe(&Observation::default());
    // What cores slept before the beginning does not count.
    machine.host.slept(machine.now);
    let mut total = Tally::default();
    let mut bins = Vec::with_capacity(scenario.trace.gbps.len());
    let periods = ((scenario.trace.bin_ns / PERIOD_NS as f64).round() as u32).max(1);
    for (index, &gbps) in scenario.trace.gbps.iter().enumerate() {
        let samples = machine.start_bin(index, gbps);
        let tally = machine.whole_bin(gbps, periods, policy);
        bins.push(machine.bin(gbps, &tally));
        total.merge(&tally, 1.0, 1.0 / samples);
    }
    machine.report(&total, bins)
}

impl<'a> Machine<'a> {
    fn new(scenario: &'a Scenario<'a>) -> Machine<'a> {
        let profile = scenario.profile;
        let bits = f64::from(profile.packet_bytes) * 8.0;
        let (mut nic_share, mut extra, mut sleep, mut forwarder, mut wake) =
            (1.0, 0.0, None, None, None);
        match scenario.system {
            System::HostSleeping(host) => sleep = Some(host),
            System::Balanced(director) => {
                extra = director.extra_ns + director.shared_state_ns;
                sleep = Some(director.host_sleep);
                wake = director
                    .predictive_ns
                    .map(|least| Wake::new(director.host_sleep.wake_ns, least));
            }
            System::Software { cores, gbps_per_core, .. } => {
                nic_share = 1.0 - f64::from(cores) / f64::from(profile.nic.queues);
                let side = crate::profile::Side {
                    gbps: gbps_per_core * f64::from(cores),
                    queues: cores,
                    ring: 1024,
                    base_us: 1.0,
                    cv: 0.2,
                    measured_p99_us: 0.0,
                };
                forwarder = Some(Station::new(&side, bits, 1.0, 0.0, None));
            }
            System::NicOnly | System::HostOnly => {}
        }
        Machine {
            scenario,
            rng: Rng::new(scenario.seed),
            nic: Station::new(&profile.nic, bits, nic_share, extra, None),
            host: Station::new(&profile.host, bits, 1.0, extra, sleep),
            forwarder,
            meter: Meter::default(),
            decision: Decision { threshold: 0.0, mode: Mode::TokenBucket },
            wake,
            bits,
            now: 1e6,
            next: 1e6,
            burst_until: 0.0,
            period_nic: Vec::new(),
            last_waiting: 0.0,
            received: 0.0,
            simulated: 0,
        }
    }

    /// Returns how many times a queue's latency is sampled in a period: more often than the
    /// published once, where there are packets for it, for less noise.
    fn start_bin(&mut self, index: usize, gbps: f64) -> f64 {
        self.rng = Rng::new(self.scenario.seed.wrapping_mul(0x1_0000_0001) ^ index as u64);
        self.next = self.now;
        self.burst_until = 0.0;
        self.advance(gbps);
        let packets = gbps * PERIOD_NS as f64 / self.bits;
        let queues = self.nic.queues().max(self.host.queues()) as f64;
        let samples = (packets / queues / PACKETS_PER_SAMPLE).clamp(1.0, SAMPLES);
        self.nic.sample_every(PERIOD_NS as f64 / samples);
        self.host.sample_every(PERIOD_NS as f64 / samples);
        samples
    }

    /// A bin of `periods`: all of it, or what stands for all of it.
    fn whole_bin(&mut self, gbps: f64, periods: u32, policy: &mut dyn Policy) -> Tally {
        let (mut all, mut left) = (Tally::default(), periods);
        let exact = self.scenario.exact || self.scenario.trace.arrivals != Arrivals::Poisson;
        while left > 0 && !exact {
            let (mut calm, mut settled) = (Tally::default(), 0);
            while left > 0 && settled < CALM {
                self.period(gbps, if settled == 0 { &mut all } else { &mut calm }, policy);
                settled = if policy.settled() { settled + 1 } else { 0 };
                left -= 1;
            }
            all.merge(&calm, 1.0, 1.0);
            if left <= STAND_IN || self.near_saturation(&calm) {
                break;
            }
            let (mut stand_in, mut done) = (Tally::default(), 0);
            while done < STAND_IN && policy.settled() {
                self.period(gbps, &mut stand_in, policy);
                done += 1;
            }
            let weight = if done == STAND_IN { f64::from(left) / f64::from(STAND_IN) } else { 1.0 };
            left = if done == STAND_IN { 0 } else { left - done };
            all.merge(&stand_in, weight, weight);
        }
        (0..left).for_each(|_| self.period(gbps, &mut all, policy));
        all
    }

    /// True if a side has about as much to do as it can.
    fn near_saturation(&self, tally: &Tally) -> bool {
        let kept = self.gbps(tally.offered - tally.to_host, tally);
        let sides = [(&self.nic, kept), (&self.host, self.gbps(tally.to_host, tally))];
        let forwarder =
            self.forwarder.as_ref().map(|station| (station, self.gbps(tally.offered, tally)));
        sides
            .into_iter()
            .chain(forwarder)
            .any(|(side, gbps)| NEAR_SATURATION.contains(&(gbps / side.gbps(self.bits))))
    }

    /// Time of the next packet.
    fn advance(&mut self, gbps: f64) {
        // bits over Gbit/s are ns.
        let least = self.bits / LINE_GBPS;
        if gbps <= 0.0 {
            self.next = f64::INFINITY;
            return;
        }
        let mean = self.bits / gbps;
        self.next += match self.scenario.trace.arrivals {
            Arrivals::Poisson => least + (mean - least).max(0.0) * self.rng.exponential(),
            Arrivals::Bursts { .. } if self.next + least <= self.burst_until => least,
            Arrivals::Bursts { us } => {
                let gap = us * 1000.0 * (LINE_GBPS / gbps - 1.0).max(0.0) * self.rng.exponential();
                self.burst_until = self.next + least + gap + us * 1000.0;
                least + gap
            }
        };
    }

    /// A period of the trace, and what the policy makes of it.
    fn period(&mut self, gbps: f64, tally: &mut Tally, policy: &mut dyn Policy) {
        let end = self.now + PERIOD_NS as f64;
        let (offered, served) = (tally.offered, tally.nic_served);
        let set = match self.scenario.system {
            System::Balanced(director) => setting(
                self.decision.threshold / 8.0,
                self.received / 8.0,
                director.window_ns,
                director.burst,
            ),
            _ => Default::default(),
        };
        self.period_nic.clear();
        while self.next < end {
            let now = self.next;
            self.one(now, &set, tally);
            self.simulated += 1;
            self.advance(gbps);
        }
        tally.asleep_ns += self.host.slept(end);
        tally.ns += PERIOD_NS as f64;
        tally.threshold_ns += self.decision.threshold * PERIOD_NS as f64;
        self.now = end;

        let waiting = self.nic.waiting(end);
        let per_second = self.bits * 1e9 / PERIOD_NS as f64;
        self.received = (tally.offered - offered) * per_second;
        let seen = Observation {
            function: 0,
            received: self.received,
            nic_done: (tally.nic_served - served + self.last_waiting - waiting).max(0.0)
                * per_second,
            nic_queue: self.nic.fullest(end),
            host_queue: self.host.fullest(end),
            nic_p99_ns: p99(&mut self.period_nic),
        };
        self.last_waiting = waiting;
        self.decision = policy.observe(&seen);
        if let Some(wake) = &mut self.wake
            && wake.observe(self.received, PERIOD_NS as f64, self.decision.threshold)
                == HostPower::Awake
        {
            self.host.stay_awake(end);
        }
    }

    /// A packet.
    fn one(&mut self, now: f64, set: &crate::director::meter::Setting, tally: &mut Tally) {
        tally.offered += 1.0;
        let bytes = u64::from(self.scenario.profile.packet_bytes);
        let mut before = 0.0;
        let nic = match self.scenario.system {
            System::NicOnly => true,
            System::HostOnly | System::HostSleeping(_) => false,
            System::Balanced(director) => {
                self.meter.keep(self.decision.mode, set, director.lazy, bytes, || now as u64)
            }
            System::Software { threshold_gbps, .. } => {
                let Some(forwarder) = &mut self.forwarder else { return };
                match forwarder.packet(now, &mut self.rng) {
                    Fate::Lost => {
                        tally.lost += 1.0;
                        return;
                    }
                    Fate::Served { ns, .. } => before = ns,
                }
                let set = setting(threshold_gbps * 1e9 / 8.0, 0.0, PERIOD_NS, 0);
                self.meter.keep(Mode::Window, &set, false, bytes, || now as u64)
            }
        };
        let side = if nic { &mut self.nic } else { &mut self.host };
        if !nic {
            tally.to_host += 1.0;
        }
        match side.packet(now + before, &mut self.rng) {
            Fate::Lost => tally.lost += 1.0,
            Fate::Served { ns, sample } => {
                let ns = ns + before;
                if sample {
                    tally.time.add(ns);
                }
                if nic {
                    tally.nic_served += 1.0;
                    tally.nic.add(ns);
                    if self.period_nic.len() < 4096 {
                        self.period_nic.push(ns);
                    }
                } else {
                    tally.host.add(ns);
                }
            }
        }
    }

    fn watts(&self, tally: &Tally) -> f64 {
        let power = &self.scenario.profile.power;
        let ns = tally.ns.max(1.0);
        let nic_load = tally.nic_served * self.bits / ns / self.scenario.profile.nic.gbps;
        power.idle_watts
            + power.nic_watts * nic_load.min(1.0)
            + power.host_watts * self.awake(tally)
    }

    /// Share of their time that the host's cores are awake.
    fn awake(&self, tally: &Tally) -> f64 {
        match self.scenario.system {
            System::NicOnly => 0.0,
            System::HostOnly => 1.0,
            System::Software { threshold_gbps, .. } => f64::from(threshold_gbps < LINE_GBPS),
            System::HostSleeping(_) | System::Balanced(_) => {
                1.0 - tally.asleep_ns / tally.ns.max(1.0)
            }
        }
    }

    fn gbps(&self, packets: f64, tally: &Tally) -> f64 {
        packets * self.bits / tally.ns.max(1.0)
    }

    fn bin(&self, offered_gbps: f64, tally: &Tally) -> Bin {
        let mut all = tally.nic.clone();
        all.merge(&tally.host, 1.0);
        Bin {
            offered_gbps,
            served_gbps: self.gbps(tally.offered - tally.lost, tally),
            threshold_gbps: tally.threshold_ns / tally.ns.max(1.0) / 1e9,
            p99_us: all.quantile(0.99).unwrap_or(0.0) / 1000.0,
            watts: self.watts(tally),
        }
    }

    fn report(&self, total: &Tally, bins: Vec<Bin>) -> Report {
        let us = |histogram: &Histogram| histogram.quantile(0.99).map(|ns| ns / 1000.0);
        let mut all = total.nic.clone();
        all.merge(&total.host, 1.0);
        Report {
            offered_gbps: self.gbps(total.offered, total),
            average_gbps: self.gbps(total.offered - total.lost, total),
            max_gbps: bins.iter().map(|bin| bin.served_gbps).fold(0.0, f64::max),
            lost: total.lost / total.offered.max(1.0),
            to_host: total.to_host / total.offered.max(1.0),
            time_p99_us: us(&total.time).unwrap_or(0.0),
            packet_p99_us: us(&all).unwrap_or(0.0),
            nic_p99_us: us(&total.nic),
            host_p99_us: us(&total.host),
            awake: self.awake(total),
            watts: self.watts(total),
            bins,
            simulated: self.simulated,
        }
    }
}

/// p99 of what was measured, ns; none of fewer than 50.
fn p99(latencies: &mut [f64]) -> Option<f64> {
    if latencies.len() < 50 {
        return None;
    }
    let at = latencies.len() * 99 / 100;
    Some(*latencies.select_nth_unstable_by(at, f64::total_cmp).1)
}

#[cfg(test)]
mod tests;
