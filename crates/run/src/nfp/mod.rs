//! Programs of engines joined by queues, run here as a process with a thread for every engine: what
//! a LiquidIO's cores do, and what an NFP's micro-engines do on a shim of the chip's operations
//! (`runtime/nfp/shim`).
//!
//! It shows what a program does on its plan's stages, replicas, queues and tables, and nothing of
//! how fast.

mod toolchain;

use std::path::Path;
use std::process::Command;

use nicforge_codegen::LineStyle;
use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::{Engines, EnginesArtifact, Placement, generate};
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_target::Toolchain;

use crate::compile::warnings;
use crate::dpdk::{Difference, DpdkError, DpdkRun, compare, full_among_replicas};
use crate::exec;
use crate::host::{
    HostError, RUNTIME, fresh_dir, object_of, object_of_unit, refused, write_files, write_object,
};
use crate::native;
use crate::temp::Folder;
use crate::units::{self, Around, Unit};

macro_rules! runtime {
    ($($name:literal = $path:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../runtime/", $path)))),*]
    };
}

/// What every program of engines includes and links, behind the host dialect's files.
const THREADS: [(&str, &str); 12] = runtime!(
    "nf_hooks.h" = "threads/nf_hooks.h",
    "nf_stages.h" = "common/nf_stages.h",
    "nf_locks.h" = "common/nf_locks.h",
    "nf_loop.h" = "threads/nf_loop.h",
    "nf_main.h" = "threads/nf_main.h",
    "nf_lines.h" = "threads/nf_lines.h",
    "nf_port.h" = "threads/nf_port.h",
    "nf_board.h" = "threads/nf_board.h",
    "nf_threads.h" = "threads/nf_threads.h",
    "nf_threads.c" = "threads/nf_threads.c",
    "nf_results.h" = "host/nf_results.h",
    "nf_log.h" = "host/nf_log.h",
);

/// The port layer of a process.
const PROCESS: (&str, &str) =
    ("nf_process.c", include_str!("../../../../runtime/threads/nf_process.c"));

/// What of it is another one on an NFP, and the shim.
const NFP: [(&str, &str); 5] = runtime!(
    "nf_port.h" = "nfp/nf_port.h",
    "nf_tables.h" = "nfp/nf_tables.h",
    "nf_tables.c" = "nfp/nf_tables.c",
    "nfp_chip.h" = "nfp/shim/nfp_chip.h",
    "nfp_chip.c" = "nfp/shim/nfp_chip.c",
);

/// What files include of the system's.
const HEADERS: &str = "#include <pthread.h>\n#include <sched.h>\n#include <stdbool.h>\n\
    #include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
    #include <string.h>\n#include <time.h>\n";

/// How files are compiled: fast, since optimising one takes four times as long, and what programs
/// take here is told by nobody. Generated C is optimised on DPDK and on the host.
fn flags() -> Vec<String> {
    let flags = ["-std=gnu11", "-O0", "-fno-strict-aliasing", "-pthread", "-fno-color-diagnostics"];
    flags.iter().chain(warnings()).chain(&["-DNF_VERIFY=1"]).map(ToString::to_string).collect()
}

/// A generated program of engines.
pub struct EnginesProgram {
    artifact: EnginesArtifact,
    program: Program,
    /// What makes and runs images; absent: a process of this machine.
    toolchain: Option<Toolchain>,
    /// The user's own command that runs images.
    exec: Option<String>,
}

impl EnginesProgram {
    /// Generates a program whose calls are all inlined.
    pub fn new(
        program: &Verified<Program>,
        pipeline: &Pipeline,
        placement: &Placement,
        engines: Engines,
    ) -> Result<EnginesProgram, DpdkError> {
        let artifact = generate(program, pipeline, placement, engines, LineStyle::Comments)
            .map_err(DpdkError::Unsupported)?;
        Ok(EnginesProgram { artifact, program: (**program).clone(), toolchain: None, exec: None })
    }

    /// Builds images with a target's own tools.
    pub fn with_toolchain(self, toolchain: Option<&Toolchain>) -> EnginesProgram {
        EnginesProgram { toolchain: toolchain.cloned(), ..self }
    }

    /// Runs images by a shell command, in which `{image}` is the image.
    pub fn with_exec(self, command: Option<&str>) -> EnginesProgram {
        EnginesProgram { exec: command.map(String::from), ..self }
    }

    pub fn artifact(&self) -> &EnginesArtifact {
        &self.artifact
    }

    /// Writes the generated files and the runtime they need, without what only the process here
    /// needs, into a folder.
    pub fn write(&self, dir: &Path) -> Result<(), DpdkError> {
        write_files(dir, &RUNTIME)?;
        write_files(dir, &THREADS)?;
        if self.artifact.engines == Engines::Nfp {
            write_files(dir, &NFP)?;
        }
        if self.toolchain.is_none() {
            write_files(dir, &[PROCESS])?;
        }
        let files: Vec<(&str, &str)> =
            self.artifact.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        Ok(write_files(dir, &files)?)
    }

    /// Writes all files into a folder and makes the image `app` of them, if the target has tools
    /// for it.
    ///
    /// # Errors
    /// What the tools say.
    pub fn image(&self, dir: &Path) -> Result<(), DpdkError> {
        self.write(dir)?;
        self.toolchain
            .as_ref()
            .map_or(Ok(()), |toolchain| toolchain::link(toolchain, dir, &self.mains()))
    }

    /// The generated files that are compiled.
    fn mains(&self) -> Vec<String> {
        let stages = 0..self.artifact.base.pipeline.stages.len();
        std::iter::once("main.c".to_string())
            .chain(stages.map(|at| format!("stage_{at}.c")))
            .collect()
    }

    /// Files of the runtime around this one's, and those of them that are linked.
    fn around(&self) -> (Vec<(&'static str, &'static str)>, Vec<&'static str>) {
        let mut files = [&RUNTIME[..], &THREADS[..], &[PROCESS]].concat();
        let mut parts = vec!["nf_threads.c", "nf_process.c", "nf_tables.c"];
        if self.artifact.engines == Engines::Nfp {
            files.retain(|(name, _)| NFP.iter().all(|(other, _)| other != name));
            files.extend(NFP);
            parts.push("nfp_chip.c");
        }
        (files, parts)
    }

    /// The units to compile, each with all its generated files.
    fn units(&self) -> Vec<Unit> {
        self.mains()
            .into_iter()
            .map(|main| Unit { flags: flags(), main, files: self.artifact.files.clone() })
            .collect()
    }

    /// Compiles several programs of the same engines ahead of their runs.
    ///
    /// # Errors
    /// See [`units::ahead`].
    pub fn compile_ahead(programs: &[EnginesProgram]) -> std::io::Result<()> {
        let Some(first) = programs.first() else { return Ok(()) };
        let units = programs.iter().flat_map(EnginesProgram::units).collect();
        units::ahead(units, Around { files: &first.around().0, headers: HEADERS })
    }

    /// Builds the process `app` in a directory of its own.
    fn build(&self) -> Result<Folder, DpdkError> {
        native::check(&self.program).map_err(|e| HostError::Functions(Box::new(e)))?;
        let mut dir = fresh_dir()?;
        if self.toolchain.is_some() {
            self.image(dir.path())?;
            return Ok(dir);
        }
        let (files, parts) = self.around();
        for part in &parts {
            write_object(dir.path(), part, &flags(), &files)?;
        }
        let units = self.units();
        for unit in &units {
            dir = object_of_unit(dir, unit, Around { files: &files, headers: "" })?;
        }
        // Every stage's file has the program's constants, as every engine on a chip has its own.
        let mut linking = ["-pthread", "-Wl,-z,muldefs", "-o", "app"].map(String::from).to_vec();
        let objects = units.iter().map(|unit| unit.main.as_str()).chain(parts);
        linking.extend(objects.map(object_of));
        linking.extend(native::linked_into(dir.path())?);
        let ran = units::link(dir.path(), &linking).map_err(HostError::no_compiler)?;
        if ran.status.success() {
            Ok(dir)
        } else {
            Err(refused(dir, nicforge_clang::name(), &ran.stderr).into())
        }
    }

    /// Runs input events in order.
    pub fn run(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
    ) -> Result<DpdkRun, DpdkError> {
        self.play(events, entries, false)
    }

    /// Builds the program and runs it, if wanted with one event after the other.
    fn play(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
        in_turn: bool,
    ) -> Result<DpdkRun, DpdkError> {
        let dir = self.build()?;
        let image = dir.path().join("app");
        let command = match (&self.exec, &self.toolchain) {
            (Some(text), _) => exec::shell(text, &[("image", &image.to_string_lossy())]),
            (None, Some(toolchain)) => toolchain::run(toolchain, &image),
            (None, None) => Command::new(&image),
        };
        let base = &self.artifact.base;
        Ok(exec::play(command, base, &self.program, (events, entries), in_turn)?.run)
    }

    /// Runs events here and in the interpreter, which runs `reference`; gives the run and what
    /// differs.
    pub fn verify(
        &self,
        reference: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
        let mut pipeline = self.artifact.base.pipeline.clone();
        let in_turn = full_among_replicas(reference, &pipeline, entries, events);
        let run = self.play(events, entries, in_turn)?;
        // The network block of an NFP puts packets back into the order in which they came, whatever
        // engines did.
        pipeline.ordered_output |= self.artifact.engines == Engines::Nfp;
        let found = compare(&run, (reference, &self.program), &pipeline, entries, events);
        Ok((run, found))
    }
}
