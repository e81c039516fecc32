//! The files that a DPDK process reads and writes; `runtime/dpdk/nf_files.h` defines them.

use std::collections::BTreeMap;

use nicforge_codegen::dpdk::DpdkArtifact;
use nicforge_ir::{
    CommuteOp, Entry, Input, InputEvent, Match, Output, Program, ReasonId, TableId, TableKind, Type,
};

use super::{Departure, DpdkStats, WorkerStats};

/// Input events.
pub fn events(events: &[InputEvent]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        let (host, port, bytes) = match &event.input {
            Input::Net { port, frame } => (0u32, *port, frame),
            Input::Host { message } => (1, 0, message),
        };
        out.extend(event.time_ns.to_le_bytes());
        out.extend(event.seed.to_le_bytes());
        for word in [host, port, bytes.len() as u32, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(bytes);
    }
    out
}

/// Table entries.
pub fn fill(artifact: &DpdkArtifact, entries: &[(TableId, Entry)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (table, entry) in entries {
        let buf = entry.buf.as_deref().unwrap_or(&[]);
        let key_size = artifact.host.tables[table.as_u32() as usize].key_size as usize;
        let (mask, detail) = match &entry.matching {
            Match::Exact => (vec![0xff; key_size], 8 * key_size as u32),
            Match::Prefix(bits) => (vec![0; key_size], *bits),
            Match::Mask { mask, priority } => (mask.clone(), *priority),
        };
        for word in [table.as_u32(), detail, buf.len() as u32, 0] {
            out.extend(word.to_le_bytes());
        }
        for part in [&entry.key, &mask, &entry.value] {
            out.extend(part);
        }
        out.extend(buf);
    }
    out
}

/// Reads numbers and bytes off the front of a file.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, size: usize) -> Result<&'a [u8], String> {
        let (now, rest) = self.0.split_at_checked(size).ok_or("a file ends too early")?;
        self.0 = rest;
        Ok(now)
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(self.bytes(4)?.iter().rev().fold(0, |word, byte| word << 8 | *byte as u32))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(self.bytes(8)?.iter().rev().fold(0, |word, byte| word << 8 | *byte as u64))
    }
}

/// Outputs by event, and packets in the order in which they left.
pub fn outputs(
    file: &[u8],
    events: usize,
    artifact: &DpdkArtifact,
) -> Result<(Vec<Vec<Output>>, Vec<Departure>), String> {
    let mut found = vec![Vec::new(); events];
    let mut departures = Vec::new();
    let mut file = Reader(file);
    while !file.0.is_empty() {
        file.u64()?;
        let size = file.u64()? as usize;
        let mut log = Reader(file.bytes(size)?);
        while !log.0.is_empty() {
            let (event, number) = (log.u64()? as usize, log.u64()?);
            let (kind, size) = (log.u32()?, log.u32()? as usize);
            let bytes = log.bytes(size)?.to_vec();
            let output = match kind {
                1 => Output::Send { port: number as u32, frame: bytes },
                2 => Output::Stack { frame: bytes },
                3 => Output::HostPacket { frame: bytes },
                4 => Output::HostMessage { bytes },
                5 => Output::DmaWrite { addr: number, data: bytes },
                // The runtime's own reason is the last one; it is in the counters.
                6 if number as usize + 1 == artifact.host.reasons.len() => continue,
                6 => Output::Drop { reason: ReasonId::from_u32(number as u32) },
                7 => {
                    let format = artifact.host.logs.get(number as usize).ok_or("an unknown log")?;
                    let words =
                        bytes.chunks_exact(8).map(|w| w.iter().rev().fold(0, |n, b| n << 8 | *b as u64));
                    Output::Log { text: format.line(&words.collect::<Vec<u64>>()) }
                }
                8 => {
                    departures.push(Departure { event, port: number as u32, frame: bytes });
                    continue;
                }
                kind => return Err(format!("an output of kind {kind}")),
            };
            found.get_mut(event).ok_or("an output of an unknown event")?.push(output);
        }
    }
    Ok((found, departures))
}

/// Tables as the workers have them.
pub struct Shards(BTreeMap<TableId, Vec<(u32, Entry)>>);

impl Shards {
    /// Of entries with the workers that have them.
    pub(crate) fn of(entries: BTreeMap<TableId, Vec<(u32, Entry)>>) -> Shards {
        Shards(entries)
    }
}

/// Reads the dump of all tables.
pub fn shards(file: &[u8], program: &Program, artifact: &DpdkArtifact) -> Result<Shards, String> {
    let mut file = Reader(file);
    let mut found: BTreeMap<TableId, Vec<(u32, Entry)>> = BTreeMap::new();
    while !file.0.is_empty() {
        let (table, detail) = (file.u32()?, file.u32()?);
        let (buf_size, worker) = (file.u32()?, file.u32()?);
        let lies = artifact.host.tables.get(table as usize).ok_or("an entry of an unknown table")?;
        let table = TableId::from_u32(table);
        let key = file.bytes(lies.key_size as usize)?.to_vec();
        let mask = file.bytes(lies.key_size as usize)?.to_vec();
        let value = file.bytes(lies.value_size as usize)?.to_vec();
        let buf = file.bytes(buf_size as usize)?.to_vec();
        let matching = match program.tables[table].kind {
            TableKind::Lpm => Match::Prefix(detail),
            TableKind::Ternary => Match::Mask { mask, priority: detail },
            _ => Match::Exact,
        };
        let buf = (lies.buf_capacity > 0).then_some(buf);
        found.entry(table).or_default().push((worker, Entry { key, matching, value, buf }));
    }
    Ok(Shards(found))
}

type Place = (Vec<u8>, Match);

impl Shards {
    /// One table of the shards of each. An entry belongs to the worker that changed it, the others still have what it was
    /// filled with; where all only ever applied one commutative op, their results are combined.
    pub fn merged(
        &self,
        program: &Program,
        artifact: &DpdkArtifact,
        before: &[(TableId, Entry)],
    ) -> BTreeMap<TableId, Vec<Entry>> {
        let tables = program.tables.keys().map(|table| {
            let mut filled: BTreeMap<Place, Entry> = BTreeMap::new();
            for (_, entry) in before.iter().filter(|(other, _)| *other == table) {
                filled.insert((entry.key.clone(), entry.matching.clone()), entry.clone());
            }
            let mut places: BTreeMap<Place, Vec<Entry>> = BTreeMap::new();
            for (_, entry) in self.0.get(&table).into_iter().flatten() {
                places.entry((entry.key.clone(), entry.matching.clone())).or_default().push(entry.clone());
            }
            let index = table.as_u32() as usize;
            let owners = if artifact.sharded[index] { artifact.pipeline.workers() as usize } else { 1 };
            let is_array = program.tables[table].kind == TableKind::Array;
            let mut entries = Vec::new();
            for (place, found) in places {
                let was = filled.get(&place);
                // Somebody deleted it: those that did not touch it still have it.
                if was.is_some() && found.len() < owners {
                    continue;
                }
                let zero = vec![0; artifact.host.tables[index].value_size as usize];
                let base = was.map_or(&zero, |entry| &entry.value);
                let merged = match artifact.commutes[index] {
                    Some(op) if found.len() > 1 => combine(program, table, op, base, &found),
                    _ => {
                        let changed = |e: &&Entry| match was {
                            Some(was) => {
                                e.value != was.value
                                    || e.buf.as_deref().unwrap_or(&[]) != was.buf.as_deref().unwrap_or(&[])
                            }
                            None => e.value != zero || e.buf.as_ref().is_some_and(|b| !b.is_empty()),
                        };
                        found.iter().find(changed).unwrap_or(&found[0]).clone()
                    }
                };
                let empty = merged.value == zero && merged.buf.as_ref().is_none_or(Vec::is_empty);
                if !(is_array && empty) {
                    entries.push(merged);
                }
            }
            entries.sort();
            (table, entries)
        });
        tables.collect()
    }
}

/// The entry that all workers' commutative updates make together, from the value `base`.
fn combine(program: &Program, table: TableId, op: CommuteOp, base: &[u8], found: &[Entry]) -> Entry {
    let mut merged = found[0].clone();
    for (at, size, signed) in integers(program, program.tables[table].value, 0) {
        let read = |bytes: &[u8]| {
            let raw = bytes[at..at + size].iter().rev().fold(0u64, |word, byte| word << 8 | *byte as u64);
            let shift = 64 - 8 * size as u32;
            if signed { ((raw << shift) as i64 >> shift) as i128 } else { raw as i128 }
        };
        let start = read(base);
        let parts = found.iter().map(|entry| read(&entry.value));
        let all = match op {
            CommuteOp::Add => start + parts.map(|part| part - start).sum::<i128>(),
            CommuteOp::Or => parts.fold(start, |all, part| all | part),
            CommuteOp::Min => parts.fold(start, i128::min),
            CommuteOp::Max => parts.fold(start, i128::max),
        };
        merged.value[at..at + size].copy_from_slice(&all.to_le_bytes()[..size]);
    }
    merged
}

/// Offset, size and signedness of each integer in a type.
fn integers(program: &Program, ty: Type, base: usize) -> Vec<(usize, usize, bool)> {
    match ty {
        Type::Int { signed, .. } => vec![(base, program.size_of(ty) as usize, signed)],
        Type::Struct(id) => {
            let slots = program.struct_layout(id).1;
            let fields = program.structs[id].fields.iter().zip(slots);
            fields
                .flat_map(|(f, slot)| integers(program, f.ty, base + slot.bit_offset as usize / 8))
                .collect()
        }
        Type::Array(id) => {
            let def = program.arrays[id];
            let size = program.size_of(def.elem) as usize;
            (0..def.len as usize).flat_map(|i| integers(program, def.elem, base + i * size)).collect()
        }
        Type::Packet => Vec::new(),
    }
}

/// Counters.
pub fn stats(text: &str) -> Result<DpdkStats, String> {
    let mut stats = DpdkStats::default();
    for line in text.lines() {
        let problem = || format!("counter `{line}`");
        let (name, value) = line.split_once(' ').ok_or_else(problem)?;
        let parts: Vec<&str> = name.split('.').collect();
        let index = |at: usize| parts.get(at).and_then(|p| p.parse::<usize>().ok()).ok_or_else(problem);
        if parts[0] == "worker" {
            let number = index(1)?;
            if stats.workers.len() <= number {
                stats.workers.resize(number + 1, WorkerStats::default());
            }
            let worker = &mut stats.workers[number];
            if parts.get(2) == Some(&"stage") {
                worker.stage = value.parse().ok();
                continue;
            }
            let value: u64 = value.parse().map_err(|_| problem())?;
            let table = |at| index(at).map(|n| TableId::from_u32(n as u32));
            match parts.get(2).copied().unwrap_or("") {
                "events" => worker.events = value,
                "cycles" => worker.cycles = value,
                "empty_polls" => worker.empty_polls = value,
                "depth" => worker.depth = value,
                "full" => worker.full = value,
                "lost" => worker.lost = value,
                "tx_failed" => worker.tx_failed = value,
                "messages" => worker.messages = value,
                "dma_writes" => worker.dma_writes = value,
                "logs" => worker.logs = value,
                "gone" => worker.gone = value != 0,
                "drop" => worker.drops.push(value),
                "refused" => drop(worker.refused.insert(table(3)?, value)),
                "evicted" => drop(worker.evicted.insert(table(3)?, value)),
                _ => return Err(problem()),
            }
            continue;
        }
        let value: u64 = value.parse().map_err(|_| problem())?;
        match parts[0] {
            "sent" => stats.sent.push(value),
            "received" => stats.received = value,
            "stack" => stats.to_stack = value,
            "host" => stats.to_host = value,
            "no_port" => stats.no_port = value,
            "missed" => stats.missed.push(value),
            "stranded" => stats.stranded = value,
            "stranded_events" => stats.stranded_events = value,
            "tsc_hz" => stats.tsc_hz = value,
            _ => return Err(problem()),
        }
    }
    Ok(stats)
}
