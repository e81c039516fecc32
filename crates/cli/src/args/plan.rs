//! Arguments of planning, and of what shows plans: `plan`, `report`, `sim`, `explain`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use nicforge_driver::options::{Inputs, Planning, Source};

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
    /// Run the best N plans of the search (4) on a capture, here or on simulated cores, or else in
    /// the simulator, and take the one that is fastest
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = super::MEASURED,
          conflicts_with = "plan")]
    pub tune: Option<usize>,
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
    /// What is offered: bits per second on the wire as 100G, or frames per second as 10Mpps
    /// (default: one port's line)
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Traffic: size=256|imix|64..1500|capture, flows=N, zipf=S, burst=N, poisson, udp, tcp,
    /// seed=N, separated by commas
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
