//! Programs of handlers that send each other events (`tests/internal_events`), the parts of their
//! pipelines, and what they are fed.

use std::path::Path;

use nicforge_codegen::dpdk::PipeStage;
use nicforge_ir::text::parse;
use nicforge_ir::{EventId, HandlerId, Program, Verified, verify};
use nicforge_run::pcap::{self, Frame};

use crate::root;

/// A program by name.
pub fn program(name: &str) -> Verified<Program> {
    let path = root().join(format!("tests/internal_events/{name}.air"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let program = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    verify(program).unwrap_or_else(|e| panic!("{name}: {}", e[0]))
}

fn handler(program: &Program, name: &str) -> HandlerId {
    let found = program.handlers.iter().find(|(_, h)| h.name == name);
    found.unwrap_or_else(|| panic!("no handler {name}")).0
}

/// An event by name.
pub fn event(program: &Program, name: &str) -> EventId {
    program.event_named(name).unwrap_or_else(|| panic!("no event {name}"))
}

/// A stage of handlers by name.
pub fn stage(program: &Program, names: &[&str], replicas: u32, ordered: bool) -> PipeStage {
    let handlers = names.iter().map(|name| handler(program, name)).collect();
    PipeStage { handlers, replicas, ordered, locked: false }
}

/// A port that gives the same frames again and again.
pub fn endless(dir: &Path) -> String {
    let path = dir.join("in.pcap");
    let frame = |i: u32| {
        let data = (0..60).map(|at| (i * 7 + at * i) as u8).collect::<Vec<u8>>();
        Frame { time_ns: 0, original_length: data.len() as u32, data }
    };
    let frames: Vec<Frame> = (0..256).map(frame).collect();
    let mut file = std::fs::File::create(&path).unwrap_or_else(|e| panic!("{e}"));
    pcap::write(&mut file, &frames).unwrap_or_else(|e| panic!("{e}"));
    format!("net_pcap0,rx_pcap={},infinite_rx=1", path.display())
}
