//! Generated C from text fixtures: `xdp/NAME.air`, `host/NAME.air` and `xdp_stages/NAME.air`, whose
//! first line is the command, beside `NAME.expect.c`. Programs of several stages say on their
//! second line which those are.
//!
//! `NICFORGE_BLESS=1` rewrites what is expected. Every generated file must also compile with
//! `-Wall -Wextra -Werror`, for hosts by gcc and clang as C11.

use std::path::{Path, PathBuf};
use std::process::Command;

use nicforge_codegen::dpdk::{PipeStage, Pipeline, SteerBy, Steering};
use nicforge_codegen::{LineStyle, host, xdp};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fixtures(target: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(target);
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the fixtures' folder")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "air"))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// What compilers say against a source for hosts.
fn compile_host(source: &Path) -> Vec<String> {
    let mut refused = Vec::new();
    for (compiler, optimise) in [("gcc", "-O2"), (nicforge_clang::name(), "-O2"), ("gcc", "-O0")] {
        for define in ["-DNF_LIVE", "-DNF_COUNT"] {
            let output = Command::new(compiler)
                .args([
                    "-std=c11",
                    "-fno-strict-aliasing",
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-S",
                    "-o",
                    "/dev/null",
                    optimise,
                    define,
                ])
                .arg("-I")
                .arg(root().join("runtime/host"))
                .arg("-I")
                .arg(root().join("runtime/common"))
                .arg(source)
                .output()
                .unwrap_or_else(|e| panic!("{compiler}: {e}"));
            if !output.status.success() {
                refused.push(format!(
                    "{compiler} {define}: {}",
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
        }
    }
    refused
}

fn compile(source: &Path, mode: u32) -> Result<(), String> {
    let output = Command::new(nicforge_clang::name())
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-c"])
        .arg(format!("-DNF_MODE={mode}"))
        .arg("-I/usr/include/x86_64-linux-gnu")
        .arg("-I")
        .arg(root().join("runtime/xdp"))
        .arg(source)
        .args(["-o", "/dev/null"])
        .output()
        .expect("clang-19 runs");
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn program(path: &Path) -> nicforge_ir::Program {
    let text = std::fs::read_to_string(path).expect("a fixture");
    nicforge_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Compares generated text with what is expected, or blesses it; gives the path of the latter.
fn compare(path: &Path, source: &str, failures: &mut Vec<String>) -> PathBuf {
    let expect = path.with_extension("expect.c");
    if std::env::var_os("NICFORGE_BLESS").is_some() {
        std::fs::write(&expect, source).expect("the fixture's folder is writable");
    }
    let want = std::fs::read_to_string(&expect).unwrap_or_default();
    if want != source {
        failures.push(format!("{} differs:\n{source}", expect.display()));
    }
    expect
}

#[test]
fn host_fixtures() {
    let mut failures = Vec::new();
    for path in fixtures("host") {
        let artifact = host::generate(&program(&path), LineStyle::Comments)
            .expect("the program fits a process");
        let expect = compare(&path, &artifact.source, &mut failures);
        failures.extend(compile_host(&expect));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The pipeline that a fixture's second line describes: `// stages HANDLER REPLICAS [by PARAMETER],
/// ...`.
fn pipeline(path: &Path, program: &nicforge_ir::Program) -> Pipeline {
    let text = std::fs::read_to_string(path).expect("a fixture");
    let line =
        text.lines().find_map(|line| line.strip_prefix("// stages ")).expect("a line of stages");
    let (mut stages, mut steering) = (Vec::new(), Vec::new());
    for part in line.split(", ") {
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

#[test]
fn xdp_stages_fixtures() {
    let mut failures = Vec::new();
    for path in fixtures("xdp_stages") {
        let program = program(&path);
        let pipeline = pipeline(&path, &program);
        let artifact = xdp::generate_pipeline(&program, &pipeline, LineStyle::Comments)
            .expect("the stages fit xdp");
        let expect = compare(&path, &artifact.source, &mut failures);
        for mode in 0..2 {
            if let Err(message) = compile(&expect, mode) {
                failures.push(format!(
                    "{} does not compile in mode {mode}:\n{message}",
                    expect.display()
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn xdp_fixtures() {
    let mut failures = Vec::new();
    for path in fixtures("xdp") {
        let artifact =
            xdp::generate(&program(&path), LineStyle::Comments).expect("the program fits xdp");
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let others = artifact.source.others.iter().zip(["framed", "forgetful"]);
        let others =
            others.map(|(text, form)| (path.with_file_name(format!("{stem}.{form}.air")), text));
        for (path, text) in std::iter::once((path.clone(), &artifact.source.plain)).chain(others) {
            let expect = compare(&path, text, &mut failures);
            for mode in 0..3 {
                if let Err(message) = compile(&expect, mode) {
                    failures.push(format!(
                        "{} does not compile in mode {mode}:\n{message}",
                        expect.display()
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
