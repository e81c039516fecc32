//! `tests/fixtures/NAME.air`, each with a test for every generator whose text is looked at:
//! `// test: compile xdp`, `host`, `nfp` or `rtl`; or as a pipeline of stages,
//! `// test: compile xdp stages HANDLER REPLICAS [by PARAMETER], …`.
//!
//! C must also compile with `-Wall -Wextra -Werror`, for hosts by gcc and clang as C11.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nicforge_codegen::dpdk::{PipeStage, Pipeline, SteerBy, Steering};
use nicforge_codegen::{LineStyle, Unsupported, host, nfp, rtl, xdp};
use nicforge_filetest::{Made, Test, fixtures, root};
use nicforge_ir::{Program, Verified};

/// A folder of the runtime as an argument of a compiler.
fn include(folder: &str) -> String {
    format!("-I{}", root().join("runtime").join(folder).display())
}

/// Compiles a text to nothing; fails with what the compiler says against it.
fn compile(compiler: &str, arguments: &[String], text: &str) -> Result<(), String> {
    let mut child = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-x", "c", "-", "-o", "/dev/null"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{compiler}: {e}"))?;
    let sent = child.stdin.take().expect("a pipe").write_all(text.as_bytes());
    let output = child.wait_with_output().map_err(|e| format!("{compiler}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && sent.is_ok() {
        return Ok(());
    }
    Err(format!("{compiler} {}: {said}", arguments.join(" ")))
}

fn compile_host(text: &str) -> Result<(), String> {
    for (compiler, optimise) in [("gcc", "-O2"), (nicforge_clang::name(), "-O2"), ("gcc", "-O0")] {
        for define in ["-DNF_LIVE", "-DNF_COUNT"] {
            let mut arguments: Vec<String> =
                ["-std=c11", "-fno-strict-aliasing", "-S", optimise, define]
                    .map(String::from)
                    .to_vec();
            arguments.extend(["host", "common"].map(include));
            compile(compiler, &arguments, text)?;
        }
    }
    Ok(())
}

fn compile_bpf(text: &str, modes: u32) -> Result<(), String> {
    for mode in 0..modes {
        let mut arguments: Vec<String> =
            ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c", "-I/usr/include/x86_64-linux-gnu"]
                .map(String::from)
                .to_vec();
        arguments.extend([format!("-DNF_MODE={mode}"), include("xdp")]);
        compile(nicforge_clang::name(), &arguments, text)?;
    }
    Ok(())
}

fn made(ending: &str, text: &str) -> Made {
    Made { ending: ending.into(), text: text.into() }
}

fn said(errors: Vec<Unsupported>) -> String {
    errors[0].message.clone()
}

/// The pipeline of `HANDLER REPLICAS [by PARAMETER], …`.
fn pipeline(words: &[&str], program: &Program) -> Pipeline {
    let (mut stages, mut steering) = (Vec::new(), Vec::new());
    for part in words.join(" ").split(", ") {
        let words: Vec<&str> = part.split(' ').collect();
        let handler = program.handlers.iter().find(|(_, h)| h.name == words[0]).expect("a handler");
        let replicas = words[1].parse().expect("a number of replicas");
        stages.push(PipeStage {
            handlers: vec![handler.0],
            replicas,
            ordered: false,
            locked: false,
        });
        if let [_, _, "by", param] = words[..] {
            let event = handler.1.event;
            let by = match param.split_once('+') {
                Some((offset, bytes)) => SteerBy::Frame(vec![(
                    offset.parse().expect("offset"),
                    bytes.parse().expect("bytes"),
                )]),
                None => {
                    let at = program.events[event].params.iter().position(|p| p.name == param);
                    SteerBy::Params(vec![(at.expect("a parameter"), vec![])])
                }
            };
            steering.push(Steering { event, by });
        }
    }
    Pipeline { stages, steering, ordered_output: false, context: Default::default() }
}

/// The program in the kernel; with other frames and without memory of tables, too.
fn kernel(program: &Verified<Program>) -> Result<Vec<Made>, String> {
    let artifact = xdp::generate(program, LineStyle::Comments).map_err(said)?;
    let others = artifact.source.others.iter().zip(["xdp.framed.c", "xdp.forgetful.c"]);
    let others = others.map(|(text, ending)| made(ending, text));
    let all: Vec<Made> =
        std::iter::once(made("xdp.c", &artifact.source.plain)).chain(others).collect();
    all.iter().try_for_each(|made| compile_bpf(&made.text, 3))?;
    Ok(all)
}

fn stages(program: &Verified<Program>, words: &[&str]) -> Result<Vec<Made>, String> {
    let pipeline = pipeline(words, program);
    let artifact = xdp::generate_pipeline(program, &pipeline, LineStyle::Comments).map_err(said)?;
    compile_bpf(&artifact.source.plain, 2)?;
    Ok(vec![made("xdp.c", &artifact.source.plain)])
}

fn process(program: &Verified<Program>) -> Result<Vec<Made>, String> {
    let artifact = host::generate(program, LineStyle::Comments).map_err(said)?;
    compile_host(&artifact.source)?;
    Ok(vec![made("host.c", &artifact.source)])
}

/// The file of a set of generated ones that has the handlers.
fn handlers(files: &[(String, String)], name: &str, ending: &str) -> Result<Vec<Made>, String> {
    let text = &files.iter().find(|(file, _)| file == name).ok_or(format!("no {name}"))?.1;
    Ok(vec![made(ending, text)])
}

fn engines(program: &Verified<Program>) -> Result<Vec<Made>, String> {
    let placement = nfp::Placement {
        memories: program.tables.keys().map(|_| "ctm".to_string()).collect(),
        units: vec![vec!["me.0".to_string()]],
        ..Default::default()
    };
    let one = Pipeline::single(program);
    let lines = LineStyle::Comments;
    let artifact =
        nfp::generate(program, &one, &placement, nfp::Engines::Nfp, lines).map_err(said)?;
    handlers(&artifact.files, "nf_program.h", "nfp.h")
}

fn design(program: &Verified<Program>) -> Result<Vec<Made>, String> {
    let artifact = rtl::generate(program, rtl::Wanted::Best, 2).map_err(said)?;
    handlers(&artifact.files, "nf_handlers.sv", "sv")
}

fn run(test: &Test) -> Result<Vec<Made>, String> {
    let program = nicforge_ir::text::parse(test.text).map_err(|e| e.to_string())?;
    let program = nicforge_ir::verify(program).map_err(|errors| errors[0].to_string())?;
    match test.words[..] {
        ["compile", "xdp"] => kernel(&program),
        ["compile", "xdp", "stages", ref words @ ..] => stages(&program, words),
        ["compile", "host"] => process(&program),
        ["compile", "nfp"] => engines(&program),
        ["compile", "rtl"] => design(&program),
        _ => Err("a test here is `compile` with xdp, host, nfp or rtl".into()),
    }
}

#[test]
fn generated_code() {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures(&folder, "air", run);
}
