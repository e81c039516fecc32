//! `nicforge sim`: a planned program under simulated traffic.

use nicforge_plan::Plan;
use nicforge_planner::assemble;
use nicforge_sim::workload::{self, Rate, Synthetic, Templates};
use nicforge_sim::{InterpHandlers, Options, Report};

use super::{matrix, plan};
use crate::args;
use crate::context::{Failure, Runtime};
use crate::{events, interrupt, out, program};

/// Simulates and prints.
pub fn run(args: args::Sim) -> Result<(), Failure> {
    let spec = workload::parse(&args.workload).map_err(Failure::usage)?;
    let runtime = Runtime::unpack()?;
    let loaded = program::load(&args.source, &runtime)?;
    drop(runtime);
    out::notes(&loaded.warnings);
    let targets = matrix::targets(&args.target)?;
    let target = &targets[0];
    let (plan, _) = plan::find(&loaded.program, target, &args.planning)?;
    let planned = assemble::program_of(&plan).map_err(Failure::user)?;
    interrupt::stop_in_order();
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    let rate = match (&args.rate, spec.rate) {
        (Some(text), _) => workload::parse_rate(text).map_err(Failure::usage)?,
        (None, Some(rate)) => rate,
        (None, None) => Rate::Wire(target.ports.rate.value),
    };
    let mut handlers = InterpHandlers::new(&planned, false);
    events::fill(handlers.interp(), &entries)?;
    let templates = Templates::plain(spec.tcp);
    let mut traffic =
        Synthetic::new(spec, rate, templates, target.ports.overhead_bytes, args.packets.unwrap_or(u64::MAX));
    let options = Options {
        duration_ps: args.packets.is_none().then_some((args.duration * 1e12) as u64),
        stop: &interrupt::stopped,
        ..Options::default()
    };
    let report = nicforge_sim::run(target, &plan, &planned, &mut handlers, &mut traffic, &options)
        .map_err(|e| Failure::user(e.to_string()))?;
    if args.json {
        outln!("{:#}", report.json());
    } else {
        print(&report, &plan);
    }
    Ok(())
}

/// The report as tables.
fn print(report: &Report, plan: &Plan) {
    outln!(
        "{} on {}: offered {:.2} Mpps, delivered {:.2} Mpps = {:.1} Gbit/s (plan: {:.2} Mpps), loss {:.3} %",
        report.program,
        report.target,
        report.offered.pps / 1e6,
        report.delivered.pps / 1e6,
        report.delivered.bps / 1e9,
        plan.predicted.rate_pps / 1e6,
        report.loss * 100.0
    );
}
