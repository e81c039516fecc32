//! The files that a simulator reads and writes; `runtime/rtl/nf_driver.cpp` is the other side.

use std::collections::BTreeMap;

use nicforge_codegen::rtl::{RtlArtifact, kind};
use nicforge_ir::{
    Entry, Eviction, Input, InputEvent, Match, Output, Program, ReasonId, TableId, TableKind,
};

use super::{Drive, RtlStats};
use crate::dpdk::{Departure, Refusal};
use crate::outputs::log;

/// What tables are like: number of counters, then for each table kind, capacity, sizes in bytes,
/// and cycles in which an event changes it.
pub fn shape(artifact: &RtlArtifact) -> Vec<u8> {
    let mut words = vec![artifact.counters.len() as u32];
    for (number, form) in artifact.tables.iter().enumerate() {
        let lines = form.bytes.as_ref().map_or(0, |store| store.lines);
        words.extend([
            form.kind.number(),
            form.capacity,
            form.key_bits / 8,
            form.value_bits / 8,
            form.extra_bits / 8,
            lines,
            artifact.change_span.get(number).copied().unwrap_or(0),
        ]);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Input events of a program, as the driver is to give them.
pub fn events(program: &Program, events: &[InputEvent], drive: &Drive) -> Vec<u8> {
    let timers: Vec<&str> =
        program.timers().map(|(timer, _)| program.events[timer].name.as_str()).collect();
    let mut out = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let (kind, port) = match &event.input {
            Input::Net { port, .. } => (if drive.bad.contains(&at) { 2u32 } else { 0 }, *port),
            Input::Host { .. } => (1, 0),
            Input::Tick { .. } if drive.own_ticks => (4, 0),
            Input::Tick { timer } => {
                let number = timers.iter().position(|name| name == timer);
                (3, number.expect("ticks are of the program's timers") as u32)
            }
        };
        let bytes = event.input.bytes();
        out.extend(event.time_ns.to_le_bytes());
        out.extend(event.seed.to_le_bytes());
        for word in [kind, port, bytes.len() as u32, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(bytes);
    }
    out
}

/// Length of a byte string that stays as it is.
const NO_BYTES: u32 = u32::MAX;

/// An entry of a table, for files and for requests.
pub fn entry(artifact: &RtlArtifact, table: TableId, entry: &Entry) -> Vec<u8> {
    let form = &artifact.tables[table.as_u32() as usize];
    let key_size = form.key_bits as usize / 8;
    let buf = entry.buf.as_deref();
    let (mask, detail) = match &entry.matching {
        Match::Exact if form.kind == TableKind::Lpm => (vec![0xff; key_size], form.key_bits),
        Match::Exact => (vec![0xff; key_size], 0),
        Match::Prefix(bits) => (vec![0; key_size], *bits),
        Match::Mask { mask, priority } => (mask.clone(), *priority),
    };
    let mut out = Vec::new();
    for word in [table.as_u32(), detail, buf.map_or(NO_BYTES, |buf| buf.len() as u32), 0] {
        out.extend(word.to_le_bytes());
    }
    for part in [&entry.key, &mask, &entry.value] {
        out.extend(part);
    }
    out.extend(buf.unwrap_or(&[]));
    out
}

/// Table entries.
pub fn fill(artifact: &RtlArtifact, entries: &[(TableId, Entry)]) -> Vec<u8> {
    entries.iter().flat_map(|(table, one)| entry(artifact, *table, one)).collect()
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
        Ok(self.bytes(4)?.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(self.bytes(8)?.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }
}

/// Outputs of events.
pub struct Outputs {
    pub by_event: Vec<Vec<Output>>,
    /// Packets in the order in which they left.
    pub departures: Vec<Departure>,
    /// What LRU tables of a pipe evicted, by event.
    pub evicted: Vec<Vec<Eviction>>,
    /// Tables of a pipe that refused an insertion, by event.
    pub refused: Vec<Vec<Refusal>>,
}

/// Reads what events led to.
pub fn outputs(file: &[u8], events: usize, artifact: &RtlArtifact) -> Result<Outputs, String> {
    let mut found = vec![Vec::new(); events];
    let mut evicted = vec![Vec::new(); events];
    let mut refused = vec![Vec::new(); events];
    let mut departures = Vec::new();
    let mut file = Reader(file);
    while !file.0.is_empty() {
        let (event, number) = (file.u64()? as usize, file.u64()?);
        let (what, size) = (u64::from(file.u32()?), file.u32()? as usize);
        let bytes = file.bytes(size)?.to_vec();
        if what == 0 {
            let table = TableId::from_u32(number as u32);
            if bytes.is_empty() {
                let one = Refusal { table, inserted: (number >> 32) as u32 };
                refused.get_mut(event).ok_or("a refusal of an unknown event")?.push(one);
            } else {
                let (key, by) = bytes.split_at(size / 2);
                let eviction = Eviction { table, key: key.to_vec(), by: by.to_vec() };
                evicted.get_mut(event).ok_or("an eviction by an unknown event")?.push(eviction);
            }
            continue;
        }
        // The driver counts kinds from 1.
        let output = match what - 1 {
            kind::SEND => {
                departures.push(Departure { event, port: number as u32, frame: bytes.clone() });
                Output::Send { port: number as u32, frame: bytes }
            }
            kind::STACK => Output::Stack { frame: bytes },
            kind::HOST_PACKET => Output::HostPacket { frame: bytes },
            kind::HOST_MESSAGE => Output::HostMessage { bytes },
            kind::DMA_WRITE => Output::DmaWrite { addr: number, data: bytes },
            kind::LOG => log(&artifact.logs, number, &bytes)?,
            kind::DROP => {
                let reason =
                    artifact.reasons.get(number as usize).ok_or("an unknown reason to drop")?;
                Output::Drop { reason: ReasonId::from_u32(reason.as_u32()) }
            }
            other => return Err(format!("an output of kind {other}")),
        };
        found.get_mut(event).ok_or("an output of an unknown event")?.push(output);
    }
    Ok(Outputs { by_event: found, departures, evicted, refused })
}

/// Contents of all tables, each sorted.
pub fn tables(
    file: &[u8],
    program: &Program,
    artifact: &RtlArtifact,
) -> Result<BTreeMap<TableId, Vec<Entry>>, String> {
    let mut found: BTreeMap<TableId, Vec<Entry>> =
        program.tables.keys().map(|id| (id, Vec::new())).collect();
    let mut file = Reader(file);
    while !file.0.is_empty() {
        let (number, detail) = (file.u32()?, file.u32()?);
        let (buf_size, _) = (file.u32()?, file.u32()?);
        let form = artifact.tables.get(number as usize).ok_or("an entry of an unknown table")?;
        let key = file.bytes(form.key_bits as usize / 8)?.to_vec();
        let mask = file.bytes(form.key_bits as usize / 8)?.to_vec();
        let value = file.bytes(form.value_bits as usize / 8)?.to_vec();
        let buf = file.bytes(buf_size as usize)?.to_vec();
        let matching = match form.kind {
            TableKind::Lpm => Match::Prefix(detail),
            TableKind::Ternary => Match::Mask { mask, priority: detail },
            _ => Match::Exact,
        };
        let buf = form.bytes.is_some().then_some(buf);
        found.entry(TableId::from_u32(number)).or_default().push(Entry {
            key,
            matching,
            value,
            buf,
        });
    }
    for entries in found.values_mut() {
        entries.sort_by(|a, b| (&a.key, &a.matching).cmp(&(&b.key, &b.matching)));
    }
    Ok(found)
}

/// Counts of a run.
pub fn stats(file: &[u8], artifact: &RtlArtifact) -> Result<RtlStats, String> {
    let mut file = Reader(file);
    let mut next = || file.u64();
    let mut stats = RtlStats {
        events: next()?,
        busy_cycles: next()?,
        cycles: next()?,
        beats_in: next()?,
        waits_in: next()?,
        sent: next()?,
        beats_out: next()?,
        waits_out: next()?,
        to_host: next()?,
        host_beats: next()?,
        host_waits: next()?,
        ..RtlStats::default()
    };
    for at in 0..next()? as usize {
        let name = artifact.counters.get(at).ok_or("a counter too many")?;
        stats.counters.insert(name.clone(), next()?);
    }
    for _ in 0..next()? {
        stats.latencies.push(next()?);
    }
    stats.latencies.sort_unstable();
    Ok(stats)
}
