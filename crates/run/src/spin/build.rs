//! Handler sources become an image: compiled and linked with the runtime of `runtime/spin` by
//! Debian's GCC for bare RISC-V.
//!
//! Compiler flags and the memory map are those under which handlers written for PsPIN and FPsPIN
//! compile unmodified. Words of the task lie in packed structures, and only with fast unaligned
//! access does GCC load them as words.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nicforge_isa::object::riscv::{self, Image};
use nicforge_spin::machine::{Machine, NotSpin, map};
use nicforge_target::Target;

use super::native::NativeImage;
use super::said::{self, Said};
use crate::fault::Fault;
use crate::temp::{self, Folder};
use crate::tools;

pub(crate) const GCC: &str = "riscv64-unknown-elf-gcc";
/// Where Debian's package has its files.
const PICOLIBC: &str = "/usr/lib/picolibc/riscv64-unknown-elf";
pub(super) const FLAGS: [&str; 9] = [
    "-march=rv32imac",
    "-mabi=ilp32",
    "-misa-spec=2.2",
    "-mno-strict-align",
    "-mtune=thead-c906",
    "-std=gnu11",
    "-g",
    "-ffunction-sections",
    "-fdata-sections",
];

/// For this computer, in the place of the first ones: 32-bit addresses that nothing moves, and
/// stacks that a switch may leave anywhere.
pub(crate) const NATIVE_GCC: &str = "gcc";
const NATIVE_FLAGS: [&str; 15] = [
    "-mx32",
    "-nostdinc",
    "-std=gnu11",
    "-g",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-pic",
    "-no-pie",
    "-static",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-mno-red-zone",
    "-fno-asynchronous-unwind-tables",
    "-fno-tree-loop-distribute-patterns",
    "-Wl,--gc-sections,--build-id=none,-z,norelro,-z,noexecstack",
];
/// Section of an image in which the same handlers lie for this computer.
const NATIVE_SECTION: &str = ".nicforge.x32";

/// Whose headers the handlers include: a folder below `spin/include`.
pub type Api = nicforge_target::Headers;

/// The folder of headers.
fn folder(api: Api) -> &'static str {
    match api {
        Api::Pspin => "pspin",
        Api::Fpspin => "fpspin",
    }
}

/// Clusters whose scratchpads the registers of a task name; its doorbell is right behind.
const MOST_CLUSTERS: usize = 4;

/// Layout of images of handlers for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub api: Api,
    clusters: usize,
    /// Bytes for the image's data at 0x1C000000; what handlers share with the host follows.
    data: u32,
    shared: u32,
}

/// Why handlers cannot be laid out for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLayout {
    #[error(transparent)]
    NotSpin(#[from] NotSpin),
    #[error(
        "target `{target}` has {clusters} clusters; the registers that handlers in C see name the scratchpads of \
         {MOST_CLUSTERS} (programs with nicforge.h use all: `nicforge build` and `run --target`)"
    )]
    Clusters { target: String, clusters: usize },
}

impl Layout {
    /// The layout for a target with a section `[spin]`.
    ///
    /// # Errors
    /// It has none, or more clusters than handlers can name.
    pub fn of(target: &Target) -> Result<Layout, NoLayout> {
        let Machine { clusters, handler_data: data, l2_bytes, .. } = Machine::from_target(target)?;
        let missing = || NotSpin { target: target.name.clone() };
        let api = target.spin.as_ref().ok_or_else(missing)?.headers;
        if clusters > MOST_CLUSTERS {
            return Err(NoLayout::Clusters { target: target.name.clone(), clusters });
        }
        Ok(Layout { api, clusters, data, shared: l2_bytes - data })
    }
}

/// Choices of what to build, and how.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    pub sources: Vec<PathBuf>,
    pub layout: Layout,
    /// More for the compiler, behind all else: `-DDO_HOST=true`, `-O2`, `-I` and so on.
    pub flags: Vec<String>,
}

/// An image.
pub struct Built {
    pub elf: Vec<u8>,
    pub image: Image,
    /// What the compiler had to say though it succeeded.
    pub warnings: String,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(
        "`{GCC}` cannot be started ({0}); install it with `apt-get install gcc-riscv64-unknown-elf`"
    )]
    NoCompiler(std::io::Error),
    #[error(
        "there is no C library for RISC-V in {PICOLIBC} nor where NICFORGE_PICOLIBC points; install it with \
         `apt-get install picolibc-riscv64-unknown-elf`, or run scripts/picolibc.sh, which fetches the 14 MB that are needed"
    )]
    NoLibrary,
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("the handlers do not compile:\n{0}")]
    Refused(String),
    #[error(
        "no `init_handlers` in {0}; every image has one that names its handlers:\n  \
         void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)"
    )]
    NoInit(String),
    #[error(
        "the handlers do not compile for this computer; run them on the instruction set simulator (--engine iss) if they need RISC-V:\n{0}"
    )]
    NativeRefused(String),
    #[error(
        "`{NATIVE_GCC}` cannot be started ({0}); install it with `apt-get install gcc`, or use --engine iss"
    )]
    NoNativeCompiler(std::io::Error),
    #[error(
        "the image has no part for this computer, as `nicforge spin build` adds one where handlers allow it; give their source, or use --engine iss"
    )]
    NoNative,
    #[error(
        "the image does not fit into memory `{memory}`{over}; make handlers, or what they keep, \
         smaller"
    )]
    Large {
        memory: String,
        /// By how much, where the linker says so.
        over: String,
    },
    #[error(
        "`{function}` keeps {bytes} bytes in variables at once, and a core of `{target}` has {room} \
         bytes of stack for that; make structs smaller, or look entries up and use them in smaller \
         steps"
    )]
    Stack { function: String, bytes: u32, room: u32, target: String },
    #[error("the linked image cannot be read: {0}")]
    Image(#[from] riscv::ImageError),
}

impl BuildError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            BuildError::NoCompiler(_)
            | BuildError::NoNativeCompiler(_)
            | BuildError::NoLibrary
            | BuildError::Io { .. } => Fault::Environment,
            _ => Fault::User,
        }
    }
}

/// Where the C library's `include` and `lib/rv32imac/ilp32` are: installed, where the environment
/// says, or where `scripts/picolibc.sh` puts them.
pub(crate) fn picolibc() -> Result<PathBuf, BuildError> {
    const LIBRARY: &str = "lib/rv32imac/ilp32/libc.a";
    let system = Some(PathBuf::from(PICOLIBC)).filter(|place| place.join(LIBRARY).is_file());
    tools::installed("NICFORGE_PICOLIBC", "picolibc", LIBRARY)
        .or(system)
        .ok_or(BuildError::NoLibrary)
}

/// Compiles and links handlers. `runtime` is the folder with `spin/` in it.
///
/// # Errors
/// See [`BuildError`]; compiler messages are given as they are.
pub fn build(runtime: &Path, options: &ImageOptions) -> Result<Built, BuildError> {
    let library = picolibc()?;
    let spin = runtime.join("spin");
    let work =
        Folder::new("spin").map_err(|source| BuildError::Io { path: temp::place(), source })?;
    let defines = defines(options.layout);
    let gcc = || {
        let mut gcc = Command::new(GCC);
        gcc.stdin(Stdio::null()).env("LC_ALL", "C");
        gcc
    };
    let script = work.path().join("link.ld");
    link_script(gcc(), &defines, &spin.join("image/link.ld.in"), &script)
        .map_err(BuildError::NoCompiler)?;

    let out = work.path().join("image.elf");
    let mut compile = gcc();
    compile.args(FLAGS).arg("-O3").arg(format!("-DNB_CLUSTERS={}", options.layout.clusters));
    compile.arg(prefix_map(&spin));
    compile
        .arg("-I")
        .arg(spin.join("include"))
        .arg("-I")
        .arg(spin.join("include").join(folder(options.layout.api)));
    compile.arg("-isystem").arg(library.join("include"));
    compile.args([
        "-nostartfiles",
        "-nostdlib",
        "-Wl,--gc-sections,--defsym=vfprintf=__i_vfprintf",
    ]);
    compile.arg("-T").arg(&script);
    compile.args(&options.flags);
    compile.arg(spin.join("image/crt0.S")).arg(spin.join("image/runtime.c")).args(&options.sources);
    compile.arg("-L").arg(library.join("lib/rv32imac/ilp32"));
    compile.args(["-Wl,--start-group", "-lc", "-lm", "-lgcc", "-Wl,--end-group", "-o"]).arg(&out);
    let ran = compile.output().map_err(BuildError::NoCompiler)?;
    let messages = String::from_utf8_lossy(&ran.stderr).into_owned();
    if !ran.status.success() {
        return Err(refused(options, &messages));
    }
    let elf = std::fs::read(&out).map_err(|source| BuildError::Io { path: out, source })?;
    let image = riscv::parse(&elf)?;
    Ok(Built { elf, image, warnings: messages })
}

/// Compiles handlers as [`build`] does: the image, if there is one, and what was said about the
/// user's files.
///
/// # Errors
/// See [`BuildError`], but for what the compiler and the linker say.
pub fn check(
    runtime: &Path,
    options: &ImageOptions,
) -> Result<(Option<Built>, Vec<Said>), BuildError> {
    let library = picolibc()?;
    let said = |printed: &str| said::said(printed, &[runtime, &library, Path::new(OURS)]);
    match build(runtime, options) {
        Ok(built) => {
            let found = said(&built.warnings);
            Ok((Some(built), found))
        }
        Err(BuildError::Refused(printed)) => {
            let mut found = said(&printed);
            if !found.iter().any(|said| said.error) {
                found.push(Said { error: true, message: printed, place: None });
            }
            Ok((None, found))
        }
        Err(other) => Err(other),
    }
}

/// What debugging information calls the folder of our headers and runtime.
pub(super) const OURS: &str = "/nicforge";

/// Gives our files that name, wherever they are unpacked.
fn prefix_map(spin: &Path) -> String {
    format!("-ffile-prefix-map={}={OURS}", spin.display())
}

/// Sizes for linker scripts.
fn defines(layout: Layout) -> [String; 3] {
    [
        format!("-DNF_L2_DATA={:#x}", layout.data),
        format!("-DNF_L2_HANDLER={:#x}", map::L2 + layout.data),
        format!("-DNF_L2_HANDLER_SIZE={:#x}", layout.shared),
    ]
}

/// Puts sizes into a linker script. What is wrong with it the linker says.
fn link_script(
    mut gcc: Command,
    defines: &[String],
    from: &Path,
    to: &Path,
) -> std::io::Result<()> {
    gcc.args(["-E", "-P", "-undef", "-x", "c"]).args(defines).arg(from).arg("-o").arg(to);
    gcc.output().map(|_| ())
}

/// Compiles and links handlers for this computer: the file, and the compiler's warnings.
///
/// # Errors
/// See [`BuildError`].
pub fn build_native(
    runtime: &Path,
    options: &ImageOptions,
) -> Result<(Vec<u8>, String), BuildError> {
    let library = picolibc()?;
    let spin = runtime.join("spin");
    let work =
        Folder::new("spin").map_err(|source| BuildError::Io { path: temp::place(), source })?;
    let gcc = || {
        let mut gcc = Command::new(NATIVE_GCC);
        gcc.stdin(Stdio::null()).env("LC_ALL", "C");
        gcc
    };
    let fail = BuildError::NoNativeCompiler;
    let script = work.path().join("link.ld");
    link_script(gcc(), &defines(options.layout), &spin.join("native/link.ld.in"), &script)
        .map_err(fail)?;
    let own = gcc().arg("-print-file-name=include").output().map_err(fail)?;
    let own = String::from_utf8_lossy(&own.stdout).trim().to_string();
    let out = work.path().join("native.elf");
    let mut compile = gcc();
    compile.args(NATIVE_FLAGS).arg("-O3").arg(format!("-DNB_CLUSTERS={}", options.layout.clusters));
    compile.arg(prefix_map(&spin));
    compile
        .arg("-I")
        .arg(spin.join("include"))
        .arg("-I")
        .arg(spin.join("include").join(folder(options.layout.api)));
    compile.arg("-isystem").arg(own).arg("-isystem").arg(library.join("include"));
    compile.args(["-nostartfiles", "-nostdlib"]).arg("-T").arg(&script).args(&options.flags);
    compile
        .arg(spin.join("native/native.c"))
        .arg(spin.join("native/libc.c"))
        .args(&options.sources);
    let ran = compile.arg("-o").arg(&out).output().map_err(fail)?;
    let messages = String::from_utf8_lossy(&ran.stderr).into_owned();
    if !ran.status.success() {
        return Err(match refused(options, &messages) {
            BuildError::Refused(messages) => BuildError::NativeRefused(messages),
            other => other,
        });
    }
    let elf = std::fs::read(&out).map_err(|source| BuildError::Io { path: out, source })?;
    Ok((elf, messages))
}

/// Adds handlers for this computer to an image for RISC-V units, which does not load them.
///
/// # Errors
/// The tool is missing or fails.
pub fn join(elf: &[u8], native: &[u8]) -> Result<Vec<u8>, BuildError> {
    let work =
        Folder::new("spin").map_err(|source| BuildError::Io { path: temp::place(), source })?;
    let place = |name: &str| work.path().join(name);
    let io = |name: &str| {
        let path = place(name);
        move |source| BuildError::Io { path, source }
    };
    std::fs::write(place("image"), elf).map_err(io("image"))?;
    std::fs::write(place("native"), native).map_err(io("native"))?;
    let ran = Command::new("riscv64-unknown-elf-objcopy")
        .arg("--add-section")
        .arg(format!("{NATIVE_SECTION}={}", place("native").display()))
        .arg(place("image"))
        .output()
        .map_err(BuildError::NoCompiler)?;
    if !ran.status.success() {
        return Err(BuildError::Refused(String::from_utf8_lossy(&ran.stderr).into_owned()));
    }
    std::fs::read(place("image")).map_err(io("image"))
}

/// Handlers for this computer, from a file of [`build_native`] or one of [`join`].
///
/// # Errors
/// There are none in it.
pub fn native_of(file: &[u8]) -> Result<NativeImage, BuildError> {
    let elf = riscv::contents(file, NATIVE_SECTION).unwrap_or(file);
    match riscv::parse_x32(elf) {
        Ok(image) => Ok(NativeImage::new(image, elf)),
        // The image itself was looked at: it has no such part.
        Err(_) if elf.len() == file.len() => Err(BuildError::NoNative),
        Err(e) => Err(e.into()),
    }
}

/// The linker's words on two common mistakes, in words of ours.
fn refused(options: &ImageOptions, messages: &str) -> BuildError {
    if messages.contains("undefined reference to `init_handlers'") {
        let names: Vec<String> =
            options.sources.iter().map(|path| path.display().to_string()).collect();
        return BuildError::NoInit(names.join(", "));
    }
    overflow(messages).unwrap_or_else(|| BuildError::Refused(messages.trim_end().to_string()))
}

/// The memory that the linker has no room in, if it says so.
pub(crate) fn overflow(messages: &str) -> Option<BuildError> {
    let of_line = |line: &str| {
        let (memory, rest) = line.split_once("region `")?.1.split_once('\'')?;
        let bytes = rest.strip_prefix(" overflowed by ").and_then(|rest| rest.split(' ').next());
        let over = bytes.map_or(String::new(), |bytes| format!(", by {bytes} bytes"));
        Some(BuildError::Large { memory: memory.to_string(), over })
    };
    let lines = || messages.lines().filter(|line| line.contains("region `"));
    lines().find(|line| line.contains("overflowed")).or_else(|| lines().next()).and_then(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linkers_say_in_several_ways_that_there_is_no_room() {
        let said = |messages| overflow(messages).map(|error| error.to_string());
        let end = "; make handlers, or what they keep, smaller";
        let over = "ld: image.elf section `.bss' will not fit in region `L2'\n\
                    ld: region `L2' overflowed by 52 bytes\n";
        let into = "the image does not fit into memory";
        assert_eq!(said(over), Some(format!("{into} `L2`, by 52 bytes{end}")));
        let outside =
            "ld: address 0x1d0085b6 of image.elf section `.text' is not within region `prog'\n";
        assert_eq!(said(outside), Some(format!("{into} `prog`{end}")));
        assert_eq!(said("ld: undefined reference to `stdout'"), None);
    }
}
