//! Any bytes: see `nicforge_bound::fuzz::object`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_bound::fuzz::object(data));
