//! `nicforge plan`: the pipeline that suits a target.

use std::time::{Duration, Instant};

use nicforge_ir::{Entry, InputEvent, Program, Side, TableId, Verified};
use nicforge_plan::{self as plans, Edge, Objective, Plan, Replication, Steering};
use nicforge_planner::instance::Config;
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{self, Found, Limits, NoPlan};
use nicforge_planner::{assemble, profile};
use nicforge_target::area::AreaCosts;
use nicforge_target::{Target, Traffic, support};
use serde_json::{Value, json};

use super::guaranteed::{self, Choice, STAGE_TIME};
use super::rates::Guaranteed;
use super::{fpga, matrix, rates, tune};
use crate::args::{self, Inputs, Planned, Planning};
use crate::backend;
use crate::by_target::Programs;
use crate::context::{Failure, Runtime};
use crate::program::{self, Loaded};
use crate::{events, interrupt, out};

/// Searches and prints.
pub fn run(args: args::Plan) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    let targets = matrix::targets(&args.target)?;
    let all = targets.len() > 1;
    let mut programs = Programs::load(&args.source, &targets, &runtime)?;
    drop(runtime);
    programs.each(|loaded| profile(loaded, &args.planning, &args.inputs))?;
    out::notes(&programs.general.warnings);
    let mut answers = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        let loaded = programs.of(number);
        match one(&args, loaded, target) {
            Ok((mut plan, choice)) => {
                let guarantee = match choice {
                    Some((found, note)) => Some(format!("{}\n{note}", rates::words(&found))),
                    None if args.guarantee => {
                        Some(with_guarantee(&mut plan, &loaded.program, target)?)
                    }
                    // What JSON says is the same on every machine: only what was asked for takes
                    // the time it needs.
                    None if args.json => None,
                    None => Some(rates::quickly(&plan, &loaded.program, target)),
                };
                if args.json {
                    answers.push(serde_json::to_value(&plan).unwrap_or(Value::Null));
                    continue;
                }
                print(&plan, target);
                if let Some(area) = &target.area {
                    print_area(area, &loaded.program, &plan)?;
                }
                if let Some(line) = guarantee {
                    outln!("{line}");
                }
                if args.search {
                    print_search(&plan);
                }
                if all {
                    outln!();
                }
            }
            Err(failure) if all && args.json => {
                answers.push(json!({ "target": target.name, "error": failure.reason() }));
            }
            Err(failure) if all => {
                outln!("{} on {}: {}\n", loaded.program.name, target.name, failure.reason())
            }
            Err(failure) => return Err(failure),
        }
    }
    match &answers[..] {
        [] => {}
        [only] if !all => outln!("{only:#}"),
        _ => outln!("{:#}", json!({ "schema": "nicforge/plans", "version": 1, "plans": answers })),
    }
    Ok(())
}

/// What the design takes of the device.
fn print_area(area: &AreaCosts, source: &Verified<Program>, plan: &Plan) -> Result<(), Failure> {
    let program = program::lower(source)?;
    let estimate = area.estimate(&program, &fpga::with(source, plan, area)?.handlers());
    let (fullest, share) = area.fullest(&estimate);
    outln!(
        "area, estimated: {:.0} LUTs, {:.0} flip-flops, {} BRAM, {} DSP; {:.2} % of the {fullest}",
        estimate.luts,
        estimate.flip_flops,
        estimate.half_brams / 2.0,
        estimate.dsps,
        100.0 * share
    );
    Ok(())
}

/// Puts the guaranteed rate into a plan; a line about it.
fn with_guarantee(plan: &mut Plan, source: &Program, target: &Target) -> Result<String, Failure> {
    let found = rates::guaranteed(plan, source, target, STAGE_TIME)?;
    plan.predicted.guaranteed_pps = Some(found.one_flow);
    Ok(rates::words(&found))
}

/// A guarantee and how it was found.
type Chosen = Option<(Guaranteed, String)>;

fn one(args: &args::Plan, loaded: &Loaded, target: &Target) -> Result<(Plan, Chosen), Failure> {
    if let Some(most) = args.tune {
        let tuned =
            tune::tune(loaded, target, &args.planning, &args.source, &args.inputs, most, false)?;
        if !args.json {
            tuned.print();
        }
        return Ok((tuned.plan, None));
    }
    let Some(path) = &args.plan else {
        let (plan, interrupted, chosen) = searched(loaded, target, &args.planning)?;
        if interrupted {
            errln!(
                "note: the search was stopped; this is the best plan so far, of {} candidates",
                plan.search.len()
            );
        }
        return Ok((plan, chosen));
    };
    let file = path.display().to_string();
    let content =
        std::fs::read_to_string(path).map_err(|e| Failure::user(format!("{file}: {e}")))?;
    Ok((read(&file, &content, &loaded.program, target)?, None))
}

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
    backend::price(&mut plan, source, target)?;
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

/// The same, with the guarantee where that is the objective.
fn searched(
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
    backend::price(&mut plan, source, target)?;
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
    let found = search::search(source, target, &config, goal, limits, &interrupt::stopped)
        .map_err(|e| Failure::user(e.to_string()))?;
    Ok((found, config))
}

/// Why no plan of a program fits on a target; nothing where one does, or where the target lacks
/// what the program needs.
///
/// # Errors
/// A pass failed.
pub fn unfit(program: &Verified<Program>, target: &Target) -> Result<Option<String>, Failure> {
    let source = &*program::to_plan(program, target)?;
    if !support::missing(source, target).is_empty() {
        return Ok(None);
    }
    let planning = Planning::default();
    let config = config(&planning, source, target)?;
    // The program as it is fits most often; pipelines are only looked for if it does not.
    for candidates in [1, planning.iterations] {
        let limits = Limits { candidates, until: None, beyond_ceiling: false };
        match search::search(source, target, &config, Goal::Rate, limits, &interrupt::stopped) {
            Ok(_) => return Ok(None),
            Err(NoPlan::DoesNotFit { reason, .. }) if candidates > 1 => return Ok(Some(reason)),
            Err(NoPlan::DoesNotFit { .. }) => {}
            Err(other) => return Err(Failure::user(other.to_string())),
        }
    }
    Ok(None)
}

fn mpps(rate: f64) -> String {
    format!("{:.2}", rate / 1e6)
}

/// The plan as a table.
pub fn print(plan: &Plan, target: &Target) {
    let predicted = &plan.predicted;
    let (stages, units) = (plan.stages.len(), plan.stages.iter().map(|s| s.replicas).sum::<u32>());
    outln!(
        "{} on {}: {stages} stage{}, {units} unit{}, {} Mpps = {:.1} Gbit/s of {}-byte frames{}, {:.1} us, {:.0} nJ a packet ({:?})",
        plan.program,
        plan.target,
        if stages == 1 { "" } else { "s" },
        if units == 1 { "" } else { "s" },
        mpps(predicted.rate_pps),
        predicted.bit_rate_bps / 1e9,
        plan.frame_bytes,
        if predicted.line_rate { ", the ports' rate" } else { "" },
        predicted.latency_ns / 1e3,
        predicted.nj_per_packet,
        target.speed,
    );
    outln!("limited by {}", predicted.limit);
    let width = plan.stages.iter().map(|s| s.name.len()).max().unwrap_or(5).max(5);
    outln!(
        "  {:width$}  {:>14}  {:>7}  {:>7}  {:>7}  steered by",
        "stage",
        "units",
        "cycles",
        "wait ns",
        "Mpps"
    );
    for stage in &plan.stages {
        let edge = plan.edges.iter().find(|edge| edge.to == stage.name);
        let group = target.units.iter().find(|g| g.name == stage.group).map_or(0, |g| g.count);
        outln!(
            "  {:width$}  {:>14}  {:>7.0}  {:>7.0}  {:>7}  {}",
            stage.name,
            format!("{} of {group} {}", stage.replicas, stage.group),
            stage.cycles,
            stage.wait_ns,
            mpps(stage.rate_pps),
            edge.map_or(String::new(), |edge| steered(&edge.steering, &stage.replication)),
        );
    }
    if !plan.tables.is_empty() {
        let width = plan.tables.iter().map(|t| t.name.len()).max().unwrap_or(5).max(5);
        outln!("  {:width$}  {:>10}  {:10}  stage", "table", "bytes", "memory");
        for table in &plan.tables {
            let users: Vec<&str> = plan
                .stages
                .iter()
                .filter(|s| s.tables.contains(&table.name))
                .map(|s| s.name.as_str())
                .collect();
            let kind = match (table.read_only, table.per_replica) {
                (true, _) => ", read only",
                (false, true) => ", a shard per replica",
                (false, false) => "",
            };
            outln!(
                "  {:width$}  {:>10}  {:10}  {}{kind}",
                table.name,
                table.bytes,
                table.memory,
                users.join(", ")
            );
        }
    }
    if plan.ordered_output {
        outln!("  packets are put in order again where they leave");
    }
    if plan.context_bytes > 0 {
        let whole = |edge: &Edge| edge.values.iter().map(|value| 2 * value.bytes).sum::<u32>();
        let (all, copied): (u32, u32) = plan.edges.iter().fold((0, 0), |(all, copied), edge| {
            (all + whole(edge), copied + edge.sent_bytes() + edge.received_bytes())
        });
        outln!(
            "  {} bytes of values stay with the packet: {copied} instead of {all} bytes are copied over all edges",
            plan.context_bytes
        );
    }
    outln!(
        "{} candidates; `nicforge plan --search` lists them, `nicforge explain` answers why",
        plan.search.len()
    );
}

fn steered(steering: &Steering, replication: &Replication) -> String {
    let by = match replication {
        Replication::Sharded { by } => by.join(", "),
        _ => String::new(),
    };
    match steering {
        Steering::One => "-".to_string(),
        Steering::RoundRobin => "in turn".to_string(),
        Steering::Key { instances: Some(count), .. } => format!("{by} as a number below {count}"),
        Steering::Key { .. } => by,
        Steering::Header { fields } | Steering::Rss { fields, .. } => {
            let ports: Vec<String> = fields
                .iter()
                .map(|port| {
                    let names: Vec<&str> =
                        port.fields.iter().map(|field| field.name.as_str()).collect();
                    format!("port {}: {}", port.port, names.join(", "))
                })
                .collect();
            let kind = if matches!(steering, Steering::Rss { .. }) { "RSS, " } else { "" };
            format!("{kind}{}", ports.join("; "))
        }
    }
}

fn print_search(plan: &Plan) {
    outln!("  {:>4}  {:>6}  {:>8}  {:>8}  stages, what was done", "no", "from", "Mpps", "best");
    for step in &plan.search {
        let replicas: Vec<String> = step.replicas.iter().map(u32::to_string).collect();
        outln!(
            "{} {:>4}  {:>6}  {:>8}  {:>8}  {:12}  {}",
            if step.chosen { "*" } else { " " },
            step.iteration,
            step.parent.map_or("-".to_string(), |parent| parent.to_string()),
            mpps(step.rate_pps),
            mpps(step.best_pps),
            replicas.join("+"),
            step.action
        );
    }
}
