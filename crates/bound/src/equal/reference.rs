//! An αIR program in place of the old one: what an object that was made of it has to do.
//!
//! Its paths come from [`exact`](crate::air::exact); when the solver finds a world that tells it
//! from the object, the reference interpreter runs it there.

use std::collections::BTreeMap;

use nicforge_ir::interp::Interp;
use nicforge_ir::{
    Entry, HandlerId, Input, InputEvent, Match, Op, Output, Program, TableBackend, TableId,
    Verified,
};

use super::maps::ROOM;
use super::world::{Ended, World};
use crate::air::exact::{CLOCK, INTERFACE, Kernel, Keys, RANDOM, RECORD_BYTES, Records};
use crate::ebpf::helpers::{HEAD, LEAST};

const NOT_TAKEN: &str = "a frame that the kernel does not take";
/// More insertions than a packet makes.
const REFUSED: usize = 1000;

/// What maps hold, by map and key.
type Entries = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// The program, and where what it names is in the object.
#[derive(Clone, Debug)]
pub struct Reference {
    pub program: Verified<Program>,
    pub handler: HandlerId,
    pub kernel: Kernel,
}

/// The port of an interface; unknown interfaces are port 0.
fn port_of(interface: u32, ports: u32) -> u32 {
    if (1..=ports).contains(&interface) { interface - 1 } else { 0 }
}

impl Reference {
    /// Runs the program in a world.
    ///
    /// # Errors
    /// What the interpreter cannot be given, or what the program gives that is not compared.
    pub fn run(&self, world: &World) -> Result<Ended, String> {
        let mut interp = Interp::new(&self.program);
        for ((map, key), value) in &world.entries {
            let Some((table, at)) = self.kernel.tables.iter().find(|(_, at)| at.map == *map) else {
                continue;
            };
            let value = value.get(at.front as usize..).unwrap_or_default().to_vec();
            let (key, matching) = match at.keys {
                Keys::Same => (key.clone(), Match::Exact),
                Keys::Index => {
                    let size = self.program.size_of(self.program.tables[*table].key) as usize;
                    let mut key = key.clone();
                    key.resize(size, 0);
                    (key, Match::Exact)
                }
                Keys::Prefix => {
                    let (bits, key) = key.split_first_chunk().ok_or("a key without its length")?;
                    let bits = u32::from_le_bytes(*bits);
                    // Worlds know entries by what was asked for, tries by the longest that fits.
                    if bits as usize != 8 * key.len() {
                        return Err("entries of a trie with short prefixes".to_string());
                    }
                    (key.to_vec(), Match::Prefix(bits))
                }
            };
            let entry = Entry { key, matching, value, buf: None };
            interp.set(*table, &entry).map_err(|error| error.to_string())?;
        }
        let (mut refused, mut behind) = (Vec::new(), Vec::new());
        for (table, at) in &self.kernel.tables {
            // Entries more than at first, with which it has no room for another.
            let full = world.answers.iter().filter(|((helper, question), answer)| {
                *helper == ROOM && question[0] == at.map as u64 && answer[0] == 0
            });
            if let Some(more) = full.map(|((_, question), _)| question[1] as i64).min() {
                if self.deletes(*table) {
                    return Err("a full table of which entries are deleted".to_string());
                }
                behind.push((*table, more.max(0) as u32));
                refused.extend(std::iter::repeat_n(*table, REFUSED));
            }
        }
        interp.refuse_next(&refused);
        for (table, more) in behind {
            interp.refuse_behind(table, more);
        }
        interp.evict_next(&[]);
        let interface = world.context.get(&INTERFACE).copied().unwrap_or(0);
        let port = port_of(interface, self.program.ports);
        let answer = |helper: i32, nth: u64| {
            world.answers.get(&(helper, vec![nth])).map_or(0, |answer| answer[0])
        };
        let time = answer(CLOCK, 0);
        let seed = answer(RANDOM, 0) << 32 | answer(RANDOM, 1);
        let input = Input::Net { port, frame: world.packet.clone() };
        let outputs = interp
            .run(&InputEvent { time_ns: time, seed, input })
            .map_err(|error| error.to_string())?;
        let mut ended = Ended { verdict: 1, ..Ended::default() };
        let copies = self.copies();
        for output in outputs {
            let gone = ended.packet.is_some();
            match output {
                // Which of them is no copy is not told.
                Output::Send { port, frame } if copies => {
                    let record = self.record(|kinds| kinds.copy, port.into(), &frame)?;
                    ended.messages.push(record);
                }
                Output::Send { .. } | Output::Stack { .. } if gone => {
                    return Err("more than one packet".to_string());
                }
                Output::Send { port, frame } => {
                    ended.verdict = 4;
                    ended.target = Some((None, port.into()));
                    ended.packet = Some((Vec::new(), frame));
                }
                Output::Stack { frame } => {
                    ended.verdict = 2;
                    ended.packet = Some((Vec::new(), frame));
                }
                Output::HostPacket { frame } => {
                    if (frame.len() as u64) < LEAST {
                        return Err(NOT_TAKEN.to_string());
                    }
                    ended.messages.push(self.record(|kinds| kinds.packet, 0, &frame)?);
                }
                Output::HostMessage { bytes } => {
                    ended.messages.push(self.record(|kinds| kinds.message, 0, &bytes)?);
                }
                Output::DmaWrite { addr, data } => {
                    ended.messages.push(self.record(|kinds| kinds.write, addr, &data)?);
                }
                Output::Drop { .. } => {}
                other @ Output::Log { .. } => return Err(format!("{other:?} is not compared")),
            }
        }
        if copies {
            ended.messages.sort();
        }
        // The kernel does not take what has no header or no room for one.
        let short = |(_, frame): &(Vec<u8>, Vec<u8>)| (frame.len() as u64) < LEAST;
        if ended.packet.as_ref().is_some_and(short) || interp.growth() as u64 > HEAD {
            return Err(NOT_TAKEN.to_string());
        }
        ended.entries = self.contents(&interp)?;
        Ok(ended)
    }

    /// A record of the ring to the host side, of one of its kinds.
    fn record(
        &self,
        kind: impl Fn(&Records) -> u32,
        addr: u64,
        bytes: &[u8],
    ) -> Result<(Option<usize>, Vec<u8>), String> {
        let records = self.kernel.records.ok_or("a message without a ring to the host side")?;
        if bytes.len() as u64 > RECORD_BYTES {
            return Err(format!("a message of {} bytes", bytes.len()));
        }
        let mut record = kind(&records).to_le_bytes().to_vec();
        record.extend((bytes.len() as u32).to_le_bytes());
        record.extend(addr.to_le_bytes());
        record.extend(bytes);
        Ok((Some(records.map), record))
    }

    /// The program sends copies: packets that leave are told as these are, in any order.
    fn copies(&self) -> bool {
        let mut events = self.program.events.values();
        events.any(|event| event.name == "net_copy")
    }

    fn deletes(&self, table: TableId) -> bool {
        let deletes = |op: &Op| matches!(op, Op::Delete { table: from, .. } if *from == table);
        let mut bodies = self.program.handlers.values().map(|handler| &handler.body);
        bodies.any(|body| body.insts.values().any(|inst| deletes(&inst.op)))
    }

    fn contents(&self, interp: &Interp) -> Result<Entries, String> {
        let mut found = Entries::new();
        for (table, at) in &self.kernel.tables {
            for entry in interp.dump(*table).map_err(|error| error.to_string())? {
                let key = match (at.keys, entry.matching) {
                    (Keys::Index, _) => {
                        let mut key = entry.key;
                        key.resize(4, 0);
                        key
                    }
                    (Keys::Prefix, Match::Prefix(bits)) => {
                        bits.to_le_bytes().into_iter().chain(entry.key).collect()
                    }
                    _ => entry.key,
                };
                let mut value = vec![0; at.front as usize];
                value.extend(entry.value);
                if at.keys != Keys::Index || value.iter().any(|byte| *byte != 0) {
                    found.insert((at.map, key), value);
                }
            }
        }
        Ok(found)
    }

    /// The world as far as the program has a part in it: its tables, and an interface for every
    /// port.
    pub fn alone(&self, mut world: World) -> World {
        let ours = |map: usize| self.kernel.tables.values().any(|table| table.map == map);
        world.entries.retain(|(map, _), _| ours(*map));
        world.answers.retain(|(helper, question), _| {
            *helper != ROOM || question.first().is_some_and(|map| ours(*map as usize))
        });
        if let Some(map) = self.kernel.ports {
            for port in 0..self.program.ports {
                world.entries.insert((map, port.to_le_bytes().into()), vec![0; 4]);
            }
        }
        world
    }

    /// Results of the object, told as the program's are: by ports.
    pub fn as_told(&self, ended: &Ended, world: &World) -> Ended {
        let mut ended = ended.clone();
        match (ended.verdict, ended.target) {
            (3, _) => {
                let interface = world.context.get(&INTERFACE).copied().unwrap_or(0);
                let port = port_of(interface, self.program.ports);
                (ended.verdict, ended.target) = (4, Some((None, port.into())));
            }
            (4, Some((Some(map), port))) if Some(map) == self.kernel.ports => {
                ended.target = Some((None, port));
            }
            _ => {}
        }
        if self.copies() {
            if let (4, Some((None, port)), Some((_, frame))) =
                (ended.verdict, ended.target, &ended.packet)
                && let Ok(record) = self.record(|kinds| kinds.copy, port, frame)
            {
                ended.messages.push(record);
                (ended.verdict, ended.target, ended.packet) = (1, None, None);
            }
            ended.messages.sort();
        }
        ended
    }
}
