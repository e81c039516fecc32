//! Values whose bytes C could get wrong, on every target that takes C: padding, bit-fields, what C
//! functions leave.

mod common;

use common::{Place, can_load, capture, example};

/// Numbers that look random, the same in every run; small ones and all ones are common.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let byte = |at: u64| match nicforge_ir::io::random(seed, at) {
        raw if raw % 4 == 0 => [0, 0xff, 0xa5, 0x81][raw as usize / 4 % 4],
        raw => (raw >> 8) as u8,
    };
    (0..count as u64).map(byte).collect()
}

fn packets(count: u64, size: impl Fn(u64) -> usize) -> Vec<u8> {
    let frames: Vec<Vec<u8>> = (0..count).map(|at| bytes(at, size(at))).collect();
    capture(&frames)
}

/// Verifies a program of tests/programs on targets that take C.
fn verify(name: &str, targets: &[&str], more: &[&str]) {
    let place = Place::new();
    let program = example(&format!("../tests/programs/{name}"));
    place.file("net.pcap", packets(200, |at| [14, 20, 40, 64, 100][at as usize % 5]));
    place.file("host.pcap", packets(60, |_| 16));
    for target in targets {
        if *target == "xdp" && !can_load() {
            continue;
        }
        let words = ["verify", &program, "--target", target, "--pcap", "net.pcap"];
        let ran = place.run(&[&words[..], more].concat());
        let all = "matches the reference: 200 of 200 events";
        let with_host = "matches the reference: 260 of 260 events";
        assert!([all, with_host].iter().any(|text| ran.ok().contains(text)), "{target}: {ran:?}");
    }
    place.is_clean();
}

#[test]
fn padding_is_zero_wherever_a_value_comes_from() {
    verify(
        "unused_bits",
        &["xdp", "dpdk", "agilio-cx", "liquidio", "pspin"],
        &["--pcap", "host=host.pcap"],
    );
    verify("unused_bits", &["panic"], &["-D", "NO_HOST"]);
}

#[test]
fn entries_change_by_a_bit_field() {
    verify("bit_fields", &["xdp", "dpdk", "agilio-cx", "liquidio", "pspin", "panic"], &[]);
}

/// The kernel's frames have 14 bytes or more, also while headers wait.
#[test]
fn rests_are_cut_short_under_headers() {
    verify("trimmed", &["xdp", "dpdk", "liquidio"], &[]);
}

/// A function of C may leave anything in the padding of what it writes.
#[test]
fn padding_from_c_functions_is_zero() {
    let place = Place::new();
    place.file(
        "p.c",
        "#include <nicforge.h>\nNF_PORTS(1);\nstruct v { uint8_t a : 3; uint16_t b; bool c; };\n\
         NF_TABLE(hash, seen, struct v, uint32_t, 16);\nextern void fill(struct v *v);\n\
         void net_recv(nf_pkt pkt)\n{\n    struct v v;\n    if (!nf_extract(pkt, &v)) {\n        nf_drop(pkt, \"short\");\n        return;\n    }\n\
         \x20   fill(&v);\n    nf_add_value(&seen, v, 1);\n    nf_emit(pkt, &v);\n    nf_send(pkt, 0);\n}\n",
    );
    place.file(
        "fill.c",
        "#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n\
         struct v { uint8_t a : 3; uint16_t b; bool c; };\nstatic int n;\n\
         void fill(struct v *v) { memset(v, n++ % 2 ? 0xff : 0, 6); v->a = 5; v->b = 7; v->c = true; }\n",
    );
    place.file("net.pcap", packets(20, |_| 64));
    let words = ["verify", "p.c", "--with", "fill.c", "--target", "dpdk", "--pcap", "net.pcap"];
    let ran = place.run(&words);
    assert!(ran.ok().contains("matches the reference: 20 of 20 events, 1 of 1 tables"), "{ran:?}");
}

/// Values beyond a core's stack, or longer than what it sends, are refused with a remedy.
#[test]
fn values_that_cores_have_no_room_for_are_refused() {
    let place = Place::new();
    let program = |bytes: u32, end: &str| {
        format!(
            "#include <nicforge.h>\nstruct big {{ struct nf_eth eth; uint8_t b[{bytes}]; }};\n\
             void net_recv(nf_pkt pkt)\n{{\n    struct big big = {{.b = {{1}}}};\n\
             nf_extract(pkt, &big.eth);\n    big.b[nf_len(pkt) % {bytes}] = 7;\n    {end}\n\
             nf_drop(pkt);\n}}\n"
        )
    };
    place.file("kept.c", program(8000, "nf_host_msg(big);"));
    place.file("sent.c", program(2100, "nf_send(nf_new(big), 0);"));
    for (target, stack) in [("pspin", "3584"), ("panic", "7680")] {
        place.run(&["build", "kept.c", "--target", target, "-o", "kept"]).fails(
            1,
            &["`net_recv` keeps", &format!("has {stack} bytes of stack"), "make structs smaller"],
        );
    }
    place
        .run(&["build", "sent.c", "--target", "pspin", "-o", "sent"])
        .fails(1, &["sent.c:8:5: pspin lacks frames of 2114 bytes (it sends 2032)"]);
    place.is_clean();
}
