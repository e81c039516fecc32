//! The balancer at work, in network namespaces that go when this process does.
//!
//! ```text
//!   wire namespace                NIC namespace
//!   client   wire0 <--- veth ---> nf0  nfb_ingress (monitor, director)
//!   NIC side wire1 <--- veth ---> nf1  nfb_from_nic
//!   host     wire2 <--- veth ---> nf2  nfb_from_host (merger)
//! ```
//!
//! The sides are processes of their own ([`super::peer`]). The client sends a trace of phases,
//! checks every answer (who sent it, both checksums, the result) and runs the daemon between
//! packets. In the last phase the NIC side is killed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nicforge_balance::director::checksum::{fold, sum};
use nicforge_balance::director::{Vip, WIRE_OVERHEAD};
use nicforge_balance::policy::Policy;
use nicforge_balance::policy::failover::{Limits, State};
use nicforge_balance::rng::Rng;

use super::daemon::{Daemon, PERIOD_NS, Status};
use super::functions::{FunctionName, digest, next_average};
use super::heartbeat::{Receiver, Side};
use super::library::Pipeline;
use super::peer::{self, HEADERS, MAGIC, PORT, REQUEST};
use super::program::{Expecting, Requests};
use super::raw::Raw;
use super::{Balancer, Config, Interfaces};
use crate::netns::Sandbox;
use crate::xdp::XdpError;
use crate::xdp::attach::Attached;

/// Addresses of client, service and host.
pub(super) const CLIENT: [u8; 4] = [10, 9, 1, 1];
pub(super) const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 9, 1];
pub(super) const VIP: [u8; 4] = [10, 9, 0, 1];
pub(super) const VIP_MAC: [u8; 6] = [2, 0, 0, 0, 9, 2];
pub(super) const HOST: [u8; 4] = [10, 9, 0, 2];
pub(super) const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 9, 3];
/// Keys that requests are about.
const KEYS: u32 = 1000;
/// How long a start-up or a last answer may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Quiet time after a phase that means nothing more comes.
const QUIET: Duration = Duration::from_secs(1);

/// Packets a second for a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    pub packets_per_second: f64,
    pub seconds: f64,
    /// The NIC side is killed in the middle.
    pub kill_nic: bool,
}

/// Choices of what to show.
pub struct Options {
    pub config: Config,
    pub phases: Vec<Phase>,
    pub function: FunctionName,
    /// Shared objects of C functions, in place of it; their results do not depend on earlier
    /// requests.
    pub objects: Vec<PathBuf>,
    /// Requests for a program that both sides run in place of a function, and the arguments that
    /// name it to a side.
    pub compiled: Option<(Requests, Vec<String>)>,
    /// What the NIC side is paced to, packets a second.
    pub nic_pace: u32,
    /// Bytes of a frame.
    pub frame_bytes: usize,
    pub limits: Limits,
    /// How late a side may look at what arrived, ns: buckets of flows move after that.
    pub drain_ns: u64,
    pub seed: u64,
    /// The program to start as sides, and its arguments up to those of [`side_arguments`].
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// The report on a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseReport {
    pub phase: Phase,
    pub sent: u64,
    pub answered: u64,
    /// Answers that are not what they must be.
    pub wrong: u64,
    pub lost: u64,
    pub nic_packets: u64,
    pub host_packets: u64,
    /// Processor time of the host's process over the phase's time, per cent.
    pub host_cpu_percent: f64,
    pub p99_us: f64,
    pub failover: Option<Failover>,
}

/// A death, as the other side took it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failover {
    /// From the kill to the director's new setting, wall time.
    pub wall_ms: f64,
    /// Requests without an answer.
    pub lost: u64,
    /// What was in flight at the kill, and what came until the new setting.
    pub bound: u64,
}

/// The VIP of the demo.
pub fn vips() -> Vec<Vip> {
    vec![Vip { address: VIP.into(), mac: VIP_MAC, host_address: HOST.into(), host_mac: HOST_MAC }]
}

/// Bits of a frame on the wire.
pub fn wire_bits(frame_bytes: usize) -> f64 {
    (frame_bytes as u64 + WIRE_OVERHEAD) as f64 * 8.0
}

/// Where a side's frames go to.
pub(super) fn mac_of(side: Side) -> [u8; 6] {
    if side == Side::Nic { VIP_MAC } else { HOST_MAC }
}

/// Arguments that name a side, for the program that will call [`peer::serve`].
fn side_arguments(side: Side, options: &Options, folder: &Path) -> Vec<String> {
    let (name, interface) = if side == Side::Nic { ("nic", "wire1") } else { ("host", "wire2") };
    let function =
        if options.objects.is_empty() { options.function } else { FunctionName::Digest }.name();
    let path = |name: &str| folder.join(name).display().to_string();
    let mut arguments = options.arguments.clone();
    arguments.extend(
        ["--side", name, "--interface", interface, "--function", function].map(String::from),
    );
    arguments.extend(["--beats".to_string(), path("beats"), "--table".to_string(), path("table")]);
    arguments.extend(["--state".to_string(), path("state")]);
    for object in &options.objects {
        arguments.extend(["--object".to_string(), object.display().to_string()]);
    }
    if let Some((_, named)) = &options.compiled {
        arguments.extend(named.iter().cloned());
    }
    if side == Side::Nic {
        arguments.extend(["--pace".to_string(), options.nic_pace.to_string()]);
    }
    arguments
}

/// A process that ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(
        sandbox: &Sandbox,
        options: &Options,
        side: Side,
        folder: &Path,
    ) -> Result<Process, XdpError> {
        let mut command = Command::new(&options.program);
        command
            .args(side_arguments(side, options, folder))
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        // A child is in the namespace of the thread that starts it.
        sandbox.wire.enter(|| {
            let child = command.spawn();
            child
                .map(Process)
                .map_err(|source| XdpError::Kernel { what: "start a side".to_string(), source })
        })
    }

    /// Processor time so far, s. The file counts in ns.
    fn cpu(&self) -> f64 {
        let text =
            std::fs::read_to_string(format!("/proc/{}/schedstat", self.0.id())).unwrap_or_default();
        text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
    }
}

/// A client's expectation of one request.
struct Pending {
    sent: Instant,
    expected: Expected,
}

enum Expected {
    Exactly(u64),
    /// These bytes.
    Reply(Vec<u8>),
    /// A count that nobody else got.
    Count(u64),
    /// Nothing more: the function's order is not the client's, or the whole reply is compared.
    Any,
}

/// A client with what it knows.
struct Client<'a> {
    raw: Raw,
    /// Of a program, in place of a function.
    requests: Option<&'a Requests>,
    /// What a program with state answers.
    expecting: Option<Expecting<'a>>,
    rng: Rng,
    function: FunctionName,
    /// What computes the results that are expected.
    pipeline: Option<Pipeline>,
    frame_bytes: usize,
    next: u64,
    /// Requests of a program that were sent or passed over.
    turn: u64,
    pending: HashMap<u64, Pending>,
    /// Counts that were answered, by key; what was written, by key.
    counts: HashMap<(u64, u64), u64>,
    written: HashMap<u64, u64>,
    latencies: Vec<f64>,
    answered: u64,
    wrong: u64,
}

impl Client<'_> {
    /// Sends a request; false if there is no room for one now.
    fn send(&mut self) -> Result<bool, XdpError> {
        match self.requests {
            Some(requests) => self.send_request(requests),
            None => self.send_call(),
        }
    }

    fn put(&self, frame: &[u8]) -> Result<bool, XdpError> {
        let sent = self.raw.send(frame);
        sent.map_err(|source| XdpError::Kernel { what: "send a request".to_string(), source })
    }

    /// The next request of a program with a number that is not under way.
    fn send_request(&mut self, requests: &Requests) -> Result<bool, XdpError> {
        for _ in 0..requests.count() {
            let (number, request) = requests.at(self.turn);
            if !self.pending.contains_key(&number) {
                if !self.put(&request.frame)? {
                    return Ok(false);
                }
                self.turn += 1;
                self.next += 1;
                let reply =
                    self.expecting.as_mut().map_or(Ok(None), |expecting| expecting.sent(request));
                let reply = reply.map_err(super::other("run the interpreter"))?;
                let expected = reply.map_or(Expected::Any, Expected::Reply);
                self.pending.insert(number, Pending { sent: Instant::now(), expected });
                return Ok(true);
            }
            self.turn += 1;
        }
        Ok(false)
    }

    fn send_call(&mut self) -> Result<bool, XdpError> {
        let sequence = self.next;
        let key = u64::from(self.rng.below(KEYS));
        let value = self.rng.bits() >> 32;
        // Every key is written once, first; all later reads give that.
        let write = self.function == FunctionName::Kvs && !self.written.contains_key(&key);
        let mut frame = vec![0; self.frame_bytes];
        frame[..6].copy_from_slice(&VIP_MAC);
        frame[6..12].copy_from_slice(&CLIENT_MAC);
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&((self.frame_bytes - 14) as u16).to_be_bytes());
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..30].copy_from_slice(&CLIENT);
        frame[30..34].copy_from_slice(&VIP);
        let header = !fold(sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        frame[34..36].copy_from_slice(&(20_000 + (sequence % 256) as u16).to_be_bytes());
        frame[36..38].copy_from_slice(&PORT.to_be_bytes());
        frame[38..40].copy_from_slice(&((self.frame_bytes - 34) as u16).to_be_bytes());
        frame[HEADERS..HEADERS + 4].copy_from_slice(&MAGIC);
        let mut put = |at: usize, value: u64| {
            frame[HEADERS + at..HEADERS + at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(peer::SEQUENCE, sequence);
        put(peer::KEY, key);
        put(peer::VALUE, value);
        frame[HEADERS + peer::OPERATION] = write.into();
        let (front, payload) = frame.split_at_mut(HEADERS + REQUEST);
        let _ = front;
        payload.iter_mut().for_each(|byte| *byte = self.rng.bits() as u8);
        peer::write_udp_checksum(&mut frame);
        if !self.put(&frame)? {
            return Ok(false);
        }
        let payload = &frame[HEADERS + REQUEST..];
        let expected = match self.function {
            _ if let Some(pipeline) = &mut self.pipeline => {
                Expected::Exactly(pipeline.run(payload))
            }
            FunctionName::Digest | FunctionName::Library => Expected::Exactly(digest(payload)),
            FunctionName::Count => Expected::Count(key),
            FunctionName::Kvs if write => {
                self.written.insert(key, value);
                Expected::Exactly(value)
            }
            FunctionName::Kvs => Expected::Any,
            FunctionName::Ema => Expected::Any,
        };
        self.next += 1;
        self.pending.insert(sequence, Pending { sent: Instant::now(), expected });
        Ok(true)
    }

    /// Takes all answers that are there; whether there were any.
    fn receive(&mut self) -> Result<bool, XdpError> {
        let mut any = false;
        loop {
            let frame = self.raw.receive();
            let frame = frame.map_err(|source| XdpError::Kernel {
                what: "receive an answer".to_string(),
                source,
            })?;
            let Some(frame) = frame else { return Ok(any) };
            any = true;
            self.check(&frame);
        }
    }

    fn check(&mut self, frame: &[u8]) {
        match self.requests {
            Some(requests) => self.check_reply(requests, frame),
            None => self.check_result(frame),
        }
    }

    /// A program's reply: every byte.
    fn check_reply(&mut self, requests: &Requests, frame: &[u8]) {
        let number = requests.number_of(frame);
        let Some((number, pending)) = number.and_then(|n| Some((n, self.pending.remove(&n)?)))
        else {
            self.wrong += 1;
            return;
        };
        let right = match &pending.expected {
            Expected::Reply(reply) => reply == frame,
            _ => requests.at(number).1.reply == frame,
        };
        if !right {
            self.wrong += 1;
        }
        self.answered += 1;
        self.latencies.push(pending.sent.elapsed().as_nanos() as f64 / 1e3);
    }

    fn check_result(&mut self, frame: &[u8]) {
        if frame.len() < HEADERS + REQUEST || frame[HEADERS..HEADERS + 4] != MAGIC {
            self.wrong += 1;
            return;
        }
        let pending = self.pending.remove(&peer::number(frame, peer::SEQUENCE));
        let result = peer::number(frame, peer::RESULT);
        let addressed = frame[..6] == CLIENT_MAC
            && frame[6..12] == VIP_MAC
            && frame[26..30] == VIP
            && frame[30..34] == CLIENT;
        let sums = fold(sum(&frame[14..34])) == 0xffff && fold(peer::udp_sum(frame)) == 0xffff;
        let Some(pending) = pending.filter(|_| addressed && sums) else {
            self.wrong += 1;
            return;
        };
        let right = match pending.expected {
            Expected::Exactly(value) => result == value,
            Expected::Reply(_) => false,
            Expected::Count(key) => self.counts.insert((key, result), 1).is_none() && result > 0,
            Expected::Any if self.function == FunctionName::Kvs => {
                // The write may still be on its way on the other side.
                let written = self.written.get(&peer::number(frame, peer::KEY));
                result == 0 || written == Some(&result)
            }
            Expected::Any => result <= next_average(u64::from(u32::MAX) << 16, u64::from(u32::MAX)),
        };
        if !right {
            self.wrong += 1;
        }
        self.answered += 1;
        self.latencies.push(pending.sent.elapsed().as_nanos() as f64 / 1e3);
    }
}

/// Runs the demo; `tell` hears of every phase and, four times a second, of the daemon's status.
///
/// # Errors
/// The machine's. What the phases show is for the caller to judge.
pub fn run(
    options: &Options,
    policy: Box<dyn Policy>,
    tell: &mut dyn FnMut(&Status),
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<PhaseReport>, XdpError> {
    let folder = crate::temp::Folder::new("demo").map_err(|source| XdpError::Kernel {
        what: "make a temporary folder".to_string(),
        source,
    })?;
    let sandbox = Sandbox::new(3)?;
    let mut balancer = Balancer::load(&options.config)?;
    balancer.set_drain(options.drain_ns);
    let interfaces = Interfaces {
        uplink: "nf0".to_string(),
        nic: Some("nf1".to_string()),
        host: "nf2".to_string(),
    };
    sandbox.nic.enter(|| balancer.attach(&interfaces))?;
    let balancer_ref = &balancer;
    let _ends: Vec<Attached> = sandbox.wire.enter(|| {
        ["wire0", "wire1", "wire2"]
            .iter()
            .map(|name| balancer_ref.attach_pass(name))
            .collect::<Result<_, _>>()
    })?;
    let raw = sandbox.wire.enter(|| Raw::open("wire0"))?;
    let beats = Receiver::bind(&folder.path().join("beats")).map_err(|source| {
        XdpError::Kernel { what: "make a socket for heartbeats".to_string(), source }
    })?;
    let mode = (options.config.mode, options.config.shadow);
    let daemon = Daemon::new(balancer, beats, policy, options.limits, None, mode);
    let mut nic = Some(Process::start(&sandbox, options, Side::Nic, folder.path())?);
    let host = Process::start(&sandbox, options, Side::Host, folder.path())?;
    let pipeline =
        (!options.objects.is_empty()).then(|| Pipeline::load(&options.objects)).transpose();
    let pipeline = pipeline.map_err(super::other("load the functions"))?;
    let requests = options.compiled.as_ref().map(|(requests, _)| requests);
    let expecting = requests.map(Requests::expecting).transpose();
    let client = Client {
        raw,
        requests,
        expecting: expecting.map_err(super::other("fill the interpreter's tables"))?,
        rng: Rng::new(options.seed),
        function: options.function,
        pipeline,
        frame_bytes: options.frame_bytes.max(HEADERS + REQUEST),
        next: 1,
        turn: 0,
        pending: HashMap::new(),
        counts: HashMap::new(),
        written: HashMap::new(),
        latencies: Vec::new(),
        answered: 0,
        wrong: 0,
    };
    let mut stage = Stage { client, daemon, start: Instant::now(), next_step: Instant::now() };
    stage.wait_for_sides(&mut nic, stopped)?;
    let mut reports = Vec::new();
    for phase in &options.phases {
        if stopped() {
            break;
        }
        reports.push(stage.play(phase, &mut nic, &host, tell, stopped)?);
    }
    Ok(reports)
}

/// Client and daemon, which take turns.
struct Stage<'a> {
    client: Client<'a>,
    daemon: Daemon,
    start: Instant,
    next_step: Instant,
}

impl Stage<'_> {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 + 1
    }

    fn step_if_due(&mut self) -> Result<(), XdpError> {
        let now = Instant::now();
        if now >= self.next_step {
            self.next_step = now + Duration::from_nanos(PERIOD_NS);
            self.daemon.step(self.now_ns())?;
        }
        Ok(())
    }

    /// Until both have sent a heartbeat.
    fn wait_for_sides(
        &mut self,
        nic: &mut Option<Process>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), XdpError> {
        let until = Instant::now() + PATIENCE;
        let heard = |status: &Status| {
            status.nic.beats > 0 && status.host.beats > 0 && status.state == State::Both
        };
        while !heard(self.daemon.status()) {
            self.step_if_due()?;
            if stopped() {
                break;
            }
            let ended = nic.as_mut().is_some_and(|nic| matches!(nic.0.try_wait(), Ok(Some(_))));
            if ended || Instant::now() > until {
                let source = std::io::Error::other("no heartbeat came");
                return Err(XdpError::Kernel { what: "start the NIC side".to_string(), source });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn play(
        &mut self,
        phase: &Phase,
        nic: &mut Option<Process>,
        host: &Process,
        tell: &mut dyn FnMut(&Status),
        stopped: &dyn Fn() -> bool,
    ) -> Result<PhaseReport, XdpError> {
        let before = self.daemon.status().counters;
        let (answered, wrong, first) = (self.client.answered, self.client.wrong, self.client.next);
        self.client.latencies.clear();
        let cpu = host.cpu();
        let begin = Instant::now();
        let length = Duration::from_secs_f64(phase.seconds);
        let (mut sent, mut told) = (0u64, begin);
        let mut killed: Option<(Instant, u64, u64)> = None;
        let mut switched: Option<(Duration, u64)> = None;
        // A death is waited for, and then as much of the phase remains as if it had been noticed at
        // once.
        let goes_on = |switched: &Option<(Duration, u64)>| {
            let more = match switched {
                Some((wall, _)) => *wall,
                None if phase.kill_nic => PATIENCE,
                None => Duration::ZERO,
            };
            begin.elapsed() < length + more
        };
        while goes_on(&switched) && !stopped() {
            let due = (begin.elapsed().as_secs_f64() * phase.packets_per_second) as u64;
            // After a pause of this process, what was missed is not sent at once.
            if due > sent + 256 {
                sent = due - 256;
            }
            while sent < due && self.client.send()? {
                sent += 1;
            }
            self.client.receive()?;
            self.step_if_due()?;
            if phase.kill_nic && killed.is_none() && begin.elapsed() > length / 2 {
                let in_flight = self.client.pending.len() as u64;
                *nic = None;
                killed = Some((Instant::now(), in_flight, self.client.next));
            }
            if let (Some((at, in_flight, next)), None) = (killed, switched)
                && self.daemon.status().state == State::NicDead
            {
                switched = Some((at.elapsed(), in_flight + self.client.next - next));
            }
            if told.elapsed() > Duration::from_millis(250) {
                told = Instant::now();
                tell(self.daemon.status());
            }
            self.client.raw.wait(1);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let host_cpu_percent = 100.0 * (host.cpu() - cpu) / seconds;
        // What is still on its way.
        let (mut quiet, until) = (Instant::now(), Instant::now() + PATIENCE);
        while !self.client.pending.is_empty() && quiet.elapsed() < QUIET && Instant::now() < until {
            if self.client.receive()? {
                quiet = Instant::now();
            }
            self.step_if_due()?;
            self.client.raw.wait(1);
        }
        self.daemon.step(self.now_ns())?;
        let lost = self.client.pending.len() as u64;
        self.client.pending.clear();
        let after = self.daemon.status().counters;
        let latencies = &mut self.client.latencies;
        let p99_us = match latencies.len() {
            0 => 0.0,
            n => *latencies.select_nth_unstable_by(n * 99 / 100, f64::total_cmp).1,
        };
        Ok(PhaseReport {
            phase: phase.clone(),
            sent: self.client.next - first,
            answered: self.client.answered - answered,
            wrong: self.client.wrong - wrong,
            lost,
            nic_packets: after.nic_packets - before.nic_packets,
            host_packets: after.host_packets - before.host_packets,
            host_cpu_percent,
            p99_us,
            failover: switched.map(|(wall, bound)| Failover {
                wall_ms: wall.as_secs_f64() * 1e3,
                lost,
                bound,
            }),
        })
    }
}
