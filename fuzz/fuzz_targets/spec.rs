//! Any bytes as a target's specification: see `nicforge_target::load::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_target::load::fuzz(data));
