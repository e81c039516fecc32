//! A whole sPIN NIC: frames in, frames and writes to the host out, handlers on interpreted cores in between, with times.
//!
//! What happens is a queue of events in cycles, beside cores that have times of their own ([`engine`]): the earliest goes first, an event
//! before a core. A frame is matched, gets packet memory, is written there and described ([`ingress`]); the scheduler picks tasks, clusters
//! copy packets in and give them to units, ended handlers free packets ([`tasks`]); commands go to the line, the host, or another
//! memory ([`commands`]). Equal inputs give equal outputs.
//!
//! Source: facts of PsPIN's and FPsPIN's RTL and of their simulation logs; `n` beats after a frame's first one is written its task is
//! described (4 + n), 4 cycles later copied, 12 + n later started. [`Compat`] switches faults of the hardware on.

mod bus;
mod cache;
mod commands;
pub mod driver;
pub mod engine;
mod host;
mod ingress;
pub mod iss;
mod memories;
mod out;
mod tasks;
#[cfg(test)]
mod tests;
mod windows;
mod world;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use std::ops::Range;

use nicforge_isa::object::riscv::Image;
use nicforge_target::PacketMemory;

use crate::machine::{Machine, map};
use crate::matching::{Engine as Matcher, Faults as MatchingFaults, Matched, RULESETS, Ruleset};
use crate::memory::{NotTaken, Refused, Ring, Slots, Use};
use crate::messages::{self, Config, Faults as SchedulerFaults, Scheduler};

pub use driver::{Command, Failure};
pub use engine::{BootError, Engine};
pub use host::{HostMemory, SparseMemory};
pub use iss::SLICE;
pub use memories::ImageError;
pub use out::{CommandRefused, Dropped, Fault, FaultCause, Out, Record, Stats, Times};
pub use world::World;

use commands::Links;
use ingress::{Ingress, Packet};
use memories::Space;
use tasks::{Cluster, Flight};

/// Faults of the hardware, all or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compat {
    /// Rules and ranges as programmed by the published library, shared queues, early draining, no shares between contexts, no watchdog,
    /// protection by pages and none of stacks, sub-word reads of task registers that give what was read before, tests of commands that
    /// say whether all are done, initialised data that is not loaded (where packets lie in slots), frames that wait where memory is full.
    pub bugs: bool,
}

/// What happens to frames for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Dropped and counted.
    Drop,
    /// They wait, and all behind them.
    Wait,
}

/// How a NIC is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub compat: Compat,
    pub full: Full,
    /// Cycles after which a handler is stopped, for contexts that do not say; `None` never does.
    pub watchdog: Option<u64>,
    /// Cycles without a packet after which a message is given up; `None` waits until its queue is needed.
    pub end_timeout: Option<u64>,
    /// Cycles by which cores may be apart.
    pub slice: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compat: Compat::default(),
            full: Full::Drop,
            watchdog: Some(4_000_000),
            end_timeout: None,
            slice: SLICE,
        }
    }
}

/// Handlers by the image's symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    pub header: Option<String>,
    pub payload: Option<String>,
    pub completion: Option<String>,
}

/// A piece of the host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRegion {
    pub address: u64,
    pub bytes: u32,
}

/// An execution context.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    pub image: &'a Image,
    pub handlers: Handlers,
    /// What frames it gets; `None` if frames come with their message ([`Arrival::matched`]).
    pub ruleset: Option<Ruleset>,
    /// Its handler memory, as addresses; absent: what the image leaves of the part shared with the host.
    pub handler_memory: Option<Range<u32>>,
    pub host: HostRegion,
    /// Bytes of every cluster's memory.
    pub scratchpad: u32,
    pub weight: NonZeroU32,
    /// Cycles after which a handler is stopped; absent: the NIC's.
    pub watchdog: Option<u64>,
    /// Payload handlers of one message run one at a time, in order of arrival.
    pub serial: bool,
    /// Runs in the memories of this context, which has the same image.
    pub shares: Option<usize>,
}

impl<'a> Context<'a> {
    /// A context with the image's memory, a scratchpad of 4 KiB and no host memory.
    pub fn new(image: &'a Image, handlers: Handlers) -> Context<'a> {
        Context {
            image,
            handlers,
            ruleset: None,
            handler_memory: None,
            host: HostRegion::default(),
            scratchpad: 4096,
            weight: NonZeroU32::MIN,
            watchdog: None,
            serial: false,
            shares: None,
        }
    }
}

/// A frame for the NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Cycle; not before what the NIC has run to.
    pub time: u64,
    pub frame: Vec<u8>,
    /// Whose it is, instead of what rules say.
    pub matched: Option<Matched>,
    /// How much of it is copied to where handlers run; absent: all.
    pub copied: Option<u32>,
    /// Comes back with what becomes of the frame.
    pub user: u64,
}

/// Why a context cannot be set up, or memory not be accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("the image does not start: {0}")]
    Boot(#[from] BootError),
    #[error("the image has no symbol `{0}`; name handlers as they are defined")]
    NoHandler(String),
    #[error("contexts are set up before the first frame arrives")]
    Started,
    #[error("there is no context {0}")]
    NoContext(usize),
    #[error("rules select among {RULESETS} contexts; context {0} needs frames that come with their message")]
    TooMany(usize),
    #[error("scratchpads of {wanted} bytes, with those of other contexts; a cluster has room for {room}")]
    Scratchpad { wanted: u32, room: u32 },
    #[error("{bytes} bytes at {address:#010x} are not in NIC memory")]
    Memory { address: u32, bytes: u32 },
}

/// A context, set up.
#[derive(Clone, Debug)]
struct Tenant {
    space: usize,
    /// Addresses; header, payload, completion.
    functions: [Option<u32>; 3],
    handler_memory: Range<u32>,
    host: HostRegion,
    /// Offset in every cluster's memory.
    scratchpad: Range<u32>,
    watchdog: Option<u64>,
    image: usize,
    config: messages::Context,
}

/// Packet memory.
#[derive(Debug)]
enum Packets {
    Ring(Ring),
    Slots(Slots),
}

impl Packets {
    fn take(&mut self, length: u32) -> Result<u32, Refused> {
        match self {
            Packets::Ring(ring) => ring.take(length),
            Packets::Slots(slots) => slots.take(length),
        }
    }

    fn free(&mut self, address: u32) -> Result<(), NotTaken> {
        match self {
            Packets::Ring(ring) => ring.free(address),
            Packets::Slots(slots) => slots.free(address),
        }
    }

    fn usage(&self) -> Use {
        match self {
            Packets::Ring(ring) => ring.usage(),
            Packets::Slots(slots) => slots.usage(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The first frame that has not arrived does.
    Arrive,
    /// The path into packet memory is free.
    Ingress,
    /// The packet at an address is written and described.
    Described(u32),
    /// The scheduler may pick a task.
    Schedule,
    /// A cluster may copy its next packet.
    Copy(usize),
    /// A task's packet is in its cluster.
    Loaded(u64),
    /// A handler has ended.
    Ended(u64),
    /// The NIC hears of an ended task.
    Feedback(u64),
    /// The scheduler does.
    Free(u64),
    /// A command of a unit begins, or is done.
    CommandStarts(usize),
    CommandDone(usize),
    /// The host writes into NIC memory.
    HostStore(usize),
    /// Messages without packets are looked for.
    Expire,
    /// Messages that keep queues without packets may have lost patience.
    Retry,
}

/// How far to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until this cycle.
    Cycle(u64),
    /// Until nothing is left to do. Does not end while a handler without a watchdog runs in circles.
    Idle,
}

/// The NIC.
#[derive(Debug)]
pub struct Nic {
    options: Options,
    world: World,
    engine: Box<dyn Engine>,
    host: Box<dyn HostMemory>,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Numbers events, so that equal times keep order.
    order: u64,
    images: Vec<Image>,
    tenants: Vec<Tenant>,
    matcher: Matcher,
    scheduler: Scheduler,
    packet_memory: Packets,
    ingress: Ingress,
    /// In packet memory, by address.
    packets: BTreeMap<u32, Packet>,
    clusters: Vec<Cluster>,
    tasks: BTreeMap<u64, Flight>,
    /// When the scheduler may pick, and the feedback path is free.
    next_pick: u64,
    picking: bool,
    next_feedback: u64,
    links: Links,
    host_stores: VecDeque<(usize, u32, Vec<u8>)>,
    expiring: bool,
    retrying: bool,
    out: Vec<Out>,
    stats: Stats,
}

impl Nic {
    /// A NIC without contexts; frames go to the host.
    pub fn new(machine: &Machine, options: Options, host: Box<dyn HostMemory>) -> Nic {
        let engine = Box::new(iss::Iss::new(machine, options.slice));
        Nic::with_engine(machine, options, host, engine)
    }

    /// The same with handlers run by something else.
    pub fn with_engine(
        machine: &Machine,
        options: Options,
        host: Box<dyn HostMemory>,
        engine: Box<dyn Engine>,
    ) -> Nic {
        let bugs = options.compat.bugs;
        let packets_at = machine.packets_at();
        let packet_memory = match machine.packets_in {
            PacketMemory::Ring => Packets::Ring(Ring::new(packets_at, machine.packet_bytes)),
            PacketMemory::Slots => Packets::Slots(Slots::fpspin(packets_at, bugs)),
        };
        let faults = MatchingFaults { reversed_ranges: bugs, always_and: bugs };
        Nic {
            world: World::new(machine, bugs),
            engine,
            host,
            now: 0,
            events: BinaryHeap::new(),
            order: 0,
            images: Vec::new(),
            tenants: Vec::new(),
            matcher: Matcher { faults, ..Matcher::default() },
            scheduler: Scheduler::new(config(machine, Vec::new(), bugs)),
            packet_memory,
            ingress: Ingress::default(),
            packets: BTreeMap::new(),
            clusters: (0..machine.clusters).map(|cluster| Cluster::new(machine, cluster)).collect(),
            tasks: BTreeMap::new(),
            next_pick: 0,
            picking: false,
            next_feedback: 0,
            links: Links::new(machine),
            host_stores: VecDeque::new(),
            expiring: false,
            retrying: false,
            out: Vec::new(),
            stats: Stats { busy: vec![0; machine.hpus()], ..Stats::default() },
            options,
        }
    }

    /// Sets a context up: loads its image, unless it shares one, and lets it start. Gives its number, which is its ruleset's.
    ///
    /// # Errors
    /// See [`NicError`].
    pub fn add_context(&mut self, context: Context) -> Result<usize, NicError> {
        let number = self.tenants.len();
        if self.stats.frames > 0 || self.now > 0 {
            return Err(NicError::Started);
        }
        if number >= RULESETS && context.ruleset.is_some() {
            return Err(NicError::TooMany(number));
        }
        let function = |name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => match context.image.symbol(name) {
                Some(symbol) => Ok(Some(symbol.address)),
                None => Err(NicError::NoHandler(name.clone())),
            },
        };
        let handlers = &context.handlers;
        let functions =
            [function(&handlers.header)?, function(&handlers.payload)?, function(&handlers.completion)?];
        let machine = &self.world.machine;
        let first = self.tenants.last().map_or(map::L1_SCRATCHPADS, |tenant| tenant.scratchpad.end);
        let scratchpad = first..first.saturating_add(context.scratchpad.next_multiple_of(64));
        if scratchpad.end > machine.l1_bytes {
            let (wanted, room) =
                (scratchpad.end - map::L1_SCRATCHPADS, machine.l1_bytes - map::L1_SCRATCHPADS);
            return Err(NicError::Scratchpad { wanted, room });
        }
        let bugs = self.options.compat.bugs;
        let (space, image) = match context.shares {
            Some(other) => {
                let tenant = self.tenants.get(other).ok_or(NicError::NoContext(other))?;
                (tenant.space, tenant.image)
            }
            None => {
                let all = !(bugs && machine.packets_in == PacketMemory::Slots);
                self.world.memories.spaces.push(Space::new(machine, context.image, all)?);
                if let Err(error) = self.engine.boot(&mut self.world) {
                    self.world.memories.spaces.pop();
                    self.world.asks.clear();
                    return Err(error.into());
                }
                self.images.push(context.image.clone());
                (self.world.memories.spaces.len() - 1, self.images.len() - 1)
            }
        };
        let shared = self.world.memories.spaces[space].shared_end.next_multiple_of(64);
        let rest = map::L2 + shared.min(self.world.machine.l2_bytes)..map::L2 + self.world.machine.l2_bytes;
        let config = messages::Context {
            weight: context.weight,
            header: functions[0].is_some(),
            completion: functions[2].is_some(),
            serial: context.serial,
        };
        let watchdog = context.watchdog.or(self.options.watchdog).filter(|_| !bugs);
        self.tenants.push(Tenant {
            space,
            functions,
            handler_memory: context.handler_memory.unwrap_or(rest),
            host: context.host,
            scratchpad,
            watchdog,
            image,
            config,
        });
        if let Some(place) = self.matcher.rulesets.get_mut(number) {
            *place = context.ruleset;
        }
        let contexts = self.tenants.iter().map(|tenant| tenant.config).collect();
        self.scheduler = Scheduler::new(self::config(&self.world.machine, contexts, bugs));
        self.serve();
        Ok(number)
    }

    /// Gives the NIC a frame. Frames arrive in the order of their times.
    pub fn arrive(&mut self, arrival: Arrival) {
        let time = arrival.time.max(self.now);
        let behind = self.ingress.coming.partition_point(|(other, _)| *other <= time);
        self.ingress.coming.insert(behind, (time, arrival));
        self.at(time, Event::Arrive);
    }

    /// Runs on.
    pub fn run_until(&mut self, until: Until) {
        let end = match until {
            Until::Cycle(cycle) => cycle,
            Until::Idle => u64::MAX,
        };
        loop {
            let event = self.events.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
            let core = self.engine.next().unwrap_or(u64::MAX);
            let first = event.min(core);
            if first == u64::MAX || first >= end {
                break;
            }
            self.now = self.now.max(first);
            if event <= core {
                if let Some(Reverse((_, _, event))) = self.events.pop() {
                    self.handle(event);
                }
            } else {
                self.engine.run(&mut self.world, event.min(end));
            }
            self.serve();
        }
        if let Until::Cycle(cycle) = until {
            self.now = self.now.max(cycle);
        }
        self.stats.instructions =
            (0..self.world.machine.hpus()).map(|hpu| self.engine.instructions(hpu)).collect();
        (self.stats.restarts, self.stats.cache_misses) = self.engine.counts();
        self.stats.stalls = self.world.drivers.iter().map(|driver| driver.stalls).sum();
        self.stats.packet_memory_most = self.packet_memory.usage().most_bytes;
    }

    /// Nothing is under way: only another frame, or the host, makes something happen.
    pub fn is_idle(&mut self) -> bool {
        self.events.is_empty() && self.engine.next().is_none()
    }

    /// What has come out since the last call, in the order in which it became known.
    pub fn take_out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What the message scheduler counts.
    pub fn message_counts(&self) -> messages::Counts {
        self.scheduler.counts()
    }

    /// How much of packet memory is in use.
    pub fn packet_memory(&self) -> Use {
        self.packet_memory.usage()
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    pub fn machine(&self) -> &Machine {
        &self.world.machine
    }

    pub fn host(&mut self) -> &mut dyn HostMemory {
        &mut *self.host
    }

    /// Handler memory of a context, as addresses.
    ///
    /// # Errors
    /// There is no such context.
    pub fn handler_memory(&self, context: usize) -> Result<Range<u32>, NicError> {
        let tenant = self.tenants.get(context).ok_or(NicError::NoContext(context))?;
        Ok(tenant.handler_memory.clone())
    }

    /// The host reads NIC memory as a context sees it (cluster 0 where addresses mean the own cluster's).
    ///
    /// # Errors
    /// There is no such context, or no memory.
    pub fn read(&self, context: usize, address: u32, bytes: u32) -> Result<&[u8], NicError> {
        let tenant = self.tenants.get(context).ok_or(NicError::NoContext(context))?;
        let place = self.world.memories.place(0, address, bytes);
        let place = place.ok_or(NicError::Memory { address, bytes })?;
        Ok(self.world.memories.bytes(tenant.space, place, bytes))
    }

    /// The host writes NIC memory, now.
    ///
    /// # Errors
    /// As [`Nic::read`].
    pub fn write(&mut self, context: usize, address: u32, bytes: &[u8]) -> Result<(), NicError> {
        let tenant = self.tenants.get(context).ok_or(NicError::NoContext(context))?;
        let size = bytes.len() as u32;
        let place = self.world.memories.place(0, address, size);
        let place = place.ok_or(NicError::Memory { address, bytes: size })?;
        self.world.memories.write(tenant.space, place, bytes);
        Ok(())
    }

    /// The same at a later cycle; times of calls may not go back.
    ///
    /// # Errors
    /// As [`Nic::read`].
    pub fn write_at(
        &mut self,
        time: u64,
        context: usize,
        address: u32,
        bytes: &[u8],
    ) -> Result<(), NicError> {
        self.read(context, address, bytes.len() as u32)?;
        self.host_stores.push_back((context, address, bytes.to_vec()));
        self.at(time.max(self.now), Event::HostStore(context));
        Ok(())
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrived(),
            Event::Ingress => self.take_in(),
            Event::Described(address) => self.described(address),
            Event::Schedule => self.schedule(),
            Event::Copy(cluster) => self.copy_next(cluster),
            Event::Loaded(task) => self.loaded(task),
            Event::Ended(task) => self.ended(task),
            Event::Feedback(task) => self.feedback(task),
            Event::Free(task) => self.free(task),
            Event::CommandStarts(at) => self.command_starts(at),
            Event::CommandDone(at) => self.command_done(at),
            Event::HostStore(_) => {
                if let Some((context, address, bytes)) = self.host_stores.pop_front() {
                    // The place was found when the write was asked for.
                    let _ = self.write(context, address, &bytes);
                }
            }
            Event::Expire => self.expire(),
            Event::Retry => self.retry(),
        }
    }

    /// Takes up what units have asked for.
    fn serve(&mut self) {
        if self.world.requests.is_empty() {
            return;
        }
        for request in std::mem::take(&mut self.world.requests) {
            self.request(request);
        }
    }
}

fn config(machine: &Machine, contexts: Vec<messages::Context>, bugs: bool) -> Config {
    Config {
        contexts,
        queues: machine.queues,
        cells: machine.cells,
        clusters: machine.clusters,
        home_limit: machine.home_limit,
        patience: machine.patience,
        faults: SchedulerFaults { shared_queues: bugs, drains_early: bugs, no_shares: bugs },
    }
}
