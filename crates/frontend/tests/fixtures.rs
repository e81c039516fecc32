//! Text fixtures: `diag/*.c` with what the user sees, `lower/*.c` with the αIR, each beside a
//! `.expect` file. `NICFORGE_BLESS=1` rewrites the `.expect` files; the diff is what there is to
//! review.

use std::path::{Path, PathBuf};

use nicforge_frontend::diagnostics::codes;
use nicforge_frontend::{Options, compile_source, render_all};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::verify;

fn options() -> Options {
    Options::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/include"))
}

/// The C files of a folder, in order.
fn sources(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut found: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "c"));
    found.sort();
    assert!(!found.is_empty(), "{} has no C files", dir.display());
    found
}

/// Compares what each source gives with its `.expect` file.
fn check_all(folder: &str, produce: impl Fn(&str, &str) -> Result<String, String>) {
    let bless = std::env::var_os("NICFORGE_BLESS").is_some();
    let mut failures = Vec::new();
    for path in sources(folder) {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("fixtures are readable");
        assert!(text.starts_with("// nicforge "), "{name}: the first line is the command");
        let found = match produce(&name, &text) {
            Ok(found) => found,
            Err(why) => {
                failures.push(format!("{folder}/{name}: {why}"));
                continue;
            }
        };
        let expect = path.with_extension("expect");
        if bless {
            std::fs::write(&expect, &found).expect("fixtures are writable");
        } else if std::fs::read_to_string(&expect).unwrap_or_default() != found {
            failures.push(format!("{folder}/{name}: differs from its .expect file; now:\n{found}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn diagnostics() {
    check_all("diag", |name, text| match compile_source(name, text, &options()) {
        Ok(output) if output.warnings.is_empty() => Err("nothing was reported".into()),
        Ok(output) => Ok(render_all(&output.warnings, &output.program.files, false)),
        Err(diagnostics) => Ok(diagnostics.render(false)),
    });
}

/// Every code that a program can cause has a fixture.
#[test]
fn every_code_is_shown() {
    let mut seen = String::new();
    for path in sources("diag") {
        seen.push_str(&std::fs::read_to_string(path.with_extension("expect")).unwrap_or_default());
    }
    // These are about the installation, the front end itself, and files that are no programs
    // (opaque.rs).
    let outside = [codes::CLANG_MISSING.id, codes::INTERNAL.id, codes::OPAQUE.id];
    let missing: Vec<&str> =
        codes::ALL.iter().map(|code| code.id).filter(|id| !seen.contains(*id)).collect();
    assert_eq!(missing, outside);
}

#[test]
fn a_missing_clang_or_file_is_named() {
    let mut options = options();
    let missing = nicforge_frontend::compile(Path::new("no/such/file.c"), &options);
    assert!(missing.unwrap_err().to_string().contains("no/such/file.c"));
    options.clang = "no-such-clang".into();
    let text = compile_source("a.c", "", &options).unwrap_err().to_string();
    assert!(
        text.contains("NF0002")
            && text.contains("no-such-clang")
            && text.contains("apt-get install"),
        "{text}"
    );
}

#[test]
fn diagnostics_have_a_json_form() {
    let found = compile_source("a.c", "float f;\n", &options()).unwrap_err();
    let value = found.diagnostics[0].to_json(&found.files);
    assert_eq!(value["primary"]["file"], "a.c");
    assert_eq!(value["primary"]["column"], 7);
    assert_eq!(value["severity"], "error");
}

/// Texts that are no programs give diagnostics, never a panic.
#[test]
fn broken_texts_are_refused() {
    for path in sources("lower") {
        let text = std::fs::read_to_string(&path).expect("fixtures are readable");
        // Cut in the middle, and with a word missing: what editors send while a line is being
        // typed.
        let half: String = text.chars().take(text.chars().count() / 2).collect();
        for changed in [half, text.replacen("pkt", "", 3), text.replacen("uint32_t", "float", 2)] {
            let _ = compile_source("broken.c", &changed, &options());
        }
    }
}

/// The examples are what people copy: they compile without a warning.
#[test]
fn examples_are_clean() {
    let examples = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"));
    let folders =
        examples.expect("there are examples").filter_map(|entry| Some(entry.ok()?.path()));
    let mut count = 0;
    for folder in folders {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let path = folder.join(format!("{name}.c"));
        if !path.exists() {
            continue;
        }
        count += 1;
        let output =
            nicforge_frontend::compile(&path, &options()).unwrap_or_else(|d| panic!("{d}"));
        assert_eq!(
            output.warnings,
            [],
            "{name}: {}",
            render_all(&output.warnings, &output.program.files, false)
        );
        verify(output.program).unwrap_or_else(|errors| panic!("{name}: {errors:#?}"));
    }
    assert!(count > 0);
}

#[test]
fn lowering() {
    check_all("lower", |name, text| {
        let output = compile_source(name, text, &options()).map_err(|d| d.render(false))?;
        if !output.warnings.is_empty() {
            return Err(render_all(&output.warnings, &output.program.files, false));
        }
        let printed = print(&output.program, PrintOptions::default());
        let verified = verify(output.program);
        let errors = verified.err().unwrap_or_default();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if errors.is_empty() {
            Ok(printed)
        } else {
            Err(format!("{}\n{printed}", errors.join("\n")))
        }
    });
}
