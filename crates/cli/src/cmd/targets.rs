//! `nicforge targets`: the specifications there are.

use nicforge_driver::{Failure, targets};
use nicforge_target as target;
use serde_json::{Value, json};

use crate::args::{Targets, TargetsAction};

/// Lists targets, or prints one.
pub fn run(args: Targets) -> Result<(), Failure> {
    match args.action {
        Some(TargetsAction::Show { target: name }) if !args.json => {
            outln!("{}", text(&name)?.trim_end());
            Ok(())
        }
        Some(TargetsAction::Show { target: name }) => {
            outln!(
                "{:#}",
                json!({ "schema": "nicforge/target", "version": 1, "target": targets::json(&targets::find(&name)?) })
            );
            Ok(())
        }
        Some(TargetsAction::Fit { target, from, output }) => {
            super::targets_fit::run(&target, &from, output.as_deref(), args.json)
        }
        Some(TargetsAction::Measure { like, from, output }) => {
            super::targets_measure::run(&like, from.as_deref(), output.as_deref(), args.json)
        }
        None => list(args.json),
    }
}

/// The text of a specification, by its name or file.
pub fn text(name: &str) -> Result<String, Failure> {
    // Read before it is shown, so that a broken file is refused rather than printed.
    let found = targets::find(name)?;
    match target::source(&found.name) {
        Some(text) if !name.ends_with(".toml") => Ok(text.to_string()),
        _ => std::fs::read_to_string(name).map_err(|e| Failure::user(format!("{name}: {e}"))),
    }
}

fn list(as_json: bool) -> Result<(), Failure> {
    let targets = targets::named("all")?;
    if as_json {
        let rows: Vec<Value> = targets.iter().map(targets::json).collect();
        outln!("{:#}", json!({ "schema": "nicforge/targets", "version": 1, "targets": rows }));
        return Ok(());
    }
    for target in &targets {
        let units: Vec<String> =
            target.units.iter().map(|g| format!("{} {} at {}", g.count, g.name, g.clock)).collect();
        outln!(
            "{:11} {:52} {:9} {}",
            target.name,
            target.title,
            targets::speed(target),
            units.join(", ")
        );
    }
    Ok(())
}
