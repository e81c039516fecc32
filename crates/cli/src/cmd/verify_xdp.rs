//! `nicforge verify --target xdp --plan`: a planned pipeline in the kernel against the interpreter.
//!
//! The kernel's test run refuses programs behind CPU maps, so events go over veth, a window at a
//! time, with what the program read of time and randomness recorded for the interpreter.

use std::time::Duration;

use nicforge_codegen::LineStyle;
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_run::compile::Mode;
use nicforge_run::live::{self, Difference, LARGEST_WINDOW, LiveOptions, LiveRun, Session};
use nicforge_run::netns::LARGEST_FRAME;
use nicforge_run::xdp::{HEADROOM, SMALLEST_FRAME};
use nicforge_target::Target;

use super::compare::{self, Agreement};
use super::pipelines::{self, Job};
use super::verify::Subject;
use super::{beyond, verify};
use crate::backend::Case;
use crate::context::{Failure, Runtime};
use crate::interrupt::stopped;
use crate::{events, program};

/// Builds, runs, compares.
pub fn run(
    target: &Target,
    stands_in: Option<&'static str>,
    case: &Case,
    job: &mut Job,
) -> Result<(), Failure> {
    let (events, entries) = (case.events, case.entries);
    let source = &job.room_for_shards(target, case.source, entries, events)?;
    let taken =
        beyond::taken(source, entries, events, &(SMALLEST_FRAME..=LARGEST_FRAME), HEADROOM)?;
    let list: Vec<InputEvent> = taken.iter().map(|at| events[*at].clone()).collect();
    let mut session = session(source, target, job, entries, &case.runtime, Mode::Record)?;
    let run = live(&mut session, &list)?;
    let result = agreement(source, entries, &run, &session)?;
    let left_out = events.len() - list.len();
    let limits = verify::kernel_limits(LARGEST_FRAME);
    let what = Subject { target: &target.name, stands_in, limits };
    verify::report(case.args, &what, &result, left_out, Some(&job.plan));
    verify::end(&result, left_out)
}

/// The planned program in the kernel, its tables filled.
pub fn session(
    source: &Verified<Program>,
    target: &Target,
    job: &Job,
    entries: &[(TableId, Entry)],
    runtime: &Runtime,
    mode: Mode,
) -> Result<Session, Failure> {
    let artifact = pipelines::xdp_artifact(job, target, LineStyle::Directives)?;
    let headers = runtime.target_headers("xdp");
    let session = Session::start(&job.program, &artifact, mode, &headers)
        .map_err(|e| program::kernel_failure(source, e))?;
    events::fill(&mut session.loaded().tables(), entries)?;
    Ok(session)
}

/// Gives it the events.
pub fn live(session: &mut Session, events: &[InputEvent]) -> Result<LiveRun, Failure> {
    let mut options = LiveOptions {
        window: LARGEST_WINDOW,
        per_event: false,
        patience: Duration::from_secs(30),
        keep_going: &mut |_| !stopped(),
    };
    session.run(events, &mut options).map_err(|e| Failure::of(e.fault(), e))
}

/// How well the run agrees with the interpreter.
pub fn agreement(
    source: &Verified<Program>,
    entries: &[(TableId, Entry)],
    run: &LiveRun,
    session: &Session,
) -> Result<Agreement, Failure> {
    let (events, tables) = (run.seen.len(), source.tables.len());
    let mut result = Agreement {
        events,
        matching: events,
        tables,
        matching_tables: tables,
        differences: vec![],
    };
    let found = live::differences(source, entries, run, &session.loaded().tables())
        .map_err(|e| Failure::of(e.fault(), e))?;
    for difference in found {
        let one = |result: &mut Agreement| result.matching = result.matching.saturating_sub(1);
        let text = match difference {
            Difference::Outputs { event, want, got } => {
                one(&mut result);
                format!("event {}: {}", event + 1, verify::differences(source, &want, &got))
            }
            Difference::Surplus(output) => {
                one(&mut result);
                format!("unexpected: {}", compare::describe(source, &output))
            }
            Difference::Order { port, before, after } => {
                one(&mut result);
                format!("event {} left port {port} before event {}", before + 1, after + 1)
            }
            Difference::Drops { reason, want, got } => {
                result.matching = result.matching.saturating_sub(want.abs_diff(got) as usize);
                format!("dropped \"{}\": {got} instead of {want}", source.reasons[reason].text)
            }
            Difference::Table { table, want, got } => {
                result.matching_tables -= 1;
                compare::table_differences(source, table, &want, &got).join("\n")
            }
            Difference::Interpreter { event, message } => {
                return Err(Failure::user(format!("event {}: {message}", event + 1)));
            }
        };
        if result.differences.len() < 5 {
            result.differences.push(text);
        }
    }
    Ok(result)
}
