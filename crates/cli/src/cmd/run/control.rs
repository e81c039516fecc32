//! The control socket of a run: what `nicforge table` talks to.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nicforge_ir::{Program, TableBackend};
use nicforge_run::socket::{ControlTarget, Server};
use serde_json::Value;

use super::{STOP, stopped};
use crate::context::Failure;

/// A program whose tables can be asked for.
pub struct Control<'a> {
    server: Server,
    target: Target<'a>,
}

struct Target<'a> {
    program: &'a Program,
    tables: &'a mut dyn TableBackend,
    metrics: &'a mut dyn FnMut() -> Value,
}

impl ControlTarget for Target<'_> {
    fn parts(&mut self) -> (&Program, &mut dyn TableBackend) {
        (self.program, self.tables)
    }

    fn metrics(&mut self) -> Value {
        (self.metrics)()
    }

    fn stop(&mut self) {
        STOP.store(true, Ordering::Relaxed);
    }
}

impl<'a> Control<'a> {
    /// Opens the socket.
    pub fn new(
        program: &'a Program,
        tables: &'a mut dyn TableBackend,
        metrics: &'a mut dyn FnMut() -> Value,
    ) -> Result<Control<'a>, Failure> {
        let server = Server::start(&program.name).map_err(|e| Failure::of(e.fault(), e))?;
        Ok(Control { server, target: Target { program, tables, metrics } })
    }

    /// Answers what was asked meanwhile.
    pub fn poll(&mut self) {
        self.server.poll(&mut self.target);
    }

    /// Answers until Ctrl-C or `stop`.
    pub fn serve_until_stopped(mut self) -> Result<(), Failure> {
        eprintln!("holding; `nicforge table dump NAME` reads the tables, Ctrl-C ends");
        while !stopped() {
            self.poll();
            std::thread::sleep(Duration::from_millis(10));
        }
        self.server.finish();
        Ok(())
    }
}
