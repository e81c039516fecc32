//! `tests/fixtures/NAME.air`: `// test: passes fold dce` or `// test: passes default`.

use std::path::Path;

use nicforge_filetest::{Made, Test, fixtures};
use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::verify;
use nicforge_passes::PassManager;

/// The text after the passes that a test names.
fn run(test: &Test) -> Result<Vec<Made>, String> {
    let program = parse(test.text).map_err(|e| e.to_string())?;
    let program = verify(program).map_err(|errors| errors[0].to_string())?;
    let mut manager = PassManager::new();
    let after = match test.words[..] {
        ["passes", "default"] => manager.run_default(program),
        ["passes", ref passes @ ..] => manager.run(program, passes),
        _ => return Err("a test here begins with `passes`".into()),
    };
    let after = after.map_err(|e| e.to_string())?;
    Ok(Made::only(print(&after, PrintOptions::default())))
}

#[test]
fn passes() {
    fixtures(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")), "air", run);
}
