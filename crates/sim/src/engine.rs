//! The event loop.
//!
//! # What is simulated
//!
//! A frame occupies the wire of its port, passes the ports' packet rate, and waits in the queue of
//! the unit that steering chooses. A free thread of the unit takes it up: its handler is executed
//! for real, at once, and what it did becomes a list of segments, processor time that ends in a
//! memory access or in the end of the handler. The segments are then played: the processor of a
//! unit serves one thread at a time, first come first served; an access waits until its entry is
//! free ([`keys`](crate::keys)), then for its turn at the memory, then for the latency, while the
//! processor serves other threads unless the memory blocks. At the end frames go to the wires, and
//! events to the queues of other stages, which may be full: then they are lost or the thread waits,
//! as the link is. Where events of a key have an order, threads of a unit hand on in turn: one that
//! is early keeps its results and waits. Hardware pipelines take up an event per interval and
//! finish it a latency later.
//!
//! # Why execution and timing may be apart
//!
//! Handlers are run in the order in which threads take them up. Events of one steering key are
//! taken up by one unit, in order of arrival, and events that touch the same entry of a mutable
//! table from several threads play their accesses in the order in which they were executed. So no
//! result depends on anything the timing decides later.
//!
//! # Cost
//!
//! A calendar of 16-byte keys; contexts, messages and packets come from free lists. Nothing is
//! allocated per event once the busiest moment has been seen. Segments that nobody else can see the
//! borders of are merged: a unit with one thread and memories without a bandwidth limit takes one
//! event of the calendar per packet.

mod ways;

use std::collections::{BTreeMap, VecDeque};

use crate::calendar::{Calendar, Key};
use crate::context::{Access, Context, NO_GATE, Segment};
use crate::handlers::{Handlers, Message, Trace};
use crate::keys::Keys;
use crate::model::{Model, SimError};
use crate::reorder::Reorder;
use crate::stats::{Place, Stats};
use crate::steer::Turns;
use crate::workload::{Arrival, Workload};
use crate::{Options, price};

/// What happens, in a key of the calendar below the time in picoseconds and the order of
/// scheduling: the processor is done with a segment of a context; a context's access is over; a
/// pipeline takes the next event; a pipeline's event is over; a message arrives at its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Ran = 0,
    Accessed = 1,
    Ready = 2,
    Finished = 3,
    Arrived = 4,
}

const WHAT_BITS: u32 = 3;
const INDEX_BITS: u32 = 25;
const ORDER_BITS: u32 = 36;

/// An event in front of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub message: Message,
    pub root: u32,
    pub unit: u32,
    /// Event of the program, and bytes of its packet.
    pub event: u32,
    pub bytes: u32,
    /// Bytes at the ends of its byte strings that do not cross to another device.
    pub zeros: u32,
    /// Sending stage; the number of stages for the ports.
    pub from: u32,
}

/// A packet from outside and everything that came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Root {
    /// When its first bit could have been on the wire.
    pub at: u64,
    /// Events of it that are not finished.
    pub live: u32,
    /// Its number among the accepted ones.
    pub sequence: u64,
}

/// A unit while it runs.
struct Unit {
    queue: VecDeque<Item>,
    /// Room promised to messages on their way.
    promised: u32,
    free_threads: u32,
    /// Someone has the processor, or the pipeline is not ready.
    busy: bool,
    /// Contexts that wait for the processor.
    ready: VecDeque<u32>,
    /// Contexts that wait for room in the queue.
    senders: VecDeque<u32>,
    /// Events taken up, and of those the ones whose results are on their way.
    taken: u64,
    handed_on: u64,
    /// Contexts that are over before their turn, by ticket.
    early: BTreeMap<u64, u32>,
}

/// A simulation under way.
pub struct Engine<'a> {
    model: &'a Model,
    handlers: &'a mut dyn Handlers,
    options: &'a Options<'a>,
    now: u64,
    order: u64,
    calendar: Calendar,
    units: Vec<Unit>,
    turns: Vec<Turns>,
    contexts: Vec<Context>,
    free_contexts: Vec<u32>,
    flights: Vec<Item>,
    free_flights: Vec<u32>,
    roots: Vec<Root>,
    free_roots: Vec<u32>,
    accepted: u64,
    keys: Keys,
    woken: Vec<u32>,
    /// When each memory server is free again, in picoseconds with fraction.
    servers: Vec<f64>,
    wires_in: Vec<u64>,
    wires_out: Vec<u64>,
    mac: f64,
    host_link: [f64; 2],
    reorder: Vec<Reorder>,
    trace: Trace,
    pub stats: Stats,
}

impl<'a> Engine<'a> {
    pub fn new(
        model: &'a Model,
        handlers: &'a mut dyn Handlers,
        options: &'a Options<'a>,
        reasons: usize,
    ) -> Engine<'a> {
        let unit = |unit: &crate::model::UnitModel| Unit {
            queue: VecDeque::new(),
            promised: 0,
            free_threads: model.stages[unit.stage].threads,
            busy: false,
            ready: VecDeque::new(),
            senders: VecDeque::new(),
            taken: 0,
            handed_on: 0,
            early: BTreeMap::new(),
        };
        Engine {
            handlers,
            options,
            now: 0,
            order: 0,
            calendar: Calendar::default(),
            units: model.units.iter().map(unit).collect(),
            turns: vec![Turns::new(options.evenly); model.events.len()],
            contexts: Vec::new(),
            free_contexts: Vec::new(),
            flights: Vec::new(),
            free_flights: Vec::new(),
            roots: Vec::new(),
            free_roots: Vec::new(),
            accepted: 0,
            keys: Keys::default(),
            woken: Vec::new(),
            servers: vec![0.0; model.servers.len()],
            wires_in: vec![0; model.ports.count],
            wires_out: vec![0; model.ports.count],
            mac: 0.0,
            host_link: [0.0; 2],
            reorder: model.reorders.iter().map(|_| Reorder::default()).collect(),
            trace: Trace::default(),
            stats: Stats::new(model, reasons),
            model,
        }
    }

    /// Runs until the workload, the time or the patience of the user ends.
    pub fn run(&mut self, workload: &mut dyn Workload) -> Result<(), SimError> {
        let end = self.options.duration_ps.unwrap_or(u64::MAX);
        let warm = self.options.warm_up_ps;
        let mut warming = warm > 0;
        let mut pending = self.fetch(workload);
        let mut rounds = 0u32;
        loop {
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(1024) && (self.options.stop)() {
                self.stats.interrupted = true;
                break;
            }
            let next_event = self.calendar.peek().map(|key| (key >> 64) as u64);
            let next_frame = pending.map(|(at, _)| at);
            let frame_first = match (next_frame, next_event) {
                (None, None) => break,
                (Some(frame), Some(event)) => frame <= event,
                (frame, _) => frame.is_some(),
            };
            let at = if frame_first { next_frame } else { next_event }.unwrap_or(u64::MAX);
            if at > end {
                self.now = end;
                break;
            }
            if pending.is_none() && !self.options.drain {
                break;
            }
            self.now = at;
            if warming && at >= warm {
                warming = false;
                self.stats.start(at, self.in_flight());
            }
            if frame_first {
                if let Some((_, arrival)) = pending {
                    self.accept(&arrival, workload.frame())?;
                }
                pending = self.fetch(workload);
            } else if let Some(key) = self.calendar.pop() {
                self.happen(key)?;
            }
        }
        self.stats.end(self.now);
        self.stats.close_units(self.model);
        Ok(())
    }

    /// Takes frames from the workload until one gets through the wire; when it is there completely.
    fn fetch(&mut self, workload: &mut dyn Workload) -> Option<(u64, Arrival)> {
        loop {
            let arrival = workload.next()?;
            if arrival.timer.is_some() {
                return Some((arrival.at.max(self.now), arrival));
            }
            let ports = &self.model.ports;
            let port = arrival.port as usize % ports.count;
            let wire = ports.wire_ps(arrival.bytes);
            let start = arrival.at.max(self.wires_in[port]);
            // As many frames as a receive queue holds wait outside; more is lost there.
            let patience = wire.saturating_mul(u64::from(self.options.wire_depth));
            if start - arrival.at > patience {
                self.stats.offered(arrival.bytes);
                self.stats.lost(Place::Wire);
                continue;
            }
            let mut done = start + wire;
            self.wires_in[port] = done;
            if let Some(apart) = ports.frame_ps {
                self.mac = self.mac.max(done as f64);
                if self.mac - done as f64 > apart * f64::from(self.options.wire_depth) {
                    self.stats.offered(arrival.bytes);
                    self.stats.lost(Place::PacketRate);
                    continue;
                }
                done = self.mac as u64;
                self.mac += apart;
            }
            return Some((done.max(self.now), arrival));
        }
    }

    /// A frame or a tick is there: it waits in front of a unit, or a frame is lost.
    fn accept(&mut self, arrival: &Arrival, frame: &[u8]) -> Result<(), SimError> {
        self.stats.event();
        if arrival.timer.is_none() {
            self.stats.offered(arrival.bytes);
        }
        let event = arrival.timer.unwrap_or(self.model.entry).as_u32() as usize;
        let Some(entry) = &self.model.events[event] else { return Ok(()) };
        let (to, reorder) = (entry.stage, entry.reorder);
        let stage = &self.model.stages[entry.stage];
        let replica =
            entry.steer.frame(arrival.port, frame, stage.replicas, &mut self.turns[event]);
        let unit = stage.first_unit + replica as usize;
        let waiting = self.units[unit].queue.len() as u32 + self.units[unit].promised;
        if arrival.timer.is_none() && waiting >= stage.depth {
            self.stats.lost(Place::Receive(entry.stage));
            return Ok(());
        }
        let message = match arrival.timer {
            Some(timer) => self.handlers.tick(timer, arrival.time_ns, arrival.seed),
            None => self.handlers.arrive(arrival.port, frame, arrival.time_ns, arrival.seed),
        };
        let root = Root { at: arrival.at, live: 1, sequence: self.accepted };
        self.accepted += 1;
        let root = match self.free_roots.pop() {
            Some(at) => {
                self.roots[at as usize] = root;
                at
            }
            None => {
                self.roots.push(root);
                self.roots.len() as u32 - 1
            }
        };
        for point in &mut self.reorder {
            point.enter(self.accepted - 1);
        }
        let item = Item {
            message,
            root,
            unit: unit as u32,
            event: event as u32,
            bytes: arrival.bytes,
            zeros: 0,
            from: self.model.stages.len() as u32,
        };
        match reorder {
            Some(point) => self.reorder[point].hold(self.accepted - 1, item, self.now),
            None => self.push(item)?,
        }
        // It is behind the points up to its stage.
        for point in 0..self.reorder.len() {
            if self.model.reorders[point].stage <= to {
                self.reorder[point].less(self.accepted - 1);
                self.flush(point)?;
                self.wake(point)?;
            }
        }
        Ok(())
    }

    fn schedule(&mut self, at: u64, what: What, index: u32) {
        self.order += 1;
        let low = (self.order & ((1 << ORDER_BITS) - 1)) << (INDEX_BITS + WHAT_BITS)
            | u64::from(index) << WHAT_BITS
            | what as u64;
        self.calendar.push(u128::from(at) << 64 | u128::from(low));
    }

    fn happen(&mut self, key: Key) -> Result<(), SimError> {
        self.stats.event();
        let low = key as u64;
        let index = (low >> WHAT_BITS) as u32 & ((1 << INDEX_BITS) - 1);
        match low & ((1 << WHAT_BITS) - 1) {
            0 => self.ran(index),
            1 => self.accessed(index),
            2 => {
                self.units[index as usize].busy = false;
                self.feed(index)
            }
            3 => self.finish(index),
            _ => {
                let item = self.flights[index as usize];
                self.free_flights.push(index);
                let stage = self.model.units[item.unit as usize].stage;
                if item.from != stage as u32 {
                    self.units[item.unit as usize].promised -= 1;
                }
                self.push(item)
            }
        }
    }

    /// An event waits in front of its unit.
    fn push(&mut self, item: Item) -> Result<(), SimError> {
        let unit = &mut self.units[item.unit as usize];
        unit.queue.push_back(item);
        let stage = self.model.units[item.unit as usize].stage;
        self.stats.queued(self.now, stage, 1, unit.queue.len());
        self.feed(item.unit)
    }

    /// Lets free threads of a unit take up what waits.
    fn feed(&mut self, unit: u32) -> Result<(), SimError> {
        let at = unit as usize;
        let stage = self.model.units[at].stage;
        let pipeline = self.model.stages[stage].interval_ps;
        loop {
            let state = &mut self.units[at];
            let able = if pipeline.is_some() { !state.busy } else { state.free_threads > 0 };
            if !able {
                return Ok(());
            }
            let Some(item) = state.queue.pop_front() else { return Ok(()) };
            self.stats.queued(self.now, stage, -1, state.queue.len());
            let waiting = state.senders.pop_front();
            self.start(item, stage)?;
            if let Some(context) = waiting {
                self.finish(context)?;
            }
            for point in 0..self.reorder.len() {
                if self.model.reorders[point].stage == stage {
                    self.flush(point)?;
                    self.wake(point)?;
                }
            }
        }
    }

    /// A thread takes up an event: the handler runs, its trace becomes segments.
    fn start(&mut self, item: Item, stage: usize) -> Result<(), SimError> {
        self.stats.event();
        let mut trace = std::mem::take(&mut self.trace);
        trace.clear();
        let ran = self.handlers.run(item.message, &mut trace);
        ran.map_err(|e| SimError::Handler {
            number: self.accepted,
            at_ns: self.now / 1000,
            reason: e.to_string(),
        })?;
        let number = match self.free_contexts.pop() {
            Some(number) => number,
            None => {
                self.contexts.push(Context::default());
                self.contexts.len() as u32 - 1
            }
        };
        let context = &mut self.contexts[number as usize];
        context.play(self.model, item, stage, &trace);
        let state = &mut self.units[item.unit as usize];
        context.ticket = state.taken;
        state.taken += 1;
        std::mem::swap(&mut context.effects, &mut trace.effects);
        self.trace = trace;
        for hold in 0..self.contexts[number as usize].holds.len() {
            let key = self.contexts[number as usize].holds[hold].key;
            if let Some((context, at)) = self.keys.take(key, (number, hold as u32)) {
                self.contexts[context as usize].holds[at as usize].next =
                    Some((number, hold as u32));
                self.contexts[number as usize].holds[hold].blocked = true;
            }
        }
        self.stats.begun(self.now, item.unit as usize, stage);
        match self.model.stages[stage].interval_ps {
            Some(interval) => {
                let total = self.contexts[number as usize].total_ps();
                self.units[item.unit as usize].busy = true;
                self.stats.ran(stage, interval);
                self.schedule(self.now + interval, What::Ready, item.unit);
                self.schedule(self.now + total.max(interval), What::Finished, number);
                Ok(())
            }
            None => {
                self.units[item.unit as usize].free_threads -= 1;
                self.want(number)
            }
        }
    }

    /// A context wants the processor for its next segment.
    fn want(&mut self, number: u32) -> Result<(), SimError> {
        let unit = self.contexts[number as usize].unit;
        let state = &mut self.units[unit as usize];
        if state.busy {
            state.ready.push_back(number);
            return Ok(());
        }
        state.busy = true;
        self.process(number);
        Ok(())
    }

    /// The processor works on a context's segment.
    fn process(&mut self, number: u32) {
        let context = &self.contexts[number as usize];
        let segment = context.segments[context.at as usize];
        self.stats.ran(context.stage as usize, segment.processor_ps);
        self.schedule(self.now + segment.processor_ps, What::Ran, number);
    }

    /// The processor is free for the next context.
    fn give_way(&mut self, unit: u32) {
        let state = &mut self.units[unit as usize];
        match state.ready.pop_front() {
            Some(next) => self.process(next),
            None => state.busy = false,
        }
    }

    fn ran(&mut self, number: u32) -> Result<(), SimError> {
        let context = &mut self.contexts[number as usize];
        let Segment { access, .. } = context.segments[context.at as usize];
        let Some(mut access) = access else {
            let unit = context.unit;
            self.give_way(unit);
            return self.finish(number);
        };
        let unit = context.unit;
        access.blocking |= self.queue_is_full(&access);
        let blocked = self.issue(number, access);
        let context = &mut self.contexts[number as usize];
        context.gave_way = blocked || !access.blocking;
        if context.gave_way {
            self.give_way(unit);
        }
        Ok(())
    }

    /// True if so many operations wait at an accelerator that who asks cannot even hand its own
    /// over.
    fn queue_is_full(&self, access: &Access) -> bool {
        let Some(server) = access.server else { return false };
        let model = &self.model.servers[server as usize];
        let wait = self.servers[server as usize] - self.now as f64;
        let own = f64::from(access.operations) * model.operation_ps;
        model.queue.is_some_and(|queue| wait > f64::from(queue) * own)
    }

    /// Starts an access, or waits for its entry; whether it waits.
    fn issue(&mut self, number: u32, access: Access) -> bool {
        let context = &mut self.contexts[number as usize];
        context.parked = access.gate != NO_GATE && context.holds[access.gate as usize].blocked;
        if context.parked {
            return true;
        }
        self.access(number, access);
        false
    }

    /// An access starts: its turn at the memory, then the latency.
    fn access(&mut self, number: u32, access: Access) {
        let mut begins = self.now;
        if let Some(server) = access.server {
            let free = &mut self.servers[server as usize];
            let start = free.max(self.now as f64);
            let operation = self.model.servers[server as usize].operation_ps;
            *free = start + f64::from(access.operations) * operation;
            begins = start as u64;
            let waited = begins - self.now;
            self.stats.memory(server as usize, f64::from(access.operations) * operation, waited);
        }
        if access.blocking {
            let stage = self.contexts[number as usize].stage as usize;
            self.stats.ran(stage, begins + access.latency_ps - self.now);
        }
        self.schedule(begins + access.latency_ps, What::Accessed, number);
    }

    fn accessed(&mut self, number: u32) -> Result<(), SimError> {
        let context = &mut self.contexts[number as usize];
        let at = context.at;
        context.at += 1;
        let next = context.segments[context.at as usize];
        let gave_way = context.gave_way;
        self.release(number, at);
        match next.access {
            _ if !gave_way => self.process(number),
            _ if next.processor_ps > 0 => self.want(number)?,
            // Nothing to compute: no need to wait for the processor.
            Some(access) => {
                self.issue(number, access);
            }
            None => self.finish(number)?,
        }
        // Whoever waited for an entry of this context goes on.
        while let Some(next) = self.woken.pop() {
            let context = &mut self.contexts[next as usize];
            context.parked = false;
            if let Some(access) = context.segments[context.at as usize].access {
                self.access(next, access);
            }
        }
        Ok(())
    }

    /// Entries whose last access this was are free for the next context.
    fn release(&mut self, number: u32, segment: u32) {
        for hold in 0..self.contexts[number as usize].holds.len() {
            let held = self.contexts[number as usize].holds[hold];
            if held.last != segment {
                continue;
            }
            match held.next {
                Some((next, at)) => {
                    let context = &mut self.contexts[next as usize];
                    context.holds[at as usize].blocked = false;
                    let waits_for =
                        context.segments[context.at as usize].access.map(|access| access.gate);
                    if context.parked && waits_for == Some(at as u8) {
                        self.woken.push(next);
                    }
                }
                None => self.keys.give_back(held.key, (number, hold as u32)),
            }
        }
    }

    /// Packets that wait or are being worked on, counted where they are.
    pub fn in_flight(&self) -> u64 {
        let packet = |item: &&Item| item.bytes > 0;
        let queued: usize =
            self.units.iter().map(|unit| unit.queue.iter().filter(packet).count()).sum();
        let flying = (0..self.flights.len()).filter(|n| !self.free_flights.contains(&(*n as u32)));
        let flying = flying.filter(|n| self.flights[*n].bytes > 0).count();
        let held: usize =
            self.reorder.iter().map(|point| point.held().filter(packet).count()).sum();
        let working =
            (0..self.contexts.len()).filter(|n| !self.free_contexts.contains(&(*n as u32)));
        let working: u64 = working.map(|n| self.contexts[n].packets()).sum();
        (queued + flying + held) as u64 + working
    }
}

/// Payload bytes of a packet, for the price of a line.
pub fn payload(bytes: u32) -> f64 {
    if bytes == 0 { 0.0 } else { price::payload(bytes) }
}
