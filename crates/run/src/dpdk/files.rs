//! The files that a DPDK process reads and writes; `runtime/dpdk/nf_files.h` defines them.

use std::collections::BTreeMap;

use nicforge_codegen::abi;
use nicforge_codegen::dpdk::DpdkArtifact;
use nicforge_ir::{Entry, EventId, Input, InputEvent, Match, Output, Program, TableId, TableKind};

use super::{Departure, DpdkStats, WorkerStats};
use crate::outputs::output;
use crate::shards::{Parts, places};

/// Number of a timer's event; none of the program's, if it has no such timer.
pub(crate) fn timer_number(program: &Program, timer: &str) -> u32 {
    program.event_named(timer).map_or(u32::MAX, EventId::as_u32)
}

/// Input events.
pub fn events(program: &Program, events: &[InputEvent]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        let (kind, port) = match &event.input {
            Input::Net { port, .. } => (abi::input::PACKET, *port),
            Input::Host { .. } => (abi::input::MESSAGE, 0),
            Input::Tick { timer } => (abi::input::TICK, timer_number(program, timer)),
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

/// Table entries.
pub fn fill(artifact: &DpdkArtifact, entries: &[(TableId, Entry)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (table, entry) in entries {
        let buf = entry.buf.as_deref().unwrap_or(&[]);
        let key_size = artifact.host.tables[table.as_u32() as usize].key_size as usize;
        let (detail, mask) = detail(entry, key_size);
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

/// What a program recorded: outputs by event, and packets in the order in which they left.
pub(crate) struct Recorded {
    pub outputs: Vec<Vec<Output>>,
    pub departures: Vec<Departure>,
}

impl Recorded {
    pub fn new(events: usize) -> Recorded {
        Recorded { outputs: vec![Vec::new(); events], departures: Vec::new() }
    }

    /// Takes a record in; `kind` is one of [`abi::output`].
    pub fn add(
        &mut self,
        kind: u32,
        event: usize,
        number: u64,
        bytes: Vec<u8>,
        artifact: &DpdkArtifact,
    ) -> Result<(), String> {
        if kind == abi::output::TX {
            self.departures.push(Departure { event, port: number as u32, frame: bytes });
            return Ok(());
        }
        let Some(output) = output(kind, number, bytes, &artifact.host)? else { return Ok(()) };
        self.outputs.get_mut(event).ok_or("an output of an unknown event")?.push(output);
        Ok(())
    }
}

/// Outputs by event, and packets in the order in which they left.
pub fn outputs(
    file: &[u8],
    events: usize,
    artifact: &DpdkArtifact,
) -> Result<(Vec<Vec<Output>>, Vec<Departure>), String> {
    let mut found = Recorded::new(events);
    let mut file = Reader(file);
    while !file.0.is_empty() {
        file.u64()?;
        let size = file.u64()? as usize;
        let mut log = Reader(file.bytes(size)?);
        while !log.0.is_empty() {
            let (event, number) = (log.u64()? as usize, log.u64()?);
            let (kind, size) = (log.u32()?, log.u32()? as usize);
            let bytes = log.bytes(size)?.to_vec();
            found.add(kind, event, number, bytes, artifact)?;
        }
    }
    Ok((found.outputs, found.departures))
}

/// Tables as the workers have them.
pub struct Shards(BTreeMap<TableId, Vec<(u32, Entry)>>);

impl Shards {
    /// Of entries with the workers that have them.
    pub(crate) fn of(entries: BTreeMap<TableId, Vec<(u32, Entry)>>) -> Shards {
        Shards(entries)
    }
}

/// How an entry matches, of its detail (bits of a prefix, or a priority) and mask.
pub(crate) fn matching(kind: TableKind, detail: u32, mask: Vec<u8>) -> Match {
    match kind {
        TableKind::Lpm => Match::Prefix(detail),
        TableKind::Ternary => Match::Mask { mask, priority: detail },
        _ => Match::Exact,
    }
}

/// The detail and the mask of an entry whose key has so many bytes.
pub(crate) fn detail(entry: &Entry, key_size: usize) -> (u32, Vec<u8>) {
    match &entry.matching {
        Match::Exact => (8 * key_size as u32, vec![0xff; key_size]),
        Match::Prefix(bits) => (*bits, vec![0; key_size]),
        Match::Mask { mask, priority } => (*priority, mask.clone()),
    }
}

/// Reads the dump of all tables.
pub fn shards(file: &[u8], program: &Program, artifact: &DpdkArtifact) -> Result<Shards, String> {
    let mut file = Reader(file);
    let mut found: BTreeMap<TableId, Vec<(u32, Entry)>> = BTreeMap::new();
    while !file.0.is_empty() {
        let (table, detail) = (file.u32()?, file.u32()?);
        let (buf_size, worker) = (file.u32()?, file.u32()?);
        let lies =
            artifact.host.tables.get(table as usize).ok_or("an entry of an unknown table")?;
        let table = TableId::from_u32(table);
        let key = file.bytes(lies.key_size as usize)?.to_vec();
        let mask = file.bytes(lies.key_size as usize)?.to_vec();
        let value = file.bytes(lies.value_size as usize)?.to_vec();
        let buf = file.bytes(buf_size as usize)?.to_vec();
        let matching = matching(program.tables[table].kind, detail, mask);
        let buf = (lies.buf_capacity > 0).then_some(buf);
        found.entry(table).or_default().push((worker, Entry { key, matching, value, buf }));
    }
    Ok(Shards(found))
}

impl Shards {
    /// One table of the shards of each, which began with the entries `before`.
    pub fn merged(
        &self,
        program: &Program,
        artifact: &DpdkArtifact,
        before: &[(TableId, Entry)],
    ) -> BTreeMap<TableId, Vec<Entry>> {
        let tables = program.tables.keys().map(|table| {
            let filled = before.iter().filter(|(other, _)| *other == table).map(|(_, entry)| entry);
            let found = self.0.get(&table).into_iter().flatten().map(|(_, entry)| entry.clone());
            let index = table.as_u32() as usize;
            let owners =
                if artifact.sharded[index] { artifact.pipeline.workers() as usize } else { 1 };
            let parts = Parts { program, table, owners, commutes: artifact.commutes[index] };
            (table, parts.merged(&places(filled), found))
        });
        tables.collect()
    }
}

/// Counters.
pub fn stats(text: &str) -> Result<DpdkStats, String> {
    let mut stats = DpdkStats::default();
    for line in text.lines() {
        let problem = || format!("counter `{line}`");
        let (name, value) = line.split_once(' ').ok_or_else(problem)?;
        let parts: Vec<&str> = name.split('.').collect();
        let index =
            |at: usize| parts.get(at).and_then(|p| p.parse::<usize>().ok()).ok_or_else(problem);
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
                "overrun" => worker.overrun = value,
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
            "link_moved" => stats.link.moved = value,
            "link_commands" => stats.link.commands = value,
            "link_bytes" => stats.link.bytes = value,
            "link_device" => stats.link.device = value != 0,
            "tsc_hz" => stats.tsc_hz = value,
            _ => return Err(problem()),
        }
    }
    Ok(stats)
}
