//! The command line.

mod bound;
mod plan;
mod running;
mod screen;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub use nicforge_driver::options::{Inputs, Loader, Planned, Source, seconds};

pub use bound::*;
pub use plan::*;
pub use running::*;
pub use screen::{command, list, parse, plain};

#[derive(Parser)]
#[command(
    name = "nicforge",
    version,
    about = "Write a packet program once; run it on any NIC",
    max_term_width = 110,
    arg_required_else_help = true
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print every command with what it is for
    #[arg(long, exclusive = true)]
    pub list: bool,
}

#[derive(Subcommand)]
pub enum Command {
    /// Parse and check a program; print every problem in it
    Check(Check),
    /// Compile a program and print or write what comes out
    Build(Build),
    /// Run a program on a capture, or on a live interface
    Run(Run),
    /// Compare a target with the interpreter, packet by packet
    Verify(Verify),
    /// Write what tests of a target need where the NIC is
    ///
    /// A folder with programs for the target, packets, expected outputs and a runner.
    Kit(Kit),
    /// Show every step one packet takes through a program
    ///
    /// Operation by operation, on source lines, with the values that were read and written.
    Trace(Trace),
    /// Guarantee a worst-case rate, with the packet that causes it
    Bound(Bound),
    /// Compare models with published measurements
    Validate(Validate),
    /// Read and write the tables of a running program
    Table(Table),
    /// Print the counters of a running program as Prometheus text
    Metrics(Metrics),
    /// Replace a program that runs on interfaces, keeping its tables
    Reload(Reload),
    /// End a program that outlives its run (`run --pin`)
    Detach(Detach),
    /// Language server: problems and costs in an editor
    Lsp(Lsp),
    /// Make a commented program to start from
    New(New),
    /// List the targets there are, or show one's specification
    Targets(Targets),
    /// Find the pipeline, replicas and memories for a target
    Plan(Plan),
    /// Simulate a plan on a NIC: rates, latency, queues, power
    Sim(Sim),
    /// Build and run sPIN handlers: C on RISC-V units of a NIC
    Spin(crate::cmd::spin::Spin),
    /// Run a command over every combination of values
    ///
    /// Values may be targets, programs, workloads, policies; what comes out is a table and a plot.
    Sweep(crate::cmd::sweep::Sweep),
    /// Share load between a NIC and a host that sleeps when it can
    ///
    /// Simulate, plan, profile and run it.
    Balance(crate::cmd::balance::Balance),
    /// Answer questions about a plan
    ///
    /// Such as: why is this stage not replicated, why is this table there.
    Explain(Explain),
    /// Say what this machine has of what Nicforge uses
    ///
    /// Compilers, libraries, simulators and what the kernel allows: where each is, which version,
    /// what needs it, and the command that installs the rest. Exit status 3 where
    /// even a program in the interpreter could not run, else 0.
    Doctor(Doctor),
    /// Print what completes commands in a shell
    ///
    /// Such as: nicforge completions bash > /etc/bash_completion.d/nicforge
    Completions(Completions),
    /// Write pages for man, one for each command
    Man(Manual),
    /// Say what a diagnostic's code means, with examples
    ExplainError(ExplainError),
    /// Write one HTML page: source, plans and what limits them
    ///
    /// For all targets side by side.
    Report(Report),
}

#[derive(ClapArgs)]
pub struct Targets {
    #[command(subcommand)]
    pub action: Option<TargetsAction>,
    /// Print as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub enum TargetsAction {
    /// Print a specification with the sources of its numbers
    Show {
        /// Name of a target, or a .toml file
        target: String,
    },
    /// Fit a specification's prices to what programs take on simulated cores, or on this machine
    ///
    /// Each program needs a capture beside it, `traffic.pcap`. On targets of codegen `riscv` the
    /// judge is the cycles of the generated code on simulated cores; on `xdp` it is this machine's
    /// kernel. Prices are fitted to half of the programs and judged on the others first; those of
    /// all go into the new specification.
    Fit {
        /// Name of a target, or a .toml file
        target: String,
        /// Folder of programs
        #[arg(long, value_name = "FOLDER")]
        from: PathBuf,
        /// Write the specification with the new prices to this file
        #[arg(short, long, value_name = "FILE.toml")]
        output: Option<PathBuf>,
    },
    /// Measure what this machine takes, and write a specification of it
    ///
    /// Small programs tell what this machine's kernel takes for instructions and helpers of eBPF.
    /// With a folder of programs, each with a capture `traffic.pcap` beside it, the prices are then
    /// judged on them: they were fitted to none of these.
    Measure {
        /// Specification that the rest is taken from: a name, or a .toml file
        #[arg(long, value_name = "TARGET", default_value = "xdp")]
        like: String,
        /// Folder of programs to judge the prices on
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// Write the specification of this machine to this file
        #[arg(short, long, value_name = "FILE.toml")]
        output: Option<PathBuf>,
    },
}

#[derive(ClapArgs)]
pub struct Doctor {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(ClapArgs)]
pub struct Manual {
    /// Where to write them
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

#[derive(ClapArgs)]
pub struct ExplainError {
    /// The code, such as NF0023; without one all codes are listed
    pub code: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// αIR after the front end
    Air,
    /// αIR after the passes
    Passes,
    /// Generated C, with the user's lines as comments
    C,
    /// The object file
    Object,
    /// A folder with the header for programs that attach as the host side (run --host-socket)
    Host,
}

#[derive(ClapArgs)]
pub struct Check {
    #[command(flatten)]
    pub source: Source,
    /// Also say on which targets the program runs, and what is missing where: a name, or `all`
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// Read the file as C of a process instead, and say what this function of it does with its
    /// parameter `state`
    #[arg(long, value_name = "FUNCTION", requires = "json", conflicts_with = "target")]
    pub opaque: Option<String>,
    /// Print diagnostics as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Build {
    #[command(flatten)]
    pub source: SourceOrList,
    /// Name of a target (`nicforge targets` lists them), a .toml file, or interp: the reference
    /// interpreter
    #[arg(long, value_name = "TARGET", default_value = "xdp")]
    pub target: String,
    #[command(flatten)]
    pub planned: Planned,
    /// What to write
    #[arg(long, value_enum, default_value = "object")]
    pub emit: Emit,
    /// Where to write it (default: NAME.o for objects, NAME_host for folders, standard output for
    /// text)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// FPGA cards: map the design to the device with yosys and print what it takes, and how deep
    /// its logic is
    #[arg(long)]
    pub synth: bool,
    /// With --synth: print as JSON
    #[arg(long, requires = "synth")]
    pub json: bool,
    /// List the passes and what they do
    #[arg(long)]
    pub list_passes: bool,
    /// Print αIR after a pass (or `all`)
    #[arg(long, value_name = "PASS")]
    pub print_after: Vec<String>,
    /// Print how long each pass took
    #[arg(long)]
    pub time_passes: bool,
    /// Passes to run instead of the target's own, separated by commas
    #[arg(short = 'p', long = "passes", value_delimiter = ',', value_name = "PASS,…")]
    pub passes: Option<Vec<String>>,
}

/// Like [`Source`], but may be missing when only a list is wanted.
#[derive(ClapArgs)]
pub struct SourceOrList {
    /// C source (or .air text), or a folder with a source of the same name
    #[arg(required_unless_present = "list_passes", value_parser = nicforge_driver::installed::program())]
    pub program: Option<PathBuf>,
    /// Of an XDP object with several programs: the one that is meant, by function or section
    #[arg(long = "program", value_name = "NAME")]
    pub function: Option<String>,
    /// Further argument for clang, such as -DLIMIT=4
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Further folder for #include
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Where functions are that the program declares `extern`: a C file, an object, or a library as
    /// --with=-lNAME
    #[arg(long, value_name = "FILE|-lNAME", allow_hyphen_values = true)]
    pub with: Vec<String>,
    #[command(flatten)]
    pub loader: Loader,
}

#[derive(ClapArgs)]
pub struct Run {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub inputs: Inputs,
    /// Name of a target (`nicforge targets` lists them), a .toml file, or interp: the reference
    /// interpreter
    #[arg(long, value_name = "TARGET", default_value = "xdp")]
    pub target: String,
    #[command(flatten)]
    pub planned: Planned,
    /// Write what the program sent to a capture (with several ports: one file per port,
    /// NAME.PORT.pcap)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Attach to these interfaces (port 0, 1, …) instead of running a capture; --target dpdk also
    /// takes DPDK's own devices, such as net_af_xdp0,iface=eth0 or
    /// net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap
    #[arg(long, value_name = "IFACE|DEVICE", conflicts_with_all = ["pcap", "out"])]
    pub dev: Vec<String>,
    /// If an interface is gone, wait for it to come back (also at the start); without this the run
    /// ends with exit status 4
    #[arg(long, requires = "dev")]
    pub wait_interface: bool,
    /// End a live run after this many seconds
    #[arg(long, value_name = "SECONDS", requires = "dev", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<Duration>,
    /// Listen at this Unix socket for a program of your own that is the host side (build --emit
    /// host)
    #[arg(long, value_name = "PATH", requires = "dev")]
    pub host_socket: Option<PathBuf>,
    /// Replace the program whenever its source changes, keeping its tables
    #[arg(long, requires = "dev")]
    pub watch: bool,
    /// Let the program outlive this command, pinned as /sys/fs/bpf/nicforge/NAME (default: the
    /// program's name; or a path in another BPF file system): the next run with --pin takes it over
    /// with tables and counters, `nicforge detach` ends it
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, requires = "dev", value_parser = pin)]
    pub pin: Option<Option<String>>,
    /// Print the program's counters as Prometheus text at the end
    #[arg(long)]
    pub metrics: bool,
    /// First run the best N plans of the search (4) on the capture, and take the one that is
    /// fastest by measurement
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = MEASURED,
          conflicts_with_all = ["plan", "candidate", "dev"])]
    pub tune: Option<usize>,
    /// Keep the program and its tables after the capture, until Ctrl-C
    #[arg(long, conflicts_with = "dev")]
    pub hold: bool,
    /// Run queues in a random order that links allow (--target interp); the time is then the number
    /// of the step
    #[arg(long, value_name = "SEED", conflicts_with = "dev")]
    pub interleave: Option<u64>,
    /// Print every output event
    #[arg(long)]
    pub events: bool,
    /// Write the design's waveforms to an FST file (FPGA cards, as --target u280)
    #[arg(long, value_name = "FILE", conflicts_with = "dev")]
    pub trace: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Plans that `--tune` runs unless it says how many.
pub const MEASURED: &str = "4";

#[derive(ClapArgs)]
pub struct Verify {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub inputs: Inputs,
    #[command(flatten)]
    pub planned: Planned,
    /// Name of a target (`nicforge targets` lists them), a .toml file, or interp: the reference
    /// interpreter
    #[arg(long, value_name = "TARGET", default_value = "xdp")]
    pub target: String,
    /// Run the plan for this target in the simulator instead: any name of `nicforge targets`, or a
    /// .toml file
    #[arg(long, value_name = "TARGET", conflicts_with = "target")]
    pub sim: Option<String>,
    /// Run on your own simulator or board: a shell command that speaks the packet protocol on its
    /// standard input and output (docs/dev/port.md); `{image}` is the image, where the target has
    /// one
    #[arg(long, value_name = "COMMAND", conflicts_with = "sim")]
    pub exec: Option<String>,
    #[command(flatten)]
    pub proof: Proof,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Proofs that two XDP programs give the same for every packet.
#[derive(ClapArgs)]
pub struct Proof {
    /// Prove that another version of the program gives the same for every packet, or find the
    /// packet that tells them apart: an XDP object (FILE.o or FILE.o:SECTION) or C source.
    /// Exit status: 0 proved, 1 they differ, 5 neither
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pcap", "tables", "plan", "candidate", "sim", "exec"])]
    pub against: Option<PathBuf>,
    /// Prove that what Nicforge makes for xdp gives the same for every packet as the program, which
    /// may be an XDP object, as --against does
    #[arg(long, conflicts_with_all = ["against", "pcap", "tables", "plan", "candidate", "sim", "exec"])]
    pub prove: bool,
    /// With --prove: this object in place of the one that would be built
    #[arg(long, value_name = "FILE", requires = "prove")]
    pub object: Option<PathBuf>,
    /// With --against and --prove: do not care what this map holds, which one version alone has; may
    /// be given several times
    #[arg(long, value_name = "MAP")]
    pub ignore_map: Vec<String>,
    /// With --against and --prove: stop after this many seconds [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<Duration>,
    /// With --against and --prove: write the packet that tells both apart to a capture
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Kit {
    /// Name of a target (`nicforge targets` lists them), or a .toml file
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// C sources, or folders with a source of the same name, each with packets beside it
    #[arg(required = true, value_name = "PROGRAM")]
    pub programs: Vec<PathBuf>,
    /// Where to write the kit (default: kit-TARGET)
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

/// Suites of comparisons.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Plans of five applications on four NICs, in the simulator
    Alkali,
    /// Worst-case throughput on an Agilio CX
    Nfp,
    /// Handlers on sPIN NICs, in RTL simulations and on an FPGA
    Spin,
    /// Load shared between NIC and host: throughput, p99 and power
    Balance,
    /// Flow programs: cache hit rates, and what a simulated NIC makes of transfers, caches and
    /// queues
    Flow,
    /// The sPIN datapath in hardware: cycles and area of its modules
    SpinRtl,
    /// Estimated area of the examples on the target u280, beside what yosys says
    Fpga,
    /// Other systems' own programs, from a copy of their repository (--from)
    Originals,
    /// XDP programs of the objects below a folder (--from), beside the kernel
    Lift,
    /// Predicted rates of the programs below a folder (--from) on all targets, beside simulated,
    /// counted and measured ones
    Predict,
}

#[derive(ClapArgs)]
pub struct Validate {
    pub suite: Suite,
    /// Suites originals, lift and predict: the folder to look for programs in
    #[arg(long, value_name = "FOLDER",
        required_if_eq_any([("suite", "originals"), ("suite", "lift"), ("suite", "predict")]))]
    pub from: Option<PathBuf>,
    /// Suites originals, lift and predict: these targets instead of all
    #[arg(long, requires = "from", value_name = "TARGET,…", value_delimiter = ',')]
    pub targets: Vec<String>,
    /// Suite lift: compile each program again for xdp, and compare that too
    #[arg(long, requires = "from")]
    pub recompile: bool,
    /// Suite fpga: run yosys on all examples again (an hour) and print
    /// docs/validation/fpga_yosys.csv anew
    #[arg(long)]
    pub remake: bool,
    /// With --remake: only these, as `l2_forward,nat`
    #[arg(long, requires = "remake", value_name = "PROGRAM,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// With --remake: leave out what takes yosys longer than this many seconds
    #[arg(long, requires = "remake", value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub limit: Option<Duration>,
    /// Print the table as Markdown, as docs/validation has it
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Trace {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub inputs: Inputs,
    /// Number of the event to show, from 1
    #[arg(long, default_value_t = 1)]
    pub packet: usize,
}
