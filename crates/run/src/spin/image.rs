//! Generated files become images: written with the runtime they include, compiled and linked by GCC
//! for bare RISC-V.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nicforge_codegen::spin::{Cores, SpinArtifact};
use nicforge_isa::object::riscv::{self, Image};
use nicforge_spin::machine::{Machine, map};
use nicforge_target::Target;

use super::build::{BuildError, FLAGS, GCC, overflow, picolibc};
use super::cores::CoresError;
use crate::compile::{Effort, GCC_FLAGS, warnings_with};
use crate::host::{NoObject, object, object_of};
use crate::temp::{self, Folder};

macro_rules! runtime {
    ($($name:literal = $path:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../runtime/", $path)))),*]
    };
}

/// What images include, with folders as below `runtime/`.
const COMMON: &[(&str, &str)] = runtime!(
    "nf_abi.h" = "common/nf_abi.h",
    "nf_math.h" = "common/nf_math.h",
    "nf_table_core.h" = "common/nf_table_core.h",
    "nf_crypto.h" = "common/nf_crypto.h",
    "nf_rt.h" = "host/nf_rt.h",
    "nf_tables.h" = "host/nf_tables.h",
    "nf_tables.c" = "host/nf_tables.c",
    "nf_lpm.h" = "host/nf_lpm.h",
    "nf_masks.h" = "host/nf_masks.h",
    "nf_stages.h" = "common/nf_stages.h",
    "nf_locks.h" = "common/nf_locks.h",
    "nf_hooks.h" = "riscv/nf_hooks.h",
    "nf_event.h" = "riscv/nf_event.h",
    "nf_memory.c" = "riscv/nf_memory.c",
);
const SPIN: &[(&str, &str)] = runtime!(
    "nf_port.h" = "riscv/spin/nf_port.h",
    "nf_main.h" = "riscv/spin/nf_main.h",
    "spin/include/handler.h" = "spin/include/handler.h",
    "spin/include/hwsched.h" = "spin/include/hwsched.h",
    "spin/include/nf_spin_port.h" = "spin/include/nf_spin_port.h",
    "spin/include/pspin.h" = "spin/include/pspin.h",
    "spin/include/pspin_rt.h" = "spin/include/pspin_rt.h",
    "spin/include/spin_conf.h" = "spin/include/spin_conf.h",
    "spin/include/spin_dma.h" = "spin/include/spin_dma.h",
    "spin/include/util.h" = "spin/include/util.h",
    "spin/include/hal/pulp.h" = "spin/include/hal/pulp.h",
    "start.S" = "spin/image/crt0.S",
    "runtime.c" = "spin/image/runtime.c",
    "link.ld.in" = "spin/image/link.ld.in",
);
const PANIC: &[(&str, &str)] = runtime!(
    "nf_port.h" = "riscv/panic/nf_port.h",
    "nf_main.h" = "riscv/panic/nf_main.h",
    "start.S" = "riscv/panic/crt0.S",
    "link.ld.in" = "riscv/panic/link.ld.in",
);

/// Writes generated files and what they include.
pub fn write_files(dir: &Path, artifact: &SpinArtifact) -> Result<(), BuildError> {
    let machine = if artifact.cores == Cores::Spin { SPIN } else { PANIC };
    let own = artifact.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    for (name, text) in COMMON.iter().chain(machine).copied().chain(own) {
        let path = dir.join(name);
        let parent = path.parent().map_or_else(|| dir.to_path_buf(), Path::to_path_buf);
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| BuildError::Io { path, source })?;
    }
    Ok(())
}

/// Builds a stage's image: fast, or small where fast code has no room. With `verify`, outputs say
/// which input event they are of.
pub fn build(
    artifact: &SpinArtifact,
    stage: usize,
    target: &Target,
    effort: Effort,
    verify: bool,
) -> Result<(Vec<u8>, Image), CoresError> {
    let optimise: &[&str] = match effort {
        Effort::Full => &["-O2"],
        // GCC needs less time for this than for what it does without -O.
        Effort::Little => &["-Og", "-g0"],
    };
    let with = |optimise: &[&str]| {
        let flags = [optimise, warnings_with(effort)].concat();
        build_with(&flags, artifact, stage, target, verify)
    };
    match with(optimise) {
        Err(CoresError::Build(BuildError::Large { .. })) => with(&["-Os"]),
        built => built,
    }
}

/// Bytes of stack that a core has.
pub(super) fn stack_bytes(cores: Cores) -> u32 {
    match cores {
        Cores::Spin => 4 << 10,
        Cores::Panic => 8 << 10,
    }
}

/// What callers of a handler, and what it calls, take of the stack.
const AROUND_HANDLERS: u32 = 512;

/// Checks what functions take of the stack, as GCC says beside an object
/// (`-fstack-usage`: place and function, bytes, kind, tabs between).
fn check_stack(usage: &str, cores: Cores, target: &Target) -> Result<(), BuildError> {
    let room = stack_bytes(cores) - AROUND_HANDLERS;
    let functions = usage.lines().filter_map(|line| {
        let mut words = line.split('\t');
        let function = words.next()?.rsplit(':').next()?.split('.').next()?;
        Some((words.next()?.parse::<u32>().ok()?, function))
    });
    match functions.max() {
        Some((bytes, function)) if bytes > room => Err(BuildError::Stack {
            function: function.trim_start_matches("nf_handler_").to_string(),
            bytes,
            room,
            target: target.name.clone(),
        }),
        _ => Ok(()),
    }
}

fn build_with(
    own: &[&str],
    artifact: &SpinArtifact,
    stage: usize,
    target: &Target,
    verify: bool,
) -> Result<(Vec<u8>, Image), CoresError> {
    let library = picolibc()?;
    let io = |path: PathBuf| move |source| BuildError::Io { path, source };
    let dir = Folder::new("riscv").map_err(io(temp::place()))?;
    write_files(dir.path(), artifact)?;
    let stack = stack_bytes(artifact.cores);
    let mut defines =
        vec![format!("-DNF_VERIFY={}", u8::from(verify)), format!("-DNF_STACK_BYTES={stack}")];
    match artifact.cores {
        Cores::Spin => {
            let machine = Machine::from_target(target)?;
            // Nothing is shared with the host in place, so that part is as small as can be.
            let data = machine.l2_bytes - 0x1000;
            defines.push(format!("-DNF_L2_DATA={data:#x}"));
            defines.push(format!("-DNF_L2_HANDLER={:#x}", map::L2 + data));
            defines.push("-DNF_L2_HANDLER_SIZE=0x1000".to_string());
            // A task's description has room for the scratchpads of four clusters; generated code
            // finds its own by address.
            defines.push(format!("-DNB_CLUSTERS={}", machine.clusters.min(4)));
        }
        Cores::Panic => {
            let machine = nicforge_spin::panic::Config::from_target(target)?;
            defines.push(format!("-DNF_LOCAL_BYTES={:#x}", machine.local_bytes));
            defines.push(format!("-DNF_ENGINE_SUMS={}", u8::from(machine.sums.is_some())));
            defines.push(format!("-DNF_ENGINE_CRCS={}", u8::from(machine.crcs.is_some())));
        }
    }
    let gcc = || {
        let mut gcc = Command::new(GCC);
        gcc.current_dir(dir.path()).stdin(Stdio::null()).env("LC_ALL", "C");
        gcc
    };
    let run = |mut command: Command| {
        let ran = command.output().map_err(BuildError::NoCompiler)?;
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        if ran.status.success() {
            return Ok(());
        }
        Err(overflow(&text).unwrap_or_else(|| BuildError::Refused(text.trim_end().to_string())))
    };
    let mut preprocess = gcc();
    preprocess.args(["-E", "-P", "-undef", "-x", "c"]).args(&defines).args([
        "link.ld.in",
        "-o",
        "link.ld",
    ]);
    run(preprocess)?;
    let mut flags: Vec<String> =
        FLAGS.iter().chain(own).chain(&["-fno-strict-aliasing"]).map(ToString::to_string).collect();
    flags.extend(GCC_FLAGS.map(String::from));
    flags.extend(defines.iter().cloned());
    flags.extend(["-I.", "-isystem", "spin/include", "-isystem"].map(String::from));
    flags.push(library.join("include").display().to_string());
    let (machine, parts) = match artifact.cores {
        Cores::Spin => (SPIN, &["start.S", "nf_memory.c", "nf_tables.c", "runtime.c"][..]),
        Cores::Panic => (PANIC, &["start.S", "nf_memory.c", "nf_tables.c"][..]),
    };
    let files = [COMMON, machine].concat();
    for part in parts {
        let bytes = object(GCC, part, &flags, &files).map_err(|error| match error {
            NoObject::Start(source) => BuildError::NoCompiler(source),
            NoObject::Refused(_, messages) => {
                BuildError::Refused(String::from_utf8_lossy(&messages).trim_end().to_string())
            }
            NoObject::Host(error) => BuildError::Refused(error.to_string()),
        })?;
        let path = dir.path().join(object_of(part));
        std::fs::write(&path, bytes).map_err(io(path))?;
    }
    let mut compile = gcc();
    compile.args(&flags).args([
        "-nostartfiles",
        "-nostdlib",
        "-Wl,--gc-sections,--undefined=nf_layout,--defsym=vfprintf=__i_vfprintf",
    ]);
    // The host reads where records end, also of programs that write none.
    if artifact.cores == Cores::Spin {
        compile.arg("-Wl,--undefined=nf_ring_at");
    }
    compile.arg("-Wl,--undefined=nf_worker_at");
    compile.args(["-T", "link.ld", "-fstack-usage", "-dumpbase", "image", "-dumpbase-ext", ""]);
    compile.arg(format!("stage_{stage}.c"));
    compile.args(parts.iter().map(|part| object_of(part)));
    compile.arg("-L").arg(library.join("lib/rv32imac/ilp32"));
    compile.args([
        "-Wl,--start-group",
        "-lc",
        "-lm",
        "-lgcc",
        "-Wl,--end-group",
        "-o",
        "image.elf",
    ]);
    run(compile)?;
    let path = dir.path().join(format!("image-stage_{stage}.su"));
    let usage = std::fs::read_to_string(&path).map_err(io(path))?;
    check_stack(&usage, artifact.cores, target)?;
    let path = dir.path().join("image.elf");
    let elf = std::fs::read(&path).map_err(io(path))?;
    let image = riscv::parse(&elf).map_err(BuildError::Image)?;
    Ok((elf, image))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
    type Set = unsafe extern "C" fn(*mut u8, i32, usize) -> *mut u8;
    type Compare = unsafe extern "C" fn(*const u8, *const u8, usize) -> i32;

    /// The memory functions of bare cores, compiled for this machine, at all places of a word.
    #[test]
    fn words_do_what_bytes_do() {
        let dir = tempfile::tempdir().expect("a folder");
        let (source, library) = (dir.path().join("memory.c"), dir.path().join("memory.so"));
        let (_, text) =
            COMMON.iter().find(|(name, _)| *name == "nf_memory.c").expect("it is there");
        std::fs::write(&source, text).expect("a file");
        let renamed = ["cpy", "move", "set", "cmp"].map(|word| format!("-Dmem{word}=nf_mem{word}"));
        let made = Command::new("gcc")
            .args(["-O2", "-shared", "-fPIC", "-fno-builtin"])
            .args(renamed)
            .arg(&source)
            .arg("-o")
            .arg(&library)
            .status();
        assert!(made.expect("gcc runs").success());
        // SAFETY: what was just compiled, with the types of the C library.
        let library = unsafe { libloading::Library::new(&library) }.expect("a library");
        let (copy, shift, set, compare) = unsafe {
            (
                *library.get::<Copy>(b"nf_memcpy\0").expect("memcpy"),
                *library.get::<Copy>(b"nf_memmove\0").expect("memmove"),
                *library.get::<Set>(b"nf_memset\0").expect("memset"),
                *library.get::<Compare>(b"nf_memcmp\0").expect("memcmp"),
            )
        };
        let bytes: Vec<u8> = (0..128u32).map(|at| (at * 37 + 11) as u8).collect();
        for size in 0..50 {
            for (from, to) in (0..9).flat_map(|from| (0..9).map(move |to| (from, to))) {
                let (mut copied, mut moved, mut filled) = ([0; 64], bytes.clone(), bytes.clone());
                let mut want = bytes.clone();
                // SAFETY: every range lies within its array.
                unsafe {
                    copy(copied.as_mut_ptr().add(to), bytes.as_ptr().add(from), size);
                    shift(moved.as_mut_ptr().add(to), moved.as_ptr().add(from), size);
                    set(filled.as_mut_ptr().add(to), 0x1a5, size);
                }
                assert_eq!(copied[to..to + size], bytes[from..from + size]);
                assert!(copied[..to].iter().chain(&copied[to + size..]).all(|byte| *byte == 0));
                want.copy_within(from..from + size, to);
                assert_eq!(moved, want, "{size} bytes from {from} to {to}");
                want.copy_from_slice(&bytes);
                want[to..to + size].fill(0xa5);
                assert_eq!(filled, want);
                // SAFETY: as above.
                let order = unsafe { compare(bytes[from..].as_ptr(), bytes[to..].as_ptr(), size) };
                let known = bytes[from..from + size].cmp(&bytes[to..to + size]);
                assert_eq!(order.cmp(&0), known);
            }
        }
    }
}
