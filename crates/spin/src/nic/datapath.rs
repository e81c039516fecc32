//! The seam to a datapath that is not this crate's: matching, packet memory, message scheduler and
//! DMA engines as hardware, simulated elsewhere.
//!
//! The NIC gives it frames, room in clusters, ended tasks and commands, and it says what came of
//! them ([`Step`]). Clusters, units and host stay here. Times are the same cycles: the NIC lets it
//! run as far as its own next event, and it stops as soon as it has something to say, so the only
//! thing that can be late is what a running handler sees of it, by a slice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::commands::Work;
use super::ingress::Packet;
use super::out::{Dropped, Out, Times};
use super::{Event, HostRegion, Nic};
use crate::machine::Machine;
use crate::matching::{Matched, Ruleset};
use crate::messages::{Counts, Task};

/// What a datapath has to know of a context. Sizes are bytes, the scratchpad is an offset in every
/// cluster's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub number: usize,
    /// Addresses: header, payload, completion.
    pub functions: [Option<u32>; 3],
    pub handler_memory: Range<u32>,
    pub host: HostRegion,
    pub scratchpad: Range<u32>,
    pub serial: bool,
    pub ruleset: Option<Ruleset>,
}

/// A task as the datapath gives it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Without a number of its own: packet and handler tell it.
    pub task: Task,
    pub bytes: u32,
    /// Its end frees the packet.
    pub frees: bool,
    /// What the datapath says of the context: address of the handler, its memory, the host's, the
    /// scratchpad.
    pub function: u32,
    pub handler_memory: Range32,
    pub host: HostRegion,
    pub scratchpad: Range32,
}

/// Start and size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range32 {
    pub start: u32,
    pub bytes: u32,
}

/// Something the datapath did, at a cycle. Frames are told by what [`Datapath::arrive`] called
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// No rule wants the frame.
    ToHost {
        frame: u64,
        bytes: Vec<u8>,
    },
    Dropped {
        frame: u64,
        why: Dropped,
    },
    /// The frame has its place in packet memory, and is written there.
    Granted {
        frame: u64,
    },
    /// It is written, and the scheduler has it.
    Described {
        frame: u64,
        address: u32,
        bytes: u32,
        matched: Matched,
    },
    /// A task for a cluster, with its packet's bytes as packet memory has them.
    Task {
        handed: Handed,
        packet: Vec<u8>,
    },
    Freed {
        address: u32,
    },
    /// A frame is on the line.
    Sent {
        number: usize,
        bytes: Vec<u8>,
    },
    /// Bytes are on their way to the host.
    Written {
        number: usize,
        address: u64,
        bytes: Vec<u8>,
    },
}

/// A datapath. Frames, ends and commands are taken in the order they are given.
pub trait Datapath: std::fmt::Debug + Send {
    /// Sets a context up, or changes it.
    ///
    /// # Errors
    /// Hardware cannot do what its rules ask for.
    fn set_up(&mut self, setup: &Setup) -> Result<(), String>;

    /// A frame is on the line at a cycle.
    fn arrive(&mut self, time: u64, frame: u64, bytes: &[u8]);

    /// A task has left a cluster's buffer for a unit.
    fn room(&mut self, cluster: usize);

    /// A task has ended with all it started.
    fn end(&mut self, handed: &Handed);

    /// A handler sends bytes that lie at an address.
    fn send(&mut self, number: usize, address: u32, bytes: &[u8]);

    /// A handler writes bytes to an address of the host.
    fn write_host(&mut self, number: usize, address: u64, bytes: &[u8]);

    /// When it has something to do; `None` until it is given something.
    fn next(&self) -> Option<u64>;

    /// Runs from a cycle on, until another or until something happened. Steps are in order, with
    /// their cycles.
    fn run(&mut self, from: u64, until: u64) -> Vec<(u64, Step)>;

    /// What its scheduler has counted (times a packet was refused are not), and most bytes of
    /// packet memory in use at any time; asked for while it has nothing to do.
    fn counts(&mut self) -> (Counts, u32);
}

impl Nic {
    /// The next cycle at which the datapath, if it is another's, has something to do.
    pub(super) fn datapath_next(&self) -> Option<u64> {
        self.datapath.as_ref()?.next().map(|time| time.max(self.now))
    }

    /// Lets it run, and takes up what it did.
    pub(super) fn run_datapath(&mut self, until: u64) {
        let Some(path) = &mut self.datapath else { return };
        for (time, step) in path.run(self.now, until) {
            self.now = self.now.max(time);
            self.stepped(step);
        }
    }

    pub(super) fn set_up_datapath(&mut self, number: usize) -> Result<(), String> {
        let (Some(path), Some(tenant)) = (&mut self.datapath, self.tenants.get(number)) else {
            return Ok(());
        };
        path.set_up(&Setup {
            number,
            functions: tenant.functions,
            handler_memory: tenant.handler_memory.clone(),
            host: tenant.host,
            scratchpad: tenant.scratchpad.clone(),
            serial: tenant.serial,
            ruleset: self.matcher.rulesets.get(number).copied().flatten(),
        })
    }

    /// A frame for the datapath; its rules say whose it is.
    pub(super) fn arrive_at_datapath(&mut self, user: u64, bytes: Vec<u8>, copied: Option<u32>) {
        let Some(path) = &mut self.datapath else { return };
        let frame = self.frames.next;
        self.frames.next += 1;
        self.frames.under_way.insert(frame, Frame { user, arrived: self.now, written: 0, copied });
        path.arrive(self.now, frame, &bytes);
    }

    /// A handler's command for the datapath's DMA engines; false if it is none, and the NIC's own
    /// do it.
    pub(super) fn command_at_datapath(&mut self, at: usize) -> bool {
        let Some(path) = &mut self.datapath else { return false };
        match self.links.work(at) {
            Some(Work::Send { address, frames }) if frames.len() == 1 => {
                path.send(at, *address, &frames[0])
            }
            Some(Work::HostWrite { address, bytes, .. }) if !bytes.is_empty() => {
                path.write_host(at, *address, bytes);
            }
            _ => return false,
        }
        true
    }

    fn stepped(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::ToHost { frame, bytes } => {
                let Some(frame) = self.frames.under_way.remove(&frame) else { return };
                self.stats.to_host += 1;
                self.out.push(Out::ToHost { time: now, user: frame.user, frame: bytes });
            }
            Step::Dropped { frame, why } => {
                let Some(frame) = self.frames.under_way.remove(&frame) else { return };
                self.stats.matched += 1;
                self.drop_frame(frame.user, why);
            }
            Step::Granted { frame } => {
                if let Some(frame) = self.frames.under_way.get_mut(&frame) {
                    frame.written = now;
                }
            }
            Step::Described { frame, address, bytes, matched } => {
                let Some(frame) = self.frames.under_way.remove(&frame) else { return };
                self.stats.matched += 1;
                let times = Times {
                    arrived: frame.arrived,
                    written: frame.written,
                    described: now,
                    ..Times::default()
                };
                let copied = frame.copied.unwrap_or(bytes).min(bytes);
                self.packets
                    .insert(address, Packet::written(frame.user, bytes, copied, matched, times));
                self.want_expire();
            }
            Step::Task { handed, packet } => self.task_from_datapath(handed, &packet),
            Step::Freed { address } => {
                let times = self.frames.freeing.remove(&address).unwrap_or_default();
                self.give_back(address, times);
            }
            Step::Sent { number, bytes } => {
                self.links.replace(number, Work::Send { address: 0, frames: vec![bytes] }, now);
                self.command_done(number);
            }
            Step::Written { number, address, bytes } => {
                self.links.replace(number, Work::HostWrite { address, bytes, cycles: 0 }, now);
                let link = self.world.machine.host_latency;
                self.at(now + link, Event::CommandDone(number));
            }
        }
    }

    fn task_from_datapath(&mut self, handed: Handed, packet: &[u8]) {
        let number = self.frames.tasks;
        self.frames.tasks += 1;
        let task = Task { number, ..handed.task };
        if let Some(place) = self.world.memories.place(0, task.address, packet.len() as u32)
            && self.frames.loaded.insert(task.address)
        {
            self.world.memories.write(0, place, packet);
        }
        self.frames.handed.insert(number, handed);
        if !self.launch(task, self.now)
            && let Some(path) = &mut self.datapath
        {
            path.room(task.cluster);
        }
    }

    /// The datapath hears of an ended task.
    pub(super) fn end_at_datapath(&mut self, number: u64, times: Times) {
        let Some(handed) = self.frames.handed.remove(&number) else { return };
        if handed.frees {
            self.frames.freeing.insert(handed.task.address, times);
            self.frames.loaded.remove(&handed.task.address);
        }
        if let Some(path) = &mut self.datapath {
            path.end(&handed);
        }
    }
}

/// A frame that the datapath has and no packet is yet.
#[derive(Debug)]
struct Frame {
    user: u64,
    arrived: u64,
    written: u64,
    copied: Option<u32>,
}

/// Memory of the NIC about frames, packets and tasks that a datapath has.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// As last asked for.
    pub counts: (Counts, u32),
    next: u64,
    under_way: BTreeMap<u64, Frame>,
    tasks: u64,
    handed: BTreeMap<u64, Handed>,
    /// Packets whose bytes are in the NIC's memory.
    loaded: BTreeSet<u32>,
    /// Packets that will be freed: times of the last task.
    freeing: BTreeMap<u32, Times>,
}

/// Why a machine has no datapath in hardware.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the datapath in hardware is that of `fpspin`: packets in slots, {clusters} clusters of at most 8, {queues} queues; `{machine}` differs"
)]
pub struct NoDatapath {
    pub machine: String,
    pub clusters: usize,
    pub queues: usize,
}

/// Checks that a machine has the sizes of a datapath.
///
/// # Errors
/// It has not.
pub fn suits(machine: &Machine, clusters: usize, queues: usize) -> Result<(), NoDatapath> {
    let same = machine.packets_in == nicforge_target::PacketMemory::Slots
        && machine.clusters == clusters
        && machine.queues == queues;
    if same { Ok(()) } else { Err(NoDatapath { machine: machine.name.clone(), clusters, queues }) }
}
