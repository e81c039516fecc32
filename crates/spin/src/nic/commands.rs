//! Commands of handlers: frames to the line, bytes to and from the host, copies within the NIC.
//!
//! Data is read when a command starts. The line and both directions of the link to the host serve
//! one command after the other; a command is done when its last byte has left the NIC's memories,
//! or has arrived there. What a command may not touch ends it at once.

use super::driver::Command;
use super::memories::Place;
use super::out::{CommandRefused, FaultCause, Out};
use super::world::NO_MEMORY;
use super::{Event, MemoryRules, Nic};
use crate::machine::{Machine, map};

/// Actions of commands when they are done.
#[derive(Debug)]
pub(super) enum Work {
    /// Frames go onto the line; where the bytes lie.
    Send {
        address: u32,
        frames: Vec<Vec<u8>>,
    },
    HostWrite {
        address: u64,
        bytes: Vec<u8>,
        /// Without the beats and the link.
        cycles: u64,
    },
    HostRead {
        address: u64,
        to: Place,
        bytes: u32,
    },
    Copy {
        from: Place,
        to: Place,
        bytes: u32,
    },
}

#[derive(Debug)]
struct Pending {
    hpu: usize,
    task: u64,
    id: u32,
    context: usize,
    space: usize,
    work: Work,
    /// When the last byte is on the line.
    sent: u64,
}

/// Paths out of the NIC, and commands under way.
#[derive(Debug)]
pub(super) struct Links {
    line_free: u64,
    to_host_free: u64,
    from_host_free: u64,
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
}

impl Links {
    pub fn new(machine: &Machine) -> Links {
        let commands = machine.hpus() * machine.commands;
        Links {
            line_free: 0,
            to_host_free: 0,
            from_host_free: 0,
            pending: Vec::with_capacity(commands),
            free: Vec::new(),
        }
    }

    /// Work of a command under way.
    pub fn work(&self, at: usize) -> Option<&Work> {
        self.pending.get(at)?.as_ref().map(|pending| &pending.work)
    }

    /// Replaces what a command did, as a datapath saw it.
    pub fn replace(&mut self, at: usize, work: Work, sent: u64) {
        if let Some(pending) = self.pending.get_mut(at).and_then(Option::as_mut) {
            (pending.work, pending.sent) = (work, sent);
        }
    }

    fn put(&mut self, pending: Pending) -> usize {
        match self.free.pop() {
            Some(at) => {
                self.pending[at] = Some(pending);
                at
            }
            None => {
                self.pending.push(Some(pending));
                self.pending.len() - 1
            }
        }
    }
}

/// Cycles that bytes take at a rate.
fn cycles(bytes: u64, rate: Option<f64>) -> u64 {
    rate.map_or(0, |rate| (bytes as f64 / rate).ceil() as u64)
}

const SEND: u32 = 2;
const HOST_DMA: u32 = 0;
const HOST_WRITE: u32 = 4;

impl Nic {
    /// A unit gave a command.
    pub(super) fn command(&mut self, time: u64, hpu: usize, task: u64, id: u32, command: Command) {
        self.stats.commands += 1;
        let Some(flight) = self.tasks.get(&task) else { return };
        let (context, space) = (flight.task.context, self.tenants[flight.task.context].space);
        match self.work(hpu, context, &command) {
            Ok(work) => {
                let at = self.links.put(Pending { hpu, task, id, context, space, work, sent: 0 });
                self.started(task);
                self.at(time, Event::CommandStarts(at));
            }
            Err(refused) => {
                self.world.drivers[hpu].retire(id);
                self.refuse(time, hpu, task, refused);
            }
        }
    }

    /// A unit started a copy.
    #[expect(clippy::too_many_arguments, reason = "what the registers hold")]
    pub(super) fn start_copy(
        &mut self,
        time: u64,
        hpu: usize,
        task: u64,
        id: u32,
        from: u32,
        to: u32,
        bytes: u32,
    ) {
        self.stats.copies += 1;
        let Some(flight) = self.tasks.get(&task) else { return };
        let (context, space) = (flight.task.context, self.tenants[flight.task.context].space);
        let places = self
            .memory(hpu, context, from, bytes, false)
            .and_then(|from| Ok((from, self.memory(hpu, context, to, bytes, true)?)));
        match places {
            Ok((from, to)) => {
                let work = Work::Copy { from, to, bytes };
                let at = self.links.put(Pending { hpu, task, id, context, space, work, sent: 0 });
                self.started(task);
                self.at(time, Event::CommandStarts(at));
            }
            Err(refused) => {
                self.world.drivers[hpu].copied(id);
                self.refuse(time, hpu, task, refused);
            }
        }
    }

    fn started(&mut self, task: u64) {
        if let Some(flight) = self.tasks.get_mut(&task) {
            flight.outstanding += 1;
        }
    }

    fn refuse(&mut self, time: u64, hpu: usize, task: u64, refused: CommandRefused) {
        self.stats.commands_refused += 1;
        let pc = self.engine.pc(hpu);
        self.report(time, hpu, task, pc, FaultCause::Command(refused));
    }

    /// Memory that a command reads or writes for a handler.
    fn memory(
        &mut self,
        hpu: usize,
        context: usize,
        address: u32,
        bytes: u32,
        write: bool,
    ) -> Result<Place, CommandRefused> {
        let refused = |reason| CommandRefused::Memory { address, bytes, reason };
        if bytes == 0 {
            return Err(refused("there is nothing to move"));
        }
        let space = self.tenants[context].space;
        let reason = match self.world.allowed(hpu, space, address, bytes, write) {
            Ok(place) => return Ok(place),
            Err(reason) => reason,
        };
        let cluster = self.world.cluster_of(hpu);
        let place = self.world.memories.place(cluster, address, bytes).ok_or(refused(NO_MEMORY))?;
        if !self.freed(place, address) {
            return Err(refused(reason));
        }
        self.stats.sends_after_free += 1;
        if self.options.compat.bugs { Ok(place) } else { Err(CommandRefused::Freed { address }) }
    }

    /// True if a packet may have lain there, but none does.
    fn freed(&self, place: Place, address: u32) -> bool {
        match place {
            Place::Packet { .. } => {
                let packet = self.packets.range(..=address).next_back();
                packet.is_none_or(|(start, packet)| {
                    address - start >= packet.bytes.next_multiple_of(64)
                })
            }
            Place::L1 { cluster, at } if (map::L1_PACKETS..map::L1_SCRATCHPADS).contains(&at) => {
                let address = map::L1 + cluster as u32 * map::L1_STRIDE + at;
                let holds = |start: u32, bytes: u32| address >= start && address - start < bytes;
                !self.tasks.values().any(|flight| flight.holds(holds))
            }
            _ => false,
        }
    }

    fn host_address(
        &self,
        context: usize,
        high: u32,
        low: u32,
        bytes: u32,
    ) -> Result<u64, CommandRefused> {
        let address = u64::from(high) << 32 | u64::from(low);
        let region = self.tenants[context].host;
        let offset = address.wrapping_sub(region.address);
        let anywhere = self.options.memory == MemoryRules::Pspin;
        let inside = offset <= u64::from(region.bytes)
            && u64::from(bytes) <= u64::from(region.bytes) - offset;
        if inside || anywhere { Ok(address) } else { Err(CommandRefused::Host { address, bytes }) }
    }

    /// Work of a command, if it may be done.
    fn work(
        &mut self,
        hpu: usize,
        context: usize,
        command: &Command,
    ) -> Result<Work, CommandRefused> {
        let Command { info, words } = *command;
        let space = self.tenants[context].space;
        match info & 6 {
            SEND => {
                let [_, put, from, _, bytes, ..] = words;
                let header = self.world.machine.put_header.filter(|_| put != 0);
                let most = self.world.machine.max_send;
                if bytes > most && header.is_none() {
                    return Err(CommandRefused::TooLong { bytes, most });
                }
                let place = self.memory(hpu, context, from, bytes, false)?;
                let data = self.world.memories.bytes(space, place, bytes);
                let frames = match header {
                    None => vec![data.to_vec()],
                    Some(header) => pieces(data, words[0], header, most),
                };
                Ok(Work::Send { address: from, frames })
            }
            HOST_WRITE => {
                let [low, high, kind, first, second, ..] = words;
                let bytes = (kind >> 1).min(8);
                let address = self.host_address(context, high, low, bytes)?;
                let value = u64::from(second) << 32 | u64::from(first);
                let bytes = value.to_le_bytes()[..bytes as usize].to_vec();
                Ok(Work::HostWrite { address, bytes, cycles: self.world.machine.host_word_cycles })
            }
            HOST_DMA => {
                let [low, high, nic, bytes, to_host, ..] = words;
                let address = self.host_address(context, high, low, bytes)?;
                if to_host & 1 != 0 {
                    let place = self.memory(hpu, context, nic, bytes, false)?;
                    let bytes = self.world.memories.bytes(space, place, bytes).to_vec();
                    let cycles = self.world.machine.host_write_cycles;
                    return Ok(Work::HostWrite { address, bytes, cycles });
                }
                let to = self.memory(hpu, context, nic, bytes, true)?;
                Ok(Work::HostRead { address, to, bytes })
            }
            _ => Err(CommandRefused::Unknown { info }),
        }
    }

    /// A command gets its turn on its path.
    pub(super) fn command_starts(&mut self, at: usize) {
        if self.command_at_datapath(at) {
            return;
        }
        let now = self.now;
        let machine = &self.world.machine;
        let links = &mut self.links;
        let Some(pending) = links.pending.get_mut(at).and_then(Option::as_mut) else { return };
        let take = |free: &mut u64, cycles: u64| {
            let start = (*free).max(now);
            *free = start + cycles;
            start
        };
        let done = match &pending.work {
            Work::Send { frames, .. } => {
                let bytes: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
                let overhead = u64::from(machine.line_overhead) * frames.len() as u64;
                let beats = machine.beats(bytes as u32);
                let line = beats.max(cycles(bytes + overhead, machine.line_rate));
                let start = take(&mut links.line_free, line);
                pending.sent = start + machine.send_cycles + line;
                start + machine.send_cycles + beats
            }
            Work::HostWrite { bytes, cycles: own, .. } => {
                let beats = machine.beats(bytes.len() as u32);
                let link = beats.max(cycles(bytes.len() as u64, machine.host_rate));
                let start = take(&mut links.to_host_free, link);
                start + own + machine.host_latency + beats
            }
            Work::HostRead { bytes, .. } => {
                let link = machine.beats(*bytes).max(cycles(u64::from(*bytes), machine.host_rate));
                let start = take(&mut links.from_host_free, link);
                start + machine.host_read_cycles + machine.host_latency + link
            }
            Work::Copy { to, bytes, .. } => {
                let cluster = pending.hpu / machine.cores;
                let beats = machine.beats(*bytes);
                let first =
                    take(&mut self.clusters[cluster].copy_free, beats) + machine.copy_cycles;
                if let Place::L1 { cluster: owner, at } = *to {
                    let window = &mut self.world.copying[owner];
                    (window.cycles, window.at) = (first..first + beats, at);
                }
                first + beats
            }
        };
        self.at(done, Event::CommandDone(at));
    }

    /// A command has its effect, and its unit may go on.
    pub(super) fn command_done(&mut self, at: usize) {
        let Some(pending) = self.links.pending.get_mut(at).and_then(Option::take) else { return };
        self.links.free.push(at);
        let Pending { hpu, task, id, context, space, work, sent } = pending;
        let time = self.now;
        let driver = &mut self.world.drivers[hpu];
        if matches!(work, Work::Copy { .. }) {
            driver.copied(id);
        } else {
            driver.retire(id);
        }
        match work {
            Work::Send { frames, .. } => {
                for frame in frames {
                    self.stats.sent += 1;
                    self.stats.sent_bytes += frame.len() as u64;
                    self.out.push(Out::Sent { time: sent, hpu, frame });
                }
            }
            Work::HostWrite { address, bytes, .. } => {
                self.host.write(address, &bytes);
                let bytes = bytes.len() as u32;
                self.stats.host_written_bytes += u64::from(bytes);
                self.out.push(Out::HostWritten { time, context, address, bytes });
            }
            Work::HostRead { address, to, bytes } => {
                let mut data = vec![0; bytes as usize];
                self.host.read(address, &mut data);
                self.world.memories.write(space, to, &data);
                self.stats.host_read_bytes += u64::from(bytes);
            }
            Work::Copy { from, to, bytes } => self.world.memories.copy(space, from, to, bytes),
        }
        self.settled(task);
        self.engine.wake(&mut self.world, hpu, time);
    }
}

/// Frames of a remote write: each with a header of destination, bytes, offset and all bytes (32
/// bits each, little-endian), then zeros.
fn pieces(data: &[u8], destination: u32, header: u32, most: u32) -> Vec<Vec<u8>> {
    let header = header.max(16) as usize;
    let pieces = data.chunks(most.max(1) as usize).enumerate();
    pieces
        .map(|(number, piece)| {
            let offset = number as u32 * most;
            let words = [destination, piece.len() as u32, offset, data.len() as u32];
            let mut frame: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            frame.resize(header, 0);
            frame.extend_from_slice(piece);
            frame
        })
        .collect()
}
