//! The commands, one file each.

mod agreement;
mod ask;
mod asked;
pub mod balance;
mod below;
mod bound;
pub mod build;
mod check;
mod detach;
mod doctor;
mod equal;
mod explain;
mod explain_error;
pub mod fpga;
mod kit;
mod lifted;
mod lsp;
mod metrics;
mod module;
mod new;
mod originals;
mod originals_nfp;
mod plan;
mod reload;
mod report;
mod rows;
pub mod run;
mod shell;
mod sim;
mod sim_print;
pub mod spin;
mod support;
pub mod sweep;
pub mod synth;
mod table;
mod targets;
mod targets_fit;
mod targets_measure;
mod trace;
mod tuned;
pub mod validate;
mod validate_alkali;
mod validate_balance;
mod validate_flow;
mod validate_flow_load;
mod validate_flow_sim;
mod validate_fpga;
mod validate_lift;
mod validate_nfp;
mod validate_predict;
mod validate_search;
mod validate_spin;
pub mod verify;

use nicforge_driver::Failure;

use crate::args::{self, Args, Command};
use crate::out;

/// Runs the command that was asked for.
pub fn dispatch(args: Args) -> Result<(), Failure> {
    // Only --list goes without a command.
    let Some(command) = args.command else {
        out::text(&args::list());
        return Ok(());
    };
    match command {
        Command::Check(args) if module::is(&args.source.program) => {
            module::run("check", &args.source.program)
        }
        Command::Run(args) if module::is(&args.source.program) => {
            module::run("run", &args.source.program)
        }
        Command::Check(args) => match spin::handlers::at(&args.source.program) {
            Some(handlers) => spin::check::run(&handlers, &args),
            None => check::run(args),
        },
        Command::Bound(args) => bound::run(args),
        Command::Build(args) => build::run(args),
        Command::Run(args) => run::run(args),
        Command::Validate(args) => validate::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Kit(args) => kit::run(&args),
        Command::Trace(args) => trace::run(args),
        Command::Table(args) => table::run(args),
        Command::Metrics(args) => metrics::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Detach(args) => detach::run(args),
        Command::Lsp(args) => lsp::run(args),
        Command::New(args) => new::run(args),
        Command::Targets(args) => targets::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Spin(args) => spin::run(args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Balance(args) => balance::run(args),
        Command::Completions(args) => {
            shell::completions(&args);
            Ok(())
        }
        Command::Man(args) => shell::manual(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Explain(args) => explain::run(args),
        Command::ExplainError(args) => explain_error::run(&args),
        Command::Report(args) => report::run(args),
    }
}
