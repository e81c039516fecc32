//! Planned targets whose hardware something else stands in for, from the command line: some examples against the interpreter, the
//! first few hundred events of each capture.

mod common;

use std::path::{Path, PathBuf};

use common::Place;

const EVENTS: usize = 300;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The first packets of a capture in the classic form: a head of 24 bytes, 16 bytes before each packet with its length.
fn first(capture: &[u8]) -> &[u8] {
    let mut at = 24;
    for _ in 0..EVENTS {
        let Some(length) = capture.get(at + 8..at + 12).and_then(|b| b.try_into().ok()) else { break };
        at += 16 + u32::from_le_bytes(length) as usize;
    }
    &capture[..at.min(capture.len())]
}

/// Copies an example with its captures cut short.
fn cut(place: &Place, name: &str) -> PathBuf {
    let to = place.path().join(name);
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(examples().join(name)).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let capture = entry.path().extension().is_some_and(|extension| extension == "pcap");
        let bytes = if capture { first(&bytes) } else { &bytes };
        std::fs::write(to.join(entry.file_name()), bytes).unwrap();
    }
    to
}

/// Verifies examples on their best plan, and the first of them on candidate 1 of the search. That all of them do what the interpreter
/// does, on several plans, is what tests/plans.rs looks at.
fn verify(target: &str, names: &[&str], says: &str) {
    let place = Place::new();
    for (at, name) in names.iter().enumerate() {
        cut(&place, name);
        let ran = place.run(&["verify", name, "--target", target]);
        assert!(ran.ok().contains(says), "{name}: {ran:?}");
        if at == 0 {
            let ran = place.run(&["verify", name, "--target", target, "--candidate", "1"]);
            assert!(ran.ok().contains(says), "{name}, candidate 1: {ran:?}");
        }
    }
    place.is_clean();
}

#[test]
fn examples_on_bluefield2() {
    let missing = |program: &str| std::process::Command::new(program).arg("--version").output().is_err();
    if missing("qemu-aarch64") || missing("aarch64-linux-gnu-gcc") {
        assert!(
            std::env::var_os("CI").is_none(),
            "qemu or gcc for arm64 is missing: run scripts/bootstrap.sh"
        );
        println!("skipped: qemu-aarch64 or aarch64-linux-gnu-gcc is missing: run scripts/bootstrap.sh");
        return;
    }
    verify("bluefield2", &["firewall", "nf_chain", "rpc_reassembly"], "(functional: emulated)");
}

#[test]
fn examples_on_agilio_cx() {
    verify("agilio-cx", &["firewall", "nf_chain", "kv_cache"], "(functional: on a shim of the chip)");
}

/// There is C for the chip's engines only; programs with a host side are planned for it.
#[test]
fn a_host_side_is_refused_on_agilio_cx() {
    let place = Place::new();
    let source = "#include <nicforge.h>\nNF_PORTS(1);\nNF_ON(host)\nvoid far(nf_pkt pkt) { nf_send(pkt, 0); }\n\
                  void net_recv(nf_pkt pkt) { nf_enqueue(far, pkt); }\n";
    std::fs::write(place.path().join("far.c"), source).unwrap();
    place.run(&["plan", "far.c", "--target", "agilio-cx"]).ok();
    place
        .run(&["build", "far.c", "--target", "agilio-cx", "-o", "out"])
        .fails(1, &["handler `far` is planned for `host.0`", "far.c:4:6", "`plan` and `sim` take it"]);
    place.is_clean();
}

#[test]
fn examples_on_liquidio() {
    verify("liquidio", &["firewall", "nf_chain"], "(functional: on threads)");
}

/// A missing sysroot is the machine's fault, and the message says how to get it.
#[test]
fn what_is_missing_is_said() {
    let place = Place::new();
    cut(&place, "l2_forward");
    let mut command = place.command(&["verify", "l2_forward", "--target", "bluefield2"]);
    command.env("NICFORGE_ARM64", place.path().join("nowhere"));
    common::finish(command).fails(3, &["there is no DPDK for arm64", "scripts/arm64-dpdk.sh"]);
}
