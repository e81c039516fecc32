//! Any bytes as a netlist of yosys: see `nicforge_run::synth::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_run::synth::fuzz(data));
