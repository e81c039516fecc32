//! Files of the runtime in C, which are the same for every program: compiled once in a process, then written again.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use super::HostError;
use super::library::{fresh_dir, refused, write_files};

/// An object with all that it was made of: the file's name, flags, and the runtime's files.
struct Built {
    name: String,
    flags: Vec<String>,
    files: Vec<(String, String)>,
    object: Arc<[u8]>,
}

impl Built {
    fn is(&self, name: &str, flags: &[String], files: &[(&str, &str)]) -> bool {
        let mine = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        self.name == name && self.flags == flags && mine.eq(files.iter().copied())
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
    static KEPT: Mutex<Vec<Built>> = Mutex::new(Vec::new());
    // Held while clang runs: whoever wants the same waits for it instead of compiling it again.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept.iter().find(|built| built.is(name, flags, files)).map(|built| built.object.clone());
    let object = match found {
        Some(object) => object,
        None => {
            let object: Arc<[u8]> = compile(name, flags, files)?.into();
            kept.push(Built {
                name: name.to_string(),
                flags: flags.to_vec(),
                files: files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect(),
                object: object.clone(),
            });
            object
        }
    };
    drop(kept);
    let path = dir.join(object_of(name));
    std::fs::write(&path, object).map_err(|source| HostError::Io { path, source })
}

/// The object's name.
pub fn object_of(name: &str) -> String {
    Path::new(name).with_extension("o").display().to_string()
}

fn compile(name: &str, flags: &[String], files: &[(&str, &str)]) -> Result<Vec<u8>, HostError> {
    let dir = fresh_dir()?;
    write_files(dir.path(), files)?;
    let mut clang = Command::new(nicforge_clang::name());
    clang.current_dir(dir.path()).args(flags).args(["-c", name, "-o", &object_of(name)]);
    let ran = clang.output().map_err(HostError::no_compiler)?;
    if !ran.status.success() {
        return Err(refused(dir, nicforge_clang::name(), &ran.stderr));
    }
    let path = dir.path().join(object_of(name));
    std::fs::read(&path).map_err(|source| HostError::Io { path, source })
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
        let error = write_object(dir.path(), "bad.c", &[], &[("bad.c", "int bad(void) { return x; }\n")]);
        let HostError::Refused { first, path, .. } = error.unwrap_err() else { panic!("no refusal") };
        assert!(first.contains("undeclared identifier 'x'"), "{first}");
        std::fs::remove_dir_all(path).unwrap();
    }
}
