//! A program on DPDK's ports: interfaces of the kernel, or any device that DPDK names.

use std::time::Instant;

use nicforge_driver::program::Loaded;
use nicforge_driver::stop::STOP;
use nicforge_driver::{Failure, events, pipelines};
use nicforge_ir::Program;
use nicforge_run::dpdk::{DpdkProgram, DpdkRun, Live, Ports, Progress};
use nicforge_target::Target;

use super::dpdk::{print_stages, stages};
use super::summary::{Summary, TableSize};
use crate::args::Run;
use crate::text;

/// Longest frame that comes in, jumbo frames included.
const LONGEST_FRAME: u32 = 9216;

/// Plans, builds, opens the ports, reports each second, and ends in order.
pub fn run(target: &Target, args: &Run, loaded: &Loaded) -> Result<(), Failure> {
    let source = &*loaded.program;
    if args.dev.len() != source.ports as usize {
        let (wanted, given) = (source.ports, args.dev.join(" "));
        return Err(Failure::usage(format!(
            "the program has {wanted} ports; give each one a --dev, in order (given: {given})"
        )));
    }
    if args.watch || args.events {
        return Err(Failure::usage("--watch and --events follow interfaces of --target xdp only"));
    }
    let vdevs: Vec<String> =
        args.dev.iter().enumerate().map(|(port, dev)| vdev(port, dev)).collect::<Result<_, _>>()?;
    let entries = events::tables(&args.inputs, source, &loaded.path)?;
    let job = pipelines::on(&args.planned, &loaded.program, target)?;
    let failed = |error| pipelines::failure(&job.program, error);
    let app = DpdkProgram::new(&job.program, &job.pipeline).map_err(failed)?;
    let app =
        if job.apart { app.apart().map_err(failed)?.with_dma(job.dma.as_deref()) } else { app };
    app.path(false).map_err(failed)?;
    errln!("{} starts on {}; Ctrl-C ends", source.name, vdevs.join(" "));
    let quiet = args.json || args.metrics;
    let mut last = Progress::default();
    let mut live = Live {
        duration: args.duration,
        stop: &STOP,
        every_second: &mut |now| {
            if !quiet {
                second(&last, &now);
            }
            last = now;
        },
    };
    let ports = Ports { vdevs, longest_frame: LONGEST_FRAME, ..Ports::default() };
    let started = Instant::now();
    let run = app.run_live(&ports, &entries, &mut live).map_err(failed)?;
    if run.host_restarts > 0 {
        errln!(
            "the host's process ended {} times and was started again; its tables began anew",
            run.host_restarts
        );
    }
    let mut summary = summarise(target, source, &app, &run, args.dev.join(" "));
    summary.seconds = Some(started.elapsed().as_secs_f64());
    if args.json {
        let mut value = summary.json(source);
        value["stages"] = stages(&job, &run);
        outln!("{value:#}");
    } else {
        summary.show(source, false, args.metrics);
        if !args.metrics {
            print_stages(&job, &run);
        }
    }
    ended_well(&job, &run)
}

/// The device of a port as DPDK takes it: one of DPDK's own is given as it is, anything else is an
/// interface.
fn vdev(port: usize, dev: &str) -> Result<String, Failure> {
    if dev.starts_with("net_") {
        return Ok(dev.to_string());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if dev.is_empty() || dev.len() > 15 || !dev.chars().all(plain) {
        return Err(Failure::usage(format!(
            "--dev {dev}: expected an interface, or a device of DPDK such as net_af_xdp0,iface=eth0 or net_memif0,role=client"
        )));
    }
    Ok(format!("net_af_packet{port},iface={dev}"))
}

fn summarise(
    target: &Target,
    program: &Program,
    app: &DpdkProgram,
    run: &DpdkRun,
    devices: String,
) -> Summary {
    let mut summary = Summary::new(&target.name, devices, program);
    let stats = &run.stats;
    summary.on_ports = true;
    summary.packets_in = stats.received;
    for (port, sent) in stats.sent.iter().enumerate().take(program.ports as usize) {
        summary.sent[port] = *sent;
    }
    (summary.stack, summary.host_packets) = (stats.to_stack, stats.to_host);
    summary.losses =
        stats.losses().into_iter().map(|(why, count)| (why.to_string(), count)).collect();
    summary.drops.clear();
    for (at, (_, reason)) in app.artifact().host.reasons.iter().enumerate() {
        let count = stats.workers.iter().filter_map(|worker| worker.drops.get(at)).sum();
        summary.drops.push((reason.clone(), count));
    }
    summary.drops.retain(|drop| drop.1 > 0);
    for worker in &stats.workers {
        summary.host_messages += worker.messages;
        summary.dma_writes += worker.dma_writes;
        summary.logs += worker.logs;
    }
    for (id, table) in &program.tables {
        let refused = stats.workers.iter().filter_map(|worker| worker.refused.get(&id)).sum();
        if refused > 0 {
            summary.refused.push((table.name.clone(), refused));
        }
        let entries = run.tables.get(&id).map_or(0, Vec::len);
        let (kind, capacity) = (table.kind.name(), table.capacity);
        summary.tables.push(TableSize { name: table.name.clone(), kind, entries, capacity });
    }
    summary
}

fn second(last: &Progress, now: &Progress) {
    let rate = |now: u64, last: u64| text::si(now.saturating_sub(last) as f64);
    outln!(
        "{:>9}packets/s in  {:>9}packets/s out  {:>8} dropped  {:>6} lost",
        rate(now.received, last.received),
        rate(now.sent, last.sent),
        now.dropped,
        now.lost
    );
}

/// A worker that ended by itself is nothing that a run may end well with.
fn ended_well(job: &pipelines::Job, run: &DpdkRun) -> Result<(), Failure> {
    let Some((number, worker)) =
        run.stats.workers.iter().enumerate().find(|(_, worker)| worker.gone)
    else {
        return Ok(());
    };
    let stage =
        worker.stage.and_then(|at| job.plan.stages.get(at)).map_or("", |stage| stage.name.as_str());
    let lost = run.stats.stranded + run.stats.stranded_events;
    Err(Failure::environment(format!(
        "worker {number} (stage `{stage}`) ended by itself; {lost} events were in flight and are lost; start the program again"
    )))
}
