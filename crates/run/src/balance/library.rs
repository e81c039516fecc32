//! Functions in C: compiled, loaded, checked, and called one after the other.
//!
//! The contract is `examples/balance/functions/nf_function.h`. A line `libraries: NAME...` in a
//! source says what it links.

use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::{Library, Symbol};

use super::functions::digest;
use crate::fault::Fault;

/// Bytes a function may write.
const ROOM: usize = 8192;

type Run = unsafe extern "C" fn(*const u8, u32, *mut u8, u32) -> u32;
type Check = unsafe extern "C" fn() -> i32;

/// Why there is no function.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error("`{clang}` cannot be started ({source}); install it with `apt-get install {clang}`", clang = nicforge_clang::name())]
    NoClang { source: std::io::Error },
    #[error("{path}: {source}", path = path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {messages}", path = path.display())]
    Source { path: PathBuf, messages: String },
    #[error("{path}: a library is missing ({what}); install its development package", path = path.display())]
    Missing { path: PathBuf, what: String },
    #[error("{path}: cannot be loaded: {source}", path = path.display())]
    Load { path: PathBuf, source: libloading::Error },
    #[error("{path}: known answers do not come out (`nf_function_check` gives 0)", path = path.display())]
    Wrong { path: PathBuf },
}

impl LibraryError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            LibraryError::NoClang { .. } | LibraryError::Missing { .. } => Fault::Environment,
            _ => Fault::User,
        }
    }
}

/// Compiles a function to a shared object in `folder`.
pub fn compile(source: &Path, folder: &Path) -> Result<PathBuf, LibraryError> {
    let path = source.to_path_buf();
    let text = std::fs::read_to_string(source)
        .map_err(|error| LibraryError::Io { path: path.clone(), source: error })?;
    let libraries =
        text.lines().find_map(|line| line.split("libraries:").nth(1)).unwrap_or_default();
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let object = folder.join(format!("{name}.so"));
    let mut clang = Command::new(nicforge_clang::name());
    clang.args([
        "-std=gnu11",
        "-O2",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Wextra",
        "-fno-color-diagnostics",
    ]);
    clang.arg(source).arg("-o").arg(&object);
    // What a comment says goes to the linker by name only.
    let allowed =
        |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "+-_.".contains(c));
    clang.args(
        libraries
            .split_whitespace()
            .filter(allowed)
            .filter(|name| *name != "*/")
            .map(|name| format!("-l{name}")),
    );
    let ran = clang.output().map_err(|source| LibraryError::NoClang { source })?;
    if ran.status.success() {
        return Ok(object);
    }
    let messages = String::from_utf8_lossy(&ran.stderr).trim().to_string();
    let missing = messages
        .lines()
        .find(|line| line.contains("file not found") || line.contains("cannot find -l"));
    Err(match missing {
        Some(what) => LibraryError::Missing { path, what: what.trim().to_string() },
        None => LibraryError::Source { path, messages },
    })
}

/// Loaded functions, each fed with what the one before wrote.
pub struct Pipeline {
    libraries: Vec<(PathBuf, Library)>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Pipeline {
    /// Loads shared objects that [`compile`] made, and checks their known answers.
    pub fn load(objects: &[PathBuf]) -> Result<Pipeline, LibraryError> {
        let mut libraries = Vec::new();
        for path in objects {
            let fail = |source| LibraryError::Load { path: path.clone(), source };
            // SAFETY: objects of sources that the user asked to run.
            let library = unsafe { Library::new(path) }.map_err(fail)?;
            // SAFETY: the contract's types.
            let right = unsafe {
                library.get::<Run>(b"nf_function_run").map_err(fail)?;
                let check: Symbol<Check> = library.get(b"nf_function_check").map_err(fail)?;
                check()
            };
            if right == 0 {
                return Err(LibraryError::Wrong { path: path.clone() });
            }
            libraries.push((path.clone(), library));
        }
        Ok(Pipeline { libraries, input: Vec::new(), output: vec![0; ROOM] })
    }

    /// Runs all of them on a payload; the result is the digest of what the last one wrote, or 0 if
    /// one failed.
    pub fn run(&mut self, payload: &[u8]) -> u64 {
        self.input.clear();
        self.input.extend_from_slice(payload);
        for (_, library) in &self.libraries {
            // SAFETY: the symbol was found when the library was loaded; buffers and their lengths
            // are ours.
            let written = unsafe {
                let Ok(run) = library.get::<Run>(b"nf_function_run") else { return 0 };
                run(
                    self.input.as_ptr(),
                    self.input.len() as u32,
                    self.output.as_mut_ptr(),
                    ROOM as u32,
                )
            } as usize;
            if written == 0 || written > ROOM {
                return 0;
            }
            // Whoever comes next takes at most a packet.
            self.input.clear();
            self.input.extend_from_slice(&self.output[..written.min(4096)]);
        }
        digest(&self.input)
    }
}
