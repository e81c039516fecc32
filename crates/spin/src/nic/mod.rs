//! A whole sPIN NIC: frames in, frames and writes to the host out, handlers on interpreted cores in
//! between, with times.
//!
//! What happens is a queue of events in cycles, beside cores that have times of their own
//! ([`engine`]): the earliest goes first, an event before a core. A frame is matched, gets packet
//! memory, is written there and described ([`ingress`]); the scheduler picks tasks, clusters copy
//! packets in and give them to units, ended handlers free packets ([`tasks`]); commands go to the
//! line, the host, or another memory ([`commands`]). Equal inputs give equal outputs.
//!
//! Source: facts of PsPIN's and FPsPIN's RTL and of their simulation logs; `n` beats after a
//! frame's first one is written its task is described (4 + n), 4 cycles later copied, 12 + n later
//! started. [`Compat`] switches faults of the hardware on.

mod bus;
mod cache;
mod commands;
mod contexts;
mod datapath;
mod debugger;
mod driver;
mod engine;
mod events;
mod host;
mod ingress;
mod iss;
mod memories;
mod options;
mod out;
mod tasks;
#[cfg(test)]
mod tests;
mod windows;
mod world;

use std::collections::{BTreeMap, VecDeque};

use nicforge_isa::object::riscv::Image;
use nicforge_target::PacketMemory;

use crate::machine::Machine;
use crate::matching::{Engine as Matcher, Faults};
use crate::memory::{NotTaken, Refused, Ring, Slots, Use};
use crate::messages::{self, Scheduler};

pub use datapath::{Datapath, Handed, NoDatapath, Range32, Setup, Step, suits};
pub use debugger::{Cores, Debugger, Halt, PC};
pub use driver::{Assigned, Command, Failure, NotYet};
pub use engine::{BootError, Engine};
pub use host::{HostMemory, SparseMemory};
pub use iss::{Iss, SLICE};
pub use memories::ImageError;
pub use memories::{Backing, Stacks};
pub use options::{
    Arrival, Compat, Context, Full, Handlers, HostRegion, MemoryRules, NicError, Options, Until,
};
pub use out::{CommandRefused, Dropped, Fault, FaultCause, Out, Record, Stats, Times};
pub use world::World;

use commands::Links;
use contexts::{Tenant, config};
use datapath::Frames;
use events::Events;
use ingress::{Ingress, Packet};
use tasks::{Cluster, Flight};

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

/// The NIC.
#[derive(Debug)]
pub struct Nic {
    options: Options,
    world: World,
    engine: Box<dyn Engine>,
    /// Another's, instead of `matcher`, `scheduler`, `packet_memory`, `ingress` and what `links`
    /// does of sends and writes to the host.
    datapath: Option<Box<dyn Datapath>>,
    frames: Frames,
    host: Box<dyn HostMemory>,
    now: u64,
    events: Events,
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

    /// A NIC whose handlers another engine runs.
    pub fn with_engine(
        machine: &Machine,
        options: Options,
        host: Box<dyn HostMemory>,
        mut engine: Box<dyn Engine>,
    ) -> Nic {
        let bugs = options.compat.bugs;
        let packets_at = machine.packets_at();
        let packet_memory = match machine.packets_in {
            PacketMemory::Ring => Packets::Ring(Ring::new(packets_at, machine.packet_bytes)),
            PacketMemory::Slots => Packets::Slots(Slots::fpspin(packets_at, bugs)),
        };
        let faults = Faults { reversed_ranges: bugs, always_and: bugs };
        Nic {
            world: World::new(machine, bugs, engine.backing()),
            engine,
            datapath: None,
            frames: Frames::default(),
            host,
            now: 0,
            events: Events::new(),
            images: Vec::new(),
            tenants: Vec::new(),
            matcher: Matcher { faults, ..Matcher::default() },
            scheduler: Scheduler::new(config(machine, bugs)),
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

    /// A NIC with another datapath, before there are contexts. Rules then decide about all frames.
    pub fn with_datapath(self, datapath: Box<dyn Datapath>) -> Nic {
        Nic { datapath: Some(datapath), ..self }
    }

    /// Gives the NIC a frame. Frames arrive in the order of their times.
    pub fn arrive(&mut self, arrival: Arrival) {
        let time = arrival.time.max(self.now).min(LAST);
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
            let event = self.events.next().unwrap_or(u64::MAX);
            let core = self.engine.next().unwrap_or(u64::MAX);
            let path = self.datapath_next().unwrap_or(u64::MAX);
            let first = event.min(core).min(path);
            if first == u64::MAX || first >= end {
                break;
            }
            self.now = self.now.max(first);
            if path < event && path <= core {
                self.run_datapath(event.min(core).min(end));
            } else if event <= core {
                if let Some(event) = self.events.take() {
                    self.handle(event);
                }
            } else {
                let until = event.min(end).min(path.saturating_add(self.options.slice));
                self.engine.run(&mut self.world, until);
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
        if let Some(path) = &mut self.datapath {
            if path.next().is_none() {
                self.frames.counts = path.counts();
            }
            self.stats.packet_memory_most = self.frames.counts.1;
        }
    }

    /// Nothing is under way: only another frame, or the host, makes something happen.
    pub fn is_idle(&mut self) -> bool {
        self.events.is_empty() && self.engine.next().is_none() && self.datapath_next().is_none()
    }

    /// Takes what has come out since the last call, in the order in which it became known.
    pub fn take_out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counts of the message scheduler.
    pub fn message_counts(&self) -> messages::Counts {
        if self.datapath.is_some() { self.frames.counts.0 } else { self.scheduler.counts() }
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

    fn at(&mut self, time: u64, event: Event) {
        self.events.put(time, event);
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

/// The last cycle at which something may come from outside, so that what follows has times too.
const LAST: u64 = u64::MAX / 2;
