//! What suites of `validate` run on: the files below a folder, and targets.

use std::path::{Path, PathBuf};

use nicforge_driver::{Failure, targets};
use nicforge_target::{Target, load};

/// Files below a folder that are wanted, in order of their names. Links to folders are not followed.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn files(
    from: &Path,
    wanted: impl Fn(&Path) -> std::io::Result<bool>,
) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![from.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if wanted(&path)
                .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The targets that were named, or all of them.
///
/// # Errors
/// There is no such target.
pub fn targets(named: &[String]) -> Result<Vec<Target>, Failure> {
    match named {
        [] => load::names().into_iter().map(targets::find).collect(),
        named => named.iter().map(|name| targets::find(name)).collect(),
    }
}

/// True if a file is a program in C with a capture beside it.
///
/// # Errors
/// The folder cannot be read.
pub fn with_capture(path: &Path) -> std::io::Result<bool> {
    Ok(ends(path, "c") && path.with_file_name("traffic.pcap").try_exists()?)
}

/// True if a file's name ends so.
pub fn ends(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}
