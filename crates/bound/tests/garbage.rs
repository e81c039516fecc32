//! Damaged objects, programs and listings end cleanly: a few good ones with random bytes changed.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nicforge_bound::fuzz;
use nicforge_isa::ebpf::Insn;
use nicforge_isa::{lower, nfp, object};
use nicforge_util::Random;

fn damaged(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.index(6) {
        let at = random.index(bytes.len());
        match random.index(4) {
            0 => bytes[at] ^= 1 << random.index(8),
            1 => bytes[at] = random.index(256) as u8,
            2 => bytes.truncate(at.max(1)),
            _ => {
                let from = random.index(bytes.len());
                bytes[at] = bytes[from];
            }
        }
    }
    bytes
}

fn compiled(name: &str) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xdp").join(name);
    let asm = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new(nicforge_clang::name());
    clang
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-idirafter", &asm, "-c"])
        .arg(source)
        .args(["-o", "-"]);
    let ran = clang.output().expect("clang-19 starts (apt-get install clang-19)");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

/// A good program as an object, as instructions and as a listing.
fn good() -> (Vec<u8>, Vec<u8>, String) {
    let whole = compiled("quic_lb4.c");
    let parsed = object::parse(&whole).unwrap();
    let program = &parsed.programs[0];
    let raw = |insn: &Insn| {
        let mut bytes = vec![insn.code, insn.dst | insn.src << 4];
        bytes.extend(insn.off.to_le_bytes());
        bytes.extend(insn.imm.to_le_bytes());
        bytes
    };
    let text = nfp::print(&lower::lower(program, &parsed.maps).unwrap().insns);
    let insns = program.insns.iter().flat_map(raw).collect();
    (whole, insns, text)
}

/// Says which round it was if one panics.
struct Round(u64);

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed of this round: {:#x}", self.0);
        }
    }
}

/// Rounds of damage to some bytes: 60, or as many as there are in NICFORGE_FUZZ_SECONDS, from
/// NICFORGE_FUZZ_SEED on.
fn rounds(good: &[u8], run: impl Fn(&[u8])) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("NICFORGE_FUZZ_SECONDS").map(Duration::from_secs);
    let first = number("NICFORGE_FUZZ_SEED").unwrap_or(0x0123_4567_89ab_cdef);
    let (begun, mut count, mut longest) = (Instant::now(), 0u64, (Duration::ZERO, 0));
    while seconds.map_or(count < 60, |seconds| begun.elapsed() < seconds) {
        let seed = first.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
        let _round = Round(seed);
        let mut random = Random::new(seed);
        let start = Instant::now();
        let bytes = if count % 64 == 63 {
            (0..512).map(|_| random.index(256) as u8).collect()
        } else {
            damaged(&mut random, good)
        };
        run(&bytes);
        longest = longest.max((start.elapsed(), seed));
        count += 1;
    }
    eprintln!("{count} rounds; the longest took {:?} (seed {:#x})", longest.0, longest.1);
}

#[test]
fn damaged_objects_end_cleanly() {
    rounds(&good().0, fuzz::object);
}

#[test]
fn damaged_programs_end_cleanly() {
    rounds(&good().1, fuzz::program);
}

#[test]
fn damaged_listings_end_cleanly() {
    rounds(good().2.as_bytes(), fuzz::text);
}

#[test]
fn damaged_handlers_end_cleanly() {
    let cases = include_str!("rv/handlers.txt");
    let around = common::surroundings("pspin");
    for case in cases.split("\n== ").skip(1).take(6) {
        let (_, rest) = case.split_once('\n').unwrap();
        let source = rest.split("\n=> ").next().unwrap();
        rounds(&common::assembled(source), |bytes| fuzz::handlers(bytes, &around));
    }
}
