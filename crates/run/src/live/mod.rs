//! A program attached to the ports of a test network, fed with events, all outputs caught.
//!
//! Frames go onto the wire side by an AF_PACKET socket; the kernel runs the program on the NIC
//! side; what it sends arrives at the wire side again, where a collector program puts frames into
//! one ring buffer, all ports in order of arrival; what it passes to the stack is seen by a socket
//! on the NIC side; the rest is in the program's own ring.
//!
//! **Nothing is lost unnoticed.** veth counts how many frames the program saw and each verdict. A
//! run never has more than a window of frames in flight (veth's ring holds 256), and it waits until
//! every counted verdict has shown up where it belongs, or says what is missing.
//!
//! **Order.** Frames of one port are processed in order. Different ports are different rings, so a
//! run lets one port's frames be processed before it sends by another. Host messages wait for the
//! packets before them. The sending thread stays on one CPU, on which the kernel then also runs the
//! program, or the first stage of a planned one. Later stages run on other CPUs at the same time,
//! for the packets of one window.

mod report;
mod socket;
mod stages;
mod verify;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libbpf_rs::MapCore as _;
use nicforge_codegen::XdpArtifact;
use nicforge_ir::{Input, InputEvent, Output, Program};

pub use report::{LiveError, LiveOutputs, LiveReport, LiveRun, StageReport, Streams, Trip};
pub use verify::{Difference, differences};

use crate::compile::Mode;
use crate::netns::{LARGEST_FRAME, Sandbox, StatsReader, XdpStats, xdp_stats};
use crate::pin::Pinned;
pub use crate::process::Crossed;
use crate::ring::Ring;
use crate::xdp::bench::{harness_contract, load_harness};
use crate::xdp::compile_bpf;
use crate::xdp::{Attached, LoadOptions, Loaded, SMALLEST_FRAME, XdpError, attach, feeding_cpu};
pub use socket::{Sender, Tap};
use stages::Stages;

/// Most frames in flight: half of what veth's ring holds.
pub const LARGEST_WINDOW: usize = 128;

/// Options of a run.
pub struct LiveOptions<'a> {
    /// Frames in flight at most, up to [`LARGEST_WINDOW`].
    pub window: usize,
    /// One event at a time, so that outputs can be told apart by event; the window is 1 then.
    pub per_event: bool,
    /// How long nothing may move before packets count as missing.
    pub patience: Duration,
    /// Called between batches with the number of events done; false stops the run.
    pub keep_going: &'a mut dyn FnMut(usize) -> bool,
}

/// A loaded program attached to every port of a sandbox. Dropping it leaves nothing behind.
pub struct Session {
    // In this order they are let go: the program is detached before its network goes.
    _attached: Vec<Attached>,
    _collector: Vec<Attached>,
    loaded: Loaded,
    sender: Sender,
    tap: Tap,
    ring: Ring,
    stats: Vec<StatsReader>,
    /// Of planned programs.
    stages: Option<Stages>,
    _harness: libbpf_rs::Object,
    sandbox: Sandbox,
}

impl Session {
    /// Compiles the artifact, makes a network, loads the program and attaches it.
    pub fn start(
        program: &Program,
        artifact: &XdpArtifact,
        mode: Mode,
        includes: &[PathBuf],
    ) -> Result<Session, XdpError> {
        let object = compile_bpf(&program.name, &artifact.source, mode, includes)?;
        Session::of_object(program, artifact, &object, mode, includes)
    }

    /// A session of the artifact's object, compiled for that mode.
    pub fn of_object(
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        mode: Mode,
        includes: &[PathBuf],
    ) -> Result<Session, XdpError> {
        let sandbox = Sandbox::new(program.ports)?;
        let options = LoadOptions { mode, ifindex: sandbox.ifindex() };
        let loaded = Loaded::load(program, artifact, object, &options)?;
        Session::new(sandbox, loaded, includes)
    }

    /// Attaches a program that was loaded with the sandbox's interfaces.
    pub fn new(
        sandbox: Sandbox,
        loaded: Loaded,
        includes: &[PathBuf],
    ) -> Result<Session, XdpError> {
        let planned = loaded.artifact().pipeline.is_some();
        let harness = load_harness(includes, &["nf_collect"])?;
        let stages = planned.then(Stages::watch).transpose()?;
        let ring =
            harness.maps().find(|map| map.name() == "nf_wire").ok_or_else(harness_contract)?;
        let ring = Ring::map(ring.as_fd(), ring.max_entries() as usize)
            .map_err(|error| XdpError::kernel("map a ring buffer", error))?;
        let collect = harness
            .progs()
            .find(|prog| prog.name() == "nf_collect")
            .ok_or_else(harness_contract)?;
        let collect = collect.as_fd();
        let (collector, sender) = sandbox.wire.enter(|| {
            let ports = sandbox.ports.iter().enumerate();
            let attached =
                ports.map(|(i, port)| attach(collect, port.wire_ifindex, &format!("wire{i}")));
            Ok((attached.collect::<Result<Vec<_>, _>>()?, Sender::open()?))
        })?;
        // Attached last: until then nothing may run with a port missing from the program's port
        // map. A program for the host's messages only has nothing to attach.
        let attaches = loaded.entry_name("net_recv").is_some();
        let ports = loaded.map_fd("nf_ports");
        let (attached, tap, stats) = sandbox.nic.enter(|| {
            if let Some(map) = &ports {
                crate::xdp::attach::set_ports(map.as_fd(), &sandbox.ifindex())?;
            }
            loaded.start_process(&interfaces(&sandbox))?;
            let attached = sandbox.ports.iter().filter(|_| attaches);
            let attached = attached.map(|port| loaded.attach(port.ifindex, &port.name));
            let stats = sandbox.ports.iter().map(|port| xdp_stats(&port.name));
            Ok((
                attached.collect::<Result<Vec<_>, _>>()?,
                Tap::open()?,
                stats.collect::<Result<Vec<_>, _>>()?,
            ))
        })?;
        Ok(Session {
            _attached: attached,
            _collector: collector,
            loaded,
            sender,
            tap,
            ring,
            stats,
            stages,
            _harness: harness,
            sandbox,
        })
    }

    /// The program.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Starts the program's process again after it was stopped.
    pub fn restart_process(&self) -> Result<(), XdpError> {
        let (loaded, interfaces) = (&self.loaded, interfaces(&self.sandbox));
        self.sandbox.nic.enter(|| loaded.start_process(&interfaces))
    }

    /// Puts frames on the wire of port 0 and waits for nothing.
    #[cfg(test)]
    pub(crate) fn send_only(&self, frames: &[&[u8]]) -> Result<(), XdpError> {
        self.sender.send(self.sandbox.ports[0].wire_ifindex, frames)
    }

    /// Gives the events to the program, in order and as fast as it takes them, and waits for every
    /// output.
    pub fn run(
        &mut self,
        events: &[InputEvent],
        options: &mut LiveOptions,
    ) -> Result<LiveRun, LiveError> {
        check(events, &self.loaded)?;
        let _pinned = match feeding_cpu().filter(|_| self.stages.is_some()) {
            Some(cpu) => Pinned::to(cpu),
            None => Pinned::to_this_cpu(),
        };
        let one = options.per_event || self.loaded.artifact().goes_round();
        let mut run = Run::new(self, options.per_event, options.patience)?;
        let window = if one { 1 } else { options.window.clamp(1, LARGEST_WINDOW) };
        let started = Instant::now();
        let mut done = 0;
        while done < events.len() {
            if !(options.keep_going)(done) {
                run.report.stopped = true;
                break;
            }
            done += run.step(&events[done..], window, done)?;
        }
        run.settle(done)?;
        run.report.seconds = started.elapsed().as_secs_f64();
        run.finish(&events[..done])
    }
}

/// Index and name of every port's interface.
fn interfaces(sandbox: &Sandbox) -> Vec<(u32, String)> {
    sandbox.ports.iter().map(|port| (port.ifindex, port.name.clone())).collect()
}

/// Refuses events that the program or its ports cannot take, before the first is sent.
fn check(events: &[InputEvent], loaded: &Loaded) -> Result<(), LiveError> {
    for (index, event) in events.iter().enumerate() {
        if let Err(source) = can_take(loaded, &event.input) {
            return Err(LiveError::Event { event: index + 1, source });
        }
    }
    Ok(())
}

fn can_take(loaded: &Loaded, input: &Input) -> Result<(), XdpError> {
    let (smallest, largest) = (SMALLEST_FRAME, LARGEST_FRAME);
    match input {
        Input::Host { .. } | Input::Tick { .. } => loaded.handler_fd(input.event()).map(|_| ()),
        Input::Net { port, .. } if *port >= loaded.ports() => {
            Err(XdpError::NoPort { port: *port, last: loaded.ports().saturating_sub(1) })
        }
        Input::Net { frame, .. } if !(smallest..=largest).contains(&frame.len()) => {
            Err(XdpError::FrameLength { length: frame.len(), smallest, largest })
        }
        Input::Net { .. } => loaded.handler_fd("net_recv").map(|_| ()),
    }
}

/// State of one run.
struct Run<'a> {
    session: &'a mut Session,
    patience: Duration,
    report: LiveReport,
    per_event: Option<Vec<Vec<Output>>>,
    streams: Streams,
    /// Counters when the run began.
    stats_before: XdpStats,
    drops_before: Vec<u64>,
    refused_before: Vec<u64>,
    recorded_before: u64,
    refusals_before: u64,
    tap_lost_before: u64,
    /// Drops by reason when the latest event was done.
    drops_seen: Vec<u64>,
    /// Frames that ended at the program's verdict.
    ended: u64,
    /// Frames that showed up at the wire side and at the stack.
    arrived: u64,
    passed: u64,
}

impl<'a> Run<'a> {
    fn new(
        session: &'a mut Session,
        per_event: bool,
        patience: Duration,
    ) -> Result<Run<'a>, XdpError> {
        let ports = session.sandbox.ports.len();
        // What earlier runs or the network left behind is not this run's.
        session.ring.drain(|_| ());
        session.tap.drain(drop)?;
        session.loaded.drain_host()?;
        if let Some(stages) = &mut session.stages {
            stages.start(&session.loaded)?;
        }
        let stats_before = session.total()?;
        let drops = session.drop_counts();
        Ok(Run {
            patience,
            report: LiveReport { sent: vec![0; ports], ..LiveReport::default() },
            per_event: per_event.then(Vec::new),
            streams: Streams {
                sent: vec![Vec::new(); ports],
                trips: vec![Vec::new(); ports],
                ..Streams::default()
            },
            stats_before,
            drops_before: drops.clone(),
            refused_before: session.loaded.refused().into_iter().map(|(_, count)| count).collect(),
            recorded_before: session.loaded.recorded(),
            refusals_before: session.loaded.refusals(),
            tap_lost_before: session.tap.lost(),
            drops_seen: drops,
            ended: 0,
            arrived: 0,
            passed: 0,
            session,
        })
    }

    /// Gives the next event or batch of packets of one port; returns how many events that were.
    /// `done` came before.
    fn step(
        &mut self,
        events: &[InputEvent],
        window: usize,
        done: usize,
    ) -> Result<usize, LiveError> {
        let taken = match &events[0].input {
            input @ (Input::Host { .. } | Input::Tick { .. }) => {
                self.session.loaded.give(input)?;
                let timer = matches!(input, Input::Tick { .. });
                self.report.messages_in += u64::from(!timer);
                self.report.ticks += u64::from(timer);
                1
            }
            Input::Net { port, .. } => {
                let same_port = |event: &&InputEvent| matches!(&event.input, Input::Net { port: p, .. } if p == port);
                let frames: Vec<&[u8]> = events
                    .iter()
                    .take(window)
                    .take_while(same_port)
                    .filter_map(|event| match &event.input {
                        Input::Net { frame, .. } => Some(frame.as_slice()),
                        Input::Host { .. } | Input::Tick { .. } => None,
                    })
                    .collect();
                self.session
                    .sender
                    .send(self.session.sandbox.ports[*port as usize].wire_ifindex, &frames)?;
                self.report.packets_in += frames.len() as u64;
                self.report.bytes_in += frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
                frames.len()
            }
        };
        if self.per_event.is_some() {
            if let Some(events) = &mut self.per_event {
                events.push(Vec::new());
            }
            self.settle(done + taken)?;
            self.attribute_drop();
        } else {
            self.wait(done + taken, false)?;
        }
        Ok(taken)
    }

    /// Waits until every verdict has shown up where it belongs.
    fn settle(&mut self, done: usize) -> Result<(), LiveError> {
        self.wait(done, true)
    }

    /// Waits until the program saw every frame and, if `outputs`, until everything it sent and
    /// passed is here.
    fn wait(&mut self, done: usize, outputs: bool) -> Result<(), LiveError> {
        let mut moved_at = Instant::now();
        let mut before = None;
        loop {
            self.collect()?;
            let stats = self.session.total()?.since(&self.stats_before);
            let settled = self.session.loaded.process_settled();
            // Counters of several CPUs and a process are not read at one moment: what they say
            // counts if it stays.
            let seen = settled && stats.packets == self.report.packets_in && self.stays(&stats)?;
            let tap_lost = if outputs { self.session.tap.lost() - self.tap_lost_before } else { 0 };
            if seen
                && (!outputs
                    || (self.arrived == stats.sent() && self.passed + tap_lost == stats.passed()))
            {
                // Verdicts are counted before the host ring is looked at for the last time.
                if outputs {
                    self.collect()?;
                }
                self.ended = stats.dropped;
                let unsent = stats.lost + stats.send_errors + stats.bounce_errors + tap_lost;
                if outputs && unsent > 0 {
                    return Err(self.missing(done, &stats, tap_lost));
                }
                return Ok(());
            }
            let now = (stats, self.arrived, self.passed);
            if before.as_ref() != Some(&now) {
                (before, moved_at) = (Some(now), Instant::now());
            } else if moved_at.elapsed() > self.patience {
                return Err(self.missing(done, &stats, tap_lost));
            } else if moved_at.elapsed() > Duration::from_millis(1) {
                std::thread::sleep(Duration::from_micros(20));
            } else {
                // The kernel may have put the work off to its own thread, which needs this CPU.
                std::thread::yield_now();
            }
        }
    }

    /// True if counters are what they were; of programs without a process they cannot be anything
    /// else.
    fn stays(&mut self, stats: &XdpStats) -> Result<bool, LiveError> {
        if self.session.loaded.process().is_none() {
            return Ok(true);
        }
        let again = self.session.total()?.since(&self.stats_before);
        Ok(self.session.loaded.process_settled() && again == *stats)
    }

    fn missing(&self, event: usize, stats: &XdpStats, tap_lost: u64) -> LiveError {
        let detail = format!(
            "of {} frames given the program saw {}; it sent {} of which {} arrived, passed {} to the stack of which {} \
             were seen; {} could not be sent (too long for the port, or no such port), {} were lost at a full queue, {} \
             at a full socket",
            self.report.packets_in,
            stats.packets,
            stats.redirected + stats.bounced,
            self.arrived,
            stats.passed(),
            self.passed,
            stats.lost,
            stats.send_errors + stats.bounce_errors,
            tap_lost
        );
        let detail = match &self.session.stages {
            Some(stages) => format!("{detail}; {}", stages.describe(&self.session.loaded)),
            None => detail,
        };
        LiveError::Missing { event, detail, seconds: self.patience.as_secs_f64() }
    }

    /// Takes in everything that came out so far.
    fn collect(&mut self) -> Result<(), LiveError> {
        let from_ring = self.session.loaded.drain_host()?;
        let (copies, mut outputs): (Vec<_>, Vec<_>) =
            from_ring.into_iter().partition(|output| matches!(output, Output::Send { .. }));
        // No process sends them here: they need not cross a wire to be seen.
        copies.iter().for_each(|copy| self.report.count(copy));
        match self.per_event.as_mut().and_then(|events| events.last_mut()) {
            Some(last) => last.extend(copies),
            None => self.streams.copies.extend(copies),
        }
        let ports = &self.session.sandbox.ports;
        self.session.ring.drain(|record| {
            // struct arrived_record { u32 ifindex, length, number, route; u8 bytes[]; }
            let (head, bytes) = record.split_at(16);
            let word = |at: usize| {
                u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let port =
                ports.iter().position(|port| port.wire_ifindex == word(0)).unwrap_or(0) as u32;
            let length = (word(4) as usize).min(bytes.len());
            outputs.push(Output::Send { port, frame: bytes[..length].to_vec() });
            // Frames of the process carry no mark: it says itself what it sent, port by port.
            let mark = if word(8) == u32::MAX {
                self.session.loaded.process().and_then(|process| process.next_sent(port as usize))
            } else {
                Some((word(8), word(12)))
            };
            if let Some((number, route)) = mark
                && let Some(event) = u64::from(number).checked_sub(self.recorded_before)
            {
                self.streams.trips[port as usize].push(Trip { event: event as usize, route });
            }
            self.arrived += 1;
        });
        self.session.tap.drain(|frame| {
            outputs.push(Output::Stack { frame });
            self.passed += 1;
        })?;
        for output in outputs {
            self.report.count(&output);
            match (&mut self.per_event, output) {
                (Some(events), output) => {
                    if let Some(last) = events.last_mut() {
                        last.push(output);
                    }
                }
                (None, Output::Send { port, frame }) => {
                    self.streams.sent[port as usize].push(frame)
                }
                (None, Output::Stack { frame }) => self.streams.stack.push(frame),
                (None, output) => self.streams.host.push(output),
            }
        }
        Ok(())
    }

    /// Gives the latest event the drop it caused, by which counter went up.
    fn attribute_drop(&mut self) {
        let counts = self.session.drop_counts();
        let changed = counts.iter().zip(&self.drops_seen).position(|(now, before)| now > before);
        let reason = changed.and_then(|index| self.session.loaded.artifact().reasons.get(index)?.0);
        if let (Some(events), Some(reason)) = (&mut self.per_event, reason)
            && let Some(last) = events.last_mut()
        {
            last.push(Output::Drop { reason });
        }
        self.drops_seen = counts;
    }

    fn finish(mut self, events: &[InputEvent]) -> Result<LiveRun, LiveError> {
        let loaded = &self.session.loaded;
        let drops = loaded.drops().into_iter().zip(&self.drops_before);
        self.report.drops =
            drops.map(|((id, text, count), before)| (id, text, count - before)).collect();
        // Byte strings of tables that went to the host count as packets there, and only make this
        // smaller.
        self.report.unaccounted =
            self.ended.saturating_sub(self.report.dropped() + self.report.host_packets);
        if let Some(stages) = &self.session.stages {
            self.report.stages = stages.report(loaded)?;
            self.report.crossed = stages.crossed(loaded);
        }
        let refused = loaded.refused().into_iter().zip(&self.refused_before);
        self.report.refused =
            refused.map(|((table, count), before)| (table, count - before)).collect();
        let mut seen = events.to_vec();
        loaded.read_record(self.recorded_before, &mut seen)?;
        let outputs = match self.per_event {
            Some(events) => LiveOutputs::PerEvent(events),
            None => LiveOutputs::Streams(self.streams),
        };
        let mut refusals = loaded.read_refusals(self.refusals_before)?;
        refusals.iter_mut().for_each(|refusal| refusal.event -= self.recorded_before);
        Ok(LiveRun { seen, outputs, refusals, report: self.report })
    }
}

impl Session {
    /// Counters of all ports together.
    fn total(&mut self) -> Result<XdpStats, XdpError> {
        let mut total = XdpStats::default();
        for reader in &mut self.stats {
            total.add(&reader.read()?);
        }
        match &self.stages {
            // Verdicts of later stages are not the interface's.
            Some(_) => stages::total(&self.loaded, &total),
            None => Ok(total),
        }
    }

    fn drop_counts(&self) -> Vec<u64> {
        self.loaded.drops().into_iter().map(|(_, _, count)| count).collect()
    }
}
