//! What a run of a simulated design says: cycles, waits, latencies, and what stages counted.

use nicforge_codegen::rtl::{Form, Stage};
use nicforge_driver::program::Loaded;
use nicforge_run::rtl::{RtlProgram, RtlStats};
use nicforge_target::Target;
use serde_json::{Value, json};

/// The clock of a design: that of the target's first units.
fn clock(target: &Target) -> f64 {
    target.units.first().map_or(250e6, |group| group.clock.value)
}

/// Cycles that `share` of the packets did not exceed.
fn quantile(latencies: &[u64], share: f64) -> u64 {
    let last = latencies.len().saturating_sub(1);
    latencies.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

/// Cycles of a packet.
fn cycles(stats: &RtlStats) -> f64 {
    stats.busy_cycles as f64 / stats.events.max(1) as f64
}

/// The run for people.
pub fn print(
    target: &Target,
    loaded: &Loaded,
    stages: &[Stage],
    stats: &RtlStats,
    left_out: usize,
) {
    let (each, mhz) = (cycles(stats), clock(target) / 1e6);
    let mpps = mhz / each;
    outln!(
        "{} events in {} cycles: {each:.2} cycles an event, {mpps:.1} million a second at {mhz} MHz",
        stats.events,
        stats.busy_cycles
    );
    if left_out > 0 {
        outln!("{left_out} frames shorter than 14 or longer than 1518 bytes were left out");
    }
    outln!("sent {} packets, {} to the host", stats.sent, stats.to_host);
    for (at, reason) in loaded.program.reasons.values().enumerate() {
        let count = stats.counters.get(&format!("drop_{at}")).copied().unwrap_or(0);
        if count > 0 {
            outln!("dropped {count}: {}", reason.text);
        }
    }
    for (name, count) in stats.counters.iter().filter(|(_, count)| **count > 0) {
        if name.starts_with("refused_") || name.starts_with("evicted_") {
            outln!("{}: {count}", name.replace('_', " "));
        }
    }
    outln!(
        "waits: {} cycles the stream in for the design, {} the design for the stream out, {} for the host's",
        stats.waits_in,
        stats.waits_out,
        stats.host_waits
    );
    for stage in stage_counts(stages, stats) {
        outln!(
            "stage {}: {:.1} cycles an event, waiting included; {} waiting or under way at most; {} cycles the next stage full",
            stage.name,
            stage.mean(),
            stage.most,
            stage.next_full
        );
    }
    if !stats.latencies.is_empty() {
        let ns = 1e3 / mhz;
        let [least, median, p99, most] =
            [0.0, 0.5, 0.99, 1.0].map(|share| quantile(&stats.latencies, share));
        outln!(
            "latency from the first beat in to the first beat out, in cycles of {ns} ns: least {least} ({:.0} ns), median {median}, 99 % {p99}, most {most}",
            least as f64 * ns
        );
    }
}

/// Counts of a design's stage.
struct StageCount<'a> {
    name: &'a str,
    events: u64,
    cycles: u64,
    most: u64,
    next_full: u64,
}

impl StageCount<'_> {
    /// Cycles that an outside event is at the stage.
    fn mean(&self) -> f64 {
        self.cycles as f64 / self.events.max(1) as f64
    }
}

fn stage_counts<'a>(design: &'a [Stage], stats: &RtlStats) -> Vec<StageCount<'a>> {
    let of = |stage: &'a Stage| {
        let counter = |what: &str| {
            stats.counters.get(&format!("stage_{}_{what}", stage.name)).copied().unwrap_or(0)
        };
        StageCount {
            name: &stage.name,
            events: counter("events"),
            cycles: counter("cycles"),
            most: counter("most"),
            next_full: counter("next_full"),
        }
    };
    design.iter().map(of).collect()
}

/// The stages of a design, if it has several.
pub fn stages_of(design: &RtlProgram) -> &[Stage] {
    match &design.artifact().form {
        Form::Stages { stages, .. } => stages,
        _ => &[],
    }
}

/// The run for programs.
pub fn report(
    target: &Target,
    loaded: &Loaded,
    stages: &[Stage],
    stats: &RtlStats,
    left_out: usize,
) -> Value {
    let (each, hz) = (cycles(stats), clock(target));
    let quantiles = [0.0, 0.5, 0.99, 1.0].map(|share| quantile(&stats.latencies, share));
    let drops: Vec<Value> = loaded
        .program
        .reasons
        .values()
        .enumerate()
        .map(|(at, reason)| json!({ "reason": reason.text, "packets": stats.counters.get(&format!("drop_{at}")) }))
        .collect();
    let stages: Vec<Value> = stage_counts(stages, stats)
        .iter()
        .map(|stage| {
            json!({
                "name": stage.name, "events": stage.events, "mean_cycles": stage.mean(), "most": stage.most,
                "cycles_next_full": stage.next_full,
            })
        })
        .collect();
    json!({
        "schema": "nicforge/run-rtl", "version": 1, "target": target.name, "program": loaded.program.name,
        "events": stats.events, "left_out": left_out, "cycles": stats.busy_cycles, "cycles_per_event": each,
        "mpps_at_250_mhz": 250.0 / each, "clock_hz": hz, "mpps": hz / 1e6 / each,
         "sent": stats.sent, "to_host": stats.to_host, "drops": drops,
        "beats": { "in": stats.beats_in, "out": stats.beats_out, "host": stats.host_beats },
        "waits": { "in": stats.waits_in, "out": stats.waits_out, "host": stats.host_waits },
        "latency_cycles": { "least": quantiles[0], "median": quantiles[1], "p99": quantiles[2], "most": quantiles[3] },
        "counters": stats.counters, "stages": stages,
    })
}
