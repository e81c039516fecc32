//! Any bytes: see `nicforge_spin::fuzz_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_spin::fuzz_image(data));
