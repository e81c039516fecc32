//! `nicforge verify`: a target against the interpreter, packet by packet, then table by table.

use nicforge_driver::backend::{self, Chosen};
use nicforge_driver::verify::{Case, Comparison, StageCycles, command, simulated};
use nicforge_driver::{Failure, Runtime, by_target, events, program, targets};

use super::{equal, lifted};
use crate::args::Verify;
use crate::interrupt;

/// Runs every event on both sides and reports the first differences.
pub fn run(args: Verify) -> Result<(), Failure> {
    if args.proof.against.is_some() || args.proof.prove {
        return equal::run(&args);
    }
    let proof = &args.proof;
    if proof.time.is_some() || proof.out.is_some() || !proof.ignore_map.is_empty() {
        let message = "--time, --out and --ignore-map are for --against and --prove";
        return Err(Failure::usage(message));
    }
    let runtime = Runtime::unpack()?;
    let (target, backend) = match &args.sim {
        Some(target) => (targets::find(target)?, None),
        None => match backend::find(&args.target)? {
            Some(Chosen { target, backend }) => (target, Some(backend)),
            None => {
                let message = "the interpreter is the reference; verify another target against it";
                return Err(Failure::usage(message));
            }
        },
    };
    let (loaded, subject) = by_target::pair(&args.source, &target, &runtime)?;
    let mut entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    let original = program::object_of(&args.source)
        .map(|(path, function)| lifted::Subject::read(&path, function, &args.source.loader))
        .transpose()?;
    let (events, wanted) = match &original {
        Some(original) if args.inputs.pcap.is_empty() => original.events(&args.source),
        _ => (events::captures(&args.inputs, &loaded.program, &loaded.path)?, Vec::new()),
    };
    if let Some(reason) = original.as_ref().and_then(lifted::Subject::not_alone) {
        if !args.json {
            outln!("the object in the kernel {reason}");
        }
    } else if let Some(original) = &original {
        if args.inputs.tables.is_none() {
            entries = original.entries(&events, wanted)?;
        }
        let result = original.judge(&events, &entries)?;
        if !args.json {
            result.differences.iter().for_each(|difference| outln!("{difference}"));
            outln!("the object in the kernel {}", result.verdict());
            outln!("{}", original.coverage(&args.source, &events, &entries)?);
        }
        result.end(0)?;
    }
    let case = Case {
        planned: &args.planned,
        exec: args.exec.as_deref(),
        source: &loaded.program,
        subject: &subject,
        events: &events,
        entries: &entries,
        runtime: &runtime,
    };
    let comparison = match backend {
        Some(backend) if case.exec.is_some() && !backend.has_images() => {
            command::run(&target, &case)?
        }
        Some(backend) => backend.verify(&target, &case)?,
        None => {
            interrupt::stop_in_order();
            simulated::run(&target, &case)?
        }
    };
    if comparison.without_tables {
        errln!("warning: tables were not compared: the command says `nf no-tables`");
    }
    if args.json {
        outln!("{:#}", comparison.json());
    } else {
        print(&comparison);
    }
    comparison.end()
}

/// Prints a comparison.
fn print(comparison: &Comparison) {
    let Comparison { target, stands_in, limits, agreement, beyond, plan, cycles, .. } = comparison;
    for StageCycles { stage, events, counted, planned } in cycles {
        outln!(
            "{stage}: {counted:.0} cycles an event here, {planned:.0} in the plan ({events} events)"
        );
    }
    for difference in &agreement.differences {
        outln!("{difference}");
    }
    if *beyond > 0 {
        outln!("{beyond} events are beyond what {limits} and were left out");
    }
    if let Some(text) = agreement.left_out() {
        outln!("{text}");
    }
    let stages = plan.as_ref().map_or(String::new(), |plan| {
        let list: Vec<String> =
            plan.stages.iter().map(|s| format!("{} x{}", s.name, s.replicas)).collect();
        format!(" ({})", list.join(", "))
    });
    let how = stands_in.map_or(String::new(), |how| format!(" ({how})"));
    outln!("{target}{stages} {}{how}", agreement.verdict());
}
