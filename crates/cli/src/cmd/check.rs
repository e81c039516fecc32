//! `nicforge check`: every problem in a program, in one go.

use nicforge_driver::by_target::Programs;
use nicforge_driver::{Failure, Runtime, diagnose, support, targets};
use serde_json::Value;

use crate::args::Check;
use crate::out;

/// Prints diagnostics; succeeds if there are no errors.
pub fn run(args: Check) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    if let Some(function) = &args.opaque {
        return answer(&diagnose::opaque(&args.source, function, &runtime));
    }
    let asked = args.target.as_deref().map(targets::named).transpose()?;
    if args.json {
        return answer(&diagnose::check(&args.source, asked.as_deref(), &runtime)?);
    }
    let targets = asked.unwrap_or_default();
    let programs = Programs::load(&args.source, &targets, &runtime)?;
    let loaded = &programs.general;
    out::notes(&loaded.warnings);
    let p = &loaded.program;
    outln!(
        "{}: {} handler{}, {} table{}, {} port{}",
        loaded.path.display(),
        p.handlers.len(),
        plural(p.handlers.len()),
        p.tables.len(),
        plural(p.tables.len()),
        p.ports,
        plural(p.ports as usize)
    );
    super::support::print(&support::of(&programs, &targets, &runtime)?);
    Ok(())
}

/// Prints an answer as JSON; succeeds if it says `ok`.
fn answer(found: &Value) -> Result<(), Failure> {
    outln!("{found:#}");
    if found["ok"] == true { Ok(()) } else { Err(Failure::rendered(String::new())) }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
