//! `nicforge spin sdk`: headers, libraries and make rules in a folder, laid out as PsPIN's and
//! FPsPIN's trees are, so that handlers, drivers and host programs with makefiles of their own
//! build against them.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use nicforge_driver::{Failure, Runtime};

/// A NIC whose tree others build against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Published {
    Pspin,
    Fpspin,
}

impl Published {
    fn name(self) -> &'static str {
        match self {
            Published::Pspin => "pspin",
            Published::Fpspin => "fpspin",
        }
    }
}

/// `nicforge spin sdk`.
#[derive(Args)]
pub struct Sdk {
    /// Folder to make
    dir: PathBuf,
    /// Machine that handlers and drivers are built for
    #[arg(long, value_enum, default_value = "fpspin")]
    machine: Published,
}

/// Where each folder of the runtime goes. Later ones may add to the same place.
fn places(api: Published) -> [(String, &'static str); 5] {
    [
        ("include".to_string(), "runtime/include"),
        (format!("include/{}", api.name()), "runtime/include"),
        ("driver".to_string(), "hw/verilator_model/include"),
        ("host/fpspin".to_string(), "fpspin"),
        ("rules".to_string(), "rules"),
    ]
}

/// Makes the folder.
pub fn run(args: Sdk) -> Result<(), Failure> {
    let (dir, api) = (&args.dir, args.machine);
    let fail = |path: &Path, e: std::io::Error| Failure::user(format!("{}: {e}", path.display()));
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::user(format!("{} is not empty; nothing was changed", dir.display())));
    }
    let runtime = Runtime::whole()?;
    let spin = runtime.path().join("spin");
    for (from, to) in places(api) {
        copy(&spin.join(from), &dir.join(to)).map_err(|(path, e)| fail(&path, e))?;
    }
    // The generic driver is a folder beside examples in their trees.
    let generic = dir.join("generic_driver");
    std::fs::create_dir_all(&generic).map_err(|e| fail(&generic, e))?;
    for name in ["gdriver.c", "gdriver.h"] {
        let from = dir.join("hw/verilator_model/include").join(name);
        std::fs::rename(&from, generic.join(name)).map_err(|e| fail(&from, e))?;
    }
    let from = dir.join("rules/gdriver.mk");
    std::fs::rename(&from, generic.join("gdriver.mk")).map_err(|e| fail(&from, e))?;
    let rules = dir.join("rules/spin-rt.mk");
    let text = std::fs::read_to_string(&rules).map_err(|e| fail(&rules, e))?;
    std::fs::write(&rules, text.replace("@MACHINE@", api.name())).map_err(|e| fail(&rules, e))?;

    // Drivers are compiled without a word about the machine, so its header says it.
    if api == Published::Fpspin {
        let shape = dir.join("hw/verilator_model/include/spin_hw_conf.h");
        let text = std::fs::read_to_string(&shape).map_err(|e| fail(&shape, e))?;
        let text = text.replacen("#pragma once\n", "#pragma once\n#define NF_FPSPIN\n", 1);
        std::fs::write(&shape, text).map_err(|e| fail(&shape, e))?;
    }

    let lib = dir.join("hw/verilator_model/lib");
    std::fs::create_dir_all(&lib).map_err(|e| fail(&lib, e))?;
    let simulator = dir.join("hw/verilator_model/include/pspinsim.c");
    for name in ["libpspin.a", "libpspin_debug.a"] {
        library(std::slice::from_ref(&simulator), &[], &lib.join(name))?;
    }
    let host = dir.join("fpspin");
    library(
        &[host.join("fpspin.c"), host.join("slmp.c")],
        &["-D__FPSPIN_HOST__"],
        &host.join("libfpspin.a"),
    )?;
    outln!("made {}; for makefiles:", dir.display());
    let full = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
    outln!("  export PSPIN_RT={0} PSPIN_HW={0}/hw", full.display());
    outln!("  FPsPIN host programs: -D__FPSPIN_HOST__ -I{0} -L{0}/fpspin -lfpspin", full.display());
    Ok(())
}

/// The files of a folder, without its folders.
fn copy(from: &Path, to: &Path) -> Result<(), (PathBuf, std::io::Error)> {
    std::fs::create_dir_all(to).map_err(|e| (to.to_path_buf(), e))?;
    for entry in std::fs::read_dir(from).map_err(|e| (from.to_path_buf(), e))? {
        let path = entry.map_err(|e| (from.to_path_buf(), e))?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() {
            // Headers have one folder below them, of a chip's SDK.
            if name == "hal" {
                copy(&path, &to.join(name))?;
            }
            continue;
        }
        std::fs::copy(&path, to.join(name)).map_err(|e| (path.clone(), e))?;
    }
    Ok(())
}

/// Compiles C files for this computer and puts them into an archive.
fn library(sources: &[PathBuf], flags: &[&str], to: &Path) -> Result<(), Failure> {
    let mut objects = Vec::new();
    for source in sources {
        let object = source.with_extension("o");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-fPIC", "-Wall", "-Wextra"])
            .args(flags)
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(&object);
        tool(cc, "cc", "build-essential")?;
        objects.push(object);
    }
    let mut ar = Command::new("ar");
    ar.arg("rcs").arg(to).args(&objects);
    tool(ar, "ar", "binutils")?;
    objects
        .iter()
        .try_for_each(std::fs::remove_file)
        .map_err(|e| Failure::user(format!("{}: {e}", to.display())))
}

fn tool(mut command: Command, name: &str, package: &str) -> Result<(), Failure> {
    let ran = command.output().map_err(|e| {
        Failure::environment(format!(
            "`{name}` cannot be started ({e}); install it with `apt-get install {package}`"
        ))
    })?;
    if ran.status.success() {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "`{name}` fails: {}",
        String::from_utf8_lossy(&ran.stderr).trim()
    )))
}
