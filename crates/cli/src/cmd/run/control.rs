//! The control socket of a run whose packets are all through, what `nicforge table` and `nicforge
//! metrics` talk to; and their answers where no run is.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nicforge_driver::Failure;
use nicforge_driver::stop::{STOP, stopped};
use nicforge_ir::{Program, TableBackend};
use nicforge_run::socket::{ControlTarget, Request, Server, answer};
use serde_json::Value;

use super::summary::Summary;

struct Held<'a> {
    program: &'a Program,
    tables: &'a mut dyn TableBackend,
    summary: Summary,
}

impl ControlTarget for Held<'_> {
    fn parts(&mut self) -> (&Program, &mut dyn TableBackend) {
        (self.program, self.tables)
    }

    fn metrics(&mut self) -> Value {
        // Tables that cannot be read keep the sizes they had.
        let _ = self.summary.read_tables(self.program, self.tables);
        self.summary.metrics(self.program)
    }

    fn stop(&mut self) {
        STOP.store(true, Ordering::Relaxed);
    }
}

/// Answers one request about a program that this process does not run.
pub fn answer_for(
    program: &Program,
    tables: &mut dyn TableBackend,
    summary: Summary,
    request: Request,
) -> Result<Value, String> {
    answer(&mut Held { program, tables, summary }, request)
}

/// Answers until Ctrl-C or `stop`.
pub fn hold(
    program: &Program,
    tables: &mut dyn TableBackend,
    summary: Summary,
) -> Result<(), Failure> {
    let mut server = Server::start(&program.name).map_err(|e| Failure::of(e.fault(), e))?;
    let mut held = Held { program, tables, summary };
    errln!("holding; `nicforge table dump NAME` reads the tables, Ctrl-C ends");
    while !stopped() {
        server.poll(&mut held);
        std::thread::sleep(Duration::from_millis(10));
    }
    server.finish();
    Ok(())
}
