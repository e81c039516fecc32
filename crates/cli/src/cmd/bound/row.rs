//! `--in-a-row`: any N packets one after the other, with what maps keep between them.

use std::fmt::Write as _;

use nicforge_bound::analysis::{Options, PathReport};
use nicforge_bound::replay::InRow;
use nicforge_bound::search::By;
use nicforge_bound::{ebpf, replay};
use nicforge_driver::Failure;
use nicforge_driver::options::Loader;
use nicforge_run::xdp::bench::verdicts_in_order;
use serde_json::{Value, json};

use super::load::Subject;
use super::report::hex;
use crate::args::{Bound, BoundTarget, RequiredRate};
use crate::text::si;

/// The slowest packets in a row.
pub struct Row {
    /// How many there are.
    pub count: u32,
    /// Cycles that they take at most together, and whether these packets take them.
    cycles: f64,
    exact: bool,
    /// Packets a second.
    rate: f64,
    pub fulfilled: Option<bool>,
    /// Packets and what they take; none if the time was over before any were found.
    pub packets: Vec<InRow>,
    /// Verdicts of the kernel, if it was asked.
    kernel: Option<Vec<u32>>,
    seconds: f64,
}

/// Refuses what does not go with packets in a row.
pub fn check(args: &Bound) -> Result<(), Failure> {
    let bits = matches!(args.require, Some(RequiredRate::BitsPerSecond(_)));
    let refused = match () {
        () if args.in_a_row.is_none() => return Ok(()),
        () if args.target != BoundTarget::Xdp => {
            "--in-a-row is for XDP and tc programs on one core: give --target xdp"
        }
        () if args.cores.is_some_and(|cores| cores > 1) => {
            "--in-a-row holds for the packets of one core: leave out --cores"
        }
        () if args.all || args.need.is_some() => {
            "--in-a-row bounds one program, and is not for --all or --need"
        }
        () if bits => "--in-a-row bounds packets a second: give a rate as 10Mpps",
        () => return Ok(()),
    };
    Err(Failure::usage(refused.to_string()))
}

/// Bounds that many packets in a row.
pub fn find(
    args: &Bound,
    subject: &Subject,
    options: &Options,
    count: u32,
) -> Result<Row, Failure> {
    let Some((program, maps)) = &subject.program else {
        return Err(Failure::usage("--in-a-row is for XDP and tc programs".to_string()));
    };
    let fail = |message: String| Failure::user(format!("{}: {message}", args.file.display()));
    let graph = ebpf::in_a_row(program, maps, &subject.tails, count, &options.given);
    let mut graph = graph.map_err(|e| fail(e.to_string()))?;
    graph.lines = subject.graph.lines.clone();
    let required = args.require.map(RequiredRate::slowness);
    let mut options = Options {
        by: vec![By::PacketRate],
        required: required.map(|slowness| slowness * f64::from(count)),
        top: 1,
        all: false,
        path: None,
        ..options.clone()
    };
    options.machine.base_cycles *= f64::from(count);
    let report = super::analyse_graph(args, graph, &options, None)?;
    let record = &report.records[0];
    let packets = match &record.slowest {
        Some(path) => {
            let ran = replay::in_a_row(program, maps, &subject.tails, &path.witness);
            ran.map_err(|difference| {
                Failure::user(format!(
                    "internal error: the witness packets do not take the path claimed: {difference}"
                ))
            })?
        }
        None => Vec::new(),
    };
    let kernel = match &record.slowest {
        Some(path) if args.measure => Some(in_the_kernel(args, subject, &packets, path)?),
        _ => None,
    };
    Ok(Row {
        count,
        // Costs are in thousandths.
        cycles: (record.bound * options.machine.hz * options.machine.cores * 1e3).round() / 1e3,
        exact: record.exact,
        rate: f64::from(count) / record.bound,
        fulfilled: record.fulfilled,
        packets,
        kernel,
        seconds: report.seconds,
    })
}

/// Runs the packets in the kernel, whose verdicts must be those of the path. Where it also depends
/// on entries of other maps, on helpers or on what a loader sets, they may differ.
fn in_the_kernel(
    args: &Bound,
    subject: &Subject,
    packets: &[InRow],
    path: &PathReport,
) -> Result<Vec<u32>, Failure> {
    let Some((program, maps)) = &subject.program else { return Ok(Vec::new()) };
    let entries = replay::entries_before(program, maps, &subject.tails, &path.witness);
    let entries: Vec<(&str, &[u8], &[u8])> =
        entries.iter().map(|entry| (&*entry.map, &*entry.key, &*entry.value)).collect();
    let frames: Vec<Vec<u8>> = packets.iter().map(|each| each.packet.clone()).collect();
    let said = verdicts_in_order(&subject.object, &program.name, &entries, &frames)
        .map_err(|e| Failure::of(e.fault(), e))?;
    // The loader's choices are the analysis's, and not the object's.
    let loaded = args.loader == Loader::default();
    let differs = packets.iter().zip(&said).position(|(each, said)| each.verdict as u32 != *said);
    match differs.filter(|_| loaded && path.witness.reads.is_empty()) {
        Some(at) => Err(Failure::user(format!(
            "internal error: the kernel decides {} for packet {} of the row, its path ends in {}",
            said[at],
            at + 1,
            packets[at].verdict
        ))),
        None => Ok(said),
    }
}

impl Row {
    pub fn json(&self) -> Value {
        let each = |each: &InRow| {
            json!({
                "packet": hex(&each.packet),
                "instructions": each.executed,
                "returns": each.verdict,
            })
        };
        json!({
            "packets": self.count,
            "status": if self.exact { "exact" } else { "lower_bound" },
            "cycles": self.cycles,
            "packet_rate_pps": self.rate,
            "slowest": self.packets.iter().map(each).collect::<Vec<_>>(),
            "kernel": self.kernel,
            "seconds": self.seconds,
        })
    }

    pub fn text(&self) -> String {
        let mut text = format!(
            "  any {} packets in a row: {} {}packet/s, {:.0} cycles together\n",
            self.count,
            if self.exact { "exactly" } else { "at least" },
            si(self.rate),
            self.cycles,
        );
        if self.exact {
            let each = self.packets.iter().map(|each| each.executed.to_string());
            let _ = writeln!(
                text,
                "    instructions of the slowest: {}",
                each.collect::<Vec<_>>().join(", ")
            );
        }
        if let Some(said) = &self.kernel {
            let same =
                self.packets.iter().zip(said).filter(|(each, said)| each.verdict as u32 == **said);
            let _ = writeln!(
                text,
                "    the kernel decides as the path says for {} of {} packets",
                same.count(),
                said.len()
            );
        }
        text.push_str(
            "    presumed: one core handles them, and nothing else changes these maps meanwhile\n",
        );
        text
    }
}
