//! Any bytes as a plan: see `nicforge_plan::check::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_plan::check::fuzz(data));
