//! `nicforge run`: a program on a capture (in the kernel or in the interpreter) or on live interfaces.

pub(super) mod control;
mod dev;
mod dpdk;
mod interleave;
mod interp;
mod live;
mod planned;
mod ports;
mod reload;
pub(super) mod summary;
mod watch;

pub use live::cost;

use super::{fpga, matrix, pipelines, tune};
use crate::args::{Planning, Run, Target};
use crate::context::{Failure, Runtime};
use crate::{interrupt, out, program};

/// Runs the program as asked and prints what happened.
pub fn run(mut args: Run) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    if args.target != Target::Interp {
        args.source = args.source.on_named(args.target.name())?;
    }
    let loaded = program::load(&args.source, &runtime)?;
    out::notes(&loaded.warnings);
    if !matches!(args.target, Target::Xdp | Target::Dpdk) && !args.dev.is_empty() {
        return Err(Failure::usage("--dev needs a target that has interfaces: xdp or dpdk"));
    }
    if let Some(most) = args.tune {
        if args.target == Target::Interp {
            return Err(Failure::usage(
                "--tune is for targets that are planned: the interpreter has one way",
            ));
        }
        let (target, planning) = (matrix::find(args.target.name())?, Planning::default());
        let apart = args.planned.host_process;
        let tuned = tune::tune(&loaded, &target, &planning, &args.source, &args.inputs, most, apart)?;
        if !args.json {
            tuned.print();
        }
        args.planned.candidate = Some(tuned.best);
    }
    let staged = pipelines::asked(&args.planned) || pipelines::split(&loaded.program)?;
    if args.watch && staged {
        return Err(Failure::usage(
            "--watch replaces a program of one stage; leave out --plan and --candidate, and handlers on the host",
        ));
    }
    if args.trace.is_some() && args.target != Target::U280 {
        return Err(Failure::usage("--trace needs a target that is simulated as hardware: u280"));
    }
    if args.interleave.is_some() && args.target != Target::Interp {
        return Err(Failure::usage("--interleave is for the interpreter: --target interp"));
    }
    if args.target != Target::U280 {
        // A simulation is a process of its own and has nothing to clean up.
        interrupt::stop_in_order();
    }
    match (args.target, args.dev.is_empty()) {
        (Target::U280, _) => fpga::run(&args, &loaded),
        (Target::Interp, _) => interp::run(&args, &loaded),
        (Target::Xdp, true) if staged => planned::run(&args, &loaded, runtime),
        (Target::Xdp, true) => live::run(&args, &loaded, runtime),
        (Target::Xdp, false) => dev::run(&args, &loaded, runtime),
        (Target::Dpdk, false) => ports::run(&args, &loaded),
        _ => dpdk::run(&args, &loaded),
    }
}
