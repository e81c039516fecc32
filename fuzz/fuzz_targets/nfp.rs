//! Any bytes: see `nicforge_bound::fuzz::text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_bound::fuzz::text(data));
