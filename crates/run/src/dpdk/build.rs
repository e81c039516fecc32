//! Generated C becomes a DPDK application, with the libraries that are installed.

use std::process::Command;

use super::DpdkError;
use crate::compile::CLANG;
use crate::host::{HostError, RUNTIME, fresh_dir, refused, write_files};

/// What only DPDK applications include.
const DPDK_RUNTIME: [(&str, &str); 3] = [
    ("nf_hooks.h", include_str!("../../../../runtime/dpdk/nf_hooks.h")),
    ("nf_main.h", include_str!("../../../../runtime/dpdk/nf_main.h")),
    ("nf_files.h", include_str!("../../../../runtime/dpdk/nf_files.h")),
];

/// Flags that pkg-config knows for DPDK.
fn flags() -> Result<Vec<String>, DpdkError> {
    let ran = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let ran = ran.map_err(|error| DpdkError::NoDpdk { reason: format!("pkg-config: {error}") })?;
    if !ran.status.success() {
        let reason = String::from_utf8_lossy(&ran.stderr).lines().next().unwrap_or("").to_string();
        return Err(DpdkError::NoDpdk { reason });
    }
    let text = String::from_utf8_lossy(&ran.stdout);
    // DPDK's headers are not ours to warn about.
    Ok(text.split_whitespace().map(|flag| flag.replacen("-I", "-isystem", 1)).collect())
}

/// Builds the application `app` in a directory of its own; `verify` is the build that writes every output down.
pub fn build(source: &str, verify: bool) -> Result<tempfile::TempDir, DpdkError> {
    let flags = flags()?;
    let dir = fresh_dir()?;
    write_files(dir.path(), &RUNTIME)?;
    write_files(dir.path(), &DPDK_RUNTIME)?;
    write_files(dir.path(), &[("app.c", source)])?;
    let mut clang = Command::new(CLANG);
    clang.current_dir(dir.path()).args(["-std=gnu11", "-O3", "-fno-strict-aliasing"]);
    clang.args([
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fno-color-diagnostics",
        "app.c",
        "nf_tables.c",
        "-o",
        "app",
    ]);
    clang.arg(format!("-DNF_VERIFY={}", u32::from(verify)));
    let ran = clang.args(flags).output();
    let ran = ran.map_err(|source| HostError::NoCompiler { compiler: CLANG, source })?;
    if ran.status.success() { Ok(dir) } else { Err(refused(dir, CLANG, &ran.stderr).into()) }
}
