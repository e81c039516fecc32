//! A program on live interfaces.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use nicforge_codegen::LineStyle;
use nicforge_driver::compare::describe;
use nicforge_driver::program::{self, Loaded};
use nicforge_driver::stop::{STOP, stopped};
use nicforge_driver::{Failure, Runtime, color, events, pipelines};
use nicforge_ir::{Op, Output, Program};
use nicforge_run::attach::HostSocket;
use nicforge_run::dev::{DevOptions, DevSession, DevStats, InterfaceChange};
use nicforge_run::privilege;
use nicforge_run::socket::Server;
use nicforge_run::xdp::XdpError;
use nicforge_run::xdp::attach::index_of;
use nicforge_run::xdp::device::takes_vlan_tags;
use nicforge_target::Target;

use super::reload::{self, Controlled};
use super::summary::Summary;
use super::watch::Watch;
use crate::args::Run;
use crate::text;

/// State that changes while a program runs on interfaces.
pub struct State {
    /// The program as its author wrote it.
    pub program: Program,
    pub target: Target,
    /// Where it is from.
    pub path: PathBuf,
    /// What came for the host side.
    pub host: Summary,
    interfaces: String,
}

impl State {
    /// Counts of the run.
    pub fn summary(&self, session: &DevSession, stats: &DevStats) -> Result<Summary, Failure> {
        let mut summary = self.host.clone();
        summary.setting = self.interfaces.clone();
        summary.packets_in = stats.packets;
        let used =
            |list: &[(String, u64)]| list.iter().filter(|item| item.1 > 0).cloned().collect();
        summary.drops = used(&stats.drops);
        summary.refused = used(&stats.refused);
        let dropped: u64 = stats.drops.iter().map(|drop| drop.1).sum();
        summary.forwarded = Some(stats.packets.saturating_sub(dropped + summary.host_packets));
        summary.busy = (stats.packets > 0).then(|| stats.busy_ns as f64 / stats.packets as f64);
        summary.copies = (stats.copies, stats.copies_lost);
        summary.to_host = session.loaded().process_events();
        summary.read_tables(&self.program, &session.loaded().tables())?;
        Ok(summary)
    }
}

/// Attaches, reports each second, detaches at the end.
pub fn run(target: &Target, args: &Run, loaded: &Loaded, runtime: Runtime) -> Result<(), Failure> {
    let source = &*loaded.program;
    let attach = args.host_socket.as_ref().map(|path| HostSocket::new(path, source));
    let mut attach = attach.transpose().map_err(|e| Failure::of(e.fault(), e))?;
    wait_for_interfaces(args);
    let mut session = start(target, args, loaded, runtime)?;
    if let Some(socket) = &mut attach {
        socket.share(source, session.loaded()).map_err(|e| Failure::of(e.fault(), e))?;
    }
    // Attached: what is only needed for that is given up.
    let given_up = privilege::give_up(args.host_socket.is_some());
    given_up.map_err(|e| Failure::environment(format!("cannot give up privileges: {e}")))?;
    color::set(false);
    hidden_tags(source, &args.dev);
    let mut server = Server::start(&source.name).map_err(|e| Failure::of(e.fault(), e))?;
    errln!("{} runs on {}; Ctrl-C ends", source.name, args.dev.join(", "));
    let mut watch = args.watch.then(|| Watch::new(&loaded.path, source));
    let state = RefCell::new(State {
        program: source.clone(),
        target: target.clone(),
        path: loaded.path.clone(),
        host: Summary::new(&target.name, String::new(), source),
        interfaces: args.dev.join(", "),
    });
    let quiet = args.json || args.metrics;
    let mut options = DevOptions {
        duration: args.duration,
        stop: &STOP,
        every_second: &mut |_, stats| {
            if !quiet {
                second(stats);
            }
        },
        idle: &mut |session| {
            let state = &mut *state.borrow_mut();
            if let Some(watch) = &mut watch
                && watch.changed()
            {
                reload::because_changed(args, state, session, watch);
            }
            server.poll(&mut Controlled::new(state, session, &args.inputs));
        },
        host: &mut |output: &Output| {
            let state = &mut *state.borrow_mut();
            state.host.count(&state.program, output);
            if args.events {
                outln!("{}", describe(&state.program, output));
            }
        },
        wait_interface: args.wait_interface,
        interface: &mut |name, change| match change {
            InterfaceChange::Gone if args.wait_interface => {
                errln!("interface `{name}` is gone; waiting for it to come back");
            }
            InterfaceChange::Gone => {}
            InterfaceChange::Back => {
                errln!("interface `{name}` is back; {} runs on it", source.name)
            }
        },
        attach: attach.as_mut(),
    };
    let stats = session.run(&mut options).map_err(|e| program::kernel_failure(source, e))?;
    server.finish();
    let state = state.into_inner();
    let mut summary = state.summary(&session, &stats)?;
    summary.seconds = Some(stats.seconds);
    summary.attached = attach.map(|socket| socket.counts());
    summary.show(&state.program, args.json, args.metrics);
    match session.gone() {
        Some(name) if !args.wait_interface => Err(Failure::gone(format!(
            "interface `{name}` is gone, so the run ended; with --wait-interface it waits for it to come back"
        ))),
        _ => Ok(()),
    }
}

/// Warns of interfaces that hide VLAN tags from a program that looks for them.
fn hidden_tags(program: &Program, interfaces: &[String]) {
    if !looks_for_tags(program) {
        return;
    }
    for name in interfaces.iter().filter(|name| takes_vlan_tags(name)) {
        errln!(
            "warning: interface `{name}` takes VLAN tags out of frames that its sender or hardware marks, so the \
             program does not see them; `ethtool -K {name} rxvlan off`, and on a veth pair's other end `txvlan off`"
        );
    }
}

/// True if a program compares 16 bits with the EtherType of a VLAN tag (IEEE 802.1Q, 802.1ad), in
/// either byte order.
fn looks_for_tags(program: &Program) -> bool {
    let bodies =
        program.handlers.values().map(|h| &h.body).chain(program.funcs.values().map(|f| &f.body));
    let mut found = false;
    for body in bodies {
        // C compares integers of 16 bits as wider ones.
        let (mut tags, mut short) = (HashSet::new(), HashSet::new());
        body.for_each_inst(body.entry(), &mut |inst| {
            let inst = &body.insts[inst];
            let results = inst.results.iter().copied();
            short.extend(results.clone().filter(|&value| body.ty(value).bits() == Some(16)));
            match inst.op {
                Op::Int(0x8100 | 0x0081 | 0x88a8 | 0xa888) => tags.extend(results),
                Op::Cast(from) if body.ty(from).bits() == Some(16) => short.extend(results),
                _ => {
                    let mut operands = inst.op.operands();
                    let tag = operands.clone().any(|value| tags.contains(&value));
                    let other =
                        operands.any(|value| short.contains(&value) && !tags.contains(&value));
                    found |= tag && other;
                }
            }
        });
    }
    found
}

/// Waits until every interface is there, if that is wanted.
fn wait_for_interfaces(args: &Run) {
    let missing = || args.dev.iter().find(|name| index_of(name).is_err());
    let Some(name) = missing().filter(|_| args.wait_interface) else { return };
    errln!("there is no interface `{name}` yet; waiting for it");
    while missing().is_some() && !stopped() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Loads, fills the tables and only then attaches: no packet meets empty tables.
fn start(
    target: &Target,
    args: &Run,
    loaded: &Loaded,
    runtime: Runtime,
) -> Result<DevSession, Failure> {
    let source = &*loaded.program;
    let entries = events::tables(&args.inputs, source, &loaded.path)?;
    let built = match pipelines::xdp(&args.planned, &loaded.program, target)? {
        Some(job) => {
            let artifact = pipelines::xdp_artifact(&job, target, LineStyle::Directives)?;
            program::compile_live(job.program, artifact, &runtime)?
        }
        None => program::build_live(loaded, &runtime)?,
    };
    drop(runtime);
    let fail = |e: XdpError| program::kernel_failure(source, e);
    let prepared = DevSession::prepare(&built.program, &built.artifact, &built.object, &args.dev)
        .map_err(fail)?;
    events::fill(&mut prepared.loaded().tables(), &entries)?;
    prepared.attach().map_err(fail)
}

fn second(stats: &DevStats) {
    let drops: u64 = stats.drops.iter().map(|drop| drop.1).sum();
    let ns = if stats.packets > 0 { stats.busy_ns as f64 / stats.packets as f64 } else { 0.0 };
    outln!(
        "{:>9}packets/s  {ns:>6.0} ns/packet  {drops:>8} dropped",
        text::si(stats.packets_per_second())
    );
}
