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
fn what_the_verifier_walks_for_ever_is_refused_by_check() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let source = "#include <nicforge.h>\nNF_PORTS(1);\nstruct d { uint8_t b[64]; };\nvoid net_recv(nf_pkt pkt)\n{\n\
                  \x20   struct d d;\n    uint32_t n = 0;\n    if (!nf_load(pkt, 0, &d)) {\n        nf_drop(pkt, \"short\");\n        return;\n    }\n\
                  \x20   for (uint32_t i = 0; i < 300; i++)\n        for (uint32_t j = 0; j < 400; j++)\n\
                  \x20           if (d.b[(i + n) & 63] > d.b[j & 63])\n                n += d.b[i & 63] ^ j;\n\
                  \x20   nf_emit(pkt, &n);\n    nf_send(pkt, 0);\n}\n";
    place.file("long.c", source);
    let ran = place.run(&["check", "long.c", "--target", "xdp"]);
    for text in ["xdp  no", "long.c:1", "the kernel's verifier: ", "help: give loops fewer trips"] {
        assert!(ran.ok().contains(text), "{text}: {ran:?}");
    }
    place.is_clean();
}
