//! Profiles by name or file.

use std::path::Path;

use nicforge_balance::profile::{self, Profile};
use nicforge_driver::Failure;

/// A built-in profile, or a file that `nicforge balance profile` wrote.
pub fn find(name: &str) -> Result<Profile, Failure> {
    let read = match profile::built_in(name) {
        Some(read) => read,
        None if Path::new(name).exists() => {
            let text =
                std::fs::read_to_string(name).map_err(|e| Failure::user(format!("{name}: {e}")))?;
            Profile::parse(name, &text)
        }
        None => {
            let known: Vec<&str> = profile::names().collect();
            return Err(Failure::usage(format!(
                "there is no profile or file `{name}`; built in are {}, and `nicforge balance profile` makes others",
                known.join(", ")
            )));
        }
    };
    read.map_err(|e| Failure::user(e.to_string()))
}
