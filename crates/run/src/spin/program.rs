//! Planned programs on bare RISC-V cores: generated and built, for a simulated sPIN NIC or for
//! cores behind a scheduler.
//!
//! Frames come with what the path into the NIC knows of them (time, port, replica). Where a run is
//! to be compared with the interpreter, every output is told with its input event's number, which
//! images for use do not spend time on. Times are those of the simulated machine.

use std::path::Path;

use nicforge_codegen::LineStyle;
use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::Placement;
use nicforge_codegen::spin::{Cores, SpinArtifact, generate};
use nicforge_ir::{Output, Program, Verified};
use nicforge_isa::object::riscv::Image;
use nicforge_target::Target;

use super::build::BuildError;
use super::cores::CoresError;
use super::image::{build, write_files};
use super::table::word;
use super::tables::{Layout, Placed, Source};
use crate::compile::Effort;
use crate::dpdk::{DpdkRun, Shards, WorkerStats};
use crate::outputs::output;

/// A generated program, built.
pub struct CoresProgram {
    artifact: SpinArtifact,
    program: Program,
    target: Target,
    memories: Vec<String>,
    /// By stage.
    images: Vec<(Vec<u8>, Image)>,
    verify: bool,
}

impl CoresProgram {
    /// Generates and builds the images of a program whose calls are all inlined; `target` has a
    /// `[spin]` section, or is a network of cores. Runs tell outputs.
    ///
    /// # Errors
    /// See [`CoresError`].
    pub fn new(
        program: &Verified<Program>,
        pipeline: &Pipeline,
        placement: &Placement,
        target: &Target,
    ) -> Result<CoresProgram, CoresError> {
        CoresProgram::with(program, pipeline, placement, target, (Effort::Full, true))
    }

    /// Images as they are for use: runs take the cycles of those, and tell no outputs.
    ///
    /// # Errors
    /// See [`CoresError`].
    pub fn for_use(
        program: &Verified<Program>,
        pipeline: &Pipeline,
        placement: &Placement,
        target: &Target,
    ) -> Result<CoresProgram, CoresError> {
        CoresProgram::with(program, pipeline, placement, target, (Effort::Full, false))
    }

    /// Images built with little effort, for many short runs that tell outputs.
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
        CoresProgram::with(program, pipeline, placement, target, (effort, true))
    }

    fn with(
        program: &Verified<Program>,
        pipeline: &Pipeline,
        placement: &Placement,
        target: &Target,
        (effort, verify): (Effort, bool),
    ) -> Result<CoresProgram, CoresError> {
        let cores = if target.spin.is_some() { Cores::Spin } else { Cores::Panic };
        let artifact = generate(program, pipeline, cores, LineStyle::Comments)
            .map_err(CoresError::Unsupported)?;
        let stages = 0..artifact.base.pipeline.stages.len();
        let images = stages
            .map(|at| build(&artifact, at, target, effort, verify))
            .collect::<Result<_, _>>()?;
        Ok(CoresProgram {
            artifact,
            program: (**program).clone(),
            target: target.clone(),
            memories: placement.memories.clone(),
            images,
            verify,
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

    /// True if outputs say which event they are of.
    pub(super) fn tells_outputs(&self) -> bool {
        self.verify
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
        output(kind, argument, bytes, &self.artifact.base.host).map_err(CoresError::Internal)
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
