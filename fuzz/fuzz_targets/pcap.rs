//! Any bytes as a capture: see `nicforge_run::pcap::fuzz_pcap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nicforge_run::pcap::fuzz_pcap(data));
