//! Where an installed command finds the examples that came with it.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

/// Reads the path of a program: as it is given, or, if nothing is there, below `share/nicforge`
/// beside the folder of this command, as `examples/firewall`.
pub fn program() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|given| {
        let own = std::env::current_exe().ok();
        own.and_then(|own| beside(&own, &given)).unwrap_or(given)
    })
}

fn beside(command: &Path, given: &Path) -> Option<PathBuf> {
    if given.is_absolute() || given.exists() {
        return None;
    }
    let came = command.parent()?.parent()?.join("share/nicforge").join(given);
    came.exists().then_some(came)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_comes_before_what_was_installed() {
        let prefix = tempfile::tempdir().unwrap();
        let share = prefix.path().join("share/nicforge/examples-of-a-test");
        std::fs::create_dir_all(&share).unwrap();
        let command = prefix.path().join("bin/nicforge");
        assert_eq!(beside(&command, Path::new("examples-of-a-test")), Some(share));
        assert_eq!(beside(&command, Path::new("not-there")), None);
        assert_eq!(beside(&command, Path::new("src")), None, "the crate's own folder is here");
        assert_eq!(beside(&command, prefix.path()), None);
    }
}
