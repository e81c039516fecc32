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
use nicforge_run::dev::pins::Pins;
use nicforge_run::dev::{DevOptions, DevSession, DevStats, InterfaceChange};
use nicforge_run::privilege;
use nicforge_run::socket::Server;
use nicforge_run::xdp::attach::index_of;
use nicforge_run::xdp::device::takes_vlan_tags;
use nicforge_run::xdp::{Tables, XdpError};
use nicforge_target::Target;

use super::reload::{self, Controlled, changes, fill};
use super::summary::Summary;
use super::watch::Watch;
use crate::args::Run;
use crate::cmd::reload::tables as tables_text;
use crate::{out, text};

/// State that changes while a program runs on interfaces.
pub struct State {
    /// The program as its author wrote it.
    pub program: Program,
    pub target: Target,
    /// Where it is from.
    pub path: PathBuf,
    interfaces: String,
}

impl State {
    /// Counts of the run.
    pub fn summary(&self, session: &DevSession, stats: &DevStats) -> Result<Summary, Failure> {
        let tables = session.loaded().tables();
        let mut summary =
            counted(&self.target.name, self.interfaces.clone(), &self.program, stats, &tables)?;
        summary.to_host = session.loaded().process_events();
        Ok(summary)
    }
}

/// What was counted of a program on interfaces.
pub fn counted(
    target: &str,
    interfaces: String,
    program: &Program,
    stats: &DevStats,
    tables: &Tables,
) -> Result<Summary, Failure> {
    let mut summary = Summary::new(target, interfaces, program);
    summary.packets_in = stats.packets;
    summary.host_packets = stats.host.packets;
    summary.host_messages = stats.host.messages;
    summary.dma_writes = stats.host.dma_writes;
    summary.logs = stats.host.logs;
    let used = |list: &[(String, u64)]| list.iter().filter(|item| item.1 > 0).cloned().collect();
    summary.drops = used(&stats.drops);
    summary.refused = used(&stats.refused);
    let dropped: u64 = stats.drops.iter().map(|drop| drop.1).sum();
    summary.forwarded = Some(stats.packets.saturating_sub(dropped + summary.host_packets));
    summary.busy = stats.ns_per_packet();
    summary.copies = (stats.copies, stats.copies_lost);
    summary.read_tables(program, tables)?;
    Ok(summary)
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
    let ends = match session.pinned() {
        Some(folder) => format!(
            "Ctrl-C ends this command, `nicforge detach {}` the program, pinned at {}",
            pin_name(args, source),
            folder.display()
        ),
        None => "Ctrl-C ends".to_string(),
    };
    errln!("{} runs on {}; {ends}", source.name, args.dev.join(", "));
    let mut watch = args.watch.then(|| Watch::new(&loaded.path, source));
    let state = RefCell::new(State {
        program: source.clone(),
        target: target.clone(),
        path: loaded.path.clone(),
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
            if args.events {
                outln!("{}", describe(&state.borrow().program, output));
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
    if session.pinned().is_some() {
        errln!("{} stays on {}", state.program.name, args.dev.join(", "));
    }
    match session.gone() {
        Some(name) if !args.wait_interface => Err(Failure::gone(format!(
            "interface `{name}` is gone, so the run ended; with --wait-interface it waits for it to come back"
        ))),
        _ => Ok(()),
    }
}

/// The name that the program is pinned by.
fn pin_name(args: &Run, program: &Program) -> String {
    let name = args.pin.clone().flatten();
    name.unwrap_or_else(|| program.name.replace(['.', '/'], "_"))
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
    let fail = |e: XdpError| program::kernel_failure(source, e);
    let pins = args.pin.as_ref().map(|_| Pins::open(&pin_name(args, source)));
    let pins = pins.transpose().map_err(fail)?;
    let built = match pipelines::xdp(&args.planned, &loaded.program, target)? {
        Some(job) => {
            let artifact = pipelines::xdp_artifact(&job, target, LineStyle::Directives)?;
            program::compile_live(job.program, artifact, &runtime)?
        }
        None => program::build_live(loaded, &runtime)?,
    };
    drop(runtime);
    let prepared =
        DevSession::prepare(&built.program, &built.artifact, &built.object, &args.dev, pins)
            .map_err(fail)?;
    fill(prepared.replacement(), &entries)?;
    if prepared.takes_over() {
        errln!("takes the place of the program that was pinned");
        out::notes(&tables_text(&changes(prepared.replacement())));
    }
    prepared.attach().map_err(fail)
}

fn second(stats: &DevStats) {
    let drops: u64 = stats.drops.iter().map(|drop| drop.1).sum();
    let ns = stats.ns_per_packet().unwrap_or_default();
    outln!(
        "{:>9}packets/s  {ns:>6.0} ns/packet  {drops:>8} dropped",
        text::si(stats.packets_per_second())
    );
}
