//! The user's cache of what takes long to make and is the same for many programs: simulators of
//! designs, objects of runtimes, headers of others that were read once.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::{temp, tools};

/// The folder for one kind of thing, made if it is not there.
///
/// # Errors
/// The folder cannot be made.
pub fn folder(kind: &str) -> io::Result<PathBuf> {
    let base = tools::places().into_iter().next().unwrap_or_else(temp::place);
    let path = base.join(kind);
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// The name of what is made of something: 32 hexadecimal digits.
pub fn name(of: &impl Hash) -> String {
    let mut hash = DefaultHasher::new();
    of.hash(&mut hash);
    let (first, _) = (hash.finish(), 0u64.hash(&mut hash));
    format!("{first:016x}{:016x}", hash.finish())
}

/// Puts a finished file in its place in one step, so that others who make the same never see half
/// of it.
///
/// # Errors
/// The file cannot be copied; then nothing is left of it.
pub fn install(made: &Path, to: &Path) -> io::Result<()> {
    let thread = std::thread::current().id();
    let beside = to.with_extension(format!("new-{}-{thread:?}", std::process::id()));
    let installed = fs::copy(made, &beside).and_then(|_| fs::rename(&beside, to));
    installed.inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// A file that a compiler makes of texts that we hold and of installed headers. It is made anew
/// when compiler or headers have changed: a list beside it says which these were.
pub struct Compiled {
    path: PathBuf,
}

impl Compiled {
    /// Of everything that is told the compiler; nothing if there is no folder to keep it in.
    pub fn new(kind: &str, compiler: &str, of: &impl Hash) -> Option<Compiled> {
        let program = tools::in_path(compiler)?;
        let path = folder(kind).ok()?.join(name(&(stamp(&program), of)));
        Some(Compiled { path })
    }

    /// The file, if it is there and nothing that it was made of has changed.
    pub fn found(&self) -> Option<&Path> {
        let list = fs::read_to_string(self.list()).ok()?;
        let same = |line: &str| {
            let path = line.splitn(3, ' ').nth(2).unwrap_or_default();
            stamp(Path::new(path)).is_some_and(|now| now == line)
        };
        (self.path.is_file() && list.lines().all(same)).then_some(&self.path)
    }

    /// Keeps a file. `rules` is what the compiler wrote with `-MD`: `made: a.c /usr/include/b.h`;
    /// names without a folder are texts that we hold.
    ///
    /// # Errors
    /// The file cannot be written, or a header is not where the rules say.
    pub fn keep(&self, made: &Path, rules: &Path) -> io::Result<()> {
        let rules = fs::read_to_string(rules)?.replace("\\\n", " ");
        let paths = rules.split_whitespace().filter(|path| path.starts_with('/'));
        let list: Option<Vec<String>> = paths.map(|path| stamp(Path::new(path))).collect();
        let list = list.ok_or(io::ErrorKind::NotFound)?;
        let beside = made.with_extension("list");
        fs::write(&beside, list.join("\n"))?;
        // The list last: without the right one the file is not found.
        install(made, &self.path)?;
        install(&beside, &self.list())
    }

    fn list(&self) -> PathBuf {
        self.path.with_extension("of")
    }
}

/// Size, time of the last change, and path of a file.
fn stamp(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    let changed = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {} {}", about.len(), changed.as_nanos(), path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_of_other_files_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        write("header.h", "int one;\n");
        write("made.o", "an object");
        write("made.d", &format!("made.o: own.c \\\n {}\n", at("header.h").display()));
        let kept = Compiled { path: at("kept") };
        assert!(kept.found().is_none());
        kept.keep(&at("made.o"), &at("made.d")).unwrap();
        assert_eq!(fs::read_to_string(kept.found().unwrap()).unwrap(), "an object");
        write("header.h", "int other;\n");
        assert!(kept.found().is_none());
        // A header that cannot be watched: nothing is kept.
        write("made.d", "made.o: /nowhere/with\\ space.h\n");
        kept.keep(&at("made.o"), &at("made.d")).unwrap_err();
    }
}
