//! A capture through a planned pipeline in a process.

use nicforge_driver::backend::Pipelined;
use nicforge_driver::compare::describe;
use nicforge_driver::pipelines::{self, Job};
use nicforge_driver::program::Loaded;
use nicforge_driver::verify::{self, Given};
use nicforge_driver::{Failure, events};
use nicforge_ir::{Input, Output};
use nicforge_run::dpdk::DpdkRun;
use nicforge_target::Target;
use serde_json::{Value, json};

use super::summary::{Promised, Summary, TableSize};
use crate::args::Run;

/// Plans, builds, runs and reports, with the interpreter beside it.
pub fn run(
    backend: &dyn Pipelined,
    target: &Target,
    args: &Run,
    loaded: &Loaded,
) -> Result<(), Failure> {
    let program = &*loaded.program;
    let mut list = events::captures(&args.inputs, program, &loaded.path)?;
    let all = list.len();
    list.retain(|event| backend.takes(event));
    let left_out = all - list.len();
    let entries = events::tables(&args.inputs, program, &loaded.path)?;
    let mut job =
        pipelines::job(backend.has_processes(target), target, &args.planned, &loaded.program)?;
    let (run, differences) = backend.compare(target, &mut job, &loaded.program, &entries, &list)?;
    let how = backend.stands_in(target).map_or(String::new(), |how| format!("; {how}"));
    let setting = format!(
        "{} stages, {} units and one for ports{how}",
        job.plan.stages.len(),
        job.pipeline.workers()
    );
    let mut summary = Summary::new(&target.name, setting, program);
    let mut sent = vec![Vec::new(); program.ports as usize];
    for (i, (event, outputs)) in list.iter().zip(&run.outputs).enumerate() {
        match event.input {
            Input::Net { .. } => summary.packets_in += 1,
            Input::Host { .. } => summary.messages_in += 1,
            Input::Tick { .. } => summary.ticks += 1,
        }
        for output in outputs {
            summary.count(program, output);
            if args.events {
                outln!("{}: {}", i + 1, describe(program, output));
            }
            if let Output::Send { port, frame } = output
                && let Some(list) = sent.get_mut(*port as usize)
            {
                list.push((event.time_ns, frame.clone()));
            }
        }
    }
    summary.drops.retain(|drop| drop.1 > 0);
    summary.promised = Promised::of(&job.plan, &loaded.program, target);
    summary.tables = program
        .tables
        .iter()
        .map(|(id, table)| TableSize {
            name: table.name.clone(),
            kind: table.kind.name(),
            entries: run.tables.get(&id).map_or(0, Vec::len),
            capacity: table.capacity,
        })
        .collect();
    let given = Given { source: &loaded.program, entries: &entries, events: &list };
    let agreement = verify::of_differences(&given, list.len(), differences)?;
    let agrees = agreement.complete();
    summary.agreement = Some(agreement);
    if let Some(out) = &args.out {
        events::write(out, &sent)?;
    }
    if args.json {
        let mut value = summary.json(program);
        value["stages"] = stages(&job, &run);
        if left_out > 0 {
            value["left_out"] = left_out.into();
        }
        if job.apart {
            let link = run.stats.link;
            let engine = job.dma.as_deref().unwrap_or("modelled");
            value["link"] = json!({ "entries": link.moved, "transfers": link.commands, "bytes": link.bytes, "engine": engine });
        }
        outln!("{value:#}");
    } else {
        summary.show(program, false, args.metrics);
        print_stages(&job, &run);
        if left_out > 0 {
            outln!("{left_out} events are beyond what {} and were left out", backend.limits());
        }
        if job.apart {
            let (link, engine) =
                (run.stats.link, job.dma.as_deref().unwrap_or("a modelled engine"));
            outln!(
                "to the host: {} entries of {} bytes in {} transfers by {engine}",
                link.moved,
                link.bytes,
                link.commands
            );
        }
    }
    if agrees { Ok(()) } else { Err(Failure::rendered(String::new())) }
}

/// Statistics of every stage, its replicas together, and of the unit that talks to ports.
pub fn stages(job: &Job, run: &DpdkRun) -> Value {
    let names = job.plan.stages.iter().map(|stage| (stage.name.as_str(), stage.replicas));
    let numbers = (0..job.plan.stages.len()).map(Some);
    let rows =
        numbers.zip(names).chain((job.pipeline.workers() > 1).then_some((None, ("ports", 1))));
    Value::Array(rows.map(|(at, (name, replicas))| stage(run, at, name, replicas)).collect())
}

fn stage(run: &DpdkRun, at: Option<usize>, name: &str, replicas: u32) -> Value {
    // The only worker of a program runs on the unit that talks to ports, and is counted there.
    let fused = run.stats.workers.len() == 2;
    let workers = run.stats.workers.iter().filter(|worker| worker.stage == at || fused);
    let (mut events, mut cycles, mut depth, mut full, mut lost) = (0u64, 0u64, 0u64, 0u64, 0u64);
    let mut dropped = 0u64;
    for worker in workers {
        events += worker.events;
        cycles += worker.cycles;
        depth = depth.max(worker.depth);
        full += worker.full;
        lost += worker.lost + worker.tx_failed;
        dropped += worker.drops.iter().sum::<u64>();
    }
    json!({
        "name": name, "replicas": replicas, "events": events,
        "cycles_per_event": if events > 0 { cycles as f64 / events as f64 } else { 0.0 },
        "queue_depth_max": depth, "waits_for_full_queue": full, "dropped": dropped, "lost": lost,
    })
}

pub fn print_stages(job: &Job, run: &DpdkRun) {
    let Value::Array(rows) = stages(job, run) else { return };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].to_string().trim_matches('"').to_string();
            let cycles = format!("{:.0}", row["cycles_per_event"].as_f64().unwrap_or(0.0));
            let mut cells = vec![text("name"), text("replicas"), text("events"), cycles];
            cells.extend(["queue_depth_max", "waits_for_full_queue", "dropped", "lost"].map(text));
            cells
        })
        .collect();
    let head = [
        "stage",
        "replicas",
        "events",
        "cycles/event",
        "deepest queue",
        "full queues",
        "dropped",
        "lost",
    ];
    outln!("{}", crate::text::table(&head, &cells).trim_end());
}
