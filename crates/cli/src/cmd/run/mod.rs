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

use nicforge_driver::backend::{self, Backend, Chosen};
use nicforge_driver::options::Planning;
use nicforge_driver::{Failure, Loaded, Runtime, pipelines, program, tune};
use nicforge_target::Target;

use super::{fpga, tuned};
use crate::args::Run;
use crate::{interrupt, out};

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
    let in_kernel_here =
        |on: &Chosen| !on.backend.is_hardware() && on.backend.pipelined().is_none();
    if args.pin.is_some() && !chosen.as_ref().is_some_and(in_kernel_here) {
        return Err(Failure::usage("--pin needs a target whose programs the kernel runs: xdp"));
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
        let tuned = tune::tune(&loaded, &target, &planning, &args.inputs, most, apart)?;
        if !args.json {
            tuned::print(&tuned);
        }
        args.planned.candidate = Some(tuned.best);
    }
    if !backend.is_hardware() {
        // A simulation is a process of its own and has nothing to clean up.
        interrupt::stop_in_order();
    }
    if backend.is_hardware() {
        return fpga::run(&target, &args, &loaded);
    }
    match backend.pipelined() {
        Some(workers) if workers.has_ports() && !args.dev.is_empty() => {
            ports::run(&target, &args, &loaded)
        }
        Some(workers) => dpdk::run(workers, &target, &args, &loaded),
        None => in_kernel(backend, &target, &args, &loaded, runtime),
    }
}

/// Runs a program in this machine's kernel: on interfaces, or on a capture in one stage or several.
fn in_kernel(
    backend: &dyn Backend,
    target: &Target,
    args: &Run,
    loaded: &Loaded,
    runtime: Runtime,
) -> Result<(), Failure> {
    backend.takes(target, &loaded.program)?;
    let staged = pipelines::asked(&args.planned) || pipelines::split(&loaded.program, target);
    if args.watch && staged {
        return Err(Failure::usage(
            "--watch replaces a program of one stage; leave out --plan and --candidate, and handlers on the host",
        ));
    }
    if args.pin.is_some() && staged {
        return Err(Failure::usage(
            "--pin lets a program of one stage outlive its run; leave out --plan and --candidate, and handlers on the \
             host",
        ));
    }
    match args.dev.is_empty() {
        false => dev::run(target, args, loaded, runtime),
        true if staged => planned::run(target, args, loaded, runtime),
        true => live::run(target, args, loaded, runtime),
    }
}
