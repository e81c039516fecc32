//! A compiled program for the demo: from source to shared object and text, and back in a side.

use std::path::{Path, PathBuf};

use nicforge_driver::options::{Inputs, Source};
use nicforge_driver::program::{check, load, lower};
use nicforge_driver::{Failure, Runtime, events};
use nicforge_ir::text;
use nicforge_run::balance::program::{Compiled, Requests};
use nicforge_run::control;
use nicforge_run::host::{HostProgram, Watch};

use crate::out;

/// Compiles a program once for both sides into `folder`: its requests, and the arguments by which a
/// side finds it.
pub fn prepare(
    path: &Path,
    inputs: &Inputs,
    folder: &Path,
) -> Result<(Requests, Vec<String>), Failure> {
    let source = Source { program: path.to_path_buf(), ..Source::default() };
    let loaded = load(&source, &Runtime::unpack()?)?;
    out::notes(&loaded.warnings);
    let program = lower(&loaded.program)?;
    let entries = events::tables(inputs, &program, &loaded.path)?;
    let capture = events::captures(inputs, &program, &loaded.path)?;
    let requests =
        Requests::prepare(&program, &entries, &capture).map_err(|e| Failure::of(e.fault(), e))?;
    let (text_path, object) = (folder.join("program.air"), folder.join("program.so"));
    let watch = if requests.stateful() { Watch::Keys } else { Watch::Nothing };
    HostProgram::compile(&program, watch, &object).map_err(|e| Failure::of(e.fault(), e))?;
    let printed = text::print(&program, text::PrintOptions { spans: false });
    std::fs::write(&text_path, printed)
        .map_err(|e| Failure::environment(format!("{}: {e}", text_path.display())))?;
    let mut arguments = vec!["--program".to_string(), text_path.display().to_string()];
    arguments.extend(["--object".to_string(), object.display().to_string()]);
    let tables = events::tables_file(inputs, &loaded.path);
    arguments.extend(
        tables.iter().flat_map(|file| ["--tables".to_string(), file.display().to_string()]),
    );
    Ok((requests, arguments))
}

/// Reads what [`prepare`] wrote, in a side.
pub fn read(path: &Path, objects: &[PathBuf], inputs: &Inputs) -> Result<Compiled, Failure> {
    let place = |e: &dyn std::fmt::Display| Failure::user(format!("{}: {e}", path.display()));
    let [object] = objects else { return Err(Failure::usage("--program needs one --object")) };
    let content = std::fs::read_to_string(path).map_err(|e| place(&e))?;
    let program = check(text::parse(&content).map_err(|e| place(&e.message))?)?;
    let entries =
        inputs.tables.as_ref().map(|file| control::load_tables(&program, file)).transpose();
    let entries = entries.map_err(|e| Failure::of(e.fault(), e))?.unwrap_or_default();
    Ok(Compiled { program, entries, object: object.clone() })
}
