//! Programs as hardware: generated as SystemVerilog, simulated cycle by cycle by Verilator,
//! compared with the interpreter.
//!
//! Events go into the design's stream one behind the other, as fast as it takes them; tables are
//! filled and read through its AXI4-Lite port. Time and seed of an event are what the design's
//! inputs show with its first beat, so nothing has to be recorded: outputs, tables and evictions
//! are the interpreter's, event by event.

mod build;
mod files;
mod held;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nicforge_codegen::Unsupported;
use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::rtl::{
    Form, LONGEST, RtlArtifact, SHORTEST, Wanted, What, generate, in_stages,
};
use nicforge_ir::{Entry, HandlerId, Input, InputEvent, Program, TableId, Verified};
use nicforge_target::area::Handlers;

pub use build::{Simulator, Verilator};
pub use held::Held;

use crate::dpdk::{Difference, DpdkRun, compare};
use crate::fault::Fault;
use crate::temp::{self, Folder};

/// Events of a run from which on an optimised simulator saves more than it takes to build: clang
/// needs 7 s more (nf_chain), and an event 0.37 ms less (kv_cache: 0.44 and 0.07). An entry of a
/// table, which is read at the end, counts as a third of an event: so `verify` of flow_stats, with
/// 69,632 entries, takes 9 s instead of 35, that of kv_cache, with 65,536, 14 instead of 13.
const LONG: usize = 20_000;

/// Why a design could not be made or run.
#[derive(Debug, thiserror::Error)]
pub enum RtlError {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<Unsupported>),
    #[error(
        "Verilator is missing: run scripts/bootstrap.sh, or set NICFORGE_VERILATOR to the folder of a Verilator 5.48 with bin and include"
    )]
    NoVerilator,
    #[error("waveforms need lz4; install it with `apt-get install liblz4-dev`")]
    NoLz4,
    #[error("`{tool}` cannot be started ({source}); run scripts/bootstrap.sh, which installs it")]
    NoTool { tool: &'static str, source: std::io::Error },
    #[error("internal error: {tool} refuses the generated design: {message}")]
    Tool { tool: &'static str, message: String },
    #[error("internal error: the simulated design failed: {0}")]
    Failed(String),
    #[error("the simulated design cannot be loaded: {0}")]
    Load(#[from] libloading::Error),
    #[error("internal error: the simulation's results make no sense: {0}")]
    Results(String),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

impl RtlError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            RtlError::NoVerilator
            | RtlError::NoLz4
            | RtlError::NoTool { .. }
            | RtlError::Load(_)
            | RtlError::Io { .. } => Fault::Environment,
            _ => Fault::User,
        }
    }
}

/// Options of driving a design.
#[derive(Clone, Debug, Default)]
pub struct Drive {
    /// Not 0: streams wait at random, and the host looks into tables meanwhile, the same way for
    /// the same number.
    pub pressure: u64,
    /// Where to write waveforms (FST).
    pub trace: Option<PathBuf>,
    /// Events, by index, whose frames are marked as bad, as a MAC marks what came in damaged.
    pub bad: BTreeSet<usize>,
    /// Resets the design so many cycles after the first event and begins anew; what was in flight
    /// is lost, and the results are those of the second time.
    pub reset_at: Option<NonZeroU64>,
    /// As beside a MAC, which cannot wait: frames that find no room are lost whole. Outputs are
    /// then those of the frames that were not, in order, from index 0, and there are no latencies.
    pub lossy: bool,
    /// The design's own timers tick by the time of its events, in place of the ticks among these.
    /// They have other random numbers, and the first event must be one that designs take.
    pub own_ticks: bool,
}

/// Counts of a run. A cycle is 4 ns at 250 MHz.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtlStats {
    pub events: u64,
    /// Cycles from the first beat in to the last one out.
    pub busy_cycles: u64,
    /// Cycles until the last event was done.
    pub cycles: u64,
    pub beats_in: u64,
    /// Cycles in which a beat was there and the design did not take it.
    pub waits_in: u64,
    pub sent: u64,
    pub beats_out: u64,
    /// Cycles in which a beat was there and the outside did not take it.
    pub waits_out: u64,
    pub to_host: u64,
    pub host_beats: u64,
    pub host_waits: u64,
    pub counters: BTreeMap<String, u64>,
    /// Cycles from the first beat of an event to the first beat of what it led to, sorted.
    pub latencies: Vec<u64>,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct RtlRun {
    pub run: DpdkRun,
    pub stats: RtlStats,
}

/// A program's design.
pub struct RtlProgram {
    artifact: RtlArtifact,
    program: Program,
    pipeline: Pipeline,
}

/// True if designs take an event; other frames they drop.
pub fn takes(event: &InputEvent) -> bool {
    match &event.input {
        Input::Net { frame, .. } => (SHORTEST..=LONGEST).contains(&frame.len()),
        Input::Host { message } => (1..=LONGEST).contains(&message.len()),
        Input::Tick { .. } => true,
    }
}

impl RtlProgram {
    /// Generates the design of a program whose calls are all inlined.
    ///
    /// # Errors
    /// What hardware cannot do.
    pub fn new(program: &Verified<Program>, wanted: Wanted) -> Result<RtlProgram, RtlError> {
        RtlProgram::replicated(program, wanted, 1)
    }

    /// Generates a design with so many replicas, if it is an engine.
    ///
    /// # Errors
    /// What hardware cannot do.
    pub fn replicated(
        program: &Verified<Program>,
        wanted: Wanted,
        replicas: u32,
    ) -> Result<RtlProgram, RtlError> {
        let artifact = generate(program, wanted, replicas).map_err(RtlError::Unsupported)?;
        Ok(RtlProgram {
            artifact,
            program: (**program).clone(),
            pipeline: Pipeline::single(program),
        })
    }

    /// Generates the design of a program with internal events, whose handlers stand in these stages
    /// if they are no pipe.
    ///
    /// # Errors
    /// What hardware cannot do, and stages that have to be one.
    pub fn in_stages(
        program: &Verified<Program>,
        stages: &[Vec<HandlerId>],
        wanted: Wanted,
    ) -> Result<RtlProgram, RtlError> {
        let artifact = in_stages(program, stages, wanted).map_err(RtlError::Unsupported)?;
        Ok(RtlProgram {
            artifact,
            program: (**program).clone(),
            pipeline: Pipeline::single(program),
        })
    }

    pub fn artifact(&self) -> &RtlArtifact {
        &self.artifact
    }

    /// The handlers' forms, in terms of what they take.
    pub fn handlers(&self) -> Handlers {
        match &self.artifact.form {
            Form::Pipe { .. } => Handlers::Pipe {
                ports: self.artifact.ports.clone(),
                copies: self.artifact.copies.clone(),
                moves_payload: self.artifact.moves_payload,
                sums: self
                    .artifact
                    .asked
                    .iter()
                    .filter(|what| matches!(what, What::Sum { .. }))
                    .count() as u32,
                patches: (self.artifact.patches.count, self.artifact.patches.bytes),
                slots: self.artifact.slots,
                string_locks: self.artifact.string_locks,
                queues: self.artifact.queues.clone(),
                far: self.artifact.asked.iter().filter_map(|what| what.bytes()).collect(),
                stored: self
                    .artifact
                    .asked
                    .iter()
                    .filter_map(|what| self.artifact.stored(*what))
                    .collect(),
            },
            Form::Engine { replicas, .. } => Handlers::Engines(*replicas),
            // Each counted as if it had all tables that nothing changes.
            Form::Stages { stages, .. } => Handlers::Engines(stages.len() as u32),
        }
    }

    /// Writes the generated files and the library modules they use into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), RtlError> {
        build::write(&self.artifact, dir)
    }

    /// Complaints of Verilator's lint about the design; empty if there are none.
    ///
    /// # Errors
    /// Verilator is missing.
    pub fn lint(&self) -> Result<String, RtlError> {
        Verilator::find()?.lint(&self.artifact)
    }

    /// Runs input events in order. Frames that the design does not [take](takes) are given to it
    /// too; it drops and counts them.
    ///
    /// # Errors
    /// See [`RtlError`].
    pub fn run(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
        drive: &Drive,
    ) -> Result<RtlRun, RtlError> {
        let (dir, mut command) = self.prepare(events, entries, drive)?;
        let ran = command.stdin(Stdio::null()).output();
        let ran =
            ran.map_err(|source| RtlError::Io { path: command.get_program().into(), source })?;
        if !ran.status.success() {
            let message = String::from_utf8_lossy(&ran.stderr).trim().to_string();
            return Err(RtlError::Failed(if message.is_empty() {
                ran.status.to_string()
            } else {
                message
            }));
        }
        self.results(dir.path(), events.len())
    }

    /// Like [`RtlProgram::run`]; the design stays for its tables to be used.
    ///
    /// # Errors
    /// See [`RtlError`].
    pub fn hold(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
        drive: &Drive,
    ) -> Result<(RtlRun, Held<'_>), RtlError> {
        let (dir, mut command) = self.prepare(events, entries, drive)?;
        command.args(["--serve", "1"]);
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child =
            child.map_err(|source| RtlError::Io { path: command.get_program().into(), source })?;
        let held = Held::new(child, &self.artifact, &self.program)?;
        Ok((self.results(dir.path(), events.len())?, held))
    }

    /// The simulator's process, and the folder with its files.
    fn prepare(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
        drive: &Drive,
    ) -> Result<(Folder, Command), RtlError> {
        let places: usize = self.program.tables.values().map(|table| table.capacity as usize).sum();
        let wanted = Simulator {
            trace: drive.trace.is_some(),
            lossy: drive.lossy,
            own_ticks: drive.own_ticks,
            optimised: events.len() + places / 3 > LONG,
        };
        let simulator = Verilator::find()?.simulator(&self.artifact, wanted)?;
        let dir = Folder::new("rtl");
        let dir = dir.map_err(|source| RtlError::Io { path: temp::place(), source })?;
        let at = |name: &str| dir.path().join(name);
        let inputs = [
            ("events", files::events(&self.program, events, drive)),
            ("fill", files::fill(&self.artifact, entries)),
            ("shape", files::shape(&self.artifact)),
        ];
        for (name, bytes) in inputs {
            std::fs::write(at(name), bytes)
                .map_err(|source| RtlError::Io { path: at(name), source })?;
        }
        let mut command = Command::new(&simulator);
        for name in ["events", "fill", "shape", "outputs", "tables", "stats"] {
            command.arg(format!("--{name}")).arg(at(name));
        }
        command.arg("--seed").arg(drive.pressure.to_string());
        command.arg("--lossy").arg(u64::from(drive.lossy).to_string());
        command.arg("--reset-at").arg(drive.reset_at.map_or(0, NonZeroU64::get).to_string());
        if let Some(trace) = &drive.trace {
            command.arg("--trace").arg(trace);
        }
        Ok((dir, command))
    }

    /// Results that the simulator wrote down.
    fn results(&self, dir: &Path, events: usize) -> Result<RtlRun, RtlError> {
        let at = |name: &str| dir.join(name);
        let read = |name: &str| {
            std::fs::read(at(name)).map_err(|source| RtlError::Io { path: at(name), source })
        };
        let outputs =
            files::outputs(&read("outputs")?, events, &self.artifact).map_err(RtlError::Results)?;
        // Engines evict and refuse what the interpreter does; pipes what their rows leave them.
        let pipe = matches!(self.artifact.form, Form::Pipe { .. });
        let (evicted, refused) = (pipe.then_some(outputs.evicted), pipe.then_some(outputs.refused));
        let (outputs, departures) = (outputs.by_event, outputs.departures);
        let tables = files::tables(&read("tables")?, &self.program, &self.artifact)
            .map_err(RtlError::Results)?;
        let stats = files::stats(&read("stats")?, &self.artifact).map_err(RtlError::Results)?;
        Ok(RtlRun {
            run: DpdkRun { outputs, departures, evicted, refused, tables, ..DpdkRun::default() },
            stats,
        })
    }

    /// Runs events here and in the interpreter, which runs `reference`; gives the run and what
    /// differs.
    ///
    /// # Errors
    /// See [`RtlError`].
    pub fn verify(
        &self,
        reference: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
        drive: &Drive,
    ) -> Result<(RtlRun, Vec<Difference>), RtlError> {
        let run = self.run(events, entries, drive)?;
        let found = self.differences(&run, reference, entries, events);
        Ok((run, found))
    }

    /// What of a run is not as the interpreter says, which runs `reference` on the events that the
    /// design took, in their order, and evicts and refuses what the design did.
    pub fn differences(
        &self,
        run: &RtlRun,
        reference: &Verified<Program>,
        entries: &[(TableId, Entry)],
        taken: &[InputEvent],
    ) -> Vec<Difference> {
        compare(&run.run, (reference, &self.program), &self.pipeline, entries, taken)
    }
}
