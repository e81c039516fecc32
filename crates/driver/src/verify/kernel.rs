//! Programs in this machine's kernel against the interpreter.
//!
//! One stage goes through the kernel's test run. That refuses programs behind CPU maps, so events
//! of planned pipelines go over veth, a window at a time, with what the program read of time and
//! randomness recorded for the interpreter.

use std::time::Duration;

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Entry, InputEvent, Interp, Program, TableId, Verified};
use nicforge_run::compile::Mode;
use nicforge_run::live::{self, Difference, LARGEST_WINDOW, LiveOptions, LiveRun, Session};
use nicforge_run::netns::LARGEST_FRAME;
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{
    HEADROOM, LARGEST_TEST_FRAME, LoadOptions, Loaded, SMALLEST_FRAME, XdpError,
};
use nicforge_target::Target;

use super::{Case, Comparison, outputs};
use crate::compare::{self, Agreement};
use crate::pipelines::{self, Job};
use crate::{Failure, Runtime, beyond, events, program, stop};

/// The kernel's limits for frames of up to so many bytes.
pub fn kernel_limits(most: usize) -> String {
    format!(
        "the kernel takes (frames under {SMALLEST_FRAME} or over {most} bytes as they come or leave, or longer by more than {HEADROOM})"
    )
}

/// A program of one stage, in the kernel's test run.
///
/// # Errors
/// It cannot be made or run there.
pub fn one_stage(
    target: &Target,
    stands_in: Option<&'static str>,
    case: &Case,
) -> Result<Comparison, Failure> {
    let inputs = (case.events, case.entries);
    let (agreement, beyond) = beside(case.source, case.subject, inputs, case.runtime)?;
    let limits = kernel_limits(LARGEST_TEST_FRAME);
    Ok(Comparison { stands_in, limits, ..Comparison::of(target, agreement, beyond) })
}

/// A program of one stage in the kernel's test run beside `source` in the interpreter, and how many
/// events are beyond what the kernel takes.
///
/// # Errors
/// It cannot be made or run there.
pub fn beside(
    source: &Verified<Program>,
    subject: &Verified<Program>,
    (events, entries): (&[InputEvent], &[(TableId, Entry)]),
    runtime: &Runtime,
) -> Result<(Agreement, usize), Failure> {
    let compiled = program::lower(subject)?;
    let artifact = xdp::generate(&compiled, LineStyle::Directives)
        .map_err(|e| program::unsupported(&compiled, &e))?;
    let of = |e: XdpError| Failure::of(e.fault(), e);
    let object =
        compile_bpf(&compiled.name, &artifact.source, Mode::Replay, &runtime.target_headers("xdp"))
            .map_err(|e| Failure::of(e.fault(), e))?;
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let kernel = Loaded::load(&compiled, &artifact, &object, &options)
        .map_err(|e| program::kernel_failure(&compiled, e))?;
    let mut interp = Interp::new(source);
    let mut tables = kernel.tables();
    events::fill(&mut interp, entries)?;
    events::fill(&mut tables, entries)?;

    let lengths = SMALLEST_FRAME..=LARGEST_TEST_FRAME;
    let taken = beyond::taken(source, entries, events, &lengths, HEADROOM)?;
    let mut result = Agreement::default();
    for &i in &taken {
        let event = &events[i];
        let want = interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
        result.events += 1;
        let text = match kernel.test_run(event) {
            Ok(got) if want == got => {
                result.matching += 1;
                continue;
            }
            Ok(got) => outputs(source, &want, &got),
            // The frame is one that the kernel takes as it comes and as it should leave, so this is
            // generated code's fault.
            Err(error @ XdpError::NoRoom(_)) => format!("{error}"),
            Err(e) => return Err(of(e)),
        };
        if result.differences.len() < 5 {
            result.differences.push(format!("event {}: {text}", i + 1));
        }
    }
    compare::tables(source, &interp, &tables, &mut result)?;
    Ok((result, events.len() - taken.len()))
}

/// A planned pipeline, on veth.
///
/// # Errors
/// It cannot be made or run there.
pub fn staged(
    target: &Target,
    stands_in: Option<&'static str>,
    case: &Case,
    job: &mut Job,
) -> Result<Comparison, Failure> {
    let (events, entries) = (case.events, case.entries);
    let source = &job.room_for_shards(target, case.source, entries, events)?;
    let taken =
        beyond::taken(source, entries, events, &(SMALLEST_FRAME..=LARGEST_FRAME), HEADROOM)?;
    let list: Vec<InputEvent> = taken.iter().map(|at| events[*at].clone()).collect();
    let mut session = session(source, target, job, entries, case.runtime, Mode::Record)?;
    let run = live(&mut session, &list)?;
    let agreement = agreement(source, entries, &run, &session)?;
    Ok(Comparison {
        stands_in,
        limits: kernel_limits(LARGEST_FRAME),
        plan: Some(job.plan.clone()),
        ..Comparison::of(target, agreement, events.len() - list.len())
    })
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
        keep_going: &mut |_| !stop::stopped(),
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
                format!("event {}: {}", event + 1, outputs(source, &want, &got))
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
