//! Folders of pins: where they are, whether they are ours, and their end.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::xdp::{Attached, XdpError};

/// Where BPF file systems are mounted.
const BPFFS: &str = "/sys/fs/bpf";

/// The folder of a name. What has a slash is a path already, in any BPF file system.
pub fn folder(name: &str) -> PathBuf {
    match name.contains('/') {
        true => std::path::absolute(name).unwrap_or_else(|_| name.into()),
        false => Path::new(BPFFS).join("nicforge").join(name),
    }
}

/// Names of what is pinned in the usual place.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = entries(&Path::new(BPFFS).join("nicforge")).collect();
    names.sort();
    names
}

/// Takes a folder for this process; given up when the file is closed.
pub(super) fn lock(folder: &Path) -> Result<File, XdpError> {
    let file = File::open(folder).map_err(doing("open", folder))?;
    // SAFETY: a descriptor that lives through the call.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(file),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => {
                Err(XdpError::PinsUsed(folder.to_path_buf()))
            }
            error => Err(doing("lock", folder)(error)),
        },
    }
}

/// Detaches what is attached by pins of a folder, and removes it.
pub(super) fn clear(folder: &Path) -> Result<(), XdpError> {
    clear_but_folder(folder)?;
    remove_folder(folder);
    Ok(())
}

/// Removes an empty folder, and the one of all names with the last of them.
pub(super) fn remove_folder(folder: &Path) {
    let _ = fs::remove_dir(folder);
    if let Some(parent) = folder.parent().filter(|parent| parent.ends_with("nicforge")) {
        // Others may be in it.
        let _ = fs::remove_dir(parent);
    }
}

/// Detaches what is attached by pins of a folder, and empties it.
pub(super) fn clear_but_folder(folder: &Path) -> Result<(), XdpError> {
    // Without a state nothing here counts, so that goes first.
    let state = folder.join("state");
    if state.exists() {
        fs::remove_file(&state).map_err(doing("remove", &state))?;
    }
    for path in links(folder) {
        Attached::pinned(&path)?.detach();
    }
    entries(folder).try_for_each(|name| remove_all(&folder.join(name)))
}

/// Paths of pinned attachments.
pub(super) fn links(folder: &Path) -> impl Iterator<Item = PathBuf> {
    entries(folder).filter(|name| name.starts_with("link")).map(|name| folder.join(name))
}

/// Names of what is in a folder.
pub(super) fn entries(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// True for names of generations.
pub(super) fn is_number(name: &str) -> bool {
    name.parse::<u64>().is_ok()
}

/// Makes a folder in a BPF file system, unless it is there.
pub(super) fn in_bpffs(folder: &Path) -> Result<(), XdpError> {
    if folder.starts_with(BPFFS) {
        mount()?;
    }
    // Elsewhere nothing is made.
    if !folder.ancestors().find(|path| path.exists()).is_some_and(is_bpffs) {
        return Err(XdpError::NoBpffs(folder.to_path_buf()));
    }
    fs::create_dir_all(folder).map_err(doing("make the folder", folder))?;
    ours(folder)
}

/// Makes sure that a folder is in a BPF file system and holds nothing but what is pinned by this
/// module: all in it may be removed.
pub(super) fn ours(folder: &Path) -> Result<(), XdpError> {
    if !is_bpffs(folder) {
        return Err(XdpError::NoBpffs(folder.to_path_buf()));
    }
    let known = |name: &String| {
        ["state", "state_next"].contains(&name.as_str())
            || is_number(name.strip_prefix("link").unwrap_or(name))
    };
    match entries(folder).find(|name| !known(name)) {
        None => Ok(()),
        Some(other) => Err(XdpError::NotOurs { folder: folder.to_path_buf(), other }),
    }
}

/// Removes a pin, or a folder with all in it, if it is there.
pub(super) fn remove_all(path: &Path) -> Result<(), XdpError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(doing("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Mounts the BPF file system where everybody looks for it, if nobody has, as bpftool does.
fn mount() -> Result<(), XdpError> {
    let place = Path::new(BPFFS);
    if is_bpffs(place) {
        return Ok(());
    }
    let (name, options) = (c"bpf".as_ptr(), c"mode=0700".as_ptr());
    // SAFETY: C strings that live through the call.
    let status = unsafe {
        libc::mount(name, c"/sys/fs/bpf".as_ptr(), name, 0, options.cast::<libc::c_void>())
    };
    match status {
        0 => Ok(()),
        _ => Err(XdpError::NoBpffs(place.to_path_buf())),
    }
}

/// True if a folder is in a BPF file system.
fn is_bpffs(folder: &Path) -> bool {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: a C string that lives through the call, and room for the answer.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &raw mut found) == 0 && found.f_type == BPF_FS_MAGIC
    }
}

pub(super) fn doing<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> XdpError + 'a {
    move |error| XdpError::kernel(format!("{what} `{}`", path.display()), error)
}
