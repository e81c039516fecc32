//! Planned programs on bare RISC-V cores: generated, built, and run on a simulated sPIN NIC or on
//! cores behind a scheduler.
//!
//! Frames come with what the path into the NIC knows of them (time, port, replica), and every
//! output is told with its input event's number, so that a run can be compared with the
//! interpreter. Times are those of the simulated machine.

use std::path::Path;

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::Placement;
use nicforge_codegen::spin::{Cores, SpinArtifact, generate};
use nicforge_codegen::{LineStyle, Unsupported};
use nicforge_ir::{Entry, InputEvent, Output, Program, ReasonId, TableId, Verified};
use nicforge_isa::object::riscv::Image;
use nicforge_spin::machine::NotSpin;
use nicforge_spin::nic::NicError;
use nicforge_target::Target;

use super::build::BuildError;
use super::image::{build, write_files};
use super::table::word;
use super::tables::{Layout, PlaceError, Placed, Source};
use super::{nic, panic};
use crate::compile::Effort;
use crate::dpdk::{DpdkRun, Shards, WorkerStats};
use crate::fault::Fault;

/// The longest frame, or message, that these machines take: their ports' largest frame, which with
/// what comes behind it just fits a slot of FPsPIN's packet memory.
pub const LONGEST: usize = 1514;

/// Whether they take an event.
pub fn takes(event: &InputEvent) -> bool {
    event_bytes(event).len() <= LONGEST
}

/// The frame or message of an event.
pub(super) fn event_bytes(event: &InputEvent) -> &[u8] {
    event.input.bytes()
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
    #[error(
        "event {event}: {bytes} bytes; these cores have room for {LONGEST}, so leave longer frames out"
    )]
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
    /// Frames that no handler saw: the matching engine gave them to the operating system.
    pub unmatched: u64,
    /// Cycle at which all was done.
    pub end: u64,
}

impl CoresRun {
    /// Notes a handler's cycles, for its event and in its worker's sum.
    pub(super) fn count(&mut self, event: usize, worker: &mut u64, cycles: u64) {
        *worker += cycles;
        if let Some(sum) = self.cycles.get_mut(event) {
            *sum += cycles;
        }
    }
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
    /// Generates and builds the images of a program whose calls are all inlined; `target` has a
    /// `[spin]` section, or is a network of cores.
    ///
    /// # Errors
    /// See [`CoresError`].
    pub fn new(
        program: &Verified<Program>,
        pipeline: &Pipeline,
        placement: &Placement,
        target: &Target,
    ) -> Result<CoresProgram, CoresError> {
        CoresProgram::with_effort(program, pipeline, placement, target, Effort::Full)
    }

    /// The same, compiled with some effort.
    ///
    /// # Errors
    /// See [`CoresError`].
    pub fn with_effort(
        program: &Verified<Program>,
        pipeline: &Pipeline,
        placement: &Placement,
        target: &Target,
        effort: Effort,
    ) -> Result<CoresProgram, CoresError> {
        let cores = if target.spin.is_some() { Cores::Spin } else { Cores::Panic };
        let artifact = generate(program, pipeline, cores, LineStyle::Comments)
            .map_err(CoresError::Unsupported)?;
        let stages = 0..artifact.base.pipeline.stages.len();
        let images =
            stages.map(|at| build(&artifact, at, target, effort)).collect::<Result<_, _>>()?;
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
        let code =
            |image: &Image| image.segments.iter().filter(|s| s.executable).map(|s| s.size).sum();
        self.images.iter().map(|(_, image)| code(image)).collect()
    }

    /// Runs input events in order.
    ///
    /// # Errors
    /// Tables do not fit, or a handler does what it must not.
    pub fn run(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
    ) -> Result<CoresRun, CoresError> {
        match self.artifact.cores {
            Cores::Spin => nic::run(self, events, entries),
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
        let layout = |image| {
            Layout::of(image).ok_or(CoresError::Internal("an image has no layout".to_string()))
        };
        self.images().map(layout).collect()
    }

    /// By table number: the plan has it in memory beside the cores, which a target names first.
    pub(super) fn is_near(&self) -> Vec<bool> {
        let near = self.target.memories.first().map(|memory| memory.name.replace('-', "_"));
        self.memories.iter().map(|name| name.is_empty() || near.as_ref() == Some(name)).collect()
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
                let words = bytes
                    .chunks_exact(8)
                    .map(|w| w.iter().rev().fold(0, |n, b| n << 8 | *b as u64));
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
                drops: (0..layout.reasons)
                    .map(|reason| word(layout.drops_at + 4 * reason))
                    .collect(),
                ..WorkerStats::default()
            });
        }
        let (shards, counts) = placed.shards(source, read);
        for counted in counts {
            let stats = &mut run.stats.workers[counted.worker as usize];
            stats.refused.insert(counted.table, counted.refused);
            stats.evicted.insert(counted.table, counted.evicted);
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
