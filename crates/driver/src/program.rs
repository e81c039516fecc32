//! From a path on the command line to a checked program.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use nicforge_codegen::{LineStyle, Unsupported, XdpArtifact, xdp};
use nicforge_frontend as frontend;
use nicforge_ir::verify::{Verified, verify};
use nicforge_ir::{Diagnostic, Program, Span, text};
use nicforge_passes::fuse::fuse;
use nicforge_passes::registry::REQUIRED;
use nicforge_passes::{PassError, PassManager};
use nicforge_planner::start::start;
use nicforge_run::compile::Mode;
use nicforge_run::native;
use nicforge_run::temp;
use nicforge_run::xdp::XdpError;
use nicforge_run::xdp::compile_bpf;
use nicforge_target::Target;
use nicforge_target::support;

use crate::color::color;
use crate::options::{Loader, Source};
use crate::{Failure, Runtime, codes, tried};

/// A program as its author wrote it, checked.
pub struct Loaded {
    pub path: PathBuf,
    pub program: Verified<Program>,
    /// The program with branch frequencies of a capture, for the planner.
    pub profiled: Option<Verified<Program>>,
    /// Rendered warnings of the front end.
    pub warnings: String,
}

/// The source file a path names: itself, or `NAME/NAME.c` for a folder.
pub fn locate(path: &Path) -> Result<PathBuf, Failure> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let full =
        path.canonicalize().map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
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

/// Parses, checks and verifies a program, and loads what its calls of C need.
pub fn load(source: &Source, runtime: &Runtime) -> Result<Loaded, Failure> {
    let loaded = parse(source, runtime)?;
    functions(&[&loaded.program], source, runtime)?;
    Ok(loaded)
}

/// Parses, checks and verifies a program.
pub fn parse(source: &Source, runtime: &Runtime) -> Result<Loaded, Failure> {
    if let Some((path, function)) = object_of(source) {
        return lift(&path, function, &source.loader);
    }
    let path = locate(&source.program)?;
    if path.extension().is_some_and(|e| e == "air") {
        let content = std::fs::read_to_string(&path)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        let program = text::parse(&content).map_err(|e| {
            Failure::user(format!("{}:{}:{}: {}", path.display(), e.line, e.col, e.message))
        })?;
        let program = check(program)?;
        return Ok(Loaded { program, profiled: None, path, warnings: String::new() });
    }
    match frontend::compile(&path, &options(source, runtime)) {
        Ok(output) => {
            let untested = nicforge_clang::untested().map(|why| format!("warning: {why}\n"));
            let found = frontend::render_all(&output.warnings, &output.program.files, color());
            let warnings = untested.unwrap_or_default() + &found;
            let program = check(output.program)?;
            Ok(Loaded { program, profiled: None, path, warnings })
        }
        Err(diagnostics) => Err(Failure::rendered(diagnostics.render(color()))),
    }
}

/// The object file that a source names, and the program in it: ELF files are objects.
pub fn object_of(source: &Source) -> Option<(PathBuf, Option<String>)> {
    let is_object = |path: &Path| {
        let mut start = [0; 4];
        let read = std::fs::File::open(path)
            .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
        read.is_ok() && nicforge_lift::is_elf(&start)
    };
    if is_object(&source.program) {
        return Some((source.program.clone(), source.function.clone()));
    }
    let (path, section) = source.program.to_str()?.rsplit_once(':')?;
    let path = PathBuf::from(path);
    is_object(&path).then(|| (path, Some(section.to_string())))
}

/// How an XDP object is to be read.
pub fn lift_options(
    path: &Path,
    function: Option<String>,
    loader: &Loader,
) -> nicforge_lift::Options {
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    nicforge_lift::Options {
        name: name.unwrap_or_default(),
        program: function,
        entries: loader.entries.clone(),
        tail_calls: loader.tail_calls.clone(),
        globals: loader.globals.clone(),
    }
}

/// An XDP object as a program.
fn lift(path: &Path, function: Option<String>, loader: &Loader) -> Result<Loaded, Failure> {
    let fail = |message: String| Failure::user(format!("{}: {message}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
    let options = lift_options(path, function, loader);
    let lifted = nicforge_lift::lift(&bytes, &options).map_err(|e| fail(e.to_string()))?;
    let program = check(lifted.program)?;
    Ok(Loaded { program, profiled: None, path: path.to_path_buf(), warnings: String::new() })
}

/// Loads what calls of C in programs need. Without --with nothing is: whoever runs them finds out.
pub fn functions(programs: &[&Program], source: &Source, runtime: &Runtime) -> Result<(), Failure> {
    if !source.with.is_empty() {
        native::before_a_crash_ends_it(nicforge_run::temp::remove_all);
        native::load(programs, &source.with, &runtime.user_headers())
            .map_err(|e| Failure::of(e.fault(), e))?;
    }
    Ok(())
}

/// How the front end is to read a source.
pub fn options(source: &Source, runtime: &Runtime) -> frontend::Options {
    let mut options = frontend::Options::new(runtime.user_headers());
    options.clang_args.extend(source.define.iter().map(|d| format!("-D{d}")));
    options.clang_args.extend(source.include.iter().map(|dir| format!("-I{}", dir.display())));
    options
}

/// Verifies a program; what the verifier finds after the front end accepted it is our mistake and
/// says so.
pub fn check(program: Program) -> Result<Verified<Program>, Failure> {
    let copy = program.clone();
    verify(program).map_err(|errors| {
        let list: Vec<String> =
            errors.iter().map(|e| format!("  {}: {e}", copy.place(e.span))).collect();
        Failure::user(format!("the program breaks αIR's rules:\n{}", list.join("\n")))
    })
}

/// A whole program as generators of one stage want it: handlers of queues run where something is
/// enqueued, if nobody can tell; calls inlined, simplified.
pub fn lower(program: &Verified<Program>) -> Result<Verified<Program>, Failure> {
    lower_planned(&fuse(program.clone()).map_err(pass_failure)?)
}

/// Refuses a program of which a target lacks something.
pub fn taken(program: &Program, target: &Target) -> Result<(), Failure> {
    match support::missing(program, target).first() {
        Some(first) => Err(Failure::user(format!(
            "{}: {} lacks {}; `nicforge check PROG --target all` says where the program runs",
            program.place(first.span),
            target.name,
            first.what
        ))),
        None => Ok(()),
    }
}

/// A program as plans for a target begin with it ([`start`]).
pub fn to_plan<'p>(
    program: &'p Verified<Program>,
    target: &Target,
) -> Result<Cow<'p, Verified<Program>>, Failure> {
    start(program, target).map_err(pass_failure)
}

/// A planned program as code generators want it: every handler stays where the plan has it.
pub fn lower_planned(program: &Verified<Program>) -> Result<Verified<Program>, Failure> {
    PassManager::new().run_default(program.clone()).map_err(pass_failure)
}

/// A program after passes that somebody chose, with those that code generators cannot do without.
pub fn required(program: Verified<Program>) -> Result<Verified<Program>, Failure> {
    PassManager::new().run(program, &REQUIRED).map_err(pass_failure)
}

/// A program as the kernel takes it.
pub struct Built {
    /// As the artifact was generated from it.
    pub program: Verified<Program>,
    pub artifact: XdpArtifact,
    pub object: Vec<u8>,
}

/// Lowers, generates and compiles for live interfaces.
pub fn build_live(loaded: &Loaded, runtime: &Runtime) -> Result<Built, Failure> {
    let program = lower(&loaded.program)?;
    let artifact =
        xdp::generate(&program, LineStyle::Directives).map_err(|e| unsupported(&program, &e))?;
    compile_live(program, artifact, runtime)
}

/// Compiles an artifact for live interfaces.
pub fn compile_live(
    program: Verified<Program>,
    artifact: XdpArtifact,
    runtime: &Runtime,
) -> Result<Built, Failure> {
    let object =
        compile_bpf(&program.name, &artifact.source, Mode::Live, &runtime.target_headers("xdp"))
            .map_err(|e| Failure::of(e.fault(), e))?;
    Ok(Built { program, artifact, object })
}

/// A pass that broke a program is our bug: it names itself and leaves what reproduces it.
pub fn pass_failure(error: PassError) -> Failure {
    let PassError::Broken { pass, program, .. } = &error else {
        return Failure::usage(error.to_string());
    };
    let reproducer = text::print(program, text::PrintOptions { spans: false });
    let saved = match temp::keep_file("reproducer", &format!("{pass}.air"), &reproducer) {
        Ok(path) => {
            format!("\n  reproducer: nicforge build -p {pass} --emit passes {}", path.display())
        }
        Err(_) => String::new(),
    };
    Failure::user(format!("{error}{saved}"))
}

/// Diagnostics on source lines of what a target cannot do.
pub fn unsupported(program: &Program, errors: &[Unsupported]) -> Failure {
    let list: Vec<Diagnostic> = errors
        .iter()
        .map(|e| {
            Diagnostic::error(codes::UNSUPPORTED.id, e.span, e.message.clone())
                .label("not on this target")
                .help(e.help.clone())
        })
        .collect();
    Failure::rendered(frontend::render_all(&list, &program.files, color()))
}

/// A kernel error; a refusal by the verifier becomes a diagnostic on the user's line.
pub fn kernel_failure(program: &Program, error: XdpError) -> Failure {
    if let XdpError::Refused { source_line: Some((file, line)), reason, log_path, .. } = &error
        && let Some(span) = line_span(program, file, *line)
    {
        let diagnostic = Diagnostic::error(
            codes::VERIFIER.id,
            span,
            "the kernel's verifier refuses the program here",
        )
        .label(reason.clone())
        .help(tried::remedy(reason).to_string())
        .note(format!("the kernel's complete log is in {}", log_path.display()));
        return Failure::rendered(frontend::render_all(&[diagnostic], &program.files, color()));
    }
    Failure::of(error.fault(), error)
}

/// The code on a line of one of the program's files.
fn line_span(program: &Program, file: &str, line: u32) -> Option<Span> {
    let (id, source) = program.files.iter().find(|(_, s)| s.path.ends_with(file))?;
    let mut start = 0usize;
    for (number, text) in source.text.split_inclusive('\n').enumerate() {
        if number as u32 + 1 == line {
            let indent = text.len() - text.trim_start().len();
            return Some(Span::new(
                id,
                (start + indent) as u32,
                (start + text.trim_end().len()) as u32,
            ));
        }
        start += text.len();
    }
    None
}
