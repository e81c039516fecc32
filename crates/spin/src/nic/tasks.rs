//! Tasks from the scheduler to units and back: copied into a cluster, given to a unit, ended, fed
//! back.

use std::collections::VecDeque;

use super::driver::{Ask, Assigned, Failure, Request};
use super::memories::Stacks;
use super::out::{Fault, FaultCause, Out, Record, Times};
use super::windows::{Windows, pages};
use super::{Event, MemoryRules, Nic};
use crate::machine::{Machine, map};
use crate::memory::Ring;
use crate::messages::Task;

/// A task under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub task: Task,
    user: u64,
    bytes: u32,
    /// Bytes copied into the cluster, and where to (address and ring).
    copied: u32,
    copy: Option<(u32, usize)>,
    /// From when on it may be copied.
    from: u64,
    hpu: Option<usize>,
    times: Times,
    /// Commands and copies under way.
    pub outstanding: u32,
    ended: bool,
    failed: bool,
    /// The unit's when the handler started, then the handler's.
    instructions: u64,
}

impl Flight {
    /// True if its copy in the cluster is what is looked for, by address and bytes.
    pub fn holds(&self, holds: impl Fn(u32, u32) -> bool) -> bool {
        self.copy.is_some_and(|(address, _)| holds(address, self.copied.next_multiple_of(64)))
    }
}

/// A cluster's queue, packet buffers and units.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Tasks whose packets are to be copied, and whose are there.
    queue: VecDeque<u64>,
    ready: VecDeque<u64>,
    /// Tasks without a unit.
    buffered: u32,
    rings: Vec<Ring>,
    turn: usize,
    pub copy_free: u64,
    /// Units without a task, a bit each.
    idle: u32,
}

impl Cluster {
    pub fn new(machine: &Machine, cluster: usize) -> Cluster {
        let base = map::L1 + cluster as u32 * map::L1_STRIDE + map::L1_PACKETS;
        let bytes = (map::L1_SCRATCHPADS - map::L1_PACKETS) / map::RINGS;
        Cluster {
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            buffered: 0,
            rings: (0..map::RINGS).map(|ring| Ring::new(base + ring * bytes, bytes)).collect(),
            turn: 0,
            copy_free: 0,
            idle: (1 << machine.cores) - 1,
        }
    }

    /// A place for a packet: address and ring. Rings are asked in turn.
    fn place(&mut self, bytes: u32) -> Option<(u32, usize)> {
        let count = self.rings.len();
        let (address, ring) = (0..count).find_map(|step| {
            let ring = (self.turn + step) % count;
            Some((self.rings[ring].take(bytes).ok()?, ring))
        })?;
        self.turn = (ring + 1) % count;
        Some((address, ring))
    }
}

impl Nic {
    pub(super) fn want_schedule(&mut self) {
        if self.datapath.is_none() && !std::mem::replace(&mut self.picking, true) {
            self.at(self.next_pick.max(self.now), Event::Schedule);
        }
    }

    /// Picks a task; one a cycle.
    pub(super) fn schedule(&mut self) {
        self.picking = false;
        let now = self.now;
        let most = self.world.machine.cluster_tasks;
        let room: Vec<u32> =
            self.clusters.iter().map(|cluster| most.saturating_sub(cluster.buffered)).collect();
        let Some(task) = self.scheduler.next(now, &room) else { return };
        self.next_pick = now + 1;
        let from = now + self.world.machine.task_cycles;
        self.launch(task, from);
        self.want_schedule();
        self.room_made();
    }

    /// Puts a task into its cluster's queue, from where it may be copied from a cycle on; false if
    /// there is nothing to run, and the packet goes straight back.
    pub(super) fn launch(&mut self, task: Task, from: u64) -> bool {
        let function = self.tenants[task.context].functions[task.handler as usize];
        let Some(packet) = self.packets.get(&task.address) else { return false };
        let flight = Flight {
            task,
            user: packet.user,
            bytes: packet.bytes,
            copied: packet.copied,
            copy: None,
            from,
            hpu: None,
            times: packet.times,
            outstanding: 0,
            ended: false,
            failed: false,
            instructions: 0,
        };
        self.tasks.insert(task.number, flight);
        if function.is_some() {
            let cluster = &mut self.clusters[task.cluster];
            cluster.buffered += 1;
            cluster.queue.push_back(task.number);
            self.at(from, Event::Copy(task.cluster));
        } else {
            self.finish(task.number);
        }
        function.is_some()
    }

    /// Starts the copy of a cluster's next packet, if the engine and buffers are free.
    pub(super) fn copy_next(&mut self, at: usize) {
        let now = self.now;
        let cluster = &mut self.clusters[at];
        let Some(&number) = cluster.queue.front() else { return };
        let Some(flight) = self.tasks.get_mut(&number) else { return };
        let from = flight.from.max(cluster.copy_free);
        if from > now {
            return self.at(from, Event::Copy(at));
        }
        // Goes on when a packet's copy is freed.
        let Some((address, ring)) = cluster.place(flight.copied) else { return };
        cluster.queue.pop_front();
        flight.copy = Some((address, ring));
        flight.times.copied = now;
        let machine = &self.world.machine;
        let beats = machine.beats(flight.copied);
        cluster.copy_free = now + beats;
        let first = now + machine.copy_cycles;
        let window = &mut self.world.copying[at];
        window.cycles = first..first + beats;
        window.at = (address - map::L1) % map::L1_STRIDE;
        let more = !cluster.queue.is_empty();
        self.at(first + beats, Event::Loaded(number));
        if more {
            self.at(now + beats, Event::Copy(at));
        }
    }

    /// A task's packet is in its cluster.
    pub(super) fn loaded(&mut self, number: u64) {
        let Some(flight) = self.tasks.get(&number) else { return };
        let cluster = flight.task.cluster;
        let memories = &mut self.world.memories;
        let to =
            flight.copy.and_then(|(address, _)| memories.place(cluster, address, flight.copied));
        let from = memories.place(cluster, flight.task.address, flight.copied);
        if let (Some(from), Some(to)) = (from, to) {
            memories.copy(0, from, to, flight.copied);
        }
        self.clusters[cluster].ready.push_back(number);
        self.dispatch(cluster);
    }

    /// Gives tasks to idle units, lowest first.
    fn dispatch(&mut self, at: usize) {
        while self.clusters[at].idle != 0
            && let Some(number) = self.clusters[at].ready.pop_front()
        {
            let cluster = &mut self.clusters[at];
            let core = cluster.idle.trailing_zeros() as usize;
            cluster.idle &= !(1 << core);
            cluster.buffered -= 1;
            if let Some(path) = &mut self.datapath {
                path.room(at);
            }
            let hpu = at * self.world.machine.cores + core;
            if let Some(flight) = self.tasks.get_mut(&number) {
                flight.hpu = Some(hpu);
            }
            if let Some((assigned, windows)) = self.assignment(number, core) {
                self.world.drivers[hpu].assign(assigned);
                self.world.windows[hpu] = windows;
                self.engine.start(&mut self.world, hpu);
            }
            self.want_schedule();
        }
    }

    /// Registers of the unit that show a task, and what its handler may touch.
    fn assignment(&self, number: u64, core: usize) -> Option<(Assigned, Windows)> {
        let flight = self.tasks.get(&number)?;
        let machine = &self.world.machine;
        let tenant = &self.tenants[flight.task.context];
        let (copy, _) = flight.copy?;
        let offset = (copy - map::L1) % map::L1_STRIDE;
        let mut registers = [0; 20];
        registers[0] = tenant.functions[flight.task.handler as usize]?;
        registers[1] = 4096;
        registers[2] = tenant.handler_memory.start;
        registers[3] = tenant.handler_memory.end - tenant.handler_memory.start;
        registers[4] = copy;
        registers[5] = flight.bytes;
        for cluster in 0..machine.clusters.min(4) {
            registers[6 + cluster] =
                map::L1 + cluster as u32 * map::L1_STRIDE + tenant.scratchpad.start;
            registers[10 + cluster] = tenant.scratchpad.end - tenant.scratchpad.start;
        }
        registers[14] = (tenant.host.address >> 32) as u32;
        registers[15] = tenant.host.address as u32;
        registers[16] = tenant.host.bytes;
        registers[17] = flight.task.address;
        registers[18] = (flight.task.message as usize % machine.clusters) as u32;
        registers[19] = flight.task.queue as u32;
        let assigned = Assigned {
            number,
            space: tenant.space,
            registers,
            from: self.now,
            watchdog: tenant.watchdog,
        };
        let bugs = self.options.compat.bugs;
        let paged = bugs || self.options.memory == MemoryRules::Pspin;
        let around = |range: std::ops::Range<u32>| if paged { pages(range) } else { range };
        let packet = flight.task.address - machine.packets_at();
        let stacks = self.world.memories.stacks.unwrap_or(Stacks::HARDWARE);
        let windows = Windows {
            cluster: flight.task.cluster,
            stack: stacks.of(core),
            stacks: 0..machine.cores as u32 * map::STACK,
            packet_copy: around(offset..offset + flight.copied.next_multiple_of(64)),
            scratchpad: around(tenant.scratchpad.clone()),
            packet: around(packet..packet + flight.bytes.next_multiple_of(64)),
            handler: tenant.handler_memory.start - map::L2..tenant.handler_memory.end - map::L2,
            open_stacks: bugs,
        };
        Some((assigned, windows))
    }

    /// A unit asked for something.
    pub(super) fn request(&mut self, request: Request) {
        let Request { time, hpu, task, ask } = request;
        match ask {
            Ask::Started => {
                let instructions = self.engine.instructions(hpu);
                if let Some(flight) = self.tasks.get_mut(&task) {
                    flight.times.started = time;
                    flight.instructions = instructions;
                }
            }
            Ask::Done => {
                let instructions = self.engine.instructions(hpu);
                if let Some(flight) = self.tasks.get_mut(&task) {
                    flight.times.ended = time;
                    flight.instructions = instructions - flight.instructions;
                    self.stats.busy[hpu] += time.saturating_sub(flight.times.started);
                    self.at(time, Event::Ended(task));
                }
            }
            Ask::Failed(failure) => self.failed(time, hpu, task, failure),
            Ask::Text(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                self.out.push(Out::Stdout { time, hpu, text });
            }
            Ask::Command { id, command } => self.command(time, hpu, task, id, command),
            Ask::Copy { id, from, to, bytes } => {
                self.start_copy(time, hpu, task, id, from, to, bytes)
            }
        }
    }

    /// A handler has failed; only its first failure counts.
    fn failed(&mut self, time: u64, hpu: usize, task: u64, failure: Failure) {
        let Some(flight) = self.tasks.get_mut(&task) else { return };
        if std::mem::replace(&mut flight.failed, true) {
            return;
        }
        let (kind, pc) = match failure {
            Failure::Trap(trap) => (0, trap.pc),
            Failure::Watchdog(_) => (1, self.engine.pc(hpu)),
            Failure::Reported(_) => (2, self.engine.pc(hpu)),
            Failure::Exit => (3, self.engine.pc(hpu)),
            Failure::Late { .. } => (1, self.engine.pc(hpu)),
            Failure::Refused { pc, .. } => (0, pc),
        };
        self.stats.faults[kind] += 1;
        self.report(time, hpu, task, pc, FaultCause::Handler(failure));
    }

    pub(super) fn report(&mut self, time: u64, hpu: usize, task: u64, pc: u32, cause: FaultCause) {
        let Some(flight) = self.tasks.get(&task) else { return };
        let Task { context, message, handler, .. } = flight.task;
        let symbol = self.images[self.tenants[context].image].symbol_at(pc);
        let symbol = symbol.map(|symbol| match pc - symbol.address {
            0 => symbol.name.clone(),
            offset => format!("{}+{offset:#x}", symbol.name),
        });
        self.out.push(Out::Fault(Fault {
            time,
            hpu,
            context,
            message,
            handler,
            cause,
            pc,
            symbol,
            line: None,
        }));
    }

    /// A handler has ended; its unit takes another.
    pub(super) fn ended(&mut self, number: u64) {
        let Some(flight) = self.tasks.get_mut(&number) else { return };
        flight.ended = true;
        let (cluster, hpu, outstanding) = (flight.task.cluster, flight.hpu, flight.outstanding);
        if let Some(hpu) = hpu {
            self.clusters[cluster].idle |= 1 << (hpu % self.world.machine.cores);
        }
        if outstanding == 0 {
            self.finish(number);
        }
        self.dispatch(cluster);
    }

    /// One command or copy of a task less.
    pub(super) fn settled(&mut self, number: u64) {
        let Some(flight) = self.tasks.get_mut(&number) else { return };
        flight.outstanding -= 1;
        if flight.ended && flight.outstanding == 0 {
            self.finish(number);
        }
    }

    /// A task has ended with all it started.
    fn finish(&mut self, number: u64) {
        let time = (self.now + self.world.machine.feedback_cycles).max(self.next_feedback);
        self.next_feedback = time + 1;
        self.at(time, Event::Feedback(number));
    }

    /// The NIC hears of an ended task.
    pub(super) fn feedback(&mut self, number: u64) {
        let now = self.now;
        let Some(flight) = self.tasks.get_mut(&number) else { return };
        flight.times.feedback = now;
        let (cluster, hpu) = (flight.task.cluster, flight.hpu);
        if let Some(hpu) = hpu {
            self.stats.handlers += 1;
            let Task { context, message, handler, .. } = flight.task;
            self.out.push(Out::Handler(Record {
                context,
                message,
                handler,
                hpu,
                user: flight.user,
                bytes: flight.bytes,
                instructions: flight.instructions,
                times: flight.times,
                failed: flight.failed,
            }));
        }
        if let Some((address, ring)) = flight.copy {
            // It was taken when the copy began.
            let _ = self.clusters[cluster].rings[ring].free(address);
            self.copy_next(cluster);
        }
        if let Some(hpu) = hpu {
            self.world.drivers[hpu].released(number);
            self.engine.wake(&mut self.world, hpu, now);
        }
        self.at(now + self.world.machine.queue_cycles, Event::Free(number));
    }

    /// The scheduler hears of it, and the packet may be freed.
    pub(super) fn free(&mut self, number: u64) {
        let Some(flight) = self.tasks.remove(&number) else { return };
        if self.datapath.is_some() {
            return self.end_at_datapath(number, flight.times);
        }
        if let Ok(Some(address)) = self.scheduler.done(self.now, number) {
            // It was taken when the packet came in.
            let _ = self.packet_memory.free(address);
            self.give_back(address, flight.times);
        }
        self.want_schedule();
        self.room_made();
    }

    /// A packet's memory is free.
    pub(super) fn give_back(&mut self, address: u32, times: Times) {
        if let Some(packet) = self.packets.remove(&address) {
            self.stats.feedback += 1;
            self.stats.feedback_bytes += u64::from(packet.bytes);
            self.out.push(Out::Feedback {
                user: packet.user,
                context: packet.matched.context,
                message: packet.matched.message,
                bytes: packet.bytes,
                times,
            });
        }
    }
}
