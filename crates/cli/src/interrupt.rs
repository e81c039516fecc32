//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! A command that runs a program looks at [`stopped`] and ends in order. All others end at once, after the temporary files
//! are removed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::Failure;

/// Exit status of a command that was interrupted.
pub const STATUS: u8 = 130;

/// Set by Ctrl-C; every loop looks at it.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Whether the command looks at [`STOP`] by itself.
static ORDERLY: AtomicBool = AtomicBool::new(false);

/// Folders that must not outlive the process.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether the user wants the command to end.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// From here on the command ends by itself when it is told to stop.
pub fn stop_in_order() {
    ORDERLY.store(true, Ordering::Relaxed);
}

/// Installs the handler.
pub fn catch() -> Result<(), Failure> {
    let handle = || {
        STOP.store(true, Ordering::Relaxed);
        if !ORDERLY.load(Ordering::Relaxed) {
            remove_folders();
            std::process::exit(STATUS.into());
        }
    };
    let detached = ignores_hangup();
    ctrlc::set_handler(handle).map_err(|e| Failure::environment(format!("cannot catch Ctrl-C: {e}")))?;
    if detached {
        // SAFETY: no handler of ours is involved.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
    Ok(())
}

/// Removes what must not outlive the process.
pub fn remove_folders() {
    let folders = FOLDERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for folder in folders.iter() {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Whether `nohup` (or whoever started us) wants the process to outlive its terminal.
fn ignores_hangup() -> bool {
    // SAFETY: all-zero is a valid value of the structure, which lives through the call; nothing is changed.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut before) == 0
            && before.sa_sigaction == libc::SIG_IGN
    }
}

/// Makes a folder that is removed if the command is interrupted. An interrupt waits until it is whole: what is half there could be
/// missed, or written again behind the removal.
pub fn remember<T>(make: impl FnOnce() -> io::Result<T>, folder: impl FnOnce(&T) -> &Path) -> io::Result<T> {
    let mut folders = FOLDERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let made = make()?;
    folders.push(folder(&made).to_path_buf());
    Ok(made)
}

/// Forgets it: it is gone.
pub fn forget(folder: &Path) {
    FOLDERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|known| known != folder);
}
