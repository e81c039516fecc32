//! Programs as DPDK processes: built with pkg-config, run on events or on DPDK ports, read when
//! they end.
//!
//! In [`DpdkProgram::run`] events come from a file instead of ports, with their time and random
//! stream, and every output is written down with the number of the event it comes from; that is
//! what can be compared with the interpreter. In [`DpdkProgram::run_ports`] packets come from and
//! go to ports (pcap files, rings, null, af_packet, af_xdp, memif) by the arguments that DPDK's
//! environment layer takes.

pub(crate) mod build;
pub(crate) mod files;
mod process;
mod verify;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use nicforge_codegen::dpdk::{DpdkArtifact, Pipeline, generate, host_stages};
use nicforge_codegen::{LineStyle, Unsupported};
use nicforge_ir::{Entry, Eviction, InputEvent, Output, Program, TableId, Verified};
use nicforge_target::Target;

use crate::fault::Fault;
use crate::host::HostError;
use crate::temp::{self, Folder};

pub use build::ahead;
pub use files::Shards;
pub use process::{Live, Progress};
pub(crate) use verify::full_among_replicas;
pub use verify::{Difference, compare, verify_apart, verify_dpdk, verify_on};

/// Why a DPDK program could not be built or run.
#[derive(Debug, thiserror::Error)]
pub enum DpdkError {
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<Unsupported>),
    #[error(
        "DPDK is not installed ({reason}); install it with `apt-get install --no-install-recommends libdpdk-dev pkg-config`"
    )]
    NoDpdk { reason: String },
    #[error(
        "there is no DPDK for arm64 in {}; `scripts/arm64-dpdk.sh` puts it there (NICFORGE_ARM64 names another folder)",
        path.display()
    )]
    NoSysroot { path: PathBuf },
    #[error("`{QEMU}` cannot be started ({source}); install it with `apt-get install qemu-user`", QEMU = build::QEMU)]
    NoEmulator { source: std::io::Error },
    #[error(transparent)]
    Build(#[from] HostError),
    #[error("the process ended with {status}: {message}{}", suspects(status))]
    Failed { status: std::process::ExitStatus, message: String },
    #[error(
        "no stage can run in a process of its own: the pipeline needs stages with NF_ON(host) handlers beside others, on this machine's DPDK"
    )]
    NotApart,
    #[error("the host's process: {0}")]
    Host(Box<DpdkError>),
    #[error("{command}: {message}")]
    Exec { command: String, message: String },
    #[error("internal error: the process's results make no sense: {0}")]
    Results(String),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

/// Who may be at fault if a signal ended the process.
fn suspects(status: &std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    status.signal().map_or(String::new(), |_| crate::native::suspects())
}

impl DpdkError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            DpdkError::Failed { status, .. } if !suspects(status).is_empty() => Fault::User,
            DpdkError::NoDpdk { .. }
            | DpdkError::NoSysroot { .. }
            | DpdkError::NoEmulator { .. }
            | DpdkError::Failed { .. }
            | DpdkError::Exec { .. }
            | DpdkError::Io { .. } => Fault::Environment,
            DpdkError::Build(error) => error.fault(),
            _ => Fault::User,
        }
    }
}

/// Machines that an application is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Machine {
    /// This machine, with the DPDK that is installed.
    Here,
    /// Arm cores of 64 bits that a compiler knows by this name, with Debian's DPDK for arm64; run
    /// here under qemu, which shows what the program does and nothing of how fast.
    Arm64 { cpu: String },
}

impl Machine {
    /// The machine of a target's first units: this one, unless the spec names other cores.
    pub fn of(target: &Target) -> Machine {
        match target.units.first().and_then(|group| group.cpu.clone()) {
            Some(cpu) => Machine::Arm64 { cpu },
            None => Machine::Here,
        }
    }
}

/// Counters of one lcore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Number of the stage; `None` is the lcore that talks to ports.
    pub stage: Option<usize>,
    pub events: u64,
    /// Time stamp counter cycles spent on bursts that were not empty.
    pub cycles: u64,
    pub empty_polls: u64,
    /// Deepest that an input ring was seen.
    pub depth: u64,
    /// Times a full ring made it wait.
    pub full: u64,
    /// Events lost for lack of memory.
    pub lost: u64,
    /// Events that a full queue lost which may lose (`NF_QUEUE(entries, loses)`), in runs that are
    /// no comparisons.
    pub overrun: u64,
    /// Packets that a port did not take.
    pub tx_failed: u64,
    /// What went to the host side beside packets.
    pub messages: u64,
    pub dma_writes: u64,
    pub logs: u64,
    /// It ended before it was told to.
    pub gone: bool,
    /// By drop reason of the artifact.
    pub drops: Vec<u64>,
    /// Refused insertions and evictions by table, of tables that are this worker's own.
    pub refused: BTreeMap<TableId, u64>,
    pub evicted: BTreeMap<TableId, u64>,
}

/// Counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpdkStats {
    pub workers: Vec<WorkerStats>,
    pub received: u64,
    /// Packets sent by port.
    pub sent: Vec<u64>,
    pub to_stack: u64,
    pub to_host: u64,
    /// Packets sent to ports that are not there.
    pub no_port: u64,
    /// Packets that a port received and could not store, by port. They are not among those
    /// received.
    pub missed: Vec<u64>,
    /// Packets, and events without one, that were in flight when a worker had gone; lost.
    pub stranded: u64,
    pub stranded_events: u64,
    /// What went up to the process with the host's stages, if there is one.
    pub link: LinkStats,
    /// Cycles of the time stamp counter per second.
    pub tsc_hz: u64,
}

/// Transfers to the process with the host's stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Entries that were moved.
    pub moved: u64,
    /// Transfers that moved them.
    pub commands: u64,
    /// Bytes in them: lines that entries had something in, and what lay between those of one
    /// transfer.
    pub bytes: u64,
    /// A DMA device did it; else the modelled engine.
    pub device: bool,
}

impl DpdkStats {
    /// Packets dropped by any worker, whatever the reason.
    pub fn dropped(&self) -> u64 {
        self.workers.iter().flat_map(|worker| &worker.drops).sum()
    }

    /// Packets that ended in no way the program chose: name of the way, and how many.
    pub fn losses(&self) -> Vec<(&'static str, u64)> {
        let sum = |of: fn(&WorkerStats) -> u64| self.workers.iter().map(of).sum();
        let all = [
            ("sent to a port that is not there", self.no_port),
            ("not taken by a port", sum(|w| w.tx_failed)),
            ("no memory, or too many events at once", sum(|w| w.lost)),
            ("lost by a full queue that may lose", sum(|w| w.overrun)),
            ("in flight when a worker ended", self.stranded + self.stranded_events),
            ("missed by a port", self.missed.iter().sum()),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// A packet as it left, in the order in which packets left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Index of the input event.
    pub event: usize,
    pub port: u32,
    pub frame: Vec<u8>,
}

/// A new key that a table refused, and how many the same event had put into it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub table: TableId,
    pub inserted: u32,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct DpdkRun {
    /// By input event. Those of one handler are in order; handlers of different stages come in the
    /// order of the stages. Empty for runs on ports.
    pub outputs: Vec<Vec<Output>>,
    pub departures: Vec<Departure>,
    /// By input event what its LRU tables evicted, where that is for the target to choose and to
    /// say.
    pub evicted: Option<Vec<Vec<Eviction>>>,
    /// By input event which of its hash tables refused new keys, where a table may do that before
    /// it is full.
    pub refused: Option<Vec<Vec<Refusal>>>,
    /// Contents of all tables, shards merged.
    pub tables: BTreeMap<TableId, Vec<Entry>>,
    pub stats: DpdkStats,
    /// How often the process with the host's stages was started again.
    pub host_restarts: u32,
}

/// Ports for a run.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// Values of `--vdev`, one per port in order, as `net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap`.
    pub vdevs: Vec<String>,
    /// Packets to take; 0: until the process gets SIGINT or SIGTERM.
    pub limit: u64,
    /// Bytes of the longest frame that comes in. Longer ones are counted as lost.
    pub longest_frame: u32,
    /// A worker that ends early and behind how many events, as if it had died: for tests of what is
    /// counted then.
    pub halt: Option<(u32, u64)>,
}

/// A built DPDK application.
pub struct DpdkProgram {
    artifact: DpdkArtifact,
    program: Program,
    machine: Machine,
    /// Stages of the host run in a process of their own.
    apart: bool,
    /// The DMA device between both processes.
    dma: Option<String>,
    /// [`DpdkProgram::run`] lets one event in when all before it are done.
    in_turn: bool,
    /// Executables for ports and for [`DpdkProgram::run`], built when they are first needed.
    live: OnceCell<Folder>,
    verify: OnceCell<Folder>,
}

impl DpdkProgram {
    /// Generates a program whose calls are all inlined. It is compiled when it first runs: for
    /// ports without any trace of what [`DpdkProgram::run`] writes down.
    pub fn new(program: &Verified<Program>, pipeline: &Pipeline) -> Result<DpdkProgram, DpdkError> {
        DpdkProgram::new_on(Machine::Here, program, pipeline)
    }

    /// Generates and builds a program for another machine.
    pub fn new_on(
        machine: Machine,
        program: &Verified<Program>,
        pipeline: &Pipeline,
    ) -> Result<DpdkProgram, DpdkError> {
        let artifact =
            generate(program, pipeline, LineStyle::Comments).map_err(DpdkError::Unsupported)?;
        let (live, verify) = (OnceCell::new(), OnceCell::new());
        Ok(DpdkProgram {
            artifact,
            program: (**program).clone(),
            machine,
            apart: false,
            dma: None,
            in_turn: false,
            live,
            verify,
        })
    }

    /// From now on stages whose handlers are pinned to the host run in a process of their own,
    /// joined to the first one by queues in memory (`runtime/dpdk/nf_far.h`).
    ///
    /// # Errors
    /// [`DpdkError::NotApart`] if the pipeline has no such stage beside others, or the machine is
    /// emulated.
    pub fn apart(mut self) -> Result<DpdkProgram, DpdkError> {
        let far = host_stages(&self.program, &self.artifact.pipeline);
        self.apart = far.contains(&true) && far.contains(&false) && self.machine == Machine::Here;
        if self.apart { Ok(self) } else { Err(DpdkError::NotApart) }
    }

    /// Puts a DMA device of DPDK's between both processes, such as `dma_skeleton0`; without one the
    /// engine is modelled.
    pub fn with_dma(mut self, device: Option<&str>) -> DpdkProgram {
        self.dma = device.map(str::to_string);
        self
    }

    /// Lets [`DpdkProgram::run`] give one event after the other.
    pub fn in_turn(mut self, in_turn: bool) -> DpdkProgram {
        self.in_turn = in_turn;
        self
    }

    pub fn artifact(&self) -> &DpdkArtifact {
        &self.artifact
    }

    /// The executable, built if it is not there yet.
    pub fn path(&self, verify: bool) -> Result<PathBuf, DpdkError> {
        let cell = if verify { &self.verify } else { &self.live };
        if cell.get().is_none() {
            crate::native::check(&self.program).map_err(|e| HostError::Functions(Box::new(e)))?;
            let dir = build::build(&self.artifact.source, verify, &self.machine)?;
            // Nobody else can have set it: the cell is not shared between threads.
            let _ = cell.set(dir);
        }
        Ok(cell.get().map(|dir| dir.path().join("app")).unwrap_or_default())
    }

    /// Runs input events in order, as fast as they are done.
    pub fn run(
        &self,
        events: &[InputEvent],
        entries: &[(TableId, Entry)],
    ) -> Result<DpdkRun, DpdkError> {
        let dir = self.run_dir()?;
        let at = |name: &str| dir.path().join(name);
        write(&at("events"), &files::events(&self.program, events))?;
        let longest = events.iter().map(|event| event.input.bytes().len());
        let frame = longest.max().unwrap_or(0).to_string();
        let longest = frame.clone();
        let own = [
            ("--nf-events", at("events")),
            ("--nf-outputs", at("outputs")),
            ("--nf-frame", frame.into()),
            ("--nf-in-turn", u32::from(self.in_turn).to_string().into()),
        ];
        let mut command = self.command_with(dir.path(), &[], entries, &own)?;
        let host = self.start_host(dir.path(), longest, true)?;
        process::to_the_end(&mut command).map_err(|error| self.starting(error))?;
        host.map_or(Ok(0), process::Helper::end)?;
        let mut run = self.results(dir.path(), entries)?;
        let mut logged = read(&at("outputs"))?;
        if self.apart {
            logged.extend(read(&at("outputs.host"))?);
        }
        let (outputs, departures) =
            files::outputs(&logged, events.len(), &self.artifact).map_err(DpdkError::Results)?;
        (run.outputs, run.departures) = (outputs, departures);
        Ok(run)
    }

    /// Runs on DPDK ports until as many packets came in as [`Ports::limit`] says.
    pub fn run_ports(
        &self,
        ports: &Ports,
        entries: &[(TableId, Entry)],
    ) -> Result<DpdkRun, DpdkError> {
        let dir = self.run_dir()?;
        let mut command = self.command(dir.path(), ports, entries)?;
        let host = self.start_host(dir.path(), ports.longest_frame.to_string(), false)?;
        process::to_the_end(&mut command).map_err(|error| self.starting(error))?;
        let host_restarts = host.map_or(Ok(0), process::Helper::end)?;
        Ok(DpdkRun { host_restarts, ..self.results(dir.path(), entries)? })
    }

    /// Starts the process with the host's stages, if there is one. `dir` has the files of the first
    /// one.
    fn start_host(
        &self,
        dir: &Path,
        frame: String,
        verify: bool,
    ) -> Result<Option<process::Helper>, DpdkError> {
        if !self.apart {
            return Ok(None);
        }
        Ok(Some(process::Helper::start(self.host_command(dir, &frame, verify)?, !verify)))
    }

    /// The command that runs the stages of the host, beside [`DpdkProgram::command`] with the same
    /// folder and longest frame.
    pub fn host_command(
        &self,
        dir: &Path,
        frame: &str,
        verify: bool,
    ) -> Result<Command, DpdkError> {
        let lcores = self.artifact.pipeline.workers() + 1;
        let mut command = process::command(&self.machine, &self.path(verify)?, lcores, &[]);
        command.args(["--nf-host", "1", "--nf-frame", frame]);
        for (option, name) in
            [("--nf-far", "far"), ("--nf-fill", "fill"), ("--nf-tables", "tables.host")]
        {
            command.arg(option).arg(dir.join(name));
        }
        if verify {
            command.arg("--nf-outputs").arg(dir.join("outputs.host"));
        }
        Ok(command)
    }

    /// Runs on ports, watched, and until somebody stops it.
    pub fn run_live(
        &self,
        ports: &Ports,
        entries: &[(TableId, Entry)],
        live: &mut Live,
    ) -> Result<DpdkRun, DpdkError> {
        let dir = self.run_dir()?;
        let mut command = self.command(dir.path(), ports, entries)?;
        let host = self.start_host(dir.path(), ports.longest_frame.to_string(), false)?;
        process::watched(command.args(["--nf-report", "1"]), live)
            .map_err(|error| self.starting(error))?;
        let host_restarts = host.map_or(Ok(0), process::Helper::end)?;
        Ok(DpdkRun { host_restarts, ..self.results(dir.path(), entries)? })
    }

    /// The command that runs the application on ports; `dir` is a folder for its files.
    pub fn command(
        &self,
        dir: &Path,
        ports: &Ports,
        entries: &[(TableId, Entry)],
    ) -> Result<Command, DpdkError> {
        let (limit, frame) = (ports.limit.to_string(), ports.longest_frame.to_string());
        let count = ports.vdevs.len().to_string();
        let mut own = vec![
            ("--nf-limit", limit.into()),
            ("--nf-frame", frame.into()),
            ("--nf-ports", count.into()),
        ];
        if let Some((worker, events)) = ports.halt {
            own.push(("--nf-halt", format!("{worker}:{events}").into()));
        }
        self.command_with(dir, &ports.vdevs, entries, &own)
    }

    fn command_with(
        &self,
        dir: &Path,
        vdevs: &[String],
        entries: &[(TableId, Entry)],
        own: &[(&str, PathBuf)],
    ) -> Result<Command, DpdkError> {
        write(&dir.join("fill"), &files::fill(&self.artifact, entries))?;
        let app = self.path(own.iter().any(|(option, _)| *option == "--nf-outputs"))?;
        let workers = self.artifact.pipeline.workers();
        let lcores = if workers == 1 { 1 } else { workers + 1 };
        let vdevs: Vec<String> = vdevs.iter().chain(&self.dma).cloned().collect();
        let mut command = process::command(&self.machine, &app, lcores, &vdevs);
        for (option, value) in own {
            command.arg(option).arg(value);
        }
        for (option, name) in
            [("--nf-fill", "fill"), ("--nf-tables", "tables"), ("--nf-stats", "stats")]
        {
            command.arg(option).arg(dir.join(name));
        }
        if self.apart {
            command.arg("--nf-far").arg(dir.join("far"));
        }
        Ok(command)
    }

    /// An emulator that cannot be started is another problem than a program.
    fn starting(&self, error: DpdkError) -> DpdkError {
        match error {
            DpdkError::Io { source, .. } if self.machine != Machine::Here => {
                DpdkError::NoEmulator { source }
            }
            other => other,
        }
    }

    fn run_dir(&self) -> Result<Folder, DpdkError> {
        Folder::new("dpdk").map_err(|source| DpdkError::Io { path: temp::place(), source })
    }

    /// Results that processes that have ended left in their folder.
    pub fn results(&self, dir: &Path, entries: &[(TableId, Entry)]) -> Result<DpdkRun, DpdkError> {
        let text = read(&dir.join("stats"))?;
        let stats = files::stats(&String::from_utf8_lossy(&text)).map_err(DpdkError::Results)?;
        let mut dump = read(&dir.join("tables"))?;
        if self.apart {
            dump.extend(read(&dir.join("tables.host"))?);
        }
        let shards =
            files::shards(&dump, &self.program, &self.artifact).map_err(DpdkError::Results)?;
        let tables = shards.merged(&self.program, &self.artifact, entries);
        Ok(DpdkRun { tables, stats, ..DpdkRun::default() })
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), DpdkError> {
    std::fs::write(path, bytes).map_err(|source| DpdkError::Io { path: path.into(), source })
}

fn read(path: &Path) -> Result<Vec<u8>, DpdkError> {
    std::fs::read(path).map_err(|source| DpdkError::Io { path: path.into(), source })
}
