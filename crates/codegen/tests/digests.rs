//! What every generator makes of the programs of this repository, as lines and hash of the text;
//! of examples only where hardware is made.
//!
//! A change here is no mistake by itself: it says which generated code changed. Whether the code is
//! right is told by the tests that run it.

use std::path::Path;

use nicforge_codegen::dpdk::{self, Pipeline};
use nicforge_codegen::{LineStyle, Unsupported, host, nfp, rtl, spin, xdp};
use nicforge_filetest::{digest, expect_table, programs, root};
use nicforge_ir::{Program, Verified};
use nicforge_passes::PassManager;

/// The files of a program, joined.
type Made = Result<String, Vec<Unsupported>>;

fn joined(files: Vec<(String, String)>) -> String {
    files.into_iter().map(|(name, text)| format!("{name}\n{text}\n")).collect()
}

fn made(program: &Verified<Program>, in_hardware: bool) -> Vec<(&'static str, Made)> {
    let lines = LineStyle::Comments;
    let one = Pipeline::single(program);
    let engines = |engines| {
        let placement = nfp::Placement {
            memories: program.tables.keys().map(|_| "ctm".to_string()).collect(),
            units: vec![vec!["me.0".to_string()]],
        };
        nfp::generate(program, &one, &placement, engines, lines).map(|made| joined(made.files))
    };
    let cores = |cores| spin::generate(program, &one, cores, lines).map(|made| joined(made.files));
    let hardware = |wanted| rtl::generate(program, wanted, 2).map(|made| joined(made.files));
    let mut list = vec![
        ("xdp", xdp::generate(program, lines).map(|made| made.source.plain + &made.source.others.concat())),
        ("host", host::generate(program, lines).map(|made| made.source)),
        ("dpdk", dpdk::generate(program, &one, lines).map(|made| made.source)),
        ("nfp", engines(nfp::Engines::Nfp)),
        ("threads", engines(nfp::Engines::Threads)),
        ("spin", cores(spin::Cores::Spin)),
        ("panic", cores(spin::Cores::Panic)),
    ];
    if in_hardware {
        list.push(("pipe", hardware(rtl::Wanted::Best)));
        list.push(("engine", hardware(rtl::Wanted::Engine)));
    }
    list
}

#[test]
fn generated_code_is_the_same() {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let mut lines = Vec::new();
    for (name, path) in programs() {
        let Ok(output) = nicforge_frontend::compile(&path, &options) else { continue };
        let program = nicforge_ir::verify(output.program).unwrap_or_else(|e| panic!("{name}: {}", e[0]));
        let program = PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{name}: {e}"));
        let example = path.starts_with(root().join("examples"));
        for (target, made) in made(&program, example) {
            let said = match made {
                Ok(text) => digest(&text.replace(&*root().to_string_lossy(), "")),
                Err(errors) => format!("refused: {}", errors[0].message),
            };
            lines.push(format!("{name:40} {target:8} {said}"));
        }
    }
    expect_table(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests.txt"), &lines);
}
