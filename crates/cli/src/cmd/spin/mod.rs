//! `nicforge spin`: sPIN handlers, from C to a NIC of RISC-V handler units.

pub mod build;
pub mod check;
pub mod datapath;
pub mod handlers;
mod input;
mod machine;
mod rules;
mod run;
mod sdk;
mod serve;
mod sim;
mod table;
mod verify;

use clap::{Args, Subcommand};
pub use machine::published;

use nicforge_driver::Failure;

/// `nicforge spin`.
#[derive(Args)]
pub struct Spin {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compile handlers to an image for RISC-V handler units
    Build(build::Build),
    /// Run handlers on a simulated NIC and report cycles, latency, throughput and what units did
    Sim(sim::Sim),
    /// Run handlers on interpreted units, on this computer and in hardware, and compare what leaves,
    /// host memory and what handlers do
    Verify(verify::Verify),
    /// Run handlers as a NIC on a TAP interface: real packets, programs on the host
    Run(run::Run),
    /// What drivers for PsPIN's simulator start
    #[command(hide = true)]
    Serve,
    /// Write headers, libraries and make rules for handlers, drivers and host programs
    Sdk(sdk::Sdk),
}

/// Runs what was asked for.
pub fn run(args: Spin) -> Result<(), Failure> {
    match args.action {
        Action::Build(args) => build::run(args),
        Action::Sim(args) => sim::run(args),
        Action::Verify(args) => verify::run(args),
        Action::Run(args) => run::run(args),
        Action::Serve => serve::run(),
        Action::Sdk(args) => sdk::run(args),
    }
}
