//! Requests to a run, or to a pinned program that may have none.

use nicforge_driver::Failure;
use nicforge_run::dev::pins;
use nicforge_run::socket::{Request, SocketError, find_run, request};
use nicforge_run::xdp::attach::index_of;
use serde_json::Value;

use super::run::control::answer_for;
use super::run::dev::counted;
use crate::args::Running;

/// Asks the run that is meant. Where none is, and one program is pinned, that is meant.
pub fn ask(of: &Running, question: Request) -> Result<Value, Failure> {
    if let Some(name) = &of.pin {
        return pinned(name, question);
    }
    let run = match (find_run(of.run), pins::names().as_slice()) {
        (Err(SocketError::NoRun), [only]) => return pinned(only, question),
        (Err(SocketError::NoRun), several @ [_, ..]) => {
            let several = several.join(", ");
            let what =
                format!("no program is running, several are pinned: --pin, one of {several}");
            return Err(Failure::user(what));
        }
        (found, _) => found.map_err(|e| Failure::of(e.fault(), e))?,
    };
    request(&run.path, &question).map_err(|e| Failure::of(e.fault(), e))
}

fn pinned(name: &str, question: Request) -> Result<Value, Failure> {
    let mut found = pins::read(name).map_err(|e| Failure::of(e.fault(), e))?;
    if matches!(question, Request::Metrics) {
        for name in found.interfaces.iter().filter(|name| index_of(name).is_err()) {
            errln!(
                "warning: interface `{name}` is not here, so what it received meanwhile is not counted: ask in its \
                 network namespace"
            );
        }
    }
    let on = found.interfaces.join(", ");
    let summary = counted("xdp", on, &found.program, &found.stats, &found.tables)?;
    answer_for(&found.program, &mut found.tables, summary, question).map_err(Failure::user)
}
