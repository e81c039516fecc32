//! Generated C becomes a DPDK application, with the libraries that are installed, or Debian's for arm64.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DpdkError, Machine};
use crate::compile::warnings;
use crate::host::{HostError, RUNTIME, fresh_dir, refused, write_files};
use crate::temp::Folder;
use crate::tools;

/// What only DPDK applications include.
const DPDK_RUNTIME: [(&str, &str); 10] = [
    ("nf_hooks.h", include_str!("../../../../runtime/dpdk/nf_hooks.h")),
    ("nf_main.h", include_str!("../../../../runtime/dpdk/nf_main.h")),
    ("nf_far.h", include_str!("../../../../runtime/dpdk/nf_far.h")),
    ("nf_dma.h", include_str!("../../../../runtime/dpdk/nf_dma.h")),
    ("nf_link.h", include_str!("../../../../runtime/host/nf_link.h")),
    ("nf_link_far.h", include_str!("../../../../runtime/host/nf_link_far.h")),
    ("nf_link_words.h", include_str!("../../../../runtime/host/nf_link_words.h")),
    ("nf_files.h", include_str!("../../../../runtime/host/nf_files.h")),
    ("nf_results.h", include_str!("../../../../runtime/host/nf_results.h")),
    ("nf_log.h", include_str!("../../../../runtime/host/nf_log.h")),
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
pub fn build(source: &str, verify: bool, machine: &Machine) -> Result<Folder, DpdkError> {
    let (compiler, package) = match machine {
        Machine::Here => (nicforge_clang::name(), nicforge_clang::name()),
        Machine::Arm64 { .. } => (ARM64_GCC, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
    };
    let flags = match machine {
        Machine::Here => flags()?,
        Machine::Arm64 { cpu } => arm64_flags(&sysroot()?, cpu),
    };
    let dir = fresh_dir()?;
    write_files(dir.path(), &RUNTIME)?;
    write_files(dir.path(), &DPDK_RUNTIME)?;
    write_files(dir.path(), &[("app.c", source)])?;
    let mut command = Command::new(compiler);
    command.current_dir(dir.path()).args(["-std=gnu11", "-O3", "-fno-strict-aliasing"]);
    command.args(warnings()).args(["app.c", "nf_tables.c", "-o", "app"]);
    command.arg(if *machine == Machine::Here {
        "-fno-color-diagnostics"
    } else {
        "-fdiagnostics-color=never"
    });
    // DPDK 22.11 has DMA devices, but does not promise that they stay as they are.
    command.arg("-DALLOW_EXPERIMENTAL_API");
    command.arg(format!("-DNF_VERIFY={}", u32::from(verify)));
    if let Some(object) = crate::native::object().filter(|_| *machine == Machine::Here) {
        let path = dir.path().join("functions.so");
        std::fs::write(&path, object).map_err(|source| HostError::Io { path: path.clone(), source })?;
        // What it needs itself, the application may call too.
        command.arg("-Wl,--copy-dt-needed-entries").arg(path);
        command.arg(format!("-Wl,-rpath,{}", dir.path().display()));
    }
    let ran = command.args(flags).output();
    let ran = ran.map_err(|source| HostError::NoCompiler { compiler, package, source })?;
    if ran.status.success() { Ok(dir) } else { Err(refused(dir, compiler, &ran.stderr).into()) }
}

/// The cross compiler for Arm cores.
const ARM64_GCC: &str = "aarch64-linux-gnu-gcc";
/// The emulator of their programs.
pub const QEMU: &str = "qemu-aarch64";

/// The model of a CPU that the emulator has: its own, or one with all that later ones have.
pub fn emulated(cpu: &str) -> &str {
    let models = Command::new(QEMU).args(["-cpu", "help"]).output();
    let models = models.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned()).unwrap_or_default();
    if models.split_whitespace().any(|model| model == cpu) { cpu } else { "max" }
}

/// Where `scripts/arm64-dpdk.sh` put Debian's DPDK for arm64: `$NICFORGE_ARM64`, or the user's cache folder.
fn sysroot() -> Result<PathBuf, DpdkError> {
    let missing = || tools::places().into_iter().next().unwrap_or_default().join("arm64");
    tools::installed("NICFORGE_ARM64", "arm64", "complete")
        .ok_or_else(|| DpdkError::NoSysroot { path: missing() })
}

/// Flags for a static application, whose libraries need nothing of this machine. Drivers and what registers itself must be
/// named whole: nothing refers to them.
fn arm64_flags(root: &Path, cpu: &str) -> Vec<String> {
    let at = |path: &str| root.join(path).display().to_string();
    let mut flags: Vec<String> =
        ["-static", "-include", "rte_config.h", "-moutline-atomics"].map(String::from).into();
    flags.push(format!("-mcpu={cpu}+crc"));
    for include in ["usr/include/aarch64-linux-gnu/dpdk", "usr/include/dpdk", "usr/include"] {
        flags.extend(["-isystem".to_string(), at(include)]);
    }
    flags.push(format!("-L{}", at("usr/lib/aarch64-linux-gnu")));
    let link = "-Wl,--whole-archive -l:librte_net_null.a -l:librte_net_ring.a -l:librte_bus_vdev.a -l:librte_mempool_ring.a \
                -Wl,--no-whole-archive -Wl,--start-group -l:librte_eal.a -l:librte_ethdev.a -l:librte_mbuf.a \
                -l:librte_mempool.a -l:librte_ring.a -l:librte_kvargs.a -l:librte_telemetry.a -l:librte_net.a \
                -l:librte_meter.a -l:librte_pci.a -l:librte_dmadev.a -Wl,--end-group -lnuma -lfdt -lbsd -lmd -lm -lpthread -ldl";
    flags.extend(link.split_whitespace().map(String::from));
    flags
}
