//! The runtime files that this library carries: headers for user programs, and what generated code
//! includes.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use nicforge_run::temp::Folder;

use crate::Failure;

/// Headers for user programs and for generated code, as they were when this was built.
static RUNTIME: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../runtime");

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
