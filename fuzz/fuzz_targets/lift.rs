//! Any bytes: see `nicforge_lift::fuzz::object`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nicforge_lift::fuzz::object(data);
});
