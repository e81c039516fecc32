//! Policies by name, set up from a profile.

use clap::ValueEnum;
use nicforge_balance::director::meter::Mode;
use nicforge_balance::policy::gate::Gate;
use nicforge_balance::policy::headroom::Headroom;
use nicforge_balance::policy::memory::Remembering;
use nicforge_balance::policy::objective::Objective;
use nicforge_balance::policy::published::{Constants, Published};
use nicforge_balance::policy::{Fixed, Policy};
use nicforge_balance::profile::Profile;
use nicforge_balance::sim::limit::{largest_within, nic_p99_us};
use nicforge_balance::traffic::LINE_GBPS;
use nicforge_driver::Failure;

/// Which policy chooses the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// All to the NIC up to a limit; above it the host is awake anyway and both get their part (our
    /// best)
    Gate,
    /// The largest threshold whose p99 is within the objective: fast down, slow up
    Objective,
    /// A share of the NIC's capacity, spread by a token bucket
    Headroom,
    /// The published algorithm with the constants of its code
    Published,
    /// The published algorithm as printed
    Paper,
    /// The profile's published threshold, constant
    Fixed,
}

impl PolicyName {
    /// All of them, the published ones first.
    pub const ALL: [PolicyName; 6] = [
        PolicyName::Fixed,
        PolicyName::Published,
        PolicyName::Paper,
        PolicyName::Headroom,
        PolicyName::Objective,
        PolicyName::Gate,
    ];

    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Gate => "gate",
            PolicyName::Objective => "objective",
            PolicyName::Headroom => "headroom",
            PolicyName::Published => "published",
            PolicyName::Paper => "paper",
            PolicyName::Fixed => "fixed",
        }
    }

    /// True if it is the published system's, with its director.
    pub fn is_published(self) -> bool {
        matches!(self, PolicyName::Published | PolicyName::Paper | PolicyName::Fixed)
    }
}

/// Sets a policy up. `line_gbps` is what the port carries; `objective_us` the p99 that is wanted on
/// the NIC.
pub fn make(
    name: PolicyName,
    profile: &Profile,
    objective_us: f64,
    line_gbps: f64,
) -> Result<Box<dyn Policy>, Failure> {
    let (nic, host) = (profile.nic.gbps * 1e9, profile.host.gbps * 1e9);
    let line = line_gbps * 1e9;
    Ok(match name {
        PolicyName::Fixed => {
            let threshold = profile.published_threshold_gbps() * 1e9;
            Box::new(Fixed { threshold, mode: Mode::Window })
        }
        PolicyName::Published => Box::new(Published::artifact(line, profile.nic.ring)),
        PolicyName::Paper => Box::new(algorithm_1(profile, line)),
        PolicyName::Headroom => Box::new(Headroom::new(nic, 0.1, profile.nic.ring / 2)),
        PolicyName::Objective => {
            let (bits, queues) = (f64::from(profile.packet_bytes) * 8.0, profile.nic.queues);
            let make = move |_| Objective::new(objective_us * 1e3, nic, bits, queues);
            Box::new(Remembering::new(make))
        }
        PolicyName::Gate => {
            let limit = limit_gbps(profile, objective_us)? * 1e9;
            Box::new(Gate::new(nic, host, limit, objective_us * 1e3))
        }
    })
}

/// HAL's Algorithm 1 as printed with the public constants; it begins with nothing for the NIC.
pub fn algorithm_1(profile: &Profile, line: f64) -> Published {
    Published::new(Constants::paper(line, profile.nic.ring), 0.0)
}

/// The p99 that is wanted if nobody says, us: what the NIC alone has at nine tenths of the
/// published threshold.
pub fn usual_objective_us(profile: &Profile, seed: u64) -> f64 {
    nic_p99_us(profile, 0.9 * profile.published_threshold_gbps(), seed)
}

/// The largest rate for the NIC alone with its p99 within the objective, Gbit/s.
pub fn limit_gbps(profile: &Profile, objective_us: f64) -> Result<f64, Failure> {
    // Rates beyond the line are not simulated; real NICs' profiles are below it.
    if profile.nic.gbps > LINE_GBPS {
        return Ok(0.9 * profile.nic.gbps);
    }
    largest_within(profile, objective_us, 0.9, 1).ok_or_else(|| {
        Failure::user(format!(
            "{}: the NIC's p99 is above {objective_us} us even when it is idle; give a larger --objective",
            profile.function
        ))
    })
}
