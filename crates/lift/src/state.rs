//! Everything known at one place of the program.

use std::collections::BTreeMap;

use nicforge_ir::ValueId;

use crate::value::{Abs, Cond, Num, Place};

/// Bytes whose places are constants: stack frames, and headers put in front of the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub slots: BTreeMap<i64, (u32, Abs)>,
}

impl Memory {
    /// The value that was stored at exactly these bytes.
    pub fn exact(&self, off: i64, bytes: u32) -> Option<Abs> {
        self.slots.get(&off).filter(|(size, _)| *size == bytes).map(|(_, abs)| *abs)
    }

    /// Slots that share bytes with these.
    pub fn overlapping(&self, off: i64, bytes: u32) -> Vec<(i64, u32, Abs)> {
        let near = self.slots.range(off.saturating_sub(8)..off.saturating_add(bytes.into()));
        let near = near.map(|(at, (size, abs))| (*at, *size, *abs));
        near.filter(|(at, size, _)| at + i64::from(*size) > off).collect()
    }
}

/// The frame of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where the caller goes on.
    pub back: usize,
    /// Registers 6 to 10 of the caller.
    pub saved: [Abs; 5],
    pub memory: Memory,
}

/// Results of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub map: usize,
    pub key: ValueId,
    /// In an LPM trie, how many bits of the key count.
    pub bits: Option<ValueId>,
    /// Numbers of the key, to know one that was asked for before.
    pub parts: Vec<Num>,
    pub hit: Cond,
    /// The entry's value as it is now, where it was read.
    pub value: Option<ValueId>,
    /// `value` is not in the table yet.
    pub dirty: bool,
    /// True if its key was deleted or replaced since, so that nobody else sees the entry any more.
    pub gone: Cond,
    /// What it held when a key was changed last, for where it is gone.
    pub kept: Option<ValueId>,
    /// The key may have been deleted or replaced, and which it was is not known.
    pub stale: bool,
    /// Where a way with null met one that had found an entry, if one did.
    pub met_null: Option<usize>,
}

impl Lookup {
    /// Nothing has happened to its key.
    pub fn fresh(map: usize, key: ValueId, parts: Vec<Num>, hit: Cond) -> Lookup {
        let gone = Cond::Known(false);
        Lookup {
            map,
            key,
            bits: None,
            parts,
            hit,
            value: None,
            dirty: false,
            gone,
            kept: None,
            stale: false,
            met_null: None,
        }
    }

    /// True if it is where its key is, for sure.
    pub fn is_there(&self) -> bool {
        !self.stale && self.gone == Cond::Known(false)
    }
}

/// A record of a ring buffer that was reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub bytes: u32,
    pub memory: Memory,
}

/// Where a redirected packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Port(Num),
    /// To every port in a device map; if `others` is not 0, but for the one it came by.
    Ports {
        map: usize,
        others: Num,
    },
    /// To the host side: another processor, or a socket.
    Stack,
    Host,
}

/// Bytes in front of the unread rest: those below `bytes` are part of the packet, those before
/// them at negative places were once and are seen again if the program makes room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Front {
    pub bytes: i64,
    pub memory: Memory,
}

impl Front {
    /// The first bytes are what nobody wrote: a packet that lost a number of bytes that varies has
    /// some of these there again.
    pub fn unknown(&mut self, bytes: i64) {
        let what = "bytes that were taken off the front, by a number that varies";
        for at in 0..bytes {
            if self.memory.overlapping(at, 1).is_empty() {
                self.memory.slots.insert(at, (1, Abs::Unusable(what)));
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct State {
    pub regs: [Abs; 11],
    pub frames: Vec<Frame>,
    pub lookups: BTreeMap<u32, Lookup>,
    pub records: BTreeMap<u32, Record>,
    pub redirect: Option<Target>,
    /// Bytes the packet has at least, with those in front.
    pub at_least: i64,
    /// More bytes than it has.
    pub too_many: i64,
    /// Varying places beside the packet's end: by the number, a constant part with which it is
    /// within the packet, and one with which it is beyond.
    pub varying: BTreeMap<ValueId, (i64, i64)>,
    pub front: Front,
    /// Members of the context that are the program's own memory, by their places.
    pub context: Memory,
    /// Bytes of metadata in front of the packet, at negative places of `front`.
    pub metadata: i64,
    /// Bytes of the frame, as it came, in front of the unread rest, if that is known.
    pub skipped: Option<i64>,
    /// How often the packet's ends moved.
    pub epoch: u32,
    /// By how much its start moved each time, where the bytes stayed in their place.
    pub starts: Vec<Option<i64>>,
    /// Tail calls so far.
    pub tail_calls: u32,
    /// What values of αIR are on this way, which one of a few numbers decided, and ranges of such.
    pub assumed: BTreeMap<ValueId, u64>,
    pub within: BTreeMap<ValueId, (u64, u64)>,
    /// What this way does first.
    pub first: Option<First>,
}

/// A change of a checksum in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: Place,
    pub from: Num,
    pub to: Num,
    pub kind: ChangeKind,
    /// UDP's: zero says that there is none, so a sum of zero is written as all ones.
    pub mangled: bool,
    /// A sum that is not there is written all the same.
    pub enforced: bool,
}

/// Changes of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A difference.
    Difference,
    /// A number of 16 bits in place of another one.
    Half,
    /// A number of 32 bits, or what is treated like one.
    Word,
}

/// A call that may fail, which decides how the program goes on.
pub struct Fork {
    /// It succeeds.
    pub cond: ValueId,
    /// What is known where it fails.
    pub fails: State,
    /// Both ways repeat the call, about which they know more now.
    pub again: bool,
}

/// What a way of a call that may fail begins with: on the one a change of the packet or of memory,
/// on the other what failing leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Bytes taken off the front.
    Behead(i64),
    /// A number of bytes that varies, taken off the front.
    BeheadBy(Num),
    /// So many bytes more at the end, or fewer: a signed number of 32 bits.
    Resize(Num),
    /// Bytes behind the Ethernet header: put there, as zeros, or taken away; and the EtherType
    /// that the packet has then, if it changes.
    Room { by: i64, outer: Option<u64> },
    /// Bytes copied from one place to another.
    Copy { from: Abs, to: Abs, bytes: Num },
    /// Bytes that become zero.
    Clear { at: Abs, bytes: Num },
    /// A checksum in the packet.
    Checksum(Change),
}

impl State {
    /// Registers behind a call.
    pub fn done(&mut self, result: Abs) {
        self.regs[1..6].fill(Abs::Nothing);
        self.regs[0] = result;
    }

    /// As a program begins.
    pub fn start() -> State {
        let mut regs = [Abs::Nothing; 11];
        regs[1] = Abs::Context(0);
        regs[10] = Abs::Stack { frame: 0, place: crate::value::Place::at(0) };
        let frame = Frame { back: 0, saved: [Abs::Nothing; 5], memory: Memory::default() };
        State {
            regs,
            frames: vec![frame],
            lookups: BTreeMap::new(),
            records: BTreeMap::new(),
            redirect: None,
            at_least: 0,
            too_many: i64::MAX,
            varying: BTreeMap::new(),
            front: Front::default(),
            context: Memory::default(),
            metadata: 0,
            skipped: Some(0),
            epoch: 0,
            starts: Vec::new(),
            tail_calls: 0,
            assumed: BTreeMap::new(),
            within: BTreeMap::new(),
            first: None,
        }
    }

    /// Notes that the packet's ends moved, its start by so many bytes if that is known: what is
    /// known of its length is said apart.
    pub fn ends_moved(&mut self, start: Option<i64>) {
        self.epoch += 1;
        self.starts.push(start);
        self.too_many = i64::MAX;
        self.varying.clear();
    }

    /// As a program begins that another one called by a tail call. In a function it takes the
    /// function's place, and returns to whom that would have.
    pub fn called(&self) -> State {
        let State { mut regs, mut frames, .. } = State::start();
        if let [callers @ .., own] = &self.frames[..]
            && !callers.is_empty()
        {
            regs[10] = Abs::Stack { frame: callers.len(), place: Place::at(0) };
            frames = callers.to_vec();
            frames.push(Frame { memory: Memory::default(), ..own.clone() });
        }
        State { regs, frames, tail_calls: self.tail_calls + 1, ..self.clone() }
    }

    /// How many things are known, besides registers; lookups, which take more to copy, count more.
    pub fn size(&self) -> u64 {
        let memories = self.frames.iter().map(|frame| &frame.memory);
        let memories = memories.chain(self.records.values().map(|record| &record.memory));
        let memories = memories.chain([&self.front.memory, &self.context]);
        let slots: usize = memories.map(|memory| memory.slots.len()).sum();
        let ids = self.varying.len() + self.assumed.len() + self.within.len();
        (slots + ids + 8 * self.lookups.len() + self.starts.len()) as u64
    }

    /// A packet pointer from before the ends moved, as it is now, for comparing: the address is the
    /// same, its distance from the start another.
    pub fn renewed(&self, abs: Abs) -> Abs {
        let Abs::Packet { place, epoch } = abs else { return abs };
        let moved: Option<i64> = self.starts[epoch as usize..].iter().copied().sum();
        match moved {
            Some(moved) => Abs::Packet { place: place.plus(-moved), epoch: self.epoch },
            None => abs,
        }
    }

    /// Every place that holds something.
    pub fn each(&mut self, visit: &mut impl FnMut(&mut Abs)) {
        self.regs.iter_mut().for_each(&mut *visit);
        for frame in &mut self.frames {
            frame.saved.iter_mut().for_each(&mut *visit);
            frame.memory.slots.values_mut().for_each(|(_, abs)| visit(abs));
        }
        self.front.memory.slots.values_mut().for_each(|(_, abs)| visit(abs));
        self.context.slots.values_mut().for_each(|(_, abs)| visit(abs));
        for record in self.records.values_mut() {
            record.memory.slots.values_mut().for_each(|(_, abs)| visit(abs));
        }
    }

    /// True if somebody still holds the packet's end.
    pub fn holds_end(&mut self) -> bool {
        let (now, mut found) = (self.epoch, false);
        self.each(&mut |abs| {
            found |= matches!(abs, Abs::PacketEnd { epoch, .. } if *epoch == now);
        });
        found
    }

    /// Every number: of its own, and those that places of pointers vary by.
    pub fn each_num(&mut self, visit: &mut impl FnMut(&mut Num)) {
        self.each(&mut |abs| match abs {
            Abs::Num(num) => visit(num),
            Abs::Packet { place, .. }
            | Abs::Stack { place, .. }
            | Abs::Value { place, .. }
            | Abs::Record { place, .. }
            | Abs::Constant { place, .. } => {
                if let Some(num) = &mut place.var {
                    visit(num);
                    if let Some(known) = num.constant() {
                        place.off = place.off.wrapping_add(known as i64);
                        place.var = None;
                    }
                }
            }
            _ => {}
        });
    }

    /// Narrows what is known of a value of αIR, wherever it is.
    pub fn narrow(&mut self, id: ValueId, lo: u64, hi: u64) {
        self.each_num(&mut |num| {
            if num.id == Some(id) {
                let (lo, hi) = (num.lo.max(lo), num.hi.min(hi));
                // Ways that nothing takes keep what they had.
                if lo <= hi {
                    *num = Num::within(id, lo, hi);
                }
            }
        });
    }

    /// A lookup turned out to have found something, or nothing.
    pub fn found(&mut self, lookup: u32, hit: bool) {
        if let Some(found) = self.lookups.get_mut(&lookup) {
            found.hit = Cond::Known(hit);
        }
        if !hit {
            self.each(&mut |abs| {
                if matches!(abs, Abs::Value { lookup: one, .. } if *one == lookup) {
                    *abs = Abs::known(0);
                }
            });
        }
    }
}
