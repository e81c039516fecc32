//! Planned targets whose hardware something else stands in for: every example, on its best plan, against the interpreter; and
//! other candidates of the search for some examples. The first few hundred events of each capture.

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Verifies every example on two threads; those named by candidates 1 and 3 of the search, too.
fn verify(target: &str, searched: &[&str], says: &str) {
    let names = std::fs::read_dir(examples()).unwrap().flatten().map(|entry| entry.path());
    let names = names.filter(|path| path.join("traffic.py").is_file());
    let names = names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    let mut jobs: Vec<(String, &str)> = names.map(|name| (name, "best")).collect();
    assert!(jobs.len() >= 15, "{jobs:?}");
    for number in ["1", "3"] {
        jobs.extend(searched.iter().map(|name| (name.to_string(), number)));
    }
    let place = Place::new();
    for (name, _) in jobs.iter().filter(|(_, candidate)| *candidate == "best") {
        cut(&place, name);
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, candidate)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut args = vec!["verify", name.as_str(), "--target", target];
                    if *candidate != "best" {
                        args.extend(["--candidate", candidate]);
                    }
                    let ran = place.run(&args);
                    assert!(ran.ok().contains(says), "{name}, {candidate}: {ran:?}");
                }
            });
        }
    });
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
    verify("bluefield2", &["firewall", "jsq_steering", "rpc_reassembly"], "(functional: emulated)");
}

#[test]
fn examples_on_agilio_cx() {
    let searched = ["conn_limiter", "firewall", "quic_lb", "vxlan_gw"];
    verify("agilio-cx", &searched, "(functional: on a shim of the chip)");
}

#[test]
fn examples_on_liquidio() {
    verify("liquidio", &["firewall", "rpc_reassembly"], "(functional: on threads)");
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
