//! What packets cost in this machine's kernel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::analysis::{Options, analyse};
use nicforge_bound::ebpf;
use nicforge_bound::method::Method;
use nicforge_bound::search::{By, Machine};
use nicforge_codegen::{LineStyle, XdpArtifact, xdp};
use nicforge_ir::{Input, InputEvent, Program, Verified};
use nicforge_isa::object;
use nicforge_run::compile::Mode;
use nicforge_run::xdp::bench::{FrameCost, bench};
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded as Kernel, SMALLEST_FRAME, XdpError};

use crate::options::Inputs;
use crate::{Failure, Loaded, Runtime, events, program};

/// Packets whose cost is measured, at most: more would not stay in L2, and waiting for them
/// is the wire's business.
pub const SAMPLED: usize = 256;
/// Copies of the program that are measured: where the kernel puts one decides which lines of caches
/// are in each other's way. The median counts.
const LOADS: usize = 3;
/// Time the bound of an object may take.
const QUICK: Duration = Duration::from_millis(200);

/// Nanoseconds per packet by the kernel's test run.
#[derive(Clone, Debug)]
pub struct Cost {
    pub mean_ns: f64,
    pub harness_ns: f64,
    pub packets: usize,
    /// Instructions that no packet exceeds, and whether one takes so many.
    pub most_instructions: Option<(u64, bool)>,
}

/// Cost of a packet: those of the capture in order through the kernel's test run, over and over, on
/// fresh copies of the program.
pub fn cost(
    program: &Program,
    artifact: &XdpArtifact,
    list: &[InputEvent],
    entries: &[(nicforge_ir::TableId, nicforge_ir::Entry)],
) -> Result<Option<Cost>, Failure> {
    let frames: Vec<Vec<u8>> = list
        .iter()
        .filter_map(|event| match &event.input {
            Input::Net { frame, .. } if (SMALLEST_FRAME..3000).contains(&frame.len()) => {
                Some(frame.clone())
            }
            _ => None,
        })
        .take(SAMPLED)
        .collect();
    if frames.is_empty() {
        return Ok(None);
    }
    let runtime = Runtime::unpack()?;
    let includes = runtime.target_headers("xdp");
    let fail = |e: XdpError| program::kernel_failure(program, e);
    let object = compile_bpf(&program.name, &artifact.source, Mode::Live, &includes)
        .map_err(|e| Failure::of(e.fault(), e))?;
    let options = LoadOptions { mode: Mode::Live, ifindex: Vec::new() };
    let mut found: Vec<FrameCost> = Vec::new();
    for _ in 0..LOADS {
        let fresh = Kernel::load(program, artifact, &object, &options).map_err(fail)?;
        let mut tables = fresh.tables();
        if events::fill(&mut tables, entries).is_err() {
            return Ok(None);
        }
        found.push(bench(&fresh, &frames, &includes).map_err(fail)?);
    }
    found.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    let median = found[LOADS / 2];
    Ok(Some(Cost {
        mean_ns: median.ns,
        harness_ns: median.harness_ns,
        packets: frames.len(),
        most_instructions: most_instructions(&object),
    }))
}

/// Packets per second of one CPU in the kernel's test run on the program's capture, on this
/// machine; `None` without a capture.
pub fn measured(loaded: &Loaded, inputs: &Inputs) -> Result<Option<f64>, Failure> {
    let source: &Verified<Program> = &loaded.program;
    let list = events::captures(inputs, source, &loaded.path)?;
    let entries = events::tables(inputs, source, &loaded.path)?;
    let compiled = program::lower(source)?;
    let artifact = xdp::generate(&compiled, LineStyle::Directives)
        .map_err(|e| program::unsupported(&compiled, &e))?;
    let cost = cost(&compiled, &artifact, &list, &entries)?;
    match cost {
        // The clock of the test run has whole nanoseconds.
        Some(cost) if cost.mean_ns < 5.0 => {
            Err(Failure::user("a packet takes less than the kernel's clock can tell"))
        }
        cost => Ok(cost.map(|cost| 1e9 / cost.mean_ns)),
    }
}

/// Instructions that no packet exceeds in the kernel, and whether one takes so many; `None` if the
/// object has what is not bounded.
pub fn most_instructions(object: &[u8]) -> Option<(u64, bool)> {
    let read = object::parse(object).ok()?;
    let [program] = &read.programs[..] else { return None };
    let graph = ebpf::graph(program, &read.maps).ok()?;
    let options = Options {
        machine: Machine { base_cycles: 0.0, cores: 1.0, hz: 1.0, port_pps: None, port_bps: None },
        sizes: (60, 1500),
        by: vec![By::PacketRate],
        required: None,
        top: 0,
        all: false,
        unroll: None,
        timeout: Some(QUICK),
        given: Vec::new(),
        method: Method::Default,
        path: None,
    };
    let report = analyse(graph, &options, Arc::new(AtomicBool::new(false)), &mut |_, _| {}).ok()?;
    let record = report.records.first()?;
    Some((record.bound.ceil() as u64, record.exact))
}
