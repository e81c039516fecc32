//! A generated program in the kernel: its counters, records, messages and maps.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use nicforge_codegen::XdpArtifact;
use nicforge_ir::{InputEvent, Output, ReasonId, TableId};

use super::attach::{Attached, attach};
use super::error::XdpError;
use super::globals::{Globals, Place};
use super::host_ring;
use super::tables::Tables;
use crate::compile::Mode;
use crate::process::Process;
use crate::ring::Ring;

/// A generated program in the kernel. It leaves the kernel when this is dropped.
pub struct Loaded {
    pub(super) ring: Mutex<Option<Ring>>,
    /// Handlers in this process. Before the rest, so that its thread ends first.
    pub(super) process: Option<Process>,
    /// Events without a packet for each thread of the process.
    pub(super) rings: Vec<MapHandle>,
    /// The CPU of every replica.
    pub(super) cpus: Vec<u32>,
    pub(super) globals: Option<Arc<Globals>>,
    pub(super) places: Places,
    pub(super) tables: Tables,
    pub(super) artifact: XdpArtifact,
    pub(super) ports: u32,
    pub(super) mode: Mode,
    /// Event name and program name of each handler.
    pub(super) entries: Vec<(String, String)>,
    /// Of a planned program's stages, the id of the queue's map.
    pub(crate) queues: Vec<Option<u32>>,
    pub(super) _turned_away: Option<libbpf_rs::Link>,
    pub(super) object: Object,
}

/// Where the variables of the run-time contract are in `.bss`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub event: Option<Place>,
    pub drops: Option<Place>,
    pub refused: Option<Place>,
    pub recorded: Option<Place>,
    pub refusals: Option<Place>,
    pub order: Option<Place>,
    pub unsent: Option<Place>,
    pub asleep: Option<Place>,
    pub values: Option<Place>,
}

/// An insert that a full table refused.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Counted from the first event that was recorded.
    pub event: u64,
    pub table: TableId,
    /// Digest of the key, as [`nicforge_ir::Interp::refuse_keys`] takes it; none of stages in the
    /// process, of which the first inserts of the event are meant.
    pub key: Option<u32>,
}

impl Loaded {
    /// The mode that the object was compiled for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The artifact this was loaded from.
    pub fn artifact(&self) -> &XdpArtifact {
        &self.artifact
    }

    /// Number of ports of the program.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// The program's tables; usable from any thread and as long as wanted.
    pub fn tables(&self) -> Tables {
        self.tables.clone()
    }

    /// Events that came to the process so far, by their names; empty if there is none.
    pub fn process_events(&self) -> Vec<(String, u64)> {
        let Some(process) = &self.process else { return Vec::new() };
        let shared = &process.shared;
        let name =
            |edge: &crate::process::Edge| shared.program().events[edge.lies.event].name.clone();
        shared.edges.iter().map(name).zip(shared.counts().arrived).collect()
    }

    /// Packets dropped so far by reason, in the artifact's order: reason (none for the runtime's
    /// own), text, count. Behind them, of planned programs, those that found a queue full, and
    /// those that the process could not send.
    pub fn drops(&self) -> Vec<(Option<ReasonId>, String, u64)> {
        let by_stage = self.stage_drops();
        let reasons = self.artifact.reasons.iter().enumerate();
        let mut list: Vec<(Option<ReasonId>, String, u64)> = reasons
            .map(|(at, (id, text))| (*id, text.clone(), by_stage.iter().map(|s| s[at]).sum()))
            .collect();
        let stages = self.artifact.pipeline.iter().flat_map(|pipeline| &pipeline.stages);
        let queues = stages
            .zip(self.turned_away())
            .filter(|(stage, _)| stage.queue.is_some() || stage.process);
        list.extend(
            queues.map(|(stage, n)| (None, format!("the queue of `{}` was full", stage.name), n)),
        );
        if let Some(process) = &self.process {
            list.push((
                None,
                "it could not leave the process".to_string(),
                process.shared.counts().unsent,
            ));
        }
        list
    }

    /// Drops by stage, each in the artifact's order; one stage unless the program is planned.
    pub fn stage_drops(&self) -> Vec<Vec<u64>> {
        let stages = self.artifact.pipeline.as_ref().map_or(1, |pipeline| pipeline.stages.len());
        let reasons = self.artifact.reasons.len();
        let counts = self.counters(self.places.drops, stages * reasons);
        let mut list: Vec<Vec<u64>> = counts.chunks(reasons).map(<[u64]>::to_vec).collect();
        let inside =
            self.process.as_ref().map(|process| process.shared.counts().drops).unwrap_or_default();
        for (stage, more) in list.iter_mut().zip(inside) {
            stage.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
        list
    }

    /// Inserts refused so far by each table, because it was full.
    pub fn refused(&self) -> Vec<(TableId, u64)> {
        let last = self.artifact.tables.iter().map(|table| table.table.as_u32() as usize + 1).max();
        let counts = self.counters(self.places.refused, last.unwrap_or(0));
        let of = |table: TableId| (table, counts[table.as_u32() as usize]);
        let mut list: Vec<(TableId, u64)> =
            self.artifact.tables.iter().map(|table| of(table.table)).collect();
        if let (Some(process), Some(inside)) = (&self.process, &self.artifact.process) {
            list.extend(inside.tables.iter().map(|table| (*table, process.shared.refused(*table))));
        }
        list
    }

    pub(super) fn counters(&self, place: Option<Place>, wanted: usize) -> Vec<u64> {
        let (Some(globals), Some(place)) = (&self.globals, place) else { return vec![0; wanted] };
        (0..wanted)
            .map(|i| if i < place.size / 8 { globals.u64(place.offset + 8 * i) } else { 0 })
            .collect()
    }

    /// Where drops by reason and refusals by table are counted in the global data.
    pub(crate) fn counter_places(&self) -> (Option<Place>, Option<Place>) {
        (self.places.drops, self.places.refused)
    }

    /// An own descriptor of the map of the global data that the program writes.
    pub(crate) fn globals_fd(&self) -> Option<OwnedFd> {
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"))?;
        map.as_fd().try_clone_to_owned().ok()
    }

    /// Number of events whose time and seed were kept so far (mode [`Mode::Record`]).
    pub fn recorded(&self) -> u64 {
        self.counters(self.places.recorded, 1)[0]
    }

    /// Attaches the handler of `net_recv` to an interface of the calling thread's network
    /// namespace.
    pub fn attach(&self, ifindex: u32, interface: &str) -> Result<Attached, XdpError> {
        attach(self.handler_fd("net_recv")?, ifindex, interface)
    }

    /// Sets time and seed of events to what the program recorded from entry `from` on. Programs
    /// that read neither record nothing, and the events stay as they are.
    pub(crate) fn read_record(&self, from: u64, events: &mut [InputEvent]) -> Result<(), XdpError> {
        let count = self.recorded() - from;
        if self.mode != Mode::Record || count == 0 {
            return Ok(());
        }
        let map = self.object.maps().find(|map| map.name() == "nf_record");
        let map =
            map.ok_or_else(|| XdpError::Contract("there is no map `nf_record`".to_string()))?;
        if count != events.len() as u64 || from + count > u64::from(map.max_entries()) {
            return Err(XdpError::Contract(format!(
                "{count} of {} events were recorded from entry {from} on; `nf_record` holds {}",
                events.len(),
                map.max_entries()
            )));
        }
        for (index, event) in (from as u32..).zip(events) {
            let entry =
                map.lookup(&index.to_le_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
            let word =
                |at: usize| Some(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?));
            (event.time_ns, event.seed) = word(0).zip(word(8)).ok_or_else(|| {
                XdpError::Contract("`nf_record` is not { u64 now; u64 seed; }".to_string())
            })?;
        }
        Ok(())
    }

    /// Which events, counted from the first one recorded, each table refused since entry `from`;
    /// kept for planned programs in mode [`Mode::Record`].
    pub(crate) fn read_refusals(&self, from: u64) -> Result<Vec<Refusal>, XdpError> {
        let inside =
            self.process.as_ref().map(|process| process.shared.take_refusals()).unwrap_or_default();
        let in_process = |(number, table)| Refusal { event: u64::from(number), table, key: None };
        let mut list: Vec<Refusal> = inside.into_iter().map(in_process).collect();
        let count = self.refusals();
        let Some(map) = self.map_named("nf_refusals").filter(|_| count > from) else {
            return Ok(list);
        };
        if count > u64::from(map.max_entries()) {
            let (most, what) = (
                map.max_entries(),
                "refused inserts of one run can be repeated by the interpreter",
            );
            return Err(XdpError::Contract(format!(
                "only {most} {what}; use fewer packets or larger tables"
            )));
        }
        let entry = |at: u64| {
            let value = map.lookup(&(at as u32).to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
            let word =
                |at: usize| Some(u32::from_ne_bytes(value.get(at..at + 4)?.try_into().ok()?));
            let table = TableId::from_u32(word(4)?);
            Some(Refusal { event: u64::from(word(0)?), table, key: Some(word(8)?) })
        };
        let contract = || XdpError::Contract("`nf_refusals` is not u32[3]".to_string());
        for at in from..count {
            list.push(entry(at).ok_or_else(contract)?);
        }
        Ok(list)
    }

    /// Number of refusals kept so far.
    pub(crate) fn refusals(&self) -> u64 {
        self.counters(self.places.refusals, 1)[0]
    }

    /// Everything new in the host ring, oldest first.
    pub fn drain_host(&self) -> Result<Vec<Output>, XdpError> {
        let mut ring = self.ring.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut outputs = Vec::new();
        if let Some(ring) = ring.as_mut() {
            outputs = host_ring::drain(ring, &self.artifact.logs)?;
        }
        if let Some(process) = &self.process {
            process.shared.news.clear();
            outputs.extend(process.shared.take_outputs()?);
        }
        Ok(outputs)
    }

    /// The descriptor that becomes readable when [`Loaded::drain_host`] would find something.
    pub fn news(&self) -> impl Iterator<Item = RawFd> + '_ {
        let ring = self.map_named("nf_host").map(|map| map.as_fd().as_raw_fd());
        let process = self.process.as_ref().map(|process| process.shared.news.as_raw_fd());
        ring.into_iter().chain(process)
    }

    /// Name of the program that handles an event, if there is one.
    pub(crate) fn entry_name(&self, event: &str) -> Option<&str> {
        self.entries.iter().find(|(name, _)| name == event).map(|(_, program)| program.as_str())
    }

    /// Descriptor of the program of that name.
    pub(crate) fn program_fd(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.object.progs().find(|prog| prog.name() == name).map(|prog| {
            let fd = prog.as_fd().as_raw_fd();
            // SAFETY: the object owns the descriptor and outlives the borrow of `self`.
            unsafe { BorrowedFd::borrow_raw(fd) }
        })
    }

    /// The instructions of the program that handles an event, as they were loaded: `lddw` of maps
    /// and global data name descriptors of this object's maps, and the verifier has not rewritten
    /// anything.
    pub fn instructions(&self, event: &str) -> Option<Vec<u8>> {
        let name = self.entry_name(event)?;
        let program = self.object.progs().find(|program| program.name() == name)?;
        let insns = program.insns();
        // SAFETY: an instruction is eight plain bytes without padding.
        let bytes =
            unsafe { std::slice::from_raw_parts(insns.as_ptr().cast::<u8>(), size_of_val(insns)) };
        Some(bytes.to_vec())
    }

    /// Map `name`.
    pub(super) fn map_named(&self, name: &str) -> Option<libbpf_rs::Map<'_>> {
        self.object.maps().find(|map| map.name() == name)
    }

    /// An own descriptor of map `name`.
    pub fn map_fd(&self, name: &str) -> Option<OwnedFd> {
        let map = self.object.maps().find(|map| map.name() == name)?;
        map.as_fd().try_clone_to_owned().ok()
    }
}
