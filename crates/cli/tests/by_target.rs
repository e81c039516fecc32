//! Programs whose text depends on the target.

mod common;

use common::{Place, can_load, capture, frame};

const PROGRAM: &str = "#include <nicforge.h>
NF_PORTS(1);
extern uint32_t double_of(uint32_t of);
void net_recv(nf_pkt pkt)
{
    uint32_t n = nf_len(pkt);
#if defined(NF_TARGET_DPDK)
    n = double_of(n);
#elif defined(NF_TARGET_XDP)
    if (n > 100) {
        nf_drop(pkt, \"long\");
        return;
    }
    n <<= 1;
#elif defined(NF_TARGET)
    n += n;
#else
    n *= 2;
    if (n > 200) {
        nf_drop(pkt, \"long\");
        return;
    }
    if (n < 100) {
        nf_drop(pkt, \"short\");
        return;
    }
#endif
#ifdef NF_TARGET_HOST
    if (n > 200) {
        nf_drop(pkt, \"long\");
        return;
    }
#endif
    nf_emit(pkt, &n);
    nf_send(pkt, 0);
}
";

/// A program, what it calls, and a capture with frames of some lengths.
fn files(place: &Place, text: &str, lengths: &[usize]) -> [String; 3] {
    let frames: Vec<Vec<u8>> = lengths
        .iter()
        .map(|length| {
            let mut one = frame(0x1234);
            one.resize(*length, 7);
            one
        })
        .collect();
    let twice = place.file(
        "twice.c",
        "#include <stdint.h>\nuint32_t double_of(uint32_t of) { return 2 * of; }\n",
    );
    let (program, pcap) = (place.file("program.c", text), place.file("in.pcap", capture(&frames)));
    [program, twice, pcap].map(|path| path.to_str().unwrap().to_string())
}

/// The reference is what is written for no target: only its reasons and its `short` frames tell.
#[test]
fn a_targets_text_is_compared_with_that_of_no_target() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let [program, twice, pcap] = files(&place, PROGRAM, &[60, 70, 120, 80]);
    for (target, works) in [("dpdk", true), ("xdp", true), ("u280", false), ("liquidio", true)] {
        let ran =
            place.run(&["verify", &program, "--target", target, "--pcap", &pcap, "--with", &twice]);
        if works {
            assert!(ran.ok().contains("4 of 4 events"), "{target}: {ran:?}");
        } else {
            // It has no host side, so nothing there drops what is long.
            assert_eq!(ran.status.code(), Some(1), "{ran:?}");
            assert!(
                ran.out.contains("1 of 4 events differ") && ran.out.contains("drop reason long"),
                "{ran:?}"
            );
        }
    }
    // A frame that only the definition drops.
    let [program, twice, pcap] = files(&place, PROGRAM, &[60, 40]);
    let ran =
        place.run(&["verify", &program, "--target", "dpdk", "--pcap", &pcap, "--with", &twice]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(ran.out.contains("event 2: expected drop reason short"), "{ran:?}");
    place.is_clean();
}

#[test]
fn every_command_reads_what_is_for_its_target() {
    let place = Place::new();
    let text = "#include <nicforge.h>\nNF_PORTS(1);\nvoid net_recv(nf_pkt pkt)\n{\n#ifdef NF_TARGET_AGILIO_CX\n    \
                nf_log(\"here {}\", nf_len(pkt));\n#endif\n#ifdef NF_TARGET_XDP\n    nf_send(pkt, nf_now() & 0);\n#else\n    \
                nf_send(pkt, 0);\n#endif\n}\n";
    let [program, _, pcap] = files(&place, text, &[60]);
    let checked = place.run(&["check", &program, "--target", "all"]);
    let said = checked.ok();
    assert!(said.contains("xdp         yes") && said.contains("nf_log"), "{said}");
    assert_eq!(said.matches("lacks messages").count(), 1, "{said}");
    let plans = place.run(&["plan", &program, "--target", "all"]);
    assert_eq!(plans.ok().matches("lacks messages").count(), 1, "{plans:?}");
    place
        .run(&["plan", &program, "--target", "agilio-cx"])
        .fails(1, &["lacks messages to the developer"]);
    place.run(&["plan", &program, "--target", "liquidio"]).ok();
    assert!(place.run(&["build", &program, "--emit", "c"]).ok().contains("nf_now"));
    assert!(
        !place
            .run(&["build", &program, "--emit", "c", "--target", "dpdk"])
            .ok()
            .contains("nf_now()")
    );
    place.run(&["run", &program, "--target", "interp", "--pcap", &pcap]).ok();
}

#[test]
fn what_cannot_be_compared_is_said() {
    let place = Place::new();
    let text = "#include <nicforge.h>\n#ifdef NF_TARGET\nNF_TABLE(hash, seen, uint32_t, uint32_t, 16);\n#endif\n\
                void net_recv(nf_pkt pkt)\n{\n#ifdef NF_TARGET\n    nf_update(&seen, 1, 2);\n#endif\n    nf_drop(pkt);\n}\n";
    let [program, _, pcap] = files(&place, text, &[60]);
    place
        .run(&["verify", &program, "--target", "dpdk", "--pcap", &pcap])
        .fails(1, &["for dpdk the program has other tables or ports than without a target"]);
}
