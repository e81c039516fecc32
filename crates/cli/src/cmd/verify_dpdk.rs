//! `nicforge verify` for planned targets: a pipeline in a process against the interpreter.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_run::dpdk::Difference;

use super::compare::{self, Agreement};
use super::{pipelines, verify};
use crate::args::Verify;
use crate::context::Failure;

/// Plans, builds, runs, compares.
pub fn run(
    args: &Verify,
    source: &Verified<Program>,
    events: &[InputEvent],
    entries: &[(TableId, Entry)],
) -> Result<(), Failure> {
    let mut job = pipelines::job(args.target, &args.planned, source)?;
    let (_, differences) = job.compare(args.target, source, entries, events)?;
    let tables = source.tables.len();
    let mut result = Agreement {
        events: events.len(),
        matching: events.len(),
        tables,
        matching_tables: tables,
        differences: vec![],
    };
    for difference in differences {
        let text = match difference {
            Difference::Outputs { event, want, got } => {
                result.matching -= 1;
                format!("event {}: {}", event + 1, verify::differences(source, &want, &got))
            }
            Difference::Order { before, after } => {
                result.matching -= 1;
                format!("event {} left before event {}", before + 1, after + 1)
            }
            Difference::Table { table, want, got } => {
                let lines = compare::table_differences(source, table, &want, &got);
                if lines.is_empty() {
                    continue;
                }
                result.matching_tables -= 1;
                lines.join("\n")
            }
            Difference::Interpreter { event, message } => {
                return Err(Failure::user(format!("event {}: {message}", event + 1)));
            }
        };
        if result.differences.len() < 5 {
            result.differences.push(text);
        }
    }
    verify::report(args, &result, 0, Some(&job.plan));
    if result.complete() { Ok(()) } else { Err(Failure::rendered(String::new())) }
}
