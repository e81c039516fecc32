//! Files that a compiler reads, in folders of their own.

use std::path::{Path, PathBuf};

use super::error::HostError;
use crate::temp::{self, Folder};

/// Writes files into a directory, with the folders in their names.
pub fn write_files(dir: &Path, files: &[(&str, &str)]) -> Result<(), HostError> {
    for (name, text) in files {
        let path = dir.join(name);
        let folder = path.parent().unwrap_or(dir);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| HostError::Io { path, source })?;
    }
    Ok(())
}

/// A fresh temporary directory.
pub fn fresh_dir() -> Result<Folder, HostError> {
    Folder::new("host").map_err(|source| HostError::Io { path: temp::place(), source })
}

/// Keeps the directory of code that a compiler refused, for a report.
pub fn refused(dir: Folder, compiler: &'static str, stderr: &[u8]) -> HostError {
    let messages = String::from_utf8_lossy(stderr).into_owned();
    let first = messages
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or("(it gave no reason)")
        .to_string();
    let path: PathBuf = dir.keep();
    // What the messages say is already in the error; a full disk must not hide it.
    let _ = std::fs::write(path.join("messages.txt"), &messages);
    HostError::Refused { compiler, first, path }
}
