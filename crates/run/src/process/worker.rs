//! The thread of the process: receives in batches, runs handlers, gives on what they lead to.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nicforge_ir::{EventId, Output, TableId};

use super::merge::Merge;
use super::values::{Edge, Trip};
use super::xsk::Socket;
use super::{Owned, Part, Shared, lock};
use crate::host::{Passage, StepEffect};
use crate::live::Sender;
use crate::netns::{LARGEST_FRAME, Sandbox};
use crate::ring::Ring;
use crate::xdp::{Attached, XdpError};

/// How long the thread sleeps at most before it looks whether it is to end.
const PAUSE: Duration = Duration::from_millis(20);
/// How long events without a packet wait at most for the packets that wake the thread anyway:
/// waking it costs more than ten of them.
const SOON: Duration = Duration::from_micros(100);
/// Head of a frame on its way back: stage, CPU, bytes of values.
const HEAD: usize = 12;

/// Events handed to other threads that wait at most before a thread takes in more.
const PASSING: u64 = 4096;

/// Verdicts, as the kernel numbers them.
const DROP: usize = 1;
const REDIRECT: usize = 4;

/// The link between a thread and the kernel's side.
pub(crate) struct Kernel {
    /// By port, one for each queue of its interface.
    pub sockets: Vec<Vec<Socket>>,
    /// Events without a packet, with the ring's descriptor to wait on.
    pub events: Ring,
    pub events_fd: OwnedFd,
    pub back: Arc<Link>,
    /// The CPU of every replica.
    pub cpus: Vec<u32>,
    /// Tells the kernel's side whether the thread sleeps, so that events without a packet have to
    /// wake it.
    pub sleeps: Box<dyn Fn(bool) + Send>,
    /// How many events the kernel's side made for the thread, and how many of them never left.
    pub made: Box<dyn Fn() -> (u64, u64) + Send>,
    /// Events made and unsent before there were sockets.
    pub first: (u64, u64),
}

/// The way back: a veth pair whose near end has our program.
pub(crate) struct Link {
    _attached: Attached,
    sender: Sender,
    pair: Sandbox,
}

impl Link {
    /// Makes the pair; `attach` puts the program on the interface of that index and name.
    pub(crate) fn new(
        attach: impl FnOnce(u32, &str) -> Result<Attached, XdpError> + Send,
    ) -> Result<Link, XdpError> {
        let pair = Sandbox::new(1)?;
        let port = &pair.ports[0];
        let attached = pair.nic.enter(|| attach(port.ifindex, &port.name))?;
        let sender = pair.wire.enter(Sender::open)?;
        Ok(Link { _attached: attached, sender, pair })
    }

    fn send(&self, frames: &[Vec<u8>]) -> Result<(), XdpError> {
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        self.sender.send(self.pair.ports[0].wire_ifindex, &frames)
    }
}

/// The links between a thread and the others: one sender to each, itself included.
pub(crate) struct Channel {
    pub to_others: Vec<mpsc::Sender<Arrival>>,
    pub from_others: mpsc::Receiver<Arrival>,
}

/// An event from the kernel's side or another thread.
pub(crate) struct Arrival {
    edge: usize,
    passage: Passage,
    trip: Trip,
}

struct Worker<'a> {
    shared: &'a Shared,
    at: usize,
    part: &'a Part,
    kernel: Kernel,
    channel: Channel,
    merge: Merge<Arrival>,
    /// Frames for the way back, of this turn.
    back: Vec<Vec<u8>>,
    /// Replica for the next event that goes to any.
    turn: u32,
    refused: Vec<u64>,
    /// Something was kept for the owner in this turn.
    gave: bool,
    /// Events that were lost before this thread began.
    before: u64,
}

/// Ends the other threads too, however one ends.
struct Ends<'a>(&'a Shared, &'a Part);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.1.idle.store(true, Ordering::Release);
        self.1.running.store(false, Ordering::Release);
        self.0.stop.store(true, Ordering::Release);
        self.0.parts.iter().for_each(|part| part.wake.signal());
    }
}

/// Works as thread `at` until all are to stop or something fails, which the owner is told. Gives
/// what others handed over and nobody took.
pub(crate) fn run(
    shared: &Shared,
    at: usize,
    kernel: Kernel,
    channel: Channel,
) -> mpsc::Receiver<Arrival> {
    let part = &shared.parts[at];
    let _ends = Ends(shared, part);
    // Sockets were open before: what was made by then and is not lost is on its way to one that is
    // gone, or to this one.
    let (first, before) = kernel.first;
    let mut worker = Worker {
        shared,
        at,
        part,
        kernel,
        channel,
        merge: Merge::new(first),
        back: Vec::new(),
        turn: 0,
        refused: Vec::new(),
        gave: false,
        before,
    };
    let (mut looked, mut begun) = (false, cpu_time());
    while !shared.stop.load(Ordering::Acquire) {
        part.idle.store(false, Ordering::Release);
        match worker.turn() {
            Ok(true) => {
                // A system call, a tenth of what a single packet costs: none for turns that find
                // nothing.
                let ended = cpu_time();
                lock(&part.counts).busy_ns += ended.saturating_sub(begun);
                (looked, begun) = (false, ended);
            }
            Ok(false) => {
                part.lost[1].store(lost(&worker.kernel.sockets), Ordering::Release);
                part.done.store(worker.merge.next(), Ordering::Release);
                part.idle.store(true, Ordering::Release);
                worker.wait(looked);
                (looked, begun) = (true, cpu_time());
            }
            Err(error) => {
                lock(&shared.kept).failure = Some(error);
                break;
            }
        }
    }
    part.done.store(worker.merge.next(), Ordering::Release);
    part.lost[0].fetch_add(lost(&worker.kernel.sockets), Ordering::AcqRel);
    part.lost[1].store(0, Ordering::Release);
    worker.channel.from_others
}

impl Worker<'_> {
    /// One batch; whether there was anything to do.
    fn turn(&mut self) -> Result<bool, XdpError> {
        let made = (self.kernel.made)().0;
        let crowded = self.shared.passing.load(Ordering::Acquire) > PASSING;
        let received = if crowded { 0 } else { self.receive() };
        let part = self.part;
        let mut owned = lock(&part.program);
        let (mut ran, mut passed) = (0, 0);
        while let Some(arrival) =
            self.channel.from_others.try_recv().ok().filter(|_| passed < super::xsk::BATCH as u64)
        {
            self.handle(&mut owned, arrival)?;
            passed += 1;
        }
        while let Some(arrival) = {
            let (sockets, unsent) = (&self.kernel.sockets, &self.kernel.made);
            let before = self.before;
            self.merge.pop(|| (unsent().1 + lost(sockets)).saturating_sub(before))
        } {
            self.handle(&mut owned, arrival)?;
            ran += 1;
        }
        drop(owned);
        if self.merge.is_empty() && received == 0 && self.merge.next() < made {
            let never = (self.kernel.made)().1 + lost(&self.kernel.sockets);
            self.merge.close(made, never.saturating_sub(self.before));
        }
        let mut given_up = 0;
        for socket in self.kernel.sockets.iter_mut().flatten() {
            given_up += socket.kick();
        }
        self.kernel.back.send(&self.back)?;
        self.back.clear();
        lock(&part.counts).unsent += given_up;
        if std::mem::take(&mut self.gave) {
            self.shared.news.signal();
        }
        // Only now: what they led to has left.
        self.shared.passing.fetch_sub(passed, Ordering::AcqRel);
        Ok(received > 0 || ran > 0 || passed > 0)
    }

    /// Takes in everything that is there; returns how much that was.
    fn receive(&mut self) -> usize {
        let (merge, shared, part) = (&mut self.merge, self.shared, self.part);
        let (mut count, mut values) = (0, 0);
        let edge_of =
            |event: u32| shared.edges.iter().position(|edge| edge.lies.event.as_u32() == event);
        let word = |bytes: &[u8], at: usize| {
            Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
        };
        for (port, sockets) in (0u32..).zip(&mut self.kernel.sockets) {
            for socket in sockets {
                count += socket.receive(|front, frame| {
                    let mut read = || {
                        let end = front.len().checked_sub(8)?;
                        let (order, event) = (word(front, end)?, word(front, end + 4)?);
                        let edge = edge_of(event & 0xffff)?;
                        let words = (event >> 16) as usize;
                        let start =
                            end.checked_sub(shared.edges[edge].bytes(shared.recorded, words))?;
                        let packet = Some((port, frame));
                        let (passage, trip) =
                            shared.edges[edge].read(&front[start..end], shared.recorded, packet)?;
                        values += (end - start) as u64;
                        Some((order, Arrival { edge, passage, trip }))
                    };
                    match read() {
                        Some((order, arrival)) => merge.insert(order, arrival),
                        None => lock(&part.counts).unsent += 1,
                    }
                });
            }
        }
        count += self.kernel.events.drain(|record| {
            let mut read = || {
                let (event, order) = (word(record, 0)?, word(record, 4)?);
                let edge = edge_of(event)?;
                let (passage, trip) =
                    shared.edges[edge].read(record.get(8..)?, shared.recorded, None)?;
                values += record.len() as u64 - 8;
                Some((order, Arrival { edge, passage, trip }))
            };
            match read() {
                Some((order, arrival)) => merge.insert(order, arrival),
                None => lock(&part.counts).unsent += 1,
            }
        });
        if count > 0 {
            let up = &mut lock(&part.counts).crossed.up;
            *up = (up.0 + count as u64, up.1 + values);
        }
        count
    }

    /// Runs an event's handler and those of the events it leads to in the process.
    fn handle(&mut self, owned: &mut Owned, arrival: Arrival) -> Result<(), XdpError> {
        let shared = self.shared;
        let edge = &shared.edges[arrival.edge];
        let first = owned.0.enter(edge.lies.event, &arrival.passage, edge.packet_at);
        lock(&self.part.counts).arrived[arrival.edge] += 1;
        let mut open = VecDeque::from([(edge.lies.stage, first, arrival.trip)]);
        while let Some((stage, message, trip)) = open.pop_front() {
            let effects = owned.0.run(message).to_vec();
            let mut counts = lock(&self.part.counts);
            counts.runs[stage] += 1;
            for effect in effects {
                match effect {
                    StepEffect::Generate { event, message, bytes, .. } => {
                        let local = shared.local[event.as_u32() as usize];
                        if bytes.is_some() {
                            counts.stages[stage].verdicts[REDIRECT] += 1;
                            counts.stages[stage].handed += 1;
                        }
                        match local {
                            Some(to) => {
                                let (thread, trip) =
                                    self.thread(event, to, owned.0.params(message), trip);
                                if thread == self.at {
                                    open.push_back((to, message, trip));
                                } else {
                                    let passage = owned.0.leave(message);
                                    self.pass(thread, event, passage, trip, &mut counts);
                                }
                                self.turn = self.turn.wrapping_add(1);
                            }
                            None => {
                                let passage = owned.0.leave(message);
                                self.back.extend(self.returned(event, &passage, trip, &mut counts));
                                self.turn = self.turn.wrapping_add(1);
                            }
                        }
                    }
                    StepEffect::Send { .. } => counts.stages[stage].verdicts[REDIRECT] += 1,
                    StepEffect::Drop { reason } => {
                        counts.stages[stage].verdicts[DROP] += 1;
                        counts.drops[stage][reason.as_u32() as usize] += 1;
                    }
                    StepEffect::NoRoom => {
                        counts.stages[stage].verdicts[DROP] += 1;
                        if let Some(last) = counts.drops[stage].last_mut() {
                            *last += 1;
                        }
                    }
                    StepEffect::Host { .. } | StepEffect::Stack { .. } => {
                        counts.stages[stage].verdicts[DROP] += 1;
                    }
                    StepEffect::Made { .. } | StepEffect::ToHost { .. } => {}
                }
            }
            drop(counts);
            self.give_out(owned.0.take_outputs(), trip);
            self.note_refusals(owned, trip);
            if self.back.len() >= 64 {
                self.kernel.back.send(&self.back)?;
                self.back.clear();
            }
        }
        Ok(())
    }

    /// The thread that an event of the process goes to, and its way.
    fn thread(&self, event: EventId, stage: usize, params: &[u8], trip: Trip) -> (usize, Trip) {
        let replicas = self.shared.pipeline.stages[stage].replicas;
        let edge = self.shared.edges.iter().find(|edge| edge.lies.event == event);
        let chosen = edge.filter(|_| replicas > 1).and_then(|edge| edge.replica(params, replicas));
        let replica = match chosen {
            Some(replica) => replica,
            // Any will do: it stays, if this is one of them.
            None if (self.at as u32) < replicas => self.at as u32,
            None => self.turn % replicas.max(1),
        };
        let route = trip.route.wrapping_mul(67).wrapping_add(replica + 1);
        (replica as usize, Trip { route, ..trip })
    }

    /// Hands an event to another thread.
    fn pass(
        &self,
        thread: usize,
        event: EventId,
        passage: Passage,
        trip: Trip,
        counts: &mut super::Counts,
    ) {
        let edge = self.shared.edges.iter().position(|edge| edge.lies.event == event);
        self.shared.passing.fetch_add(1, Ordering::AcqRel);
        let sent = edge.is_some_and(|edge| {
            self.channel.to_others[thread].send(Arrival { edge, passage, trip }).is_ok()
        });
        if sent {
            self.shared.parts[thread].wake.signal();
        } else {
            self.shared.passing.fetch_sub(1, Ordering::AcqRel);
            counts.unsent += 1;
        }
    }

    /// The frame of an event that goes back; none if it is too long for the way.
    fn returned(
        &self,
        event: EventId,
        passage: &Passage,
        trip: Trip,
        counts: &mut super::Counts,
    ) -> Option<Vec<u8>> {
        let edge: &Edge = self.shared.edges.iter().find(|edge| edge.lies.event == event)?;
        let stage = &self.shared.pipeline.stages[edge.lies.stage];
        let replica = edge
            .replica(&passage.params, stage.replicas)
            .unwrap_or(self.turn % stage.replicas.max(1));
        let cpu = self.kernel.cpus.get((stage.first + replica) as usize).copied().unwrap_or(0);
        let mut frame = Vec::with_capacity(HEAD + edge.bytes(self.shared.recorded, 0) + 64);
        for word in [edge.lies.stage as u32, cpu, 0] {
            frame.extend(word.to_le_bytes());
        }
        let trip = Trip { route: trip.route.wrapping_mul(67).wrapping_add(replica + 1), ..trip };
        let size = edge.write(passage, self.shared.recorded.then_some(trip), &mut frame) as u32;
        frame[HEAD - 4..HEAD].copy_from_slice(&size.to_le_bytes());
        if frame.len() > LARGEST_FRAME {
            counts.unsent += 1;
            return None;
        }
        counts.values_back += u64::from(passage.packet.is_none());
        let back = &mut counts.crossed.back;
        *back = (back.0 + 1, back.1 + u64::from(size));
        Some(frame)
    }

    /// Sends frames by their ports; everything else waits for the owner.
    fn give_out(&mut self, outputs: Vec<Output>, trip: Trip) {
        for output in outputs {
            match output {
                Output::Send { port, frame } => {
                    let (shared, part) = (self.shared, self.part);
                    let _turn = shared.recorded.then(|| lock(&shared.leaving));
                    if shared.recorded
                        && let Some(sent) = lock(&shared.kept).sent.get_mut(port as usize)
                    {
                        sent.push_back(trip);
                    }
                    let socket = self
                        .kernel
                        .sockets
                        .get_mut(port as usize)
                        .and_then(|list| list.first_mut());
                    let mut unsent = 1;
                    if let Some(socket) = socket
                        && send(socket, &frame)
                    {
                        unsent = if shared.recorded && shared.parts.len() > 1 {
                            socket.kick()
                        } else {
                            0
                        };
                    }
                    lock(&part.counts).unsent += unsent;
                }
                Output::Drop { .. } => {}
                output => {
                    lock(&self.shared.kept).outputs.push(output);
                    self.gave = true;
                }
            }
        }
    }

    /// In recorded runs: which event a full table refused.
    fn note_refusals(&mut self, owned: &mut Owned, trip: Trip) {
        let program = owned.0.program();
        let tables = program.artifact().tables.len();
        self.refused.resize(tables, 0);
        for (at, before) in self.refused.iter_mut().enumerate() {
            let table = TableId::from_u32(at as u32);
            let now = program.refused(table);
            if self.shared.recorded {
                let list = (*before..now).map(|_| (trip.number, table));
                lock(&self.shared.kept).refusals.extend(list);
            }
            *before = now;
        }
    }

    /// Sleeps until something arrives, or for a while; `looked` if nothing was there after the last
    /// such while.
    fn wait(&self, looked: bool) {
        let sockets = self.kernel.sockets.iter().flatten().map(|socket| socket.fd().as_raw_fd());
        let events = [self.kernel.events_fd.as_fd().as_raw_fd(), self.part.wake.as_raw_fd()];
        let all: Vec<RawFd> = sockets.chain(events).collect();
        let mut list: Vec<libc::pollfd> = all
            .iter()
            .map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let pause = if looked { PAUSE } else { SOON };
        if looked {
            // `ppoll` looks into the ring after this: an event made before is seen there, one made
            // later wakes the thread.
            (self.kernel.sleeps)(true);
            fence(Ordering::SeqCst);
        }
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        // SAFETY: an array, its length, a time. Whatever the answer, the queues are looked at next.
        unsafe {
            libc::ppoll(
                list.as_mut_ptr(),
                list.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        (self.kernel.sleeps)(false);
        self.part.wake.clear();
    }
}

/// Queues a frame; when the ring is full the kernel is asked to empty it first.
fn send(socket: &mut Socket, frame: &[u8]) -> bool {
    let started = Instant::now();
    while !socket.send(frame) {
        if started.elapsed() > Duration::from_secs(1) {
            return false;
        }
        socket.kick();
        std::thread::yield_now();
    }
    true
}

/// Packets that full sockets lost.
fn lost(sockets: &[Vec<Socket>]) -> u64 {
    sockets.iter().flatten().map(Socket::lost).sum()
}

/// Nanoseconds of CPU this thread has used.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
