//! Commands of a sweep on a Dask cluster.
//!
//! A Python process (`dask.py`, handed over as an argument) takes commands as lines of JSON, gives
//! each to the cluster, and prints a line for each that is done. The cluster's workers run
//! `nicforge` by that name.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use nicforge_driver::{Failure, stop};
use serde::Deserialize;

use super::Done;
use super::spec::Job;

const SCRIPT: &str = include_str!("dask.py");

/// Exit status of the script if Python lacks `distributed`, or the scheduler does not answer.
const UNAVAILABLE: i32 = 3;

#[derive(Deserialize)]
struct Line {
    job: usize,
    seconds: f64,
    output: Option<String>,
    error: Option<String>,
}

/// Runs the jobs `todo` names on the cluster of a scheduler.
pub fn run(
    python: &Path,
    scheduler: &str,
    jobs: &[Job],
    todo: &[usize],
    on_done: &mut dyn FnMut(Done),
) -> Result<(), Failure> {
    if todo.is_empty() {
        return Ok(());
    }
    let mut child = Command::new(python)
        .args(["-c", SCRIPT, scheduler])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Failure::environment(format!("{}: {e}", python.display())))?;
    let broken = |e: std::io::Error| Failure::environment(format!("{}: {e}", python.display()));
    if let Some(mut input) = child.stdin.take() {
        for &job in todo {
            let line = serde_json::json!({ "job": job, "arguments": jobs[job].arguments });
            // It ends early if it cannot reach the scheduler, and says so itself.
            if writeln!(input, "{line}").is_err() {
                break;
            }
        }
    }
    let output = child.stdout.take().expect("the pipe that was asked for");
    for line in BufReader::new(output).lines() {
        let line: Line = serde_json::from_str(&line.map_err(broken)?)
            .map_err(|e| Failure::environment(format!("the Dask client: {e}")))?;
        let output = match (line.output, line.error) {
            (Some(output), None) => Ok(output),
            (_, error) => Err(error.unwrap_or_default()),
        };
        if !todo.contains(&line.job) {
            return Err(Failure::environment(format!(
                "the Dask client: there is no job {}",
                line.job
            )));
        }
        on_done(Done { job: line.job, seconds: line.seconds, output });
    }
    let status = child.wait().map_err(broken)?;
    match status.code() {
        Some(0) => Ok(()),
        _ if stop::stopped() => Ok(()),
        Some(UNAVAILABLE) => Err(Failure::environment(format!(
            "no Dask at {scheduler}: see above; the Python (--python) needs `distributed`, the scheduler must run"
        ))),
        _ => Err(Failure::environment(format!("the Dask client ended with {status}"))),
    }
}
