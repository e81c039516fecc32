//! The user's wish that work ends: long work looks at it, whoever sets it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set by Ctrl-C; every loop looks at it.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// True if the user wants the work to end.
pub fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}
