//! Any bytes: see `nicforge_spin::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_spin::fuzz(data));
