//! One event at a time through the kernel's test run (BPF_PROG_TEST_RUN): the closed loop that
//! `verify` compares with the interpreter. The object is one of mode
//! [`Mode::Replay`](crate::compile::Mode): it takes time, seed and port from `nf_event` and leaves
//! its verdict there.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libbpf_rs::libbpf_sys;
use nicforge_codegen::abi::fate;
use nicforge_ir::{Input, InputEvent, Output};

use super::error::XdpError;
use super::loaded::Loaded;
use crate::compile::Mode;

/// The kernel wants at least an Ethernet header.
pub const SMALLEST_FRAME: usize = 14;
/// What fits one page beside the headroom and the kernel's own data behind the frame.
pub const LARGEST_TEST_FRAME: usize = 4096 - 256 - 320;

/// By how many bytes a frame may become longer at its head: the headroom but for what the kernel
/// keeps in it (`struct xdp_frame`).
pub const HEADROOM: usize = 256 - 40;

/// Offsets in `nf_event`.
const NOW: usize = 0;
const SEED: usize = 8;
const IN_PORT: usize = 16;
const OUT_PORT: usize = 20;
const OUT: usize = 24;
const REASON: usize = 28;
const EVENT_SIZE: usize = 32;

impl Loaded {
    /// Runs one event and returns everything it caused: logs, messages and DMA writes in their
    /// order, then where the packet went. Tables change as they do in a live run.
    ///
    /// # Errors
    /// [`XdpError::FrameLength`], [`XdpError::NoHandler`], [`XdpError::NoPort`] for events the
    /// program cannot be given; [`XdpError::NoRoom`] if the packet could not be changed as the
    /// program wanted.
    pub fn test_run(&self, event: &InputEvent) -> Result<Vec<Output>, XdpError> {
        let globals =
            self.globals.as_deref().zip(self.places.event.filter(|place| place.size == EVENT_SIZE));
        let (Mode::Replay, Some((globals, place))) = (self.mode(), globals) else {
            let what = "single events need an object of mode `Replay`, with `nf_event`";
            return Err(XdpError::Contract(what.to_string()));
        };
        let at = place.offset;
        globals.set_u64(at + NOW, event.time_ns);
        globals.set_u64(at + SEED, event.seed);
        globals.set_u32(at + OUT, fate::NONE);
        let (fd, data) = self.entry_point(&event.input)?;
        if let Input::Net { port, .. } = event.input {
            globals.set_u32(at + IN_PORT, port);
        }
        let mut out = vec![0; 2 * 4096];
        let length = run_once(fd, &data, Some(&mut out), 1)?.length;
        out.truncate(length);

        let mut outputs = self.drain_host()?;
        match globals.u32(at + OUT) {
            // A packet for the host side went through the ring like a message.
            fate::NONE | fate::HOST => {}
            fate::SEND => {
                outputs.push(Output::Send { port: globals.u32(at + OUT_PORT), frame: out })
            }
            fate::STACK => outputs.push(Output::Stack { frame: out }),
            verdict @ (fate::DROP | fate::FAILED) => {
                let index = globals.u32(at + REASON) as usize;
                let reason =
                    if verdict == fate::FAILED { None } else { self.artifact.reasons.get(index) };
                match reason {
                    Some((Some(reason), _)) => outputs.push(Output::Drop { reason: *reason }),
                    _ => return Err(self.no_room()),
                }
            }
            other => return Err(XdpError::Contract(format!("`nf_event.out` is {other}"))),
        }
        Ok(outputs)
    }

    fn no_room(&self) -> XdpError {
        let own = self.artifact.reasons.iter().find(|(id, _)| id.is_none());
        XdpError::NoRoom(own.map_or("no room for headers", |(_, text)| text).to_string())
    }

    /// The program for an input and the bytes it is run on.
    pub(crate) fn entry_point<'a>(
        &self,
        input: &'a Input,
    ) -> Result<(BorrowedFd<'_>, Bytes<'a>), XdpError> {
        match input {
            Input::Net { port, frame } => {
                if *port >= self.ports() {
                    return Err(XdpError::NoPort {
                        port: *port,
                        last: self.ports().saturating_sub(1),
                    });
                }
                if !(SMALLEST_FRAME..=LARGEST_TEST_FRAME).contains(&frame.len()) {
                    return Err(XdpError::FrameLength {
                        length: frame.len(),
                        smallest: SMALLEST_FRAME,
                        largest: LARGEST_TEST_FRAME,
                    });
                }
                Ok((self.handler_fd("net_recv")?, frame.into()))
            }
            // The kernel gives every program a packet; that of a timer is not looked at.
            Input::Host { .. } | Input::Tick { .. } => {
                let mut padded = input.bytes().to_vec();
                padded.resize(padded.len().max(SMALLEST_FRAME), 0);
                Ok((self.handler_fd(input.event())?, padded.into()))
            }
        }
    }

    /// Has the handler of an event without a packet run, beside whatever packets there are.
    ///
    /// # Errors
    /// There is no such handler, or the kernel refuses.
    pub(crate) fn give(&self, input: &Input) -> Result<(), XdpError> {
        let (fd, bytes) = self.entry_point(input)?;
        run_once(fd, &bytes, None, 1).map(|_| ())
    }

    /// Descriptor of the program that handles an event.
    pub fn handler_fd(&self, event: &str) -> Result<BorrowedFd<'_>, XdpError> {
        let name = self.entry_name(event).ok_or(XdpError::NoHandler(event.to_string()))?;
        self.program_fd(name)
            .ok_or_else(|| XdpError::Contract(format!("there is no program `{name}`")))
    }
}

/// Bytes of a frame, or of a message that needed padding.
pub(crate) type Bytes<'a> = std::borrow::Cow<'a, [u8]>;

/// A test run of the kernel.
pub(crate) struct TestRun {
    /// Of one run, on average.
    pub time: Duration,
    /// Of the packet after the last one, with the metadata in front of it.
    pub length: usize,
    /// Bytes of metadata.
    pub metadata: usize,
    /// What the last one returned.
    pub verdict: u32,
}

/// The context that a program gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// `struct xdp_md`.
    Xdp,
    /// `struct __sk_buff`.
    Tc,
}

/// Place of `ingress_ifindex` in `struct __sk_buff`, in words.
const INGRESS_IFINDEX: usize = 9;

impl Context {
    /// Its members, as words, for a packet of some bytes that came in by interface 1.
    fn members(self, bytes: u32) -> Vec<u32> {
        match self {
            Context::Xdp => vec![0, bytes, 0, 0, 0, 0],
            Context::Tc => {
                let mut words = vec![0; 48];
                words[INGRESS_IFINDEX] = 1;
                words
            }
        }
    }
}

/// Runs XDP program `fd` `repeat` times on `data`; the packet's bytes after the last one go to `out`.
pub(crate) fn run_once(
    fd: BorrowedFd,
    data: &[u8],
    out: Option<&mut [u8]>,
    repeat: u32,
) -> Result<TestRun, XdpError> {
    run_with(Context::Xdp, fd, data, out, repeat)
}

/// Runs a program as [`run_once`] does, with the context that it gets.
pub(crate) fn run_with(
    context: Context,
    fd: BorrowedFd,
    data: &[u8],
    mut out: Option<&mut [u8]>,
    repeat: u32,
) -> Result<TestRun, XdpError> {
    // SAFETY: all-zero is the defined initial state of the options.
    let mut opts: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    opts.sz = size_of_val(&opts) as _;
    opts.data_in = data.as_ptr().cast();
    opts.data_size_in = data.len() as u32;
    if let Some(out) = out.as_mut() {
        opts.data_out = out.as_mut_ptr().cast();
        opts.data_size_out = out.len() as u32;
    }
    opts.repeat = repeat as i32;
    let given = context.members(data.len() as u32);
    let mut context_out = given.clone();
    if out.is_some() {
        opts.ctx_in = given.as_ptr().cast();
        opts.ctx_size_in = size_of_val(&*given) as u32;
        opts.ctx_out = context_out.as_mut_ptr().cast();
        opts.ctx_size_out = size_of_val(&*context_out) as u32;
    }
    // SAFETY: the pointers are to live buffers of the lengths given.
    let status = unsafe { libbpf_sys::bpf_prog_test_run_opts(fd.as_raw_fd(), &mut opts) };
    if status != 0 {
        return Err(XdpError::kernel(
            "run the program on a packet",
            io::Error::from_raw_os_error(-status),
        ));
    }
    Ok(TestRun {
        time: Duration::from_nanos(opts.duration.into()),
        length: opts.data_size_out as usize,
        // The first member of `struct xdp_md` says where the packet begins behind metadata.
        metadata: match context {
            Context::Xdp => (context_out[0] as usize).min(opts.data_size_out as usize),
            Context::Tc => 0,
        },
        verdict: opts.retval,
    })
}
