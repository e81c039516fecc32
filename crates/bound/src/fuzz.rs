//! Entries for fuzzing: any bytes may come; none may panic or run on.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_isa::object::{self, Map, Program, riscv};
use nicforge_isa::{ebpf as code, lower, nfp as listing};

use crate::analysis::{Options, analyse};
use crate::graph::Graph;
use crate::method::Method;
use crate::search::{By, Machine};
use crate::{ebpf, nfp, replay, rv};

/// Time for the analysis of what a fuzzer made.
const PATIENCE: Duration = Duration::from_millis(30);

/// Bytes as an object file.
pub fn object(bytes: &[u8]) {
    if let Ok(object) = object::parse(bytes) {
        for program in object.programs.iter().take(4) {
            analyse_program(program, &object.maps);
        }
    }
}

/// Bytes as instructions of a program that knows an array map.
pub fn program(bytes: &[u8]) {
    let Ok(insns) = code::decode(&bytes[..bytes.len() / 8 * 8]) else { return };
    let lines = vec![None; insns.len()];
    let program = Program { name: "fuzz".to_string(), section: "xdp".to_string(), insns, lines };
    let map = |kind| Map {
        name: "map".to_string(),
        kind: Some(kind),
        key_size: 4,
        value_size: 16,
        max_entries: 64,
        data: Vec::new(),
        constant: false,
    };
    analyse_program(&program, &[map(2), map(1)]);
}

/// Bytes as the text of a listing.
pub fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(read) = listing::parse(text) {
        let again =
            listing::parse(&listing::print(&read.insns)).expect("a printed listing reads back");
        assert_eq!(again.insns, read.insns);
        if let Ok(graph) = nfp::graph(&read.insns, true) {
            analyse_graph(graph, |witness| {
                let _ = replay::nfp(&read.insns, witness);
            });
        }
    }
}

/// Bytes as an RV32 ELF file, for the cores of a target.
pub fn handlers(bytes: &[u8], around: &rv::Surroundings) {
    let Ok(image) = riscv::parse(bytes) else { return };
    let named = rv::entry(&image, None).ok();
    let Some(entry) = named.or_else(|| image.symbols.first().cloned()) else { return };
    let Ok(program) = rv::Program::new(image, entry) else { return };
    let Ok(graph) = rv::graph(&program, around) else { return };
    let whole = graph.clone();
    analyse_graph(graph, |witness| {
        let _ = rv::replay::replay(&program, around, &whole, witness);
    });
}

fn analyse_program(program: &Program, maps: &[Map]) {
    if let Ok(lowered) = lower::lower(program, maps)
        && let Ok(graph) = nfp::graph(&lowered.insns, true)
    {
        analyse_graph(graph, |_| {});
    }
    if let Ok(graph) = ebpf::graph(program, maps) {
        analyse_graph(graph, |witness| {
            let _ = replay::ebpf(program, maps, witness);
        });
    }
}

fn analyse_graph(graph: Graph, replay: impl Fn(&crate::witness::Witness)) {
    let options = Options {
        machine: Machine { base_cycles: 1.0, cores: 1.0, hz: 1e9, port_pps: None, port_bps: None },
        sizes: (60, 1500),
        by: vec![By::BitRate],
        required: None,
        top: 1,
        all: false,
        unroll: None,
        timeout: Some(PATIENCE),
        given: Vec::new(),
        method: Method::Default,
        path: None,
    };
    if let Ok(report) = analyse(graph, &options, Arc::new(AtomicBool::new(false)), &mut |_, _| {}) {
        report
            .records
            .iter()
            .filter_map(|record| record.slowest.as_ref())
            .for_each(|path| replay(&path.witness));
    }
}
