//! The programs of `examples/xdp`: exact bounds, instruction counts near the published ones,
//! witnesses that do as claimed.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nicforge_bound::analysis::{Options, Report, analyse};
use nicforge_bound::graph::Graph;
use nicforge_bound::method::Method;
use nicforge_bound::search::{By, Machine};
use nicforge_bound::{ebpf, nfp, replay};
use nicforge_isa::{lower, object};

fn compiled(name: &str, define: &str) -> object::Object {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/xdp")
        .join(name)
        .with_extension("c");
    let asm = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new(nicforge_clang::name());
    clang.args([
        "-O2",
        "-g",
        "-target",
        "bpf",
        "-mcpu=v3",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-idirafter",
        &asm,
    ]);
    clang.arg(format!("-D{define}")).arg("-c").arg(source).args(["-o", "-"]);
    let ran = clang.output().expect("clang-19 starts (apt-get install clang-19)");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    object::parse(&ran.stdout).unwrap()
}

fn bound(graph: Graph, machine: Machine) -> Report {
    let options = Options {
        machine,
        sizes: (60, 1500),
        by: vec![By::BitRate, By::PacketRate],
        required: None,
        top: 0,
        all: false,
        unroll: None,
        timeout: None,
        given: Vec::new(),
        method: Method::Default,
        path: None,
    };
    analyse(graph, &options, Arc::new(AtomicBool::new(false)), &mut |_, _| {}).unwrap()
}

fn agilio() -> Machine {
    Machine { base_cycles: 224.0, cores: 50.0, hz: 800e6, port_pps: None, port_bps: None }
}

/// A nanosecond an instruction.
const CORE: Machine =
    Machine { base_cycles: 0.0, cores: 1.0, hz: 1e9, port_pps: None, port_bps: None };

/// Program, define, NFP instructions of the published program of that kind (CoNEXT'21, Table 1).
const PROGRAMS: [(&str, &str, usize); 12] = [
    ("header_parser", "X", 1559),
    ("dos_filter", "X", 406),
    ("quic_lb4", "X", 599),
    ("quic_lb6", "X", 662),
    ("alaw", "X", 233),
    ("alaw", "OPTIMISED", 205),
    ("dns_cache", "X", 2137),
    ("count_min", "HASHES=5", 668),
    ("count_min", "HASHES=10", 991),
    ("count_min", "HASHES=15", 1403),
    ("count_min", "HASHES=20", 1743),
    ("path_explosion", "X", 1035),
];

#[test]
fn bounds_are_exact_and_witnesses_take_their_paths() {
    for (name, define, published) in PROGRAMS {
        let object = compiled(name, define);
        let lowered = lower::lower(&object.programs[0], &object.maps).unwrap();
        // Programs of the same purpose, not the same programs: sizes say no more than that.
        let ratio = lowered.insns.len() as f64 / published as f64;
        assert!(
            (0.6..=1.3).contains(&ratio),
            "{name} {define}: {} instructions",
            lowered.insns.len()
        );
        let shared = lowered.writes || lowered.modelled;
        let report = bound(nfp::graph(&lowered.insns, shared).unwrap(), agilio());
        for record in &report.records {
            assert!(record.exact, "{name} {define}");
            let path = record.slowest.as_ref().unwrap();
            replay::nfp(&lowered.insns, &path.witness)
                .unwrap_or_else(|e| panic!("{name} {define}: {e}"));
        }
        assert!(report.solver_calls < 500, "{name} {define}: {} solver calls", report.solver_calls);
    }
}

#[test]
fn the_hidden_path_is_found() {
    let object = compiled("path_explosion", "X");
    let lowered = lower::lower(&object.programs[0], &object.maps).unwrap();
    let report = bound(nfp::graph(&lowered.insns, true).unwrap(), agilio());
    let path = report.records[0].slowest.as_ref().unwrap();
    // 64 additions for a word of zeroes; naively 96.
    assert_eq!(path.witness.work.micro, 64 * 3_219_819);
    assert_eq!(path.witness.packet[..4], [0; 4]);
    assert!(report.records[0].naive > 1.4 * report.records[0].bound);
}

#[test]
fn executed_instructions_are_bounded() {
    for (name, define, _) in PROGRAMS {
        let object = compiled(name, define);
        let program = &object.programs[0];
        let report = bound(ebpf::graph(program, &object.maps).unwrap(), CORE);
        for record in &report.records {
            assert!(record.exact, "{name} {define}");
            let path = record.slowest.as_ref().unwrap();
            replay::ebpf(program, &object.maps, &path.witness)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        if name == "count_min" || name == "dos_filter" {
            // What the kernel's maps must hold: entries that fit them.
            let witness = &report.records[1].slowest.as_ref().unwrap().witness;
            let contents = replay::contents(program, &object.maps, witness).unwrap();
            assert!(!contents.entries.is_empty() && !contents.more, "{name}: {contents:?}");
            for entry in &contents.entries {
                let map = object.maps.iter().find(|map| map.name == entry.map).unwrap();
                assert_eq!(
                    (entry.key.len(), entry.value.len()),
                    (map.key_size as usize, map.value_size as usize)
                );
            }
        }
        // Packet sizes follow from edges, so that hardly anything is left to ask.
        assert!(report.solver_calls < 200, "{name} {define}: {} solver calls", report.solver_calls);
    }
}

/// Objects that other people made: an exact result, or a reason that names what is unsupported and
/// where.
#[test]
fn objects_of_libxdp() {
    let folder = Path::new("/usr/lib").join(format!("{}-linux-gnu/bpf", std::env::consts::ARCH));
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is missing (apt-get install libxdp1)", folder.display());
        return;
    };
    let (mut graphs, mut offloaded, mut refused) = (0, 0, Vec::new());
    for entry in entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "o"))
    {
        let object = object::parse(&std::fs::read(&entry).unwrap()).unwrap();
        let mut plain = object.maps.clone();
        plain.iter_mut().for_each(object::Map::make_plain);
        for program in &object.programs {
            match ebpf::graph(program, &object.maps) {
                Ok(graph) => {
                    graphs += 1;
                    let report = bound(graph, CORE);
                    for record in &report.records {
                        assert!(record.exact, "{} of {}", program.name, entry.display());
                        let path = record.slowest.as_ref().unwrap();
                        replay::ebpf(program, &object.maps, &path.witness).unwrap_or_else(|e| {
                            panic!("{} of {}: {e}", program.name, entry.display())
                        });
                    }
                    assert!(report.solver_calls < 200, "{}: {}", program.name, report.solver_calls);
                }
                Err(error) => refused.push(error),
            }
            if let Err(error) = lower::lower(program, &object.maps) {
                refused.push(ebpf::EbpfError {
                    insn: error.insn,
                    place: error.place,
                    reason: error.reason,
                });
            }
            // The offload has no maps per CPU; with plain ones it runs the filters.
            if let Ok(lowered) = lower::lower(program, &plain) {
                offloaded += 1;
                let graph = nfp::graph(&lowered.insns, lowered.writes || lowered.modelled).unwrap();
                for record in &bound(graph, agilio()).records {
                    assert!(record.exact, "{} of {}", program.name, entry.display());
                    let path = record.slowest.as_ref().unwrap();
                    replay::nfp(&lowered.insns, &path.witness)
                        .unwrap_or_else(|e| panic!("{} of {}: {e}", program.name, entry.display()));
                }
            }
        }
    }
    assert!(graphs >= 10, "{graphs}");
    assert!(refused.iter().all(|error| !error.place.is_empty() && error.reason.len() > 10));
    assert!(offloaded >= 10, "{offloaded}");
    assert!(
        refused.iter().any(|error| error.reason.contains("`filter_ipv4` is of type percpu_hash"))
    );
}
