//! From a path on the command line to a checked program.

use std::path::{Path, PathBuf};

use nicforge_frontend as frontend;
use nicforge_ir::verify::{Verified, verify};
use nicforge_ir::{Program, text};

use crate::args::Source;
use crate::context::{Failure, Runtime, color};

/// A program as its author wrote it, checked.
pub struct Loaded {
    pub path: PathBuf,
    pub program: Verified<Program>,
    /// Rendered warnings of the front end.
    pub warnings: String,
}

/// The source file a path names: itself, or `NAME/NAME.c` for a folder.
pub fn locate(path: &Path) -> Result<PathBuf, Failure> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let full = path.canonicalize().map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    let name = full.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let inside = path.join(format!("{name}.c"));
    if inside.is_file() {
        return Ok(inside);
    }
    Err(Failure::user(format!(
        "{} is a folder without {name}.c in it; name the source file itself",
        path.display()
    )))
}

/// Parses, checks and verifies a program.
pub fn load(source: &Source, runtime: &Runtime) -> Result<Loaded, Failure> {
    let path = locate(&source.program)?;
    if path.extension().is_some_and(|e| e == "air") {
        let content = std::fs::read_to_string(&path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        let program = text::parse(&content)
            .map_err(|e| Failure::user(format!("{}:{}:{}: {}", path.display(), e.line, e.col, e.message)))?;
        return Ok(Loaded { program: check(program)?, path, warnings: String::new() });
    }
    let mut options = frontend::Options::new(runtime.user_headers());
    options.clang_args.extend(source.define.iter().map(|d| format!("-D{d}")));
    options.clang_args.extend(source.include.iter().map(|dir| format!("-I{}", dir.display())));
    match frontend::compile(&path, &options) {
        Ok(output) => {
            let warnings = frontend::render_all(&output.warnings, &output.program.files, color());
            Ok(Loaded { program: check(output.program)?, path, warnings })
        }
        Err(diagnostics) => Err(Failure::rendered(diagnostics.render(color()))),
    }
}

/// Verifies a program; what the verifier finds after the front end accepted it is our mistake and says so.
pub fn check(program: Program) -> Result<Verified<Program>, Failure> {
    let copy = program.clone();
    verify(program).map_err(|errors| {
        let list: Vec<String> =
            errors.iter().map(|e| format!("  {}: {e}", copy.place(e.span))).collect();
        Failure::user(format!("the program breaks αIR's rules:\n{}", list.join("\n")))
    })
}
