//! `nicforge verify` for planned targets: a pipeline in a process against the interpreter.

use std::collections::BTreeSet;

use nicforge_ir::{Input, InputEvent};
use nicforge_plan::Plan;
use nicforge_run::dpdk::{Difference, DpdkStats};
use nicforge_run::sim::verify_sim;
use nicforge_target::Target;

use super::compare::{self, Agreement};
use super::verify::Subject;
use super::{pipelines, verify};
use crate::backend::{Case, Pipelined};
use crate::context::Failure;
use crate::interrupt;

/// Plans, builds and runs the subject, and compares it with the source.
pub fn run(backend: &dyn Pipelined, target: &Target, case: &Case) -> Result<(), Failure> {
    let mut job = pipelines::job(backend, target, &case.args.planned, case.subject)?;
    job.exec = case.args.exec.clone();
    let taken: Vec<InputEvent> =
        case.events.iter().filter(|event| backend.takes(event)).cloned().collect();
    let beyond = case.events.len() - taken.len();
    let (run, differences) =
        backend.compare(target, &mut job, case.source, case.entries, &taken)?;
    if backend.counts_cycles() && !case.args.json {
        cycles(&job.plan, &run.stats);
    }
    let what = Subject {
        target: &target.name,
        stands_in: backend.stands_in(target),
        limits: backend.limits(),
    };
    finish(case, &what, Some(&job.plan), taken.len(), beyond, differences)
}

/// What events took on simulated cores, beside what the plan says of them.
fn cycles(plan: &Plan, stats: &DpdkStats) {
    for (at, stage) in plan.stages.iter().enumerate() {
        let workers = || stats.workers.iter().filter(|worker| worker.stage == Some(at));
        let events: u64 = workers().map(|worker| worker.events).sum();
        let cycles: u64 = workers().map(|worker| worker.cycles).sum();
        if events > 0 {
            let (name, planned) = (&stage.name, stage.cycles);
            let each = cycles as f64 / events as f64;
            outln!(
                "{name}: {each:.0} cycles an event here, {planned:.0} in the plan ({events} events)"
            );
        }
    }
}

/// Plans, simulates, compares.
pub fn run_sim(target: &Target, case: &Case) -> Result<(), Failure> {
    let (events, entries) = (case.events, case.entries);
    let mut job = pipelines::on(&case.args.planned, case.subject, target)?;
    let reference = job.make_room(case.source, entries, events, |_| true)?;
    interrupt::stop_in_order();
    let what = (target, &job.plan, &job.pipeline);
    let (_, differences) =
        verify_sim(what, &reference, &job.program, entries, events, &interrupt::stopped)
            .map_err(|e| Failure::of(e.fault(), e))?;
    let host = events.iter().filter(|event| matches!(event.input, Input::Host { .. })).count();
    let limits = "the simulator takes (they come from the host side)".to_string();
    let what = Subject { target: &target.name, stands_in: Some("functional: simulated"), limits };
    finish(case, &what, Some(&job.plan), events.len() - host, host, differences)
}

/// Reports what differs.
pub fn finish(
    case: &Case,
    what: &Subject,
    plan: Option<&Plan>,
    events: usize,
    beyond: usize,
    differences: Vec<Difference>,
) -> Result<(), Failure> {
    let source = case.source;
    let tables = source.tables.len();
    let mut result = Agreement {
        events,
        matching: events,
        tables,
        matching_tables: tables,
        differences: vec![],
    };
    // An event that differs in several ways is one event.
    let mut wrong = BTreeSet::new();
    for difference in differences {
        let text = match difference {
            Difference::Outputs { event, want, got } => {
                wrong.insert(event);
                format!("event {}: {}", event + 1, verify::differences(source, &want, &got))
            }
            Difference::Order { before, after } => {
                wrong.insert(after);
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
    result.matching -= wrong.len();
    verify::report(case.args, what, &result, beyond, plan);
    verify::end(&result, beyond)
}
