//! A program on live interfaces.

use std::time::Duration;

use nicforge_codegen::{LineStyle, xdp};
use nicforge_run::dev::{DevOptions, DevSession, DevStats};
use serde_json::json;

use super::STOP;
use super::control::Control;
use super::summary::Summary;
use crate::args::Run;
use crate::cmd::compare::describe;
use crate::context::{Failure, Runtime};
use crate::program::{self, Loaded, lower, unsupported};
use crate::{events, text};

/// Attaches, reports each second, detaches at the end.
pub fn run(args: &Run, loaded: &Loaded, runtime: &Runtime) -> Result<(), Failure> {
    let source = &*loaded.program;
    let entries = events::tables(&args.inputs, source, &loaded.path)?;
    let compiled = lower(&loaded.program)?;
    let artifact = xdp::generate(&compiled, LineStyle::Directives).map_err(|e| unsupported(&compiled, &e))?;
    let fail = |e| program::kernel_failure(source, e);
    let mut session =
        DevSession::start(&compiled, &artifact, &runtime.target_headers("xdp"), &args.dev).map_err(fail)?;
    let mut tables = session.loaded().tables();
    events::fill(&mut tables, &entries)?;
    let mut metrics = || json!(null);
    let mut control = Control::new(source, &mut tables, &mut metrics)?;
    if !args.json {
        eprintln!("{} runs on {}; Ctrl-C ends", source.name, args.dev.join(", "));
    }
    let mut every_second = |_: &nicforge_run::xdp::Loaded, stats: &DevStats| {
        if args.json {
            return;
        }
        let drops: u64 = stats.drops.iter().map(|d| d.2).sum();
        let ns = if stats.packets > 0 { stats.busy_ns as f64 / stats.packets as f64 } else { 0.0 };
        println!("{}packets/s, {ns:.0} ns/packet, {drops} dropped", text::si(stats.packets_per_second()));
    };
    let mut options = DevOptions {
        duration: args.duration.map(Duration::from_secs_f64),
        stop: &STOP,
        every_second: &mut every_second,
        idle: &mut |_| control.poll(),
        host: &mut |output| {
            if args.events {
                println!("{}", describe(source, &output));
            }
        },
    };
    let stats = session.run(&mut options).map_err(fail)?;
    let mut summary = Summary::new("xdp", args.dev.join(", "), source);
    summary.packets_in = stats.packets;
    summary.seconds = Some(stats.seconds);
    summary.drops = stats.drops.iter().filter(|d| d.2 > 0).map(|(_, text, n)| (text.clone(), *n)).collect();
    summary.read_tables(source, &session.loaded().tables())?;
    summary.show(source, args.json, args.metrics);
    Ok(())
}
