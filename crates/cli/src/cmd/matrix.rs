//! Which program runs where: `check --target`.

use nicforge_ir::Program;
use nicforge_target::support::{self, Missing};
use nicforge_target::{self as target, Target};
use serde_json::{Value, json};

use crate::args::Source;
use crate::by_target;
use crate::context::{Failure, Runtime};
use crate::program::Loaded;

/// The targets a name stands for.
pub fn targets(name: &str) -> Result<Vec<Target>, Failure> {
    let names = if name == "all" { target::names() } else { vec![name] };
    names.into_iter().map(find).collect()
}

/// A target by name or file.
pub fn find(name: &str) -> Result<Target, Failure> {
    target::find(name).map_err(|e| {
        let unknown = e.line.is_none() && !name.ends_with(".toml");
        if unknown { Failure::usage(e.reason) } else { Failure::user(e.to_string()) }
    })
}

/// What of a program runs on a target's accelerators.
fn accelerated(
    program: &Program,
    target: &Target,
) -> Vec<(String, target::AcceleratedOp, nicforge_ir::Span)> {
    target::accelerate::uses(program, target)
}

/// One line per target; what is missing below it, with its place.
pub fn print(
    general: &Loaded,
    source: &Source,
    targets: &[Target],
    runtime: &Runtime,
) -> Result<(), Failure> {
    let width = targets.iter().map(|t| t.name.len()).max().unwrap_or(0);
    for target in targets {
        let own = by_target::again(general, source, target, runtime)?;
        let program = &own.as_ref().unwrap_or(general).program;
        let missing = support::missing(program, target);
        let verdict = if missing.is_empty() { "yes" } else { "no" };
        outln!("  {:width$}  {verdict}", target.name);
        for (accelerator, op, span) in accelerated(program, target) {
            outln!("  {:width$}      {}: {} on {accelerator}", "", program.place(span), op.name());
        }
        for item in &missing {
            outln!("  {:width$}      {}: lacks {}", "", program.place(item.span), item.what);
        }
    }
    Ok(())
}

/// The same for programs.
pub fn json(
    general: &Loaded,
    source: &Source,
    targets: &[Target],
    runtime: &Runtime,
) -> Result<Value, Failure> {
    let rows = targets.iter().map(|target| {
        let own = by_target::again(general, source, target, runtime)?;
        let program = &own.as_ref().unwrap_or(general).program;
        let item = |missing: &Missing| json!({ "construct": missing.what, "place": program.place(missing.span) });
        let missing: Vec<Value> = support::missing(program, target).iter().map(item).collect();
        let accelerated: Vec<Value> = accelerated(program, target)
            .into_iter()
            .map(|(name, op, span)| json!({ "accelerator": name, "op": op.name(), "place": program.place(span) }))
            .collect();
        let runs = missing.is_empty();
        Ok(json!({ "target": target.name, "runs": runs, "missing": missing, "accelerated": accelerated }))
    });
    rows.collect::<Result<Vec<Value>, Failure>>().map(Value::Array)
}
