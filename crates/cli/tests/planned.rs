//! Planned targets whose hardware something else stands in for, from the command line: some
//! examples against the interpreter, the first few hundred events of each capture.

mod common;

use common::{Place, can_emulate_arm, cut};

/// Verifies examples on their best plan, and the first of them on candidate 1 of the search. That
/// all of them do what the interpreter does, on several plans, is what tests/plans.rs looks at.
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
    if !can_emulate_arm() {
        return;
    }
    verify("bluefield2", &["firewall", "nf_chain", "rpc_reassembly"], "(functional: emulated)");
}

#[test]
fn examples_on_agilio_cx() {
    verify(
        "agilio-cx",
        &["firewall", "nf_chain", "kv_cache"],
        "(functional: on a shim of the chip)",
    );
}

/// There is C for the chip's engines only; programs with a host side are planned for it.
#[test]
fn a_host_side_is_in_the_build_of_agilio_cx() {
    let place = Place::new();
    let source = "#include <nicforge.h>\nNF_PORTS(1);\nNF_ON(host)\nvoid far(nf_pkt pkt) { nf_send(pkt, 0); }\n\
                  void net_recv(nf_pkt pkt) { nf_enqueue(far, pkt); }\n";
    std::fs::write(place.path().join("far.c"), source).unwrap();
    place.run(&["plan", "far.c", "--target", "agilio-cx"]).ok();
    place.run(&["build", "far.c", "--target", "agilio-cx", "-o", "out"]).ok();
    let text = |name: &str| std::fs::read_to_string(place.path().join("out").join(name)).unwrap();
    assert!(text("Makefile").contains("# stage_1.c runs on the host."), "{}", text("Makefile"));
    assert!(text("placement.ini").contains("units = host.0"), "{}", text("placement.ini"));
    assert!(text("nf_program.h").contains("#ifndef NF_CHIP"));
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

/// A balancer by highest random weight: control packets change which servers are well, every packet
/// asks, and each connection keeps its server. `OTHERWISE` is what becomes of a connection that the
/// table refuses.
const BALANCER: &str = r#"#include <nicforge.h>
struct flow { nf_be32 src; nf_be32 dst; nf_be16 sport; nf_be16 dport; };
NF_TABLE(KIND, connections, struct flow, uint32_t, 64);
NF_TABLE(array, unwell, uint32_t, uint32_t, 1);
NF_TABLE(array, sent, uint32_t, uint64_t, 16);
NF_TABLE(array, refused, uint32_t, uint64_t, 1);
void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t unwell_now;
    if (udp.dport == nf_htons(9999)) {
        nf_lookup(&unwell, 0, &unwell_now);
        nf_update(&unwell, 0, unwell_now ^ (1u << (nf_ntohs(udp.sport) & 15)));
        nf_drop(pkt, "control");
        return;
    }
    struct flow flow = {ip.src, ip.dst, udp.sport, udp.dport};
    uint32_t server;
    nf_lookup(&unwell, 0, &unwell_now);
    bool known = nf_lookup(&connections, flow, &server);
    if (!known || (unwell_now >> server & 1)) {
        uint32_t most = 0;
        bool any = false;
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t weight = nf_hash(i, flow);
            if (!(unwell_now >> i & 1) && (!any || weight > most)) {
                most = weight;
                server = i;
                any = true;
            }
        }
        if (!any || !nf_update(&connections, flow, server)) {
            nf_add_value(&refused, 0, 1);
            OTHERWISE
        }
    }
    nf_add_value(&sent, server, 1);
    nf_reset(pkt);
    nf_extract(pkt, &eth);
    eth.type = nf_htons(server);
    nf_emit(pkt, &eth);
    nf_send(pkt, 1);
}
"#;

/// Packets of some hundred connections, and a control packet now and then.
fn connections() -> Vec<u8> {
    let mut capture = vec![
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
    ];
    let mut numbers = nicforge_util::Random::new(5);
    for i in 0..1500u32 {
        let random = numbers.next() as u32;
        let (source, control) = (random >> 8 & 0xff, random >> 24 < 12);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([
            0x45,
            0,
            0,
            46,
            0,
            0,
            0,
            0,
            64,
            17,
            0,
            0,
            10,
            0,
            0,
            source as u8,
            10,
            0,
            1,
            1,
        ]);
        let ports = if control {
            [source as u16 & 15, 9999]
        } else {
            [1000 + (random >> 17) as u16 % 2, 53]
        };
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0, 26, 0, 0]);
        frame.resize(60, 0);
        for word in [i / 1000, i % 1000 * 1000, 60, 60] {
            capture.extend(word.to_le_bytes());
        }
        capture.extend(frame);
    }
    capture
}

/// Replicas that each have a part of a hash table refuse what the one table refuses, and packets
/// that only read an entry need no order among each other. Parts of an LRU table keep at least what
/// the one table keeps, so room is made for the comparison.
#[test]
fn full_tables_among_replicas() {
    let place = Place::new();
    place.file("traffic.pcap", connections());
    for (target, kind, otherwise) in [
        ("dpdk", "hash", "nf_drop(pkt, \"full\"); return;"),
        ("dpdk", "hash", ";"),
        ("dpdk", "lru", ";"),
        ("liquidio", "hash", "nf_drop(pkt, \"full\"); return;"),
        ("agilio-cx", "hash", ";"),
    ] {
        let program = BALANCER.replace("KIND", kind).replace("OTHERWISE", otherwise);
        place.file("balancer.c", program);
        let ran =
            place.run(&["verify", "balancer.c", "--target", target, "--pcap", "traffic.pcap"]);
        assert!(
            ran.ok().contains("1500 of 1500 events, 4 of 4 tables"),
            "{target} {kind}: {ran:?}"
        );
        let replicas =
            ["x2", "x3", "x4", "x5", "x6", "x7", "x8"].iter().any(|many| ran.out.contains(many));
        assert!(replicas, "{target} {kind}: nothing is shared out: {ran:?}");
    }
}

/// A sequencer: every packet gets the next number, then its connection's entry is changed.
const SEQUENCER: &str = r#"#include <nicforge.h>
struct conn { nf_be32 src; nf_be32 dst; nf_be16 sport; nf_be16 dport; };
NF_TABLE(array, next, uint32_t, uint32_t, 1);
NF_TABLE(hash, flows, struct conn, uint64_t, 4096);
void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t number;
    nf_lookup(&next, 0, &number);
    nf_update(&next, 0, number + 1);
    struct conn key = {ip.src, ip.dst, udp.sport, udp.dport};
    uint64_t sum;
    nf_lookup(&flows, key, &sum);
    for (uint32_t i = 0; i < 16; i++)
        sum = sum * 31 + nf_hash(i, key) % (number + 1 + i);
    nf_update(&flows, key, sum);
    nf_reset(pkt);
    nf_extract(pkt, &eth);
    eth.type = nf_htons(number + (uint16_t)sum);
    nf_emit(pkt, &eth);
    nf_send(pkt, 0);
}
"#;

/// Replicas that send what an earlier stage numbered would mix it: it leaves in order all the same.
#[test]
fn replicas_behind_a_sequencer_send_in_order() {
    let place = Place::new();
    place.file("traffic.pcap", connections());
    place.file("sequencer.c", SEQUENCER);
    for target in ["dpdk", "liquidio"] {
        let planned = place.run(&["plan", "sequencer.c", "--target", target]);
        assert!(
            planned.ok().contains("packets are put in order again where they leave"),
            "{planned:?}"
        );
        let ran =
            place.run(&["verify", "sequencer.c", "--target", target, "--pcap", "traffic.pcap"]);
        assert!(ran.ok().contains("1500 of 1500 events, 2 of 2 tables"), "{target}: {ran:?}");
    }
}
