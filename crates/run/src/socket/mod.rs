//! One control socket per run: tables, metrics and stop from another terminal or program.
//!
//! A run listens on a Unix stream socket `PROGRAM.PID.sock` in a directory of the user's own. A
//! request is one line of JSON, its answer another: `{"ok": ...}` or `{"error": "..."}`.
//!
//! ```text
//! {"op":"list"}                                         tables: name, kind, capacity
//! {"op":"dump"}  {"op":"dump","table":"hosts"}          entries, as in table files
//! {"op":"get","table":"hosts","entry":{"key":1}}        the entry or null
//! {"op":"set","table":"hosts","entry":{"key":1,"value":2}}
//! {"op":"delete","table":"hosts","entry":{"key":1}}     whether there was one
//! {"op":"metrics"}  {"op":"stop"}
//! {"op":"reload","program":"/home/me/hello.c"}          what became of each table
//! ```
//!
//! The run's own loop answers between batches of packets, so no table is ever touched by two
//! threads of this process. A run that was killed leaves its socket's name behind; whoever looks
//! for runs next finds nobody listening and removes it.

mod client;
mod lines;
mod request;
mod server;

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

pub use client::{RunningRun, find_run, list_runs, request};
pub use lines::Lines;
pub use request::{ControlTarget, Request, answer};
pub use server::Server;

use crate::fault::Fault;

/// Why a control socket could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("cannot {what} `{path}`: {source}")]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("`{0}` is not a directory of this user's alone; remove it, or set XDG_RUNTIME_DIR")]
    Unsafe(PathBuf),
    #[error(
        "the socket's name `{0}` is too long for the system; set XDG_RUNTIME_DIR to a shorter path"
    )]
    TooLong(PathBuf),
    #[error("no program is running; start one with `nicforge run`")]
    NoRun,
    #[error("no program runs as process {pid}; running: {running}")]
    NoSuchRun { pid: u32, running: String },
    #[error("several programs are running, say which by its process: {0}")]
    Several(String),
    #[error("the run answered: {0}")]
    Answer(String),
    #[error("the run sent no proper answer within {seconds} s; it may be ending or stopped")]
    NoAnswer { seconds: u64 },
}

impl SocketError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            SocketError::Io { .. } | SocketError::Unsafe(_) | SocketError::TooLong(_) => {
                Fault::Environment
            }
            _ => Fault::User,
        }
    }

    fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> SocketError {
        let path = path.into();
        move |source| SocketError::Io { what, path, source }
    }
}

/// The directory of this user's control sockets, made if need be: under XDG_RUNTIME_DIR, for root
/// /run/nicforge, else in the temporary directory. It must be the user's and closed to others,
/// since whoever may connect may change tables.
pub fn directory() -> Result<PathBuf, SocketError> {
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    let path = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => PathBuf::from(runtime).join("nicforge"),
        _ if user == 0 => PathBuf::from("/run/nicforge"),
        _ => std::env::temp_dir().join(format!("nicforge-sockets-{user}")),
    };
    own_directory(path, user)
}

fn own_directory(path: PathBuf, user: u32) -> Result<PathBuf, SocketError> {
    match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(SocketError::io("make the directory", path)(error));
        }
        _ => {}
    }
    // Not through a link: in a shared directory somebody else might have made it.
    let found = std::fs::symlink_metadata(&path).map_err(SocketError::io("look at", &path))?;
    if !found.is_dir() || found.uid() != user || found.permissions().mode() & 0o077 != 0 {
        return Err(SocketError::Unsafe(path));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
