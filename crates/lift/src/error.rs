//! Why an object is no program of ours.

use nicforge_isa::object::ObjectError;

/// Why lifting ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiftError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("no program in this object")]
    Empty,
    #[error("no program or section `{wanted}`; there are {names}")]
    Unknown { wanted: String, names: String },
    #[error("no map `{name}` in this object")]
    NoMap { name: String },
    #[error("no global variable `{name}` in this object")]
    NoGlobal { name: String },
    #[error("global variable `{name}` has {size} bytes, which cannot hold {value}")]
    Global { name: String, size: usize, value: u64 },
    #[error("several programs; choose one with --program: {names}")]
    Several { names: String },
    #[error("program `{program}`{place}: {reason}")]
    Refused { program: String, place: String, reason: String },
}

/// Why the walk cannot go on as it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Ways that join at this instruction must be kept apart.
    Split(usize),
    /// What the program does has no meaning here.
    Refused(String),
    /// The program takes too much as it is followed.
    Limit(String),
    /// Loops have many trips, and it takes long.
    ManyTrips,
}

/// Ends the walk at a limit.
pub fn limit<T>(reason: impl Into<String>) -> Result<T, Halt> {
    Err(Halt::Limit(reason.into()))
}

/// Ends the walk with a reason.
pub fn refuse<T>(reason: impl Into<String>) -> Result<T, Halt> {
    Err(Halt::Refused(reason.into()))
}
