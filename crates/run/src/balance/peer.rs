//! A side: a process that answers requests on an interface, as the NIC's processor or as the host.
//!
//! The NIC side looks at its interface all the time, and is paced to so many packets a second: it stands for a slower processor. The host sleeps in
//! poll(2) until a packet comes. Both send heartbeats; a host that has slept in says so and is then silent.
//!
//! Either runs a compiled program ([`super::program`]), and everything for its address comes in by port 0, or a function: then
//! requests are UDP with a payload of at least [`REQUEST`] bytes; an answer is the same frame with addresses and ports swapped and the result filled in.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nicforge_balance::director::checksum::{fold, sum};

use super::demo;
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

/// How a side works.
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
}

/// What a side does with frames.
enum Work {
    Function(Function),
    Program(Box<Answerer>),
}

impl Work {
    fn new(options: &Options) -> Result<Work, XdpError> {
        if let Some(compiled) = &options.compiled {
            let program = Answerer::open(compiled, demo::mac_of(options.side));
            return Ok(Work::Program(Box::new(program.map_err(super::other("load the program"))?)));
        }
        let function = Function::new(options.function, Path::new(&options.table));
        let function = function.map_err(super::other("map the table that both sides share"))?;
        if options.objects.is_empty() {
            return Ok(Work::Function(function));
        }
        let pipeline = Pipeline::load(&options.objects).map_err(super::other("load the functions"))?;
        Ok(Work::Function(function.with_pipeline(pipeline)))
    }

    fn takes(&self, frame: &[u8]) -> bool {
        match self {
            Work::Function(_) => is_request(frame),
            Work::Program(program) => program.takes(frame),
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

/// Works until standard input ends.
///
/// # Errors
/// The machine's; a side that cannot work ends.
pub fn serve(options: &Options) -> Result<(), XdpError> {
    let io = |what: &str| {
        let what = what.to_string();
        move |source| XdpError::Kernel { what, source }
    };
    let raw = Raw::open(&options.interface)?;
    let mut beats = Sender::new(&options.beats).map_err(io("make a socket for heartbeats"))?;
    let mut work = Work::new(options)?;
    let gap = options.pace.map_or(Duration::ZERO, |pace| Duration::from_secs(1) / pace.max(1));
    let mut queue: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut latencies: Vec<u64> = Vec::new();
    let (mut done, mut last_beat, mut last_work) = (0u64, Instant::now(), Instant::now());
    let mut free = Instant::now();
    let is_host = options.side == Side::Host;
    let mut told = false;
    loop {
        while let Some(frame) = raw.receive().map_err(io("receive a frame"))? {
            if queue.len() < RING && work.takes(&frame) {
                queue.push_back((Instant::now(), frame));
            }
        }
        let mut now = Instant::now();
        while free <= now {
            let Some((came, frame)) = queue.pop_front() else { break };
            for frame in work.answers(frame) {
                // The interface's queue is far longer than what may wait here.
                let _ = raw.send(&frame).map_err(io("send a frame"))?;
            }
            done += 1;
            now = Instant::now();
            latencies.push(now.duration_since(came).as_nanos() as u64);
            free = free.max(now.checked_sub(CATCH_UP).unwrap_or(now)) + gap;
            last_work = now;
        }
        let idle = is_host && queue.is_empty() && now.duration_since(last_work) > IDLE;
        if now.duration_since(last_beat) >= BEAT || idle != told {
            last_beat = now;
            told = idle;
            let p99_ns = if latencies.len() < ENOUGH {
                0
            } else {
                let at = latencies.len() * 99 / 100;
                *latencies.select_nth_unstable(at).1
            };
            if p99_ns > 0 {
                latencies.clear();
            }
            let queue = queue.len() as u64;
            beats.send(Heartbeat { side: options.side, asleep: idle, sequence: 0, queue, done, p99_ns });
        }
        let wait = match (idle, queue.is_empty()) {
            (true, _) => None,
            (false, true) => Some(BEAT.saturating_sub(last_beat.elapsed())),
            (false, false) => Some(free.saturating_duration_since(Instant::now())),
        };
        if input_ended(&raw, wait) {
            return Ok(());
        }
    }
}

/// Sleeps until a frame comes, standard input ends, or the time is over; whether it ended.
fn input_ended(raw: &Raw, wait: Option<Duration>) -> bool {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [entry(raw.fd().as_raw_fd()), entry(0)];
    let time = wait.map(|wait| libc::timespec {
        tv_sec: wait.as_secs() as libc::time_t,
        tv_nsec: wait.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: two entries and a time that live through the call; no signal mask.
    unsafe { libc::ppoll(fds.as_mut_ptr(), 2, time, std::ptr::null()) };
    fds[1].revents != 0
}

/// Whether a frame is a request: IPv4 without options, UDP to the port, with the magic.
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
