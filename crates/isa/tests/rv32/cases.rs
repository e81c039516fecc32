//! `cases.s`, assembled and linked by binutils, on the core and on qemu, whose answer says that the
//! cases are right.

use std::path::Path;
use std::process::Command;

use nicforge_isa::object::riscv;
use nicforge_isa::rv32::runner::Runner;
use nicforge_isa::rv32::{Decoder, Timing};

fn tool(name: &str, arguments: &[&Path]) {
    let output = Command::new(format!("riscv64-unknown-elf-{name}"))
        .args(if name == "as" {
            ["-march=rv32imac_zicsr", "-mabi=ilp32"]
        } else {
            ["-m", "elf32lriscv"]
        })
        .arg("-o")
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn instructions_give_what_the_manual_says() {
    if Command::new("riscv64-unknown-elf-as").arg("--version").output().is_err() {
        println!("skipped: riscv64-unknown-elf-as is missing: run scripts/bootstrap.sh");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (object, program) = (dir.path().join("cases.o"), dir.path().join("cases"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rv32/cases.s");
    tool("as", &[&object, &source]);
    tool("ld", &[&program, &object]);

    let image = riscv::parse(&std::fs::read(&program).unwrap()).unwrap();
    assert_eq!(image.symbol("_start").map(|symbol| symbol.address), Some(image.entry));
    let mut runner = Runner::new(&image, &Decoder::rv32imac(), &Timing::RI5CY).unwrap();
    assert_eq!(runner.run(100_000), Ok(0), "the number of a case, or zero");
    if let Ok(status) = Command::new("qemu-riscv32").arg(&program).status() {
        assert_eq!(status.code(), Some(0), "qemu");
    }
    // An object that is not linked has sections, and nothing to run.
    let unlinked = riscv::parse(&std::fs::read(&object).unwrap()).unwrap();
    assert!(unlinked.sections.iter().any(|section| section.name == ".text" && section.executable));
    let error = Runner::new(&unlinked, &Decoder::rv32imac(), &Timing::RI5CY).unwrap_err();
    assert_eq!(error.to_string(), "the program has nothing to load; link it");
}
