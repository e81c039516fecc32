//! Programs as hardware: `build`, `verify` and `run` for targets whose code generator is the RTL
//! one.

mod report;

use nicforge_driver::program::Loaded;
use nicforge_driver::{Failure, compare, design, events, pipelines};
use nicforge_ir::{Input, InputEvent, Output, Program};
use nicforge_run::rtl::{Drive, RtlRun, takes};
use nicforge_target::Target;

use super::run::control;
use super::run::summary::{Summary, TableSize};
use crate::args::Run;
use crate::{interrupt, out};

/// Plays captures into the simulated design and reports what it did and how fast.
pub fn run(target: &Target, args: &Run, loaded: &Loaded) -> Result<(), Failure> {
    let events = events::captures(&args.inputs, &loaded.program, &loaded.path)?;
    let entries = events::tables(&args.inputs, &loaded.program, &loaded.path)?;
    let taken: Vec<InputEvent> = events.iter().filter(|event| takes(event)).cloned().collect();
    let design = pipelines::design(&args.planned, &loaded.program, target)?;
    let drive = Drive { trace: args.trace.clone(), ..Drive::default() };
    let fail = |e| design::failure(&loaded.program, e);
    let (run, mut held) = if args.hold {
        let (run, held) = design.hold(&taken, &entries, &drive).map_err(fail)?;
        (run, Some(held))
    } else {
        (design.run(&taken, &entries, &drive).map_err(fail)?, None)
    };
    if args.events {
        for (number, outputs) in run.run.outputs.iter().enumerate() {
            for output in outputs {
                outln!("{}: {}", number + 1, compare::describe(&loaded.program, output));
            }
        }
    }
    if let Some(path) = &args.out {
        write(path, loaded, &taken, &run)?;
    }
    let left_out = events.len() - taken.len();
    let summary = summary(target, &loaded.program, &taken, &run);
    if args.metrics {
        out::text(&summary.prometheus(&loaded.program));
    } else if args.json {
        outln!(
            "{:#}",
            report::report(target, loaded, report::stages_of(&design), &run.stats, left_out)
        );
    } else {
        outln!(
            "{}: {}",
            loaded.program.name,
            design::form_of(&loaded.program, &design.artifact().form)
        );
        report::print(target, loaded, report::stages_of(&design), &run.stats, left_out);
    }
    if let Some(held) = &mut held {
        // The design must end in order, for the sake of its waveforms.
        interrupt::stop_in_order();
        control::hold(&loaded.program, held, summary)?;
    }
    Ok(())
}

/// The run as other targets report theirs.
fn summary(target: &Target, program: &Program, events: &[InputEvent], run: &RtlRun) -> Summary {
    let mut summary = Summary::new(&target.name, "simulated by Verilator".to_string(), program);
    for event in events {
        match event.input {
            Input::Net { .. } => summary.packets_in += 1,
            Input::Host { .. } => summary.messages_in += 1,
            Input::Tick { .. } => summary.ticks += 1,
        }
    }
    run.run.outputs.iter().flatten().for_each(|output| summary.count(program, output));
    for (id, table) in &program.tables {
        let refused =
            run.stats.counters.get(&format!("refused_{}", table.name)).copied().unwrap_or(0);
        if refused > 0 {
            summary.refused.push((table.name.clone(), refused));
        }
        summary.tables.push(TableSize {
            name: table.name.clone(),
            kind: table.kind.name(),
            entries: run.run.tables.get(&id).map_or(0, Vec::len),
            capacity: table.capacity,
        });
    }
    summary
}

/// What was sent, by port, with the times at which packets came in.
fn write(
    path: &std::path::Path,
    loaded: &Loaded,
    events: &[InputEvent],
    run: &RtlRun,
) -> Result<(), Failure> {
    let mut sent = vec![Vec::new(); loaded.program.ports as usize];
    for (event, outputs) in events.iter().zip(&run.run.outputs) {
        for output in outputs {
            if let Output::Send { port, frame } = output
                && let Some(list) = sent.get_mut(*port as usize)
            {
                list.push((event.time_ns, frame.clone()));
            }
        }
    }
    events::write(path, &sent)
}
