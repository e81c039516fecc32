//! `nicforge build`: a program to αIR, generated C or an object.

use nicforge_driver::backend::{self, Product};
use nicforge_driver::options::Source;
use nicforge_driver::program::{self, pass_failure};
use nicforge_driver::{Failure, Runtime};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{Program, Verified};
use nicforge_passes::fuse::fuse;
use nicforge_passes::{PassManager, registry};
use nicforge_run::attach::AttachError;

use super::synth;
use crate::args::{Build, Emit};
use crate::{out, text};

/// Compiles as far as asked and writes the result.
pub fn run(args: Build) -> Result<(), Failure> {
    let known = |name: &String| name == "all" || registry::pass_named(name).is_some();
    if let Some(unknown) = args.print_after.iter().find(|name| !known(name)) {
        return Err(Failure::usage(format!(
            "--print-after {unknown}: there is no such pass; see --list-passes"
        )));
    }
    if args.list_passes {
        let rows: Vec<Vec<String>> = registry::PASSES
            .iter()
            .map(|pass| vec![pass.name().to_string(), pass.description().to_string()])
            .collect();
        out::text(&text::table(&["pass", "what it does"], &rows));
        return Ok(());
    }
    let runtime = Runtime::unpack()?;
    let source = Source {
        program: args.source.program.clone().unwrap_or_default(),
        define: args.source.define.clone(),
        include: args.source.include.clone(),
        with: args.source.with.clone(),
        function: args.source.function.clone(),
        loader: args.source.loader.clone(),
    };
    let chosen = backend::find(&args.target)?;
    let source = match &chosen {
        Some(on) => source.on(&on.target),
        None => source,
    };
    let loaded = program::load(&source, &runtime)?;
    out::notes(&loaded.warnings);
    if args.emit == Emit::Air {
        return write(&args, print(&loaded.program, PrintOptions { spans: false }).as_bytes());
    }

    if args.emit == Emit::Host {
        return host(&args, &loaded.program);
    }
    let code = matches!(args.emit, Emit::C | Emit::Object);
    let hardware = chosen.as_ref().filter(|on| on.backend.is_hardware());
    match (&chosen, hardware) {
        (_, Some(on)) if args.synth => return synth::run(&on.target, &args, &loaded),
        (_, None) if args.synth => {
            return Err(Failure::usage("--synth is for designs: add --target u280"));
        }
        (Some(on), _) if code => {
            let build = backend::Build {
                planned: &args.planned,
                text: args.emit == Emit::C,
                output: args.output.as_ref(),
                passes: &|program| passes(&args, program),
            };
            return match on.backend.build(&on.target, &build, &loaded, &runtime)? {
                Product::Text(text) => write(&args, text.as_bytes()),
                Product::Written(path, note) => {
                    let note = note.map_or(String::new(), |note| format!(": {note}"));
                    outln!("wrote {}{note}", path.display());
                    Ok(())
                }
            };
        }
        _ => {}
    }
    let compiled = passes(&args, loaded.program)?;
    if code {
        return Err(Failure::usage(
            "the interpreter runs αIR as it is: use --emit air or --emit passes",
        ));
    }
    write(&args, print(&compiled, PrintOptions { spans: false }).as_bytes())
}

/// The program after the passes that were asked for, or a target's own; prints what was asked for
/// of them.
fn passes(args: &Build, program: Verified<Program>) -> Result<Verified<Program>, Failure> {
    let wanted = |pass: &str| args.print_after.iter().any(|name| name == pass || name == "all");
    let mut manager = PassManager::new();
    manager.print_after(|pass, program| {
        if wanted(pass) {
            errln!("// after {pass}\n{}", print(program, PrintOptions { spans: false }));
        }
    });
    let compiled = match &args.passes {
        Some(names) => manager.run(program, &names.iter().map(String::as_str).collect::<Vec<_>>()),
        None => fuse(program).and_then(|program| manager.run_default(program)),
    }
    .map_err(pass_failure)?;
    if args.time_passes {
        let rows: Vec<Vec<String>> = manager
            .times()
            .iter()
            .map(|t| {
                vec![
                    t.pass.to_string(),
                    t.runs.to_string(),
                    format!("{:.2}", t.total.as_secs_f64() * 1e3),
                ]
            })
            .collect();
        out::notes(&text::table(&["pass", "runs", "ms"], &rows));
    }
    Ok(compiled)
}

/// A folder with the program's header for its host side and what it includes.
fn host(args: &Build, program: &Program) -> Result<(), Failure> {
    let Some(header) = nicforge_codegen::attach::header(program) else {
        let reason = AttachError::Nothing(program.name.clone());
        return Err(Failure::of(reason.fault(), reason));
    };
    let folder = args.output.clone().unwrap_or_else(|| format!("{}_host", program.name).into());
    let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", folder.display()));
    let runtime = Runtime::whole()?;
    std::fs::create_dir_all(&folder).map_err(fail)?;
    let own = format!("{}_host.h", program.name);
    std::fs::write(folder.join(&own), header).map_err(fail)?;
    for name in ["nf_attach.h", "nf_link.h"] {
        std::fs::copy(runtime.path().join("host").join(name), folder.join(name)).map_err(fail)?;
    }
    outln!("wrote {}", folder.join(own).display());
    Ok(())
}

/// Writes to the file that was asked for, or to standard output.
fn write(args: &Build, bytes: &[u8]) -> Result<(), Failure> {
    match &args.output {
        Some(path) => std::fs::write(path, bytes)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display()))),
        None => {
            out::bytes(bytes);
            Ok(())
        }
    }
}
