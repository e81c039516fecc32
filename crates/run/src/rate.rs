//! How many packets a second the kernel gets through a program, fed by a generator inside the
//! kernel.
//!
//! The kernel's test run in its mode "live frames" sends frames out of the wire side as fast as it
//! can, without a socket and without memory of its own; a small program turns each into the next
//! frame of the traffic. They arrive at the NIC side like any others. What the program sends back
//! is counted and ended on the wire side. Generator, program and receiver share one CPU, in turns
//! of 64 frames, so nothing queues up and the rate is the price of all three: the same run with an
//! empty program is the ceiling to compare with.
//!
//! Starting and ending a generator costs milliseconds (the kernel waits for all CPUs) in which
//! nothing is sent; calls that send one turn only tell how many, and that is subtracted from the
//! time of each long call.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags, libbpf_sys};
use nicforge_codegen::XdpArtifact;
use nicforge_ir::Program;

use crate::compile::Mode;
use crate::netns::{Sandbox, StatsReader, XdpStats, xdp_stats};
use crate::pin::Pinned;
use crate::xdp::bench::{harness_contract, load_harness, load_harness_for};
use crate::xdp::compile_bpf;
use crate::xdp::{
    Attached, LoadOptions, Loaded, SMALLEST_FRAME, XdpError, attach, attach::set_ports,
};

/// Longest frame the generator takes: a page less headroom, the kernel's data behind the frame and
/// that of the generator.
pub const LARGEST_RATE_FRAME: usize = 3264;

/// Most different frames.
pub const MOST_FRAMES: usize = 4096;

/// Frames in one turn of the generator; the NIC side's queue holds 256.
const BATCH: u32 = 64;
/// Calls that measure what starting and ending the generator costs.
const CALIBRATIONS: u32 = 4;
/// Frames of the first call, many enough that starting it hardly counts; it tells how many make
/// half a second.
const FIRST_CALL: u32 = 1 << 20;
const CALL: Duration = Duration::from_millis(500);

/// A loaded program with a generator and receivers around it. Dropping it leaves nothing behind.
pub struct RateSession {
    _attached: Vec<Attached>,
    loaded: Loaded,
    stats: Vec<StatsReader>,
    harness: libbpf_rs::Object,
    includes: Vec<PathBuf>,
    sandbox: Sandbox,
}

/// Results of a rate measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateReport {
    /// Frames the generator sent.
    pub offered: u64,
    /// Frames the program saw; the others found the queue full.
    pub packets: u64,
    /// Verdicts: frames it sent, gave to the stack, dropped (to the host side is a drop here).
    pub sent: u64,
    pub passed: u64,
    pub dropped: u64,
    /// Frames whose verdict failed: too long, no such port, no room.
    pub failed: u64,
    /// Frames that arrived at the wire side again.
    pub arrived: u64,
    /// Seconds in which frames were sent.
    pub seconds: f64,
}

impl RateReport {
    /// Packets per second that the program saw.
    pub fn packets_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.packets as f64 / self.seconds } else { 0.0 }
    }
}

impl RateSession {
    /// Compiles and loads the program, attached to a test network with receivers.
    pub fn start(
        program: &Program,
        artifact: &XdpArtifact,
        includes: &[PathBuf],
    ) -> Result<RateSession, XdpError> {
        let object = compile_bpf(&program.name, &artifact.source, Mode::Live, includes)?;
        let sandbox = Sandbox::new(program.ports)?;
        let ifindex = sandbox.ifindex();
        let options = LoadOptions { mode: Mode::Live, ifindex: ifindex.clone() };
        let loaded = Loaded::load(program, artifact, &object, &options)?;
        let harness = load_harness(includes, &["nf_count"])?;
        let count = program_of(&harness, "nf_count")?;
        let ports = &sandbox.ports;
        let mut attached = sandbox.wire.enter(|| {
            let attach = |port: &crate::netns::Port| attach(count, port.wire_ifindex, "wire");
            ports.iter().map(attach).collect::<Result<Vec<_>, _>>()
        })?;
        let map = loaded.map_fd("nf_ports");
        let (inner, stats) = sandbox.nic.enter(|| {
            if let Some(map) = &map {
                set_ports(map.as_fd(), &ifindex)?;
            }
            let attached = ports.iter().map(|port| loaded.attach(port.ifindex, &port.name));
            let stats = ports.iter().map(|port| xdp_stats(&port.name));
            Ok((attached.collect::<Result<Vec<_>, _>>()?, stats.collect::<Result<Vec<_>, _>>()?))
        })?;
        attached.extend(inner);
        Ok(RateSession {
            _attached: attached,
            loaded,
            stats,
            harness,
            includes: includes.to_vec(),
            sandbox,
        })
    }

    /// The program.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Offers frames (port, bytes; at most [`MOST_FRAMES`]), in order and over again, for about
    /// `duration` or until `keep_going`, asked twice a second, says no.
    pub fn run(
        &mut self,
        frames: &[(u32, &[u8])],
        duration: Duration,
        keep_going: &mut (dyn FnMut() -> bool + Send),
    ) -> Result<RateReport, XdpError> {
        self.check(frames)?;
        let frames = &frames[..frames.len().min(MOST_FRAMES)];
        let Some(longest) = frames.iter().map(|(_, frame)| frame.len()).max() else {
            return Ok(RateReport::default());
        };
        let generator = load_harness_for(&self.includes, &["nf_generate"], frames.len() as u32)?;
        self.fill(&generator, frames)?;
        let generate = program_of(&generator, "nf_generate")?;
        let template = vec![0; longest];
        let wire = self.sandbox.ports[0].wire_ifindex;
        let _pinned = Pinned::to_this_cpu();
        let mut report = RateReport::default();
        let call = |session: &mut RateSession, repeat: u32| {
            let started = Instant::now();
            session.sandbox.wire.enter(|| send(generate, wire, &template, repeat))?;
            // A full host ring would change what is measured.
            session.loaded.drain_host()?;
            Ok::<f64, XdpError>(started.elapsed().as_secs_f64())
        };
        let mut idle = 0.0;
        for _ in 0..CALIBRATIONS {
            idle += call(self, BATCH)? / f64::from(CALIBRATIONS);
        }
        self.settle();
        let (before, arrived) = (self.total()?, self.arrived()?);
        let mut repeat = FIRST_CALL;
        loop {
            let seconds = (call(self, repeat)? - idle).max(1e-9);
            report.offered += u64::from(repeat);
            report.seconds += seconds;
            if report.seconds >= duration.as_secs_f64() || !keep_going() {
                break;
            }
            let wanted = f64::from(repeat) / seconds * CALL.as_secs_f64();
            repeat = (wanted as u32).clamp(1 << 18, 1 << 23) / BATCH * BATCH;
        }
        self.settle();
        let now = self.total()?.since(&before);
        Ok(RateReport {
            packets: now.packets,
            sent: now.sent(),
            passed: now.passed(),
            dropped: now.dropped,
            failed: now.lost + now.bounce_errors + now.send_errors,
            arrived: self.arrived()? - arrived,
            ..report
        })
    }

    fn check(&self, frames: &[(u32, &[u8])]) -> Result<(), XdpError> {
        for (port, frame) in frames {
            let (length, smallest, largest) = (frame.len(), SMALLEST_FRAME, LARGEST_RATE_FRAME);
            if *port >= self.loaded.ports() {
                return Err(XdpError::NoPort { port: *port, last: self.loaded.ports() - 1 });
            }
            if !(smallest..=largest).contains(&length) {
                return Err(XdpError::FrameLength { length, smallest, largest });
            }
        }
        Ok(())
    }

    /// Gives the generator its frames: `{ u32 ifindex, length; u8 bytes[]; }`.
    fn fill(&self, generator: &libbpf_rs::Object, frames: &[(u32, &[u8])]) -> Result<(), XdpError> {
        let map =
            generator.maps().find(|map| map.name() == "nf_frames").ok_or_else(harness_contract)?;
        for (index, (port, frame)) in (0u32..).zip(frames) {
            let mut record = self.sandbox.ports[*port as usize].wire_ifindex.to_ne_bytes().to_vec();
            record.extend((frame.len() as u32).to_ne_bytes());
            record.extend(*frame);
            record.resize(map.value_size() as usize, 0);
            map.update(&index.to_ne_bytes(), &record, MapFlags::ANY)
                .map_err(|_| harness_contract())?;
        }
        Ok(())
    }

    /// Lets the kernel finish what it put off.
    fn settle(&self) {
        std::thread::sleep(Duration::from_millis(10));
    }

    fn total(&mut self) -> Result<XdpStats, XdpError> {
        let mut total = XdpStats::default();
        for reader in &mut self.stats {
            total.add(&reader.read()?);
        }
        Ok(total)
    }

    /// Frames the receivers have counted, on all CPUs.
    fn arrived(&self) -> Result<u64, XdpError> {
        let map = self
            .harness
            .maps()
            .find(|map| map.name() == "nf_received")
            .ok_or_else(harness_contract)?;
        let counts = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .ok()
            .flatten()
            .unwrap_or_default();
        let count = |one: &Vec<u8>| one.as_slice().try_into().map(u64::from_ne_bytes).unwrap_or(0);
        Ok(counts.iter().map(count).sum())
    }
}

fn program_of<'a>(object: &'a libbpf_rs::Object, name: &str) -> Result<BorrowedFd<'a>, XdpError> {
    let program =
        object.progs().find(|program| program.name() == name).ok_or_else(harness_contract)?;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: the object owns the descriptor and outlives the borrow.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Runs the generator `repeat` times in the calling thread's network namespace, on frames that came
/// by `ifindex`.
fn send(generate: BorrowedFd, ifindex: u32, frame: &[u8], repeat: u32) -> Result<(), XdpError> {
    // struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index,
    // egress_ifindex; }
    let mut context = [0, frame.len() as u32, 0, ifindex, 0, 0];
    // SAFETY: all-zero is the defined initial state of the options.
    let mut opts: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    opts.sz = size_of_val(&opts) as _;
    opts.ctx_in = context.as_mut_ptr().cast();
    opts.ctx_size_in = size_of_val(&context) as u32;
    opts.data_in = frame.as_ptr().cast();
    opts.data_size_in = frame.len() as u32;
    opts.repeat = repeat as i32;
    opts.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
    opts.batch_size = BATCH;
    // SAFETY: the pointers are to live buffers of the lengths given.
    let status = unsafe { libbpf_sys::bpf_prog_test_run_opts(generate.as_raw_fd(), &mut opts) };
    match -status {
        0 => Ok(()),
        libc::EINVAL | libc::EOPNOTSUPP => Err(XdpError::Feature {
            what: "the generator of live frames in BPF_PROG_TEST_RUN".to_string(),
            how: "use Linux 5.18 or newer".to_string(),
        }),
        _ => Err(XdpError::kernel("generate packets", io::Error::from_raw_os_error(-status))),
    }
}
