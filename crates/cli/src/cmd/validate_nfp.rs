//! Worst-case throughput on an Agilio CX, beside what CoNEXT'21 published.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use include_dir::{Dir, include_dir};
use nicforge_bound::analysis::{self, BoundError, Options};
use nicforge_bound::method::Method;
use nicforge_bound::search::{By, Machine};
use nicforge_bound::unroll::UnrollError;
use nicforge_driver::{Failure, stop};
use nicforge_isa::nfp::cost;
use nicforge_run::temp::Folder;

use super::bound;
use super::bound::load::{self, Subject};
use super::rows::{Row, records};

static EXAMPLES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../examples/xdp");
const MEASURED: &[u8] = include_bytes!("../../../../docs/validation/nfp_measured.csv.gz");
const MICRO: &str = include_str!("../../../../docs/validation/nfp_micro.csv");
const PUBLISHED: &str = include_str!("../../../../docs/validation/nfp_published.csv");

pub fn rows() -> Result<Vec<Row>, Failure> {
    let mut text = String::new();
    let unpacked = GzDecoder::new(MEASURED).read_to_string(&mut text);
    unpacked.map_err(|e| {
        Failure::user(format!("internal error: the measured paths cannot be read: {e}"))
    })?;
    let mut rows = paths(&text);
    rows.extend(micro());
    rows.extend(programs(&text)?);
    Ok(rows)
}

/// A measured path: cores, cycles, cycles of the DRAM engine, packets a second.
struct Path<'a> {
    program: &'a str,
    cores: f64,
    cycles: f64,
    dram: f64,
    measured: f64,
}

fn measured(text: &str) -> Vec<Path<'_>> {
    records(text)
        .filter_map(|fields| {
            let number = |at: usize| fields.get(at)?.parse().ok();
            // What the port limited says nothing about the program.
            if fields.get(6) != Some(&"0") {
                return None;
            }
            Some(Path {
                program: fields[0],
                cores: number(1)?,
                cycles: number(3)?,
                dram: number(4)?,
                measured: number(5)?,
            })
        })
        .collect()
}

/// Packets a second by the cost model.
fn predicted(cores: f64, cycles: f64, dram: f64) -> f64 {
    let core = cost::CLOCK_HZ * cores / cycles;
    if dram > 0.0 { core.min(cost::CLOCK_HZ / dram) } else { core }
}

/// The model's error on measured paths: extremes over all of them, medians by program.
fn paths(text: &str) -> Vec<Row> {
    let all = measured(text);
    let ratio = |path: &Path| predicted(path.cores, path.cycles, path.dram) / path.measured;
    let limited_by_dram =
        |path: &&Path| predicted(path.cores, path.cycles, 0.0) > cost::CLOCK_HZ / path.dram;
    let most = all.iter().map(ratio).fold(0.0, f64::max);
    let least_dram =
        all.iter().filter(|path| limited_by_dram(path)).map(ratio).fold(f64::INFINITY, f64::min);
    let least_core =
        all.iter().filter(|path| !limited_by_dram(path)).map(ratio).fold(f64::INFINITY, f64::min);
    let case = format!("all {} paths", all.len());
    let row = |metric, published, ours| Row {
        source: "paths",
        case: case.clone(),
        metric,
        published,
        ours,
        calibrated: false,
    };
    // The paper's text: at most 1.7 % too high, 8.5 % (processing) and 18.2 % (DRAM) too low.
    let mut rows = vec![
        row("highest ours/measured", 1.017, most),
        row("lowest, processing", 0.915, least_core),
        row("lowest, DRAM", 0.818, least_dram),
    ];
    let mut programs: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for path in &all {
        programs.entry(path.program).or_default().push(path);
    }
    for (program, mut list) in programs {
        list.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let middle = list[list.len() / 2];
        rows.push(Row {
            source: "paths",
            case: format!("{program}, median of {}", list.len()),
            metric: "Mpacket/s",
            published: middle.measured / 1e6,
            ours: predicted(middle.cores, middle.cycles, middle.dram) / 1e6,
            calibrated: false,
        });
    }
    rows
}

/// DRAM and core scaling of programs that only read DRAM.
fn micro() -> Vec<Row> {
    let list: Vec<(String, f64, f64, f64)> = records(MICRO)
        .filter_map(|f| {
            Some((
                f.first()?.to_string(),
                f.get(1)?.parse().ok()?,
                f.get(2)?.parse().ok()?,
                f.get(3)?.parse().ok()?,
            ))
        })
        .collect();
    let mut rows = Vec::new();
    for (program, cores, reads, pps) in
        list.iter().filter(|(_, cores, reads, _)| *cores >= 20.0 && *reads >= 8.0)
    {
        rows.push(Row {
            source: "micro",
            case: format!("{program}, {cores} cores"),
            metric: "DRAM Mread/s",
            published: pps * reads / 1e6,
            ours: cost::CLOCK_HZ / (cost::DRAM_READ_MICRO as f64 / 1e6) / 1e6,
            calibrated: false,
        });
    }
    let cycles = |reads: f64| {
        let found = list.iter().find(|(_, cores, r, _)| *cores == 5.0 && *r == reads);
        found.map(|(_, cores, _, pps)| cost::CLOCK_HZ * cores / pps)
    };
    if let (Some(few), Some(many)) = (cycles(6.0), cycles(14.0)) {
        let published = (many - few) / 8.0;
        let ours = cost::DRAM_LATENCY.into();
        rows.push(Row {
            source: "micro",
            case: "5 cores".to_string(),
            metric: "cycles per DRAM read",
            published,
            ours,
            calibrated: false,
        });
    }
    for reads in [6.0, 8.0, 10.0, 12.0, 14.0] {
        let rate = |wanted: f64| {
            list.iter()
                .find(|(_, cores, r, _)| *cores == wanted && *r == reads)
                .map(|(.., pps)| *pps)
        };
        if let (Some(five), Some(ten)) = (rate(5.0), rate(10.0)) {
            let case = format!("lookup{reads}, 5 to 10 cores");
            rows.push(Row {
                source: "micro",
                case,
                metric: "speed-up",
                published: ten / five,
                ours: 2.0,
                calibrated: false,
            });
        }
    }
    rows
}

/// An example's slowest path.
struct Example {
    /// Without the ports' limit.
    bps: f64,
    instructions: usize,
    pps: f64,
}

pub fn options(machine: Machine) -> Options {
    Options {
        machine,
        sizes: (60, 1500),
        by: vec![By::BitRate],
        required: None,
        top: 1,
        all: false,
        unroll: None,
        timeout: None,
        given: Vec::new(),
        method: Method::Default,
        path: None,
    }
}

fn subject(dir: &std::path::Path, name: &str, define: &str) -> Result<Subject, Failure> {
    let defines: Vec<String> =
        if define.is_empty() { Vec::new() } else { vec![define.to_string()] };
    load::from_source(&dir.join(format!("{name}.c")), &defines)
}

fn example(name: &str, subject: &Subject) -> Result<Example, Failure> {
    let (graph, stop) = (subject.graph.clone(), Arc::new(AtomicBool::new(stop::stopped())));
    let report = analysis::analyse(graph, &options(subject.machine), stop, &mut |_, _| {});
    let report = report.map_err(|e| Failure::user(format!("{name}: {e}")))?;
    let path = report.records[0].slowest.as_ref().filter(|_| report.records[0].exact);
    let path = path.ok_or_else(|| Failure::user(format!("{name}: no exact bound")))?;
    subject
        .replay(&path.witness)
        .map_err(|e| Failure::user(format!("internal error: {name}: {e}")))?;
    let (pps, _) = bound::rate(&subject.machine, path, subject.engine);
    let instructions = subject.listing.as_ref().map_or(0, Vec::len);
    // The published bit rates are the program's, whatever the ports carry.
    Ok(Example { bps: 8.0 * path.size as f64 / path.seconds, instructions, pps })
}

/// Time of alternatives in that of our search (the paper's Table 4), most programs of
/// which are stopped.
fn alternatives(case: &str, subject: &Subject) -> Result<Vec<Row>, Failure> {
    let timed = |options: Options| {
        let graph = subject.graph.clone();
        let stop = Arc::new(AtomicBool::new(stop::stopped()));
        let begun = Instant::now();
        let report = analysis::analyse(graph, &options, stop, &mut |_, _| {});
        let seconds = begun.elapsed().as_secs_f64();
        match report {
            Ok(report) => Ok((seconds, report.records[0].exact)),
            // No time left even to unroll the program.
            Err(BoundError::Unroll(UnrollError::Stopped)) => Ok((seconds, false)),
            Err(e) => Err(Failure::user(format!("{case}: {e}"))),
        }
    };
    let normal = options(subject.machine);
    let (usual, _) = timed(normal.clone())?;
    let with = |method| Options { method, timeout: Some(PATIENCE), ..normal.clone() };
    let ways = [
        ("check at every branch", with(Method::EveryBranch)),
        ("no static analysis", with(Method::NoStatic)),
        ("cores, then DRAM", with(Method::OneByOne)),
        ("packet rate", Options { by: vec![By::PacketRate], ..with(Method::Default) }),
        ("all paths", with(Method::Exhaustive)),
    ];
    let mut rows = Vec::new();
    for (way, options) in ways {
        let (seconds, exact) = timed(options)?;
        rows.push(Row {
            source: "table 4",
            case: format!("{case}, {way}"),
            metric: if exact { "times our time" } else { "times our time, then stopped" },
            // The paper gives ranges over programs only.
            published: f64::NAN,
            ours: seconds / usual,
            calibrated: false,
        });
    }
    Ok(rows)
}

/// Time an alternative may take.
const PATIENCE: Duration = Duration::from_secs(1);

fn programs(text: &str) -> Result<Vec<Row>, Failure> {
    let fail = |e: std::io::Error| Failure::environment(format!("cannot unpack the examples: {e}"));
    let dir = Folder::filled("validate", |path| EXAMPLES.extract(path)).map_err(fail)?;
    let (mut rows, mut slower) = (Vec::new(), Vec::new());
    for fields in records(PUBLISHED) {
        let [case, program, define, count, rate] = fields[..] else { continue };
        let subject = subject(dir.path(), program, define)?;
        let Example { bps, instructions, .. } = example(case, &subject)?;
        if let Ok(published) = count.parse() {
            let ours = instructions as f64;
            rows.push(Row {
                source: "table 1",
                case: case.to_string(),
                metric: "instructions",
                published,
                ours,
                calibrated: false,
            });
        }
        if let Ok(published) = rate.parse() {
            rows.push(Row {
                source: "table 2",
                case: case.to_string(),
                metric: "Gbit/s",
                published,
                ours: bps / 1e9,
                calibrated: false,
            });
        }
        slower.extend(alternatives(case, &subject)?);
    }
    rows.extend(slower);
    let all = measured(text);
    for hashes in 1..=20 {
        let name = format!("count-min.{hashes}");
        let slowest = all
            .iter()
            .filter(|path| path.program == name)
            .map(|path| path.measured)
            .fold(f64::INFINITY, f64::min);
        if slowest.is_finite() {
            let case = format!("count-min, {hashes} hashes");
            let subject = subject(dir.path(), "count_min", &format!("HASHES={hashes}"))?;
            let Example { pps, .. } = example(&case, &subject)?;
            rows.push(Row {
                source: "count-min curve",
                case,
                metric: "Mpacket/s",
                published: slowest / 1e6,
                ours: pps / 1e6,
                calibrated: false,
            });
        }
    }
    Ok(rows)
}
