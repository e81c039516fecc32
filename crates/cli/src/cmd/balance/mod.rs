//! `nicforge balance`: NIC and host share the load, and the host sleeps when it can.

mod chart;
mod plan;
mod policies;
mod profile;
mod profiles;
mod sim;

use clap::{Args, Subcommand};

use crate::context::Failure;

/// `nicforge balance`.
#[derive(Args)]
pub struct Balance {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Simulate NIC, host and a policy on a trace: rates, latency, power
    Sim(sim::Sim),
    /// Say how much the NIC should get: thresholds for an objective, and several functions on one NIC
    Plan(plan::Plan),
    /// Measure a function's capacity and p99 on either side; the file is what the others read
    Profile(profile::Profile),
}

/// Runs what was asked for.
pub fn run(args: Balance) -> Result<(), Failure> {
    match args.action {
        Action::Sim(args) => sim::run(&args),
        Action::Plan(args) => plan::run(&args),
        Action::Profile(args) => profile::run(&args),
    }
}
