//! Whether rendered diagnostics have colours.

use std::sync::atomic::{AtomicBool, Ordering};

/// Nobody gets colours who did not ask for them.
static COLOR: AtomicBool = AtomicBool::new(false);

/// Colours for diagnostics from here on, or none.
pub fn set(wanted: bool) {
    COLOR.store(wanted, Ordering::Relaxed);
}

/// True if diagnostics are coloured.
pub fn color() -> bool {
    COLOR.load(Ordering::Relaxed)
}
