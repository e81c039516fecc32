//! Plans: searched for, read from files, chosen.

use std::time::{Duration, Instant};

use nicforge_ir::{Entry, InputEvent, Program, Side, TableId, Verified};
use nicforge_plan::{self as plans, Objective, Plan};
use nicforge_planner::instance::Config;
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{self, Found, Limits, NoPlan};
use nicforge_planner::{assemble, profile};
use nicforge_target::{Target, Traffic, support};

use crate::guaranteed::{self, Choice};
use crate::options::{Inputs, Planned, Planning};
use crate::program::{self, Loaded};
use crate::rates::Guaranteed;
use crate::{Failure, design, events, stop};

/// A guarantee and how it was found.
pub type Chosen = Option<(Guaranteed, String)>;

/// A plan from a file, checked against program and target.
pub fn read(file: &str, content: &str, source: &Program, target: &Target) -> Result<Plan, Failure> {
    let plan = plans::parse(file, content).map_err(|e| Failure::user(e.to_string()))?;
    plans::check(file, &plan, target).map_err(|e| Failure::user(e.to_string()))?;
    if plan.program_hash != assemble::program_hash(source) {
        return Err(Failure::user(format!(
            "{file}: the plan was made for another version of `{}`; plan again, or give the program it was made for",
            plan.program
        )));
    }
    Ok(plan)
}

/// The plan that `--plan` or `--candidate` mean, or the best one.
pub fn chosen(
    planned: &Planned,
    source: &Verified<Program>,
    target: &Target,
) -> Result<Plan, Failure> {
    if let Some(path) = &planned.plan {
        let file = path.display().to_string();
        let content =
            std::fs::read_to_string(path).map_err(|e| Failure::user(format!("{file}: {e}")))?;
        return read(&file, &content, source, target);
    }
    let mut planning = Planning::default();
    if let Some(number) = planned.candidate {
        // They are numbered as they are found.
        planning.iterations = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
    }
    let (found, config) = candidates(source, target, &planning, planned.candidate.is_some())?;
    let number = planned.candidate.unwrap_or(found.best);
    if number >= found.candidates.len() {
        let last = found.candidates.len() - 1;
        return Err(Failure::usage(format!(
            "--candidate {number}: the search has candidates 0 to {last}"
        )));
    }
    let mut plan = assemble::plan(source, target, &config, Objective::Rate, &found, number);
    design::price(&mut plan, source, target)?;
    Ok(plan)
}

/// The objective a word stands for.
fn objective(text: &str) -> Result<(Objective, Goal), Failure> {
    Ok(match text.split_once('@') {
        None => match text {
            "rate" => (Objective::Rate, Goal::Rate),
            // The search knows expected rates only; its candidates are bounded afterwards.
            "guaranteed-rate" => (Objective::GuaranteedRate, Goal::Rate),
            "latency" => (Objective::Latency, Goal::Latency),
            "energy" => (Objective::Energy, Goal::Energy { base: 0.0 }),
            _ => {
                let known = "rate, guaranteed-rate, latency, energy, footprint@RATE (such as footprint@10Mpps)";
                return Err(Failure::usage(format!(
                    "there is no objective `{text}`; there are {known}"
                )));
            }
        },
        Some(("footprint", rate)) => {
            let rate = nicforge_target::quantity::Rate::parse(rate).map_err(Failure::usage)?;
            (Objective::Footprint(rate.value), Goal::Footprint(rate.value))
        }
        Some((other, _)) => {
            return Err(Failure::usage(format!("the objective `{other}` takes no @RATE")));
        }
    })
}

fn config(planning: &Planning, source: &Program, target: &Target) -> Result<Config, Failure> {
    let frame = planning.frame;
    if frame < target.ports.min_frame || frame > 16384 {
        let least = target.ports.min_frame;
        return Err(Failure::usage(format!("--frame {frame}: frames have {least} to 16384 bytes")));
    }
    // A handler of the host with a number of replicas asks for the cores they run on.
    let on_host = source.handlers.values().filter(|handler| handler.side == Some(Side::Host));
    let asked: u32 = on_host.filter_map(|handler| handler.max_replicas).sum();
    let mut config = Config {
        traffic: Traffic { frame_bytes: frame, flows: planning.flows },
        host_cores: planning.host_cores.max(asked),
        context: planning.context,
        ..Config::default()
    };
    for pin in &planning.pin {
        let Some((name, what)) = pin.split_once('=') else {
            return Err(Failure::usage(format!(
                "--pin {pin}: write TABLE=MEMORY or HANDLER=REPLICAS"
            )));
        };
        if source.table_named(name).is_some() {
            if !target.memories.iter().any(|memory| memory.name == what) {
                let known: Vec<&str> = target.memories.iter().map(|m| m.name.as_str()).collect();
                let text = format!(
                    "--pin {pin}: {} has no memory `{what}`; it has {}",
                    target.name,
                    known.join(", ")
                );
                return Err(Failure::usage(text));
            }
            config.pin_tables.insert(name.to_string(), what.to_string());
        } else if let Ok(most) = what.parse() {
            config.pin_replicas.insert(name.to_string(), most);
        } else {
            return Err(Failure::usage(format!("--pin {pin}: the program has no table `{name}`")));
        }
    }
    Ok(config)
}

/// Measures branch frequencies for the searches to come, if that is wanted.
pub fn profile(loaded: &mut Loaded, planning: &Planning, inputs: &Inputs) -> Result<(), Failure> {
    if planning.profile {
        let events = events::captures(inputs, &loaded.program, &loaded.path)?;
        let entries = events::tables(inputs, &loaded.program, &loaded.path)?;
        profile_on(loaded, &entries, &[], &events)
            .map_err(|e| Failure::user(format!("--profile: {e}")))?;
    }
    Ok(())
}

/// Measures branch frequencies on events, after others that do not count.
pub fn profile_on(
    loaded: &mut Loaded,
    entries: &[(TableId, Entry)],
    before: &[InputEvent],
    events: &[InputEvent],
) -> Result<(), String> {
    loaded.profiled = Some(profile::measured(&loaded.program, entries, before, events)?);
    Ok(())
}

/// Searches for a plan; whether the search was stopped before its end.
pub fn find(
    loaded: &Loaded,
    target: &Target,
    planning: &Planning,
) -> Result<(Plan, bool), Failure> {
    searched(loaded, target, planning).map(|(plan, interrupted, _)| (plan, interrupted))
}

/// The best plan, by its guarantee where that is the objective.
pub fn searched(
    loaded: &Loaded,
    target: &Target,
    planning: &Planning,
) -> Result<(Plan, bool, Chosen), Failure> {
    let source = &*program::to_plan(&loaded.program, target)?;
    let profiled = &*program::to_plan(loaded.profiled.as_ref().unwrap_or(&loaded.program), target)?;
    let (objective, _) = objective(&planning.objective)?;
    let until = planning.timeout.map(|limit: Duration| Instant::now() + limit);
    // Plans that all have the ports' rate may guarantee different ones.
    let guarantee = objective == Objective::GuaranteedRate;
    let (found, config) =
        candidates(profiled, target, planning, planning.all_candidates || guarantee)?;
    if guarantee {
        let Choice { plan, guaranteed, note } =
            guaranteed::choose(source, target, &config, &found, until)?;
        return Ok((plan, found.interrupted, Some((guaranteed, note))));
    }
    let mut plan = assemble::plan(source, target, &config, objective, &found, found.best);
    design::price(&mut plan, source, target)?;
    Ok((plan, found.interrupted, None))
}

/// All candidates of a search, and what it was done with.
pub fn candidates(
    source: &Verified<Program>,
    target: &Target,
    planning: &Planning,
    beyond_ceiling: bool,
) -> Result<(Found, Config), Failure> {
    program::taken(source, target)?;
    let (_, goal) = objective(&planning.objective)?;
    let goal = match goal {
        Goal::Energy { .. } => Goal::Energy { base: target.power.nic_base.value },
        other => other,
    };
    let config = config(planning, source, target)?;
    // Half of the time is left for bounds where they decide.
    let share = if planning.objective == "guaranteed-rate" { 2 } else { 1 };
    let until = planning.timeout.map(|limit: Duration| Instant::now() + limit / share);
    let limits = Limits { candidates: planning.iterations.max(1), until, beyond_ceiling };
    let found = search::search(source, target, &config, goal, limits, &stop::stopped)
        .map_err(|e| Failure::user(e.to_string()))?;
    Ok((found, config))
}

/// Why no plan of a program fits on a target; nothing where one does, or where the target lacks
/// what the program needs.
///
/// # Errors
/// A pass failed.
pub fn unfit(
    program: &Verified<Program>,
    target: &Target,
) -> Result<Option<(String, &'static str)>, Failure> {
    let source = &*program::to_plan(program, target)?;
    if !support::missing(source, target).is_empty() {
        return Ok(None);
    }
    let planning = Planning::default();
    let config = config(&planning, source, target)?;
    // The program as it is fits most often; pipelines are only looked for if it does not.
    for candidates in [1, planning.iterations] {
        let limits = Limits { candidates, until: None, beyond_ceiling: false };
        match search::search(source, target, &config, Goal::Rate, limits, &stop::stopped) {
            Ok(_) => return Ok(None),
            Err(NoPlan::DoesNotFit { reason, .. }) if candidates > 1 => {
                return Ok(Some((reason, "give tables fewer entries or smaller ones")));
            }
            Err(NoPlan::DoesNotFit { .. }) => {}
            Err(NoPlan::NoWay { reason, remedy, .. }) => return Ok(Some((reason, remedy))),
            Err(other) => return Err(Failure::user(other.to_string())),
        }
    }
    Ok(None)
}
