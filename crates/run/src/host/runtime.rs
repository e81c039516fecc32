//! Files of the runtime in C, which are the same for every program: compiled once,
//! kept in the user's cache, then written again.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::HostError;
use super::files::{fresh_dir, refused, write_files};
use crate::cache::Compiled;
use crate::temp::Folder;

/// Where a compiler writes what an object is made of.
const RULES: &str = "made.d";

/// An object with all that it was made of: compiler, the file's name, flags, and the runtime's
/// files.
struct Built {
    compiler: String,
    name: String,
    flags: Vec<String>,
    files: Vec<(String, String)>,
    object: Arc<[u8]>,
}

impl Built {
    fn is(&self, compiler: &str, name: &str, flags: &[String], files: &[(&str, &str)]) -> bool {
        let mine = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        (self.compiler.as_str(), self.name.as_str()) == (compiler, name)
            && self.flags == flags
            && mine.eq(files.iter().copied())
    }
}

/// Writes the object of a runtime's file into a directory, as `name` with `.o` instead of `.c`.
///
/// # Errors
/// What clang says, or that a file cannot be written.
pub fn write_object(
    dir: &Path,
    name: &str,
    flags: &[String],
    files: &[(&str, &str)],
) -> Result<(), HostError> {
    let clang = nicforge_clang::name();
    let object = match object(clang, name, flags, files) {
        Ok(object) => object,
        Err(NoObject::Start(source)) => return Err(HostError::no_compiler(source)),
        Err(NoObject::Host(error)) => return Err(error),
        Err(NoObject::Refused(dir, messages)) => return Err(refused(dir, clang, &messages)),
    };
    let path = dir.join(object_of(name));
    std::fs::write(&path, object).map_err(|source| HostError::Io { path, source })
}

/// Why there is no object.
pub enum NoObject {
    /// The compiler cannot be started.
    Start(std::io::Error),
    /// It refuses the file in that folder, and what it said.
    Refused(Folder, Vec<u8>),
    Host(HostError),
}

/// The object of a runtime's file, by a compiler that takes GCC's options.
///
/// # Errors
/// See [`NoObject`].
pub fn object(
    compiler: &str,
    name: &str,
    flags: &[String],
    files: &[(&str, &str)],
) -> Result<Arc<[u8]>, NoObject> {
    static KEPT: Mutex<Vec<Built>> = Mutex::new(Vec::new());
    // Held while clang runs: whoever wants the same waits for it instead of compiling it again.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(built) = kept.iter().find(|built| built.is(compiler, name, flags, files)) {
        return Ok(built.object.clone());
    }
    let object: Arc<[u8]> = compile(compiler, name, flags, files)?.into();
    kept.push(Built {
        compiler: compiler.to_string(),
        name: name.to_string(),
        flags: flags.to_vec(),
        files: files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect(),
        object: object.clone(),
    });
    Ok(object)
}

/// The object's name.
pub fn object_of(name: &str) -> String {
    Path::new(name).with_extension("o").display().to_string()
}

fn compile(
    compiler: &str,
    name: &str,
    flags: &[String],
    files: &[(&str, &str)],
) -> Result<Vec<u8>, NoObject> {
    let kept = Compiled::new("objects", compiler, &(name, flags, files));
    if let Some(object) = kept.as_ref().and_then(|kept| std::fs::read(kept.found()?).ok()) {
        return Ok(object);
    }
    let dir = fresh_dir().map_err(NoObject::Host)?;
    write_files(dir.path(), files).map_err(NoObject::Host)?;
    let mut command = Command::new(compiler);
    command.current_dir(dir.path()).env("LC_ALL", "C").stdin(Stdio::null());
    command.args(flags).args(["-c", name, "-o", &object_of(name)]);
    command.args(["-MD", "-MF", RULES]);
    let ran = command.output().map_err(NoObject::Start)?;
    if !ran.status.success() {
        return Err(NoObject::Refused(dir, ran.stderr));
    }
    let path = dir.path().join(object_of(name));
    if let Some(kept) = kept {
        // Without it, it is compiled again the next time.
        let _ = kept.keep(&path, &dir.path().join(RULES));
    }
    std::fs::read(&path).map_err(|source| NoObject::Host(HostError::Io { path, source }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_compiled_anew() {
        let dir = tempfile::tempdir().unwrap();
        let object = |flag: &str, text: &str| {
            write_object(dir.path(), "part.c", &[flag.to_string()], &[("part.c", text)]).unwrap();
            std::fs::read(dir.path().join("part.o")).unwrap()
        };
        let first = object("-DN=1", "int part(void) { return N; }\n");
        assert_eq!(first, object("-DN=1", "int part(void) { return N; }\n"));
        assert_ne!(first, object("-DN=2", "int part(void) { return N; }\n"));
        assert_ne!(first, object("-DN=1", "int part(void) { return N + 5; }\n"));
    }

    #[test]
    fn what_clang_refuses_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let error =
            write_object(dir.path(), "bad.c", &[], &[("bad.c", "int bad(void) { return x; }\n")]);
        let HostError::Refused { first, path, .. } = error.unwrap_err() else {
            panic!("no refusal")
        };
        assert!(first.contains("undeclared identifier 'x'"), "{first}");
        std::fs::remove_dir_all(path).unwrap();
    }
}
