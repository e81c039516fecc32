//! Programs of engines joined by queues, run here as a process with a thread for every engine: what a LiquidIO's cores do,
//! and what an NFP's micro-engines do on a shim of the chip's operations (`runtime/nfp/shim`).
//!
//! It shows what a program does on its plan's stages, replicas, queues and tables, and nothing of how fast.

use std::path::Path;
use std::process::{Command, Stdio};

use nicforge_codegen::LineStyle;
use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::{Engines, EnginesArtifact, Placement, generate};
use nicforge_ir::{Entry, Input, InputEvent, Program, TableId, Verified};

use crate::compile::warnings;
use crate::dpdk::{Difference, DpdkError, DpdkRun, compare, files, full_among_replicas};
use crate::host::{
    HostError, RUNTIME, fresh_dir, object_of, object_of_unit, refused, write_files, write_object,
};
use crate::temp::Folder;
use crate::units::{self, Around, Unit};

macro_rules! runtime {
    ($($name:literal = $path:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../runtime/", $path)))),*]
    };
}

/// What every program of engines includes and links, behind the host dialect's files.
const THREADS: [(&str, &str); 8] = runtime!(
    "nf_hooks.h" = "threads/nf_hooks.h",
    "nf_loop.h" = "threads/nf_loop.h",
    "nf_main.h" = "threads/nf_main.h",
    "nf_port.h" = "threads/nf_port.h",
    "nf_threads.h" = "threads/nf_threads.h",
    "nf_threads.c" = "threads/nf_threads.c",
    "nf_files.h" = "host/nf_files.h",
    "nf_log.h" = "host/nf_log.h",
);

/// What of it is another one on an NFP, and the shim.
const NFP: [(&str, &str); 5] = runtime!(
    "nf_port.h" = "nfp/nf_port.h",
    "nf_tables.h" = "nfp/nf_tables.h",
    "nf_tables.c" = "nfp/nf_tables.c",
    "nfp_chip.h" = "nfp/shim/nfp_chip.h",
    "nfp_chip.c" = "nfp/shim/nfp_chip.c",
);

fn flags() -> Vec<String> {
    let flags = ["-std=gnu11", "-O1", "-fno-strict-aliasing", "-pthread", "-fno-color-diagnostics"];
    flags.iter().chain(warnings()).chain(&["-DNF_VERIFY=1"]).map(ToString::to_string).collect()
}

/// A generated program of engines.
pub struct EnginesProgram {
    artifact: EnginesArtifact,
    program: Program,
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
        Ok(EnginesProgram { artifact, program: (**program).clone() })
    }

    pub fn artifact(&self) -> &EnginesArtifact {
        &self.artifact
    }

    /// Writes the generated files and the runtime they need, without what only the process here needs, into a folder.
    pub fn write(&self, dir: &Path) -> Result<(), DpdkError> {
        write_files(dir, &RUNTIME)?;
        write_files(dir, &THREADS)?;
        if self.artifact.engines == Engines::Nfp {
            write_files(dir, &NFP)?;
        }
        let files: Vec<(&str, &str)> =
            self.artifact.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        Ok(write_files(dir, &files)?)
    }

    /// Files of the runtime around this one's, and those of them that are linked.
    fn around(&self) -> (Vec<(&'static str, &'static str)>, Vec<&'static str>) {
        let mut files = [&RUNTIME[..], &THREADS[..]].concat();
        let mut parts = vec!["nf_threads.c", "nf_tables.c"];
        if self.artifact.engines == Engines::Nfp {
            files.retain(|(name, _)| NFP.iter().all(|(other, _)| other != name));
            files.extend(NFP);
            parts.push("nfp_chip.c");
        }
        (files, parts)
    }

    /// What of it is compiled, each with all its generated files.
    fn units(&self) -> Vec<Unit> {
        let stages = (0..self.artifact.base.pipeline.stages.len()).map(|at| format!("stage_{at}.c"));
        let mains = std::iter::once("main.c".to_string()).chain(stages);
        mains.map(|main| Unit { flags: flags(), main, files: self.artifact.files.clone() }).collect()
    }

    /// Compiles several programs of the same engines ahead of their runs.
    ///
    /// # Errors
    /// See [`units::ahead`].
    pub fn compile_ahead(programs: &[EnginesProgram]) -> std::io::Result<()> {
        let Some(first) = programs.first() else { return Ok(()) };
        let units = programs.iter().flat_map(EnginesProgram::units).collect();
        units::ahead(units, Around { files: &first.around().0, headers: "" })
    }

    /// Builds the process `app` in a directory of its own.
    fn build(&self) -> Result<Folder, DpdkError> {
        let mut dir = fresh_dir()?;
        let (files, parts) = self.around();
        for part in &parts {
            write_object(dir.path(), part, &flags(), &files)?;
        }
        let units = self.units();
        for unit in &units {
            dir = object_of_unit(dir, unit, &files)?;
        }
        // Every stage's file has the program's constants, as every engine on a chip has its own.
        let mut linking = ["-pthread", "-Wl,-z,muldefs", "-o", "app"].map(String::from).to_vec();
        let objects = units.iter().map(|unit| unit.main.as_str()).chain(parts);
        linking.extend(objects.map(object_of));
        let ran = units::link(dir.path(), &linking).map_err(HostError::no_compiler)?;
        if ran.status.success() {
            Ok(dir)
        } else {
            Err(refused(dir, nicforge_clang::name(), &ran.stderr).into())
        }
    }

    /// Runs input events in order.
    pub fn run(&self, events: &[InputEvent], entries: &[(TableId, Entry)]) -> Result<DpdkRun, DpdkError> {
        self.play(events, entries, false)
    }

    /// The same, if wanted with one event after the other.
    fn play(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
        in_turn: bool,
    ) -> Result<DpdkRun, DpdkError> {
        let dir = self.build()?;
        let at = |name: &str| dir.path().join(name);
        let io = |name: &str, source| DpdkError::Io { path: at(name), source };
        let base = &self.artifact.base;
        for (name, bytes) in [("events", files::events(events)), ("fill", files::fill(base, entries))] {
            std::fs::write(at(name), bytes).map_err(|e| io(name, e))?;
        }
        let longest = events.iter().map(|event| match &event.input {
            Input::Net { frame, .. } => frame.len(),
            Input::Host { message } => message.len(),
        });
        let mut command = Command::new(at("app"));
        command.arg("--nf-frame").arg(longest.max().unwrap_or(0).to_string());
        for name in ["events", "fill", "tables", "outputs", "stats"] {
            command.arg(format!("--nf-{name}")).arg(at(name));
        }
        command.arg("--nf-in-turn").arg(u32::from(in_turn).to_string());
        let ran = command.stdin(Stdio::null()).output().map_err(|e| io("app", e))?;
        if !ran.status.success() {
            let message = String::from_utf8_lossy(&ran.stderr).trim().to_string();
            return Err(DpdkError::Failed { status: ran.status, message });
        }
        let read = |name: &str| std::fs::read(at(name)).map_err(|e| io(name, e));
        let stats = files::stats(&String::from_utf8_lossy(&read("stats")?)).map_err(DpdkError::Results)?;
        let shards = files::shards(&read("tables")?, &self.program, base).map_err(DpdkError::Results)?;
        let tables = shards.merged(&self.program, base, entries);
        let (outputs, departures) =
            files::outputs(&read("outputs")?, events.len(), base).map_err(DpdkError::Results)?;
        Ok(DpdkRun { outputs, departures, tables, stats, ..DpdkRun::default() })
    }

    /// Runs events here and in the interpreter, which runs `reference`; gives the run and what differs.
    pub fn verify(
        &self,
        reference: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), DpdkError> {
        let mut pipeline = self.artifact.base.pipeline.clone();
        let in_turn = full_among_replicas(reference, &pipeline, entries, events);
        let run = self.play(events, entries, in_turn)?;
        // The network block of an NFP puts packets back into the order in which they came, whatever engines did.
        pipeline.ordered_output |= self.artifact.engines == Engines::Nfp;
        let found = compare(&run, (reference, &self.program), &pipeline, entries, events);
        Ok((run, found))
    }
}
