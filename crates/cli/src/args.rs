//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use nicforge_codegen::nfp::Engines;
use nicforge_planner::instance::ContextUse;

#[derive(Parser)]
#[command(
    name = "nicforge",
    version,
    about = "Write a packet program once; run it on any NIC",
    max_term_width = 110
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
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
    /// Show every step one packet takes through a program, on source lines
    Trace(Trace),
    /// Guarantee a worst-case rate of a compiled program, with the packet that causes it
    Bound(Bound),
    /// Compare models with published measurements
    Validate(Validate),
    /// Read and write the tables of a running program
    Table(Table),
    /// Print the counters of a running program as Prometheus text
    Metrics(Metrics),
    /// Replace a program that runs on interfaces, keeping its tables
    Reload(Reload),
    /// Make a commented program to start from
    New(New),
    /// List the targets there are, or show one's specification
    Targets(Targets),
    /// Find the pipeline, replicas and memories that suit a program on a target
    Plan(Plan),
    /// Simulate a planned program on a NIC: rates, latency, queues, power
    Sim(Sim),
    /// Build and run sPIN handlers: C on RISC-V handler units of a NIC
    Spin(crate::cmd::spin::Spin),
    /// Run a command over every combination of values: targets, programs, workloads, policies; a table and a plot
    Sweep(crate::cmd::sweep::Sweep),
    /// Share load between a NIC and a host that sleeps when it can: simulate, plan, profile, run
    Balance(crate::cmd::balance::Balance),
    /// Answer questions about a plan: why is this stage not replicated, why is this table there
    Explain(Explain),
    /// Write one HTML page with source, plans and what limits them, target by target
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
}

/// How a plan is looked for.
#[derive(Clone, ClapArgs)]
pub struct Planning {
    /// What the plan is to be good at
    #[arg(long, default_value = "rate", value_name = "rate|guaranteed-rate|latency|energy|footprint@RATE")]
    pub objective: String,
    /// Keep something: TABLE=MEMORY, or HANDLER=N replicas at most
    #[arg(long, value_name = "NAME=WHAT")]
    pub pin: Vec<String>,
    /// Cores of the host that may be used too
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub host_cores: u32,
    /// Take how often branches go either way from a capture (--pcap, or the one beside the program) instead of guessing
    #[arg(long)]
    pub profile: bool,
    /// Frame size the rates are for, bytes without CRC
    #[arg(long, default_value_t = 256, value_name = "BYTES")]
    pub frame: u32,
    /// Flows at a time: a stage steered by flow has no use for more replicas
    #[arg(long, default_value_t = 1024, value_name = "N")]
    pub flows: u32,
    /// Stop the search after so many candidates
    #[arg(long, default_value_t = nicforge_planner::search::CANDIDATES, value_name = "N")]
    pub iterations: u32,
    /// Stop the search after so long and give the best plan so far
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    pub timeout: Option<Duration>,
    /// What stays in memory beside the packet instead of being copied with events: nothing, values with bytes of their own, or values
    /// that share bytes where they never meet
    #[arg(long, default_value = "shared", value_name = "none|own|shared", value_parser = context)]
    pub context: ContextUse,
    /// Go on searching when a plan has the ports' rate
    #[arg(long)]
    pub all_candidates: bool,
}

impl Default for Planning {
    fn default() -> Planning {
        Planning {
            objective: "rate".to_string(),
            pin: Vec::new(),
            host_cores: 0,
            profile: false,
            frame: 256,
            flows: 1024,
            iterations: nicforge_planner::search::CANDIDATES,
            timeout: None,
            context: ContextUse::Shared,
            all_candidates: false,
        }
    }
}

fn context(text: &str) -> Result<ContextUse, String> {
    match text {
        "none" => Ok(ContextUse::None),
        "own" => Ok(ContextUse::Own),
        "shared" => Ok(ContextUse::Shared),
        _ => Err("expected none, own or shared".to_string()),
    }
}

#[derive(ClapArgs)]
pub struct Plan {
    #[command(flatten)]
    pub source: Source,
    /// Name of a target, a .toml file, or `all`
    #[arg(long, value_name = "TARGET")]
    pub target: String,
    #[command(flatten)]
    pub inputs: Inputs,
    #[command(flatten)]
    pub planning: Planning,
    /// Check and price a plan from a file instead of searching
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Find the rate that no packets make the plan fall below, too
    #[arg(long)]
    pub guarantee: bool,
    /// Show every candidate of the search
    #[arg(long)]
    pub search: bool,
    /// Print as JSON, which --plan takes back
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Report {
    #[command(flatten)]
    pub source: Source,
    /// Name of a target, a .toml file, or `all`; may be given several times
    #[arg(long, value_name = "TARGET", default_value = "all")]
    pub target: Vec<String>,
    #[command(flatten)]
    pub planning: Planning,
    #[command(flatten)]
    pub inputs: Inputs,
    /// Print predictions only: no simulation, no guarantee
    #[arg(long, conflicts_with = "measure")]
    pub quick: bool,
    /// Also measure one CPU of this machine on the program's capture, in the kernel's test run
    #[arg(long)]
    pub measure: bool,
    /// Where to write it (default: NAME.html)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Sim {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub inputs: Inputs,
    /// Name of a target, or a .toml file
    #[arg(long, value_name = "TARGET")]
    pub target: String,
    #[command(flatten)]
    pub planning: Planning,
    /// Simulate a plan from a file instead of searching
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// What is offered: bits per second on the wire as 100G, or frames per second as 10Mpps (default: one port's line)
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Traffic: size=256|imix|64..1500|capture, flows=N, zipf=S, burst=N, poisson, udp, tcp, seed=N, separated by commas
    #[arg(long, value_name = "WHAT", default_value = "")]
    pub workload: String,
    /// Send the capture as it is instead, at --rate if there is one
    #[arg(long, conflicts_with_all = ["workload", "rates"])]
    pub replay: bool,
    /// Follow a trace of rates: lines `seconds,rate`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "sweep", "find_max"])]
    pub rates: Option<PathBuf>,
    /// Simulated time
    #[arg(long, value_name = "TIME", value_parser = simulated, default_value = "2ms", conflicts_with = "packets")]
    pub duration: f64,
    /// Offer so many frames, and see them through
    #[arg(long, value_name = "N")]
    pub packets: Option<u64>,
    /// Seed of the traffic
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Simulate once for each value: rate=10G..100G/10G, or flows=1..4096*4 (/ adds, * multiplies)
    #[arg(long, value_name = "NAME=FROM..TO/STEP", conflicts_with = "find_max")]
    pub sweep: Option<String>,
    /// Find the greatest rate with a loss below 0.1 %
    #[arg(long)]
    pub find_max: bool,
    /// Run handlers in the interpreter instead of as compiled code
    #[arg(long)]
    pub interpreted: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// A simulated time with its unit, in seconds.
fn simulated(text: &str) -> Result<f64, String> {
    let time = nicforge_target::quantity::Time::parse(text)?.value * 1e-9;
    if time > 0.0 && time <= 3600.0 {
        Ok(time)
    } else {
        Err("expected a time above 0, up to 3600 s".to_string())
    }
}

#[derive(ClapArgs)]
pub struct Explain {
    #[command(flatten)]
    pub source: Source,
    /// The question, such as "why is connections in emem"; without one everything is explained
    pub question: Vec<String>,
    /// Name of a target, or a .toml file
    #[arg(long, value_name = "TARGET")]
    pub target: String,
    #[command(flatten)]
    pub inputs: Inputs,
    #[command(flatten)]
    pub planning: Planning,
}

/// A program and how to compile it.
#[derive(Clone, ClapArgs)]
pub struct Source {
    /// C source (or .air text), or a folder with a source of the same name
    pub program: PathBuf,
    /// Further argument for clang, such as -DLIMIT=4
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Further folder for #include
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
}

/// Input events and table contents; what is left out is looked for beside the program.
#[derive(Clone, Default, ClapArgs)]
pub struct Inputs {
    /// Packets that come in: a capture for port 0, PORT=FILE for another port, host=FILE for messages of the host side
    #[arg(long, value_name = "[PORT=]FILE")]
    pub pcap: Vec<String>,
    /// Table contents (TOML or JSON)
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The reference interpreter
    Interp,
    /// The Linux kernel's XDP hook
    Xdp,
    /// A DPDK process: lcores joined by rings
    Dpdk,
    /// The same for the Arm cores of a BlueField-2, run here under qemu
    Bluefield2,
    /// Micro-engines of a Netronome Agilio CX, run here as threads on a shim of the chip's operations
    AgilioCx,
    /// Cores of a LiquidIO, run here as threads
    Liquidio,
    /// Handler units of PsPIN, simulated
    Pspin,
    /// Handler units of FPsPIN, simulated
    Fpspin,
    /// RISC-V cores behind PANIC's scheduler, simulated
    Panic,
    /// An FPGA card: SystemVerilog, simulated cycle by cycle
    U280,
}

impl Target {
    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Interp => "interp",
            Target::Xdp => "xdp",
            Target::Dpdk => "dpdk",
            Target::Bluefield2 => "bluefield2",
            Target::AgilioCx => "agilio-cx",
            Target::Liquidio => "liquidio",
            Target::Pspin => "pspin",
            Target::Fpspin => "fpspin",
            Target::Panic => "panic",
            Target::U280 => "u280",
        }
    }

    /// The engines of targets that have such.
    pub fn engines(self) -> Option<Engines> {
        match self {
            Target::AgilioCx => Some(Engines::Nfp),
            Target::Liquidio => Some(Engines::Threads),
            _ => None,
        }
    }

    /// Whether its programs are images for bare RISC-V cores.
    pub fn is_bare(self) -> bool {
        matches!(self, Target::Pspin | Target::Fpspin | Target::Panic)
    }

    /// Whether programs run on a plan's pipeline in a process.
    pub fn is_planned(self) -> bool {
        !matches!(self, Target::Interp | Target::Xdp)
    }

    /// What stands here for the target's hardware: it shows what programs do, and nothing of how fast.
    pub fn stands_in(self) -> Option<&'static str> {
        match self {
            Target::Interp | Target::Xdp | Target::Dpdk => None,
            Target::Bluefield2 => Some("functional: emulated"),
            Target::AgilioCx => Some("functional: on a shim of the chip"),
            Target::Liquidio => Some("functional: on threads"),
            Target::Pspin | Target::Fpspin | Target::Panic => Some("on simulated cores"),
            Target::U280 => Some("RTL simulated by Verilator"),
        }
    }
}

/// Which pipeline of a program is meant.
#[derive(Clone, Default, ClapArgs)]
pub struct Planned {
    /// Use the plan of a file, as `nicforge plan --json` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "candidate")]
    pub plan: Option<PathBuf>,
    /// Use this candidate of the search instead of the best one; `nicforge plan --search` numbers them
    #[arg(long, value_name = "N")]
    pub candidate: Option<usize>,
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
    /// Print diagnostics as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Build {
    #[command(flatten)]
    pub source: SourceOrList,
    #[arg(long, value_enum, default_value = "xdp")]
    pub target: Target,
    #[command(flatten)]
    pub planned: Planned,
    /// What to write
    #[arg(long, value_enum, default_value = "object")]
    pub emit: Emit,
    /// Where to write it (default: NAME.o for objects, NAME_host for folders, standard output for text)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Target u280: map the design to the device with yosys and print what it takes, and how deep its logic is
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
    #[arg(required_unless_present = "list_passes")]
    pub program: Option<PathBuf>,
    /// Further argument for clang, such as -DLIMIT=4
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Further folder for #include
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Run {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub inputs: Inputs,
    #[arg(long, value_enum, default_value = "xdp")]
    pub target: Target,
    #[command(flatten)]
    pub planned: Planned,
    /// Write what the program sent to a capture (with several ports: one file per port, NAME.PORT.pcap)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Attach to these interfaces (port 0, 1, …) instead of running a capture; --target dpdk also takes DPDK's own devices,
    /// such as net_af_xdp0,iface=eth0 or net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap
    #[arg(long, value_name = "IFACE|DEVICE", conflicts_with_all = ["pcap", "out"])]
    pub dev: Vec<String>,
    /// End a live run after this many seconds
    #[arg(long, value_name = "SECONDS", requires = "dev", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Option<Duration>,
    /// Listen at this Unix socket for a program of your own that is the host side (build --emit host)
    #[arg(long, value_name = "PATH", requires = "dev")]
    pub host_socket: Option<PathBuf>,
    /// Replace the program whenever its source changes, keeping its tables
    #[arg(long, requires = "dev")]
    pub watch: bool,
    /// Print the program's counters as Prometheus text at the end
    #[arg(long)]
    pub metrics: bool,
    /// Keep the program and its tables after the capture, until Ctrl-C
    #[arg(long, conflicts_with = "dev")]
    pub hold: bool,
    /// Run queues in a random order that links allow (--target interp); the time is then the number of the step
    #[arg(long, value_name = "SEED", conflicts_with = "dev")]
    pub interleave: Option<u64>,
    /// Print every output event
    #[arg(long)]
    pub events: bool,
    /// Write the design's waveforms to an FST file (--target u280)
    #[arg(long, value_name = "FILE", conflicts_with = "dev")]
    pub trace: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// A time in seconds, as `0.5`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds, as 60 or 0.5".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "expected a time that is not negative".to_string())
}

#[derive(ClapArgs)]
pub struct Verify {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub inputs: Inputs,
    #[command(flatten)]
    pub planned: Planned,
    #[arg(long, value_enum, default_value = "xdp")]
    pub target: Target,
    /// Run the plan for this target in the simulator instead: any name of `nicforge targets`, or a .toml file
    #[arg(long, value_name = "TARGET", conflicts_with = "target")]
    pub sim: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl Verify {
    /// What is compared, and what stands in for its hardware if something does.
    pub fn what(&self) -> (&str, Option<&'static str>) {
        match &self.sim {
            Some(target) => (target, Some("functional: simulated")),
            None => (self.target.name(), self.target.stands_in()),
        }
    }
}

/// Machine a bound is for.
#[derive(Clone, PartialEq, Eq)]
pub enum BoundTarget {
    /// Agilio CX with XDP offload: 50 cores at 800 MHz; costs checked against hardware
    AgilioXdp,
    /// Executed eBPF instructions in the Linux kernel: modelled, one core, one nanosecond an instruction
    Xdp,
    /// A target with a description: for programs in C with nicforge.h, and αIR
    Described(String),
}

fn bound_target(text: &str) -> Result<BoundTarget, std::convert::Infallible> {
    Ok(match text {
        "agilio-xdp" => BoundTarget::AgilioXdp,
        "xdp" => BoundTarget::Xdp,
        other => BoundTarget::Described(other.to_string()),
    })
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BoundBy {
    PacketRate,
    BitRate,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BoundMethod {
    /// Best first, whole paths are checked, refutations are learned
    Default,
    /// Ask the solver at every undecided branch
    EveryBranch,
    /// Decide nothing while the program is unrolled
    NoStatic,
    /// Cores first, then the shared engine
    OneByOne,
    /// All possible paths
    Exhaustive,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BoundEmit {
    /// The NFP listing an eBPF object becomes
    Nfp,
}

#[derive(ClapArgs)]
pub struct Bound {
    /// eBPF object (.o), XDP source in C, or NFP listing; with the name of a target, a Nicforge program (.c, .air or folder) or, on
    /// pspin and fpspin, RISC-V handlers (ELF)
    pub file: PathBuf,
    /// Further argument for clang, such as -DHASHES=10
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// agilio-xdp (Agilio CX, 50 cores at 800 MHz; costs checked against hardware), xdp (eBPF instructions in Linux, one core, a
    /// nanosecond each), or the name or .toml file of a target, for Nicforge programs and handlers
    #[arg(long, value_name = "TARGET", value_parser = bound_target, default_value = "agilio-xdp")]
    pub target: BoundTarget,
    /// Function to analyse, if the object has several programs
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// RISC-V function to analyse; default: the only payload handler (*_ph)
    #[arg(long, value_name = "SYMBOL")]
    pub entry: Option<String>,
    /// What the guarantee is about; both are reported
    #[arg(long, value_enum, default_value = "bit-rate")]
    pub by: BoundBy,
    /// Cores that run the program
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: Option<u32>,
    /// Largest packet in bytes, without checksum
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(60..=65535))]
    pub mtu: u64,
    /// Stop when this rate is proved (exit status 0) or a packet is slower (1)
    #[arg(long, value_name = "25G|10Mpps", value_parser = required_rate)]
    pub require: Option<RequiredRate>,
    /// Suppose packet fields, bytes or a size: eth.type=0x0800, 23=17, size=128; or plain-maps: that maps per CPU are plain
    #[arg(long, value_name = "WHAT=VALUE")]
    pub what_if: Vec<String>,
    /// The N slowest paths
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub top: usize,
    /// Every path a packet can take (there may be very many)
    #[arg(long)]
    pub all: bool,
    /// Only this path: its blocks from first to last, as 0,2,3,7 (3t or 3f: left by a taken branch or not), or a file with
    /// --json output, whose `path` names them
    #[arg(long, value_name = "BLOCKS|FILE", conflicts_with_all = ["require", "top", "all"])]
    pub path: Option<String>,
    /// How to search, for comparisons: the answer is the same
    #[arg(long, value_enum, value_name = "METHOD", default_value = "default")]
    pub method: BoundMethod,
    /// Most iterations of a loop, where the analysis finds no bound itself
    #[arg(long, value_name = "N")]
    pub unroll: Option<u32>,
    /// Give the best valid bound after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Run the slowest packet and typical ones in the kernel, and compare (target xdp; needs root)
    #[arg(long)]
    pub measure: bool,
    /// Write the slowest packet to a capture
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print what the program becomes instead of analysing it
    #[arg(long, value_enum)]
    pub emit: Option<BoundEmit>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// A rate to be proved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequiredRate {
    BitsPerSecond(f64),
    PacketsPerSecond(f64),
}

/// A rate as `25G` or `10Mpps`.
fn required_rate(text: &str) -> Result<RequiredRate, String> {
    let (number, packets) = match text.strip_suffix("pps") {
        Some(number) => (number, true),
        None => (text.strip_suffix("bit/s").or(text.strip_suffix("bps")).unwrap_or(text), false),
    };
    let (digits, factor) = match number.chars().last() {
        Some('k' | 'K') => (&number[..number.len() - 1], 1e3),
        Some('M') => (&number[..number.len() - 1], 1e6),
        Some('G') => (&number[..number.len() - 1], 1e9),
        _ => (number, 1.0),
    };
    let value: Option<f64> = digits.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    let value = value.ok_or("expected a rate as 25G (bits a second) or 10Mpps (packets a second)")? * factor;
    Ok(if packets { RequiredRate::PacketsPerSecond(value) } else { RequiredRate::BitsPerSecond(value) })
}

/// What is compared.
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
    /// Cache hit rates of a key-value store divided between NIC and host
    Flow,
    /// The sPIN datapath in hardware: cycles and area of its modules
    SpinRtl,
    /// Estimated area of the examples on the target u280, beside what yosys says
    Fpga,
}

#[derive(ClapArgs)]
pub struct Validate {
    pub suite: Suite,
    /// Suite fpga: run yosys on all examples again (an hour) and print docs/validation/fpga_yosys.csv anew
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

#[derive(ClapArgs)]
pub struct Table {
    #[command(subcommand)]
    pub action: TableAction,
    /// Process id of the run, if there are several
    #[arg(long, global = true, value_name = "PID")]
    pub run: Option<u32>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What else identifies an entry of a ternary table.
#[derive(ClapArgs)]
pub struct Matching {
    /// Ternary tables: the key's bits that must match (default: all)
    #[arg(long)]
    pub mask: Option<String>,
    /// Ternary tables: the highest priority wins (default: 0)
    #[arg(long)]
    pub priority: Option<u32>,
}

#[derive(Subcommand)]
pub enum TableAction {
    /// Names, kinds and sizes
    List,
    /// One entry
    Get {
        table: String,
        /// As in a table file: 7, 10.0.0.1, '{"src": "10.0.0.1", "port": 80}'
        #[arg(allow_negative_numbers = true)]
        key: String,
        #[command(flatten)]
        matching: Matching,
    },
    /// Insert or overwrite an entry
    Set {
        table: String,
        /// As in a table file: 7, 10.0.0.1, '{"src": "10.0.0.1", "port": 80}'
        #[arg(allow_negative_numbers = true)]
        key: String,
        /// As in a table file
        #[arg(allow_negative_numbers = true)]
        value: String,
        #[command(flatten)]
        matching: Matching,
    },
    /// Remove an entry
    Delete {
        table: String,
        /// As in a table file: 7, 10.0.0.1, '{"src": "10.0.0.1", "port": 80}'
        #[arg(allow_negative_numbers = true)]
        key: String,
        #[command(flatten)]
        matching: Matching,
    },
    /// All entries
    Dump { table: String },
}

#[derive(ClapArgs)]
pub struct Metrics {
    /// Process id of the run, if there are several
    #[arg(long, value_name = "PID")]
    pub run: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Reload {
    #[command(flatten)]
    pub source: Source,
    /// Contents for tables that are new or changed (TOML or JSON; default: tables.toml beside the program)
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    /// Process id of the run, if there are several
    #[arg(long, value_name = "PID")]
    pub run: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct New {
    /// Name of the program; makes a folder of that name
    pub name: String,
}
