//! `nicforge metrics`: the counters of a running program.

use nicforge_driver::Failure;
use nicforge_run::socket::Request;
use serde_json::Value;

use super::ask::ask;
use crate::args::Metrics;
use crate::out;

/// Asks the run and prints its counters.
pub fn run(args: Metrics) -> Result<(), Failure> {
    let answer = ask(&args.running, Request::Metrics)?;
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
