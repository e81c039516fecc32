//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! A command that runs a program looks at [`STOP`] and ends in order. All others end at once,
//! after what they started is ended and the temporary files are removed.

use std::sync::atomic::{AtomicBool, Ordering};

use nicforge_driver::stop::STOP;
use nicforge_driver::{Failure, INTERRUPTED};
use nicforge_run::{exec, temp};

/// True if the command looks at [`STOP`] by itself.
static ORDERLY: AtomicBool = AtomicBool::new(false);

/// From here on the command ends by itself when it is told to stop.
pub fn stop_in_order() {
    ORDERLY.store(true, Ordering::Relaxed);
}

/// Installs the handler.
pub fn catch() -> Result<(), Failure> {
    let handle = || {
        STOP.store(true, Ordering::Relaxed);
        if !ORDERLY.load(Ordering::Relaxed) {
            exec::end_all();
            temp::remove_all();
            std::process::exit(INTERRUPTED.into());
        }
    };
    let detached = ignores_hangup();
    ctrlc::set_handler(handle)
        .map_err(|e| Failure::environment(format!("cannot catch Ctrl-C: {e}")))?;
    if detached {
        // SAFETY: no handler of ours is involved.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
    Ok(())
}

/// True if `nohup` (or whoever started us) wants the process to outlive its terminal.
fn ignores_hangup() -> bool {
    // SAFETY: all-zero is a valid value of the structure, which lives through the call; nothing is
    // changed.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut before) == 0
            && before.sa_sigaction == libc::SIG_IGN
    }
}
