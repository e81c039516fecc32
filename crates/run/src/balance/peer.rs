//! A side: a process that answers requests on an interface, as the NIC's processor or as the host.
//!
//! The NIC side looks at its interface all the time, and is paced to so many packets a second: it
//! stands for a slower processor. The host sleeps in poll(2) until a packet comes. Both send
//! heartbeats; a host that has slept in says so and is then silent.
//!
//! Either runs a compiled program ([`super::program`]), and everything for its address comes in by
//! port 0, or a function: then requests are UDP with a payload of at least [`REQUEST`] bytes; an
//! answer is the same frame with addresses and ports swapped and the result filled in.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nicforge_balance::director::checksum::{fold, sum};

use super::functions::{Function, FunctionName};
use super::heartbeat::{Heartbeat, Sender, Side};
use super::library::Pipeline;
use super::program::{Answerer, Compiled};
use super::raw::Raw;
use crate::xdp::XdpError;

/// Headers in front of a request: Ethernet, IPv4, UDP.
pub const HEADERS: usize = 42;
/// Of a payload: magic, sequence number (8), key (8), value (8), result (8), operation.
pub const REQUEST: usize = 40;
pub const MAGIC: [u8; 4] = *b"nfrq";
/// UDP port of requests.
pub const PORT: u16 = 5000;

/// Packets that wait at most.
const RING: usize = 1024;
/// Time between heartbeats of a side that is awake.
const BEAT: Duration = Duration::from_millis(5);
/// Idle time after which the host sleeps.
const IDLE: Duration = Duration::from_millis(20);
/// A pause that is made up for; longer ones are not.
const CATCH_UP: Duration = Duration::from_millis(20);
/// Fewer latencies give no p99.
const ENOUGH: usize = 50;

/// Settings of a side.
#[derive(Clone, Debug)]
pub struct Options {
    pub side: Side,
    pub interface: String,
    pub beats: PathBuf,
    /// Packets a second at most.
    pub pace: Option<u32>,
    pub function: FunctionName,
    /// Shared objects of C functions, in place of it.
    pub objects: Vec<PathBuf>,
    /// State that both sides share.
    pub table: PathBuf,
    /// A program in place of a function.
    pub compiled: Option<Compiled>,
    /// Where sides meet to hand a program's state over.
    pub state: PathBuf,
}

/// Kinds of a side's work on frames.
enum Work {
    Function(Function),
    Program(Box<Answerer>),
}

impl Work {
    fn new(options: &Options) -> Result<Work, XdpError> {
        if let Some(compiled) = &options.compiled {
            let program = Answerer::open(compiled, options.side, &options.state);
            return Ok(Work::Program(Box::new(program.map_err(super::other("load the program"))?)));
        }
        let function = Function::new(options.function, Path::new(&options.table));
        let function = function.map_err(super::other("map the table that both sides share"))?;
        if options.objects.is_empty() {
            return Ok(Work::Function(function));
        }
        let pipeline =
            Pipeline::load(&options.objects).map_err(super::other("load the functions"))?;
        Ok(Work::Function(function.with_pipeline(pipeline)))
    }

    fn takes(&self, frame: &[u8]) -> bool {
        match self {
            Work::Function(_) => is_request(frame),
            Work::Program(program) => program.takes(frame),
        }
    }

    fn program(&self) -> Option<&Answerer> {
        if let Work::Program(program) = self { Some(program) } else { None }
    }

    fn program_mut(&mut self) -> Option<&mut Answerer> {
        if let Work::Program(program) = self { Some(program) } else { None }
    }

    /// The descriptor by which a change of state is waited for.
    fn fd(&self) -> Option<RawFd> {
        self.program().and_then(Answerer::fd)
    }

    /// The program and the bucket whose state it needs for a frame, if that is not here.
    fn missing(&mut self, frame: &[u8]) -> Option<(&mut Answerer, usize)> {
        let bucket = self.program()?.missing(frame)?;
        self.program_mut().map(|program| (program, bucket))
    }

    fn hear(&mut self) -> Vec<usize> {
        self.program_mut().map_or(Vec::new(), Answerer::hear)
    }

    fn is_of(&self, frame: &[u8], bucket: usize) -> bool {
        self.program().is_some_and(|program| program.is_of(frame, bucket))
    }

    fn give(&mut self, bucket: usize) {
        if let Some(program) = self.program_mut() {
            program.give(bucket);
        }
    }

    fn answers(&mut self, mut frame: Vec<u8>) -> Vec<Vec<u8>> {
        match self {
            Work::Function(function) => {
                answer(&mut frame, function);
                vec![frame]
            }
            Work::Program(program) => program.answers(frame),
        }
    }
}

/// The frames that a side has in hands.
struct Server {
    raw: Raw,
    work: Work,
    queue: VecDeque<(Instant, Vec<u8>)>,
    latencies: Vec<u64>,
    done: u64,
    /// Time that a packet takes at least, and when the next may be handled.
    gap: Duration,
    free: Instant,
    last_work: Instant,
}

fn io(what: &str) -> impl Fn(std::io::Error) -> XdpError {
    let what = what.to_string();
    move |source| XdpError::Kernel { what: what.clone(), source }
}

impl Server {
    /// Takes all frames that are there.
    fn receive(&mut self) -> Result<(), XdpError> {
        while let Some(frame) = self.raw.receive().map_err(io("receive a frame"))? {
            if self.queue.len() < RING && self.work.takes(&frame) {
                if let Some((program, bucket)) = self.work.missing(&frame) {
                    program.ask(bucket);
                }
                self.queue.push_back((Instant::now(), frame));
            }
        }
        Ok(())
    }

    fn handle(&mut self, came: Instant, frame: Vec<u8>) -> Result<(), XdpError> {
        for frame in self.work.answers(frame) {
            // The interface's queue is far longer than what may wait here.
            let _ = self.raw.send(&frame).map_err(io("send a frame"))?;
        }
        self.done += 1;
        let now = Instant::now();
        self.latencies.push(now.duration_since(came).as_nanos() as u64);
        self.free = self.free.max(now.checked_sub(CATCH_UP).unwrap_or(now)) + self.gap;
        self.last_work = now;
        Ok(())
    }

    /// Waits until the state that a frame needs is here.
    fn fetch(&mut self, frame: &[u8]) -> Result<(), XdpError> {
        while let Some((program, bucket)) = self.work.missing(frame) {
            // Given away again since it was asked for, perhaps.
            program.ask(bucket);
            if let Some(fd) = program.fd() {
                poll(&mut [entry(fd)], Some(BEAT));
            }
            self.give()?;
        }
        Ok(())
    }

    /// Gives buckets to the other side that it asks for, each after the packets of it that are
    /// here.
    fn give(&mut self) -> Result<(), XdpError> {
        for bucket in self.work.hear() {
            self.receive()?;
            let mut at = 0;
            while at < self.queue.len() {
                if !self.work.is_of(&self.queue[at].1, bucket) {
                    at += 1;
                } else if let Some((came, frame)) = self.queue.remove(at) {
                    self.handle(came, frame)?;
                }
            }
            self.work.give(bucket);
        }
        Ok(())
    }
}

/// Works until standard input ends.
///
/// # Errors
/// The machine's; a side that cannot work ends.
pub fn serve(options: &Options) -> Result<(), XdpError> {
    let raw = Raw::open(&options.interface)?;
    let mut beats = Sender::new(&options.beats).map_err(io("make a socket for heartbeats"))?;
    let mut server = Server {
        raw,
        work: Work::new(options)?,
        queue: VecDeque::new(),
        latencies: Vec::new(),
        done: 0,
        gap: options.pace.map_or(Duration::ZERO, |pace| Duration::from_secs(1) / pace.max(1)),
        free: Instant::now(),
        last_work: Instant::now(),
    };
    let mut last_beat = Instant::now();
    let is_host = options.side == Side::Host;
    let mut told = false;
    loop {
        server.receive()?;
        server.give()?;
        let mut now = Instant::now();
        while server.free <= now {
            let Some((came, frame)) = server.queue.pop_front() else { break };
            server.fetch(&frame)?;
            server.handle(came, frame)?;
            now = Instant::now();
        }
        let idle =
            is_host && server.queue.is_empty() && now.duration_since(server.last_work) > IDLE;
        if now.duration_since(last_beat) >= BEAT || idle != told {
            last_beat = now;
            told = idle;
            let latencies = &mut server.latencies;
            let p99_ns = if latencies.len() < ENOUGH {
                0
            } else {
                let at = latencies.len() * 99 / 100;
                *latencies.select_nth_unstable(at).1
            };
            if p99_ns > 0 {
                latencies.clear();
            }
            let (queue, done) = (server.queue.len() as u64, server.done);
            beats.send(Heartbeat {
                side: options.side,
                asleep: idle,
                sequence: 0,
                queue,
                done,
                p99_ns,
            });
        }
        let wait = match (idle, server.queue.is_empty()) {
            (true, _) => None,
            (false, true) => Some(BEAT.saturating_sub(last_beat.elapsed())),
            (false, false) => Some(server.free.saturating_duration_since(Instant::now())),
        };
        // Frames, the end of standard input, the other side.
        let mut fds = vec![entry(server.raw.fd().as_raw_fd()), entry(0)];
        fds.extend(server.work.fd().map(entry));
        poll(&mut fds, wait);
        if fds[1].revents != 0 {
            return Ok(());
        }
    }
}

fn entry(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Sleeps until something comes or the time is over.
fn poll(fds: &mut [libc::pollfd], wait: Option<Duration>) {
    let time = wait.map(|wait| libc::timespec {
        tv_sec: wait.as_secs() as libc::time_t,
        tv_nsec: wait.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: entries and a time that live through the call; no signal mask.
    unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, time, std::ptr::null()) };
}

/// True if a frame is a request: IPv4 without options, UDP to the port, with the magic.
pub fn is_request(frame: &[u8]) -> bool {
    frame.len() >= HEADERS + REQUEST
        && frame[12..15] == [8, 0, 0x45]
        && frame[23] == 17
        && frame[36..38] == PORT.to_be_bytes()
        && frame[HEADERS..HEADERS + 4] == MAGIC
}

/// A number of the payload.
pub fn number(frame: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| frame[HEADERS + at + i]))
}

/// Offsets in the payload.
pub const SEQUENCE: usize = 4;
pub const KEY: usize = 12;
pub const VALUE: usize = 20;
pub const RESULT: usize = 28;
pub const OPERATION: usize = 36;

/// Turns a request into its answer.
pub fn answer(frame: &mut [u8], function: &mut Function) {
    let (to, from) = (frame[..6].to_vec(), frame[6..12].to_vec());
    frame[..6].copy_from_slice(&from);
    frame[6..12].copy_from_slice(&to);
    for at in [26, 34] {
        let size = if at == 26 { 4 } else { 2 };
        let (left, right) = frame[at..at + 2 * size].split_at_mut(size);
        left.swap_with_slice(right);
    }
    let (key, value) = (number(frame, KEY), number(frame, VALUE));
    let operation = frame[HEADERS + OPERATION];
    let result = function.run(operation, key, value, &frame[HEADERS + REQUEST..]);
    frame[HEADERS + RESULT..HEADERS + RESULT + 8].copy_from_slice(&result.to_le_bytes());
    write_udp_checksum(frame);
}

/// Computes the UDP checksum of an IPv4 frame from scratch.
pub fn write_udp_checksum(frame: &mut [u8]) {
    frame[40..42].fill(0);
    let value = match !fold(udp_sum(frame)) {
        0 => 0xffff,
        value => value,
    };
    frame[40..42].copy_from_slice(&value.to_be_bytes());
}

/// The sum over addresses, protocol, length and the UDP packet: 0xffff if its checksum is right.
pub fn udp_sum(frame: &[u8]) -> u64 {
    let length = u16::from_be_bytes([frame[38], frame[39]]);
    let end = (34 + usize::from(length)).min(frame.len());
    sum(&frame[26..34]) + 17 + u64::from(length) + sum(&frame[34..end])
}
