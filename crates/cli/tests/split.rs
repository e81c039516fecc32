//! Programs of which a part runs on the host: the kernel's hook and a process behind AF_XDP,
//! against the interpreter.

mod common;

use common::{Place, can_load, example};

fn source(name: &str) -> String {
    example(&format!("../tests/programs/{name}"))
}

fn verify(place: &Place, program: &str, capture: &str, more: &[&str], want: &str) -> String {
    let (source, capture) = (source(program), example(&format!("{capture}/traffic.pcap")));
    let ran = place.run(&[&["verify", &source, "--pcap", &capture][..], more].concat());
    assert!(ran.ok().contains(want), "{program} {more:?}: {ran:?}");
    ran.out
}

#[test]
fn queues_lead_to_the_host_and_back() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let want = "matches the reference: 1127 of 1127 events, 5 of 5 tables";
    for candidate in ["0", "1", "2"] {
        let said = verify(&place, "split/split.c", "nat", &["--candidate", candidate], want);
        assert!(said.contains("kind x1") && said.contains("note x1"), "{said}");
    }
    verify(&place, "split/split.c", "l4lb", &[], "1244 of 1244 events, 5 of 5 tables");
}

/// Threads of the host have the keys that are theirs, and the control plane sees one table.
#[test]
fn a_host_of_two_threads_divides_the_keys() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let tables = source("shards/tables.toml");
    let want = "(net_recv x1, measure x2, account x2, answer x1) matches the reference: 1127 of 1127 events, 5 of 5 tables";
    verify(&place, "shards/shards.c", "nat", &["--candidate", "0"], want);
    verify(&place, "shards/shards.c", "nat", &["--candidate", "0", "--tables", &tables], want);
    let capture = example("nat/traffic.pcap");
    let ran = place.run(&[
        "run",
        &source("shards/shards.c"),
        "--candidate",
        "0",
        "--pcap",
        &capture,
        "--json",
    ]);
    let value: serde_json::Value = serde_json::from_str(ran.ok()).unwrap();
    assert_eq!(value["stages"][2]["replicas"], 2, "{ran:?}");
}

#[test]
fn the_host_fills_a_cache_of_the_nic() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    verify(
        &place,
        "fill/fill.c",
        "nat",
        &[],
        "matches the reference: 1127 of 1127 events, 2 of 2 tables",
    );
}

#[test]
fn other_targets_take_the_same_program() {
    let place = Place::new();
    let want = "matches the reference: 1127 of 1127 events, 5 of 5 tables";
    verify(&place, "split/split.c", "nat", &["--target", "liquidio"], want);
}

/// On DPDK the host's stages may have a process of their own.
#[test]
fn dpdk_has_the_host_in_a_process_of_its_own() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let apart = ["--target", "dpdk", "--host-process", "--candidate", "0"];
    verify(&place, "split/split.c", "nat", &apart, "1127 of 1127 events, 5 of 5 tables");
    let tables = source("shards/tables.toml");
    let with_tables = [&apart[..], &["--tables", &tables]].concat();
    verify(&place, "shards/shards.c", "nat", &with_tables, "1127 of 1127 events, 5 of 5 tables");
    let device = [&apart[..], &["--dma", "dma_skeleton0"]].concat();
    verify(&place, "split/split.c", "nat", &device, "1127 of 1127 events, 5 of 5 tables");
    let (nat, capture) = (example("nat/nat.c"), example("nat/traffic.pcap"));
    let run = |more: &[&str]| {
        let split = source("split/split.c");
        let ran =
            place.run(&[&["run", &split, "--pcap", &capture, "--json"], &apart[..], more].concat());
        let value: serde_json::Value = serde_json::from_str(ran.ok()).unwrap();
        ["entries", "transfers", "bytes"].map(|name| value["link"][name].as_u64().unwrap())
    };
    for more in [&[][..], &["--dma", "dma_skeleton0"]] {
        let [entries, transfers, bytes] = run(more);
        assert!(
            transfers > 0 && transfers <= entries,
            "{more:?}: {transfers} transfers of {entries} entries"
        );
        // An entry has room for the longest frame, and of the capture's frames most are short.
        assert!(
            bytes >= 128 * entries && bytes < 1024 * entries,
            "{more:?}: {bytes} bytes, {entries} entries"
        );
    }
    place
        .run(&["verify", &nat, "--target", "dpdk", "--dma", "dma_skeleton0"])
        .fails(2, &["--host-process"]);
    let wrong = [&["verify", &nat][..], &apart, &["--dma", "eth0"]].concat();
    place.run(&wrong).fails(2, &["such as dma_skeleton0"]);
    let go = |program: &str, target: &str| {
        place.run(&["verify", program, "--target", target, "--host-process", "--pcap", &capture])
    };
    go(&nat, "dpdk").fails(1, &["no stage can run in a process of its own", "NF_ON(host)"]);
    go(&nat, "liquidio").fails(2, &["--host-process is for --target dpdk"]);
    place.is_clean();
}

#[test]
fn a_run_prints_both_sides() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let capture = example("l4lb/traffic.pcap");
    let ran = place.run(&["run", &source("split/split.c"), "--pcap", &capture, "--json"]);
    let value: serde_json::Value = serde_json::from_str(ran.ok()).unwrap();
    let stages = value["stages"].as_array().unwrap();
    let named = |name: &str| stages.iter().find(|stage| stage["name"] == name).unwrap();
    // What the first stage hands on, the host takes; what the host hands on, the stage behind it
    // takes.
    assert_eq!(named("net_recv")["handed_on"], named("kind")["packets_in"], "{ran:?}");
    let replies = named("reply")["packets_in"].as_u64().unwrap();
    assert!(replies > 100 && named("reply")["turned_away"] == 0, "{ran:?}");
    assert_eq!(value["tables"][0]["entries"], 104, "{ran:?}");
}

#[test]
fn plans_say_what_runs_in_the_process() {
    let place = Place::new();
    let ran = place.run(&["plan", &source("split/split.c"), "--target", "xdp"]);
    let line = |name: &str| {
        ran.ok().lines().find(|line| line.trim_start().starts_with(name)).unwrap_or("")
    };
    assert!(
        line("kind ").contains("1 of 4 process") && line("reply ").contains("1 of 4 cpu"),
        "{ran:?}"
    );
    assert!(line("sources ").contains("process-l2") && line("latest ").contains("map"), "{ran:?}");
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let place = Place::new();
    let capture = example("l4lb/traffic.pcap");
    let verify = |program: &str| place.run(&["verify", program, "--pcap", &capture]);
    verify(&source("fill/both.c"))
        .fails(1, &["`net_recv` must run on the NIC and `more` on the host", "`sources`"]);
    let ordered =
        std::fs::read_to_string(source("fill/fill.c")).unwrap().replace("NF_UNORDERED\n", "");
    let ordered = place.file("fill.c", ordered);
    verify(ordered.to_str().unwrap())
        .fails(1, &["events reach `fill` by several ways", "write NF_UNORDERED before it"]);
    let stack = "#include <nicforge.h>\nvoid more(nf_pkt pkt);\nvoid net_recv(nf_pkt pkt) { nf_enqueue(more, pkt); }\n\
                 NF_ON(host);\nvoid more(nf_pkt pkt) { nf_pass(pkt); }\n";
    let stack = place.file("stack.c", stack);
    verify(stack.to_str().unwrap()).fails(
        1,
        &["stack.c:5", "`more` runs in the process and passes packets to the operating system"],
    );
}

/// The ring of an AF_XDP socket has one producer.
#[test]
fn packets_come_to_the_process_from_one_place() {
    const HEAD: &str = "#include <nicforge.h>\nNF_PORTS(1);\nNF_TABLE(hash, seen, nf_be32, uint64_t, 1024);\nvoid more(nf_pkt pkt);\n";
    const MORE: &str =
        "NF_ON(host);\nNF_UNORDERED\nvoid more(nf_pkt pkt) { nf_drop(pkt, \"more\"); }\n";
    let place = Place::new();
    let two = "void later(nf_pkt pkt);\nvoid net_recv(nf_pkt pkt)\n{\n    if (nf_len(pkt) > 100)\n        nf_enqueue(later, pkt);\n    \
               else\n        nf_enqueue(more, pkt);\n}\nvoid later(nf_pkt pkt)\n{\n    nf_add_value(&seen, 0, 1);\n    \
               nf_enqueue(more, pkt);\n}\n";
    let two = place.file("two.c", format!("{HEAD}{two}{MORE}"));
    place.run(&["build", two.to_str().unwrap(), "--target", "xdp", "--emit", "c"]).fails(
        1,
        &[
            "two.c:13",
            "2 replicas of 2 stages hand packets to the process",
            "takes one sender",
            "help: ",
        ],
    );
    let spread = "void net_recv(nf_pkt pkt)\n{\n    struct nf_eth eth;\n    struct nf_ipv4 ip;\n    \
                  if (nf_extract(pkt, &eth) && nf_extract(pkt, &ip))\n        nf_add_value(&seen, ip.src, 1);\n    nf_reset(pkt);\n    \
                  nf_enqueue(more, pkt);\n}\n";
    let spread = place.file("spread.c", format!("{HEAD}{spread}{MORE}"));
    let said = place.run(&[
        "explain",
        spread.to_str().unwrap(),
        "--target",
        "xdp",
        "replicas",
        "net_recv",
    ]);
    assert!(
        said.ok().contains("hands packets to AF_XDP sockets, which take one sender"),
        "{said:?}"
    );
}

/// Units may have features of their own: the process runs functions that stay C, the kernel's hook
/// does not.
#[test]
fn what_only_the_host_can_do_is_asked_for_there() {
    let place = Place::new();
    let source = "#include <nicforge.h>\nNF_PORTS(1);\n\
                  extern uint32_t third(uint32_t x) __attribute__((const));\n\
                  void make(nf_pkt pkt);\n\
                  void net_recv(nf_pkt pkt) { nf_enqueue(make, pkt); }\n\
                  NF_ON(host);\n\
                  void make(nf_pkt pkt) { nf_send(pkt, third(nf_len(pkt)) & 0); }\n";
    let host = place.file("host.c", source);
    let said = place.run(&["plan", host.to_str().unwrap(), "--target", "xdp"]);
    assert!(said.ok().contains("of 4 process"), "{said:?}");
    let nic = place.file("nic.c", source.replace("NF_ON(host)", "NF_ON(nic)"));
    place
        .run(&["plan", nic.to_str().unwrap(), "--target", "xdp"])
        .fails(1, &["lacks functions of C such as `third`"]);
}
