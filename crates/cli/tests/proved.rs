//! `nicforge verify PROGRAM --prove`: the object that is made of a program does what αIR says, for
//! every packet; mistakes in objects are told. NICFORGE_RANDOM_SEED chooses the mistakes.

mod common;

use std::collections::BTreeSet;

use common::{Place, example, soak};
use nicforge_bound::ebpf::Tails;
use nicforge_bound::equal::{Ended, Side, World, dropped};
use nicforge_isa::ebpf::{Insn, LDDW};
use nicforge_isa::object;
use nicforge_util::Random;
use serde_json::Value;

/// Examples and test programs that are proved as a whole, and how many pairs of paths each has at
/// least: fewer would mean that something is not looked at.
const PROVED: [(&str, u64); 18] = [
    ("examples/conn_limiter/conn_limiter.c", 30),
    ("examples/firewall/firewall.c", 30),
    ("examples/flow_ageing/flow_ageing.c", 8),
    ("examples/icmp_echo/icmp_echo.c", 10),
    ("examples/l2_forward/l2_forward.c", 1),
    ("examples/multicast/multicast.c", 1000),
    ("examples/rdma_write/rdma_write.c", 40),
    ("examples/retransmit/retransmit.c", 6),
    ("examples/ring_wrap/ring_wrap.c", 12),
    ("tests/programs/bit_fields/bit_fields.c", 3),
    ("tests/programs/buckets/buckets.c", 3),
    ("tests/programs/flow_numbers/flow_numbers.c", 6),
    ("tests/programs/kernel_limits/misaligned.c", 6),
    ("tests/programs/kernel_limits/vlanq.c", 8),
    ("tests/programs/pairs/pairs.c", 30),
    ("tests/programs/rationed/rationed.c", 6),
    ("tests/programs/small_tables/small_tables.c", 60),
    ("tests/programs/trimmed/trimmed.c", 8),
];

/// Those in whose objects mistakes are made: they have one program.
const SUBJECTS: [&str; 7] = [
    "examples/conn_limiter/conn_limiter.c",
    "examples/firewall/firewall.c",
    "examples/icmp_echo/icmp_echo.c",
    "examples/rdma_write/rdma_write.c",
    "tests/programs/pairs/pairs.c",
    "tests/programs/small_tables/small_tables.c",
    "tests/programs/trimmed/trimmed.c",
];
/// Mistakes that are looked for in the long runs and in short ones, and random packets for each.
const MISTAKES: [usize; 2] = [50, 15];
const PACKETS: u32 = 200;
/// Longer than any machine takes.
const TIME: &str = "600";

fn at_root(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn objects_do_what_their_programs_say() {
    let place = Place::new();
    for (program, least) in PROVED {
        let path = at_root(program);
        let ran = place.run(&["verify", &path, "--prove", "--json", "--time", TIME]);
        let report: Value = serde_json::from_str(ran.ok()).expect("a report");
        assert_eq!(report["outcome"], "proved", "{program}: {report:#}");
        assert_eq!(report["pairs"], report["proved"], "{program}: {report:#}");
        assert!(report["pairs"].as_u64() >= Some(least), "{program}: {report:#}");
    }
}

/// One length, which a path knows, and any: so both ways to look at a record.
const TO_HOST: &str = r#"
#include <nicforge.h>
NF_PORTS(2);
struct mark { uint32_t number; uint16_t port; };
void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (nf_len(pkt) == LENGTH && nf_extract(pkt, &eth)) {
        struct mark mark = {7, nf_port(pkt)};
        nf_emit(pkt, &mark);
        nf_emit(pkt, &eth);
        nf_send(nf_clone(pkt), 1);
        nf_to_host(pkt);
        return;
    }
    nf_pass(pkt);
}
"#;

#[test]
fn records_of_known_length_are_compared_byte_by_byte() {
    let place = Place::new();
    place.file("to_host.c", TO_HOST);
    for length in ["64", "nf_len(pkt)"] {
        let define = format!("LENGTH={length}");
        let ran = place.run(&["verify", "to_host.c", "--prove", "-D", &define, "--time", TIME]);
        assert!(ran.ok().contains("proved equal"), "{ran:?}");
    }
    let define = ["-D", "LENGTH=65"];
    place.run(&[&["build", "to_host.c", "-o", "wrong.o"], &define[..]].concat()).ok();
    let arguments = ["verify", "to_host.c", "--prove", "-D", "LENGTH=64", "--object", "wrong.o"];
    let ran = place.run(&arguments);
    assert_eq!(ran.code(), 1, "{ran:?}");
    assert!(ran.out.contains("they differ"), "{ran:?}");
}

#[test]
fn what_is_not_followed_is_never_proved() {
    let place = Place::new();
    let ran = place.run(&["verify", &example("telemetry"), "--prove", "--time", TIME]);
    assert_eq!(ran.code(), 5, "{ran:?}");
    let texts = ["not proved: 4 of 94 pairs", "telemetry.c:47: table `batches` is not followed"];
    texts.iter().for_each(|text| assert!(ran.out.contains(text), "{text}: {ran:?}"));
    // More zeroes than are written one by one.
    place.file(
        "grows.c",
        "#include <nicforge.h>\nvoid net_recv(nf_pkt pkt) { if (!nf_extend(pkt, 600)) { nf_drop(pkt, \
         \"long\"); return; } nf_pass(pkt); }\n",
    );
    let ran = place.run(&["verify", "grows.c", "--prove", "--time", TIME]);
    assert_eq!(ran.code(), 5, "{ran:?}");
    assert!(ran.out.contains("program: grows.c:2: growth by many bytes"), "{ran:?}");
    let divided = at_root("tests/programs/stages/twice.c");
    place.run(&["verify", &divided, "--prove"]).fails(5, &["queue `length` divides the program"]);
    // Which of many constants is read stays open; what they are does not.
    let ran = place.run(&["verify", &example("regex_filter"), "--prove", "--time", "2"]);
    assert_eq!(ran.code(), 5, "{ran:?}");
    let other = at_root("examples/firewall/firewall.c");
    let object = place.path().join("firewall.o");
    place.run(&["build", &other, "-o", &object.display().to_string()]).ok();
    let object = object.display().to_string();
    let ran = place.run(&["verify", &example("icmp_echo"), "--prove", "--object", &object]);
    assert_eq!(ran.code(), 1, "{ran:?}");
    let texts = ["they differ", "program: XDP_", "object: XDP_", "the reference interpreter"];
    texts.iter().for_each(|text| assert!(ran.out.contains(text), "{text}: {ran:?}"));
    let ran = place.run(&["verify", &object, "--prove", "--object", &object]);
    ran.fails(2, &["of two objects use --against"]);
    place.file("text", "no object");
    let ran = place.run(&["verify", &other, "--prove", "--object", "text"]);
    ran.fails(1, &["text: no ELF object"]);
}

/// Where a section of an ELF file is.
fn section(elf: &[u8], name: &str) -> usize {
    let number = |at: usize, bytes: usize| {
        elf[at..at + bytes].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    let (table, each, names) = (number(0x28, 8), number(0x3a, 2), number(0x3e, 2));
    let start = |index: usize| number(table + each * index + 0x18, 8);
    let named = |index: &usize| {
        let text = &elf[start(names) + number(table + each * index, 4)..];
        text.starts_with(name.as_bytes()) && text[name.len()] == 0
    };
    start((0..number(0x3c, 2)).find(named).expect("the section"))
}

/// Another constant, another operation, or another sense of a jump.
fn mistaken(insn: Insn, random: &mut Random) -> Option<Insn> {
    let mut wrong = insn;
    let constant = insn.code & 8 == 0;
    match (insn.code & 7, random.below(2)) {
        (4 | 7, 0) if constant => wrong.imm ^= 1 << random.below(8),
        (4 | 7, _) => wrong.code ^= 0x10 << random.below(4),
        (5 | 6, 0) if constant && insn.code != 0x05 => wrong.imm ^= 1 << random.below(8),
        // `==` and `!=`, `>` and `>=`, signed or not.
        (5 | 6, _) if insn.code & 0xf0 > 0 && insn.code & 0xf0 < 0x80 => wrong.code ^= 0x40,
        _ => return None,
    }
    (wrong != insn && insn.code != LDDW).then_some(wrong)
}

fn side(elf: &[u8]) -> Side {
    let object = object::parse(elf).expect("an object");
    let program = object.programs[0].clone();
    Side { program, maps: object.maps, tails: Tails::new() }
}

/// A packet as these programs look for them.
fn world(side: &Side, random: &mut Random) -> World {
    let size = 40 + random.below(60);
    let mut packet: Vec<u8> = (0..size).map(|_| (random.next() & random.next()) as u8).collect();
    if random.below(8) > 0 {
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        packet[23] = random.pick(&[1, 6, 17]);
        packet[34] &= 8;
    }
    let mut world = World { packet, ..World::default() };
    let ports = side.maps.iter().position(|map| map.name == "nf_ports");
    for (port, map) in (0..2u32).flat_map(|port| ports.map(|map| (port, map))) {
        world.entries.insert((map, port.to_le_bytes().to_vec()), vec![0; 4]);
    }
    world.context.insert(12, random.below(3) as u32);
    world
}

/// Results as they are compared: where the packet goes, its bytes, tables, and messages.
fn seen(mut ended: Ended, side: &Side) -> Ended {
    ended.verdict = dropped(ended.verdict);
    if ended.verdict == 1 {
        ended.packet = None;
    }
    ended.entries.retain(|(map, _), _| {
        side.maps[*map].kind.is_some() && !side.maps[*map].name.starts_with("nf_")
    });
    ended
}

/// True if random packets tell two objects apart; `None` if one does what the kernel takes from no
/// program.
fn differ(right: &Side, wrong: &Side, random: &mut Random) -> Option<bool> {
    let mut found = false;
    for _ in 0..PACKETS {
        let world = world(right, random);
        let (a, b) = (world.run_anywhere(right).ok()??, world.run_anywhere(wrong).ok()??);
        found |= seen(a, right).difference(&seen(b, right), &right.maps).is_some();
    }
    Some(found)
}

#[test]
fn mistakes_in_objects_are_told() {
    let place = Place::new();
    let seed = std::env::var("NICFORGE_RANDOM_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut random = Random::new(seed.unwrap_or(1));
    let built = SUBJECTS.map(|program| {
        let program = at_root(program);
        let object = place.path().join("object.o");
        place.run(&["build", &program, "-o", &object.display().to_string()]).ok();
        (program, std::fs::read(&object).expect("the object"))
    });
    let (mut told, mut same, mut seen) = (0, 0, BTreeSet::new());
    let [many, few] = MISTAKES;
    let wanted = if soak() { many } else { few };
    while told < wanted {
        let subject = random.below(built.len() as u64) as usize;
        let (program, elf) = &built[subject];
        let (right, code) = (side(elf), section(elf, "xdp"));
        let at = random.below(right.program.insns.len() as u64) as usize;
        let Some(wrong) = mistaken(right.program.insns[at], &mut random) else { continue };
        let inside = at > 0 && right.program.insns[at - 1].code == LDDW;
        if inside || !seen.insert((subject, at, wrong.code, wrong.imm)) {
            continue;
        }
        let mut bad = elf.clone();
        bad[code + 8 * at] = wrong.code;
        bad[code + 8 * at + 4..code + 8 * at + 8].copy_from_slice(&wrong.imm.to_le_bytes());
        place.file("wrong.o", &bad);
        // Programs that the kernel would not take are nobody's.
        let Some(differs) = differ(&right, &side(&bad), &mut random) else { continue };
        let arguments = ["--prove", "--object", "wrong.o", "--json", "--time", TIME];
        let ran = place.run(&[&["verify", program], &arguments[..]].concat());
        let report: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("a report: {ran:?}"));
        let what = format!("{program}, instruction {at}: {wrong:?}: {report:#}");
        match report["outcome"].as_str() {
            Some("differ") => told += 1,
            Some("proved") => {
                assert!(!differs, "proved, but packets tell them apart: {what}");
                same += 1;
            }
            _ => assert!(!differs, "packets tell them apart, the proof does not: {what}"),
        }
        assert!(seen.len() < 20 * wanted, "{told} of {} mistakes are told", seen.len());
    }
    println!("{told} mistakes are told, {same} change nothing");
}
