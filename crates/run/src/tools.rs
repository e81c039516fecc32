//! Where tools and libraries are that the scripts install: Verilator, DPDK for arm64, picolibc,
//! Python with cocotb and Dask.
//!
//! The scripts put them into `nicforge` in the user's cache folder, and commands find them there
//! from any folder, without `scripts/env.sh`. Variables name other places and come first. Under
//! `sudo` the cache is also that of who called it.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// Folders of what was installed, the likeliest first.
pub fn places() -> Vec<PathBuf> {
    let var =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    let homes = [var("HOME"), sudo.and_then(home), home(user)];
    let caches = std::iter::once(var("XDG_CACHE_HOME"))
        .chain(homes.into_iter().map(|home| home.map(|home| home.join(".cache"))));
    let mut found: Vec<PathBuf> = Vec::new();
    for cache in caches.flatten().map(|cache| cache.join("nicforge")) {
        if !found.contains(&cache) {
            found.push(cache);
        }
    }
    found
}

/// A user's home folder, as the system's list of users has it.
fn home(user: u32) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut buffer = vec![0u8; 1 << 14];
    // SAFETY: all-zero is a valid value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: the entry and its strings live in buffers of ours, whose length is given.
    unsafe {
        let status = libc::getpwuid_r(
            user,
            &mut entry,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &mut found,
        );
        if status != 0 || found.is_null() || entry.pw_dir.is_null() {
            return None;
        }
        let dir = CStr::from_ptr(entry.pw_dir).to_bytes();
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(dir)))
    }
}

/// A program in the folders of `PATH`.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The folder that `variable` names, or else `name` in the first of [`places`] where it has `file`.
pub fn installed(variable: &str, name: &str, file: &str) -> Option<PathBuf> {
    let found = match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        Some(given) => vec![PathBuf::from(given)],
        None => places().iter().map(|place| place.join(name)).collect(),
    };
    found.into_iter().find(|path| path.join(file).is_file())
}

/// Python's environment with `file` in it (a path whose `*` stands for one folder's name):
/// `NICFORGE_PYTHON`, or the newest of those that were installed. The path of the file.
pub fn in_python(file: &str) -> Option<PathBuf> {
    let given =
        std::env::var_os("NICFORGE_PYTHON").filter(|value| !value.is_empty()).map(PathBuf::from);
    let given = given.and_then(|root| matching(&root, file).pop());
    given.or_else(|| newest(&places(), file))
}

fn newest(places: &[PathBuf], file: &str) -> Option<PathBuf> {
    places.iter().find_map(|place| {
        let environments = matching(place, "python-*");
        let made = |path: &PathBuf| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let found = environments
            .iter()
            .filter_map(|root| matching(root, file).pop().map(|file| (made(root), file)));
        found.max().map(|(_, file)| file)
    })
}

/// Files at a relative path whose parts may have one `*`.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_path_buf()];
    for part in pattern.split('/') {
        found = match part.split_once('*') {
            None => {
                found.into_iter().map(|path| path.join(part)).filter(|path| path.exists()).collect()
            }
            Some((begin, end)) => {
                let mut inside = Vec::new();
                for entry in found.iter().flat_map(std::fs::read_dir).flatten().flatten() {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    if name.len() >= begin.len() + end.len()
                        && name.starts_with(begin)
                        && name.ends_with(end)
                    {
                        inside.push(entry.path());
                    }
                }
                inside.sort();
                inside
            }
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_newest_environment_that_has_it_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = "lib/python3*/site-packages/verilator/bin/verilator_bin";
        let places = [dir.path().join("none"), dir.path().to_path_buf()];
        assert_eq!(newest(&places, file), None);
        let mut last = PathBuf::new();
        for (age, name, has) in
            [(300, "python-9", true), (200, "python-1", true), (100, "python-5", false)]
        {
            let bin = dir.path().join(name).join("lib/python3.11/site-packages/verilator/bin");
            std::fs::create_dir_all(&bin).unwrap();
            if has {
                last = bin.join("verilator_bin");
                std::fs::write(&last, "").unwrap();
            }
            let made = SystemTime::now() - Duration::from_secs(age);
            std::fs::File::open(dir.path().join(name)).unwrap().set_modified(made).unwrap();
        }
        assert_eq!(newest(&places, file), Some(last));
    }

    #[test]
    fn places_do_not_need_a_variable() {
        // SAFETY: no arguments.
        let own = home(unsafe { libc::geteuid() }).expect("this user has a home");
        assert!(places().contains(&own.join(".cache/nicforge")));
    }
}
