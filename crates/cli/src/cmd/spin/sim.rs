//! `nicforge spin sim`: handlers on a simulated NIC, fed with made-up packets or a capture.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use nicforge_driver::Failure;
use nicforge_isa::object::riscv::{self, Image};
use nicforge_run::Fault;
use nicforge_run::pcap;
use nicforge_run::spin::datapath::Rtl;
use nicforge_run::spin::{
    Gdb, HostProgram, Layout, Lines, Native, Session, Simulation, simulate_on,
};
use nicforge_run::temp::Folder;
use nicforge_spin::nic::{
    Compat, Debugger, Engine, Full, Iss, Nic, NicError, Options, SparseMemory,
};

use super::build::{self, EngineArg};
use super::input::Input;
use super::machine::{self, Chosen};
use super::{datapath, table};

/// Datapaths: they match, store and schedule packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatapathArg {
    /// As part of the simulated NIC
    Software,
    /// The modules of rtl/spin, simulated cycle by cycle by Verilator
    Rtl,
}

/// `nicforge spin sim`.
#[derive(Args)]
pub struct Sim {
    /// Handlers in C, or an image (.elf)
    file: PathBuf,
    /// Machine: pspin (4 clusters of 8 at 1 GHz), fpspin (2 of 8 at 40 MHz), or a target file with
    /// a section [spin]
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "fpspin")]
    machine: String,
    /// What runs handlers
    #[arg(long, value_enum, default_value = "iss")]
    engine: EngineArg,
    /// What matches, stores and schedules packets; rtl is hardware (of fpspin), prints its
    /// latencies and sizes, and takes rules for all packets
    #[arg(long, value_enum, default_value = "software")]
    datapath: DatapathArg,
    /// Let the hardware's streams wait at random, the same way for the same number
    #[arg(long, default_value_t = 0, value_name = "N", requires = "datapath")]
    stalls: u64,
    #[command(flatten)]
    input: Input,
    /// A host program works for so many cycles between two looks for requests; shows what share of
    /// its time it has for that
    #[arg(long, value_name = "CYCLES", conflicts_with = "answer_after")]
    host_work: Option<u64>,
    /// Cycles of a look, and of an answer
    #[arg(long, default_value_t = 64, value_name = "CYCLES", requires = "host_work")]
    host_look: u64,
    #[arg(long, default_value_t = 20, value_name = "CYCLES", requires = "host_work")]
    host_answer: u64,
    /// With the faults of the published hardware and libraries
    #[arg(long)]
    bugs: bool,
    /// Make packets wait, not drop them, while packet memory is full
    #[arg(long)]
    wait: bool,
    /// Write what ran where and when, for chrome://tracing or ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Write frames that were sent to a capture
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Wait for GDB at a port of this machine (default: any); cores are its threads, and stand
    /// before the first handler's first instruction
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0",
          require_equals = true)]
    gdb: Option<u16>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// For the compiler: -DNAME=VALUE, -I DIR, -O2 and so on
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Simulates and reports.
pub fn run(args: Sim) -> Result<(), Failure> {
    if args.timeline.is_some() && args.engine == EngineArg::Native {
        return Err(Failure::usage("--timeline shows cycles, which only --engine iss has"));
    }
    if args.gdb.is_some() && args.engine == EngineArg::Native {
        return Err(Failure::usage("--gdb is for --engine iss; start native handlers under GDB"));
    }
    let Chosen { machine, layout } = machine::find(&args.machine)?;
    let native = match args.engine {
        EngineArg::Iss => None,
        EngineArg::Native => Some(build::native(&args.file, layout, &args.flags)?),
    };
    let (image, mut lines, elf) = match &native {
        Some(native) => (native.image.clone(), Lines::new(&native.elf), Vec::new()),
        None => read(&args.file, layout, &args.flags)?,
    };
    let handlers = args.input.handlers(&args.file, &image)?;
    let memory = args.input.memory()?;
    let rules = args.datapath == DatapathArg::Rtl;
    let (arrivals, what) = args.input.arrivals(layout.api, &machine, rules)?;
    let simulation = Simulation {
        machine: &machine,
        image: &image,
        handlers,
        ruleset: Some(args.input.ruleset()?),
        options: Options {
            compat: Compat { bugs: args.bugs },
            full: if args.wait { Full::Wait } else { Full::Drop },
            watchdog: args.input.watchdog(),
            memory: args.input.memory_rules(layout.api),
            ..Options::default()
        },
        host: match (args.input.answer_after, args.host_work) {
            (Some(delay), _) => HostProgram::After(delay),
            (None, Some(work)) => {
                HostProgram::Works { work, look: args.host_look, answer: args.host_answer }
            }
            (None, None) => HostProgram::Absent,
        },
        memory: &memory,
    };
    let mut session = None;
    let engine: Box<dyn Engine> = match &native {
        Some(native) => {
            Box::new(Native::new(&machine, native).map_err(|e| Failure::of(Fault::Environment, e))?)
        }
        None => {
            let cores = Iss::new(&machine, simulation.options.slice);
            match args.gdb {
                None => Box::new(cores),
                Some(port) => {
                    let (debugger, begun) = debugged(port, machine.hpus(), &args.file, &elf)?;
                    session = Some(begun);
                    Box::new(cores.with_debugger(debugger))
                }
            }
        }
    };
    let host = Box::new(SparseMemory::default());
    let mut nic = Nic::with_engine(&machine, simulation.options.clone(), host, engine);
    let mut latencies = None;
    if args.datapath == DatapathArg::Rtl {
        let path = Rtl::new(&machine, &simulation.options, args.stalls);
        let path = path.map_err(|e| Failure::of(e.fault(), e))?;
        latencies = Some(path.latencies());
        nic = nic.with_datapath(Box::new(path));
    }
    let simulated = simulate_on(&simulation, nic, arrivals);
    if let Some((session, _folder)) = session {
        session.end();
    }
    let mut simulated = simulated.map_err(|e| refused(&args.file, &e))?;
    simulated.faults.iter_mut().for_each(|fault| lines.explain(fault));
    if let Some(path) = &args.timeline {
        let text = table::timeline(&simulated, &machine).to_string();
        std::fs::write(path, text)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    }
    if let Some(path) = &args.out {
        let frames: Vec<pcap::Frame> = simulated
            .sent
            .iter()
            .map(|(time, data)| pcap::Frame {
                time_ns: (*time as f64 * machine.cycle_ns()) as u64,
                original_length: data.len() as u32,
                data: data.clone(),
            })
            .collect();
        let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", path.display()));
        pcap::write(&mut std::fs::File::create(path).map_err(fail)?, &frames).map_err(fail)?;
    }
    if args.json {
        let mut shown = table::json(&simulated, &machine, native.is_none());
        if let Some(latencies) = latencies {
            shown["datapath"] = datapath::json(&latencies.lock().map(|l| *l).unwrap_or_default());
        }
        outln!("{shown:#}");
    } else {
        let name = args.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        crate::out::text(&table::text(&simulated, &machine, &name, &what, native.is_none()));
        if let Some(latencies) = latencies {
            let latencies = latencies.lock().map(|l| *l).unwrap_or_default();
            crate::out::text(&format!("\n{}", datapath::text(&latencies, &machine)));
        }
    }
    Ok(())
}

/// A session of GDB, and a folder with the image, if there was none for it to read.
type Begun = (Session, Option<Folder>);

/// Waits for GDB, which reads symbols from the image.
fn debugged(
    port: u16,
    cores: usize,
    file: &Path,
    elf: &[u8],
) -> Result<(Box<dyn Debugger>, Begun), Failure> {
    let fail = |e: std::io::Error| Failure::of(Fault::Environment, format!("--gdb={port}: {e}"));
    let (mut image, mut folder) = (file.to_path_buf(), None);
    if is_source(file) {
        let made = Folder::new("gdb").map_err(fail)?;
        image = made.path().join("handlers.elf");
        std::fs::write(&image, elf).map_err(fail)?;
        folder = Some(made);
    }
    let gdb = Gdb::listen(port, cores).map_err(fail)?;
    let address = gdb.address().map_err(fail)?;
    eprintln!("waiting for GDB: gdb-multiarch {} -ex 'target remote {address}'", image.display());
    let (debugger, session) = gdb.accept().map_err(fail)?;
    Ok((debugger, (session, folder)))
}

fn is_source(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "c")
}

/// Reads an image, or compiles handlers.
pub fn load(file: &Path, layout: Layout, flags: &[String]) -> Result<(Image, Lines), Failure> {
    read(file, layout, flags).map(|(image, lines, _)| (image, lines))
}

/// Reads an image, or compiles handlers, and gives the bytes too.
fn read(file: &Path, layout: Layout, flags: &[String]) -> Result<(Image, Lines, Vec<u8>), Failure> {
    if is_source(file) {
        let built = build::image(&[file.to_path_buf()], layout, flags)?;
        return Ok((built.image, Lines::new(&built.elf), built.elf));
    }
    let bytes =
        std::fs::read(file).map_err(|e| Failure::user(format!("{}: {e}", file.display())))?;
    let image = riscv::parse(&bytes).map_err(|e| {
        Failure::user(format!("{}: neither C (*.c) nor an image of handlers: {e}", file.display()))
    })?;
    Ok((image, Lines::new(&bytes), bytes))
}

/// An image does not suit the machine.
pub fn refused(file: &Path, error: &NicError) -> Failure {
    Failure::user(format!("{}: {error}", file.display()))
}
