//! What all commands share: failures with their exit status, and the runtime files this binary carries.

use std::io::IsTerminal;
use std::path::PathBuf;

use include_dir::{Dir, include_dir};
use nicforge_run::Fault;

/// Headers for user programs and for generated code, as they were when this binary was built.
static RUNTIME: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../runtime");

/// Why a command failed: the message for the user and the exit status.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    /// The program or its input is at fault.
    pub fn user(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: with_prefix(message.into()) }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: with_prefix(message.into()) }
    }

    /// The machine lacks something.
    pub fn environment(message: impl Into<String>) -> Failure {
        Failure { code: 3, message: with_prefix(message.into()) }
    }

    /// Somebody's error with its fault.
    pub fn of(fault: Fault, message: impl std::fmt::Display) -> Failure {
        Failure { code: fault.exit_code(), message: with_prefix(message.to_string()) }
    }

    /// Diagnostics that are rendered already.
    pub fn rendered(message: String) -> Failure {
        Failure { code: 1, message }
    }
}

fn with_prefix(message: String) -> String {
    if message.starts_with("error") { message } else { format!("error: {message}") }
}

/// The runtime files on disk; they go away with this.
pub struct Runtime {
    dir: tempfile::TempDir,
}

impl Runtime {
    /// Unpacks what the binary carries.
    pub fn unpack() -> Result<Runtime, Failure> {
        let fail =
            |e: std::io::Error| Failure::environment(format!("cannot unpack the runtime headers: {e}"));
        let dir = tempfile::Builder::new().prefix("nicforge-runtime-").tempdir().map_err(fail)?;
        RUNTIME.extract(dir.path()).map_err(fail)?;
        Ok(Runtime { dir })
    }

    /// The folder of `nicforge.h`.
    pub fn user_headers(&self) -> PathBuf {
        self.dir.path().join("include")
    }

    /// Folders that generated code for `target` includes from.
    pub fn target_headers(&self, target: &str) -> Vec<PathBuf> {
        vec![self.dir.path().join(target)]
    }
}

/// Whether diagnostics may be coloured.
pub fn color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
