//! A capture through the kernel: veth pairs in namespaces of their own, native XDP, and the
//! interpreter beside it.

use std::time::Duration;

use nicforge_codegen::{LineStyle, xdp};
use nicforge_driver::given_up::GivenUp;
use nicforge_driver::program::{self, Loaded, lower, unsupported};
use nicforge_driver::stop::stopped;
use nicforge_driver::verify::Given;
use nicforge_driver::{Failure, Runtime, compare, cost, events};
use nicforge_ir::interp::Interp;
use nicforge_ir::{Output, Program};
use nicforge_run::compile::Mode;
use nicforge_run::live::{LARGEST_WINDOW, LiveOptions, LiveOutputs, LiveRun, Session};
use nicforge_run::xdp::XdpError;
use nicforge_target::Target;

use super::control;
use super::summary::Summary;
use crate::args::Run;

/// Loads, runs, compares, measures and reports.
pub fn run(target: &Target, args: &Run, loaded: &Loaded, runtime: Runtime) -> Result<(), Failure> {
    let source = &*loaded.program;
    let list = events::captures(&args.inputs, source, &loaded.path)?;
    let entries = events::tables(&args.inputs, source, &loaded.path)?;
    let compiled = lower(&loaded.program)?;
    let artifact =
        xdp::generate(&compiled, LineStyle::Directives).map_err(|e| unsupported(&compiled, &e))?;
    // Time and randomness are recorded as the program reads them, so that the interpreter can
    // replay the run.
    let mode = if artifact.uses_time_or_random { Mode::Record } else { Mode::Live };
    let fail = |e: XdpError| program::kernel_failure(source, e);
    let mut session =
        Session::start(&compiled, &artifact, mode, &runtime.target_headers("xdp")).map_err(fail)?;
    drop(runtime);
    let mut tables = session.loaded().tables();
    events::fill(&mut tables, &entries)?;
    let mut options = LiveOptions {
        window: LARGEST_WINDOW,
        per_event: false,
        patience: Duration::from_secs(5),
        keep_going: &mut |_| !stopped(),
    };
    let result = session.run(&list, &mut options).map_err(|e| Failure::of(e.fault(), e))?;
    let mut summary = summarise(target, source, &result);
    summary.read_tables(source, &tables)?;

    let mut reference = Interp::new(&loaded.program);
    events::fill(&mut reference, &entries)?;
    let expected = compare::expected(&mut reference, &result.seen)?;
    if let LiveOutputs::Streams(streams) = &result.outputs {
        let held = compare::tables(source, &reference, &tables)?;
        let given = Given { source: &loaded.program, entries: &entries, events: &result.seen };
        let compared = |given_up: Option<&GivenUp>| {
            let mut agreement = compare::streams(source, &expected, streams, given_up);
            given.compare_tables(given_up, &held, &mut agreement);
            compare_drops(source, &expected, &summary, given_up, &mut agreement);
            agreement
        };
        let mut agreement = compared(None);
        if !agreement.complete() {
            agreement = compared(given.given_up()?.as_ref());
        }
        summary.agreement = Some(agreement);
        if args.events {
            print_events(source, streams);
        }
        if let Some(out) = &args.out {
            let sent = streams
                .sent
                .iter()
                .map(|list| list.iter().map(|f| (0, f.clone())).collect())
                .collect::<Vec<_>>();
            events::write(out, &sent)?;
        }
    }
    if !summary.stopped {
        summary.cost = cost::cost(&compiled, &artifact, &list, &entries)?;
    }
    summary.show(source, args.json, args.metrics);
    if args.hold {
        control::hold(source, &mut tables, summary.clone())?;
    }
    match &summary.agreement {
        Some(agreement) if !agreement.complete() => Err(Failure::rendered(String::new())),
        _ => Ok(()),
    }
}

pub fn summarise(target: &Target, program: &Program, result: &LiveRun) -> Summary {
    let report = &result.report;
    let mut summary = Summary::new(
        &target.name,
        "Linux kernel, native XDP on veth in namespaces of its own".to_string(),
        program,
    );
    summary.packets_in = report.packets_in;
    summary.messages_in = report.messages_in;
    summary.ticks = report.ticks;
    summary.sent = report.sent.clone();
    summary.stack = report.stack;
    summary.host_packets = report.host_packets;
    summary.host_messages = report.host_messages;
    summary.dma_writes = report.dma_writes;
    summary.logs = report.logs;
    summary.drops =
        report.drops.iter().filter(|d| d.2 > 0).map(|(_, text, n)| (text.clone(), *n)).collect();
    let named = |(id, n): &(nicforge_ir::TableId, u64)| (program.tables[*id].name.clone(), *n);
    summary.refused = report.refused.iter().filter(|r| r.1 > 0).map(named).collect();
    summary.seconds = Some(report.seconds);
    summary.unaccounted = report.unaccounted;
    summary.stopped = report.stopped;
    summary
}

/// Drops leave nothing but a counter; the counters must be the interpreter's.
fn compare_drops(
    program: &Program,
    expected: &[Vec<Output>],
    got: &Summary,
    given_up: Option<&GivenUp>,
    agreement: &mut compare::Agreement,
) {
    let mut want = Summary::new("interp", String::new(), program);
    for output in expected.iter().flatten() {
        want.count(program, output);
    }
    for (text, n) in &want.drops {
        if given_up.is_some_and(|all| all.drops(program, text)) {
            continue;
        }
        let seen = got.drops.iter().find(|d| d.0 == *text).map_or(0, |d| d.1);
        if seen != *n {
            agreement.matching = agreement.matching.saturating_sub(n.abs_diff(seen) as usize);
            agreement.differences.push(format!("dropped \"{text}\": {seen} instead of {n}"));
        }
    }
}

pub fn print_events(program: &Program, streams: &nicforge_run::live::Streams) {
    let show = |output: Output| outln!("{}", compare::describe(program, &output));
    for (port, frames) in streams.sent.iter().enumerate() {
        frames
            .iter()
            .for_each(|frame| show(Output::Send { port: port as u32, frame: frame.clone() }));
    }
    streams.copies.iter().for_each(|output| show(output.clone()));
    streams.stack.iter().for_each(|frame| show(Output::Stack { frame: frame.clone() }));
    streams.host.iter().for_each(|output| show(output.clone()));
}
