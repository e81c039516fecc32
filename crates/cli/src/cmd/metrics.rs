//! `nicforge metrics`: the counters of a running program.

use nicforge_driver::Failure;
use nicforge_run::socket::{Request, find_run, request};
use serde_json::Value;

use crate::args::Metrics;
use crate::out;

/// Asks the run and prints its counters.
pub fn run(args: Metrics) -> Result<(), Failure> {
    let run = find_run(args.run).map_err(|e| Failure::of(e.fault(), e))?;
    let answer = request(&run.path, &Request::Metrics).map_err(|e| Failure::of(e.fault(), e))?;
    if args.json {
        outln!("{:#}", answer["summary"]);
    } else {
        out::text(answer["prometheus"].as_str().unwrap_or_default());
    }
    match answer {
        Value::Null => Err(Failure::user("the run has no counters")),
        _ => Ok(()),
    }
}
