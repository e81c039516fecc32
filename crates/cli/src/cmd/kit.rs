//! `nicforge kit`: what tests a target where its hardware is: code, packets, expected outputs and a
//! runner that needs nothing but Python.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nicforge_driver::backend::{self, Chosen, Product};
use nicforge_driver::options::{Inputs, Planned, Source};
use nicforge_driver::{Failure, Runtime, by_target, events, program};
use nicforge_run::exec::Device;

use crate::args::Kit;

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
        written.push(one(&chosen, program, &folder)?);
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
fn one(chosen: &Chosen, path: &Path, kit: &Path) -> Result<String, Failure> {
    let runtime = Runtime::unpack()?;
    let source = Source { program: path.into(), ..Source::default() };
    let (loaded, subject) = by_target::pair(&source, &chosen.target, &runtime)?;
    let events = events::captures(&Inputs::default(), &loaded.program, &loaded.path)?;
    let entries = events::tables(&Inputs::default(), &loaded.program, &loaded.path)?;
    let lowered = program::lower(&subject)?;
    let device =
        Device::new(&lowered).map_err(|e| nicforge_driver::pipelines::failure(&lowered, e))?;
    let expected = device.expected(&loaded.program, &entries, &events).map_err(Failure::user)?;
    let name = loaded.program.name.clone();
    let folder = kit.join(&name);
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::user(format!("{}: {e}", folder.display())))?;
    write(&folder.join("input.txt"), &device.input(&events, &entries))?;
    write(&folder.join("expected.txt"), &expected)?;
    let code = folder.join("code");
    let own = program::load(&source.on(&chosen.target), &runtime)?;
    let build = backend::Build {
        planned: &Planned::default(),
        text: false,
        output: Some(&code),
        passes: &|program| program::lower(&program),
    };
    if let Product::Written(path, _) =
        chosen.backend.build(&chosen.target, &build, &own, &runtime)?
    {
        outln!("wrote {}", path.display());
    }
    Ok(name)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| Failure::user(format!("{}: {e}", path.display())))
}
