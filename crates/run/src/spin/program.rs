//! Planned programs on bare RISC-V cores: generated, built, and run on a simulated sPIN NIC or on cores behind a scheduler.
//!
//! Frames come with what the path into the NIC knows of them (time, port, replica), and every output is told with its input event's
//! number, so that a run can be compared with the interpreter. Times are those of the simulated machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::Placement;
use nicforge_codegen::spin::{Cores, SpinArtifact, generate};
use nicforge_codegen::{LineStyle, Unsupported};
use nicforge_ir::{Entry, Input, InputEvent, Output, Program, ReasonId, TableId, Verified};
use nicforge_isa::object::riscv::{self, Image};
use nicforge_spin::machine::{Machine, NotSpin, map};
use nicforge_spin::matching::Matched;
use nicforge_spin::nic::{
    Arrival, Context, Full, Handlers, HostRegion, Nic, NicError, Options, Out, SparseMemory, Until,
};
use nicforge_target::Target;

use super::build::{BuildError, FLAGS, GCC, picolibc};
use super::panic;
use super::steer::Steering;
use super::tables::{Layout, PlaceError, Placed, Room, Rooms, Source, Worker, place, word};
use crate::dpdk::{Departure, DpdkRun, Shards, WorkerStats};
use crate::fault::Fault;

macro_rules! runtime {
    ($($name:literal = $path:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../runtime/", $path)))),*]
    };
}

/// What images include, with folders as below `runtime/`.
const COMMON: &[(&str, &str)] = runtime!(
    "nf_rt.h" = "host/nf_rt.h",
    "nf_tables.h" = "host/nf_tables.h",
    "nf_tables.c" = "host/nf_tables.c",
    "nf_hooks.h" = "riscv/nf_hooks.h",
    "nf_event.h" = "riscv/nf_event.h",
);
const SPIN: &[(&str, &str)] = runtime!(
    "nf_port.h" = "riscv/spin/nf_port.h",
    "nf_main.h" = "riscv/spin/nf_main.h",
    "spin/include/handler.h" = "spin/include/handler.h",
    "spin/include/hwsched.h" = "spin/include/hwsched.h",
    "spin/include/nf_spin_port.h" = "spin/include/nf_spin_port.h",
    "spin/include/pspin.h" = "spin/include/pspin.h",
    "spin/include/pspin_rt.h" = "spin/include/pspin_rt.h",
    "spin/include/spin_conf.h" = "spin/include/spin_conf.h",
    "spin/include/spin_dma.h" = "spin/include/spin_dma.h",
    "spin/include/util.h" = "spin/include/util.h",
    "spin/include/hal/pulp.h" = "spin/include/hal/pulp.h",
    "start.S" = "spin/image/crt0.S",
    "runtime.c" = "spin/image/runtime.c",
    "link.ld.in" = "spin/image/link.ld.in",
);
const PANIC: &[(&str, &str)] = runtime!(
    "nf_port.h" = "riscv/panic/nf_port.h",
    "nf_main.h" = "riscv/panic/nf_main.h",
    "start.S" = "riscv/panic/crt0.S",
    "link.ld.in" = "riscv/panic/link.ld.in",
);

/// Where the host's memory for outputs begins, and how much of it there is: a ring that no run here goes around.
const HOST: u64 = 0x1_0000_0000;
const HOST_BYTES: u32 = 0xc000_0000;
/// Bytes in front of every output to the host, and behind every frame that leaves.
const RECORD: usize = 32;
const DEPARTURE: usize = 16;

/// The longest frame, or message, that these machines take: what a core has room for, less what comes with it.
pub const LONGEST: usize = 1984;

/// Whether they take an event.
pub fn takes(event: &InputEvent) -> bool {
    match &event.input {
        Input::Net { frame, .. } => frame.len() <= LONGEST,
        Input::Host { message } => message.len() <= LONGEST,
    }
}

/// Why a program cannot be built or run.
#[derive(Debug, thiserror::Error)]
pub enum CoresError {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<Unsupported>),
    #[error("{0}")]
    Build(#[from] BuildError),
    #[error("the program does not fit {target}: {source}")]
    Place { target: String, source: PlaceError },
    #[error(transparent)]
    Machine(#[from] NotSpin),
    #[error("{0}")]
    Nic(#[from] NicError),
    #[error("{0}")]
    Panic(#[from] nicforge_spin::panic::PanicError),
    #[error("the plan has {wanted} replicas; {target} has {have} message queues, one for each")]
    Queues { target: String, wanted: usize, have: usize },
    #[error("internal error: {0}")]
    Internal(String),
    #[error("event {event}: {bytes} bytes; these cores have room for {LONGEST}, so leave longer frames out")]
    Long { event: usize, bytes: usize },
}

impl CoresError {
    /// Who has to act.
    pub fn fault(&self) -> Fault {
        match self {
            CoresError::Build(error) => error.fault(),
            _ => Fault::User,
        }
    }
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct CoresRun {
    pub run: DpdkRun,
    /// Cycles in handlers by input event, all stages together; the machine's, not the plan's.
    pub cycles: Vec<u64>,
    /// Cycle at which all was done.
    pub end: u64,
}

/// A generated program, built.
pub struct CoresProgram {
    artifact: SpinArtifact,
    program: Program,
    target: Target,
    memories: Vec<String>,
    /// By stage.
    images: Vec<(Vec<u8>, Image)>,
}

impl CoresProgram {
    /// Generates and builds the images of a program whose calls are all inlined; `target` has a `[spin]` section, or is a network of cores.
    ///
    /// # Errors
    /// See [`CoresError`].
    pub fn new(
        program: &Verified<Program>,
        pipeline: &Pipeline,
        placement: &Placement,
        target: &Target,
    ) -> Result<CoresProgram, CoresError> {
        let cores = if target.spin.is_some() { Cores::Spin } else { Cores::Panic };
        let artifact =
            generate(program, pipeline, cores, LineStyle::Comments).map_err(CoresError::Unsupported)?;
        let stages = 0..artifact.base.pipeline.stages.len();
        let images = stages.map(|at| build(&artifact, at, target)).collect::<Result<_, _>>()?;
        Ok(CoresProgram {
            artifact,
            program: (**program).clone(),
            target: target.clone(),
            memories: placement.memories.clone(),
            images,
        })
    }

    pub fn artifact(&self) -> &SpinArtifact {
        &self.artifact
    }

    /// Writes the generated files, what they include, and the images `stage_N.elf` into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), CoresError> {
        write_files(dir, &self.artifact)?;
        for (at, (elf, _)) in self.images.iter().enumerate() {
            let path = dir.join(format!("stage_{at}.elf"));
            std::fs::write(&path, elf).map_err(|source| BuildError::Io { path, source })?;
        }
        Ok(())
    }

    /// Bytes of code, by stage.
    pub fn code_bytes(&self) -> Vec<u32> {
        let code = |image: &Image| image.segments.iter().filter(|s| s.executable).map(|s| s.size).sum();
        self.images.iter().map(|(_, image)| code(image)).collect()
    }

    /// Runs input events in order.
    ///
    /// # Errors
    /// Tables do not fit, or a handler does what it must not.
    pub fn run(&self, events: &[InputEvent], entries: &[(TableId, Entry)]) -> Result<CoresRun, CoresError> {
        match self.artifact.cores {
            Cores::Spin => self.run_spin(events, entries),
            Cores::Panic => panic::run(self, events, entries),
        }
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &Image> {
        self.images.iter().map(|(_, image)| image)
    }

    pub(super) fn layouts(&self) -> Result<Vec<Layout>, CoresError> {
        let layout =
            |image| Layout::of(image).ok_or(CoresError::Internal("an image has no layout".to_string()));
        self.images().map(layout).collect()
    }

    /// By table number: the plan has it in memory beside the cores, which a target names first.
    pub(super) fn is_near(&self) -> Vec<bool> {
        let near = self.target.memories.first().map(|memory| memory.name.replace('-', "_"));
        self.memories.iter().map(|name| name.is_empty() || near.as_ref() == Some(name)).collect()
    }

    fn run_spin(&self, events: &[InputEvent], entries: &[(TableId, Entry)]) -> Result<CoresRun, CoresError> {
        let machine = Machine::from_target(&self.target)?;
        let image = &self.images[0].1;
        let layouts = self.layouts()?;
        let base = &self.artifact.base;
        let replicas = base.pipeline.workers() as usize;
        if replicas > machine.queues {
            let target = self.target.name.clone();
            return Err(CoresError::Queues { target, wanted: replicas, have: machine.queues });
        }
        let clusters = machine.clusters;
        let workers: Vec<Worker> =
            (0..replicas).map(|number| Worker { stage: 0, near: number % clusters }).collect();
        let data_end = image
            .segments
            .iter()
            .filter(|segment| segment.address >> 24 == map::L2 >> 24)
            .map(|segment| segment.address + segment.size)
            .max()
            .unwrap_or(map::L2)
            .next_multiple_of(64);
        let near = |cluster: usize| {
            let start = map::L1 + cluster as u32 * map::L1_STRIDE;
            let cores = machine.cores as u32 * layouts[0].core_bytes;
            Room {
                name: format!("the memory of cluster {cluster}"),
                free: start + map::L1_SCRATCHPADS + cores..start + machine.l1_bytes,
            }
        };
        let far = Room { name: "handler memory".to_string(), free: data_end..map::L2 + machine.l2_bytes };
        let mut rooms =
            Rooms { near: (0..clusters).map(near).collect(), far: vec![far], is_near: self.is_near() };
        let source = Source { program: &self.program, artifact: base, workers: &workers, entries };
        let placed = place(&source, &layouts, &mut rooms)
            .map_err(|source| CoresError::Place { target: self.target.name.clone(), source })?;

        let host = Box::new(SparseMemory::default());
        let mut nic = Nic::new(&machine, Options { full: Full::Wait, ..Options::default() }, host);
        let handlers = Handlers { payload: Some("nf_payload".to_string()), ..Handlers::default() };
        nic.add_context(Context {
            handler_memory: Some(data_end..map::L2 + machine.l2_bytes),
            host: HostRegion { address: HOST, bytes: HOST_BYTES },
            scratchpad: machine.l1_bytes - map::L1_SCRATCHPADS,
            serial: true,
            ..Context::new(image, handlers)
        })?;
        for (_, address, bytes) in &placed.writes {
            nic.write(0, *address, bytes)?;
        }
        let symbol = |name: &str| {
            let found = image.symbol(name).map(|symbol| symbol.address);
            found.ok_or_else(|| CoresError::Internal(format!("the image has no `{name}`")))
        };
        let list = symbol("nf_worker_at")?;
        for (number, at) in placed.blocks.iter().enumerate() {
            nic.write(0, list + 4 * number as u32, &at.to_le_bytes())?;
        }

        let mut steering = Steering::new(&self.program, &base.pipeline);
        let (mut time, rate) = (0.0, machine.line_rate.unwrap_or(64.0));
        for (number, event) in events.iter().enumerate() {
            let Some((_, worker)) = steering.worker(&event.input) else { continue };
            let (bytes, port, from_host) = match &event.input {
                Input::Net { frame, port } => (frame, *port, 0u32),
                Input::Host { message } => (message, 0, 1),
            };
            let mut frame = bytes.clone();
            frame.extend(event.time_ns.to_le_bytes());
            frame.extend(event.seed.to_le_bytes());
            for word in [number as u32, port, worker, from_host] {
                frame.extend(word.to_le_bytes());
            }
            if !takes(event) {
                return Err(CoresError::Long { event: number + 1, bytes: bytes.len() });
            }
            let matched = Some(Matched { context: 0, message: worker, last: false });
            nic.arrive(Arrival { time: time as u64, frame, matched, copied: None, user: number as u64 });
            time += (bytes.len() + machine.line_overhead as usize) as f64 / rate;
        }
        nic.run_until(Until::Idle);

        let mut result = CoresRun { cycles: vec![0; events.len()], end: nic.now(), ..CoresRun::default() };
        let mut outputs = Outputs::new(events.len());
        let mut lost = 0;
        for out in nic.take_out() {
            match out {
                Out::Sent { mut frame, .. } if frame.len() >= DEPARTURE => {
                    let tail = frame.split_off(frame.len() - DEPARTURE);
                    let (event, number, port) = (word(&tail, 0), word(&tail, 4), word(&tail, 8));
                    result.run.departures.push(Departure {
                        event: event as usize,
                        port,
                        frame: frame.clone(),
                    });
                    outputs.add(event, number, Output::Send { port, frame })?;
                }
                Out::Handler(record) => {
                    if let Some(cycles) = result.cycles.get_mut(record.user as usize) {
                        *cycles += record.times.ended - record.times.started;
                    }
                }
                Out::Dropped { .. } => lost += 1,
                Out::Fault(fault) => return Err(CoresError::Internal(fault.to_string())),
                _ => {}
            }
        }
        let end = HOST + u64::from(word(nic.read(0, symbol("nf_ring_at")?, 4)?, 0));
        let mut at = HOST;
        while at < end {
            let mut head = [0; RECORD];
            nic.host().read(at, &mut head);
            let (kind, size) = (word(&head, 0), word(&head, 4));
            let argument = u64::from(word(&head, 8)) | u64::from(word(&head, 12)) << 32;
            let mut bytes = vec![0; size as usize];
            nic.host().read(at + RECORD as u64, &mut bytes);
            if let Some(output) = self.output(kind, argument, bytes)? {
                outputs.add(word(&head, 16), word(&head, 20), output)?;
            }
            at += RECORD as u64 + u64::from(size.next_multiple_of(8));
        }
        result.run.outputs = outputs.sorted();
        let mut read = |_, at, size| nic.read(0, at, size).map(<[u8]>::to_vec).unwrap_or_default();
        self.collect(&mut result.run, &source, &layouts, &placed, &mut read);
        if let Some(worker) = result.run.stats.workers.first_mut() {
            worker.lost += lost;
        }
        Ok(result)
    }

    /// An output that is no frame; nothing for what the interpreter does not tell.
    pub(super) fn output(
        &self,
        kind: u32,
        argument: u64,
        bytes: Vec<u8>,
    ) -> Result<Option<Output>, CoresError> {
        let host = &self.artifact.base.host;
        Ok(Some(match kind {
            1 => Output::Send { port: argument as u32, frame: bytes },
            2 => Output::Stack { frame: bytes },
            3 => Output::HostPacket { frame: bytes },
            4 => Output::HostMessage { bytes },
            5 => Output::DmaWrite { addr: argument, data: bytes },
            // The runtime's own reason is the last one; it is in the counters.
            6 if argument as usize + 1 == host.reasons.len() => return Ok(None),
            6 => Output::Drop { reason: ReasonId::from_u32(argument as u32) },
            7 => {
                let format = host.logs.get(argument as usize);
                let format = format.ok_or(CoresError::Internal("an unknown log".to_string()))?;
                let words = bytes.chunks_exact(8).map(|w| w.iter().rev().fold(0, |n, b| n << 8 | *b as u64));
                Output::Log { text: format.line(&words.collect::<Vec<u64>>()) }
            }
            kind => return Err(CoresError::Internal(format!("an output of kind {kind}"))),
        }))
    }

    /// Reads tables and counters when all is done.
    pub(super) fn collect(
        &self,
        run: &mut DpdkRun,
        source: &Source,
        layouts: &[Layout],
        placed: &Placed,
        read: &mut dyn FnMut(usize, u32, u32) -> Vec<u8>,
    ) {
        for (worker, at) in source.workers.iter().zip(&placed.blocks) {
            let layout = layouts[worker.stage];
            let block = read(worker.near, *at, layout.worker_bytes);
            let word = |at: u32| u64::from(word(&block, at as usize));
            run.stats.workers.push(WorkerStats {
                stage: Some(worker.stage),
                events: word(layout.events_at),
                lost: word(layout.lost_at),
                drops: (0..layout.reasons).map(|reason| word(layout.drops_at + 4 * reason)).collect(),
                ..WorkerStats::default()
            });
        }
        let (shards, counts) = placed.shards(source, read);
        for (worker, table, refused, evicted) in counts {
            let stats = &mut run.stats.workers[worker as usize];
            stats.refused.insert(table, refused);
            stats.evicted.insert(table, evicted);
        }
        run.tables = Shards::of(shards).merged(&self.program, &self.artifact.base, source.entries);
    }
}

/// Outputs by event, with their numbers.
pub(super) struct Outputs(Vec<Vec<(u32, Output)>>);

impl Outputs {
    pub fn new(events: usize) -> Outputs {
        Outputs(vec![Vec::new(); events])
    }

    pub fn add(&mut self, event: u32, number: u32, output: Output) -> Result<(), CoresError> {
        let list = self.0.get_mut(event as usize);
        let list = list.ok_or(CoresError::Internal("an output of an unknown event".to_string()))?;
        list.push((number, output));
        Ok(())
    }

    /// In the order in which each event made them.
    pub fn sorted(self) -> Vec<Vec<Output>> {
        let in_order = |mut list: Vec<(u32, Output)>| {
            list.sort_by_key(|(number, _)| *number);
            list.into_iter().map(|(_, output)| output).collect()
        };
        self.0.into_iter().map(in_order).collect()
    }
}

fn write_files(dir: &Path, artifact: &SpinArtifact) -> Result<(), BuildError> {
    let machine = if artifact.cores == Cores::Spin { SPIN } else { PANIC };
    let own = artifact.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    for (name, text) in COMMON.iter().chain(machine).copied().chain(own) {
        let path = dir.join(name);
        let parent = path.parent().map_or_else(|| dir.to_path_buf(), Path::to_path_buf);
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| BuildError::Io { path, source })?;
    }
    Ok(())
}

/// Builds a stage's image.
fn build(artifact: &SpinArtifact, stage: usize, target: &Target) -> Result<(Vec<u8>, Image), CoresError> {
    let library = picolibc()?;
    let io = |path: PathBuf| move |source| BuildError::Io { path, source };
    let dir =
        tempfile::Builder::new().prefix("nicforge-riscv-").tempdir().map_err(io(std::env::temp_dir()))?;
    write_files(dir.path(), artifact)?;
    let mut defines = vec!["-DNF_VERIFY=1".to_string()];
    match artifact.cores {
        Cores::Spin => {
            let machine = Machine::from_target(target)?;
            // Nothing is shared with the host in place, so that part is as small as can be.
            let data = machine.l2_bytes - 0x1000;
            defines.push(format!("-DNF_L2_DATA={data:#x}"));
            defines.push(format!("-DNF_L2_HANDLER={:#x}", map::L2 + data));
            defines.push("-DNF_L2_HANDLER_SIZE=0x1000".to_string());
            defines.push(format!("-DNB_CLUSTERS={}", machine.clusters));
        }
        Cores::Panic => {
            let local = nicforge_spin::panic::Config::from_target(target)?.local_bytes;
            defines.push(format!("-DNF_LOCAL_BYTES={local:#x}"));
        }
    }
    let gcc = || {
        let mut gcc = Command::new(GCC);
        gcc.current_dir(dir.path()).stdin(Stdio::null()).env("LC_ALL", "C");
        gcc
    };
    let run = |mut command: Command| {
        let ran = command.output().map_err(BuildError::NoCompiler)?;
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        let overflow = text.lines().find_map(|line| line.split_once("region `"));
        match overflow {
            _ if ran.status.success() => Ok(()),
            Some((_, region)) => Err(BuildError::Large(format!("memory `{}", region.trim_end()))),
            None => Err(BuildError::Refused(text.trim_end().to_string())),
        }
    };
    let mut preprocess = gcc();
    preprocess.args(["-E", "-P", "-undef", "-x", "c"]).args(&defines).args(["link.ld.in", "-o", "link.ld"]);
    run(preprocess)?;
    let mut compile = gcc();
    compile.args(FLAGS).args(["-Os", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror"]).args(&defines);
    compile.args(["-I.", "-isystem", "spin/include", "-isystem"]).arg(library.join("include"));
    compile.args([
        "-nostartfiles",
        "-nostdlib",
        "-Wl,--gc-sections,--undefined=nf_layout,--defsym=vfprintf=__i_vfprintf",
    ]);
    compile.args(["-T", "link.ld", "start.S", "nf_tables.c"]).arg(format!("stage_{stage}.c"));
    if artifact.cores == Cores::Spin {
        compile.arg("runtime.c");
    }
    compile.arg("-L").arg(library.join("lib/rv32imac/ilp32"));
    compile.args(["-Wl,--start-group", "-lc", "-lm", "-lgcc", "-Wl,--end-group", "-o", "image.elf"]);
    run(compile)?;
    let path = dir.path().join("image.elf");
    let elf = std::fs::read(&path).map_err(io(path))?;
    let image = riscv::parse(&elf).map_err(BuildError::Image)?;
    Ok((elf, image))
}
