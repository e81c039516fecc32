//! Any bytes: a frame for the director, a profile, a trace, a heartbeat or a request, by the first
//! byte.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    match first % 5 {
        0 => nicforge_balance::director::fuzz(data),
        1 => nicforge_balance::profile::fuzz(data),
        2 => nicforge_balance::traffic::fuzz(data),
        3 => nicforge_run::balance::heartbeat::fuzz(data),
        _ => nicforge_run::balance::control::fuzz(data),
    }
});
