//! Programs that the kernel would not take as one would write them: more than its stack has room
//! for, accesses that are not aligned, loops that its verifier would walk for ever. Each is in
//! tests/programs/kernel_limits.

mod common;

use common::{Place, can_load, capture, example};

/// Frames of several lengths whose bytes are often small, so that they are kinds, lengths and
/// indices.
fn traffic() -> Vec<u8> {
    let byte = |seed: u64, at: u64| match nicforge_ir::io::random(seed, at) {
        raw if raw % 4 > 0 => [0, 1, 2, 3, 4, 5, 0x24, 0xff][raw as usize / 4 % 8],
        raw => (raw >> 8) as u8,
    };
    let frame = |seed: u64| {
        let length = [64, 100, 120, 300, 600][seed as usize % 5];
        (0..length).map(|at| byte(seed, at)).collect()
    };
    capture(&(0..100).map(frame).collect::<Vec<_>>())
}

#[test]
fn programs_beyond_the_kernels_limits_run_there() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("t.pcap", traffic());
    let folder = example("../tests/programs/kernel_limits");
    let mut programs: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    programs.sort();
    assert!(programs.len() > 15);
    for program in programs {
        let program = program.display().to_string();
        let ran = place.run(&["verify", &program, "--target", "xdp", "--pcap", "t.pcap"]);
        assert!(
            ran.ok().contains("matches the reference: 100 of 100 events"),
            "{program}: {ran:?}"
        );
    }
    place.is_clean();
}

/// What no form of it makes acceptable is said by `check`, with its line and what to do.
#[test]
fn what_is_too_long_for_the_verifier_is_refused_by_check() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("long.c", common::TOO_LONG);
    let ran = place.run(&["check", "long.c", "--target", "xdp"]);
    for text in ["xdp  no", "long.c:1", "the kernel's verifier: ", "help: give loops fewer trips"] {
        assert!(ran.out.contains(text), "{text}: {ran:?}");
    }
    ran.fails(1, &[]);
    place.is_clean();
}
