//! Random listings: the search finds what enumerating all paths finds, every witness takes its
//! path, and no random packet costs more than the bound.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nicforge_bound::analysis::{Options, PathReport, analyse};
use nicforge_bound::method::Method;
use nicforge_bound::search::{By, Machine};
use nicforge_bound::timing::Work;
use nicforge_bound::{nfp, replay};
use nicforge_isa::nfp::{self as isa, DramRead, Entry, Listing};
use nicforge_util::random::{Random, mix};

/// Registers 6 to 11 hold values, 4 the packet's address, 12 an offset.
fn register(random: &mut Random) -> u64 {
    6 + random.below(6)
}

fn line(random: &mut Random, labels: usize, at: usize) -> Vec<String> {
    let (d, a, b) = (register(random), register(random), register(random));
    let imm = [0, 1, 3, 7, 0x10, 0x3f, 0x80, 0xff][random.below(8) as usize];
    let second = if random.below(2) == 0 { format!("{imm:#x}") } else { format!("gprB_{b}") };
    match random.below(22) {
        0..=2 => {
            let op = random.pick(&["B", "AND", "OR", "XOR", "+", "-", "+carry", "-carry", "~B"]);
            vec![format!("alu[gprA_{d}, gprA_{a}, {op}, {second}], gpr_wrboth")]
        }
        3 => {
            let shift = random.pick(&["<<2", ">>3", ">>rot8", ">>indirect", "<<indirect"]);
            vec![
                format!("alu[--, gprA_{a}, AND, 0x7]"),
                format!("alu_shf[gprA_{d}, --, B, gprB_{b}, {shift}], gpr_wrboth"),
            ]
        }
        4 => vec![format!("ld_field[gprA_{d}, 0101, gprB_{b}, >>rot8], gpr_wrboth")],
        5 => vec![
            format!("alu[*l$index0[{}], --, B, gprB_{b}]", random.below(3)),
            format!("alu[gprA_{d}, --, B, *l$index0[{}]], gpr_wrboth", random.below(3)),
        ],
        6 => vec![
            format!("alu[gprA_12, gprA_{a}, AND, 0xc], gpr_wrboth"),
            "alu[gprA_12, gprA_12, +, gprB_4], gpr_wrboth".to_string(),
            format!(
                "mem[read32_swap, $xfer_0, gprA_12, {:#x}, 1], ctx_swap[sig1]",
                random.below(40)
            ),
            format!("alu[gprA_{d}, --, B, $xfer_0], gpr_wrboth"),
        ],
        7 => vec![
            format!("alu[$xfer_2, --, B, gprA_{a}]"),
            format!(
                "mem[write8_swap, $xfer_2, gprA_4, {:#x}, {}], ctx_swap[sig1]",
                random.below(40),
                1 + random.below(4)
            ),
        ],
        8 => vec![
            format!("alu[gprA_12, gprA_{a}, AND, 0x38], gpr_wrboth"),
            "mem[read32_swap, $xfer_4, gprB_23, <<8, gprA_12, 2], ctx_swap[sig1]".to_string(),
            format!("alu[gprA_{d}, --, B, $xfer_5], gpr_wrboth"),
        ],
        _ => {
            let branch = random.pick(&[
                "beq", "bne", "bcc", "bcs", "blt", "bge", "bgt", "ble", "bmi", "bpl", "bvs", "bvc",
            ]);
            let label = at + 1 + random.below((labels - at).min(4) as u64) as usize;
            let op = random.pick(&["-", "AND", "XOR", "+"]);
            vec![format!("alu[--, gprA_{a}, {op}, {second}]"), format!("{branch}[@{label}]")]
        }
    }
}

fn program(random: &mut Random) -> Listing {
    let mut lines = vec![
        "immed[gprB_22, 0x3fff]".to_string(),
        "alu[gprB_22, gprB_22, AND, *l$index1]".to_string(),
        "alu[gprA_4, --, B, *l$index1[2]], gpr_wrboth".to_string(),
        "mem[read32_swap, $xfer_0, gprA_4, 0x4, 5], ctx_swap[sig1]".to_string(),
    ];
    for word in 0..5 {
        // Few bits, so that branches contradict each other often.
        lines.push(format!("ld_field_w_clr[gprA_{}, 0001, $xfer_{word}], gpr_wrboth", 6 + word));
    }
    lines.push("alu[gprA_11, --, B, gprB_22], gpr_wrboth".to_string());
    for word in 0..3 {
        lines.push(format!("alu[*l$index0[{word}], --, B, gprB_{}]", 6 + word));
    }
    let labels = 8 + random.below(16) as usize;
    let mut starts = Vec::new();
    for at in 0..labels {
        starts.push(lines.len());
        lines.extend(line(random, labels, at));
    }
    starts.push(lines.len());
    lines.push("br[.15000]".to_string());
    let text: String = lines
        .iter()
        .enumerate()
        .map(|(index, line)| {
            let line = match line.split_once("[@") {
                Some((branch, label)) => {
                    let label: usize = label.trim_end_matches(']').parse().unwrap();
                    format!("{branch}[.{}]", starts[label])
                }
                None => line.clone(),
            };
            format!("{:x}:\t .{index}  {line}\n", 8 * index)
        })
        .collect();
    isa::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn options() -> Options {
    Options {
        machine: Machine {
            base_cycles: 224.0,
            cores: 50.0,
            hz: 800e6,
            port_pps: None,
            port_bps: None,
        },
        sizes: (60, 1500),
        by: vec![By::BitRate, By::PacketRate],
        required: None,
        top: 0,
        all: true,
        unroll: None,
        timeout: None,
        given: Vec::new(),
        method: Method::Default,
        path: None,
    }
}

fn slowness(by: By, path: &PathReport) -> f64 {
    match by {
        By::BitRate => path.seconds / path.size as f64,
        By::PacketRate => path.seconds,
    }
}

/// Alternatives of the search, and the slowest path given by its blocks, come to the same.
#[test]
fn methods_agree() {
    let mut random = Random::new(0xfeed_5678_9abc_def1);
    let run = |listing: &isa::Listing, options: &Options| {
        let graph = nfp::graph(&listing.insns, false).unwrap();
        analyse(graph, options, Arc::new(AtomicBool::new(false)), &mut |_, _| {})
    };
    for round in 0..40 {
        let listing = program(&mut random);
        let normal = Options { all: false, ..options() };
        let ours = run(&listing, &normal).unwrap();
        for method in [Method::EveryBranch, Method::NoStatic, Method::OneByOne, Method::Exhaustive]
        {
            let theirs = run(&listing, &Options { method, ..normal.clone() }).unwrap();
            for (a, b) in ours.records.iter().zip(&theirs.records) {
                assert!(a.exact && b.exact, "round {round} {method:?}");
                assert!(
                    (a.bound / b.bound - 1.0).abs() < 1e-9,
                    "round {round} {method:?} {:?}",
                    a.by
                );
            }
        }
        let slowest = &ours.records[1].slowest.as_ref().unwrap().witness;
        let blocks: Vec<_> =
            slowest.visits.iter().map(|visit| (visit.block, Some(visit.taken))).collect();
        let given =
            run(&listing, &Options { path: Some(blocks.clone()), ..normal.clone() }).unwrap();
        let found = given.records[1].slowest.as_ref().unwrap();
        assert_eq!(found.witness.work, slowest.work, "round {round}");
        let cut = Options { path: Some(blocks[..blocks.len() - 1].to_vec()), ..normal };
        let error = run(&listing, &cut).unwrap_err().to_string();
        assert!(blocks.len() == 1 || error.contains("the path ends after block"), "{error}");
    }
}

#[test]
fn search_agrees_with_enumeration_and_with_packets() {
    let mut random = Random::new(0x1234_5678_9abc_def1);
    let (mut clauses, mut paths) = (0, 0);
    for round in 0..150 {
        let listing = program(&mut random);
        let show = || isa::print(&listing.insns);
        let graph = nfp::graph(&listing.insns, false).unwrap();
        let options = options();
        let report =
            analyse(graph, &options, Arc::new(AtomicBool::new(false)), &mut |_, _| {}).unwrap();
        let (all, whole) = report.all.as_ref().unwrap();
        assert!(whole);
        clauses += report.clauses;
        paths += all.len();
        for record in &report.records {
            assert!(record.exact, "round {round}");
            let brute = all.iter().map(|path| slowness(record.by, path)).fold(0.0, f64::max);
            let ours = slowness(record.by, record.slowest.as_ref().unwrap());
            assert!(
                (ours / brute - 1.0).abs() < 1e-9,
                "round {round} {:?}: {ours} {brute}\n{}",
                record.by,
                show()
            );
        }
        let records = report.records.iter().filter_map(|record| record.slowest.as_ref());
        for path in all.iter().take(40).chain(records) {
            replay::nfp(&listing.insns, &path.witness)
                .unwrap_or_else(|e| panic!("round {round}: {e}\n{}", show()));
        }
        for _ in 0..60 {
            let size = 60 + random.below(1441) as usize;
            let mut packet: Vec<u8> =
                (0..size).map(|_| (random.next() & random.next()) as u8).collect();
            let mut seed = random.next();
            let mut dram = |read: &DramRead| {
                seed = mix(seed ^ read.address);
                seed.to_le_bytes().repeat(read.bytes.div_ceil(8))
            };
            let entry = Entry {
                packet: &mut packet,
                dram: &mut dram,
                written: &mut |_, _| {},
                limit: 10_000,
            };
            let run = isa::Machine::run(&listing.insns, entry).unwrap();
            let work = Work { milli: 1000 * run.clock.cycles, micro: run.clock.dram_micro };
            let seconds = options.machine.seconds(work);
            assert!(seconds <= report.records[1].bound * (1.0 + 1e-9), "round {round}\n{}", show());
            assert!(
                seconds / size as f64 <= report.records[0].bound * (1.0 + 1e-9),
                "round {round}\n{}",
                show()
            );
        }
    }
    // The programs must be such that there is something to learn.
    assert!(clauses > 50 && paths > 1000, "{clauses} clauses, {paths} paths");
}
