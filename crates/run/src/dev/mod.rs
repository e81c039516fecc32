//! A program on real interfaces, until its time is up or somebody stops it, and its replacement by
//! a changed one meanwhile.

pub mod pins;
mod received;
mod reload;
mod stats;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nicforge_codegen::XdpArtifact;
use nicforge_ir::timers::Timers;
use nicforge_ir::{Input, Op, Output, Program};

use pins::{Kept, Pins};
use received::{Count, Received};
pub use reload::{Replacement, TableChange};
use reload::{grace_period, swap};
use stats::Counting;
pub use stats::{DevStats, HostCounts};

use crate::attach::HostSocket;
use crate::compile::Mode;
use crate::live::Sender;
use crate::xdp::attach::{index_of, set_port};
use crate::xdp::compile_bpf;
use crate::xdp::{Attached, Loaded, RunStats, XdpError};

/// How often the control socket and the stop flag are looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// How often it is looked whether interfaces are still there.
const LOOK: Duration = Duration::from_millis(100);

/// A program attached to interfaces of the calling thread's network namespace. Dropping it
/// detaches, unless it is pinned.
pub struct DevSession {
    // In this order they are let go: detached before it is unloaded.
    attached: Vec<Attached>,
    loaded: Loaded,
    program: Program,
    interfaces: Vec<(u32, String)>,
    counting: Counting,
    /// Sends copies of packets, where the program makes some.
    sender: Option<Sender>,
    /// What came for the host side and was not handed on yet.
    pending: Vec<Output>,
    /// Ports whose interface is gone.
    gone: Vec<usize>,
    /// On [`DevSession::clock`].
    timers: Timers,
    began: Instant,
    /// Where it is pinned, if it is.
    pins: Option<Pins>,
    /// None where the process may not count runs.
    _stats: Option<RunStats>,
}

/// Changes of an interface while a program ran on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceChange {
    Gone,
    Back,
}

/// Options of a run on interfaces.
pub struct DevOptions<'a> {
    /// How long; for ever if absent.
    pub duration: Option<Duration>,
    /// Ends the run when set, within some milliseconds.
    pub stop: &'a AtomicBool,
    /// Called once a second.
    pub every_second: &'a mut dyn FnMut(&Loaded, &DevStats),
    /// Called many times a second: the place for a control socket, and for reloads.
    pub idle: &'a mut dyn FnMut(&mut DevSession),
    /// Gets everything for the program's host side, as it comes.
    pub host: &'a mut dyn FnMut(&Output),
    /// An interface that is gone is waited for; else the run ends.
    pub wait_interface: bool,
    /// Called when an interface goes or is back, with its name.
    pub interface: &'a mut dyn FnMut(&str, InterfaceChange),
    /// Where a program attaches that is the host side.
    pub attach: Option<&'a mut HostSocket>,
}

/// A program that is loaded for interfaces but not attached yet: the moment to fill its tables.
pub struct DevPrepared {
    /// All tables are new, unless it takes a pinned program's place.
    new: Replacement,
    interfaces: Vec<(u32, String)>,
    pins: Option<Pins>,
    kept: Option<Kept>,
}

impl DevPrepared {
    /// The program, and whose tables it takes over.
    pub fn replacement(&self) -> &Replacement {
        &self.new
    }

    /// True if it takes the place of a pinned program.
    pub fn takes_over(&self) -> bool {
        self.kept.is_some()
    }

    /// Attaches to every interface, or to none.
    ///
    /// # Errors
    /// [`XdpError::Busy`], [`XdpError::NoNative`] by interface; those of pinning.
    pub fn attach(self) -> Result<DevSession, XdpError> {
        let DevPrepared { new, interfaces, pins, kept } = self;
        let Replacement { loaded, program, .. } = new;
        // Counting takes CAP_SYS_ADMIN, running does not.
        let stats = match RunStats::enable() {
            Err(XdpError::Privilege { .. }) => None,
            stats => Some(stats?),
        };
        let sender = sender_of(&program)?;
        loaded.start_process(&interfaces)?;
        let before = kept.as_ref().zip(pins.as_ref());
        let names: Vec<String> = interfaces.iter().map(|(_, name)| name.clone()).collect();
        // Packets count for this program from the moment when the first can come.
        let (first, here) = (loaded.run_count()?, received::now(&names));
        let attached = attach(&loaded, &interfaces, before)?;
        let (mut earlier, mut unread) = (DevStats::default(), Vec::new());
        if let Some((kept, pins)) = before {
            grace_period();
            earlier = pins.counts(kept, &here);
            unread = pins.unread(kept)?;
        }
        let received =
            stats.is_none().then(|| Received::since(names, here.clone(), earlier.packets));
        let counting = Counting::start(first, received, earlier);
        let (pending, gone) = (Vec::new(), Vec::new());
        let mut session = DevSession {
            timers: Timers::armed(&program, 0),
            began: Instant::now(),
            attached,
            loaded,
            program,
            interfaces,
            counting,
            sender,
            pending,
            gone,
            pins,
            _stats: stats,
        };
        session.take(unread);
        let pinned = session.pin(here);
        if pinned.is_err()
            && kept.is_none()
            && let Some(pins) = session.pins.take()
        {
            pins.remove();
        }
        pinned.map(|()| session)
    }
}

/// Attaches a program to all interfaces, or to none; where a pinned one is attached, it takes its
/// place.
fn attach(
    loaded: &Loaded,
    interfaces: &[(u32, String)],
    kept: Option<(&Kept, &Pins)>,
) -> Result<Vec<Attached>, XdpError> {
    let (mut attached, mut there) = (Vec::new(), Vec::new());
    for (port, (ifindex, name)) in interfaces.iter().enumerate() {
        let known = kept.and_then(|(_, pins)| pins.link(port, *ifindex));
        there.push(known.is_some());
        attached.push(match known {
            Some(known) => known,
            None => loaded.attach(*ifindex, name).map_err(pins::named)?,
        });
    }
    if let Some((kept, _)) = kept {
        let known = attached.iter().zip(interfaces).zip(there);
        let list: Vec<(&Attached, &str)> = known
            .filter_map(|((attached, (_, name)), there)| there.then_some((attached, name.as_str())))
            .collect();
        swap(&list, kept.handler().as_fd(), loaded.handler_fd("net_recv")?)?;
    }
    Ok(attached)
}

/// The sender of the copies of packets, byte strings and new packets of a program, if it sends any.
fn sender_of(program: &Program) -> Result<Option<Sender>, XdpError> {
    let copies = program.events.values().any(|event| event.name == "net_copy");
    let bodies = program.handlers.values().map(|handler| &handler.body);
    let sends = |op: &Op| op.makes_packet() && program.sends(op);
    let strings = bodies.flat_map(|body| body.insts.values()).any(|inst| sends(&inst.op));
    (copies || strings).then(Sender::open).transpose()
}

impl DevSession {
    /// Loads what [`compile_bpf`] made in mode [`Mode::Live`]. `interfaces` are the program's ports
    /// in order. With `pins` it takes the place of the program that is pinned there, if one is, and
    /// is pinned itself once it is attached: programs of one stage without handlers in the process.
    ///
    /// # Errors
    /// [`XdpError::Ports`] unless every port has an interface, [`XdpError::NoInterface`],
    /// [`XdpError::PinnedElsewhere`], and those of loading.
    pub fn prepare(
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        interfaces: &[String],
        pins: Option<Pins>,
    ) -> Result<DevPrepared, XdpError> {
        check_ports(program, interfaces)?;
        let ifindex: Vec<u32> =
            interfaces.iter().map(|name| index_of(name)).collect::<Result<_, _>>()?;
        let kept = pins.as_ref().map(|pins| pins.kept(interfaces)).transpose()?.flatten();
        let new = match &kept {
            Some(kept) => kept.old().prepare(program, artifact, object, ifindex.clone())?,
            None => Replacement::fresh(program, artifact, object, ifindex.clone())?,
        };
        let interfaces = ifindex.into_iter().zip(interfaces.iter().cloned()).collect();
        Ok(DevPrepared { new, interfaces, pins, kept })
    }

    /// Compiles, prepares and attaches at once, for programs whose tables start empty.
    pub fn start(
        program: &Program,
        artifact: &XdpArtifact,
        includes: &[PathBuf],
        interfaces: &[String],
    ) -> Result<DevSession, XdpError> {
        check_ports(program, interfaces)?;
        let object = compile_bpf(&program.name, &artifact.source, Mode::Live, includes)?;
        DevSession::prepare(program, artifact, &object, interfaces, None)?.attach()
    }

    /// The program.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Everything counted since the program was attached, those it replaced included.
    pub fn stats(&self) -> Result<DevStats, XdpError> {
        let tables: Vec<String> =
            self.program.tables.values().map(|table| table.name.clone()).collect();
        self.counting.now(&self.loaded, &tables)
    }

    /// Takes what came for the host side out of its ring, so that the ring does not overflow while
    /// the caller is busy elsewhere; [`run`](DevSession::run) hands it on.
    pub fn drain(&mut self) -> Result<(), XdpError> {
        let outputs = self.loaded.drain_host()?;
        self.take(outputs);
        Ok(())
    }

    fn take(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match (output, &self.sender) {
                (Output::Send { port, frame }, Some(sender)) => {
                    if self.send_copy(sender, port as usize, &frame) {
                        self.counting.copies += 1;
                    } else {
                        self.counting.copies_lost += 1;
                    }
                }
                (output, _) => {
                    self.counting.host.add(&output);
                    self.pending.push(output);
                }
            }
        }
    }

    /// Pins the program that is attached now, if it is to outlive the process. It counts from when
    /// the interfaces had `received` so much.
    fn pin(&mut self, received: Vec<Option<Count>>) -> Result<(), XdpError> {
        let names = self.names();
        let Some(pins) = &mut self.pins else { return Ok(()) };
        let earlier = self.counting.earlier();
        let since = (earlier, received);
        pins.commit(&self.program, &self.loaded, &mut self.attached, &names, since)
    }

    /// Names of the ports' interfaces.
    fn names(&self) -> Vec<String> {
        self.interfaces.iter().map(|(_, name)| name.clone()).collect()
    }

    /// Where the program is pinned, if it is.
    pub fn pinned(&self) -> Option<&Path> {
        self.pins.as_ref().map(Pins::folder)
    }

    /// Sends a copy of a packet, which the kernel's program cannot: whether it went.
    fn send_copy(&self, sender: &Sender, port: usize, frame: &[u8]) -> bool {
        let there = port < self.interfaces.len() && !self.gone.contains(&port);
        there && sender.send(self.interfaces[port].0, &[frame]).is_ok()
    }

    /// Waits, reporting, until the run ends; returns what happened since the program was attached,
    /// so that no packet is missing that came before the wait began.
    pub fn run(&mut self, options: &mut DevOptions) -> Result<DevStats, XdpError> {
        let started = Instant::now();
        let mut last = self.counting.earlier().clone();
        let (mut reported, mut looked) = (started, started);
        loop {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look_at_interfaces(options)?;
            }
            let ended = (!self.gone.is_empty() && !options.wait_interface)
                || options.stop.load(Ordering::Relaxed)
                || options.duration.is_some_and(|duration| started.elapsed() >= duration);
            self.drain()?;
            let mut busy = self.hand_on(options)?;
            (options.idle)(self);
            let second_over = reported.elapsed() >= Duration::from_secs(1);
            if ended || second_over {
                let now = self.stats()?;
                if let Some(pins) = &mut self.pins {
                    pins.save(&now)?;
                }
                if second_over {
                    reported = Instant::now();
                    (options.every_second)(&self.loaded, &now.since(&last));
                }
                if ended {
                    self.hand_on(options)?;
                    return Ok(now);
                }
                last = now;
            }
            busy |= options.attach.as_mut().is_some_and(|socket| !socket.sleeps());
            if !busy {
                self.wait(options.attach.as_deref());
            }
        }
    }

    /// The interface that is gone, if one is: without [`DevOptions::wait_interface`] that is why a
    /// run ended.
    pub fn gone(&self) -> Option<&str> {
        self.gone.first().map(|port| self.interfaces[*port].1.as_str())
    }

    /// Notes which interfaces are gone, and attaches to those that are back.
    fn look_at_interfaces(&mut self, options: &mut DevOptions) -> Result<(), XdpError> {
        for port in 0..self.attached.len() {
            let name = self.interfaces[port].1.clone();
            if !self.gone.contains(&port) {
                if self.attached[port].is_gone() {
                    self.gone.push(port);
                    (options.interface)(&name, InterfaceChange::Gone);
                }
                continue;
            }
            let Ok(index) = index_of(&name) else { continue };
            if !options.wait_interface {
                continue;
            }
            if self.loaded.process().is_some() {
                return Err(XdpError::NotBack(name));
            }
            let attached = match self.loaded.attach(index, &name) {
                Ok(attached) => attached,
                // It is being made, or went again.
                Err(_) if index_of(&name).ok() != Some(index) => continue,
                Err(XdpError::Kernel { source, .. })
                    if source.raw_os_error() == Some(libc::ENODEV) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.attached[port] = attached;
            if let Some(pins) = &self.pins {
                pins.pin_link(port, &mut self.attached[port])?;
            }
            self.interfaces[port].0 = index;
            let ifindex: Vec<u32> = self.interfaces.iter().map(|(index, _)| *index).collect();
            self.gone.retain(|gone| *gone != port);
            // A port whose interface is gone keeps nothing in the map, and gets nothing.
            let there = |port: &usize| !self.gone.contains(port);
            give_ports_of(&self.loaded, &ifindex, (0..ifindex.len()).filter(there))?;
            (options.interface)(&name, InterfaceChange::Back);
        }
        Ok(())
    }

    /// Gives what came for the host side on, and the program what came back from there; whether
    /// there was anything.
    fn hand_on(&mut self, options: &mut DevOptions) -> Result<bool, XdpError> {
        let mut busy = !self.pending.is_empty() | self.fire_timers()?;
        for output in self.pending.drain(..) {
            (options.host)(&output);
            if let Some(socket) = &mut options.attach {
                socket.give(&output);
            }
        }
        let Some(socket) = &mut options.attach else { return Ok(busy) };
        socket.wake();
        for message in socket.serve() {
            busy = true;
            self.loaded.give(&Input::Host { message })?;
        }
        Ok(busy)
    }

    /// Has the handlers of timers that are due run, once for each; whether there were any.
    fn fire_timers(&mut self) -> Result<bool, XdpError> {
        let now = self.clock();
        self.timers.skip(now);
        let mut fired = false;
        while let Some(tick) = self.timers.fire(now) {
            let timer = self.program.events[tick.timer].name.clone();
            self.loaded.give(&Input::Tick { timer })?;
            fired = true;
        }
        Ok(fired)
    }

    /// Nanoseconds since the program was attached.
    fn clock(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Sleeps until something comes for the host side or from there, a timer is due, or for a
    /// while.
    fn wait(&self, socket: Option<&HostSocket>) {
        let due = self.timers.next_due().map(|due| due.saturating_sub(self.clock()));
        let pause = due.map_or(PAUSE, |due| PAUSE.min(Duration::from_nanos(due)));
        let Some(socket) = socket else { return std::thread::sleep(pause) };
        let fds = self.loaded.news().chain(socket.fds());
        let mut list: Vec<libc::pollfd> =
            fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let pause = libc::timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        let (length, signals) = (list.len() as libc::nfds_t, std::ptr::null());
        // SAFETY: an array and its length. Whatever the answer, everything is looked at next.
        unsafe { libc::ppoll(list.as_mut_ptr(), length, &pause, signals) };
    }
}

fn check_ports(program: &Program, interfaces: &[String]) -> Result<(), XdpError> {
    if interfaces.len() == program.ports as usize {
        return Ok(());
    }
    Err(XdpError::Ports { wanted: program.ports, given: interfaces.join(", ") })
}

fn give_ports(loaded: &Loaded, ifindex: &[u32]) -> Result<(), XdpError> {
    give_ports_of(loaded, ifindex, 0..ifindex.len())
}

/// Gives some ports their interfaces.
fn give_ports_of(
    loaded: &Loaded,
    ifindex: &[u32],
    ports: impl Iterator<Item = usize>,
) -> Result<(), XdpError> {
    let Some(map) = loaded.map_fd("nf_ports") else { return Ok(()) };
    for port in ports {
        set_port(map.as_fd(), port as u32, ifindex[port])?;
    }
    Ok(())
}
