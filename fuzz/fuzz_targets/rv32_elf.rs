//! Any bytes: see `nicforge_isa::rv32::fuzz::image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_isa::rv32::fuzz::image(data));
