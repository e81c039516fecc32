//! `nicforge sim`: a planned program under simulated traffic.

use nicforge_driver::simulation::{Offered, Ready, Simulation};
use nicforge_driver::{Failure, Runtime, planning, program, stop, targets};
use nicforge_plan::Plan;
use nicforge_sim::find;
use nicforge_sim::workload::{self, Rate};
use nicforge_target::Target;
use serde_json::{Value, json};

use super::sim_print;
use crate::{args, interrupt, out};

/// Simulates and prints.
pub fn run(args: args::Sim) -> Result<(), Failure> {
    let offered = offered(&args)?;
    let sweep = args.sweep.as_deref().map(points).transpose()?;
    let runtime = Runtime::unpack()?;
    let target = one_target(&args.target)?;
    let mut loaded = program::load(&args.source.on(&target), &runtime)?;
    planning::profile(&mut loaded, &args.planning, &args.inputs)?;
    drop(runtime);
    out::notes(&loaded.warnings);
    let plan = match &args.plan {
        Some(path) => {
            let file = path.display().to_string();
            let content =
                std::fs::read_to_string(path).map_err(|e| Failure::user(format!("{file}: {e}")))?;
            planning::read(&file, &content, &loaded.program, &target)?
        }
        None => planning::find(&loaded, &target, &args.planning)?.0,
    };
    let needed = args.replay || !args.inputs.pcap.is_empty();
    let ready = Ready::of(&plan, &loaded, &args.inputs, needed)?;
    let mut simulation = Simulation::new(offered, &target, &plan, &ready)?;
    interrupt::stop_in_order();
    if args.find_max {
        return find_max(&mut simulation, &plan, args.json);
    }
    let Some(points) = sweep else {
        let report = simulation.run(simulation.rate)?;
        if args.json {
            outln!("{:#}", report.json());
        } else {
            sim_print::report(&report, &plan);
        }
        return Ok(());
    };
    let mut reports = Vec::new();
    for point in points {
        if stop::stopped() {
            break;
        }
        let (name, rate) = match point {
            Point::Rate(rate) => (rate.to_string(), rate),
            Point::Flows(flows) => {
                simulation.offered.spec.flows = flows;
                (flows.to_string(), simulation.rate)
            }
        };
        reports.push((name, simulation.run(rate)?));
    }
    if args.json {
        let runs: Vec<Value> = reports
            .iter()
            .map(|(at, report)| json!({ "at": at, "report": report.json() }))
            .collect();
        let name = args.sweep.as_deref().and_then(|text| text.split('=').next());
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/sims", "version": 1, "sweep": name, "runs": runs })
        );
    } else {
        sim_print::sweep(&reports, &plan);
    }
    Ok(())
}

fn one_target(name: &str) -> Result<Target, Failure> {
    let mut targets = targets::named(name)?;
    match (targets.pop(), targets.is_empty()) {
        (Some(target), true) => Ok(target),
        _ => Err(Failure::usage("a simulation is of one target; name it")),
    }
}

/// Traffic that the command line asks for.
fn offered(args: &args::Sim) -> Result<Offered, Failure> {
    let mut spec = workload::parse(&args.workload).map_err(Failure::usage)?;
    spec.seed = args.seed.unwrap_or(spec.seed);
    let rate = args.rate.as_deref().map(workload::parse_rate).transpose();
    let rates = match &args.rates {
        Some(path) => {
            let fail = |e: String| Failure::user(format!("{}: {e}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
            workload::parse_rates(&text).map_err(fail)?
        }
        None => Vec::new(),
    };
    Ok(Offered {
        spec,
        rate: rate.map_err(Failure::usage)?,
        replay: args.replay,
        rates,
        duration: args.duration,
        packets: args.packets,
        interpreted: args.interpreted,
    })
}

/// Prints the greatest rate without loss.
fn find_max(simulation: &mut Simulation, plan: &Plan, as_json: bool) -> Result<(), Failure> {
    let most = simulation.rate;
    match simulation.find_max()? {
        None => Err(Failure::user(
            "every rate loses frames: look at `nicforge sim` without --find-max for where",
        )),
        Some((rate, report)) if as_json => {
            let value = json!({
                "schema": "nicforge/sim-max", "version": 1, "loss_below": find::LOSS,
                "within": find::WITHIN, "rate": rate.to_string(), "reached_most": rate == most,
                "report": report.json(),
            });
            outln!("{value:#}");
            Ok(())
        }
        Some((rate, report)) => {
            let more = if rate == most { ", all that was offered" } else { "" };
            outln!("greatest rate with a loss below {} %: {rate}{more}", find::LOSS * 100.0);
            sim_print::report(&report, plan);
            Ok(())
        }
    }
}

/// One simulation of a sweep.
enum Point {
    Rate(Rate),
    Flows(u32),
}

/// Most simulations of a sweep.
const MOST_POINTS: usize = 1000;

/// Reads `rate=10G..100G/10G` or `flows=1..4096*4`.
fn points(text: &str) -> Result<Vec<Point>, Failure> {
    let wrong = |reason: &str| {
        Failure::usage(format!(
            "--sweep {text}: {reason}; write rate=10G..100G/10G, or flows=1..4096*4 (/ adds, * multiplies)"
        ))
    };
    let (name, range) = text.split_once('=').ok_or_else(|| wrong("expected NAME=FROM..TO/STEP"))?;
    let (from, rest) = range.split_once("..").ok_or_else(|| wrong("expected FROM..TO"))?;
    let at = rest.find(['/', '*']).ok_or_else(|| wrong("expected a step behind / or *"))?;
    let (to, step) = (&rest[..at], &rest[at + 1..]);
    let multiply = rest.as_bytes()[at] == b'*';
    let factor = |text: &str| text.parse::<f64>().ok().filter(|f| *f > 1.0);
    let read = |text: &str| -> Result<f64, Failure> {
        match name {
            "rate" => match workload::parse_rate(text).map_err(|e| wrong(&e))? {
                Rate::Wire(value) | Rate::Frames(value) => Ok(value),
            },
            "flows" => Ok(f64::from(
                text.parse::<u32>().map_err(|_| wrong("expected numbers of flows"))?.max(1),
            )),
            _ => Err(wrong("there is nothing of that name to sweep")),
        }
    };
    let (low, high) = (read(from)?, read(to)?);
    let step = if multiply {
        factor(step).ok_or_else(|| wrong("the factor must be above 1"))?
    } else {
        read(step)?
    };
    let frames = from.ends_with("pps");
    let mut list = Vec::new();
    let mut value = low;
    while value <= high * (1.0 + 1e-9) {
        list.push(match (name, frames) {
            ("flows", _) => Point::Flows(value as u32),
            (_, true) => Point::Rate(Rate::Frames(value)),
            (_, false) => Point::Rate(Rate::Wire(value)),
        });
        if list.len() > MOST_POINTS {
            return Err(wrong("that is more than 1000 simulations"));
        }
        value = if multiply { value * step } else { value + step };
    }
    if list.is_empty() { Err(wrong("nothing lies in that range")) } else { Ok(list) }
}
