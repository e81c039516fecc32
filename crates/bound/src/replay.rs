//! Runs a witness: the path taken and its cost must be the path and the cost that were claimed.

use std::collections::{HashMap, VecDeque};

use nicforge_ir::interp::{BodyOf, Interp, Tracer};
use nicforge_ir::{HandlerId, Input, InputEvent, InstId, Program, Verified};
use nicforge_isa::ebpf::{Fault, Host, Machine, Memory, RegionId};
use nicforge_isa::nfp::{self, DramRead, Entry, Insn};
use nicforge_isa::object::{self, Map, PSEUDO_VALUE};

use crate::air::Lowered;
use crate::ebpf::{self, INDEX_MASK, VALUES, VALUES_EACH};
use crate::nfp::dram_offset;
use crate::witness::{TableRead, Witness};

/// Most instructions a witness may take.
const LIMIT: u64 = 10_000_000;

/// Runs a witness on the interpreter of NFP listings.
///
/// # Errors
/// What differs from the claim.
pub fn nfp(insns: &[Insn], witness: &Witness) -> Result<(), String> {
    let mut reads: VecDeque<_> = witness.reads.iter().collect();
    let mut dram = |read: &DramRead| {
        let mut bytes = vec![0; read.bytes];
        while let Some(next) = reads.pop_front_if(|next| next.place as usize == read.insn) {
            let at = dram_offset(next.address).wrapping_sub(read.address) as usize;
            if let Some(place) =
                at.checked_add(next.bytes.len()).and_then(|end| bytes.get_mut(at..end))
            {
                place.copy_from_slice(&next.bytes);
            }
        }
        bytes
    };
    let mut packet = witness.packet.clone();
    // What the packet writes is not read back: where anybody writes, reads are claimed one by one.
    let mut written = |_: u64, _: &[u8]| {};
    let entry = Entry { packet: &mut packet, dram: &mut dram, written: &mut written, limit: LIMIT };
    let run = nfp::Machine::run(insns, entry).map_err(|fault| fault.to_string())?;
    let branches: Vec<(u32, bool)> =
        run.branches.iter().map(|(at, taken)| (*at as u32, *taken)).collect();
    compare(&branches, &witness.branches)?;
    let (cycles, micro) = (1000 * run.clock.cycles, run.clock.dram_micro);
    if (cycles, micro) != (witness.work.milli, witness.work.micro) {
        return Err(format!(
            "it takes {} cycles and {} of DRAM, not {} and {}",
            cycles as f64 / 1e3,
            micro as f64 / 1e6,
            witness.work.milli as f64 / 1e3,
            witness.work.micro as f64 / 1e6
        ));
    }
    Ok(())
}

/// Runs a witness of an αIR program on the reference interpreter. Where what is unknown decides,
/// there is nothing to compare: the interpreter's tables are empty.
///
/// # Errors
/// What differs from the claim.
pub fn air(
    program: &Verified<Program>,
    lowered: &Lowered,
    witness: &Witness,
) -> Result<(), String> {
    if !lowered.unknown.is_empty() {
        return Ok(());
    }
    let mut places = HashMap::new();
    for (place, origin) in lowered.origin.iter().enumerate() {
        places.insert(*origin, place as u32);
    }
    let mut ran = Branches { places, taken: Vec::new() };
    let input = Input::Net { port: 0, frame: witness.packet.clone() };
    let event = InputEvent { time_ns: 0, seed: 0, input };
    Interp::new(program).run_traced(&event, &mut ran).map_err(|e| e.to_string())?;
    compare(&ran.taken, &witness.branches)
}

/// The branches of a run in the interpreter.
struct Branches {
    places: HashMap<(HandlerId, InstId), u32>,
    taken: Vec<(u32, bool)>,
}

impl Tracer for Branches {
    fn branch(&mut self, body: BodyOf, inst: InstId, taken: bool) {
        if let BodyOf::Handler(handler) = body
            && let Some(place) = self.places.get(&(handler, inst))
        {
            self.taken.push((*place, taken));
        }
    }
}

/// What surrounds an eBPF program when its witness is run.
struct Surroundings<'a> {
    maps: &'a [Map],
    reads: VecDeque<&'a TableRead>,
    /// Lookups and whether they hit.
    hits: VecDeque<(u32, bool)>,
    branches: Vec<(u32, bool)>,
    pc: usize,
    packet: RegionId,
    length: u64,
    values: Vec<Option<RegionId>>,
    found: Vec<Lookup>,
}

/// A lookup that hit.
struct Lookup {
    map: usize,
    /// Number of the value in the symbolic map.
    index: u64,
    key: Vec<u8>,
}

impl Surroundings<'_> {
    fn value(&mut self, map: usize, memory: &mut Memory) -> RegionId {
        let size = self.maps[map].data.len().max(self.maps[map].value_size as usize);
        let data = self.maps[map].data.clone();
        *self.values[map].get_or_insert_with(|| {
            let mut bytes = data;
            bytes.resize(size, 0);
            memory.add(bytes)
        })
    }

    fn next_read(&mut self, pc: usize) -> Option<u64> {
        let read = self.reads.pop_front_if(|read| read.place as usize == pc)?;
        let mut bytes = [0u8; 8];
        bytes[..read.bytes.len()].copy_from_slice(&read.bytes);
        Some(u64::from_le_bytes(bytes))
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
        Ok(match offset {
            0 | 8 => self.packet.address(),
            4 => self.packet.address() + self.length,
            _ => 0,
        })
    }

    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        let pc = self.pc;
        let result = self.next_read(pc);
        if helper != 1 {
            return Ok(result.unwrap_or(0));
        }
        let hit = self.hits.pop_front_if(|(place, _)| *place as usize == pc);
        match hit {
            Some((_, true)) => {
                let map = (args[0] as usize).min(self.maps.len() - 1);
                let key = memory.read(args[1], self.maps[map].key_size as usize)?.to_vec();
                let number = result
                    .or_else(|| Some(u32::from_le_bytes(key.get(..4)?.try_into().ok()?).into()));
                let index = number.unwrap_or(0) & INDEX_MASK;
                self.found.push(Lookup { map, index, key });
                Ok(self.value(map, memory).address())
            }
            Some((_, false)) => Ok(0),
            None => {
                Err(Fault::Helper { helper, message: "a lookup that was not claimed".to_string() })
            }
        }
    }

    fn at(&mut self, pc: usize) {
        self.pc = pc;
    }

    fn branch(&mut self, pc: usize, taken: bool) {
        self.branches.push((pc as u32, taken));
    }

    fn load(&mut self, pc: usize, size: usize) -> Option<u64> {
        let mask = if size == 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
        // Constant data has one content, which the memory holds.
        self.next_read(pc).map(|value| value & mask)
    }
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    pub map: String,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// What maps must hold for the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub entries: Vec<TableEntry>,
    /// The path also depends on what no map holds: results of helpers, the context, variables.
    pub more: bool,
    /// What the program returns at the path's end.
    pub verdict: u64,
}

/// Runs a witness on the interpreter of eBPF.
///
/// # Errors
/// What differs from the claim.
pub fn ebpf(program: &object::Program, maps: &[Map], witness: &Witness) -> Result<(), String> {
    run(program, maps, witness).map(|_| ())
}

/// The entries that the slowest packet finds, with the keys it looks for.
///
/// # Errors
/// What differs from the claim.
pub fn contents(
    program: &object::Program,
    maps: &[Map],
    witness: &Witness,
) -> Result<Contents, String> {
    let (lookups, verdict) = run(program, maps, witness)?;
    let mut result = Contents { verdict, ..Contents::default() };
    let mut values: Vec<Option<Vec<u8>>> = vec![None; lookups.len()];
    let calls = |place: u32| {
        program.insns.get(place as usize).is_some_and(|insn| (insn.code, insn.imm) == (0x85, 1))
    };
    for read in &witness.reads {
        let map =
            usize::try_from(read.address.wrapping_sub(VALUES) / VALUES_EACH).unwrap_or(usize::MAX);
        let Some(shape) = maps.get(map).filter(|shape| !shape.constant) else {
            let needed = read.bytes.iter().any(|byte| *byte != 0);
            result.more |= needed && read.address < VALUES && !calls(read.place);
            continue;
        };
        let (at, stride) = ((read.address - VALUES) % VALUES_EACH, ebpf::stride(shape));
        let known =
            lookups.iter().position(|lookup| (lookup.map, lookup.index) == (map, at / stride));
        let Some(lookup) = known else {
            result.more |= read.bytes.iter().any(|byte| *byte != 0);
            continue;
        };
        let value = values[lookup].get_or_insert_with(|| vec![0; shape.value_size as usize]);
        let from = (at % stride) as usize;
        if let Some(place) = value.get_mut(from..from + read.bytes.len()) {
            // What others write later does not count.
            if place.iter().all(|byte| *byte == 0) {
                place.copy_from_slice(&read.bytes);
            }
        }
    }
    for (lookup, value) in lookups.into_iter().zip(values) {
        let shape = &maps[lookup.map];
        let value = value.unwrap_or_else(|| vec![0; shape.value_size as usize]);
        result.entries.push(TableEntry { map: shape.name.clone(), key: lookup.key, value });
    }
    Ok(result)
}

fn run(
    program: &object::Program,
    maps: &[Map],
    witness: &Witness,
) -> Result<(Vec<Lookup>, u64), String> {
    let mut memory = Memory::default();
    let packet = memory.add(witness.packet.clone());
    let is_call =
        |place: u32| program.insns.get(place as usize).is_some_and(|insn| insn.code == 0x85);
    let lookups = witness.branches.iter().filter(|(place, _)| is_call(*place)).copied();
    let mut host = Surroundings {
        maps,
        reads: witness.reads.iter().collect(),
        hits: lookups.collect(),
        branches: Vec::new(),
        pc: 0,
        packet,
        length: witness.packet.len() as u64,
        values: vec![None; maps.len()],
        found: Vec::new(),
    };
    let run = Machine { program: &program.insns, limit: LIMIT }
        .run(&mut memory, &mut host)
        .map_err(|e| e.to_string())?;
    let claimed: Vec<(u32, bool)> =
        witness.branches.iter().filter(|(place, _)| !is_call(*place)).copied().collect();
    // A jump to the next instruction decides nothing, and is no branch of the claim.
    let decides = |place: &u32| program.insns.get(*place as usize).is_some_and(|i| i.off != 0);
    host.branches.retain(|(place, _)| decides(place));
    compare(&host.branches, &claimed)?;
    if 1000 * run.executed != witness.work.milli {
        return Err(format!(
            "it takes {} instructions, not {}",
            run.executed,
            witness.work.milli / 1000
        ));
    }
    Ok((host.found, run.result))
}

/// The first branch that goes another way than claimed.
pub(crate) fn compare(taken: &[(u32, bool)], claimed: &[(u32, bool)]) -> Result<(), String> {
    let differs = taken.iter().zip(claimed).find(|(taken, claimed)| taken != claimed);
    match differs {
        Some(((at, way), (claimed, _))) => {
            let way = if *way { "is taken" } else { "is not taken" };
            Err(format!(
                "the branch at instruction {at} {way}; claimed was one at {claimed} the other way"
            ))
        }
        None if taken.len() != claimed.len() => {
            Err(format!("{} branches are executed, {} were claimed", taken.len(), claimed.len()))
        }
        None => Ok(()),
    }
}
