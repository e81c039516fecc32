//! Arguments of `nicforge bound`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use nicforge_bound::ebpf::MOST_PACKETS;
use nicforge_driver::options::Loader;
use nicforge_isa::lower::{DRIVERS, Driver};

use super::seconds;

/// Machine a bound is for.
#[derive(Clone, PartialEq, Eq)]
pub enum BoundTarget {
    /// Agilio CX with XDP offload: 50 cores at 800 MHz; costs checked against hardware
    AgilioXdp,
    /// Executed eBPF instructions in the Linux kernel: modelled, one core, one nanosecond an
    /// instruction
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

fn driver(text: &str) -> Result<Driver, String> {
    let names: Vec<&str> = DRIVERS.iter().map(|(_, name)| *name).collect();
    let found = DRIVERS.iter().find(|(_, name)| *name == text).map(|(driver, _)| *driver);
    found.ok_or_else(|| format!("no such driver; there are {}", names.join(" and ")))
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
    /// eBPF object (.o), XDP source in C, NFP listing, or a Nicforge program (.c, .air or folder),
    /// which becomes an XDP program; with the name of a target, a Nicforge program on its units or,
    /// on pspin and fpspin, RISC-V handlers (.c or ELF)
    pub file: PathBuf,
    /// Further argument for clang, such as -DHASHES=10
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// agilio-xdp (Agilio CX, 50 cores at 800 MHz; costs checked against hardware), xdp (eBPF
    /// instructions in Linux, one core, a nanosecond each), or the name or .toml file of a target,
    /// for Nicforge programs and handlers
    #[arg(long, value_name = "TARGET", value_parser = bound_target, default_value = "agilio-xdp")]
    pub target: BoundTarget,
    /// Driver whose translation to NFP code is analysed: artifact (of the published measurements;
    /// array look-ups are in place) or linux-6.1 (maps are the firmware's); default: artifact
    #[arg(long, value_name = "NAME", value_parser = driver)]
    pub driver: Option<Driver>,
    /// Function to analyse, if the object has several programs
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    #[command(flatten)]
    pub loader: Loader,
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
    /// Suppose packet fields, bytes or a size: eth.type=0x0800, 23=17, size=128; or plain-maps:
    /// that maps per CPU are plain
    #[arg(long, value_name = "WHAT=VALUE")]
    pub what_if: Vec<String>,
    /// The N slowest paths
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub top: usize,
    /// Every program of the object: a row each, with its bound or the reason why there is none
    #[arg(long, conflicts_with_all = ["program", "require", "need", "top", "all_paths", "path", "curve", "measure", "pcap", "emit"])]
    pub all: bool,
    /// Every path a packet can take (there may be very many)
    #[arg(long)]
    pub all_paths: bool,
    /// Only this path: its blocks from first to last, as 0,2,3,7 (3t or 3f: left by a taken branch
    /// or not), or a file with --json output, whose `path` names them
    #[arg(long, value_name = "BLOCKS|FILE", conflicts_with_all = ["require", "need", "top", "all_paths"])]
    pub path: Option<String>,
    /// How to search, for comparisons: the answer is the same
    #[arg(long, value_enum, value_name = "METHOD", default_value = "default")]
    pub method: BoundMethod,
    /// Most iterations of a loop, where the analysis finds no bound itself
    #[arg(long, value_name = "N")]
    pub unroll: Option<u32>,
    /// Give the best valid bound after this many seconds (default: 60; with --all, 7 a program).
    /// The first bound is there within a second, whatever the limit
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Say how many cores and NICs guarantee this rate
    #[arg(long, value_name = "25G|10Mpps", value_parser = required_rate, conflicts_with = "require")]
    pub need: Option<RequiredRate>,
    /// Also bound any N packets in a row, for XDP and tc programs on --target xdp: what arrays and
    /// variables hold after one packet counts for the next. --require is then about these packets,
    /// and --pcap writes them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(MOST_PACKETS)))]
    pub in_a_row: Option<u32>,
    /// Write the bound over time, as CSV
    #[arg(long, value_name = "FILE")]
    pub curve: Option<PathBuf>,
    /// Run the slowest packet and typical ones in the kernel, and compare (target xdp; needs root)
    #[arg(long, conflicts_with_all = ["tail_calls", "globals", "entries"])]
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

impl RequiredRate {
    /// Seconds a packet, or a byte, may take.
    pub fn slowness(self) -> f64 {
        match self {
            RequiredRate::BitsPerSecond(rate) => 8.0 / rate,
            RequiredRate::PacketsPerSecond(rate) => 1.0 / rate,
        }
    }
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
    let value: Option<f64> =
        digits.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    let value = value
        .ok_or("expected a rate as 25G (bits a second) or 10Mpps (packets a second)")?
        * factor;
    Ok(if packets {
        RequiredRate::PacketsPerSecond(value)
    } else {
        RequiredRate::BitsPerSecond(value)
    })
}
