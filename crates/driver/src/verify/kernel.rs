//! Programs in this machine's kernel against the interpreter.
//!
//! One stage goes through the kernel's test run. That refuses programs behind CPU maps, so events
//! of planned pipelines go over veth, a window at a time, with what the program read of time and
//! randomness recorded for the interpreter.

use std::time::Duration;

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Entry, InputEvent, Interp, Output, Program, TableId, Verified};
use nicforge_run::compile::Mode;
use nicforge_run::live::{self, Difference, LARGEST_WINDOW, LiveOptions, LiveRun, Session};
use nicforge_run::netns::LARGEST_FRAME;
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{
    HEADROOM, LARGEST_TEST_FRAME, LoadOptions, Loaded, SMALLEST_FRAME, XdpError,
};
use nicforge_target::Target;

use super::{Case, Comparison, Given, outputs};
use crate::compare::{self, Agreement, Held};
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
    let mut different = Vec::new();
    for (nth, &i) in taken.iter().enumerate() {
        let event = &events[i];
        let want = interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
        let text = match kernel.test_run(event) {
            Ok(got) if want == got => continue,
            Ok(got) => outputs(source, &want, &got),
            // The frame is one that the kernel takes as it comes and as it should leave, so this is
            // generated code's fault.
            Err(error @ XdpError::NoRoom(_)) => format!("{error}"),
            Err(e) => return Err(of(e)),
        };
        different.push((nth, format!("event {}: {text}", i + 1)));
    }
    let list: Vec<InputEvent> = taken.iter().map(|at| events[*at].clone()).collect();
    let given = Given { source, entries, events: &list };
    let held = compare::tables(source, &interp, &tables)?;
    let is_equal = |held: &Held| compare::table_differences(source, held).is_empty();
    let equal = different.is_empty() && held.iter().all(is_equal);
    let given_up = if equal { None } else { given.given_up()? };
    let mut result = given.all_equal(list.len(), given_up.as_ref());
    different.retain(|(nth, _)| !given_up.as_ref().is_some_and(|all| all.decides(*nth)));
    result.matching -= different.len();
    result.differences = different.into_iter().map(|(_, text)| text).take(5).collect();
    given.compare_tables(given_up.as_ref(), &held, &mut result);
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
    let given = Given { source, entries, events: &run.seen };
    let found = live::differences(source, entries, run, &session.loaded().tables())
        .map_err(|e| Failure::of(e.fault(), e))?;
    let given_up = if found.is_empty() { None } else { given.given_up()? };
    let decides = |event| given_up.as_ref().is_some_and(|all| all.decides(event));
    let explains = |output: &Output| given_up.as_ref().is_some_and(|all| all.explains(output));
    let mut result = given.all_equal(run.seen.len(), given_up.as_ref());
    for difference in found {
        let one = |result: &mut Agreement| result.matching = result.matching.saturating_sub(1);
        let text = match difference {
            Difference::Outputs { event, .. } if decides(event) => continue,
            Difference::Order { before, after, .. } if decides(before) || decides(after) => {
                continue;
            }
            Difference::Surplus(output) if explains(&output) => continue,
            Difference::Drops { reason, .. } if explains(&Output::Drop { reason }) => continue,
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
                let lines = given.table_differences(given_up.as_ref(), Held { table, want, got });
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
    Ok(result)
}
