//! Putting an object into the kernel.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use libbpf_rs::btf::Btf;
use libbpf_rs::{
    AsRawLibbpf, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel,
    libbpf_sys, set_print,
};
use nicforge_codegen::XdpArtifact;
use nicforge_ir::{InputEvent, Output, Program, ReasonId, TableId};

use super::attach::{Attached, attach};
use super::error::XdpError;
use super::globals::{self, Globals, Place};
use super::host_ring;
use super::stages;
use super::tables::Tables;
use super::verifier;
use crate::compile::Mode;
use crate::process::Process;
use crate::ring::Ring;

/// Ports a generated program can have: the length of `nf_config.ifindex`.
pub const MAX_PORTS: usize = 16;

/// How to load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// What the object was compiled for.
    pub mode: Mode,
    /// Interface of each port, in the network namespace of the interfaces. Empty for test runs.
    pub ifindex: Vec<u32>,
}

/// A generated program in the kernel. It leaves the kernel when this is dropped.
pub struct Loaded {
    ring: Mutex<Option<Ring>>,
    /// Handlers in this process. Before the rest, so that its thread ends first.
    pub(super) process: Option<Process>,
    /// Events without a packet for each thread of the process.
    pub(super) rings: Vec<MapHandle>,
    /// The CPU of every replica.
    pub(super) cpus: Vec<u32>,
    pub(super) globals: Option<Arc<Globals>>,
    pub(super) places: Places,
    tables: Tables,
    pub(super) artifact: XdpArtifact,
    ports: u32,
    mode: Mode,
    /// Event name and program name of each handler.
    entries: Vec<(String, String)>,
    /// Of a planned program's stages, the id of the queue's map.
    pub(crate) queues: Vec<Option<u32>>,
    _turned_away: Option<libbpf_rs::Link>,
    object: Object,
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

thread_local! {
    /// What libbpf said while it worked for this thread.
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

fn collect(_: PrintLevel, message: String) {
    MESSAGES.with_borrow_mut(|all| all.push_str(&message));
}

/// Opens an object without libbpf printing anything.
pub(crate) fn open(bytes: &[u8]) -> Result<OpenObject, XdpError> {
    set_print(Some((PrintLevel::Info, collect)));
    MESSAGES.with_borrow_mut(String::clear);
    ObjectBuilder::default().open_memory(bytes).map_err(|error| {
        let said = MESSAGES.with_borrow(|all| all.clone());
        let said = said.trim().trim_start_matches("libbpf: ");
        XdpError::Contract(if said.is_empty() { error.to_string() } else { said.to_string() })
    })
}

/// Loads an opened object and explains a refusal.
pub(crate) fn load(open: OpenObject) -> Result<Object, XdpError> {
    MESSAGES.with_borrow_mut(String::clear);
    let object = open.take_ptr();
    // SAFETY: `take_ptr` gave us the only reference to an opened object.
    let status = unsafe { libbpf_sys::bpf_object__load(object.as_ptr()) };
    if status == 0 {
        // SAFETY: the object is loaded now, and still ours alone.
        return Ok(unsafe { Object::from_ptr(object) });
    }
    // SAFETY: ours alone and used no more.
    unsafe { libbpf_sys::bpf_object__close(object.as_ptr()) };
    let messages = MESSAGES.with_borrow(|all| all.clone());
    Err(explain(io::Error::from_raw_os_error(-status), &messages))
}

/// Whether the kernel takes the programs of an object as they are. Also true where it cannot be
/// asked.
pub(crate) fn takes(object: &[u8]) -> bool {
    /// Only how much the verifier did: its whole walk takes seconds to write down.
    const STATISTICS: u32 = 4;
    let Ok(mut opened) = open(object) else { return true };
    for program in opened.progs_mut() {
        // SAFETY: the program is of an object that is open, and ours alone.
        unsafe {
            libbpf_sys::bpf_program__set_log_level(program.as_libbpf_object().as_ptr(), STATISTICS)
        };
    }
    let object = opened.take_ptr();
    // SAFETY: `take_ptr` gave us the only reference to an opened object, which is used no more
    // after it is closed.
    let status = unsafe {
        let status = libbpf_sys::bpf_object__load(object.as_ptr());
        libbpf_sys::bpf_object__close(object.as_ptr());
        status
    };
    status == 0
        || !MESSAGES.with_borrow(|all| all.lines().any(|line| line.starts_with("processed ")))
}

/// What the kernel's verifier has against an object, if anything; its log is not kept. None where
/// it cannot be asked.
pub fn refusal(object: &[u8]) -> Option<XdpError> {
    let refused =
        open(object).and_then(load).err().filter(|error| matches!(error, XdpError::Refused { .. }));
    if let Some(XdpError::Refused { log_path, .. }) = &refused
        && let Some(folder) = log_path.parent()
    {
        let _ = std::fs::remove_dir_all(folder);
    }
    refused
}

/// What a failed load means, from the error number and libbpf's messages.
fn explain(error: io::Error, messages: &str) -> XdpError {
    if let Some(log) = verifier::log_of(messages) {
        let program = verifier::program_of(messages).unwrap_or("?");
        return verifier::refused(program, log).unwrap_or_else(|source| XdpError::Kernel {
            what: "keep the verifier's log".to_string(),
            source,
        });
    }
    if error.raw_os_error() == Some(libc::EPERM) {
        return XdpError::Privilege { what: "load BPF programs".to_string() };
    }
    let map = messages.split("failed to create map").nth(1).or(messages.split("map '").nth(1));
    if let (Some(libc::EINVAL), Some(map)) = (error.raw_os_error(), map) {
        let name =
            map.trim_start_matches([':', ' ', '\'']).split(['\'', ':']).next().unwrap_or("?");
        return XdpError::Feature {
            what: format!("the kind of BPF map that `{name}` is, or takes it only smaller"),
            how: "use Linux 5.15 or newer, or a smaller table".to_string(),
        };
    }
    let said = messages.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
    XdpError::kernel(format!("load the program ({})", said.trim_start_matches("libbpf: ")), error)
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
    /// Loads `object`, which was compiled from `artifact.source` of `program`.
    ///
    /// # Errors
    /// [`XdpError::Refused`] with the user's source line if the verifier refuses;
    /// [`XdpError::Privilege`], [`XdpError::Feature`] if the machine cannot; [`XdpError::Contract`]
    /// if object and artifact do not fit.
    pub fn load(
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        options: &LoadOptions,
    ) -> Result<Loaded, XdpError> {
        Loaded::load_reusing(program, artifact, object, options, &[])
    }

    /// The same with maps of another program, by the names they have in this one, in place of its
    /// own. They must be of the form this program would make them.
    pub(crate) fn load_reusing(
        program: &Program,
        artifact: &XdpArtifact,
        object: &[u8],
        options: &LoadOptions,
        maps: &[(String, OwnedFd)],
    ) -> Result<Loaded, XdpError> {
        if program.ports as usize > MAX_PORTS {
            return Err(XdpError::NoPort { port: program.ports - 1, last: MAX_PORTS as u32 - 1 });
        }
        let mut open = open(object)?;
        let cpus = artifact.pipeline.as_ref().map(stages::place).transpose()?.unwrap_or_default();
        // SAFETY: the BTF is dropped before the object.
        let places = {
            let btf = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() });
            let btf = btf
                .ok()
                .flatten()
                .ok_or_else(|| XdpError::Contract("it has no BTF".to_string()))?;
            if let Some(place) = globals::find(&btf, ".rodata", "nf_config") {
                configure(&mut open, place, program.ports, &options.ifindex)?;
            }
            if let Some(pipeline) = &artifact.pipeline {
                stages::configure(
                    &mut open,
                    pipeline,
                    &cpus,
                    globals::find(&btf, ".rodata", "nf_cpus"),
                )?;
            }
            let bss = |name| globals::find(&btf, ".bss", name);
            Places {
                event: bss("nf_event"),
                drops: bss("nf_drops"),
                refused: bss("nf_refused"),
                recorded: bss("nf_recorded"),
                refusals: bss("nf_refusals_count"),
                order: bss("nf_order"),
                unsent: bss("nf_unsent"),
                asleep: bss("nf_asleep"),
                values: bss("nf_values"),
            }
        };
        for (name, fd) in maps {
            let mut map =
                open.maps_mut().find(|map| map.name() == name.as_str()).ok_or_else(|| {
                    XdpError::Contract(format!(
                        "there is no map `{name}` to keep a table's entries in"
                    ))
                })?;
            map.reuse_fd(fd.as_fd()).map_err(|error| {
                XdpError::kernel(format!("keep map `{name}`"), io::Error::other(error.to_string()))
            })?;
        }
        let object = load(open)?;
        let (mut queues, mut turned_away) = (Vec::new(), None);
        if let Some(pipeline) = &artifact.pipeline {
            stages::connect(&object, pipeline, &cpus)?;
            let (ids, link) = stages::watch_queues(&object, pipeline)?;
            (queues, turned_away) = (ids, Some(link));
        }

        let mut bss = None;
        let mut ring = None;
        for map in object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if name.ends_with(".bss") {
                bss = Some(Arc::new(Globals::map(map.as_fd(), map.value_size() as usize)?));
            } else if name == "nf_host" {
                let mapped = Ring::map(map.as_fd(), map.max_entries() as usize);
                ring =
                    Some(mapped.map_err(|error| {
                        XdpError::kernel("map the ring buffer `nf_host`", error)
                    })?);
            }
        }
        let process = Process::build(program, artifact, options.mode == Mode::Record)?;
        let threads = process.as_ref().map_or(0, |process| process.shared.parts.len());
        let rings = super::process::rings(&object, threads)?;
        let inside = process.as_ref().map(|process| Arc::clone(&process.shared));
        let tables = Tables::new(program, artifact, &object, inside)?;
        Ok(Loaded {
            process,
            rings,
            cpus,
            ring: Mutex::new(ring),
            globals: bss,
            places,
            tables,
            artifact: artifact.clone(),
            ports: program.ports,
            mode: options.mode,
            entries: artifact
                .programs
                .iter()
                .map(|entry| (program.events[entry.event].name.clone(), entry.name.clone()))
                .collect(),
            queues,
            _turned_away: turned_away,
            object,
        })
    }

    /// What the object was compiled for.
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

    /// The same by stage, each in the artifact's order; one stage unless the program is planned.
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
            ring.drain(|record| outputs.push(host_ring::decode(record, &self.artifact.logs)));
        }
        if let Some(process) = &self.process {
            process.shared.news.clear();
            outputs.extend(process.shared.take_outputs()?.into_iter().map(Ok));
        }
        outputs.into_iter().collect()
    }

    /// What becomes readable when [`Loaded::drain_host`] would find something.
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

/// Sets `nf_config`: `{ u32 ports; u32 ifindex[16]; }`.
fn configure(
    open: &mut OpenObject,
    place: Place,
    ports: u32,
    ifindex: &[u32],
) -> Result<(), XdpError> {
    let contract =
        || XdpError::Contract("`nf_config` is not { u32 ports; u32 ifindex[16]; }".to_string());
    if place.size != 4 + 4 * MAX_PORTS || ifindex.len() > MAX_PORTS {
        return Err(contract());
    }
    let mut words = vec![ports];
    words.extend(ifindex);
    words.resize(1 + MAX_PORTS, 0);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut map = open
        .maps_mut()
        .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
        .ok_or_else(contract)?;
    let value = map.initial_value_mut().ok_or_else(contract)?;
    value
        .get_mut(place.offset..place.offset + place.size)
        .ok_or_else(contract)?
        .copy_from_slice(&bytes);
    Ok(())
}
