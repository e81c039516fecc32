//! `nicforge check`: every problem in a program, in one go.

use nicforge_driver::by_target::Programs;
use nicforge_driver::support::Support;
use nicforge_driver::{Failure, Runtime, diagnose, support, targets};
use serde_json::Value;

use crate::args::Check;
use crate::out;

/// Prints diagnostics; succeeds if there are no errors and the program runs on the one target that
/// is named. Of `all` some lack something as a rule: they are listed.
pub fn run(args: Check) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    if let Some(function) = &args.opaque {
        return answer(&diagnose::opaque(&args.source, function, &runtime));
    }
    let asked = args.target.as_deref().map(targets::named).transpose()?;
    let one = args.target.as_deref().is_some_and(|name| name != targets::ALL);
    if args.json {
        let found = diagnose::check(&args.source, asked.as_deref(), &runtime)?;
        let listed = found["targets"].as_array();
        let refused = one && listed.is_some_and(|all| all.iter().any(|each| each["runs"] != true));
        return answer(&found).and(status(!refused));
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
    let answers = support::of(&programs, &targets, &runtime)?;
    super::support::print(&answers);
    status(!one || answers.iter().all(Support::runs))
}

/// Status 1 without a further word if something that was printed is not so.
fn status(so: bool) -> Result<(), Failure> {
    if so { Ok(()) } else { Err(Failure::rendered(String::new())) }
}

/// Prints an answer as JSON; succeeds if it says `ok`.
fn answer(found: &Value) -> Result<(), Failure> {
    outln!("{found:#}");
    status(found["ok"] == true)
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
