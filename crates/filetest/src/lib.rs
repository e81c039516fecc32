//! Text that tests expect in files beside them.
//!
//! `NICFORGE_BLESS=1` rewrites what is expected; the diff is what there is to review.

use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Name and path of every C program of `examples/` and `tests/programs/`, sorted.
///
/// # Panics
/// Panics if there are none.
pub fn programs() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for folder in ["examples", "tests/programs"] {
        for entry in std::fs::read_dir(root().join(folder)).into_iter().flatten().flatten() {
            for file in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let path = file.path();
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                if path.extension().is_some_and(|e| e == "c") && text.contains("net_recv") {
                    let names = [entry.file_name(), file.file_name()];
                    let [program, file] = names.map(|name| name.to_string_lossy().into_owned());
                    found.push((format!("{program}/{file}"), path));
                }
            }
        }
    }
    assert!(!found.is_empty(), "no programs");
    found.sort();
    found
}

/// Lines and FNV-1a hash (64 bits, draft-eastlake-fnv) of a text.
pub fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:6} {hash:016x}", text.lines().count())
}

/// Compares a table, a line each, with that of a file of the calling crate; or writes the file.
///
/// # Panics
/// Panics with the lines that differ, and how to see and accept what changed.
pub fn expect_table(path: &Path, found: &[String]) {
    let text = found.join("\n") + "\n";
    if std::env::var_os("NICFORGE_BLESS").is_some() {
        std::fs::write(path, &text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    let known: std::collections::HashSet<&str> = expected.lines().collect();
    let changed: Vec<&String> =
        found.iter().filter(|line| !known.contains(line.as_str())).collect();
    assert!(
        expected == text,
        "{} of {} lines of {} changed:\n{}\n`nicforge build PROGRAM --emit …` shows what is made now; \
         NICFORGE_BLESS=1 accepts it",
        changed.len(),
        found.len(),
        path.display(),
        changed.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    );
}
