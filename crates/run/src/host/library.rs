//! Generated C becomes a shared object in a directory of its own, which is gone when the process
//! has it.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use libloading::Library;

use super::error::HostError;
use super::ffi::{Dispatch, TableFunctions};
use super::files::{fresh_dir, refused, write_files};
use super::runtime::{object_of, write_object};
use super::{HostOptions, Watch};
use crate::compile::{Effort, warnings_with};
use crate::pkgconfig;
use crate::temp::Folder;
use crate::units::{self, Around, Language, Unit};

/// What generated C includes and links.
pub const RUNTIME: [(&str, &str); 9] = [
    ("nf_abi.h", include_str!("../../../../runtime/common/nf_abi.h")),
    ("nf_table_core.h", include_str!("../../../../runtime/common/nf_table_core.h")),
    ("nf_math.h", include_str!("../../../../runtime/common/nf_math.h")),
    ("nf_crypto.h", include_str!("../../../../runtime/common/nf_crypto.h")),
    ("nf_rt.h", include_str!("../../../../runtime/host/nf_rt.h")),
    ("nf_tables.h", include_str!("../../../../runtime/host/nf_tables.h")),
    ("nf_lpm.h", include_str!("../../../../runtime/host/nf_lpm.h")),
    ("nf_masks.h", include_str!("../../../../runtime/host/nf_masks.h")),
    ("nf_tables.c", include_str!("../../../../runtime/host/nf_tables.c")),
];

/// What those include of the system's.
const HEADERS: &str =
    "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n";

/// A loaded program.
pub struct Loaded {
    pub dispatch: Dispatch,
    pub tables: TableFunctions,
    /// Keeps the code mapped; last, so that it goes last.
    _library: Library,
}

/// Compiles and loads.
pub fn load(source: &str, options: &HostOptions) -> Result<Loaded, HostError> {
    let dir = fresh_dir()?;
    let object = dir.path().join("program.so");
    compile(source, options, &object)?;
    open(&object)
}

/// Compiles to a shared object. What was compiled last is written again: whoever measures runs one
/// program several times.
pub fn compile(source: &str, options: &HostOptions, object: &Path) -> Result<(), HostError> {
    static LAST: Mutex<Option<(Unit, Vec<u8>)>> = Mutex::new(None);
    let io = |source| HostError::Io { path: object.to_path_buf(), source };
    let unit = unit(source, options);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, bytes)) = &*last
        && *of == unit
    {
        return std::fs::write(object, bytes).map_err(io);
    }
    drop(last);
    clang(&unit, object)?;
    let bytes = std::fs::read(object).map_err(io)?;
    last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    *last = Some((unit, bytes));
    Ok(())
}

fn clang(unit: &Unit, object: &Path) -> Result<(), HostError> {
    let dir = fresh_dir()?;
    write_object(dir.path(), "nf_tables.c", &unit.flags, &RUNTIME)?;
    let dir = object_of_unit(dir, unit, Around { files: &RUNTIME, headers: "" })?;
    let linking = ["-shared", "program.o", "nf_tables.o", "-o", "program.so"].map(String::from);
    let ciphers = unit.files.iter().find_map(|(_, source)| pkgconfig::ciphers(source));
    let linking = [&linking[..], &ciphers.unwrap_or_default()].concat();
    let ran = units::link(dir.path(), &linking).map_err(HostError::no_compiler)?;
    if !ran.status.success() {
        return Err(refused(dir, nicforge_clang::name(), &ran.stderr));
    }
    let copied = std::fs::copy(dir.path().join("program.so"), object);
    copied.map(|_| ()).map_err(|source| HostError::Io { path: object.to_path_buf(), source })
}

/// A program with how it is compiled.
fn unit(source: &str, options: &HostOptions) -> Unit {
    let main = "program.c".to_string();
    let mut flags = flags(options);
    flags.extend(pkgconfig::ciphers_flag(source));
    Unit { flags, main: main.clone(), files: vec![(main, source.to_string())] }
}

/// Compiles several programs ahead of [`compile`].
pub fn compile_ahead(sources: &[&str], options: &HostOptions) -> std::io::Result<()> {
    let units = sources.iter().map(|source| unit(source, options)).collect();
    units::ahead(units, Around { files: &RUNTIME, headers: HEADERS })
}

/// Writes a unit's object into a folder; of what clang refuses the folder is kept.
pub fn object_of_unit(dir: Folder, unit: &Unit, around: Around) -> Result<Folder, HostError> {
    let object = object_of(&unit.main);
    if let Some(bytes) = units::taken(unit) {
        let path = dir.path().join(object);
        std::fs::write(&path, bytes).map_err(|source| HostError::Io { path, source })?;
        return Ok(dir);
    }
    write_files(dir.path(), around.files)?;
    let own: Vec<(&str, &str)> =
        unit.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    write_files(dir.path(), &own)?;
    let mut clang = Command::new(nicforge_clang::name());
    clang.current_dir(dir.path()).args(&unit.flags);
    if !around.headers.is_empty() {
        clang.args(units::read_once(&unit.flags, Language::C, around.headers));
    }
    clang.args(["-c", &unit.main, "-o", &object]);
    let ran = clang.output().map_err(HostError::no_compiler)?;
    if ran.status.success() {
        Ok(dir)
    } else {
        Err(refused(dir, nicforge_clang::name(), &ran.stderr))
    }
}

fn flags(options: &HostOptions) -> Vec<String> {
    let optimise = match options.effort {
        Effort::Full => "-O2",
        Effort::Little => "-O0",
    };
    let mut flags =
        vec!["-std=c11", optimise, "-fPIC", "-fno-color-diagnostics", "-fno-strict-aliasing"];
    flags.extend(warnings_with(options.effort));
    match options.watch {
        Watch::Nothing => {}
        Watch::Counts => flags.push("-DNF_COUNT"),
        Watch::Keys => flags.push("-DNF_KEYS"),
    }
    if cfg!(target_arch = "x86_64") {
        // Every x86-64 machine of the last fifteen years has the CRC instruction that nf_hash is
        // made of.
        flags.push("-msse4.2");
    }
    flags.into_iter().map(String::from).collect()
}

/// Loads what [`compile`] made.
pub fn open(path: &Path) -> Result<Loaded, HostError> {
    let problem = |error: libloading::Error| HostError::Load { reason: error.to_string() };
    // SAFETY: the object was compiled by [`compile`] from generated code, which has no
    // initialisers; the types of the functions are those of the runtime's headers.
    unsafe {
        let library = Library::new(path).map_err(problem)?;
        macro_rules! function {
            ($name:literal) => {
                *library.get($name).map_err(problem)?
            };
        }
        Ok(Loaded {
            dispatch: function!(b"nf_dispatch\0"),
            tables: TableFunctions {
                new: function!(b"nf_table_new\0"),
                free: function!(b"nf_table_free\0"),
                get: function!(b"nf_table_get\0"),
                put: function!(b"nf_table_put\0"),
                remove: function!(b"nf_table_remove\0"),
                next: function!(b"nf_table_next\0"),
                key: function!(b"nf_table_key\0"),
                detail: function!(b"nf_table_detail\0"),
                value: function!(b"nf_table_value\0"),
                refused: function!(b"nf_table_refused\0"),
                evicted: function!(b"nf_table_evicted\0"),
            },
            _library: library,
        })
    }
}
