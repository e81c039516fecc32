//! What a simulation found.

use nicforge_ir::Program;
use nicforge_plan::Plan;
use nicforge_target::{Device, Target};
use serde_json::{Value, json};

use crate::model::{Crossing, Model, Serves};
use crate::stats::{Counts, Place, Stats};

/// Version of the JSON form.
pub const VERSION: u32 = 1;

/// One run. Rates, latencies, loads and power are those after the warm-up; packets are counted from
/// the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub program: String,
    pub target: String,
    pub seconds: f64,
    pub warm_up_seconds: f64,
    pub packets: Packets,
    pub offered: Flow,
    /// Frames that left by ports, and packets that went to the operating system or the host side.
    pub delivered: Flow,
    /// Share of the offered packets that queues lost, after the warm-up.
    pub loss: f64,
    /// Packets under way at the end beyond those at the end of the warm-up, as a share of the
    /// offered ones: queues that grow will lose packets later.
    pub piled_up: f64,
    pub latency: Option<Latency>,
    pub stages: Vec<StageLoad>,
    pub groups: Vec<GroupLoad>,
    pub memories: Vec<MemoryLoad>,
    /// Those that ops ran on.
    pub accelerators: Vec<MemoryLoad>,
    /// Share of its bandwidth in use, to the host and back.
    pub host_link: Option<[f64; 2]>,
    pub power: Power,
    pub events: u64,
    /// Wall time of the run.
    pub wall_seconds: f64,
    pub interrupted: bool,
}

/// Every packet is somewhere: `offered = sent + dropped + lost + stack + host + in flight`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packets {
    pub offered: u64,
    pub sent: u64,
    /// Frames sent that no packet came in for.
    pub made: u64,
    pub stack: u64,
    pub host: u64,
    pub messages: u64,
    /// By the program's reasons.
    pub dropped: Vec<(String, u64)>,
    /// By place.
    pub lost: Vec<(String, u64)>,
    pub in_flight: u64,
}

impl Packets {
    /// Packets that are nowhere; anything but 0 is a mistake of the simulator.
    pub fn missing(&self) -> i64 {
        let dropped: u64 = self.dropped.iter().map(|(_, n)| n).sum();
        let lost: u64 = self.lost.iter().map(|(_, n)| n).sum();
        let known = self.sent + self.stack + self.host + dropped + lost + self.in_flight;
        self.offered as i64 - known as i64
    }
}

/// Frames and their bits, without preamble, gap and CRC, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    pub pps: f64,
    pub bps: f64,
}

/// From the first bit at a port to the last bit at another, or to the host, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StageLoad {
    pub name: String,
    pub group: String,
    pub replicas: u32,
    pub events_per_second: f64,
    /// Share of the time its processors work, and have something under way.
    pub busy: f64,
    pub occupied: f64,
    /// Cycles of the processor per event.
    pub cycles: f64,
    /// Events that wait in front of one unit: on average, and at most.
    pub queue_mean: f64,
    pub queue_max: u64,
    pub queue_depth: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupLoad {
    pub name: String,
    pub units: u32,
    pub used: u32,
    pub busy: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MemoryLoad {
    pub name: String,
    /// Share of the bandwidth in use, of the busiest instance.
    pub busy: f64,
    pub accesses_per_second: f64,
    /// Waiting for a turn, in nanoseconds.
    pub wait_mean: f64,
    pub wait_max: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Power {
    pub watts: f64,
    pub nj_per_packet: f64,
}

/// The name of a place where packets are lost.
fn place_name(place: Place, model: &Model) -> String {
    match place {
        Place::Wire => "wire".to_string(),
        Place::PacketRate => "ports' packet rate".to_string(),
        Place::Receive(stage) => format!("receive queue of {}", model.stages[stage].name),
        Place::Link(stage) => format!("link to {}", model.stages[stage].name),
        Place::Transmit => "transmit queue".to_string(),
        Place::NoPort => "no such port".to_string(),
        Place::NoRoom => "no room for headers".to_string(),
    }
}

fn since(now: &Counts, before: &Counts, what: impl Fn(&Counts) -> u64) -> f64 {
    (what(now) - what(before)) as f64
}

impl Report {
    /// Adds up what was counted.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        target: &Target,
        plan: &Plan,
        program: &Program,
        model: &Model,
        stats: &Stats,
        in_flight: u64,
        wall_seconds: f64,
    ) -> Report {
        let (counts, before) = (&stats.counts, &stats.before);
        let window_ps = (stats.ended - stats.started).max(1) as f64;
        let seconds = window_ps * 1e-12;
        let per = |what: &dyn Fn(&Counts) -> u64| since(counts, before, what) / seconds;
        let offered = per(&|c| c.offered);
        let lost: f64 = since(counts, before, Counts::all_lost);
        let mut lost_by: Vec<(Place, u64)> = counts.lost.clone();
        lost_by.sort();
        let ns = |ps: u64| ps as f64 / 1e3;
        let latency = (stats.latency.count() > 0).then(|| Latency {
            min: ns(stats.latency.min()),
            mean: stats.latency.mean() / 1e3,
            p50: ns(stats.latency.quantile(0.5)),
            p90: ns(stats.latency.quantile(0.9)),
            p99: ns(stats.latency.quantile(0.99)),
            p999: ns(stats.latency.quantile(0.999)),
            max: ns(stats.latency.max()),
        });
        let stages: Vec<StageLoad> = model
            .stages
            .iter()
            .zip(&stats.stages)
            .map(|(stage, load)| StageLoad {
                name: stage.name.clone(),
                group: target.units[stage.group].name.clone(),
                replicas: stage.replicas,
                events_per_second: load.events as f64 / seconds,
                busy: load.busy_ps / window_ps / f64::from(stage.replicas),
                occupied: load.occupied_ps / window_ps / f64::from(stage.replicas),
                cycles: load.busy_ps / stage.cycle_ps / load.events.max(1) as f64,
                queue_mean: load.depth_ps / window_ps / f64::from(stage.replicas),
                queue_max: load.deepest as u64,
                queue_depth: stage.depth,
            })
            .collect();
        let on_host = model.stages.iter().any(|stage| stage.device == Device::Host);
        let mut watts = target.power.nic_base.value;
        if on_host {
            watts += target.power.host_base.value;
        }
        let mut groups = Vec::new();
        for (g, group) in target.units.iter().enumerate() {
            let of_group =
                || model.stages.iter().zip(&stages).filter(|(stage, _)| stage.group == g);
            let used: u32 = of_group().map(|(stage, _)| stage.replicas).sum();
            let sum = |what: &dyn Fn(&StageLoad) -> f64| -> f64 {
                of_group().map(|(stage, load)| what(load) * f64::from(stage.replicas)).sum()
            };
            let occupied = sum(&|load| load.occupied);
            // The host's other cores are not the program's.
            if group.device == Device::Nic || used > 0 || on_host {
                watts += occupied * group.active_power.value
                    + (f64::from(group.count.max(used)) - occupied) * group.idle_power.value;
            }
            if used > 0 {
                let busy = sum(&|load| load.busy) / f64::from(used);
                groups.push(GroupLoad { name: group.name.clone(), units: group.count, used, busy });
            }
        }
        let delivered = per(&|c| c.sent + c.made + c.stack + c.host);
        let share = |way: Crossing| stats.host_link_ps[way as usize] / window_ps;
        Report {
            program: plan.program.clone(),
            target: target.name.clone(),
            seconds: stats.ended as f64 * 1e-12,
            warm_up_seconds: stats.started as f64 * 1e-12,
            packets: Packets {
                offered: counts.offered,
                sent: counts.sent,
                made: counts.made,
                stack: counts.stack,
                host: counts.host,
                messages: counts.messages,
                dropped: program
                    .reasons
                    .values()
                    .zip(&counts.dropped)
                    .filter(|(_, n)| **n > 0)
                    .map(|(reason, n)| (reason.text.clone(), *n))
                    .collect(),
                lost: lost_by.into_iter().map(|(place, n)| (place_name(place, model), n)).collect(),
                in_flight,
            },
            offered: Flow { pps: offered, bps: 8.0 * per(&|c| c.offered_bytes) },
            delivered: Flow { pps: delivered, bps: 8.0 * per(&|c| c.sent_bytes) },
            loss: if offered > 0.0 { lost / (offered * seconds) } else { 0.0 },
            piled_up: if offered > 0.0 {
                in_flight.saturating_sub(stats.started_with) as f64 / (offered * seconds)
            } else {
                0.0
            },
            latency,
            stages,
            groups,
            memories: served(
                target.memories.iter().map(|m| &m.name),
                Serves::Memory,
                model,
                stats,
                window_ps,
            ),
            accelerators: served(
                target.accelerators.iter().map(|a| &a.name),
                Serves::Accelerator,
                model,
                stats,
                window_ps,
            ),
            host_link: model
                .host_link
                .as_ref()
                .map(|_| [share(Crossing::ToHost), share(Crossing::ToNic)]),
            power: Power {
                watts,
                nj_per_packet: if delivered > 0.0 { watts / delivered * 1e9 } else { 0.0 },
            },
            events: stats.events,
            wall_seconds,
            interrupted: stats.interrupted,
        }
    }

    /// Nanoseconds of wall time per event of the simulation.
    pub fn wall_ns_per_event(&self) -> f64 {
        self.wall_seconds * 1e9 / self.events.max(1) as f64
    }

    /// The report as `nicforge/sim`. Everything but `wall` is the same on every run and machine.
    pub fn json(&self) -> Value {
        let counts = |list: &[(String, u64)]| -> Value {
            list.iter()
                .map(|(name, n)| (name.clone(), json!(n)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let flow = |flow: &Flow| json!({ "pps": flow.pps, "bits_per_second": flow.bps });
        json!({
            "schema": "nicforge/sim", "version": VERSION,
            "program": self.program, "target": self.target,
            "seconds": self.seconds, "warm_up_seconds": self.warm_up_seconds,
            "interrupted": self.interrupted,
            "offered": flow(&self.offered), "delivered": flow(&self.delivered), "loss": self.loss,
            "packets": {
                "offered": self.packets.offered, "sent": self.packets.sent, "made": self.packets.made,
                "stack": self.packets.stack, "host": self.packets.host, "messages": self.packets.messages,
                "dropped": counts(&self.packets.dropped), "lost": counts(&self.packets.lost),
                "in_flight": self.packets.in_flight,
            },
            "latency_ns": self.latency.map(|l| json!({
                "min": l.min, "mean": l.mean, "p50": l.p50, "p90": l.p90, "p99": l.p99, "p99.9": l.p999, "max": l.max,
            })),
            "stages": self.stages.iter().map(|s| json!({
                "name": s.name, "group": s.group, "replicas": s.replicas, "events_per_second": s.events_per_second,
                "busy": s.busy, "occupied": s.occupied, "cycles": s.cycles,
                "queue": { "mean": s.queue_mean, "max": s.queue_max, "depth": s.queue_depth },
            })).collect::<Vec<_>>(),
            "groups": self.groups.iter().map(|g| json!({
                "name": g.name, "units": g.units, "used": g.used, "busy": g.busy,
            })).collect::<Vec<_>>(),
            "memories": loads(&self.memories),
            "accelerators": loads(&self.accelerators),
            "host_link": self.host_link.map(|[out, back]| json!({ "to_host": out, "to_nic": back })),
            "power": { "watts": self.power.watts, "nj_per_packet": self.power.nj_per_packet },
            "events": self.events,
            "wall": { "seconds": self.wall_seconds, "ns_per_event": self.wall_ns_per_event() },
        })
    }
}

fn loads(list: &[MemoryLoad]) -> Value {
    let row = |m: &MemoryLoad| {
        json!({
            "name": m.name, "busy": m.busy, "accesses_per_second": m.accesses_per_second,
            "wait_ns": { "mean": m.wait_mean, "max": m.wait_max },
        })
    };
    Value::Array(list.iter().map(row).collect())
}

/// Counts of what was served: by the memories, or by the accelerators, of these names.
fn served<'a>(
    names: impl Iterator<Item = &'a String>,
    kind: fn(usize) -> Serves,
    model: &Model,
    stats: &Stats,
    window_ps: f64,
) -> Vec<MemoryLoad> {
    let mut list = Vec::new();
    for (m, name) in names.enumerate() {
        let of = || {
            model.servers.iter().zip(&stats.servers).filter(|(server, _)| server.serves == kind(m))
        };
        let accesses: u64 = of().map(|(_, load)| load.accesses).sum();
        if accesses == 0 {
            continue;
        }
        let waited: f64 = of().map(|(_, load)| load.waited_ps).sum();
        list.push(MemoryLoad {
            name: name.clone(),
            busy: of().map(|(_, load)| load.busy_ps / window_ps).fold(0.0, f64::max),
            accesses_per_second: accesses as f64 / window_ps * 1e12,
            wait_mean: waited / accesses as f64 / 1e3,
            wait_max: of().map(|(_, load)| load.longest_wait_ps).max().unwrap_or(0) as f64 / 1e3,
        });
    }
    list
}
