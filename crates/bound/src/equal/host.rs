//! What surrounds an eBPF program in a [`World`]: helpers do what the kernel's do.

use std::collections::{BTreeMap, BTreeSet};

use nicforge_isa::ebpf::{Fault, Host as Surroundings, Memory, RegionId};
use nicforge_isa::object::{Map, PSEUDO_VALUE};

use super::side::Side;
use super::world::World;
use crate::ebpf::PACKET;
use crate::ebpf::helpers::{END, FAILED, HEAD, LEAST, META};

const NOT_THERE: u64 = -2i64 as u64;
const TOO_MUCH: u64 = -7i64 as u64;
const THERE: u64 = -17i64 as u64;
const INVALID: u64 = -22i64 as u64;
/// Questions that are answered with yes unless the world says otherwise: whether the packet's ends
/// move, whether a record is made.
const MOSTLY: [i32; 4] = [44, 54, 65, 131];
/// What maps' numbers are told by.
const MAP: u64 = 1 << 60;

/// One run's surroundings.
pub struct Host<'a> {
    world: &'a World,
    side: &'a Side,
    maps: &'a [Map],
    /// Where the packet was at first, and where it is.
    first: u64,
    pub data: u64,
    pub end: u64,
    pub meta: u64,
    /// Values that were made, by map and key, and entries that are gone.
    values: BTreeMap<(usize, Vec<u8>), RegionId>,
    gone: BTreeSet<(usize, Vec<u8>)>,
    grown: BTreeMap<usize, i64>,
    made: u64,
    records: BTreeMap<u64, (usize, usize)>,
    calls: BTreeMap<i32, u64>,
    pub target: Option<(Option<usize>, u64)>,
    pub called: Option<(usize, u32)>,
    /// Where a call to a known program leads.
    pub entry: Option<usize>,
    pub messages: Vec<(Option<usize>, Vec<u8>)>,
    pub executed: u64,
    /// By instruction, whether it was executed.
    pub seen: Vec<bool>,
    pub told: BTreeSet<(i32, u64)>,
}

fn fail(helper: i32, message: &str) -> Fault {
    Fault::Helper { helper, message: message.to_string() }
}

impl<'a> Host<'a> {
    /// Before the first instruction, with the packet at an address.
    pub fn new(world: &'a World, side: &'a Side, data: u64) -> Host<'a> {
        Host {
            world,
            side,
            maps: &side.maps,
            first: data,
            data,
            end: data + world.packet.len() as u64,
            meta: data,
            values: BTreeMap::new(),
            gone: BTreeSet::new(),
            grown: BTreeMap::new(),
            made: 0,
            records: BTreeMap::new(),
            calls: BTreeMap::new(),
            target: None,
            called: None,
            entry: None,
            messages: Vec::new(),
            executed: 0,
            seen: vec![false; side.program.insns.len()],
            told: BTreeSet::new(),
        }
    }

    fn array(&self, map: usize) -> bool {
        matches!(self.maps[map].kind, Some(2 | 6)) && self.maps[map].key_size == 4
    }

    fn map(&self, helper: i32, named: u64) -> Result<usize, Fault> {
        let map = named.wrapping_sub(MAP) as usize;
        if map < self.maps.len() { Ok(map) } else { Err(fail(helper, "no map")) }
    }

    /// Where a value is, if the map has one for the key.
    fn value(&mut self, memory: &mut Memory, map: usize, key: Vec<u8>) -> Option<u64> {
        let shape = &self.maps[map];
        let place = (map, key);
        if let Some(region) = self.values.get(&place) {
            return Some(region.address());
        }
        if self.gone.contains(&place) {
            return None;
        }
        let given = self.world.entries.get(&place).cloned();
        let mut bytes = match (given, shape.kind) {
            (Some(bytes), _) => bytes,
            (None, None) => shape.data.clone(),
            (None, _) if self.array(map) => Vec::new(),
            (None, _) => return None,
        };
        let size = match shape.kind {
            None => shape.data.len().max(shape.value_size as usize),
            Some(_) => shape.value_size as usize,
        };
        // Values end where the kernel's do: rounded up to eight bytes.
        bytes.resize(size.next_multiple_of(8), 0);
        let region = memory.add(bytes);
        self.values.insert(place, region);
        Some(region.address())
    }

    /// Contents of maps now.
    pub fn contents(&self, memory: &Memory) -> BTreeMap<(usize, Vec<u8>), Vec<u8>> {
        let mut found = self.world.entries.clone();
        found.retain(|place, _| !self.gone.contains(place));
        for (place, region) in &self.values {
            let bytes = memory.bytes(*region);
            let shape = &self.maps[place.0];
            let size = match shape.kind {
                None => shape.data.len().max(shape.value_size as usize),
                Some(_) => shape.value_size as usize,
            };
            found.insert(place.clone(), bytes[..size.min(bytes.len())].to_vec());
        }
        found.retain(|(map, _), bytes| {
            !(self.maps[*map].constant || self.array(*map) && bytes.iter().all(|byte| *byte == 0))
        });
        found
    }

    /// The world's answer to a question.
    fn answers(&mut self, helper: i32, question: Vec<u64>, bits: &[u32]) -> Vec<u64> {
        if let Some(answer) = self.world.answers.get(&(helper, question.clone())) {
            return answer.clone();
        }
        let mut state = self.world.seed;
        bits.iter()
            .map(|bits| {
                if self.world.seed == 0 {
                    return 0;
                }
                for part in question.iter().chain([&(helper as u64)]) {
                    state = (state ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
                }
                state >> (64 - bits)
            })
            .collect()
    }

    fn succeeds(&mut self, helper: i32, question: Vec<u64>) -> bool {
        match self.world.answers.get(&(helper, question)) {
            Some(answer) => {
                let yes = answer[0] == 1;
                if !yes || !MOSTLY.contains(&helper) {
                    self.told.insert((helper, answer[0]));
                }
                yes
            }
            None => MOSTLY.contains(&helper),
        }
    }

    fn next(&mut self, helper: i32, bits: u32) -> u64 {
        let count = self.calls.entry(helper).or_default();
        let nth = *count;
        *count += 1;
        let answer = self.answers(helper, vec![nth], &[bits])[0];
        self.told.insert((helper, answer));
        answer
    }

    /// Bytes as numbers of up to eight.
    fn words(memory: &Memory, at: u64, bytes: u64) -> Result<Vec<u64>, Fault> {
        let (mut list, mut done) = (Vec::new(), 0);
        while done < bytes {
            let size = [8, 4, 2, 1].into_iter().find(|size| *size <= bytes - done).unwrap_or(1);
            list.push(memory.load(at + done, size as usize)?);
            done += size;
        }
        Ok(list)
    }

    fn adjust(&mut self, memory: &mut Memory, helper: i32, by: i32) -> Result<u64, Fault> {
        let (data, end, meta) = (self.data, self.end, self.meta);
        let old = match helper {
            44 => data,
            54 => meta,
            _ => end,
        };
        let new = old.wrapping_add_signed(by.into());
        let inside = new >= self.first - HEAD && new < self.first + END;
        let allowed = inside
            && match helper {
                44 => new + LEAST <= end,
                54 => new <= data && data <= new + META,
                _ => data + LEAST <= new,
            };
        if helper == 44 && data != meta {
            return Err(fail(44, "metadata would move"));
        }
        let known = |at: u64| u64::from((PACKET.wrapping_add(at.wrapping_sub(self.first))) as u32);
        let question = vec![known(data), known(end), known(meta), known(new)];
        if !allowed || !self.succeeds(helper, question) {
            return Ok(FAILED);
        }
        match helper {
            44 => (self.data, self.meta) = (new, new),
            54 => self.meta = new,
            _ => {
                for at in end..new {
                    memory.store(at, 1, 0)?;
                }
                self.end = new;
            }
        }
        Ok(0)
    }

    fn update(&mut self, memory: &mut Memory, args: [u64; 5]) -> Result<u64, Fault> {
        let map = self.map(2, args[0])?;
        let shape = &self.maps[map];
        if args[3] > 2 {
            return Ok(INVALID);
        }
        let key = memory.read(args[1], shape.key_size as usize)?.to_vec();
        let value = memory.read(args[2], shape.value_size as usize)?.to_vec();
        if self.array(map) {
            if self.index(map, &key).is_none() {
                return Ok(TOO_MUCH);
            }
            if args[3] == 1 {
                return Ok(THERE);
            }
            let at = self.value(memory, map, key).unwrap_or(0);
            memory.write(at, &value)?;
            return Ok(0);
        }
        if !matches!(shape.kind, Some(1 | 5 | 9 | 10)) {
            return Err(fail(2, "a map that is not updated here"));
        }
        let there = self.value(memory, map, key.clone()).is_some();
        match (there, args[3]) {
            (true, 1) => return Ok(THERE),
            (false, 2) => return Ok(NOT_THERE),
            _ => {}
        }
        if !there {
            let more = self.grown.get(&map).copied().unwrap_or(0);
            let question = (super::maps::ROOM, vec![map as u64, more as u64]);
            let evicts = matches!(shape.kind, Some(9 | 10));
            if let Some(answer) = self.world.answers.get(&question).filter(|_| !evicts)
                && answer[0] == 0
            {
                self.told.insert((super::maps::ROOM, 0));
                return Ok(TOO_MUCH);
            }
            if !evicts {
                *self.grown.entry(map).or_default() += 1;
            }
        }
        self.made += 1;
        let mut bytes = value;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let region = memory.add(bytes);
        self.gone.remove(&(map, key.clone()));
        self.values.insert((map, key), region);
        Ok(0)
    }

    fn index(&self, map: usize, key: &[u8]) -> Option<u32> {
        let index = u32::from_le_bytes(key.get(..4)?.try_into().ok()?);
        (index < self.maps[map].max_entries).then_some(index)
    }

    fn delete(&mut self, memory: &mut Memory, args: [u64; 5]) -> Result<u64, Fault> {
        let map = self.map(3, args[0])?;
        if self.array(map) {
            return Ok(INVALID);
        }
        if !matches!(self.maps[map].kind, Some(1 | 5 | 9 | 10)) {
            return Err(fail(3, "a map of which nothing is deleted here"));
        }
        let key = memory.read(args[1], self.maps[map].key_size as usize)?.to_vec();
        if self.value(memory, map, key.clone()).is_none() {
            return Ok(NOT_THERE);
        }
        self.values.remove(&(map, key.clone()));
        self.gone.insert((map, key));
        *self.grown.entry(map).or_default() -= 1;
        Ok(0)
    }

    fn redirect_map(&mut self, memory: &mut Memory, args: [u64; 5]) -> Result<u64, Fault> {
        let (map, key, flags) = (self.map(51, args[0])?, args[1] as u32, args[2]);
        // Kinds 14 and 25: maps of devices, which may be told to go to all.
        let known = if matches!(self.maps[map].kind, Some(14 | 25)) { 27 } else { 3 };
        if flags & !known != 0 {
            return Ok(0);
        }
        if flags & 8 != 0 {
            self.target = Some((Some(map), flags));
            return Ok(4);
        }
        if self.value(memory, map, key.to_le_bytes().to_vec()).is_none() {
            self.target = None;
            return Ok(flags & 3);
        }
        self.target = Some((Some(map), key.into()));
        Ok(4)
    }

    fn tail_call(&mut self, args: [u64; 5]) -> Result<u64, Fault> {
        let (map, slot) = (self.map(12, args[1])?, args[2] as u32);
        if let Some(slots) = self.side.tails.get(&map) {
            return match slots.get(&slot) {
                Some(entry) => {
                    (self.entry, self.called) = (Some(*entry), Some((map, slot)));
                    Err(fail(12, "left"))
                }
                None => Ok(FAILED),
            };
        }
        if !self.succeeds(12, vec![map as u64, slot.into()]) {
            return Ok(FAILED);
        }
        self.called = Some((map, slot));
        Err(fail(12, "left"))
    }

    fn ring(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        match helper {
            130 => {
                let map = self.map(130, args[0])?;
                let bytes = memory.read(args[1], args[2] as usize)?.to_vec();
                self.messages.push((Some(map), bytes));
                Ok(self.next(130, 64))
            }
            131 => {
                let map = self.map(131, args[0])?;
                if args[1] > self.maps[map].max_entries.into() {
                    return Ok(0);
                }
                let question = vec![map as u64, self.made, args[1]];
                self.made += 1;
                if !self.succeeds(131, question) {
                    return Ok(0);
                }
                let size = args[1] as usize;
                let at = memory.add(vec![0; size]).address();
                self.records.insert(at, (map, size));
                Ok(at)
            }
            _ => {
                let (map, size) = self
                    .records
                    .remove(&args[0])
                    .ok_or_else(|| fail(helper, "no record of a ring buffer"))?;
                if helper == 132 {
                    let bytes = memory.read(args[0], size)?.to_vec();
                    self.messages.push((Some(map), bytes));
                }
                Ok(0)
            }
        }
    }

    fn perf_output(&mut self, memory: &Memory, args: [u64; 5]) -> Result<u64, Fault> {
        let map = self.map(25, args[1])?;
        let mut bytes = memory.read(args[3], args[4] as usize)?.to_vec();
        bytes.extend((args[2] as u32).to_le_bytes());
        bytes.extend(memory.read(self.data, (args[2] >> 32) as usize)?);
        self.messages.push((Some(map), bytes));
        Ok(self.next(25, 64))
    }

    /// The sum that the kernel's `bpf_csum_diff` gives, since Linux 6.13.
    fn checksum(&mut self, memory: &Memory, args: [u64; 5]) -> Result<u64, Fault> {
        let fold = |mut sum: u64, bits: u32| {
            while sum >> bits != 0 {
                sum = (sum & ((1 << bits) - 1)) + (sum >> bits);
            }
            sum
        };
        let words = |at: u64, size: u64, mut sum: u64| -> Result<u64, Fault> {
            for word in memory.read(at, size as usize)?.chunks(4) {
                sum +=
                    u64::from(word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
            }
            Ok(fold(sum, 32))
        };
        let seed = u64::from(args[4] as u32);
        let inverted = |sum: u64| sum ^ 0xffff_ffff;
        let sum = match (args[1], args[3]) {
            (0, 0) => seed,
            (0, new) => words(args[2], new, seed)?,
            (old, 0) => inverted(words(args[0], old, inverted(seed))?),
            (old, new) => {
                let from = words(args[0], old, 0)?;
                fold(words(args[2], new, seed)? + inverted(from), 32)
            }
        };
        Ok(fold(sum, 16))
    }

    fn fib_lookup(&mut self, memory: &mut Memory, args: [u64; 5]) -> Result<u64, Fault> {
        let mut question = Self::words(memory, args[1], 64)?;
        question.push(args[3] & 0xffff_ffff);
        let answer = self.answers(69, question, &[64; 9]);
        self.told.insert((69, answer[0]));
        for (nth, word) in answer[1..].iter().enumerate() {
            memory.store(args[1] + 8 * nth as u64, 8, *word)?;
        }
        Ok(answer[0])
    }
}

impl Surroundings for Host<'_> {
    fn address(&mut self, memory: &mut Memory, src: u8, imm: i32, next: i32) -> Result<u64, Fault> {
        let map = usize::try_from(imm).ok().filter(|map| *map < self.maps.len());
        let map = map.ok_or_else(|| fail(0, "no such map"))?;
        if src != PSEUDO_VALUE {
            return Ok(MAP + map as u64);
        }
        let at = self.value(memory, map, vec![0; 4]);
        Ok(at.ok_or_else(|| fail(0, "no such value"))? + u64::from(next as u32))
    }

    fn context(&mut self, _: &mut Memory, offset: u64, size: usize) -> Result<u64, Fault> {
        Ok(match offset {
            0 => self.data,
            4 => self.end,
            8 => self.meta,
            _ => {
                let word = self.world.context.get(&(offset & !3)).copied().unwrap_or(0);
                let value = u64::from(word) >> (8 * (offset & 3));
                if size >= 4 { value } else { value & ((1 << (8 * size)) - 1) }
            }
        })
    }

    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        match helper {
            1 => {
                let map = self.map(1, args[0])?;
                let key = memory.read(args[1], self.maps[map].key_size as usize)?.to_vec();
                if self.array(map) && self.index(map, &key).is_none() {
                    return Ok(0);
                }
                Ok(self.value(memory, map, key).unwrap_or(0))
            }
            2 => self.update(memory, args),
            3 => self.delete(memory, args),
            5 | 118 | 125 | 160 | 208 => Ok(self.next(helper, 64)),
            7 => Ok(self.next(7, 32)),
            6 => {
                let mut bytes = memory.read(args[0], args[1] as usize)?.to_vec();
                bytes.extend(args[2..].iter().flat_map(|arg| arg.to_le_bytes()));
                self.messages.push((None, bytes));
                Ok(self.next(6, 64))
            }
            8 | 42 => {
                let answer = self.answers(helper, Vec::new(), &[32])[0];
                self.told.insert((helper, answer));
                Ok(answer)
            }
            12 => self.tail_call(args),
            23 => {
                if args[1] != 0 {
                    return Ok(0);
                }
                self.target = Some((None, args[0] & 0xffff_ffff));
                Ok(4)
            }
            25 => self.perf_output(memory, args),
            28 => self.checksum(memory, args),
            44 | 54 | 65 => self.adjust(memory, helper, args[1] as i32),
            51 => self.redirect_map(memory, args),
            69 => self.fib_lookup(memory, args),
            93 | 94 => Ok(0),
            130..=133 => self.ring(memory, helper, args),
            188 => Ok(self.end - self.data),
            189 | 190 => {
                let (offset, size) = (args[1] & 0xffff_ffff, args[3]);
                if offset >= 0x1_0000 {
                    return Ok(-14i64 as u64);
                }
                if offset + size > self.end - self.data {
                    return Ok(FAILED);
                }
                let packet = self.data + offset;
                let (from, to) = if helper == 189 { (packet, args[2]) } else { (args[2], packet) };
                let bytes = memory.read(from, size as usize)?.to_vec();
                memory.write(to, &bytes)?;
                Ok(0)
            }
            _ => Err(fail(helper, "not done here")),
        }
    }

    fn at(&mut self, pc: usize) {
        self.executed += 1;
        if let Some(seen) = self.seen.get_mut(pc) {
            *seen = true;
        }
    }
}
