//! A program on real interfaces, until its time is up or somebody stops it.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nicforge_codegen::XdpArtifact;
use nicforge_ir::{Output, Program, ReasonId, TableId};

use crate::compile::{Mode, compile_bpf};
use crate::xdp::attach::{index_of, set_ports};
use crate::xdp::{Attached, LoadOptions, Loaded, RunCount, RunStats, XdpError};

/// How often the control socket and the stop flag are looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// A program attached to interfaces of the calling thread's network namespace. Dropping it detaches.
pub struct DevSession {
    // In this order they are let go: detached before it is unloaded.
    _attached: Vec<Attached>,
    loaded: Loaded,
    _stats: RunStats,
}

/// How to run on interfaces.
pub struct DevOptions<'a> {
    /// How long; for ever if absent.
    pub duration: Option<Duration>,
    /// Ends the run when set, within some milliseconds.
    pub stop: &'a AtomicBool,
    /// Called once a second.
    pub every_second: &'a mut dyn FnMut(&Loaded, &DevStats),
    /// Called many times a second: the place for a control socket.
    pub idle: &'a mut dyn FnMut(&Loaded),
    /// Gets everything for the program's host side, as it comes.
    pub host: &'a mut dyn FnMut(Output),
}

/// What happened in one second, or in the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevStats {
    /// The time it is about.
    pub seconds: f64,
    /// Packets the program saw.
    pub packets: u64,
    /// Nanoseconds it spent on them, the kernel's counting included.
    pub busy_ns: u64,
    /// Packets it dropped, by reason (none for the runtime's own) and text.
    pub drops: Vec<(Option<ReasonId>, String, u64)>,
    /// Inserts that full tables refused.
    pub refused: Vec<(TableId, u64)>,
    /// Records for the host side: packets, messages, DMA writes, logs.
    pub host: u64,
}

impl DevStats {
    /// Packets per second.
    pub fn packets_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.packets as f64 / self.seconds } else { 0.0 }
    }

    /// What happened since `before`; both count from the start.
    fn since(&self, before: &DevStats) -> DevStats {
        let count = |list: &[(TableId, u64)], i: usize| list.get(i).map_or(0, |(_, count)| *count);
        let dropped = |i: usize| before.drops.get(i).map_or(0, |(_, _, count)| *count);
        DevStats {
            seconds: self.seconds - before.seconds,
            packets: self.packets - before.packets,
            busy_ns: self.busy_ns - before.busy_ns,
            drops: (0..)
                .zip(&self.drops)
                .map(|(i, (id, text, n))| (*id, text.clone(), n - dropped(i)))
                .collect(),
            refused: (0..)
                .zip(&self.refused)
                .map(|(i, (id, n))| (*id, n - count(&before.refused, i)))
                .collect(),
            host: self.host - before.host,
        }
    }
}

/// A program that is loaded for interfaces but not attached yet: the moment to fill its tables.
pub struct DevPrepared {
    loaded: Loaded,
    interfaces: Vec<(u32, String)>,
}

impl DevPrepared {
    /// The program.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Attaches to every interface, or to none.
    ///
    /// # Errors
    /// [`XdpError::Busy`], [`XdpError::NoNative`] by interface.
    pub fn attach(self) -> Result<DevSession, XdpError> {
        let DevPrepared { loaded, interfaces } = self;
        let stats = RunStats::enable()?;
        let attach = |(ifindex, name): &(u32, String)| loaded.attach(*ifindex, name);
        let attached = interfaces.iter().map(attach).collect::<Result<Vec<_>, _>>()?;
        Ok(DevSession { _attached: attached, loaded, _stats: stats })
    }
}

impl DevSession {
    /// Compiles and loads. `interfaces` are the program's ports in order.
    ///
    /// # Errors
    /// [`XdpError::Ports`] unless every port has an interface, [`XdpError::NoInterface`], and those of loading.
    pub fn prepare(
        program: &Program,
        artifact: &XdpArtifact,
        includes: &[PathBuf],
        interfaces: &[String],
    ) -> Result<DevPrepared, XdpError> {
        if interfaces.len() != program.ports as usize {
            return Err(XdpError::Ports { wanted: program.ports, given: interfaces.join(", ") });
        }
        let ifindex: Vec<u32> = interfaces.iter().map(|name| index_of(name)).collect::<Result<_, _>>()?;
        let object = compile_bpf(&program.name, &artifact.source, Mode::Live, includes)?;
        let options = LoadOptions { mode: Mode::Live, ifindex: ifindex.clone() };
        let loaded = Loaded::load(program, artifact, &object, &options)?;
        if let Some(map) = loaded.map_fd("nf_ports") {
            set_ports(map.as_fd(), &ifindex)?;
        }
        Ok(DevPrepared { loaded, interfaces: ifindex.into_iter().zip(interfaces.iter().cloned()).collect() })
    }

    /// Prepares and attaches at once, for programs whose tables start empty.
    pub fn start(
        program: &Program,
        artifact: &XdpArtifact,
        includes: &[PathBuf],
        interfaces: &[String],
    ) -> Result<DevSession, XdpError> {
        DevSession::prepare(program, artifact, includes, interfaces)?.attach()
    }

    /// The program.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Waits, reporting, until the run ends; returns its totals.
    pub fn run(&mut self, options: &mut DevOptions) -> Result<DevStats, XdpError> {
        let started = Instant::now();
        let first = self.loaded.run_count()?;
        let base = self.stats(started, first, 0)?;
        let mut last = base.clone();
        let mut host = 0;
        loop {
            let ended = options.stop.load(Ordering::Relaxed)
                || options.duration.is_some_and(|duration| started.elapsed() >= duration);
            for output in self.loaded.drain_host()? {
                host += 1;
                (options.host)(output);
            }
            (options.idle)(&self.loaded);
            let second_over = started.elapsed().as_secs_f64() - last.seconds >= 1.0;
            if ended || second_over {
                let now = self.stats(started, first, host)?;
                if second_over {
                    (options.every_second)(&self.loaded, &now.since(&last));
                }
                if ended {
                    return Ok(now.since(&base));
                }
                last = now;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Counters since loading, runs since `first`.
    fn stats(&self, started: Instant, first: RunCount, host: u64) -> Result<DevStats, XdpError> {
        let count = self.loaded.run_count()?;
        Ok(DevStats {
            seconds: started.elapsed().as_secs_f64(),
            packets: count.runs - first.runs,
            busy_ns: count.ns - first.ns,
            drops: self.loaded.drops(),
            refused: self.loaded.refused(),
            host,
        })
    }
}
