//! Generated C becomes a BPF object, by the clang that is installed.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nicforge_codegen::XdpSource;

use crate::fault::Fault;
use crate::temp::{self, Folder};
use crate::units::{self, Around, Unit};

/// What the generated program's time, randomness and verdicts are connected to (`NF_MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Time and randomness are the kernel's.
    Live,
    /// As live, and every event's time and seed are kept for a replay.
    Record,
    /// Time, seed and port are given per event; the verdict is written down instead of acted on.
    Replay,
}

impl Mode {
    fn define(self) -> &'static str {
        match self {
            Mode::Live => "-DNF_MODE=0",
            Mode::Record => "-DNF_MODE=1",
            Mode::Replay => "-DNF_MODE=2",
        }
    }
}

/// What generated C includes of the system's.
const HEADERS: &str =
    "#include <linux/bpf.h>\n#include <stdbool.h>\n#include <bpf/bpf_helpers.h>\n";

/// Effort of compilers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// For code that runs fast.
    #[default]
    Full,
    /// To be done soon, where only what the code does is asked for.
    Little,
}

/// Why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("`{clang}` cannot be started ({source}); install it with `apt-get install {clang}`", clang = nicforge_clang::name())]
    NoClang { source: std::io::Error },
    #[error(
        "a header that `{clang}` needs is missing: {missing}; install it with `apt-get install libbpf-dev linux-libc-dev`", clang = nicforge_clang::name()
    )]
    NoHeader { missing: String },
    #[error(
        "internal error in code generation: {clang} refuses the generated code: {first}\n  generated code: {path}\n  \
         all messages:   {messages}", clang = nicforge_clang::name(),
        path = source_path.display(),
        messages = messages_path.display()
    )]
    Internal { first: String, source_path: PathBuf, messages_path: PathBuf },
    #[error(
        "{place}: the program keeps more in variables at once than the 512 bytes of stack that BPF has; make structs smaller, \
         or look entries up and use them in smaller steps"
    )]
    Stack { place: String },
    #[error("{messages}")]
    Source { messages: String },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

impl CompileError {
    /// Generated code must compile, so what fails here is the installation (or us).
    pub fn fault(&self) -> Fault {
        match self {
            CompileError::Internal { .. }
            | CompileError::Stack { .. }
            | CompileError::Source { .. } => Fault::User,
            _ => Fault::Environment,
        }
    }
}

/// Flags about warnings for generated code. What a compiler finds odd about it is ours to see, in
/// our tests, where `NICFORGE_STRICT` is set; users' programs are compiled whatever a compiler
/// warns of.
pub fn warnings() -> &'static [&'static str] {
    if std::env::var_os("NICFORGE_STRICT").is_some() {
        // GCC takes an entry that is surely there for one that may lie at address 0.
        &["-Wall", "-Wextra", "-Werror", "-Wno-array-bounds"]
    } else {
        &["-w"]
    }
}

/// Flags with which GCC compiles generated code as C has it. Of `x = (uint16_t)((uint8_t)x + 1799)`
/// in a loop GCC 12 thinks that it grows by 1799, or by 7, at each turn: its scalar evolution
/// forgets what is cut off, and passes that believe it make other numbers of it, from -O1 on and
/// on all machines. It believes nothing of expressions above a size, here 0.
pub const GCC_FLAGS: [&str; 1] = ["--param=scev-max-expr-size=0"];

/// Flags about warnings for code that is compiled with some effort: looking for what is odd takes
/// time.
pub fn warnings_with(effort: Effort) -> &'static [&'static str] {
    match effort {
        Effort::Full => warnings(),
        Effort::Little => &["-w"],
    }
}

/// Compiles one form.
///
/// `name` becomes the file name (without `.c`), `includes` are searched for headers in their order.
/// The object is returned as bytes. The compiler reads and writes pipes, so no file stays behind
/// even if this process is killed; only when it refuses the source are source and messages kept.
pub(crate) fn compile_form(
    name: &str,
    source: &str,
    mode: Mode,
    includes: &[PathBuf],
) -> Result<Vec<u8>, CompileError> {
    let unit = bpf_unit(name, source, mode, includes);
    if let Some(object) = units::taken(&unit) {
        return Ok(object);
    }
    let mut clang = Command::new(nicforge_clang::name());
    clang.args(&unit.flags).args(["-x", "c", "-c", "-", "-o", "-"]);
    let text = unit.files.into_iter().map(|(_, text)| text).collect::<String>();
    clang.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let no_clang = |source| CompileError::NoClang { source };
    let mut child = clang.spawn().map_err(no_clang)?;
    let stdin = child.stdin.take();
    // Written from a thread of its own: clang may fill its output pipe before it has read all its
    // input. That it reads no more is no error of ours; its messages say why.
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| stdin.map(|mut pipe| pipe.write_all(text.as_bytes())));
        child.wait_with_output()
    });
    let ran = ran.map_err(no_clang)?;
    if ran.status.success() {
        return Ok(ran.stdout);
    }

    let messages = String::from_utf8_lossy(&ran.stderr).into_owned();
    let first = messages
        .lines()
        .find(|line| line.contains("error:"))
        .unwrap_or("(it gave no reason)")
        .to_string();
    if first.contains("file not found") {
        return Err(CompileError::NoHeader { missing: first });
    }
    if let Some((place, _)) =
        first.split_once(": error: Looks like the BPF stack limit is exceeded")
    {
        return Err(CompileError::Stack { place: place.to_string() });
    }
    // What it cannot do in place for want of functions to call: values too large for the stack.
    if let Some((place, rest)) = first.split_once(": error: A call to built-in function 'mem")
        && rest.contains("is not supported")
    {
        return Err(CompileError::Stack { place: place.to_string() });
    }
    let (source_path, messages_path) = keep(name, source, &messages)?;
    Err(CompileError::Internal { first, source_path, messages_path })
}

/// A form with how it is compiled.
fn bpf_unit(name: &str, source: &str, mode: Mode, includes: &[PathBuf]) -> Unit {
    let mut flags = vec!["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-std=gnu11"];
    flags.extend(warnings());
    flags.extend(["-fno-color-diagnostics", mode.define()]);
    let mut flags: Vec<String> = flags.into_iter().map(String::from).collect();
    for include in includes {
        flags.extend(["-I".to_string(), include.display().to_string()]);
    }
    // <linux/types.h> includes <asm/types.h>, which Debian keeps in a directory per architecture.
    let asm = PathBuf::from(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    if asm.is_dir() {
        flags.extend(["-idirafter".to_string(), asm.display().to_string()]);
    }
    let main = format!("{name}.c");
    let text = format!("#line 1 \"{main}\"\n{source}");
    Unit { flags, main: main.clone(), files: vec![(main, text)] }
}

/// Compiles the first forms of several programs ahead of
/// [`compile_bpf`](crate::xdp::compile_bpf), with the same arguments.
///
/// # Errors
/// See [`units::ahead`].
pub fn compile_bpf_ahead(
    name: &str,
    sources: &[&XdpSource],
    mode: Mode,
    includes: &[PathBuf],
) -> std::io::Result<()> {
    let units = sources.iter().map(|source| bpf_unit(name, source, mode, includes));
    units::ahead(units.collect(), Around { files: &[], headers: HEADERS })
}

/// Compiles plain XDP C as its author wrote it: includes are looked for beside it, `defines` are
/// `NAME=VALUE`.
///
/// # Errors
/// [`CompileError::Source`] has clang's messages.
pub fn compile_xdp(path: &Path, defines: &[String]) -> Result<Vec<u8>, CompileError> {
    let mut clang = Command::new(nicforge_clang::name());
    clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-fno-color-diagnostics"]);
    clang.args(defines.iter().map(|define| format!("-D{define}")));
    let asm = PathBuf::from(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    if asm.is_dir() {
        clang.arg("-idirafter").arg(asm);
    }
    clang.arg("-c").arg(path).args(["-o", "-"]);
    let ran = clang.output().map_err(|source| CompileError::NoClang { source })?;
    if ran.status.success() {
        return Ok(ran.stdout);
    }
    Err(CompileError::Source { messages: first_errors(&ran, path) })
}

/// The first errors that clang reports, a line each, with how many more there are; or how it ended,
/// if it said nothing.
fn first_errors(ran: &Output, path: &Path) -> String {
    const SHOWN: usize = 5;
    let messages = String::from_utf8_lossy(&ran.stderr);
    let errors: Vec<&str> = messages.lines().filter(|line| line.contains("error: ")).collect();
    if errors.is_empty() {
        let why = match ran.status.signal() {
            Some(signal) => {
                format!("it crashed (signal {signal}); something may be nested too deeply")
            }
            None => format!("{}", ran.status),
        };
        let said =
            messages.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
        let clang = nicforge_clang::name();
        return format!("{}: {clang} does not compile this: {why}: {said}", path.display());
    }
    let shown = errors[..errors.len().min(SHOWN)].join("\n");
    match errors.len() - errors.len().min(SHOWN) {
        0 => shown,
        more => format!("{shown}\n({more} more errors)"),
    }
}

/// Keeps what clang refused, for a report.
fn keep(name: &str, source: &str, messages: &str) -> Result<(PathBuf, PathBuf), CompileError> {
    let dir = Folder::new("refused")
        .map_err(|source| CompileError::Io { path: temp::place(), source })?
        .keep();
    let (source_path, messages_path) = (dir.join(format!("{name}.c")), dir.join("messages.txt"));
    for (path, text) in [(&source_path, source), (&messages_path, messages)] {
        std::fs::write(path, text)
            .map_err(|source| CompileError::Io { path: path.clone(), source })?;
    }
    Ok((source_path, messages_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_code_is_kept_and_named() {
        let error =
            compile_form("broken", "int f(void) { return x; }\n", Mode::Live, &[]).unwrap_err();
        let CompileError::Internal { first, source_path, messages_path } = &error else {
            panic!("{error}")
        };
        assert!(
            first.contains("broken.c:1:22: error: use of undeclared identifier 'x'"),
            "{first}"
        );
        assert_eq!(std::fs::read_to_string(source_path).unwrap(), "int f(void) { return x; }\n");
        assert!(messages_path.exists());
        std::fs::remove_dir_all(source_path.parent().unwrap()).unwrap();
    }

    #[test]
    fn too_much_stack_is_said_on_the_line() {
        let source = "void use(void *); int f(void)\n{\n    char big[600];\n    use(big);\n    return 0;\n}\n";
        let error = compile_form("big", source, Mode::Live, &[]).unwrap_err();
        assert!(
            matches!(&error, CompileError::Stack { place } if place.starts_with("big.c:")),
            "{error}"
        );
        assert_eq!(error.fault(), Fault::User);
    }

    #[test]
    fn missing_headers_are_the_installations_fault() {
        let error = compile_form("h", "#include <no/such.h>\n", Mode::Live, &[]).unwrap_err();
        assert_eq!(error.fault(), Fault::Environment, "{error}");
    }

    #[test]
    fn plain_sources_give_their_first_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.c");
        let of = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            compile_xdp(&path, &[]).unwrap_err().to_string()
        };
        let text = of(b"int x = ;\nint y = ;\n");
        assert!(
            text.lines().count() == 2 && text.contains("bad.c:1:9: error: expected expression"),
            "{text}"
        );
        let text = of(&b"x y z;\n".repeat(30));
        assert!(text.lines().count() == 6 && text.contains("more errors)"), "{text}");
        let text = of(format!("int x = {}1;", "~".repeat(30_000)).as_bytes());
        assert!(text.contains("crashed") && text.contains("bad.c"), "{text}");
    }

    #[test]
    fn objects_are_elf() {
        let object =
            compile_form("ok", "int f(void) { return NF_MODE; }\n", Mode::Replay, &[]).unwrap();
        assert_eq!(&object[..4], b"\x7fELF");
    }
}
