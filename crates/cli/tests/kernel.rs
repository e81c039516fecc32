//! Captures through the kernel, and what stands in the way of it: no privilege, a refusing
//! verifier, an event or an operation that the target does not have.

mod common;

use common::{NICFORGE, Place, can_load, capture, counter, example, finish, frame, words};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_capture_runs_and_matches() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("p.pcap", capture(&[frame(5), frame(5), frame(6)]));
    let run = ["run", "c.c", "--pcap", "p.pcap"];
    let with = |more: &[&str]| place.run(&[&run, more].concat());
    let text = with(&["--out", "sent.pcap"]);
    assert!(words(text.ok()).contains(" sent 3 port 0: 3 "), "{text:?}");
    assert!(text.out.contains("matches the reference: 3 of 3 events, 2 of 2 tables"), "{text:?}");
    assert_eq!(nicforge_run::pcap::read(&place.path().join("sent.pcap")).unwrap().len(), 3);
    let report = json(with(&["--json"]).ok());
    assert_eq!((&report["sent"][0], &report["unaccounted"]), (&3.into(), &0.into()));
    assert_eq!(report["reference"]["ok"], true);
    let metrics = with(&["--metrics"]);
    assert!(
        metrics.ok().contains("nicforge_packets_sent_total{program=\"c\",port=\"0\"} 3\n"),
        "{metrics:?}"
    );
    assert_eq!(
        with(&["--events"])
            .ok()
            .lines()
            .filter(|line| line.starts_with("net_send port 0 frame "))
            .count(),
        3
    );
    place.is_clean();
}

#[test]
fn packets_that_get_lost_are_counted() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 9);"));
    place.file("p.pcap", capture(&[frame(5), frame(6)]));
    let ran = place.run(&["run", "c.c", "--pcap", "p.pcap"]);
    assert!(ran.code() < 2 && words(&ran.out).contains(" lost 2 "), "{ran:?}");
    place.is_clean();
}

#[test]
fn verify_compares_packet_by_packet() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["verify", &example("nf_chain")]);
    assert!(ran.ok().contains("xdp matches the reference: "), "{ran:?}");
    let ran = place.run(&["verify", "--json", &example("l2_forward")]);
    let report = json(ran.ok());
    assert_eq!((&report["ok"], &report["events"]), (&true.into(), &report["matching"]));
    place.is_clean();
}

/// Nothing compared is a failure, and what differs is called different.
#[test]
fn a_check_of_nothing_fails() {
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("none.pcap", capture(&[]));
    place.file("long.pcap", capture(&[vec![2; 9000]]));
    for target in ["xdp", "agilio-cx"] {
        if target == "xdp" && !can_load() {
            continue;
        }
        let ran = place.run(&["verify", "c.c", "--target", target, "--pcap", "none.pcap"]);
        ran.fails(1, &["nothing was compared: the captures have no packets"]);
        assert!(!ran.out.contains("matches"), "{ran:?}");
        let ran =
            place.run(&["verify", "c.c", "--target", target, "--pcap", "none.pcap", "--json"]);
        assert_eq!((ran.code(), &json(&ran.out)["ok"]), (1, &false.into()), "{ran:?}");
    }
    if can_load() {
        let ran = place.run(&["verify", "c.c", "--pcap", "long.pcap"]);
        ran.fails(1, &["every event is beyond what the target takes"]);
    }
    place.is_clean();
}

/// A frame that leaves shorter than an Ethernet header is left out with what it does to tables, on
/// both sides.
#[test]
fn events_are_left_out_as_a_whole() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file(
        "short.c",
        "#include <nicforge.h>\n\
         NF_PORTS(1);\n\
         struct seen { uint8_t bytes[14]; };\n\
         NF_TABLE(hash, counts, struct seen, uint64_t, 64);\n\
         void net_recv(nf_pkt pkt)\n{\n\
         \x20   struct seen seen;\n\
         \x20   if (!nf_extract(pkt, &seen)) {\n\
         \x20       nf_drop(pkt, \"short\");\n\
         \x20       return;\n\
         \x20   }\n\
         \x20   nf_add_value(&counts, seen, 1);\n\
         \x20   nf_send(pkt, 0);\n}\n",
    );
    let frames: Vec<Vec<u8>> =
        (0..12u8).map(|n| vec![n / 2; if n % 3 == 0 { 20 } else { 60 }]).collect();
    place.file("p.pcap", capture(&frames));
    let ran = place.run(&["verify", "short.c", "--pcap", "p.pcap"]);
    assert!(ran.ok().contains("4 events are beyond what the kernel takes"), "{ran:?}");
    assert!(ran.out.contains("xdp matches the reference: 8 of 8 events, 1 of 1 tables"), "{ran:?}");
    place.is_clean();
}

/// A plan of several stages, from `nicforge plan` into a file and back.
#[test]
fn plans_run_on_several_cpus() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let chain = example("nf_chain");
    let plan = place.run(&[
        "plan",
        &chain,
        "--target",
        "xdp",
        "--pin",
        "net_recv=1",
        "--iterations",
        "4",
        "--json",
    ]);
    place.file("plan.json", plan.ok());
    let ran = place.run(&["verify", &chain, "--plan", "plan.json"]);
    assert!(
        ran.ok().starts_with("xdp (net_recv x1, net_recv_stage2 x1) matches the reference: "),
        "{ran:?}"
    );
    let ran = place.run(&["run", &chain, "--plan", "plan.json"]);
    assert!(
        words(ran.ok())
            .contains("stage replicas in handed on sent stack ended queue full ns/packet"),
        "{ran:?}"
    );
    assert!(
        ran.out.contains("matches the reference: 2388 of 2388 events, 7 of 7 tables"),
        "{ran:?}"
    );
    let report = json(place.run(&["run", &chain, "--plan", "plan.json", "--json"]).ok());
    let stage = |at: usize, key: &str| report["stages"][at][key].as_u64().unwrap();
    assert_eq!((stage(0, "packets_in"), stage(0, "handed_on")), (2388, stage(1, "packets_in")));
    assert_eq!(stage(0, "sent") + stage(1, "sent"), 1945);
    assert!(
        stage(1, "turned_away") == 0
            && report["stages"][1]["ns_per_packet"].as_f64().unwrap() > 0.0
    );
    // Candidate 0 is one stage; where its tables have a key in common it has replicas, and packets
    // are spread by that.
    let ran = place.run(&["verify", &example("firewall"), "--candidate", "0"]);
    assert!(
        ran.ok().starts_with("xdp (net_recv x4) matches the reference: 2370 of 2370"),
        "{ran:?}"
    );
    place
        .run(&["run", &chain, "--dev", "lo", "--watch", "--plan", "plan.json"])
        .fails(2, &["--watch"]);
    place.is_clean();
}

#[test]
fn without_privilege_there_is_one_clear_line() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    place.file("c.c", counter("nf_send(pkt, 0);"));
    place.file("p.pcap", capture(&[frame(5)]));
    // The target directory may be closed to others.
    let binary = place.path().join("nicforge");
    std::fs::copy(NICFORGE, &binary).unwrap();
    let binary = binary.to_str().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(place.path().join("run"), open).unwrap();
    for args in [
        &["run", "c.c", "--pcap", "p.pcap"][..],
        &["run", "c.c", "--dev", "lo"],
        &["verify", "c.c", "--pcap", "p.pcap"],
    ] {
        let all = [&["--reuid=65534", "--regid=65534", "--clear-groups", binary], args].concat();
        let ran = finish(place.prepare("setpriv", &all));
        ran.fails(3, &["error: no permission to ", "run as root, or with the capabilities"]);
        assert_eq!(ran.err.lines().count(), 1, "{args:?}: {ran:?}");
    }
    let all = [
        "--reuid=65534",
        "--clear-groups",
        binary,
        "run",
        "c.c",
        "--pcap",
        "p.pcap",
        "--target",
        "interp",
    ];
    finish(place.prepare("setpriv", &all)).ok();
    assert_eq!(place.temporary(), [""; 0]);
}

#[test]
fn a_refusal_is_shown_on_the_users_line() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    // `run` says the same: see docs/errors.md, which tests compile.
    place.file("long.c", common::TOO_LONG);
    place.file("p.pcap", capture(&[frame(5)]));
    let ran = place.run(&["verify", "long.c", "--pcap", "p.pcap"]);
    ran.fails(
        1,
        &[
            "error[NF0901]: the kernel's verifier refuses the program here",
            "--> long.c:",
            "complete log is in",
        ],
    );
    common::remove_log(&ran);
    place.is_clean();
}

#[test]
fn what_a_target_does_not_have_is_named() {
    let place = Place::new();
    let air = place.run(&["build", &example("l2_forward"), "--emit", "air"]).ok().to_string();
    place.file("p.pcap", capture(&[frame(5)]));
    assert!(air.contains("net_recv"), "{air}");
    place.file("odd.air", air.replace("net_recv", "timer_fired"));
    for command in [&["build", "odd.air"][..], &["run", "odd.air", "--pcap", "p.pcap"]] {
        let ran = place.run(command);
        ran.fails(1, &["timer_fired"]);
    }
    place.is_clean();
}

/// The slowest packet of every program does in the kernel what its path says, unless the path needs
/// what no table holds.
#[test]
fn slowest_packets_run_in_the_kernel() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xdp");
    let mut agreed = 0;
    for name in [
        "header_parser",
        "dos_filter",
        "quic_lb4",
        "quic_lb6",
        "alaw",
        "dns_cache",
        "count_min",
        "path_explosion",
    ] {
        let file = folder.join(format!("{name}.c"));
        let ran = place.run(&[
            "bound",
            &file.to_string_lossy(),
            "--target",
            "xdp",
            "--measure",
            "--json",
        ]);
        let measured = &json(ran.ok())["measured"];
        let same = measured["verdict"] == measured["verdict_of_path"];
        assert!(same || measured["more_needed"] == true, "{name}: {measured}");
        agreed += usize::from(same && measured["more_needed"] == false);
    }
    assert!(agreed >= 7, "only {agreed} paths could be followed in the kernel");
    // Packets in a row, where a variable decides what the kernel returns.
    let source = "typedef unsigned u32;\nu32 turn;\n\
        __attribute__((section(\"xdp\"), used)) int odd(void *ctx)\n\
        {\n    turn = turn * 3 + 1;\n    if (turn & 4)\n        return 1;\n    \
        return turn & 1 ? 2 : 3;\n}\n";
    place.file("odd.c", source);
    let row = ["bound", "odd.c", "--target", "xdp", "--in-a-row", "6", "--measure", "--json"];
    let row = &json(place.run(&row).ok())["in_a_row"];
    let claimed = row["slowest"].as_array().unwrap().iter().map(|packet| &packet["returns"]);
    let kernel: Vec<_> = row["kernel"].as_array().unwrap().iter().collect();
    assert_eq!((claimed.collect::<Vec<_>>(), kernel.len()), (kernel, 6));
    place.is_clean();
}
