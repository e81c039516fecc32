//! Printing for people who stop reading.
//!
//! `nicforge trace … | head` closes the pipe while there is more to print. The usual death by
//! SIGPIPE would leave temporary files and a socket behind, and `println!` would panic with a
//! message; so output goes through here, where a closed pipe unwinds silently up to `main`.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};

/// The payload that a closed pipe unwinds with.
pub struct Closed;

/// Exit status then: what a shell shows for a process that SIGPIPE ended.
pub const CLOSED_STATUS: u8 = 141;

/// Prints to standard output.
pub fn out(text: Arguments) {
    check(std::io::stdout().lock().write_fmt(text));
}

/// Prints to standard error.
pub fn err(text: Arguments) {
    check(std::io::stderr().lock().write_fmt(text));
}

/// Prints text as it is to standard output.
pub fn text(text: &str) {
    out(format_args!("{text}"));
}

/// Prints text as it is to standard error.
pub fn notes(text: &str) {
    err(format_args!("{text}"));
}

/// Says on a terminal how much of a long command is done, on one line that later ones overwrite.
pub fn progress(done: usize, all: usize) {
    if std::io::stderr().is_terminal() {
        let end = if done == all { '\n' } else { '\r' };
        err(format_args!("{done} of {all}{end}"));
    }
}

/// Writes bytes to standard output, and all of them before it returns.
pub fn bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    check(stdout.write_all(bytes).and_then(|()| stdout.flush()));
}

/// Only a closed pipe ends the program; output that goes nowhere else (a full disk) is not worth
/// more than its own loss.
fn check(result: std::io::Result<()>) {
    if matches!(result, Err(error) if error.kind() == ErrorKind::BrokenPipe) {
        std::panic::resume_unwind(Box::new(Closed));
    }
}

/// `println!` through [`out`].
macro_rules! outln {
    () => { $crate::out::out(format_args!("\n")) };
    ($($arg:tt)*) => { $crate::out::out(format_args!("{}\n", format_args!($($arg)*))) };
}

/// `eprintln!` through [`err`].
macro_rules! errln {
    ($($arg:tt)*) => { $crate::out::err(format_args!("{}\n", format_args!($($arg)*))) };
}
