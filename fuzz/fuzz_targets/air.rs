//! Any bytes as αIR text: see `nicforge_ir::fuzz::text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_ir::fuzz::text(data));
