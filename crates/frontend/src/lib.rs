//! The C front end: a packet program in the C subset to αIR.
//!
//! clang parses and type-checks; this crate reads its syntax tree and lowers it. Everything outside
//! the subset is refused with the place, the reason and what to write instead, several errors at a
//! time.
//!
//! Entry points: [`compile`] and [`compile_source`]; [`render`] shows a diagnostic.

mod alignment;
mod alkali;
mod assigned;
mod ast;
mod atomics;
mod bits_calls;
mod bounds;
mod callees;
mod calls;
mod clang;
mod conditions;
mod consts;
mod crypto_calls;
mod ctypes;
mod decl;
pub mod diagnostics;
mod effects;
mod entries;
mod expr;
mod externs;
mod fires;
mod func;
mod functions;
mod halving;
mod init;
mod intervals;
mod labels;
mod likely;
mod linear;
mod memory;
mod nesting;
pub mod opaque;
mod order;
mod overflow_calls;
mod overlay;
mod parts;
mod place;
mod pointed;
mod pointers;
mod promises;
mod queues;
mod ranges;
mod records;
mod signatures;
mod statics;
mod steps;
mod stmt;
mod storage;
mod strings;
mod switch;
mod table_calls;
mod there;
mod timers;
mod trips;
mod unit;
mod user_calls;
mod written;

use std::path::{Path, PathBuf};

use cranelift_entity::PrimaryMap;
use nicforge_ir::{Diagnostic, FileId, Program, Severity, SourceFile, diag};

pub use diagnostics::render::{render, render_all};
pub use promises::Fires;

/// Options of compiling.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that holds `nicforge.h`.
    pub include_dir: PathBuf,
    /// Further arguments for clang, such as `-DLIMIT=4` or `-Iinclude`.
    pub clang_args: Vec<String>,
    /// The clang to run; version 19.
    pub clang: PathBuf,
}

impl Options {
    /// Options with the clang of this machine and no further arguments.
    pub fn new(include_dir: impl Into<PathBuf>) -> Options {
        Options {
            include_dir: include_dir.into(),
            clang_args: Vec::new(),
            clang: nicforge_clang::name().into(),
        }
    }
}

/// The files of a compilation.
pub type SourceFiles = PrimaryMap<FileId, SourceFile>;

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Output {
    pub program: Program,
    /// Sorted by place.
    pub warnings: Vec<Diagnostic>,
    /// What functions with `NF_FIRES` call.
    pub fires: Vec<Fires>,
}

/// Why there is no program: errors and warnings sorted by place, and the files they quote.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    pub diagnostics: Vec<Diagnostic>,
    pub files: SourceFiles,
}

impl Diagnostics {
    /// All of them as text.
    pub fn render(&self, color: bool) -> String {
        render_all(&self.diagnostics, &self.files, color)
    }
}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// Stack for decoding and lowering: expressions may nest deeply, and both recurse.
const STACK_BYTES: usize = 256 << 20;

/// Compiles a source file. The program is named after the file.
///
/// # Errors
/// Everything wrong with the program, in one go; or that the file or clang is missing.
pub fn compile(path: &Path, options: &Options) -> Result<Output, Diagnostics> {
    let shown = path.to_string_lossy().into_owned();
    match std::fs::read(path) {
        Ok(bytes) => {
            let main = SourceFile { path: shown.clone(), text: to_text(bytes) };
            run(&clang::Input::Path(&shown), main, options)
        }
        Err(e) => {
            let message = format!("cannot read `{shown}`: {e}");
            let code = diagnostics::codes::CLANG.id;
            let diagnostic = Diagnostic::error(code, nicforge_ir::Span::default(), message);
            Err(Diagnostics { diagnostics: vec![diagnostic], files: PrimaryMap::new() })
        }
    }
}

/// Files that clang reads in one process, ahead of [`compile`] with the same options: to start it
/// costs more than to read a small file. Where one is refused nothing is kept, and each is read
/// alone.
///
/// # Errors
/// A file cannot be read, or clang not be started.
pub fn ahead(paths: &[PathBuf], options: &Options) -> std::io::Result<()> {
    clang::ahead(paths, options)
}

/// Compiles text; `name` is what diagnostics call it.
///
/// # Errors
/// As [`compile`].
pub fn compile_source(name: &str, text: &str, options: &Options) -> Result<Output, Diagnostics> {
    let main = SourceFile { path: name.to_string(), text: text.to_string() };
    run(&clang::Input::Text(text), main, options)
}

fn run(input: &clang::Input, main: SourceFile, options: &Options) -> Result<Output, Diagnostics> {
    with_stack(|| run_here(input, main, options))
}

/// Does something in a thread with room for deep trees.
fn with_stack<T: Send>(
    work: impl FnOnce() -> Result<T, Diagnostics> + Send,
) -> Result<T, Diagnostics> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("frontend".into()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, work) {
            Ok(handle) => handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(e) => {
                let message = format!("cannot start a thread: {e}");
                let code = diagnostics::codes::INTERNAL.id;
                let diagnostic = Diagnostic::error(code, nicforge_ir::Span::default(), message);
                Err(Diagnostics { diagnostics: vec![diagnostic], files: PrimaryMap::new() })
            }
        }
    })
}

fn run_here(
    input: &clang::Input,
    main: SourceFile,
    options: &Options,
) -> Result<Output, Diagnostics> {
    let clang_name = match input {
        clang::Input::Path(path) => path.to_string(),
        clang::Input::Text(_) => "<stdin>".to_string(),
    };
    let include_dir = format!("{}/", options.include_dir.display());
    let read = |path: &str| {
        if path == clang_name {
            return main.clone();
        }
        let shown = path.strip_prefix(&include_dir).unwrap_or(path).to_string();
        // An unreadable file has no lines to show; the message itself is complete without.
        let text = std::fs::read(path).map(to_text).unwrap_or_default();
        SourceFile { path: shown, text }
    };
    let is_user = |path: &str| !path.starts_with(&include_dir) && !path.contains("/lib/clang/");
    let mut files = ast::Files::new(&read, &is_user);
    // Ids follow the order of opening: the user's file is the first.
    files.open(&clang_name);
    let mut root = match clang::parse(input, options, &mut files) {
        Ok(root) => root,
        Err(mut diagnostics) => {
            diag::sort(&mut diagnostics);
            return Err(Diagnostics { diagnostics, files: files.map });
        }
    };
    storage::unite(&mut root);
    pointers::resolve(&mut root);
    let name =
        Path::new(&main.path).file_stem().map_or("program".into(), |stem| stem.to_string_lossy());
    let mut program = Program::new(&name);
    let user_files = files.user_files();
    program.files = files.map;
    let mut unit = unit::Unit::new(program, user_files, &root);
    unit.lower(&root);
    let (program, mut diagnostics, fires) = (unit.prog, unit.diagnostics, unit.fires);
    diag::sort(&mut diagnostics);
    if diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return Err(Diagnostics { diagnostics, files: program.files });
    }
    Ok(Output { program, warnings: diagnostics, fires })
}

/// Text of a source file; bytes that are no UTF-8 become `?` one by one, so that offsets stay
/// right.
fn to_text(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            e.into_bytes().into_iter().map(|b| if b.is_ascii() { b as char } else { '?' }).collect()
        }
    }
}
