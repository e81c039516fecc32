//! Targets by name or file.

use nicforge_target::{self as target, Speed, Target};
use serde_json::{Value, json};

use crate::Failure;

/// The name that stands for every target there is.
pub const ALL: &str = "all";

/// The targets a name stands for.
pub fn named(name: &str) -> Result<Vec<Target>, Failure> {
    let names = if name == ALL { target::names() } else { vec![name] };
    names.into_iter().map(find).collect()
}

/// A target by name or file.
pub fn find(name: &str) -> Result<Target, Failure> {
    target::find(name).map_err(|e| {
        let unknown = e.line.is_none() && !name.ends_with(".toml");
        if unknown { Failure::usage(e.reason) } else { Failure::user(e.to_string()) }
    })
}

/// `measured` or `modelled`, as a target's figures are.
pub fn speed(target: &Target) -> &'static str {
    match target.speed {
        Speed::Measured => "measured",
        Speed::Modelled => "modelled",
    }
}

/// A target as JSON: units, memories, ports, events, accelerators.
pub fn json(target: &Target) -> Value {
    let units = target.units.iter().map(|g| {
        json!({
            "name": g.name, "count": g.count, "threads": g.threads, "clock_hz": g.clock.value,
            "device": format!("{:?}", g.device).to_lowercase(),
        })
    });
    let memories = target.memories.iter().map(|m| {
        json!({ "name": m.name, "bytes": m.size.value, "scope": format!("{:?}", m.scope).to_lowercase() })
    });
    json!({
        "name": target.name,
        "title": target.title,
        "speed": speed(target),
        "units": units.collect::<Vec<_>>(),
        "memories": memories.collect::<Vec<_>>(),
        "ports": { "count": target.ports.count, "bits_per_second": target.ports.rate.value },
        "events": target.events.keys().collect::<Vec<_>>(),
        "accelerators": target.accelerators.iter().map(|a| json!({
            "name": a.name, "count": a.count, "units": a.units, "software": a.software,
            "ops": a.ops.iter().map(|op| op.name()).collect::<Vec<_>>(),
            "operations_per_second": a.operations.value, "bits_per_second": a.throughput.value,
            "latency_ns": a.latency.value, "issue_cycles": a.issue_cycles, "queue": a.queue,
        })).collect::<Vec<_>>(),
    })
}
