//! What all commands share: failures with their exit status, and the runtime files this binary
//! carries.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use include_dir::{Dir, include_dir};
use nicforge_run::Fault;
use nicforge_run::temp::Folder;

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

    /// The message as part of something that is printed, without the word that begins messages of
    /// the command line.
    pub fn reason(&self) -> &str {
        self.message.strip_prefix("error: ").unwrap_or(&self.message)
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

    /// An interface went away while a program ran on it.
    pub fn gone(message: impl Into<String>) -> Failure {
        Failure { code: 4, message: with_prefix(message.into()) }
    }

    /// Something was neither proved nor refuted; what is known is printed already.
    pub fn open(message: impl Into<String>) -> Failure {
        Failure { code: 5, message: with_prefix(message.into()) }
    }

    /// A temporary folder cannot be made.
    pub fn temporary(error: std::io::Error) -> Failure {
        Failure::environment(format!("cannot make a temporary folder: {error}"))
    }

    /// Diagnostics that are rendered already.
    pub fn rendered(message: String) -> Failure {
        Failure { code: 1, message }
    }
}

fn with_prefix(message: String) -> String {
    if message.starts_with("error") { message } else { format!("error: {message}") }
}

/// The runtime files on disk; they go away with this. Kept only while something is compiled: a
/// process that is killed leaves them behind until the next one starts, and long runs are the ones
/// that get killed.
pub struct Runtime {
    dir: Folder,
}

impl Runtime {
    /// Unpacks what the binary carries.
    pub fn unpack() -> Result<Runtime, Failure> {
        let made = Folder::filled("runtime", |path| RUNTIME.extract(path));
        let dir = made
            .map_err(|e| Failure::environment(format!("cannot unpack the runtime headers: {e}")))?;
        Ok(Runtime { dir })
    }

    /// The folder with all of them.
    pub fn path(&self) -> &Path {
        self.dir.path()
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

/// Set once errors may go to another terminal than ours.
static PLAIN: AtomicBool = AtomicBool::new(false);

/// From here on diagnostics are not coloured.
pub fn no_color() {
    PLAIN.store(true, Ordering::Relaxed);
}

/// Whether diagnostics may be coloured.
pub fn color() -> bool {
    !PLAIN.load(Ordering::Relaxed)
        && std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none()
}
