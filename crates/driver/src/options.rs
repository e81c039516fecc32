//! What there is to say about a program, its inputs and its plan: the options that commands share.
//! They are arguments of a command line too, so that what one of them is for is said once.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nicforge_planner::instance::ContextUse;

use crate::installed;

/// A program and how to compile it.
#[derive(Clone, Default, Args)]
pub struct Source {
    /// C source, an XDP object (FILE.o or FILE.o:SECTION), .air text, or a folder with a source of
    /// the same name
    #[arg(value_parser = installed::program())]
    pub program: PathBuf,
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

/// Decisions of an XDP object's loader.
#[derive(Clone, Default, PartialEq, Eq, Args)]
pub struct Loader {
    /// Of an XDP object: the program in a slot of a program array, by function or section;
    /// MAP=empty if no slot has one
    #[arg(long = "tail-call", value_name = "MAP[SLOT]=NAME", value_parser = tail_call)]
    pub tail_calls: Vec<(String, u32, String)>,
    /// Of an XDP object: a global variable that the loader sets
    #[arg(long = "global", value_name = "NAME=VALUE", value_parser = global)]
    pub globals: Vec<(String, u64)>,
    /// Of an XDP object: entries of a map whose number the loader decides [default: 64]
    #[arg(long = "map-entries", value_name = "MAP=COUNT", value_parser = map_entries)]
    pub entries: Vec<(String, u32)>,
}

fn tail_call(text: &str) -> Result<(String, u32, String), String> {
    let read = || {
        let (slot, name) = text.split_once('=')?;
        if name == "empty" && !slot.contains('[') {
            return Some((slot.to_string(), 0, String::new()));
        }
        let (map, slot) = slot.strip_suffix(']')?.split_once('[')?;
        Some((map.to_string(), slot.parse().ok()?, name.to_string()))
    };
    read().ok_or_else(|| "expected MAP[SLOT]=NAME, as jumps[0]=xdp/next, or MAP=empty".to_string())
}

fn global(text: &str) -> Result<(String, u64), String> {
    let read = || {
        let (name, value) = text.split_once('=')?;
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        Some((name.to_string(), value))
    };
    read().ok_or_else(|| "expected NAME=VALUE, as limit=100 or mask=0xff".to_string())
}

fn map_entries(text: &str) -> Result<(String, u32), String> {
    let read = || {
        let (name, count) = text.split_once('=')?;
        let count = count.parse().ok().filter(|count| *count > 0)?;
        Some((name.to_string(), count))
    };
    read().ok_or_else(|| "expected MAP=COUNT, as flows=1024".to_string())
}

/// Input events and table contents; what is left out is looked for beside the program.
#[derive(Clone, Default, Args)]
pub struct Inputs {
    /// Packets that come in: a capture for port 0, PORT=FILE for another port, host=FILE for
    /// messages of the host side
    #[arg(long, value_name = "[PORT=]FILE")]
    pub pcap: Vec<String>,
    /// Table contents (TOML or JSON)
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
}

/// Which pipeline of a program is meant.
#[derive(Clone, Default, Args)]
pub struct Planned {
    /// Use the plan of a file, as `nicforge plan --json` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "candidate")]
    pub plan: Option<PathBuf>,
    /// Use this candidate of the search instead of the best one; `nicforge plan --search` numbers
    /// them
    #[arg(long, value_name = "N")]
    pub candidate: Option<usize>,
    /// Run stages with NF_ON(host) in a process of their own, joined by queues in memory (--target
    /// dpdk)
    #[arg(long)]
    pub host_process: bool,
    /// With --host-process: DPDK's DMA device that moves entries between both, such as
    /// dma_skeleton0; else an engine is modelled
    #[arg(long, value_name = "DEVICE", requires = "host_process", value_parser = dma_device)]
    pub dma: Option<String>,
}

/// A DMA device by the name of its driver, as DPDK's `--vdev` takes it.
fn dma_device(text: &str) -> Result<String, String> {
    match text.strip_prefix("dma_") {
        Some(rest) if !rest.is_empty() => Ok(text.to_string()),
        _ => Err("expected a device of DPDK's that copies, such as dma_skeleton0".to_string()),
    }
}

/// Options of a search for a plan.
#[derive(Clone, Args)]
pub struct Planning {
    /// What the plan is to be good at
    #[arg(
        long,
        default_value = "rate",
        value_name = "rate|guaranteed-rate|latency|energy|footprint@RATE"
    )]
    pub objective: String,
    /// Keep something: TABLE=MEMORY, or HANDLER=N replicas at most
    #[arg(long, value_name = "NAME=WHAT")]
    pub pin: Vec<String>,
    /// Cores of the host that may be used too
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub host_cores: u32,
    /// Take how often branches go either way from a capture (--pcap, or the one beside the program)
    /// instead of guessing
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
    /// What stays in memory beside the packet instead of being copied with events: nothing, values
    /// with bytes of their own, or values that share bytes where they never meet
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

/// A time in seconds, as `0.5`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "expected a number of seconds, as 60 or 0.5".to_string())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "expected a time that is not negative".to_string())
}
