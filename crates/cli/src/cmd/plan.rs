//! `nicforge plan`: the pipeline that suits a target.

use nicforge_driver::by_target::Programs;
use nicforge_driver::guaranteed::STAGE_TIME;
use nicforge_driver::planning::{self, Chosen, read};
use nicforge_driver::program::{self, Loaded};
use nicforge_driver::{Failure, Runtime, design, rates, targets, tune};
use nicforge_ir::{Program, Verified};
use nicforge_plan::{Edge, Plan, Replication, Steering};
use nicforge_target::Target;
use nicforge_target::area::AreaCosts;
use serde_json::{Value, json};

use super::tuned;
use crate::{args, out};

/// Searches and prints.
pub fn run(args: args::Plan) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    let targets = targets::named(&args.target)?;
    let all = targets.len() > 1;
    let mut programs = Programs::load(&args.source, &targets, &runtime)?;
    drop(runtime);
    programs.each(|loaded| planning::profile(loaded, &args.planning, &args.inputs))?;
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

/// Prints what the design takes of the device.
fn print_area(area: &AreaCosts, source: &Verified<Program>, plan: &Plan) -> Result<(), Failure> {
    let program = program::lower(source)?;
    let estimate = area.estimate(&program, &design::with(source, plan, area)?.handlers());
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

fn one(args: &args::Plan, loaded: &Loaded, target: &Target) -> Result<(Plan, Chosen), Failure> {
    if let Some(most) = args.tune {
        let tuned = tune::tune(loaded, target, &args.planning, &args.inputs, most, false)?;
        if !args.json {
            tuned::print(&tuned);
        }
        return Ok((tuned.plan, None));
    }
    let Some(path) = &args.plan else {
        let (plan, interrupted, chosen) = planning::searched(loaded, target, &args.planning)?;
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
