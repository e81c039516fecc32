//! Text that tests expect in files beside them.
//!
//! A fixture is a file whose first lines say what is asked of it: `// test: passes fold dce`. Each
//! such line is a test of the same text. What comes out stands in files beside it.
//!
//! `NICFORGE_BLESS=1` rewrites what is expected; the diff is what there is to review.

use std::path::{Path, PathBuf};

/// A file with tests, and one of these.
pub struct Test<'a> {
    /// The name of the file with its ending.
    pub name: &'a str,
    pub text: &'a str,
    /// Words behind `// test: `.
    pub words: Vec<&'a str>,
}

/// A text that a test made, and the ending of the file beside the fixture that has it.
pub struct Made {
    pub ending: String,
    pub text: String,
}

impl Made {
    /// The only thing that a fixture's test makes: `NAME.expect`.
    pub fn only(text: String) -> Vec<Made> {
        vec![Made { ending: "expect".into(), text }]
    }
}

/// Files of a folder with an ending, sorted.
///
/// # Panics
/// Panics if there are none.
pub fn sources(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|have| have == ending));
    found.sort();
    assert!(!found.is_empty(), "{} has no .{ending} files", folder.display());
    found
}

/// Runs all tests of a folder's fixtures and compares what they make with the files beside them.
///
/// # Panics
/// Panics with every test that fails or makes another text, and if a file has no test.
pub fn fixtures(folder: &Path, ending: &str, judge: impl Fn(&Test) -> Result<Vec<Made>, String>) {
    let mut failed = Vec::new();
    for path in sources(folder, ending) {
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut tests = text.lines().map_while(|line| line.strip_prefix("// test: ")).peekable();
        if tests.peek().is_none() {
            failed.push(format!("{}: no `// test: …` on line 1", path.display()));
        }
        for line in tests {
            let test = Test { name: &name, text: &text, words: line.split_whitespace().collect() };
            let made = judge(&test);
            let compared = made.and_then(|made| {
                made.iter()
                    .try_for_each(|made| expect(&path.with_extension(&made.ending), &made.text))
            });
            if let Err(why) = compared {
                failed.push(format!("{}, test: {line}: {why}", path.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Compares a text with that of a file, or writes the file.
///
/// # Errors
/// The texts differ: both, and how to accept what was found.
pub fn expect(path: &Path, found: &str) -> Result<(), String> {
    if blesses() {
        std::fs::write(path, found).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == found {
        return Ok(());
    }
    Err(format!(
        "{} has another text\n--- expected\n{expected}--- found\n{found}\n\
         NICFORGE_BLESS=1 accepts what was found",
        path.display()
    ))
}

/// `NICFORGE_BLESS=1`: what is found is what is expected from now on.
pub fn blesses() -> bool {
    std::env::var_os("NICFORGE_BLESS").is_some()
}

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
    if blesses() {
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
