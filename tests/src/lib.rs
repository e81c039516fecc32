//! What the end-to-end tests share.

pub mod campaign;
pub mod designs;
pub mod example;
pub mod net;
pub mod nic;
pub mod oracle;
pub mod pipes;
pub mod programs;
pub mod reduce;
pub mod targets;
pub mod web;

use std::path::{Path, PathBuf};

use nicforge_ir::text::parse;
use nicforge_ir::{Program, Verified, verify};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// True if `make soak` runs the tests, which sets NICFORGE_SOAK: then nothing is left out.
pub fn soak() -> bool {
    std::env::var_os("NICFORGE_SOAK").is_some()
}

/// A number that the environment sets, such as how many random programs are tried.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// The part of a list that `make test` is content with: every `every`-th. `make soak` takes all.
pub fn share<T>(all: impl IntoIterator<Item = T>, every: usize) -> Vec<T> {
    all.into_iter().step_by(if soak() { 1 } else { every }).collect()
}

/// How many packets a run has: a number for `make test`, more for `make soak`.
pub fn packets(test: u64, soak_too: u64) -> u64 {
    if soak() { soak_too } else { test }
}

/// How many things are done at a time.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// A program of `tests/internal_events`.
///
/// # Panics
/// It is none.
pub fn internal(name: &str) -> Verified<Program> {
    let path = root().join(format!("tests/internal_events/{name}.air"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let program = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    verify(program).unwrap_or_else(|e| panic!("{name}: {}", e[0]))
}

/// Why the kernel's part of a test cannot run here, if it cannot. In CI everything must run.
pub fn kernel_is_missing() -> Option<String> {
    // SAFETY: `geteuid` has no preconditions.
    let root = std::fs::metadata("/proc/self").is_ok() && unsafe { geteuid() } == 0;
    if root {
        return None;
    }
    let why =
        "not root: run `make test` as root or with sudo to test against the kernel".to_string();
    assert!(std::env::var_os("CI").is_none(), "{why}");
    Some(why)
}

/// True if DPDK is not installed; says so. In CI everything must run.
pub fn dpdk_is_missing() -> bool {
    let found = std::process::Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    if found.is_ok_and(|status| status.success()) {
        return false;
    }
    assert!(std::env::var_os("CI").is_none(), "DPDK is missing: run scripts/bootstrap.sh");
    println!(
        "skipped: DPDK is missing: apt-get install --no-install-recommends libdpdk-dev pkg-config"
    );
    true
}

/// True if Verilator is missing; says so. In CI everything must run.
pub fn verilator_is_missing() -> bool {
    if nicforge_run::rtl::Verilator::find().is_ok() {
        return false;
    }
    assert!(std::env::var_os("CI").is_none(), "Verilator is missing: run scripts/bootstrap.sh");
    println!("skipped: Verilator is missing: run scripts/bootstrap.sh");
    true
}

unsafe extern "C" {
    fn geteuid() -> u32;
}
