//! XDP objects as programs: what is lifted does what the object does in the kernel, and what has no
//! meaning is refused by name.

mod common;

use common::{Place, can_load};
use nicforge_run::compile::compile_xdp;

fn object(place: &Place, name: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/lift");
    let source = std::path::Path::new(folder).join(format!("{name}.c"));
    place.file(&format!("{name}.o"), compile_xdp(&source, &[]).expect("clang"));
}

#[test]
fn lifted_programs_do_what_the_object_does_in_the_kernel() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    ["counters", "tunnel", "calls"].into_iter().for_each(|name| object(&place, name));
    for (program, tables) in
        [("counters.o", 2), ("calls.o", 3), ("tunnel.o:encapsulate", 0), ("tunnel.o:xdp/out", 0)]
    {
        let ran = place.run(&["verify", program]);
        let matches = format!("matches the reference: 400 of 400 events, {tables} of {tables}");
        assert!(ran.ok().contains(&format!("the object in the kernel {matches}")), "{ran:?}");
        assert!(ran.out.contains(&format!("xdp {matches}")), "{ran:?}");
    }
    place.is_clean();
}

/// Parsers whose ways share code that is not where all of them meet.
#[test]
fn tangled_control_flow_is_lifted_once() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/xdp"));
    for name in ["count_min", "quic_lb4"] {
        let object = compile_xdp(&folder.join(format!("{name}.c")), &[]).expect("clang");
        place.file(&format!("{name}.o"), object);
        let ran = place.run(&["verify", &format!("{name}.o")]);
        let matches = "the object in the kernel matches the reference: 400 of 400 events, 1 of 1";
        assert!(ran.ok().contains(matches), "{ran:?}");
    }
}

#[test]
fn objects_read_like_programs_written_by_hand() {
    let place = Place::new();
    object(&place, "counters");
    let text = place.run(&["build", "counters.o", "--target", "interp", "--emit", "air"]);
    let text = text.ok();
    for line in [
        "struct stats_value packed { packets: u64, bytes: u64 }",
        "table stats: array[u32 -> stats_value] capacity 256",
        "commute add seen[",
        "drop %pkt, \"XDP_ABORTED\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_has_no_meaning_is_refused_by_name() {
    let place = Place::new();
    ["refused", "tunnel"].into_iter().for_each(|name| object(&place, name));
    let refused = place.run(&["check", "refused.o"]);
    refused.fails(1, &["calls bpf_sk_lookup_udp, which has no meaning here", "refused.c:10"]);
    place.run(&["check", "tunnel.o"]).fails(1, &["several programs", "encapsulate", "xdp/out"]);
    place.run(&["check", "tunnel.o:none"]).fails(1, &["no program or section `none`"]);
    place.file("broken.o", b"\x7fELF and nothing else");
    place.run(&["check", "broken.o"]).fails(1, &["not a readable ELF object"]);
}
