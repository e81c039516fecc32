//! Any bytes as a table file: see `nicforge_run::control::fuzz_tables`.
#![no_main]

use std::sync::LazyLock;

use nicforge_ir::Program;

/// Declares a table of each kind; the tests use the same.
static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    nicforge_ir::text::parse(include_str!("../../tests/corpus/tables.air")).expect("the program parses")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_run::control::fuzz_tables(&PROGRAM, data));
