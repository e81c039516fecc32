//! The run's end of the socket. Nothing here blocks: the run's loop calls [`Server::poll`] whenever
//! it has a moment.

use std::io;
use std::path::Path;

use serde_json::json;

use super::lines::Lines;
use super::{ControlTarget, Request, SocketError, answer, directory};

/// A run's control socket; its name goes when this is dropped.
pub struct Server(Lines);

impl Server {
    /// Listens for a run of `program` in the user's directory.
    pub fn start(program: &str) -> Result<Server, SocketError> {
        Server::start_in(&directory()?, program)
    }

    pub(super) fn start_in(directory: &Path, program: &str) -> Result<Server, SocketError> {
        let allowed =
            |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let name: String = program.chars().take(40).map(allowed).collect();
        let pid = std::process::id();
        // One process may have several runs.
        let mut tries = (0..1000).map(|n| match n {
            0 => directory.join(format!("{name}.{pid}.sock")),
            n => directory.join(format!("{name}-{n}.{pid}.sock")),
        });
        loop {
            let Some(path) = tries.next() else {
                return Err(SocketError::TooLong(directory.join(name)));
            };
            match Lines::bind(path.clone()) {
                Ok(lines) => return Ok(Server(lines)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    // Left behind by a process of the same number, or ours.
                    if super::client::is_stale(&path) {
                        let _ = std::fs::remove_file(&path);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    return Err(SocketError::TooLong(path));
                }
                Err(error) => return Err(SocketError::io("make the socket", path)(error)),
            }
        }
    }

    /// The socket's name.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Answers everything that was asked meanwhile.
    pub fn poll(&mut self, target: &mut dyn ControlTarget) {
        self.0.poll(|line| {
            let result = serde_json::from_slice::<Request>(line)
                .map_err(|error| format!("not a request: {error}"))
                .and_then(|request| answer(target, request));
            let reply = match result {
                Ok(value) => json!({ "ok": value }),
                Err(message) => json!({ "error": message }),
            };
            format!("{reply}\n").into_bytes()
        });
    }

    /// Sends answers that are still waiting, before a run ends; for at most a second.
    pub fn finish(&mut self) {
        self.0.finish();
    }
}
