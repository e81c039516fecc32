//! Generated C becomes a DPDK application, with the libraries that are installed, or Debian's for
//! arm64.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DpdkError, Machine};
use crate::compile::{GCC_FLAGS, warnings};
use crate::host::{
    HostError, RUNTIME, fresh_dir, object_of_unit, refused, write_files, write_object,
};
use crate::pkgconfig;
use crate::temp::{self, Folder};
use crate::tools;
use crate::units::{self, Around, Unit};

/// What only DPDK applications include.
const DPDK_RUNTIME: [(&str, &str); 12] = [
    ("nf_hooks.h", include_str!("../../../../runtime/dpdk/nf_hooks.h")),
    ("nf_stages.h", include_str!("../../../../runtime/common/nf_stages.h")),
    ("nf_locks.h", include_str!("../../../../runtime/common/nf_locks.h")),
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
pub(crate) fn ask(what: &str) -> Result<Vec<String>, DpdkError> {
    pkgconfig::ask(what, "libdpdk").map_err(|reason| DpdkError::NoDpdk { reason })
}

/// Builds the application `app` in a directory of its own; `verify` is the build that writes every
/// output down.
pub fn build(source: &str, verify: bool, machine: &Machine) -> Result<Folder, DpdkError> {
    let (compiler, package) = match machine {
        Machine::Here => (nicforge_clang::name(), nicforge_clang::name()),
        Machine::Arm64 { .. } => ARM64_COMPILER,
    };
    let no_compiler = |source| HostError::NoCompiler { compiler, package, source };
    let mut dir = fresh_dir()?;
    let ran = match machine {
        Machine::Here => {
            let libraries = ask("--libs")?;
            let unit = unit(source, verify)?;
            let files = [&RUNTIME[..], &DPDK_RUNTIME].concat();
            write_object(dir.path(), "nf_tables.c", &unit.flags, &files)?;
            dir = object_of_unit(dir, &unit, Around { files: &files, headers: HEADERS })?;
            let mut linking = ["-o", "app", "app.o", "nf_tables.o"].map(String::from).to_vec();
            linking.extend(crate::native::linked_into(dir.path())?);
            linking.extend(pkgconfig::ciphers(source).unwrap_or_default());
            units::link(dir.path(), &[linking, libraries].concat())
        }
        Machine::Arm64 { cpu } => {
            write_files(dir.path(), &RUNTIME)?;
            write_files(dir.path(), &DPDK_RUNTIME)?;
            write_files(dir.path(), &[("app.c", source)])?;
            let mut command = Command::new(compiler);
            command.current_dir(dir.path()).args(options(verify)).arg("-fdiagnostics-color=never");
            command
                .args(["app.c", "nf_tables.c", "-o", "app"])
                .args(arm64_flags(&sysroot()?, cpu))
                .output()
        }
    };
    let ran = ran.map_err(no_compiler)?;
    if ran.status.success() { Ok(dir) } else { Err(refused(dir, compiler, &ran.stderr).into()) }
}

/// Options of both compilers.
fn options(verify: bool) -> Vec<String> {
    let mut flags = vec!["-std=gnu11", "-O3", "-fno-strict-aliasing"];
    flags.extend(warnings());
    // DPDK 22.11 has DMA devices, but does not promise that they stay as they are.
    flags.extend([
        "-DALLOW_EXPERIMENTAL_API",
        if verify { "-DNF_VERIFY=1" } else { "-DNF_VERIFY=0" },
    ]);
    flags.into_iter().map(String::from).collect()
}

/// An application for this machine with how it is compiled.
fn unit(source: &str, verify: bool) -> Result<Unit, DpdkError> {
    let mut flags = options(verify);
    flags.push("-fno-color-diagnostics".to_string());
    // DPDK's headers are not ours to warn about.
    flags.extend(ask("--cflags")?.into_iter().map(|flag| flag.replacen("-I", "-isystem", 1)));
    flags.extend(pkgconfig::ciphers_flag(source));
    let main = "app.c".to_string();
    Ok(Unit { flags, main: main.clone(), files: vec![(main, source.to_string())] })
}

/// What applications include of others.
const HEADERS: &str = "#include <sched.h>\n#include <signal.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
                       #include <rte_eal.h>\n#include <rte_ethdev.h>\n#include <rte_launch.h>\n#include <rte_malloc.h>\n\
                       #include <rte_mbuf.h>\n#include <rte_ring.h>\n#include <rte_spinlock.h>\n";

/// Compiles several applications for this machine ahead of [`build`].
///
/// # Errors
/// There is no DPDK, or no folder for files.
pub fn ahead(sources: &[&str], verify: bool) -> Result<(), DpdkError> {
    let units = sources.iter().map(|source| unit(source, verify)).collect::<Result<_, _>>()?;
    let files = [&RUNTIME[..], &DPDK_RUNTIME].concat();
    units::ahead(units, Around { files: &files, headers: HEADERS })
        .map_err(|source| DpdkError::Io { path: temp::place(), source })
}

/// The cross compiler for Arm cores, and the packages that have it.
pub(crate) const ARM64_COMPILER: (&str, &str) =
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross");
/// The emulator of their programs.
pub const QEMU: &str = "qemu-aarch64";

/// The model of a CPU that the emulator has: its own, or one with all that later ones have.
pub fn emulated(cpu: &str) -> &str {
    let models = Command::new(QEMU).args(["-cpu", "help"]).output();
    let models =
        models.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned()).unwrap_or_default();
    if models.split_whitespace().any(|model| model == cpu) { cpu } else { "max" }
}

/// Where `scripts/arm64-dpdk.sh` put Debian's DPDK for arm64: `$NICFORGE_ARM64`, or the user's
/// cache folder.
pub(crate) fn sysroot() -> Result<PathBuf, DpdkError> {
    let missing = || tools::places().into_iter().next().unwrap_or_default().join("arm64");
    tools::installed("NICFORGE_ARM64", "arm64", "complete")
        .ok_or_else(|| DpdkError::NoSysroot { path: missing() })
}

/// Flags for a static application, whose libraries need nothing of this machine. Drivers and what
/// registers itself must be named whole: nothing refers to them.
fn arm64_flags(root: &Path, cpu: &str) -> Vec<String> {
    let at = |path: &str| root.join(path).display().to_string();
    let mut flags: Vec<String> =
        ["-static", "-include", "rte_config.h", "-moutline-atomics"].map(String::from).into();
    flags.push(format!("-mcpu={cpu}+crc"));
    flags.extend(GCC_FLAGS.map(String::from));
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
