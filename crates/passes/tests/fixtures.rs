//! `tests/fixtures/NAME.air` says on its first line which passes to run; `NAME.expect` is what must
//! come out. `NICFORGE_BLESS=1` writes what comes out.

use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::verify;
use nicforge_passes::PassManager;

/// The text after the passes that the first line, `// -p fold -p dce` or `// default`, asks for.
fn run(text: &str) -> Result<String, String> {
    let command = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("// "))
        .ok_or("no command on line 1")?;
    let words: Vec<&str> = command.split_whitespace().filter(|word| *word != "-p").collect();
    let program = parse(text).map_err(|e| e.to_string())?;
    let program = verify(program).map_err(|errors| errors[0].to_string())?;
    let mut manager = PassManager::new();
    let after = match words[..] {
        ["default"] => manager.run_default(program),
        _ => manager.run(program, &words),
    };
    let after = after.map_err(|e| e.to_string())?;
    Ok(print(&after, PrintOptions::default()))
}

#[test]
fn fixtures() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let bless = std::env::var_os("NICFORGE_BLESS").is_some();
    let mut failed = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "air") {
            continue;
        }
        count += 1;
        let found = run(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|e| format!("error: {e}\n"));
        let expect = path.with_extension("expect");
        if bless {
            std::fs::write(&expect, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expect).unwrap_or_default();
        if found != expected {
            failed.push(format!("{}\n--- expected\n{expected}--- found\n{found}", path.display()));
        }
    }
    assert!(count >= 6, "only {count} fixtures were found");
    assert!(failed.is_empty(), "{}\nNICFORGE_BLESS=1 accepts what was found", failed.join("\n"));
}
