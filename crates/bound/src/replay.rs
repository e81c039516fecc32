//! Runs a witness: the path taken and its cost must be the path and the cost that were claimed.

mod ebpf_world;

use std::collections::{BTreeMap, HashMap, VecDeque};

use nicforge_ir::interp::{BodyOf, Interp, Tracer};
use nicforge_ir::{HandlerId, Input, InputEvent, InstId, Program, Verified};
use nicforge_isa::nfp::{self, DramRead, Entry, Insn};
use nicforge_isa::object::{self, Map};

use crate::air::Lowered;
use crate::ebpf::{self, Tails, VALUES, VALUES_EACH};
use crate::nfp::dram_offset;
use crate::witness::Witness;

use ebpf_world::{row, run};

/// Most instructions a witness may take.
const LIMIT: u64 = 10_000_000;

/// Runs a witness on the interpreter of NFP listings; how many instructions it executes.
///
/// # Errors
/// What differs from the claim.
pub fn nfp(insns: &[Insn], witness: &Witness) -> Result<u64, String> {
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
    Ok(run.executed)
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

/// An entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    pub map: String,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Contents that maps must have for the path.
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
    chained(program, maps, &Tails::new(), witness)
}

/// Replays a witness of a program with others behind it that its tail calls lead to.
///
/// # Errors
/// What differs from the claim.
pub fn chained(
    program: &object::Program,
    maps: &[Map],
    tails: &Tails,
    witness: &Witness,
) -> Result<(), String> {
    run(program, maps, tails, &[], witness).map(|_| ())
}

/// The entries that arrays and variables hold before the first packet of a row, as far as the path
/// depends on them; other bytes are as the object has them.
pub fn entries_before(
    program: &object::Program,
    maps: &[Map],
    tails: &Tails,
    witness: &Witness,
) -> Vec<TableEntry> {
    let mut found: BTreeMap<(usize, u64), Vec<u8>> = BTreeMap::new();
    let kept = ebpf::kept(program, maps, tails);
    for (address, byte) in &witness.private {
        let Some(at) = address.checked_sub(VALUES) else { continue };
        let map = (at / VALUES_EACH) as usize;
        let Some(shape) = maps.get(map).filter(|_| kept[map]) else { continue };
        // Variables are one entry as large as their section.
        let (stride, mut start) = match shape.kind {
            Some(_) => (ebpf::stride(shape), Vec::new()),
            None => (VALUES_EACH, shape.data.clone()),
        };
        start.resize(start.len().max(shape.value_size as usize), 0);
        let at = at % VALUES_EACH;
        let value = found.entry((map, at / stride)).or_insert(start);
        if let Some(place) = value.get_mut((at % stride) as usize) {
            *place = *byte;
        }
    }
    let entry = |((map, index), value): ((usize, u64), Vec<u8>)| TableEntry {
        map: maps[map].name.clone(),
        key: (index as u32).to_le_bytes().to_vec(),
        value,
    };
    found.into_iter().map(entry).collect()
}

/// A packet of a row, what the program returns for it and the instructions that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InRow {
    pub packet: Vec<u8>,
    pub verdict: u64,
    pub executed: u64,
}

/// Runs a witness of several packets in a row ([`crate::ebpf::in_a_row`]).
///
/// # Errors
/// What differs from the claim.
pub fn in_a_row(
    program: &object::Program,
    maps: &[Map],
    tails: &Tails,
    witness: &Witness,
) -> Result<Vec<InRow>, String> {
    let kept = ebpf::kept(program, maps, tails);
    let ran = run(program, maps, tails, &kept, witness)?;
    let both = row(witness).into_iter().zip(ran.packets);
    Ok(both.map(|(packet, (verdict, executed))| InRow { packet, verdict, executed }).collect())
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
    let ran = run(program, maps, &Tails::new(), &[], witness)?;
    let lookups = ran.found;
    let mut result = Contents { verdict: ran.packets[0].0, ..Contents::default() };
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
