//! A capture through the interpreter.

use nicforge_driver::compare::describe;
use nicforge_driver::program::Loaded;
use nicforge_driver::stop::stopped;
use nicforge_driver::{Failure, events};
use nicforge_ir::interp::Interp;
use nicforge_ir::{Input, Output};

use super::control;
use super::interleave::Interleaved;
use super::summary::Summary;
use crate::args::Run;

/// Interprets every event and reports.
pub fn run(args: &Run, loaded: &Loaded) -> Result<(), Failure> {
    let program = &*loaded.program;
    let list = events::captures(&args.inputs, program, &loaded.path)?;
    let entries = events::tables(&args.inputs, program, &loaded.path)?;
    let mut interp = Interp::new(&loaded.program);
    events::fill(&mut interp, &entries)?;
    let mut summary = Summary::new("interp", "the reference interpreter".to_string(), program);
    let mut sent = vec![Vec::new(); program.ports as usize];
    let mut note = |summary: &mut Summary, origin: usize, time_ns: u64, outputs: Vec<Output>| {
        for output in outputs {
            summary.count(program, &output);
            if args.events {
                outln!("{}: {}", origin + 1, describe(program, &output));
            }
            if let Output::Send { port, frame } = output
                && let Some(list) = sent.get_mut(port as usize)
            {
                list.push((time_ns, frame));
            }
        }
    };
    if let Some(seed) = args.interleave {
        let mut steps = Interleaved::new(&mut interp, &list, seed);
        while !stopped()
            && let Some(done) = steps.step()?
        {
            note(&mut summary, done.origin, done.step, done.outputs);
        }
        summary.packets_in = steps.begun();
        summary.losses = steps.lost();
        summary.stopped = stopped();
    } else {
        for (i, event) in list.iter().enumerate() {
            if stopped() {
                summary.stopped = true;
                break;
            }
            match event.input {
                Input::Net { .. } => summary.packets_in += 1,
                Input::Host { .. } => summary.messages_in += 1,
                Input::Tick { .. } => summary.ticks += 1,
            }
            let outputs =
                interp.run(event).map_err(|e| Failure::user(format!("event {}: {e}", i + 1)))?;
            note(&mut summary, i, event.time_ns, outputs);
        }
    }
    let refused = &interp.counters().refused;
    summary.refused = program
        .tables
        .iter()
        .map(|(id, t)| (t.name.clone(), refused[id]))
        .filter(|r| r.1 > 0)
        .collect();
    summary.drops.retain(|drop| drop.1 > 0);
    summary.read_tables(program, &interp)?;
    if let Some(out) = &args.out {
        events::write(out, &sent)?;
    }
    summary.show(program, args.json, args.metrics);
    if args.hold {
        control::hold(program, &mut interp, summary)?;
    }
    Ok(())
}
