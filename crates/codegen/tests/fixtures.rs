//! Generated C from text fixtures: `xdp/NAME.air`, whose first line is the command, beside `NAME.expect.c`.
//!
//! `NICFORGE_BLESS=1` rewrites what is expected. Every generated file must also compile with
//! `-Wall -Wextra -Werror`.

use std::path::{Path, PathBuf};
use std::process::Command;

use nicforge_codegen::{LineStyle, xdp};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xdp");
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the fixtures' folder")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "air"))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

fn compile(source: &Path, mode: u32) -> Result<(), String> {
    let object = std::env::temp_dir().join(format!("nicforge-codegen-{}-{mode}.o", std::process::id()));
    let output = Command::new("clang-19")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-c"])
        .arg(format!("-DNF_MODE={mode}"))
        .arg("-I/usr/include/x86_64-linux-gnu")
        .arg("-I")
        .arg(root().join("runtime/xdp"))
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("clang-19 runs");
    let _ = std::fs::remove_file(object);
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn xdp_fixtures() {
    let bless = std::env::var_os("NICFORGE_BLESS").is_some();
    let mut failures = Vec::new();
    for path in fixtures() {
        let text = std::fs::read_to_string(&path).expect("a fixture");
        let program = nicforge_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let artifact = xdp::generate(&program, LineStyle::Comments).expect("the program fits xdp");
        let expect = path.with_extension("expect.c");
        if bless {
            std::fs::write(&expect, &artifact.source).expect("the fixture's folder is writable");
        }
        let want = std::fs::read_to_string(&expect).unwrap_or_default();
        if want != artifact.source {
            failures.push(format!("{} differs:\n{}", expect.display(), artifact.source));
        }
        for mode in 0..3 {
            if let Err(message) = compile(&expect, mode) {
                failures.push(format!("{} does not compile in mode {mode}:\n{message}", expect.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
