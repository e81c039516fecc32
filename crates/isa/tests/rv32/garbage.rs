//! Code and ELF files with random damage. NICFORGE_FUZZ_SECONDS and NICFORGE_FUZZ_SEED make it
//! longer and different.

use std::time::{Duration, Instant};

use nicforge_isa::rv32::fuzz;

use crate::programs::{self, Random};

/// Damages good bytes in a few places, again and again.
fn rounds(good: impl Fn(u64) -> Vec<u8>, target: fn(&[u8])) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("NICFORGE_FUZZ_SEED").unwrap_or(1);
    let deadline = number("NICFORGE_FUZZ_SECONDS")
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = Random::new(seed);
    for round in 0.. {
        if deadline.map_or(round >= 300, |deadline| Instant::now() > deadline) {
            return;
        }
        let mut bytes = good(seed + round % 10);
        for _ in 0..random.below(12) {
            // Most damage goes where headers and code are.
            let reach = if random.below(2) == 0 { 128 } else { bytes.len() as u32 };
            let at = random.below(reach.min(bytes.len() as u32).max(1)) as usize;
            match random.below(4) {
                0 => bytes.truncate(bytes.len() - at),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
                _ => bytes[at] ^= 1 << random.below(8),
            }
            if bytes.is_empty() {
                break;
            }
        }
        target(&bytes);
    }
}

#[test]
fn any_code_runs_or_traps() {
    rounds(|seed| programs::program(seed)[..0x600].to_vec(), fuzz::code);
    let mut random = Random::new(9);
    for _ in 0..300 {
        let noise: Vec<u8> = (0..512).map(|_| random.word() as u8).collect();
        fuzz::code(&noise);
    }
}

#[test]
fn any_file_is_a_program_or_a_reason() {
    rounds(programs::file, fuzz::image);
}
