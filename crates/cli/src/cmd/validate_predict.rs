//! `nicforge validate predict`: what plans promise beside what the simulator finds, what simulated
//! cores count on the generated code, and what this machine measures.
//!
//! The prediction is the cost model's for the traffic that the simulator offers (its sizes, and how
//! often each branch is taken), before anything of the plan was run. The simulator shares
//! its costs, so it judges queues and sharing; cores and kernel judge the costs themselves.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_driver::options::{Inputs, Planning, Source};
use nicforge_driver::simulation::{self, Offered};
use nicforge_driver::verify::StageCycles;
use nicforge_driver::{Failure, Runtime, backend, planning, program, stop};
use nicforge_target::Target;
use serde_json::{Value, json};

use super::agreement::Agreement;
use super::below;
use crate::args::Validate;
use crate::text::{first_line, table};
use crate::{interrupt, out, parallel};

/// Simulated time of each run that looks for the greatest rate, in seconds.
const SIMULATED: f64 = 0.5e-3;
/// Events of the simulator's traffic that branch frequencies are taken from.
const PROFILED: usize = 4096;

/// A rate, or why there is none; nothing where the target has no such judge here.
type Rate = Option<Result<f64, String>>;

/// One program on one target; all rates in packets per second.
struct Cell {
    program: String,
    target: String,
    /// With what decides it.
    predicted: Result<(f64, String), String>,
    simulated: Rate,
    counted: Rate,
    measured: Rate,
    /// Counted cycles of stages beside the predicted ones.
    stages: Vec<StageCycles>,
}

/// A judge's rate in a cell.
type Judge = fn(&Cell) -> &Rate;

/// Judges, by their column; whether they are of the whole target, as the prediction is.
const JUDGES: [(&str, Judge, bool); 3] = [
    ("simulated", |cell| &cell.simulated, true),
    ("counted", |cell| &cell.counted, true),
    ("measured", |cell| &cell.measured, false),
];

/// Prints the rates of all programs of a folder on all targets, or on those that are named.
///
/// # Errors
/// No program in the folder, or none that has a plan.
pub fn run(from: &Path, args: &Validate) -> Result<(), Failure> {
    let programs = below::files(from, below::with_capture)?;
    let targets = below::targets(&args.targets)?;
    let runtime = Runtime::unpack()?;
    interrupt::stop_in_order();
    let pairs: Vec<(&PathBuf, &Target)> =
        programs.iter().flat_map(|path| targets.iter().map(move |target| (path, target))).collect();
    let done = AtomicUsize::new(0);
    let cells = parallel::each(&pairs, |(path, target)| {
        let cell = (!stop::stopped()).then(|| cell(path, target, &runtime));
        out::progress(done.fetch_add(1, Ordering::Relaxed) + 1, pairs.len());
        cell
    });
    let cells: Vec<Cell> = cells.into_iter().flatten().collect();
    if cells.iter().all(|cell| cell.predicted.is_err()) && !stop::stopped() {
        return Err(Failure::user(format!(
            "no program of {} has a plan; name a folder of Nicforge's programs, such as examples",
            from.display()
        )));
    }
    print(&cells, args.json);
    if stop::stopped() {
        return Err(Failure { code: nicforge_driver::INTERRUPTED, message: String::new() });
    }
    Ok(())
}

fn cell(path: &Path, target: &Target, runtime: &Runtime) -> Cell {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut cell = Cell {
        program: name,
        target: target.name.clone(),
        predicted: Err(String::new()),
        simulated: None,
        counted: None,
        measured: None,
        stages: Vec::new(),
    };
    let said = |failure: Failure| first_line(failure.reason());
    let source = Source { program: path.to_path_buf(), ..Source::default() };
    let inputs = Inputs::default();
    let planning = Planning::default();
    let found = program::load(&source.on(target), runtime).and_then(|mut loaded| {
        let traffic = simulation::traffic(&planning, target, &loaded, &inputs, PROFILED)?;
        planning::profile_on(&mut loaded, &traffic.entries, &traffic.before, &traffic.events)
            .map_err(Failure::user)?;
        let planning = Planning { frame: traffic.frame_bytes, ..planning.clone() };
        planning::find(&loaded, target, &planning).map(|(plan, _)| (loaded, traffic, plan))
    });
    let (loaded, traffic, plan) = match found {
        Ok(found) => found,
        Err(failure) => {
            cell.predicted = Err(said(failure));
            return cell;
        }
    };
    cell.predicted = Ok((plan.predicted.rate_pps, plan.predicted.limit.clone()));
    let lossy = || "every rate loses packets".to_string();
    let simulated = Offered::planned(&planning, SIMULATED)
        .and_then(|traffic| simulation::greatest(&traffic, &inputs, target, &plan, &loaded))
        .map_err(said);
    cell.simulated = Some(simulated.and_then(|rate| rate.ok_or_else(lossy)));
    if let Ok(backend) = backend::of(target) {
        let counted = backend.counted(target, &loaded, &plan, &traffic);
        cell.counted = counted.map(|found| {
            let count = found.map_err(said)?;
            cell.stages = count.stages;
            Ok(count.rate)
        });
        let measured = backend.measured(target, &loaded, &inputs);
        let none = || "no frames to measure on".to_string();
        cell.measured =
            measured.map(|found| found.map_err(said).and_then(|rate| rate.ok_or_else(none)));
    }
    cell
}

/// A judge's rate over the predicted one.
fn ratio(cell: &Cell, judge: Judge) -> Option<f64> {
    match (&cell.predicted, judge(cell)) {
        (Ok((predicted, _)), Some(Ok(rate))) => Some(rate / predicted),
        _ => None,
    }
}

fn print(cells: &[Cell], as_json: bool) {
    if as_json {
        let rate = |rate: &Rate| match rate {
            Some(Ok(pps)) => json!(pps),
            Some(Err(why)) => json!({ "none": why }),
            None => Value::Null,
        };
        let stage = |stage: &StageCycles| {
            json!({
                "name": stage.stage, "events": stage.events,
                "predicted_cycles": stage.planned, "counted_cycles": stage.counted,
            })
        };
        let list: Vec<Value> = cells
            .iter()
            .map(|cell| {
                json!({
                    "program": cell.program, "target": cell.target,
                    "predicted_pps": cell.predicted.as_ref().ok().map(|(pps, _)| pps),
                    "limit": cell.predicted.as_ref().ok().map(|(_, limit)| limit),
                    "no_plan": cell.predicted.as_ref().err(),
                    "simulated_pps": rate(&cell.simulated),
                    "counted_pps": rate(&cell.counted),
                    "measured_pps": rate(&cell.measured),
                    "stages": cell.stages.iter().map(stage).collect::<Vec<Value>>(),
                })
            })
            .collect();
        outln!("{:#}", json!({ "schema": "nicforge/predict", "version": 1, "cells": list }));
        return;
    }
    let mpps = |pps: f64| format!("{:.2}", pps / 1e6);
    let mut shown = Vec::new();
    let mut reasons = Vec::new();
    for cell in cells {
        let (predicted, limit) = match &cell.predicted {
            Ok((pps, limit)) => (mpps(*pps), limit.clone()),
            Err(why) => ("-".to_string(), why.clone()),
        };
        let mut row = vec![cell.program.clone(), cell.target.clone(), predicted];
        for (name, judge, whole) in JUDGES {
            row.push(match (judge(cell), ratio(cell, judge)) {
                (Some(Ok(pps)), Some(ratio)) if whole => format!("{} ({ratio:.2})", mpps(*pps)),
                (Some(Ok(pps)), _) => mpps(*pps),
                (Some(Err(why)), _) => {
                    reasons.push(format!("{} on {}, {name}: {why}", cell.program, cell.target));
                    "none".to_string()
                }
                _ => "-".to_string(),
            });
        }
        row.push(limit);
        shown.push(row);
    }
    let head = ["program", "target", "predicted", "simulated", "counted", "measured", "limited by"];
    out::text(&table(&head, &shown));
    reasons.iter().for_each(|reason| outln!("{reason}"));
    outln!(
        "\nMpackets/s; in brackets over the predicted rate. Counted: cycles of the generated code"
    );
    outln!(
        "on simulated cores. Measured: one CPU of this machine, all stages on it; not compared."
    );
    for (name, judge, _) in JUDGES.into_iter().filter(|(.., whole)| *whole) {
        let found = Agreement::of(cells.iter().filter_map(|cell| ratio(cell, judge)));
        if found.compared > 0 {
            outln!("{name}: of {} cells {found}", found.compared);
        }
    }
}
