//! Targets by name or file.

use nicforge_target::{self as target, Target};

use crate::Failure;

/// The targets a name stands for.
pub fn named(name: &str) -> Result<Vec<Target>, Failure> {
    let names = if name == "all" { target::names() } else { vec![name] };
    names.into_iter().map(find).collect()
}

/// A target by name or file.
pub fn find(name: &str) -> Result<Target, Failure> {
    target::find(name).map_err(|e| {
        let unknown = e.line.is_none() && !name.ends_with(".toml");
        if unknown { Failure::usage(e.reason) } else { Failure::user(e.to_string()) }
    })
}
