//! `--tune`: the best plans of a search are measured, and the fastest is taken.
//!
//! The model says which plans are worth running. What a plan is measured by is what its target has
//! here:
//!
//! | target | measured |
//! |---|---|
//! | `dpdk` | cycles of every stage in a process, by the processor's counter |
//! | `xdp` | time of every stage's program as the kernel counts it, on veth; processes behind AF_XDP by their threads' time |
//! | others | the greatest rate without loss in the simulator |
//!
//! Stages that run here give packets per second that the busiest of them keeps up with on one core
//! per replica, beside the same figure of the model: this machine has neither the ports nor the
//! cores of a server. Of several runs the fastest counts, since whatever else runs here only adds.
//! A plan that does not do what the interpreter does is an error, one that cannot run here is
//! passed over.

use std::time::Duration;

use nicforge_codegen::LineStyle;
use nicforge_ir::{Entry, Input, InputEvent, Program, TableId, Verified};
use nicforge_plan::{Objective, Plan};
use nicforge_planner::assemble;
use nicforge_planner::search::Found;
use nicforge_run::compile::{Mode, compile_bpf};
use nicforge_run::live::Session;
use nicforge_run::xdp::XdpError;
use nicforge_target::Target;

use crate::backend::{self, Dpdk, Pipelined};
use crate::options::{Inputs, Planning};
use crate::pipelines::{self, Job};
use crate::planning as plans;
use crate::simulation::{self, Offered};
use crate::verify::kernel;
use crate::{Failure, Loaded, Runtime, design, events, program, stop};

/// Runs of each plan on this machine.
const RUNS: usize = 3;
/// Simulated time of each run that looks for the greatest rate, in seconds.
const SIMULATED: f64 = 0.5e-3;
/// Measured rates that differ by less are one: then the model decides.
const SAME: f64 = 0.01;

/// A plan that was measured.
pub struct Tried {
    /// Its number among the search's candidates.
    pub number: usize,
    pub stages: String,
    /// Packets per second.
    pub predicted: f64,
    pub measured: Result<f64, String>,
}

/// What measuring found.
pub struct Tuned {
    /// The number of the fastest.
    pub best: usize,
    /// The fastest, its search with what was measured.
    pub plan: Plan,
    /// The model's best first.
    pub tried: Vec<Tried>,
    /// How they were measured, in words.
    pub how: String,
}

/// Measures the `most` best plans of a search.
///
/// # Errors
/// If there is no plan, none of them runs, one of them does something else than the interpreter, or
/// there are no packets.
pub fn tune(
    loaded: &Loaded,
    target: &Target,
    planning: &Planning,
    inputs: &Inputs,
    most: usize,
    apart: bool,
) -> Result<Tuned, Failure> {
    if planning.objective != "rate" {
        return Err(Failure::usage(format!(
            "--tune measures rates; leave out --objective {}",
            planning.objective
        )));
    }
    if most == 0 {
        return Err(Failure::usage("--tune=0: take at least 1 plan"));
    }
    if target.in_a_row() {
        return Err(Failure::usage(format!(
            "--tune: there is one plan for {}, its generator decides the rest",
            target.name
        )));
    }
    let program = &*program::to_plan(&loaded.program, target)?;
    let profiled = &*program::to_plan(loaded.profiled.as_ref().unwrap_or(&loaded.program), target)?;
    // To see plans beyond the ports' rate takes long, and one is there anyway.
    let (found, config) =
        plans::candidates(profiled, target, planning, most > 1 || planning.all_candidates)?;
    let traffic = Traffic {
        events: events::captures(inputs, &loaded.program, &loaded.path)?,
        entries: events::tables(inputs, &loaded.program, &loaded.path)?,
    };
    let bench = backend::of(target)?.bench(target);
    let mut tried: Vec<Tried> = Vec::new();
    let mut plans: Vec<Plan> = Vec::new();
    for number in promising(&found, most) {
        let mut plan = assemble::plan(program, target, &config, Objective::Rate, &found, number);
        design::price(&mut plan, program, target)?;
        let measured = match &bench {
            Some(bench) => {
                (bench.measure)(target, &plan, program, &loaded.program, &traffic, apart)
            }
            None => {
                let offered = Offered::planned(planning, SIMULATED)?;
                let lossy = || Failed::CannotRun("every rate loses packets".to_string());
                simulation::greatest(&offered, inputs, target, &plan, loaded)
                    .map_err(Failed::from)
                    .and_then(|rate| rate.ok_or_else(lossy))
            }
        };
        let measured = match measured {
            Err(Failed::Wrong(failure)) => return Err(failure),
            Err(Failed::CannotRun(why)) => Err(why),
            Ok(rate) => Ok(rate),
        };
        if stop::stopped() {
            return Err(Failure::interrupted());
        }
        let slowest = plan.stages.iter().map(|stage| stage.rate_pps).fold(f64::INFINITY, f64::min);
        tried.push(Tried {
            number,
            stages: plan
                .stages
                .iter()
                .map(|s| format!("{} x {}", s.name, s.replicas))
                .collect::<Vec<_>>()
                .join(", "),
            predicted: if bench.is_some() { slowest } else { plan.predicted.rate_pps },
            measured,
        });
        plans.push(plan);
    }
    let Some(at) = fastest(&tried) else {
        let why = tried
            .iter()
            .filter_map(|one| one.measured.as_ref().err())
            .next()
            .cloned()
            .unwrap_or_default();
        return Err(Failure::user(format!("none of {} plans runs: {why}", tried.len())));
    };
    let mut plan = plans.swap_remove(at);
    for one in &tried {
        plan.search[one.number].measured_pps = one.measured.as_ref().ok().copied();
    }
    let how = match bench {
        Some(Bench { place, .. }) => {
            format!("{place}, fastest of {RUNS} runs; packets the busiest stage keeps up with")
        }
        None => "simulated; greatest rate without loss".to_string(),
    };
    Ok(Tuned { best: tried[at].number, plan, tried, how })
}

/// Candidates worth running: the search's own choice, then the model's best of every other shape
/// (replicas of each stage), then what is left. Those of one shape hardly differ in what is not
/// modelled.
fn promising(found: &Found, most: usize) -> Vec<usize> {
    let mapping = |n: usize| &found.candidates[n].mapping;
    let mut numbers: Vec<usize> =
        (0..found.candidates.len()).filter(|n| *n != found.best).collect();
    numbers.sort_by(|a, b| {
        let few = mapping(*a).replicas.len().cmp(&mapping(*b).replicas.len());
        mapping(*b).rate.total_cmp(&mapping(*a).rate).then(few)
    });
    let mut shapes = vec![&mapping(found.best).replicas];
    let (fresh, known): (Vec<usize>, Vec<usize>) = numbers.into_iter().partition(|n| {
        let shape = &mapping(*n).replicas;
        let fresh = !shapes.contains(&shape);
        shapes.extend(fresh.then_some(shape));
        fresh
    });
    [found.best].into_iter().chain(fresh).chain(known).take(most).collect()
}

/// Where the fastest is. Among equals the model's favourite stays.
fn fastest(tried: &[Tried]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (at, one) in tried.iter().enumerate() {
        let Ok(rate) = one.measured else { continue };
        if best.is_none_or(|(_, most)| rate > most * (1.0 + SAME)) {
            best = Some((at, rate));
        }
    }
    best.map(|(at, _)| at)
}

pub struct Traffic {
    events: Vec<InputEvent>,
    entries: Vec<(TableId, Entry)>,
}

/// How a back end measures plans on this machine.
pub struct Bench {
    place: &'static str,
    measure: Measure,
}

/// Packets per second of a plan's busiest stage: of `program` as it was planned, made of `source`.
type Measure = fn(
    &Target,
    &Plan,
    &Verified<Program>,
    &Verified<Program>,
    &Traffic,
    bool,
) -> Result<f64, Failed>;

/// Stages as workers of a process, by the processor's counter.
pub const IN_PROCESS: Bench = Bench { place: "on this machine", measure: in_process };
/// Stages as the kernel counts their time.
pub const IN_KERNEL: Bench = Bench { place: "in this kernel", measure: in_kernel };

/// Why there is no figure.
pub enum Failed {
    /// This plan does not run here; another one may.
    CannotRun(String),
    /// Somebody has to look at it.
    Wrong(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        // What the machine lacks, all plans lack.
        if failure.code == 1 {
            Failed::CannotRun(failure.reason().trim_end().to_string())
        } else {
            Failed::Wrong(failure)
        }
    }
}

fn differs(plan: &Plan, number_of: usize) -> Failed {
    let stages: Vec<&str> = plan.stages.iter().map(|stage| stage.name.as_str()).collect();
    Failed::Wrong(Failure::user(format!(
        "{} on {} as {} does not do what the interpreter does: {number_of} differences; `nicforge verify --plan` shows them",
        plan.program,
        plan.target,
        stages.join(", ")
    )))
}

/// Packets per second of the busiest stage in a process.
fn in_process(
    target: &Target,
    plan: &Plan,
    program: &Verified<Program>,
    source: &Verified<Program>,
    traffic: &Traffic,
    apart: bool,
) -> Result<f64, Failed> {
    let mut fastest: f64 = 0.0;
    for _ in 0..RUNS {
        let mut job = pipelines::of_plan(plan.clone(), program, apart)?;
        let (run, differences) =
            Dpdk.compare(target, &mut job, source, &traffic.entries, &traffic.events)?;
        if !differences.is_empty() {
            return Err(differs(plan, differences.len()));
        }
        // The only worker of a program runs on the unit that talks to ports, and is counted there.
        let fused = run.stats.workers.len() == 2;
        let busiest = plan.stages.iter().enumerate().map(|(at, stage)| {
            let workers =
                run.stats.workers.iter().filter(|worker| worker.stage == Some(at) || fused);
            workers.map(|worker| worker.cycles).sum::<u64>() as f64 / f64::from(stage.replicas)
        });
        let cycles = busiest.fold(0.0, f64::max) / traffic.events.len().max(1) as f64;
        if cycles > 0.0 {
            fastest = fastest.max(run.stats.tsc_hz as f64 / cycles);
        }
    }
    if fastest > 0.0 {
        Ok(fastest)
    } else {
        Err(Failed::CannotRun("no stage had anything to do".to_string()))
    }
}

/// The same in the kernel: once compared with the interpreter, then timed without recording.
fn in_kernel(
    target: &Target,
    plan: &Plan,
    program: &Verified<Program>,
    source: &Verified<Program>,
    traffic: &Traffic,
    _: bool,
) -> Result<f64, Failed> {
    let mut job: Job = pipelines::of_plan(plan.clone(), program, false)?;
    job.without_locks();
    let runtime = Runtime::unpack()?;
    let reference = job.room_for_shards(target, source, &traffic.entries, &traffic.events)?;
    let mut session =
        kernel::session(source, target, &job, &traffic.entries, &runtime, Mode::Record)?;
    let result = kernel::live(&mut session, &traffic.events)?;
    let agreement = kernel::agreement(&reference, &traffic.entries, &result, &session)?;
    if !agreement.complete() && !result.report.stopped {
        return Err(differs(plan, agreement.differences.len()));
    }
    drop(session);
    let packets = traffic
        .events
        .iter()
        .filter(|event| matches!(event.input, Input::Net { .. }))
        .count()
        .max(1);
    // Compiled once, loaded for each run: tables begin as they are.
    let artifact = pipelines::xdp_artifact(&job, target, LineStyle::Directives)?;
    let headers = runtime.target_headers("xdp");
    let failed = |error: XdpError| program::kernel_failure(source, error);
    let object = compile_bpf(&job.program.name, &artifact.source, Mode::Live, &headers)
        .map_err(|error| failed(error.into()))?;
    let mut fastest: f64 = 0.0;
    for _ in 0..RUNS {
        if stop::stopped() {
            break;
        }
        let session = Session::of_object(&job.program, &artifact, &object, Mode::Live, &headers);
        let mut session = session.map_err(failed)?;
        events::fill(&mut session.loaded().tables(), &traffic.entries)?;
        let report = kernel::live(&mut session, &traffic.events)?.report;
        let busiest = report.stages.iter().map(|stage| {
            stage.ns_per_packet * stage.packets_in as f64 / f64::from(stage.replicas.max(1))
        });
        let ns = busiest.fold(0.0, f64::max) / packets as f64;
        if ns > 0.0 {
            fastest = fastest.max(Duration::from_secs(1).as_nanos() as f64 / ns);
        }
    }
    if fastest > 0.0 {
        Ok(fastest)
    } else {
        Err(Failed::CannotRun("no stage had anything to do".to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(measured: &[Result<f64, &str>]) -> Vec<Tried> {
        let one = |(number, rate): (usize, &Result<f64, &str>)| Tried {
            number,
            stages: String::new(),
            predicted: 1e6,
            measured: rate.map_err(str::to_string),
        };
        measured.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_fastest_wins_and_the_models_favourite_among_equals() {
        assert_eq!(fastest(&tried(&[Ok(1e6), Ok(2e6), Ok(1.5e6)])), Some(1));
        assert_eq!(fastest(&tried(&[Ok(2e6), Ok(2.01e6)])), Some(0));
        assert_eq!(fastest(&tried(&[Err("too large"), Ok(1e6)])), Some(1));
        assert_eq!(fastest(&tried(&[Err("too large")])), None);
    }
}
