//! `nicforge run`: a program on a capture (in the kernel or in the interpreter) or on live
//! interfaces.

pub(super) mod control;
pub mod dev;
pub mod dpdk;
mod interleave;
mod interp;
pub mod live;
pub mod planned;
pub mod ports;
mod reload;
pub(super) mod summary;
mod watch;

pub use live::cost;

use super::tune;
use crate::args::{Planning, Run};
use crate::backend::{self, Chosen};
use crate::context::{Failure, Runtime};
use crate::{interrupt, out, program};

/// Runs the program as asked and prints what happened.
pub fn run(mut args: Run) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    let chosen = backend::find(&args.target)?;
    if let Some(on) = &chosen {
        args.source = args.source.on(&on.target);
    }
    let loaded = program::load(&args.source, &runtime)?;
    out::notes(&loaded.warnings);
    if !args.dev.is_empty()
        && !chosen.as_ref().is_some_and(|on| on.backend.has_interfaces(&on.target))
    {
        return Err(Failure::usage("--dev needs a target that has interfaces: xdp or dpdk"));
    }
    if args.trace.is_some() && !chosen.as_ref().is_some_and(|on| on.backend.is_hardware()) {
        return Err(Failure::usage("--trace needs a target that is simulated as hardware: u280"));
    }
    let Some(Chosen { target, backend }) = chosen else {
        if args.tune.is_some() {
            return Err(Failure::usage(
                "--tune is for targets that are planned: the interpreter has one way",
            ));
        }
        interrupt::stop_in_order();
        return interp::run(&args, &loaded);
    };
    if args.interleave.is_some() {
        return Err(Failure::usage("--interleave is for the interpreter: --target interp"));
    }
    if let Some(most) = args.tune {
        let (planning, apart) = (Planning::default(), args.planned.host_process);
        let tuned =
            tune::tune(&loaded, &target, &planning, &args.source, &args.inputs, most, apart)?;
        if !args.json {
            tuned.print();
        }
        args.planned.candidate = Some(tuned.best);
    }
    if !backend.is_hardware() {
        // A simulation is a process of its own and has nothing to clean up.
        interrupt::stop_in_order();
    }
    backend.run(&target, &args, &loaded, runtime)
}
