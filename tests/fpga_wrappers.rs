//! The wrappers of `rtl/` around a generated design: lint, and packets through the MAC's, in
//! Icarus.

use std::path::PathBuf;
use std::process::Command;

use nicforge_codegen::rtl::Wanted;
use nicforge_passes::PassManager;
use nicforge_run::rtl::RtlProgram;
use nicforge_tests::example::Example;
use nicforge_tests::{root, verilator_is_missing};

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
    let example = Example::load(root().join("examples/l2_forward"));
    let compiled =
        PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{e}"));
    let folder = tempfile::tempdir().unwrap();
    design.write(folder.path()).unwrap_or_else(|e| panic!("{e}"));
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
