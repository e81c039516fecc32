//! `nicforge balance`: NIC and host share the load, and the host sleeps when it can.

mod chart;
mod demo;
mod plan;
pub(crate) mod policies;
mod profile;
mod profiles;
mod program;
mod rte_flow;
mod run;
mod sim;

use clap::{Args, Subcommand};
use nicforge_driver::Failure;

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
    /// Say how much the NIC should get: thresholds for an objective, and several functions on one
    /// NIC
    Plan(plan::Plan),
    /// Measure what a function costs on either side, and write its profile
    Profile(profile::ProfileArgs),
    /// Show everything at work in network namespaces: a client, an XDP director, a NIC side, and a
    /// host that sleeps (needs root)
    Demo(demo::Demo),
    /// Balance on interfaces: XDP director and merger, a policy, heartbeats, metrics (needs root)
    Run(run::Run),
    /// Ask a running balancer for metrics, or give it an order
    Ask(run::Ask),
    /// A side of the demo, started by it
    #[command(hide = true)]
    Peer(demo::Peer),
}

/// Runs what was asked for.
pub fn run(args: Balance) -> Result<(), Failure> {
    match args.action {
        Action::Sim(args) => sim::run(&args),
        Action::Plan(args) => plan::run(&args),
        Action::Profile(args) => profile::run(&args),
        Action::Demo(args) => demo::run(&args),
        Action::Run(args) => run::run(&args),
        Action::Ask(args) => run::ask(&args),
        Action::Peer(args) => demo::peer(args),
    }
}
