//! How many packets a second the kernel gets through a program, fed by a generator inside the kernel.
//!
//! The kernel's test run in its mode "live frames" sends frames out of the wire side, as fast as it can, without a
//! socket and without memory of its own; they arrive at the NIC side like any others. What the program sends back is
//! counted and ended on the wire side. Generator, program and receiver share one CPU, in turns of 64 frames, so nothing
//! queues up and the rate is the price of all three: the same run with an empty program is the ceiling to compare with.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags, libbpf_sys};
use nicforge_codegen::XdpArtifact;
use nicforge_ir::Program;

use crate::compile::{Mode, compile_bpf};
use crate::netns::{Sandbox, StatsReader, XdpStats, xdp_stats};
use crate::pin::Pinned;
use crate::xdp::bench::{harness_contract, load_harness};
use crate::xdp::{Attached, LoadOptions, Loaded, SMALLEST_FRAME, XdpError, attach, attach::set_ports};

/// Longest frame the generator takes: a page less headroom, the kernel's data behind the frame and that of the generator.
pub const LARGEST_RATE_FRAME: usize = 3264;

/// Frames in one turn of the generator; the NIC side's queue holds 256.
const BATCH: u32 = 64;
/// Turns of one frame before the next one's: setting the generator up costs as much as some hundred frames.
const TURNS: u32 = 256;

/// A loaded program with a generator and receivers around it. Dropping it leaves nothing behind.
pub struct RateSession {
    _attached: Vec<Attached>,
    loaded: Loaded,
    stats: Vec<StatsReader>,
    harness: libbpf_rs::Object,
    sandbox: Sandbox,
}

/// What a rate measurement saw.
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
        let harness = load_harness(includes, &["nf_generate", "nf_count"])?;
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
        Ok(RateSession { _attached: attached, loaded, stats, harness, sandbox })
    }

    /// The program.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Offers frames (port, bytes), each in turn, for about `duration` or until `keep_going` says no. A few dozen
    /// frames that stand for the traffic do: each is sent some thousand times before the next.
    pub fn run(
        &mut self,
        frames: &[(u32, &[u8])],
        duration: Duration,
        keep_going: &mut (dyn FnMut() -> bool + Send),
    ) -> Result<RateReport, XdpError> {
        for (port, frame) in frames {
            let (length, smallest, largest) = (frame.len(), SMALLEST_FRAME, LARGEST_RATE_FRAME);
            if *port >= self.loaded.ports() {
                return Err(XdpError::NoPort { port: *port, last: self.loaded.ports() - 1 });
            }
            if !(smallest..=largest).contains(&length) {
                return Err(XdpError::FrameLength { length, smallest, largest });
            }
        }
        if frames.is_empty() {
            return Ok(RateReport::default());
        }
        let (before, arrived) = (self.total()?, self.arrived()?);
        let generate = program_of(&self.harness, "nf_generate")?;
        let (sandbox, loaded) = (&self.sandbox, &self.loaded);
        let (offered, seconds) = sandbox.wire.enter(|| {
            let _pinned = Pinned::to_this_cpu();
            let (started, mut offered) = (Instant::now(), 0);
            for (port, frame) in frames.iter().cycle() {
                send(generate, sandbox.ports[*port as usize].wire_ifindex, frame, BATCH * TURNS)?;
                offered += u64::from(BATCH * TURNS);
                // A full host ring would change what is measured.
                loaded.drain_host()?;
                if started.elapsed() >= duration || !keep_going() {
                    break;
                }
            }
            Ok((offered, started.elapsed().as_secs_f64()))
        })?;
        // What the last turn left in the queues, if the kernel put it off.
        std::thread::sleep(Duration::from_millis(10));
        let now = self.total()?.since(&before);
        Ok(RateReport {
            offered,
            packets: now.packets,
            sent: now.sent(),
            passed: now.passed(),
            dropped: now.dropped,
            failed: now.lost + now.bounce_errors + now.send_errors,
            arrived: self.arrived()? - arrived,
            seconds,
        })
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
        let map = self.harness.maps().find(|map| map.name() == "nf_received").ok_or_else(harness_contract)?;
        let counts = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
        let count = |one: &Vec<u8>| one.as_slice().try_into().map(u64::from_ne_bytes).unwrap_or(0);
        Ok(counts.iter().map(count).sum())
    }
}

fn program_of<'a>(object: &'a libbpf_rs::Object, name: &str) -> Result<BorrowedFd<'a>, XdpError> {
    let program = object.progs().find(|program| program.name() == name).ok_or_else(harness_contract)?;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: the object owns the descriptor and outlives the borrow.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Sends one frame `repeat` times by an interface of the calling thread's network namespace.
fn send(generate: BorrowedFd, ifindex: u32, frame: &[u8], repeat: u32) -> Result<(), XdpError> {
    // struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; }
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
