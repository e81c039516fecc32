//! What surrounds an eBPF program when its witness is run: packet, maps, context and helpers, which
//! do what the path claims.

use std::collections::{BTreeMap, VecDeque};

use nicforge_isa::ebpf::{Fault, Host, Machine, Memory, RegionId};
use nicforge_isa::object::{self, Map, PSEUDO_VALUE};

use super::{LIMIT, compare};
use crate::ebpf::helpers::{CHANGE, END, FAILED, FILL, HEAD};
use crate::ebpf::row::packet_at;
use crate::ebpf::{
    INDEX_MASK, INNER_BYTES, Layout, OUTSIDE_EACH, PACKET, Tails, VALUES, VALUES_EACH, of_maps,
    stride,
};
use crate::witness::{TableRead, Witness};

/// The helper that leaves the program.
const TAIL_CALL: i32 = 12;

struct Surroundings<'a> {
    maps: &'a [Map],
    tails: &'a Tails,
    /// Maps whose contents go from packet to packet, and bytes that memory begins with.
    kept: &'a [bool],
    start: &'a [(u64, u8)],
    layout: Layout,
    reads: VecDeque<&'a TableRead>,
    /// Calls with two outcomes, and whether they succeed.
    outcomes: VecDeque<(u32, bool)>,
    branches: Vec<(u32, bool)>,
    pc: usize,
    executed: u64,
    /// Where the packet is now, and its metadata.
    data: u64,
    end: u64,
    meta: u64,
    values: Vec<Option<RegionId>>,
    found: Vec<Lookup>,
    /// A tail call succeeded.
    left: bool,
    /// Where it leads, if that is known.
    entry: Option<usize>,
}

/// A lookup that hit.
pub(super) struct Lookup {
    pub map: usize,
    /// Number of the value in the symbolic map.
    pub index: u64,
    pub key: Vec<u8>,
}

impl Surroundings<'_> {
    /// The memory of a map: all of its values if they are kept, else one.
    fn value(&mut self, map: usize, memory: &mut Memory) -> RegionId {
        let shape = &self.maps[map];
        let whole = self.keeps(map);
        let least = match () {
            () if of_maps(shape) => INNER_BYTES as usize,
            () if whole => stride(shape) as usize * shape.max_entries as usize,
            () => 0,
        };
        let size = shape.data.len().max(shape.value_size as usize).max(least);
        let (data, start) = (&shape.data, self.start);
        *self.values[map].get_or_insert_with(|| {
            let mut bytes = data.clone();
            bytes.resize(size, 0);
            if whole {
                set(&mut bytes, VALUES + map as u64 * VALUES_EACH, start);
            }
            memory.add(bytes)
        })
    }

    fn keeps(&self, map: usize) -> bool {
        self.kept.get(map) == Some(&true)
    }

    /// The claim about the next read, if it is this instruction's and fits.
    fn next_read(&mut self, pc: usize, fits: impl Fn(&TableRead) -> bool) -> Option<u64> {
        let read = self.reads.pop_front_if(|read| read.place as usize == pc && fits(read))?;
        let mut bytes = [0u8; 8];
        bytes[..read.bytes.len()].copy_from_slice(&read.bytes);
        Some(u64::from_le_bytes(bytes))
    }

    /// What a call is claimed to give: 0 is its result, and the rest is in order from 8 on. Claims
    /// that nothing depends on are not made.
    fn given(&mut self, pc: usize, at: u64) -> Option<u64> {
        self.next_read(pc, |read| read.address % OUTSIDE_EACH == at)
    }

    /// The map that a number names, or in whose values an address is.
    fn map(&self, named: u64) -> Option<usize> {
        let inside = |region: &Option<RegionId>| region.is_some_and(|r| r.address() == named);
        usize::try_from(named)
            .ok()
            .filter(|map| *map < self.maps.len())
            .or_else(|| self.values.iter().position(inside))
    }

    /// Effects and results of a helper with two outcomes.
    fn branching(
        &mut self,
        memory: &mut Memory,
        helper: i32,
        args: [u64; 5],
        result: Option<u64>,
        success: bool,
    ) -> Result<u64, Fault> {
        let fail = |message: &str| Fault::Helper { helper, message: message.to_string() };
        match (helper, success) {
            (1 | 131, false) => return Ok(0),
            (_, false) => return Ok(FAILED),
            (1, _) => {
                let map = self.map(args[0]).ok_or_else(|| fail("a lookup in no map"))?;
                // Whatever an inner map's key is, it is the program's.
                let key = memory.read(args[1], self.maps[map].key_size as usize);
                let key = key.map(<[u8]>::to_vec).unwrap_or_default();
                let number = result
                    .or_else(|| Some(u32::from_le_bytes(key.get(..4)?.try_into().ok()?).into()));
                let index = number.unwrap_or(0) & INDEX_MASK;
                self.found.push(Lookup { map, index, key });
                let at = if self.keeps(map) { index * stride(&self.maps[map]) } else { 0 };
                return Ok(self.value(map, memory).address() + at);
            }
            (131, _) => return Ok(memory.add(vec![0; (args[1] as usize).min(1 << 20)]).address()),
            (TAIL_CALL, _) => {
                self.left = true;
                return Err(fail("left by a tail call"));
            }
            _ => {}
        }
        let by = i64::from(args[1] as i32);
        match helper {
            44 => {
                self.data = self.data.wrapping_add_signed(by);
                self.meta = self.data;
            }
            54 => self.meta = self.meta.wrapping_add_signed(by),
            _ => self.end = self.end.wrapping_add_signed(by),
        }
        Ok(0)
    }
}

impl Surroundings<'_> {
    /// One claim per slot, until one is the slot asked for.
    fn tail_call(&mut self, slots: &BTreeMap<u32, usize>, index: u32) -> Result<u64, Fault> {
        let fail =
            |message: &str| Fault::Helper { helper: TAIL_CALL, message: message.to_string() };
        let pc = self.pc;
        for (slot, entry) in slots {
            let claimed = self.outcomes.pop_front_if(|(at, _)| *at as usize == pc);
            if claimed.is_none_or(|(_, taken)| taken != (index == *slot)) {
                return Err(fail("a tail call to another slot than claimed"));
            }
            if index == *slot {
                (self.left, self.entry) = (true, Some(*entry));
                return Err(fail("left by a tail call"));
            }
        }
        Ok(FAILED)
    }
}

impl Host for Surroundings<'_> {
    fn address(&mut self, memory: &mut Memory, src: u8, imm: i32, next: i32) -> Result<u64, Fault> {
        let map = imm as usize;
        if map >= self.maps.len() {
            return Err(Fault::Helper { helper: 0, message: "no such map".to_string() });
        }
        Ok(match src {
            PSEUDO_VALUE => self.value(map, memory).address() + u64::from(next as u32),
            _ => map as u64,
        })
    }

    fn context(&mut self, _: &mut Memory, offset: u64, _: usize) -> Result<u64, Fault> {
        let Layout { data, data_end, data_meta, .. } = self.layout;
        Ok(match offset {
            at if at == data => self.data,
            at if at == data_end => self.end,
            at if at == data_meta => self.meta,
            _ => 0,
        })
    }

    /// Stores into the context: what is read back is claimed read by read.
    fn context_store(&mut self, _: u64, _: usize, _: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        let pc = self.pc;
        let result = match helper {
            // The key may come from memory whose contents are claimed.
            1 => self.next_read(pc, |_| true),
            _ => self.given(pc, 0),
        };
        if helper == TAIL_CALL
            && let Some(slots) = self.map(args[1]).and_then(|map| self.tails.get(&map))
        {
            return self.tail_call(slots, args[2] as u32);
        }
        if let Some((_, success)) = self.outcomes.pop_front_if(|(at, _)| *at as usize == pc) {
            return self.branching(memory, helper, args, result, success);
        }
        if matches!(helper, 1 | TAIL_CALL | 44 | 54 | 65 | 131) {
            let message = "a call whose outcome was not claimed".to_string();
            return Err(Fault::Helper { helper, message });
        }
        if let Some((_, pointer, length)) = FILL.iter().find(|(number, ..)| *number == helper) {
            let argument = |n: u8| args[usize::from(n) - 1];
            for byte in 0..argument(*length) {
                let value = self.given(pc, 8 + byte).unwrap_or(0);
                memory.store(argument(*pointer) + byte, 1, value)?;
            }
            // Bytes beyond the length are claimed, too.
            let most = OUTSIDE_EACH - 8;
            for byte in argument(*length)..most {
                self.given(pc, 8 + byte);
            }
        } else if CHANGE.contains(&helper)
            && let Some(length) = self.given(pc, 8)
        {
            // The packet is elsewhere, and so long.
            self.data = memory.add(vec![0; 2 * END as usize]).address();
            (self.meta, self.end) = (self.data, self.data + length);
        }
        Ok(result.unwrap_or(0))
    }

    fn at(&mut self, pc: usize) {
        self.pc = pc;
        self.executed += 1;
    }

    fn branch(&mut self, pc: usize, taken: bool) {
        self.branches.push((pc as u32, taken));
    }

    fn load(&mut self, pc: usize, size: usize) -> Option<u64> {
        let mask = if size == 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
        // Constant data has one content, which the memory holds.
        self.next_read(pc, |_| true).map(|value| value & mask)
    }
}

/// Writes the bytes that lie in a piece of memory.
fn set(memory: &mut [u8], base: u64, bytes: &[(u64, u8)]) {
    for (address, byte) in bytes {
        let at = usize::try_from(address.wrapping_sub(base)).unwrap_or(usize::MAX);
        if let Some(place) = memory.get_mut(at) {
            *place = *byte;
        }
    }
}

/// The packets of a witness, the first with the bytes around it: what is claimed of later ones
/// stands among the bytes at the start.
pub(super) fn row(witness: &Witness) -> Vec<Vec<u8>> {
    let later = witness.sizes.iter().zip(1..).map(|(size, index)| {
        let mut bytes = vec![0; *size as usize];
        set(&mut bytes, packet_at(index), &witness.private);
        bytes
    });
    std::iter::once(witness.packet.clone()).chain(later).collect()
}

/// The memory around a packet, and the packet in it: a program that cannot move its ends has no
/// room around.
fn room(program: &object::Program, witness: &Witness, index: u32, packet: &[u8]) -> Vec<u8> {
    let moves = program
        .insns
        .iter()
        .any(|insn| (insn.code, insn.src) == (0x85, 0) && matches!(insn.imm, 44 | 54 | 65));
    let room = if moves { END as usize } else { packet.len() };
    let start = HEAD as usize;
    let mut bytes = vec![0; start + room.max(packet.len())];
    let beyond = |(offset, byte): &(i64, u8)| (PACKET.wrapping_add_signed(*offset), *byte);
    let first = witness.beyond.iter().map(beyond).collect::<Vec<_>>();
    let around = if index == 0 { &first } else { &witness.private };
    set(&mut bytes, packet_at(index) - HEAD, around);
    bytes[start..start + packet.len()].copy_from_slice(packet);
    bytes
}

/// Results of running a witness.
pub(super) struct Ran {
    /// Lookups that hit.
    pub found: Vec<Lookup>,
    /// What the program returned and how many instructions it executed, by packet.
    pub packets: Vec<(u64, u64)>,
}

/// Runs a witness, packet by packet; what `kept` maps hold goes from each to the next.
pub(super) fn run(
    program: &object::Program,
    maps: &[Map],
    tails: &Tails,
    kept: &[bool],
    witness: &Witness,
) -> Result<Ran, String> {
    let mut memory = Memory::default();
    let is_call =
        |place: u32| program.insns.get(place as usize).is_some_and(|insn| insn.code == 0x85);
    let outcomes = witness.branches.iter().filter(|(place, _)| is_call(*place)).copied();
    let mut host = Surroundings {
        maps,
        tails,
        kept,
        start: &witness.private,
        layout: Layout::of(&program.section)?,
        reads: witness.reads.iter().collect(),
        outcomes: outcomes.collect(),
        branches: Vec::new(),
        pc: 0,
        executed: 0,
        data: 0,
        end: 0,
        meta: 0,
        values: vec![None; maps.len()],
        found: Vec::new(),
        left: false,
        entry: None,
    };
    let machine = Machine { program: &program.insns, limit: LIMIT };
    let mut ended = Vec::new();
    for (index, packet) in row(witness).iter().enumerate() {
        let index = index as u32;
        host.data = memory.add(room(program, witness, index, packet)).address() + HEAD;
        (host.end, host.meta) = (host.data + packet.len() as u64, host.data);
        let before = host.executed;
        let mut ran = machine.run(&mut memory, &mut host);
        while let Some(entry) = host.entry.take() {
            host.left = false;
            ran = machine.run_from(entry, &mut memory, &mut host);
        }
        let verdict = match ran {
            Ok(run) => run.result,
            Err(_) if host.left => 0,
            Err(fault) => return Err(fault.to_string()),
        };
        ended.push((verdict, host.executed - before));
        host.left = false;
    }
    let claimed: Vec<(u32, bool)> =
        witness.branches.iter().filter(|(place, _)| !is_call(*place)).copied().collect();
    // A jump to the next instruction decides nothing, and is no branch of the claim.
    let decides = |place: &u32| program.insns.get(*place as usize).is_some_and(|i| i.off != 0);
    host.branches.retain(|(place, _)| decides(place));
    compare(&host.branches, &claimed)?;
    if 1000 * host.executed != witness.work.milli {
        return Err(format!(
            "it takes {} instructions, not {}",
            host.executed,
            witness.work.milli / 1000
        ));
    }
    Ok(Ran { found: host.found, packets: ended })
}
