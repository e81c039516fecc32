//! Noticing that a program's source changed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nicforge_ir::Program;

/// How often files are looked at. A change must be as old as that, so that half-written files are
/// left alone.
const INTERVAL: Duration = Duration::from_millis(200);

/// The files of a program, and when they were changed last.
pub struct Watch {
    files: Vec<PathBuf>,
    /// As they were when the program was compiled.
    known: Vec<Option<SystemTime>>,
    /// As they were when they were looked at last.
    seen: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl Watch {
    /// Watches the source and the user's headers that it includes.
    pub fn new(path: &Path, program: &Program) -> Watch {
        let mut files: Vec<PathBuf> =
            program.files.values().map(|file| PathBuf::from(&file.path)).collect();
        files.push(path.to_path_buf());
        let known = times(&files);
        Watch { files, seen: known.clone(), known, looked: Instant::now() }
    }

    /// True if there is a change that was not told yet.
    pub fn changed(&mut self) -> bool {
        if self.looked.elapsed() < INTERVAL {
            return false;
        }
        self.looked = Instant::now();
        let now = times(&self.files);
        let settled = now == self.seen;
        self.seen = now;
        if settled && self.seen != self.known {
            self.known = self.seen.clone();
            return true;
        }
        false
    }
}

fn times(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    files.iter().map(|file| file.metadata().and_then(|found| found.modified()).ok()).collect()
}
