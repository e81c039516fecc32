//! Any bytes: see `nicforge_bound::fuzz::program`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_bound::fuzz::program(data));
