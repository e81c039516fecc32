//! A sPIN NIC that lives: frames come from a TAP interface (the line), handlers answer, and
//! programs on this computer put handlers on it and share memory with them through a socket.
//!
//! The NIC's time is its own: it runs as fast as it can while there is something to do, and stands
//! still otherwise. Frames that no rule wants go to a second interface (the host's side of the NIC)
//! if there is one; without one, the NIC answers ARP requests for its address itself, so that a
//! `ping` finds it.

mod arp;
mod device;
mod line;
mod shared;
mod tap;

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nicforge_isa::object::riscv::Image;
use nicforge_spin::machine::Machine;
use nicforge_spin::matching::Ruleset;
use nicforge_spin::nic::{
    Arrival, Context, Dropped, Fault, Handlers, HostRegion, Nic, NicError, Options, Out, Stats,
    Until,
};

use super::datapath::{DatapathError, Rtl};
use super::lines::Lines;
use super::native::{Native, NativeError, NativeImage};
pub use crate::unix::ListenError;
use device::Device;
use line::Line;
pub use line::LineFaults;
use shared::Shared;
pub use tap::{Tap, TapError};

/// Cycles between looks at interfaces and sockets while handlers run.
const SLICE: u64 = 20_000;
/// How long to wait for something to happen while nothing is to be done.
const WAIT_MS: i32 = 100;
/// Host memory of context `c` begins at `HOST_BASE + c * HOST_STRIDE`.
const HOST_BASE: u64 = 0x1_0000_0000;
const HOST_STRIDE: u64 = 0x1_0000_0000;

/// Where context `c`'s host memory is.
fn host_region(context: usize, bytes: u32) -> HostRegion {
    HostRegion { address: HOST_BASE + context as u64 * HOST_STRIDE, bytes }
}

/// Why it cannot live.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(transparent)]
    Tap(#[from] TapError),
    #[error(transparent)]
    Device(#[from] ListenError),
    #[error("the image cannot be set up: {0}")]
    Nic(#[from] NicError),
    #[error(transparent)]
    Native(#[from] NativeError),
    #[error(transparent)]
    Datapath(#[from] DatapathError),
    #[error("waiting for frames: {0}")]
    Wait(std::io::Error),
}

impl LiveError {
    pub fn fault(&self) -> crate::Fault {
        match self {
            LiveError::Datapath(error) => error.fault(),
            LiveError::Nic(_) | LiveError::Tap(TapError::Name(_)) => crate::Fault::User,
            _ => crate::Fault::Environment,
        }
    }
}

/// An execution context, as somebody asked for it.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub image: Option<Image>,
    /// Handlers for this computer, where the NIC runs those: then `image` is their image.
    pub native: Option<NativeImage>,
    /// Of the image, for faults.
    pub lines: Lines,
    pub handlers: Handlers,
    pub ruleset: Option<Ruleset>,
    pub host: HostRegion,
}

/// Options of a live NIC.
#[derive(Debug)]
pub struct LiveOptions {
    pub machine: Machine,
    pub nic: Options,
    /// Handlers run as code of this computer.
    pub native: bool,
    /// The datapath is the one in hardware, simulated.
    pub rtl: bool,
    /// Handlers from the beginning, as context 0.
    pub setup: Setup,
    pub tap: Option<String>,
    /// Of the kernel's side of it: `10.9.0.1/24`.
    pub address: Option<String>,
    /// Where frames go that no rule wants.
    pub host_tap: Option<String>,
    /// The NIC's own, for ARP. Absent: the one behind `address`.
    pub nic_address: Option<[u8; 4]>,
    /// Socket for programs.
    pub device: Option<PathBuf>,
    /// What happens to frames on the line, either way.
    pub faults: LineFaults,
    /// End after so many frames, or so long.
    pub frames: Option<u64>,
    pub duration: Option<Duration>,
}

impl LiveOptions {
    /// A NIC without interfaces, socket and handlers.
    pub fn on(machine: Machine) -> LiveOptions {
        LiveOptions {
            machine,
            nic: Options::default(),
            native: false,
            rtl: false,
            setup: Setup::default(),
            tap: None,
            address: None,
            host_tap: None,
            nic_address: None,
            device: None,
            faults: LineFaults::default(),
            frames: None,
            duration: None,
        }
    }
}

/// Something that happened, to be shown.
#[derive(Debug)]
pub enum Happening {
    /// A line printed on a unit.
    Printed {
        hpu: usize,
        text: String,
    },
    Fault(Fault),
    Dropped(Dropped),
    /// A program on the host did something.
    Device(String),
}

/// Results of a live run.
#[derive(Clone, Debug, Default)]
pub struct Lived {
    /// Frames from the line, and to it.
    pub received: u64,
    pub sent: u64,
    /// Frames to and from the host's side, and ARP requests answered.
    pub to_host: u64,
    pub from_host: u64,
    pub arp: u64,
    /// Frames for the host's side when there was none.
    pub nobodys: u64,
    /// Frames that an interface did not take.
    pub refused: u64,
    /// Frames that the line lost, doubled and held back, as it was asked to.
    pub spoilt: [u64; 3],
    /// Frames for handlers, handlers that ran and that failed, frames dropped, bytes of host memory
    /// written and read.
    pub matched: u64,
    pub handlers: u64,
    pub failed: u64,
    pub dropped: u64,
    pub host_written: u64,
    pub host_read: u64,
    pub cycles: u64,
    pub seconds: f64,
}

impl Lived {
    /// Adds what a NIC did that now ends.
    fn add(&mut self, stats: &Stats, cycles: u64) {
        self.matched += stats.matched;
        self.handlers += stats.handlers;
        self.failed += stats.faults.iter().sum::<u64>();
        self.dropped += stats.dropped.iter().sum::<u64>();
        self.host_written += stats.host_written_bytes;
        self.host_read += stats.host_read_bytes;
        self.cycles += cycles;
    }
}

/// A NIC with its interfaces.
pub struct Live {
    options: LiveOptions,
    nic: Nic,
    /// By context; those without an image are not set up.
    setups: Vec<Setup>,
    /// The NIC's number of each.
    numbers: Vec<Option<usize>>,
    shared: Shared,
    line: Option<Tap>,
    /// To the NIC, and from it.
    ways: [Line; 2],
    host: Option<Tap>,
    device: Option<Device>,
    /// Without what the NIC has done that is there now: loading an image makes a new one.
    lived: Lived,
}

impl Live {
    /// Makes interfaces, the socket and the NIC.
    ///
    /// # Errors
    /// See [`LiveError`]; what was made before goes away.
    pub fn new(mut options: LiveOptions) -> Result<Live, LiveError> {
        let line = options
            .tap
            .as_deref()
            .map(|name| Tap::new(name, options.address.as_deref()))
            .transpose()?;
        let host = options.host_tap.as_deref().map(|name| Tap::new(name, None)).transpose()?;
        let device = options.device.as_deref().map(Device::new).transpose()?;
        let shared = Shared::default();
        let setup = std::mem::take(&mut options.setup);
        options.nic_address =
            options.nic_address.or(options.address.as_deref().and_then(arp::next_address));
        let nic = Nic::new(&options.machine, options.nic.clone(), Box::new(shared.clone()));
        let mut live = Live {
            nic,
            setups: vec![setup],
            numbers: Vec::new(),
            shared,
            line,
            ways: [Line::new(options.faults, 0), Line::new(options.faults, 1)],
            host,
            device,
            lived: Lived::default(),
            options,
        };
        let bytes = live.setups[0].host.bytes;
        if bytes > 0 {
            live.share(0, bytes).map_err(LiveError::Wait)?;
        }
        live.rebuild()?;
        Ok(live)
    }

    pub fn machine(&self) -> &Machine {
        &self.options.machine
    }

    /// The address for which ARP requests are answered.
    pub fn nic_address(&self) -> Option<[u8; 4]> {
        self.options.nic_address.filter(|_| self.host.is_none())
    }

    /// Gives a context new host memory.
    fn share(&mut self, context: usize, bytes: u32) -> std::io::Result<std::os::fd::OwnedFd> {
        let region = host_region(context, bytes);
        self.setups[context].host = region;
        self.shared.make(region)
    }

    /// A new NIC with all contexts that have images: what was under way is lost, as when hardware
    /// is loaded.
    fn rebuild(&mut self) -> Result<(), LiveError> {
        self.lived.add(self.nic.stats(), self.nic.now());
        let (machine, options) = (&self.options.machine, &self.options.nic);
        let host = || Box::new(self.shared.clone());
        let native = self.setups.iter().find_map(|setup| setup.native.as_ref());
        // The one that was goes first: a process has one native engine.
        self.nic = Nic::new(machine, options.clone(), host());
        let mut nic = match native {
            Some(image) => Nic::with_engine(
                machine,
                options.clone(),
                host(),
                Box::new(Native::new(machine, image)?),
            ),
            None => Nic::new(machine, options.clone(), host()),
        };
        if self.options.rtl {
            nic = nic.with_datapath(Box::new(Rtl::new(machine, options, 0)?));
        }
        self.numbers = vec![None; self.setups.len()];
        for (setup, number) in self.setups.iter().zip(&mut self.numbers) {
            let Some(image) = &setup.image else { continue };
            let mut context = Context::new(image, setup.handlers.clone());
            context.ruleset = setup.ruleset;
            context.host = setup.host;
            *number = Some(nic.add_context(context)?);
        }
        self.nic = nic;
        Ok(())
    }

    /// Lives until `stop` is set or a limit is reached; tells what happens.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<Lived, LiveError> {
        let began = Instant::now();
        let mut done = false;
        while !done {
            let idle = self.nic.is_idle();
            self.wait(if idle { WAIT_MS } else { 0 })?;
            self.serve_programs(tell);
            while let Some(frame) = receive(&mut self.line)? {
                self.lived.received += 1;
                for frame in self.ways[0].pass(frame) {
                    self.arrived(frame);
                }
            }
            while let Some(frame) = receive(&mut self.host)? {
                self.lived.from_host += 1;
                self.put_on_line(frame);
            }
            if let Some(frame) = self.ways[0].overdue() {
                self.arrived(frame);
            }
            if let Some(frame) = self.ways[1].overdue() {
                self.lived.refused += u64::from(!send(&mut self.line, &frame));
            }
            let next = self.nic.now() + SLICE;
            self.nic.run_until(Until::Cycle(next));
            self.deliver(tell);
            done = stop.load(Ordering::Relaxed)
                || self
                    .options
                    .frames
                    .is_some_and(|most| self.lived.received >= most && self.nic.is_idle())
                || self.options.duration.is_some_and(|most| began.elapsed() >= most);
        }
        let mut lived = self.lived.clone();
        lived.add(self.nic.stats(), self.nic.now());
        lived.spoilt = [0, 1, 2].map(|at| self.ways[0].counts[at] + self.ways[1].counts[at]);
        lived.seconds = began.elapsed().as_secs_f64();
        Ok(lived)
    }

    /// Until something can be read, or the time is over.
    fn wait(&self, milliseconds: i32) -> Result<(), LiveError> {
        let mut fds: Vec<RawFd> = self.line.iter().chain(&self.host).map(Tap::fd).collect();
        fds.extend(self.device.iter().flat_map(Device::fds));
        let mut polled: Vec<libc::pollfd> = fds
            .into_iter()
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        // SAFETY: the array lives through the call and has this many entries.
        let ready =
            unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
        let error = std::io::Error::last_os_error();
        if ready < 0 && error.kind() != std::io::ErrorKind::Interrupted {
            return Err(LiveError::Wait(error));
        }
        Ok(())
    }

    fn arrived(&mut self, frame: Vec<u8>) {
        if let Some(answer) = self.nic_address().and_then(|address| arp::answer(&frame, address)) {
            self.lived.arp += 1;
            self.lived.refused += u64::from(!send(&mut self.line, &answer));
            return;
        }
        let (time, user) = (self.nic.now(), self.lived.received);
        self.nic.arrive(Arrival { time, frame, user, ..Arrival::default() });
    }

    fn put_on_line(&mut self, frame: Vec<u8>) {
        self.lived.sent += 1;
        for frame in self.ways[1].pass(frame) {
            self.lived.refused += u64::from(!send(&mut self.line, &frame));
        }
    }

    fn deliver(&mut self, tell: &mut dyn FnMut(Happening)) {
        for out in self.nic.take_out() {
            match out {
                Out::Sent { frame, .. } => self.put_on_line(frame),
                Out::ToHost { frame, .. } if self.host.is_some() => {
                    self.lived.to_host += 1;
                    self.lived.refused += u64::from(!send(&mut self.host, &frame));
                }
                Out::ToHost { .. } => self.lived.nobodys += 1,
                Out::Stdout { hpu, text, .. } => tell(Happening::Printed { hpu, text }),
                Out::Fault(mut fault) => {
                    let at = self.numbers.iter().position(|number| *number == Some(fault.context));
                    if let Some(setup) = at.and_then(|at| self.setups.get_mut(at)) {
                        setup.lines.explain(&mut fault);
                    }
                    tell(Happening::Fault(fault));
                }
                Out::Dropped { why, .. } => tell(Happening::Dropped(why)),
                Out::HostWritten { .. }
                | Out::Handler(_)
                | Out::Feedback { .. }
                | Out::Abandoned { .. } => {}
            }
        }
    }
}

fn receive(tap: &mut Option<Tap>) -> Result<Option<Vec<u8>>, TapError> {
    tap.as_mut().map_or(Ok(None), Tap::receive)
}

fn send(tap: &mut Option<Tap>, frame: &[u8]) -> bool {
    tap.as_mut().is_some_and(|tap| tap.send(frame))
}
