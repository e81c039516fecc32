//! `nicforge build`: a program to αIR, generated C or an object.

use nicforge_codegen::nfp::Engines;
use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::Program;
use nicforge_ir::text::{PrintOptions, print};
use nicforge_passes::fuse::fuse;
use nicforge_passes::{PassManager, registry};
use nicforge_run::attach::AttachError;
use nicforge_run::compile::{Mode, compile_bpf};
use nicforge_run::dpdk::DpdkProgram;

use crate::args::{Build, Emit, Source, Target};
use crate::context::{Failure, Runtime};
use crate::program::{self, pass_failure, unsupported};
use crate::{out, text};

/// Compiles as far as asked and writes the result.
pub fn run(args: Build) -> Result<(), Failure> {
    let wanted: Vec<&str> = args.print_after.iter().map(String::as_str).collect();
    if let Some(unknown) = wanted.iter().find(|name| **name != "all" && registry::pass_named(name).is_none())
    {
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
    };
    let source = match args.target {
        Target::Interp => source,
        target => source.on_named(target.name())?,
    };
    let loaded = program::load(&source, &runtime)?;
    out::notes(&loaded.warnings);
    if args.emit == Emit::Air {
        return write(&args, print(&loaded.program, PrintOptions { spans: false }).as_bytes());
    }

    if args.emit == Emit::Host {
        return host(&args, &loaded.program, &runtime);
    }
    if args.synth {
        return super::synth::run(&args, &loaded);
    }
    if args.target == Target::U280 && matches!(args.emit, Emit::C | Emit::Object) {
        return super::fpga::build(&args, &loaded);
    }
    if args.target.is_planned() && matches!(args.emit, Emit::C | Emit::Object) {
        return dpdk(&args, &loaded);
    }

    let job = if args.target == Target::Xdp && matches!(args.emit, Emit::C | Emit::Object) {
        super::pipelines::xdp(&args.planned, &loaded.program)?
    } else {
        None
    };

    let mut manager = PassManager::new();
    manager.print_after(|pass, program| {
        if wanted.contains(&pass) || wanted.contains(&"all") {
            errln!("// after {pass}\n{}", print(program, PrintOptions { spans: false }));
        }
    });
    let compiled = match &args.passes {
        Some(names) => manager.run(loaded.program, &names.iter().map(String::as_str).collect::<Vec<_>>()),
        None => fuse(loaded.program).and_then(|program| manager.run_default(program)),
    }
    .map_err(pass_failure)?;
    if args.time_passes {
        let rows: Vec<Vec<String>> = manager
            .times()
            .iter()
            .map(|t| {
                vec![t.pass.to_string(), t.runs.to_string(), format!("{:.2}", t.total.as_secs_f64() * 1e3)]
            })
            .collect();
        out::notes(&text::table(&["pass", "runs", "ms"], &rows));
    }
    if args.emit == Emit::Passes {
        return write(&args, print(&compiled, PrintOptions { spans: false }).as_bytes());
    }
    if args.target == Target::Interp {
        return Err(Failure::usage("the interpreter runs αIR as it is: use --emit air or --emit passes"));
    }
    let lines = if args.emit == Emit::C { LineStyle::Comments } else { LineStyle::Directives };
    let artifact = match job {
        Some(job) => super::pipelines::xdp_artifact(&job, lines)?,
        None => xdp::generate(&compiled, lines).map_err(|e| unsupported(&compiled, &e))?,
    };
    if args.emit == Emit::C {
        return write(&args, artifact.source.as_bytes());
    }
    let object = compile_bpf(&compiled.name, &artifact.source, Mode::Live, &runtime.target_headers("xdp"))
        .map_err(|e| Failure::of(e.fault(), e))?;
    let path = args.output.clone().unwrap_or_else(|| format!("{}.o", compiled.name).into());
    std::fs::write(&path, object).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    outln!("wrote {}", path.display());
    Ok(())
}

/// A folder with the program's header for its host side and what it includes.
fn host(args: &Build, program: &Program, runtime: &Runtime) -> Result<(), Failure> {
    let Some(header) = nicforge_codegen::attach::header(program) else {
        let reason = AttachError::Nothing(program.name.clone());
        return Err(Failure::of(reason.fault(), reason));
    };
    let folder = args.output.clone().unwrap_or_else(|| format!("{}_host", program.name).into());
    let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(fail)?;
    let own = format!("{}_host.h", program.name);
    std::fs::write(folder.join(&own), header).map_err(fail)?;
    for name in ["nf_attach.h", "nf_link.h"] {
        std::fs::copy(runtime.path().join("host").join(name), folder.join(name)).map_err(fail)?;
    }
    outln!("wrote {}", folder.join(own).display());
    Ok(())
}

/// The files of a program of engines: their text one behind the other, or a folder with them and their runtime.
fn engine_files(args: &Build, job: &super::pipelines::Job, engines: Engines) -> Result<(), Failure> {
    let app = job.engines(engines)?;
    if args.emit == Emit::C {
        let files = app.artifact().files.iter();
        let text: String = files.map(|(name, text)| format!("/* ---- {name} */\n{text}\n")).collect();
        return write(args, text.as_bytes());
    }
    let path = args.output.clone().unwrap_or_else(|| job.program.name.clone().into());
    std::fs::create_dir_all(&path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    app.write(&path).map_err(|e| super::pipelines::failure(&job.program, e))?;
    outln!("wrote {}", path.display());
    Ok(())
}

/// The files of a program for bare cores: their text, or a folder with them, what they include, and an image per stage.
fn bare_files(args: &Build, job: &super::pipelines::Job) -> Result<(), Failure> {
    let app = job.cores(args.target)?;
    if args.emit == Emit::C {
        let files = app.artifact().files.iter();
        let text: String = files.map(|(name, text)| format!("/* ---- {name} */\n{text}\n")).collect();
        return write(args, text.as_bytes());
    }
    let path = args.output.clone().unwrap_or_else(|| job.program.name.clone().into());
    std::fs::create_dir_all(&path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    app.write(&path).map_err(|e| super::pipelines::bare_failure(&job.program, e))?;
    outln!("wrote {}", path.display());
    Ok(())
}

/// The source of a DPDK application, or the application itself.
fn dpdk(args: &Build, loaded: &program::Loaded) -> Result<(), Failure> {
    let job = super::pipelines::job(args.target, &args.planned, &loaded.program)?;
    if let Some(engines) = args.target.engines() {
        return engine_files(args, &job, engines);
    }
    if args.target.is_bare() {
        return bare_files(args, &job);
    }
    let app = DpdkProgram::new_on(super::pipelines::machine(args.target), &job.program, &job.pipeline)
        .map_err(|e| super::pipelines::failure(&job.program, e))?;
    if args.emit == Emit::C {
        return write(args, app.artifact().source.as_bytes());
    }
    let built = app.path(false).map_err(|e| super::pipelines::failure(&job.program, e))?;
    let path = args.output.clone().unwrap_or_else(|| loaded.program.name.clone().into());
    std::fs::copy(built, &path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    outln!("wrote {}", path.display());
    Ok(())
}

fn write(args: &Build, bytes: &[u8]) -> Result<(), Failure> {
    match &args.output {
        Some(path) => {
            std::fs::write(path, bytes).map_err(|e| Failure::user(format!("{}: {e}", path.display())))
        }
        None => {
            out::bytes(bytes);
            Ok(())
        }
    }
}
