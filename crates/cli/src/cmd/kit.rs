//! `nicforge kit`: what tests a target where its hardware is: code, packets, expected outputs and a
//! runner that needs nothing but Python.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nicforge_run::exec::Device;

use crate::args::{Args, Command, Inputs, Kit, Source};
use crate::backend::{self, Chosen};
use crate::context::{Failure, Runtime};
use crate::{by_target, events, program};

/// Compares what a command answers with what is expected; written into every kit.
const RUNNER: &str = include_str!("../../../../runtime/kit/run.py");
const README: &str = include_str!("../../../../runtime/kit/README.md");

/// Writes the kit.
pub fn run(args: &Kit) -> Result<(), Failure> {
    let Some(chosen) = backend::find(&args.target)? else {
        return Err(Failure::usage(
            "the interpreter is the reference; a kit is for another target",
        ));
    };
    let name = &chosen.target.name;
    let folder = args.output.clone().unwrap_or_else(|| format!("kit-{name}").into());
    if folder.exists() {
        let message = format!(
            "{}: there is something already; name another folder with -o",
            folder.display()
        );
        return Err(Failure::user(message));
    }
    let mut written = Vec::new();
    for program in &args.programs {
        written.push(one(&chosen, &args.target, program, &folder)?);
    }
    let command = chosen.target.toolchain.as_ref().map_or("", |made| made.run.as_str());
    let runner = folder.join("run.py");
    write(&runner, RUNNER)?;
    std::fs::set_permissions(&runner, std::fs::Permissions::from_mode(0o755))
        .map_err(|e| Failure::user(format!("{}: {e}", runner.display())))?;
    write(&folder.join("README.md"), &README.replace("TARGET", name).replace("COMMAND", command))?;
    outln!(
        "wrote {}: {} for {name}; its README.md says how to run it",
        folder.display(),
        written.join(", ")
    );
    Ok(())
}

/// Writes one program's folder; gives its name.
fn one(chosen: &Chosen, target: &str, path: &Path, kit: &Path) -> Result<String, Failure> {
    let runtime = Runtime::unpack()?;
    let source = Source { program: path.into(), ..Source::default() };
    let (loaded, subject) = by_target::pair(&source, &chosen.target, &runtime)?;
    let events = events::captures(&Inputs::default(), &loaded.program, &loaded.path)?;
    let entries = events::tables(&Inputs::default(), &loaded.program, &loaded.path)?;
    let lowered = program::lower(&subject)?;
    let device = Device::new(&lowered).map_err(|e| super::pipelines::failure(&lowered, e))?;
    let expected = device.expected(&loaded.program, &entries, &events).map_err(Failure::user)?;
    let name = loaded.program.name.clone();
    let folder = kit.join(&name);
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::user(format!("{}: {e}", folder.display())))?;
    write(&folder.join("input.txt"), &device.input(&events, &entries))?;
    write(&folder.join("expected.txt"), &expected)?;
    let code = folder.join("code");
    build(chosen, target, path, &code, &runtime)?;
    Ok(name)
}

/// Writes a program's code as `nicforge build` does.
fn build(
    chosen: &Chosen,
    target: &str,
    path: &Path,
    code: &Path,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let words = ["nicforge", "build", "--target", target, "-o"].map(std::ffi::OsString::from);
    let words = words.into_iter().chain([code.into(), "--".into(), path.into()]);
    let Ok(Args { command: Some(Command::Build(args)), .. }) =
        <Args as clap::Parser>::try_parse_from(words)
    else {
        return Err(Failure::usage("the folder or program has a name that no command takes"));
    };
    let source = Source { program: path.into(), ..Source::default() };
    let loaded = program::load(&source.on(&chosen.target), runtime)?;
    chosen.backend.build(&chosen.target, &args, &loaded, runtime)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| Failure::user(format!("{}: {e}", path.display())))
}
