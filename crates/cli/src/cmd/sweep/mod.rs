//! `nicforge sweep`: one command over every combination of values, as a table and a plot.
//!
//! A sweep is a file:
//!
//! ```toml
//! command = ["sim", "examples/{program}", "--target", "{target}", "--rate", "{rate}"]
//! [over]
//! program = ["l2_forward", "nat"]
//! target = ["bluefield2", "agilio-cx"]
//! rate = ["10G", "40G", "100G"]
//! [columns]
//! gbps = "delivered.bits_per_second"    # where in the command's JSON
//! [plot]
//! x = "rate"
//! y = "gbps"
//! series = "target"
//! panel = "program"
//! ```
//!
//! The results are rows of `results.csv` in the folder of `--output`, written as they come: what is
//! there is not run again, so an interrupted sweep goes on where it was.

mod dask;
mod local;
mod plot;
mod spec;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use nicforge_driver::{Failure, stop};
use serde_json::Value;
use spec::{Job, Spec};
use table::{Row, Table};

use crate::interrupt;

/// `nicforge sweep`.
#[derive(Args)]
pub struct Sweep {
    /// What to run over what (TOML)
    sweep: PathBuf,
    /// Folder for results.csv and plot.svg [default: the sweep's name without .toml]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Commands at a time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: u32,
    /// Run on a Dask cluster: the address of its scheduler. Workers need `nicforge` and the sweep's
    /// files where they are here
    #[arg(long, value_name = "ADDRESS")]
    scheduler: Option<String>,
    /// Python with `distributed`, for --scheduler
    #[arg(long, value_name = "FILE", requires = "scheduler")]
    python: Option<PathBuf>,
    /// Print the commands instead of running them
    #[arg(long)]
    dry_run: bool,
}

/// The result of a command.
pub struct Done {
    pub job: usize,
    pub seconds: f64,
    /// Its standard output, or why there is none.
    pub output: Result<String, String>,
}

/// The Python that was asked for, that which the scripts install, or the system's.
pub fn python(asked: Option<&Path>) -> PathBuf {
    let installed = || nicforge_run::tools::in_python("bin/python3");
    asked.map(Path::to_path_buf).or_else(installed).unwrap_or_else(|| "python3".into())
}

/// Runs what is missing, and draws.
pub fn run(args: &Sweep) -> Result<(), Failure> {
    let name = args.sweep.display().to_string();
    let text =
        std::fs::read_to_string(&args.sweep).map_err(|e| Failure::user(format!("{name}: {e}")))?;
    let spec = Spec::parse(&name, &text).map_err(Failure::user)?;
    let jobs = spec.jobs();
    if args.dry_run {
        for job in &jobs {
            outln!("nicforge {}", job.arguments.join(" "));
        }
        return Ok(());
    }
    let folder = args.output.clone().unwrap_or_else(|| args.sweep.with_extension(""));
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::user(format!("{}: {e}", folder.display())))?;
    let path = folder.join("results.csv");
    let mut table = Table::open(&path, &spec).map_err(Failure::user)?;
    let todo: Vec<usize> = (0..jobs.len()).filter(|at| !table.has(&jobs[*at].values)).collect();
    errln!("{} of {} combinations are to be run", todo.len(), jobs.len());

    interrupt::stop_in_order();
    let mut count = 0;
    let mut failure = None;
    let mut on_done = |done: Done| {
        count += 1;
        let row = row(&spec, &jobs[done.job], &done);
        let how = if row.error.is_empty() { "ok".to_string() } else { row.error.clone() };
        errln!(
            "[{count}/{}] {} ({:.1} s): {how}",
            todo.len(),
            jobs[done.job].values.join(" "),
            done.seconds
        );
        // A row that cannot be kept is found out at the end, after the others ran.
        if let Err(error) = table.add(row) {
            failure = Some(error);
        }
    };
    match &args.scheduler {
        Some(scheduler) => {
            dask::run(&python(args.python.as_deref()), scheduler, &jobs, &todo, &mut on_done)?
        }
        None => local::run(args.jobs as usize, &jobs, &todo, &mut on_done)?,
    }
    if let Some(error) = failure {
        return Err(Failure::user(error));
    }
    table.finish(&jobs).map_err(Failure::user)?;
    errln!("wrote {}", path.display());
    if let Some(plot) = &spec.plot {
        let to = folder.join("plot.svg");
        plot::draw(plot, &spec, &table, &to)
            .map_err(|e| Failure::user(format!("{}: {e}", to.display())))?;
        errln!("wrote {}", to.display());
    }
    if stop::stopped() {
        errln!("interrupted; the same command goes on from here");
    }
    let failed = table.failed();
    if failed > 0 {
        return Err(Failure::user(format!("{failed} combinations failed; results.csv says why")));
    }
    Ok(())
}

fn row(spec: &Spec, job: &Job, done: &Done) -> Row {
    let mut row = Row {
        values: job.values.clone(),
        columns: vec![String::new(); spec.columns.len()],
        seconds: done.seconds,
        error: String::new(),
    };
    let json: Value = match &done.output {
        Err(error) => return Row { error: error.clone(), ..row },
        Ok(text) => match serde_json::from_str(text) {
            Ok(json) => json,
            Err(error) => return Row { error: format!("its output is no JSON: {error}"), ..row },
        },
    };
    for (cell, (name, path)) in row.columns.iter_mut().zip(&spec.columns) {
        match spec::find(&json, path) {
            Some(Value::String(text)) => *cell = text.clone(),
            Some(value) => *cell = value.to_string(),
            None => row.error = format!("its JSON has no `{path}` for column `{name}`"),
        }
    }
    row
}

/// The last line of what a command said, for a table.
fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing")
        .trim()
        .to_string()
}

/// Seconds since, for rows.
fn since(start: Instant) -> f64 {
    (start.elapsed().as_secs_f64() * 1e3).round() / 1e3
}

/// Rows by the values of some columns, in the order of their first row.
fn grouped<'a>(rows: &[&'a Row], by: Option<usize>) -> Vec<(String, Vec<&'a Row>)> {
    let mut order: Vec<(String, Vec<&Row>)> = Vec::new();
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        let name = by.map_or_else(String::new, |column| row.values[column].clone());
        let place = *at.entry(name.clone()).or_insert_with(|| {
            order.push((name, Vec::new()));
            order.len() - 1
        });
        order[place].1.push(row);
    }
    order
}
