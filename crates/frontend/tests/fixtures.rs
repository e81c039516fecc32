//! Text fixtures: `diag/*.c` with what the user sees, `lower/*.c` with the αIR.

use std::path::{Path, PathBuf};

use nicforge_filetest::{Made, Test, fixtures, sources};
use nicforge_frontend::diagnostics::codes;
use nicforge_frontend::{Options, compile_source, render_all};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::verify;

fn options() -> Options {
    Options::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtime/include"))
}

/// A folder of this crate's tests.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Diagnostics of a program: `// test: check`.
fn check(test: &Test) -> Result<Vec<Made>, String> {
    match compile_source(test.name, test.text, &options()) {
        Ok(output) if output.warnings.is_empty() => Err("nothing was reported".into()),
        Ok(output) => Ok(Made::only(render_all(&output.warnings, &output.program.files, false))),
        Err(diagnostics) => Ok(Made::only(diagnostics.render(false))),
    }
}

/// The αIR of a program: `// test: lower`.
fn lower(test: &Test) -> Result<Vec<Made>, String> {
    let output = compile_source(test.name, test.text, &options()).map_err(|d| d.render(false))?;
    if !output.warnings.is_empty() {
        return Err(render_all(&output.warnings, &output.program.files, false));
    }
    let printed = print(&output.program, PrintOptions::default());
    let verified = verify(output.program);
    let errors = verified.err().unwrap_or_default();
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if errors.is_empty() {
        Ok(Made::only(printed))
    } else {
        Err(format!("{}\n{printed}", errors.join("\n")))
    }
}

/// Runs a fixture's test.
fn run(test: &Test) -> Result<Vec<Made>, String> {
    match test.words[..] {
        ["check"] => check(test),
        ["lower"] => lower(test),
        _ => Err("a test here is `check` or `lower`".into()),
    }
}

#[test]
fn diagnostics() {
    fixtures(&folder("diag"), "c", run);
}

#[test]
fn lowering() {
    fixtures(&folder("lower"), "c", run);
}

/// Every code that a program can cause has a fixture.
#[test]
fn every_code_is_shown() {
    let mut seen = String::new();
    for path in sources(&folder("diag"), "c") {
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
    for path in sources(&folder("lower"), "c") {
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
