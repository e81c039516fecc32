//! `nicforge run`: a program on a capture (in the kernel or in the interpreter) or on live interfaces.

mod control;
mod dev;
mod interp;
mod live;
mod summary;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::{Run, Target};
use crate::context::{Failure, Runtime};
use crate::program;

/// Set by Ctrl-C; every loop looks at it.
static STOP: AtomicBool = AtomicBool::new(false);

fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Runs the program as asked and prints what happened.
pub fn run(args: Run) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    let loaded = program::load(&args.source, &runtime)?;
    eprint!("{}", loaded.warnings);
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::environment(format!("cannot catch Ctrl-C: {e}")))?;
    match (args.target, args.dev.is_empty()) {
        (Target::Interp, false) => {
            Err(Failure::usage("--dev needs a target that has interfaces, such as xdp"))
        }
        (Target::Interp, true) => interp::run(&args, &loaded),
        (Target::Xdp, true) => live::run(&args, &loaded, &runtime),
        (Target::Xdp, false) => dev::run(&args, &loaded, &runtime),
    }
}
