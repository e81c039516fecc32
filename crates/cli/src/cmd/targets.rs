//! `nicforge targets`: the specifications there are.

use crate::args::{Targets, TargetsAction};
use nicforge_driver::{Failure, targets};
use nicforge_target::{self as target, Speed, Target};
use serde_json::{Value, json};

/// Lists targets, or prints one.
pub fn run(args: Targets) -> Result<(), Failure> {
    match args.action {
        Some(TargetsAction::Show { target: name }) if !args.json => {
            // Read before it is shown, so that a broken file is refused rather than printed.
            let found = targets::find(&name)?;
            match target::source(&found.name) {
                Some(text) if !name.ends_with(".toml") => outln!("{}", text.trim_end()),
                _ => {
                    let text = std::fs::read_to_string(&name)
                        .map_err(|e| Failure::user(format!("{name}: {e}")))?;
                    outln!("{}", text.trim_end());
                }
            }
            Ok(())
        }
        Some(TargetsAction::Show { target: name }) => {
            outln!(
                "{:#}",
                json!({ "schema": "nicforge/target", "version": 1, "target": row(&targets::find(&name)?) })
            );
            Ok(())
        }
        None => list(args.json),
    }
}

fn list(as_json: bool) -> Result<(), Failure> {
    let targets = targets::named("all")?;
    if as_json {
        let rows: Vec<Value> = targets.iter().map(row).collect();
        outln!("{:#}", json!({ "schema": "nicforge/targets", "version": 1, "targets": rows }));
        return Ok(());
    }
    for target in &targets {
        let units: Vec<String> =
            target.units.iter().map(|g| format!("{} {} at {}", g.count, g.name, g.clock)).collect();
        outln!("{:11} {:52} {:9} {}", target.name, target.title, speed(target), units.join(", "));
    }
    Ok(())
}

fn speed(target: &Target) -> &'static str {
    match target.speed {
        Speed::Measured => "measured",
        Speed::Modelled => "modelled",
    }
}

fn row(target: &Target) -> Value {
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
