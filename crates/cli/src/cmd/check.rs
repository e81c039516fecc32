//! `nicforge check`: every problem in a program, in one go.

use nicforge_frontend as frontend;
use serde_json::json;

use crate::args::Check;
use crate::context::{Failure, Runtime};
use crate::program;

/// Prints diagnostics; succeeds if there are no errors.
pub fn run(args: Check) -> Result<(), Failure> {
    let runtime = Runtime::unpack()?;
    if !args.json {
        let loaded = program::load(&args.source, &runtime)?;
        eprint!("{}", loaded.warnings);
        let p = &loaded.program;
        println!(
            "{}: {} handler{}, {} table{}, {} port{}",
            loaded.path.display(),
            p.handlers.len(),
            plural(p.handlers.len()),
            p.tables.len(),
            plural(p.tables.len()),
            p.ports,
            plural(p.ports as usize)
        );
        return Ok(());
    }
    let path = program::locate(&args.source.program)?;
    let mut options = frontend::Options::new(runtime.user_headers());
    options.clang_args.extend(args.source.define.iter().map(|d| format!("-D{d}")));
    options.clang_args.extend(args.source.include.iter().map(|dir| format!("-I{}", dir.display())));
    let (list, files, ok) = match frontend::compile(&path, &options) {
        Ok(output) => (output.warnings, output.program.files, true),
        Err(diagnostics) => (diagnostics.diagnostics, diagnostics.files, false),
    };
    let list: Vec<_> = list.iter().map(|d| d.to_json(&files)).collect();
    println!("{:#}", json!({ "schema": "nicforge/check", "version": 1, "ok": ok, "diagnostics": list }));
    if ok { Ok(()) } else { Err(Failure::rendered(String::new())) }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
