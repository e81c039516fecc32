//! A world for programs to run in: a packet, what maps hold, what helpers answer. Both programs run
//! in it on the interpreter of eBPF, and what they give is compared. No code is shared with what
//! follows paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nicforge_isa::ebpf::{Fault, Machine, Memory};
use nicforge_isa::object::Map;
use nicforge_util::Random;

use super::host::Host;
use super::side::Side;
use crate::ebpf::helpers::{END, HEAD};

/// Most instructions of a run.
const LIMIT: u64 = 10_000_000;

/// The world that a program meets.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub packet: Vec<u8>,
    /// Bytes of the packet's memory outside of it: offset, byte.
    pub around: BTreeMap<i64, u8>,
    /// Members of the context besides those that say where the packet is, by offset.
    pub context: BTreeMap<u64, u32>,
    /// Entries by map and key; of arrays and variables (key 0) those that are not as at first.
    pub entries: BTreeMap<(usize, Vec<u8>), Vec<u8>>,
    /// Answers of helpers, by helper and question.
    pub answers: HashMap<(i32, Vec<u64>), Vec<u64>>,
    /// What other questions are answered from; zero: with zero.
    pub seed: u64,
    /// Regions of memory in front of all others. No result may depend on it.
    pub moved: usize,
}

/// Results of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub verdict: u32,
    /// Metadata and packet, if they go anywhere.
    pub packet: Option<(Vec<u8>, Vec<u8>)>,
    /// Where a redirected packet goes: by which map or none, and what is told.
    pub target: Option<(Option<usize>, u64)>,
    /// Array and slot of the program that was called.
    pub called: Option<(usize, u32)>,
    /// What maps hold: entries of arrays and variables that are zero are left out.
    pub entries: BTreeMap<(usize, Vec<u8>), Vec<u8>>,
    pub messages: Vec<(Option<usize>, Vec<u8>)>,
    pub executed: u64,
    /// Helpers whose answers no test run can be given: helper, answer.
    pub told: BTreeSet<(i32, u64)>,
}

impl World {
    /// A world with other answers, a few other bytes of the packet, and others of what maps hold.
    pub fn stirred(&self, seed: u64) -> World {
        let mut random = Random::new(seed);
        let mut world = self.clone();
        world.seed = random.next() | 1;
        let values = world.entries.values_mut().map(Vec::as_mut_slice);
        for bytes in values.chain([world.packet.as_mut_slice()]) {
            for byte in bytes {
                let number = random.next();
                if number.is_multiple_of(16) {
                    *byte = (number >> 8) as u8;
                }
            }
        }
        world
    }

    /// Runs a program; `None` if it gives something else where memory is elsewhere.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run_anywhere(&self, side: &Side) -> Result<Option<Ended>, Fault> {
        let ended = self.run(side)?;
        let other = World { moved: self.moved + 5, ..self.clone() }.run(side)?;
        Ok((ended == other).then_some(ended))
    }

    /// Runs a program.
    ///
    /// # Errors
    /// What the interpreter cannot do.
    pub fn run(&self, side: &Side) -> Result<Ended, Fault> {
        self.run_seen(side).map(|(ended, _)| ended)
    }

    /// Runs a program; says too of each instruction whether it was executed.
    ///
    /// # Errors
    /// As [`World::run`].
    pub fn run_seen(&self, side: &Side) -> Result<(Ended, Vec<bool>), Fault> {
        let mut memory = Memory::default();
        for _ in 0..self.moved {
            memory.add(Vec::new());
        }
        let mut room = vec![0u8; (HEAD + END) as usize];
        for (offset, byte) in &self.around {
            let at = usize::try_from(offset + HEAD as i64).unwrap_or(usize::MAX);
            if let Some(place) = room.get_mut(at) {
                *place = *byte;
            }
        }
        let start = HEAD as usize;
        room[start..start + self.packet.len()].copy_from_slice(&self.packet);
        let room = memory.add(room).address();
        let mut host = Host::new(self, side, room + HEAD);
        let machine = Machine { program: &side.program.insns, limit: LIMIT };
        let mut ran = machine.run(&mut memory, &mut host);
        while let Some(entry) = host.entry.take() {
            host.called = None;
            ran = machine.run_from(entry, &mut memory, &mut host);
        }
        let verdict = match ran {
            Ok(run) => run.result as u32,
            Err(_) if host.called.is_some() => 0,
            Err(fault) => return Err(fault),
        };
        let leaves = verdict > 1 || host.called.is_some();
        let bytes = |from: u64, to: u64| {
            memory.read(from, to.saturating_sub(from) as usize).map(<[u8]>::to_vec)
        };
        let packet = match leaves {
            true => Some((bytes(host.meta, host.data)?, bytes(host.data, host.end)?)),
            false => None,
        };
        let ended = Ended {
            verdict,
            packet,
            target: host.target.filter(|_| verdict == 4 || host.called.is_some()),
            called: host.called,
            entries: host.contents(&memory),
            messages: std::mem::take(&mut host.messages),
            executed: host.executed,
            told: std::mem::take(&mut host.told),
        };
        Ok((ended, host.seen))
    }
}

/// Verdicts of XDP programs by number.
const VERDICTS: [&str; 5] = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"];

/// A verdict's name.
pub fn verdict_name(verdict: u32) -> String {
    let name = VERDICTS.get(verdict as usize);
    name.map_or_else(|| format!("verdict {verdict}"), |name| (*name).to_string())
}

impl Ended {
    /// The first difference, in words: of this one and of the other.
    pub fn difference(&self, other: &Ended, maps: &[Map]) -> Option<(String, String)> {
        let both = |what: &dyn Fn(&Ended) -> String| Some((what(self), what(other)));
        let end = |ended: &Ended| match ended.called {
            Some((map, slot)) => format!("tail call to {}[{slot}]", maps[map].name),
            None => verdict_name(ended.verdict),
        };
        if (self.called, self.verdict) != (other.called, other.verdict) {
            return both(&end);
        }
        if self.target != other.target {
            return both(&|ended| match ended.target {
                None => format!("{} to nowhere", end(ended)),
                Some((None, interface)) => format!("{} to interface {interface}", end(ended)),
                Some((Some(map), key)) => {
                    format!("{} to {}[{key}]", end(ended), maps[map].name)
                }
            });
        }
        if let (Some((meta, packet)), Some((theirs, another))) = (&self.packet, &other.packet) {
            if packet.len() != another.len() {
                return both(&|ended| {
                    let length = ended.packet.as_ref().map_or(0, |(_, packet)| packet.len());
                    format!("{} with {length} bytes", end(ended))
                });
            }
            if let Some(at) = (0..packet.len()).find(|at| packet[*at] != another[*at]) {
                return both(&|ended| {
                    let byte = ended.packet.as_ref().map_or(0, |(_, packet)| packet[at]);
                    format!("{} with byte {at} = {byte:#04x}", end(ended))
                });
            }
            if meta != theirs {
                return both(&|ended| {
                    let meta = ended.packet.as_ref().map(|(meta, _)| meta.as_slice());
                    format!("{} with metadata {}", end(ended), hex(meta.unwrap_or_default()))
                });
            }
        }
        let keys = self.entries.keys().chain(other.entries.keys());
        let differs = |key: &&(usize, Vec<u8>)| self.entries.get(*key) != other.entries.get(*key);
        if let Some(key) = keys.into_iter().find(differs) {
            let values = [self, other].map(|ended| ended.entries.get(key).map(Vec::as_slice));
            let from = first_difference(values.map(Option::unwrap_or_default));
            return both(&|ended| {
                let value = ended.entries.get(key).map(|value| part(value, from));
                let name = entry_name(maps, key.0, &key.1);
                match (value, maps[key.0].kind) {
                    (Some(value), _) => format!("{name} = {value}"),
                    (None, Some(2 | 6) | None) => format!("{name} = 0"),
                    (None, _) => format!("{name} is not there"),
                }
            });
        }
        // Of messages to several maps, nobody sees which came first.
        let messages = |ended: &Ended| {
            let mut list = ended.messages.clone();
            list.sort_by_key(|(map, _)| *map);
            list
        };
        let (one, another) = (messages(self), messages(other));
        let at = (0..one.len().max(another.len())).find(|at| one.get(*at) != another.get(*at))?;
        let bytes = [&one, &another].map(|list| list.get(at).map(|(_, bytes)| bytes.as_slice()));
        let from = first_difference(bytes.map(Option::unwrap_or_default));
        let say = |list: &Vec<(Option<usize>, Vec<u8>)>| match list.get(at) {
            None => "no message".to_string(),
            Some((None, _)) => "another trace".to_string(),
            Some((Some(map), bytes)) => format!("{} gets {}", maps[*map].name, part(bytes, from)),
        };
        Some((say(&one), say(&another)))
    }
}

/// Where bytes differ first.
fn first_difference([one, other]: [&[u8]; 2]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Bytes as text: all of them if they are few, else those from a place on.
fn part(bytes: &[u8], from: usize) -> String {
    const FEW: usize = 64;
    if bytes.len() <= FEW {
        return hex(bytes);
    }
    let to = bytes.len().min(from + FEW / 4);
    match bytes.get(from..to).filter(|part| !part.is_empty()) {
        Some(part) => format!("{} bytes, from byte {from} on {}", bytes.len(), hex(part)),
        None => format!("{} bytes", bytes.len()),
    }
}

/// An entry's name, as `flows[01 00 00 00]`.
pub fn entry_name(maps: &[Map], map: usize, key: &[u8]) -> String {
    match maps[map].kind {
        None => maps[map].name.clone(),
        Some(2 | 6) if key.len() == 4 => {
            let index = u32::from_le_bytes([key[0], key[1], key[2], key[3]]);
            format!("{}[{index}]", maps[map].name)
        }
        Some(_) => format!("{}[{}]", maps[map].name, hex(key)),
    }
}

/// Bytes as `01 02`.
pub fn hex(bytes: &[u8]) -> String {
    let list: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    list.join(" ")
}
