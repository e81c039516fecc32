//! What Nicforge calls on this machine: whether each tool and library is there, which version, and
//! what needs it.
//!
//! Every answer comes from the code that uses the tool: the same names, the same places, and the
//! error that a command would end with.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::CompileError;
use crate::dpdk::DpdkError;
use crate::host::HostError;
use crate::rtl::Verilator;
use crate::spin::BuildError;
use crate::synth::{self, SynthError};
use crate::{dpdk, spin, tools};

/// A tool or library.
#[derive(Debug)]
pub struct Need {
    pub name: &'static str,
    /// What needs it.
    pub for_what: &'static str,
    /// Where it is, or why a command that needs it would fail.
    pub found: Result<Found, String>,
}

/// Where something is.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// As it says itself; empty where it says none.
    pub version: String,
    pub place: String,
}

/// The C compiler, without which no program can be read.
pub fn clang() -> Need {
    let source = |source| CompileError::NoClang { source }.to_string();
    Need {
        name: "clang",
        for_what: "every program: it reads them",
        found: started(nicforge_clang::name(), "--version").map_err(source),
    }
}

/// All others.
pub fn others() -> Vec<Need> {
    let arm64 = |source| {
        let (compiler, package) = dpdk::build::ARM64_COMPILER;
        HostError::NoCompiler { compiler, package, source }.to_string()
    };
    let need = |name, for_what, found| Need { name, for_what, found };
    vec![
        need("DPDK", "target dpdk", dpdk_here()),
        need(
            "gcc for RISC-V",
            "sPIN handlers on pspin and fpspin",
            started(spin::build::GCC, "--version")
                .map_err(|e| BuildError::NoCompiler(e).to_string()),
        ),
        need(
            "C library for RISC-V",
            "sPIN handlers on pspin and fpspin",
            spin::build::picolibc().map(|path| at(&path)).map_err(|e| e.to_string()),
        ),
        need(
            "gcc",
            "spin sim --engine native",
            started(spin::build::NATIVE_GCC, "--version")
                .map_err(|e| BuildError::NoNativeCompiler(e).to_string()),
        ),
        need("Verilator", "simulated hardware: target u280, spin verify --rtl", verilator()),
        need(
            "yosys",
            "build --synth: what a design takes of an FPGA",
            started(synth::YOSYS, "-V").map_err(|e| SynthError::NoYosys(e).to_string()),
        ),
        need(
            "gcc for arm64",
            "target bluefield2, emulated",
            started(dpdk::build::ARM64_COMPILER.0, "--version").map_err(arm64),
        ),
        need(
            "DPDK for arm64",
            "target bluefield2, emulated",
            dpdk::build::sysroot().map(|path| at(&path)).map_err(|e| e.to_string()),
        ),
        need(
            "qemu",
            "target bluefield2, emulated",
            started(dpdk::build::QEMU, "--version")
                .map_err(|source| DpdkError::NoEmulator { source }.to_string()),
        ),
    ]
}

fn dpdk_here() -> Result<Found, String> {
    let ask = |what| dpdk::build::ask(what).map(|words| words.join(" "));
    let version = ask("--modversion").map_err(|error| error.to_string())?;
    let place = ask("--variable=libdir").map_err(|error| error.to_string())?;
    Ok(Found { version, place })
}

fn verilator() -> Result<Found, String> {
    let found = Verilator::find().map_err(|error| error.to_string())?;
    let program = found.program().display().to_string();
    started(&program, "--version")
        .map_err(|error| format!("`{program}` cannot be started: {error}"))
}

fn at(path: &Path) -> Found {
    Found { version: String::new(), place: path.display().to_string() }
}

/// A program that says its version.
///
/// # Errors
/// It cannot be started.
pub fn started(program: &str, flag: &str) -> io::Result<Found> {
    let ran = Command::new(program).arg(flag).output()?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let place = tools::in_path(program).unwrap_or_else(|| PathBuf::from(program));
    Ok(Found { version: version(&said), place: place.display().to_string() })
}

/// The first word of digits and dots, as `19.1.7`; else the first line.
fn version(said: &str) -> String {
    let line = said.lines().next().unwrap_or_default().trim();
    let number = |word: &&str| {
        word.contains('.')
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    };
    line.split_whitespace().find(number).unwrap_or(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, is) in [
            ("Debian clang version 19.1.7 (3+b1)\nTarget: x86_64\n", "19.1.7"),
            ("riscv64-unknown-elf-gcc (12.2.0-14+11) 12.2.0\n", "12.2.0"),
            ("Yosys 0.23 (git sha1 7ce5011c24b)\n", "0.23"),
            ("something else\n", "something else"),
            ("", ""),
        ] {
            assert_eq!(version(said), is);
        }
    }
}
