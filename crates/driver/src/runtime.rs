//! The runtime files that this library carries: headers for user programs, and what generated code
//! includes.

use std::io;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use nicforge_run::temp::Folder;

use crate::Failure;

/// Headers for user programs and for generated code, as they were when this was built.
static RUNTIME: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../runtime");

/// Folders that programs and generated code for xdp include from.
const FOR_PROGRAMS: [&str; 4] = ["alkali", "common", "include", "xdp"];

/// The runtime files on disk; they go away with this. Kept only while something is compiled: a
/// process that is killed leaves them behind until the next one starts, and long runs are the ones
/// that get killed.
pub struct Runtime {
    dir: Folder,
}

impl Runtime {
    /// Unpacks what programs need.
    pub fn unpack() -> Result<Runtime, Failure> {
        let folders = FOR_PROGRAMS.iter().filter_map(|name| RUNTIME.get_dir(name));
        Runtime::with(|path| {
            folders.into_iter().try_for_each(|folder| {
                std::fs::create_dir(path.join(folder.path()))?;
                folder.extract(path)
            })
        })
    }

    /// Unpacks all that the binary carries: handlers for sPIN NICs need more than programs.
    pub fn whole() -> Result<Runtime, Failure> {
        Runtime::with(|path| RUNTIME.extract(path))
    }

    fn with(fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<Runtime, Failure> {
        let dir = Folder::filled("runtime", fill)
            .map_err(|e| Failure::environment(format!("cannot unpack the runtime headers: {e}")))?;
        Ok(Runtime { dir })
    }

    /// The folder with the files that were unpacked.
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
