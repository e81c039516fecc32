//! Failures, and whose fault they are.

use nicforge_run::Fault;

/// Exit status of a command that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// A failure: the message for the user, and the exit status of a command that ends with it.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    /// The program or its input is at fault.
    pub fn user(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: with_prefix(message.into()) }
    }

    /// The message as part of something that is printed, without the word that begins messages of
    /// the command line.
    pub fn reason(&self) -> &str {
        self.message.strip_prefix("error: ").unwrap_or(&self.message)
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: with_prefix(message.into()) }
    }

    /// The machine lacks something.
    pub fn environment(message: impl Into<String>) -> Failure {
        Failure { code: 3, message: with_prefix(message.into()) }
    }

    /// Somebody's error with its fault.
    pub fn of(fault: Fault, message: impl std::fmt::Display) -> Failure {
        Failure { code: fault.exit_code(), message: with_prefix(message.to_string()) }
    }

    /// An interface went away while a program ran on it.
    pub fn gone(message: impl Into<String>) -> Failure {
        Failure { code: 4, message: with_prefix(message.into()) }
    }

    /// Something was neither proved nor refuted; what is known is printed already.
    pub fn open(message: impl Into<String>) -> Failure {
        Failure { code: 5, message: with_prefix(message.into()) }
    }

    /// A temporary folder cannot be made.
    pub fn temporary(error: std::io::Error) -> Failure {
        Failure::environment(format!("cannot make a temporary folder: {error}"))
    }

    /// The user wants it to end; there is nothing to say.
    pub fn interrupted() -> Failure {
        Failure { code: INTERRUPTED, message: String::new() }
    }

    /// Diagnostics that are rendered already.
    pub fn rendered(message: String) -> Failure {
        Failure { code: 1, message }
    }
}

fn with_prefix(message: String) -> String {
    if message.starts_with("error") { message } else { format!("error: {message}") }
}
