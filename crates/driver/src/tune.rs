//! `--tune`: the best plans of a search are measured, and the fastest is taken.
//!
//! The model says which plans are worth running. What a plan is measured by is what its target has
//! here:
//!
//! | target | measured |
//! |---|---|
//! | `dpdk` | cycles of every stage in a process, by the processor's counter |
//! | RISC-V cores | cycles of every stage on simulated cores |
//! | `xdp` | time of every stage's program as the kernel counts it, on veth; processes behind AF_XDP by their threads' time |
//! | others | the greatest rate without loss in the simulator |
//!
//! Stages that run here give packets per second that the busiest of them keeps up with on one core
//! per replica, beside the same figure of the model: this machine has neither the ports nor the
//! cores of a server. Of several runs the fastest counts, since whatever else runs here only adds.
//! A plan that does not do what the interpreter does is an error, one that cannot run here is
//! passed over.

use nicforge_plan::{Objective, Plan};
use nicforge_planner::assemble;
use nicforge_planner::search::Found;
use nicforge_target::Target;

use crate::backend;
use crate::bench::{Bench, Failed, Traffic};
use crate::options::{Inputs, Planning};
use crate::planning as plans;
use crate::simulation::{self, Offered};
use crate::{Failure, Loaded, design, events, program, stop};

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

/// Results of measuring.
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
        Some(Bench { place, runs, .. }) => {
            let runs = if runs > 1 { format!(", fastest of {runs} runs") } else { String::new() };
            format!("{place}{runs}; packets the busiest stage keeps up with")
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
