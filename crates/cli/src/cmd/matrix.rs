//! Which program runs where: `check --target`.

use nicforge_ir::Program;
use nicforge_target::support::{self, Missing};
use nicforge_target::{self as target, Target};
use serde_json::{Value, json};

use super::plan;
use super::tried::Refused;
use crate::backend;
use crate::by_target::Programs;
use crate::context::{Failure, Runtime};

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

/// What stands against a program that lacks nothing of a target: this machine's kernel, where that
/// is the target, or no plan that fits.
fn refused(
    programs: &Programs,
    number: usize,
    target: &Target,
    missing: &[Missing],
    runtime: &Runtime,
) -> Result<Option<Refused>, Failure> {
    if !missing.is_empty() {
        return Ok(None);
    }
    let loaded = programs.of(number);
    let here = backend::of(target).ok().and_then(|on| on.refused(target, loaded, runtime));
    if here.is_some() {
        return Ok(here);
    }
    let program = &loaded.program;
    Ok(plan::unfit(program, target)?.map(|reason| Refused {
        place: program.name.clone(),
        reason: format!("no plan fits: {reason}"),
        remedy: "give tables fewer entries or smaller ones".to_string(),
    }))
}

/// One line per target; what is missing below it, with its place.
///
/// # Errors
/// A pass failed.
pub fn print(programs: &Programs, targets: &[Target], runtime: &Runtime) -> Result<(), Failure> {
    let width = targets.iter().map(|t| t.name.len()).max().unwrap_or(0);
    for (number, target) in targets.iter().enumerate() {
        let program = &programs.of(number).program;
        let missing = support::missing(program, target);
        let tried = refused(programs, number, target, &missing, runtime)?;
        let verdict = if missing.is_empty() && tried.is_none() { "yes" } else { "no" };
        outln!("  {:width$}  {verdict}", target.name);
        for (accelerator, op, span) in accelerated(program, target) {
            outln!("  {:width$}      {}: {} on {accelerator}", "", program.place(span), op.name());
        }
        for item in &missing {
            outln!("  {:width$}      {}: lacks {}", "", program.place(item.span), item.what);
        }
        if let Some(Refused { place, reason, remedy }) = &tried {
            outln!("  {:width$}      {place}: {reason}", "");
            outln!("  {:width$}      help: {remedy}", "");
        }
    }
    Ok(())
}

/// The matrix as JSON.
///
/// # Errors
/// A pass failed.
pub fn json(programs: &Programs, targets: &[Target], runtime: &Runtime) -> Result<Value, Failure> {
    let rows = targets.iter().enumerate().map(|(number, target)| {
        let program = &programs.of(number).program;
        let item = |missing: &Missing| json!({ "construct": missing.what, "place": program.place(missing.span) });
        let lacks = support::missing(program, target);
        let tried = refused(programs, number, target, &lacks, runtime)?;
        let missing: Vec<Value> = lacks.iter().map(item).collect();
        let accelerated: Vec<Value> = accelerated(program, target)
            .into_iter()
            .map(|(name, op, span)| json!({ "accelerator": name, "op": op.name(), "place": program.place(span) }))
            .collect();
        let runs = missing.is_empty() && tried.is_none();
        let mut row = json!({ "target": target.name, "runs": runs, "missing": missing, "accelerated": accelerated });
        if let Some(refused) = tried {
            row["refused"] = refused.json();
        }
        Ok(row)
    });
    rows.collect::<Result<Vec<Value>, Failure>>().map(Value::Array)
}
