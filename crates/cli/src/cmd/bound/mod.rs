//! `nicforge bound`: how slow can one packet make a compiled program?

mod curve;
mod every;
mod homes;
pub(crate) mod load;
mod measure;
mod need;
mod report;
mod row;
mod suppose;

use std::fs::File;
use std::io::BufWriter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curve::Curve;
use load::Subject;
use nicforge_bound::analysis::{self, Options, PathReport, Report};
use nicforge_bound::graph::Graph;
use nicforge_bound::method::{Method, Step};
use nicforge_bound::naive;
use nicforge_bound::search::{By, Machine};
use nicforge_driver::{Failure, stop};
use nicforge_isa::nfp;
use nicforge_run::pcap;

use crate::args::{Bound, BoundBy, BoundEmit, BoundMethod, RequiredRate};
use crate::{interrupt, out};

/// Prints the guarantee; fails if a required rate does not hold.
pub fn run(args: Bound) -> Result<(), Failure> {
    row::check(&args)?;
    if args.all {
        return every::run(&args);
    }
    let subject = load::load(&args)?;
    if args.emit == Some(BoundEmit::Nfp) {
        let insns = subject
            .listing
            .as_ref()
            .ok_or_else(|| Failure::usage("--emit nfp needs --target agilio-xdp".to_string()))?;
        out::text(&nfp::print(insns));
        return Ok(());
    }
    interrupt::stop_in_order();
    let options = options(&args, &subject)?;
    if !args.json {
        out::text(&report::heading(&args, &subject));
    }
    let blocks = naive::most(&subject.graph).is_some();
    let heard = Mutex::new(Curve::new(&options, blocks, !args.json));
    let result = analyse(&args, &subject, &options, Some(&heard))?;
    replay(&subject, &result)?;
    if let Some(file) = &args.curve {
        heard.lock().unwrap_or_else(PoisonError::into_inner).write(file)?;
    }
    let needed = match args.need {
        Some(rate) => Some(need::find(&args, &subject, &options, rate)?),
        None => None,
    };
    let row = match args.in_a_row {
        Some(packets) => Some(row::find(&args, &subject, &options, packets)?),
        None => None,
    };
    if let Some(file) = &args.pcap {
        let packets = match &row {
            Some(row) => row.packets.iter().map(|each| each.packet.clone()).collect(),
            None => slowest_packets(&result),
        };
        write_pcap(file, packets)?;
    }
    let slowest = result.records.iter().find_map(|record| record.slowest.as_ref());
    let measured = match slowest.filter(|_| args.measure) {
        Some(path) => Some(measure::run(&subject, path)?),
        None => None,
    };
    let decided = match &row {
        Some(row) => row.fulfilled,
        None => result.records[0].fulfilled,
    };
    let view =
        report::View { args: &args, subject: &subject, report: &result, measured, needed, row };
    if args.json {
        outln!("{:#}", view.json());
    } else {
        out::text(&view.text());
    }
    match decided {
        Some(false) => Err(Failure::rendered(format!(
            "error: the required rate does not hold: the {} above {} slower",
            if args.in_a_row.is_some() { "packets" } else { "packet" },
            if args.in_a_row.is_some() { "are" } else { "is" },
        ))),
        None if args.require.is_some() => Err(Failure::rendered(
            "error: the required rate was neither proved nor refuted in the time there was; raise --timeout"
                .to_string(),
        )),
        _ => Ok(()),
    }
}

/// The slowest path of a program, in short.
pub struct Slowest {
    /// The rate that it leaves, and what limits it.
    pub headline: String,
    /// File and line of each step, as far as they are known.
    pub lines: Vec<(String, u32)>,
}

/// Finds the slowest path without printing anything.
pub fn slowest(args: &Bound) -> Result<Slowest, Failure> {
    let subject = load::load(args)?;
    let options = options(args, &subject)?;
    let result = analyse(args, &subject, &options, None)?;
    replay(&subject, &result)?;
    let path = result.records.iter().find_map(|record| record.slowest.as_ref());
    let places = path.map(|path| path.witness.places.clone()).unwrap_or_default();
    let line = |place: &u32| {
        let place = result.graph.lines.get(*place as usize)?.as_ref()?;
        Some((place.file.clone(), place.line))
    };
    let lines = places.iter().filter_map(line).collect();
    let view = report::View {
        args,
        subject: &subject,
        report: &result,
        measured: None,
        needed: None,
        row: None,
    };
    Ok(Slowest { headline: view.headline(), lines })
}

fn paths(report: &Report) -> impl Iterator<Item = &PathReport> {
    let all = report.all.iter().flat_map(|(paths, _)| paths);
    report.records.iter().filter_map(|record| record.slowest.as_ref()).chain(&report.top).chain(all)
}

/// Runs what the analysis claims.
fn replay(subject: &Subject, report: &Report) -> Result<(), Failure> {
    for path in paths(report) {
        subject.replay(&path.witness).map_err(|difference| {
            Failure::user(format!(
                "internal error: the witness packet does not take the path claimed: {difference}"
            ))
        })?;
    }
    Ok(())
}

/// Most time of an analysis, if no other is given.
const TIMEOUT: Duration = Duration::from_secs(60);

fn options(args: &Bound, subject: &Subject) -> Result<Options, Failure> {
    let suppositions = suppose::parse(&args.what_if)?;
    let mut machine = subject.machine;
    if let Some(cores) = args.cores {
        machine.cores = cores.into();
    }
    let mut by = [By::BitRate, By::PacketRate];
    let rate = args.require.or(args.need);
    let packets = matches!(rate, Some(RequiredRate::PacketsPerSecond(_)));
    if packets || rate.is_none() && args.by == BoundBy::PacketRate {
        by.reverse();
    }
    // With packets in a row it is about them.
    let required = args.require.filter(|_| args.in_a_row.is_none());
    let smallest = suppositions.size.unwrap_or(60);
    if smallest > args.mtu {
        return Err(Failure::usage(format!(
            "--what-if size={smallest} is more than --mtu {}",
            args.mtu
        )));
    }
    Ok(Options {
        machine,
        sizes: (smallest, args.mtu),
        by: if required.is_some() { by[..1].to_vec() } else { by.to_vec() },
        required: required.map(RequiredRate::slowness),
        top: args.top,
        all: args.all_paths,
        unroll: args.unroll,
        timeout: Some(args.timeout.unwrap_or(TIMEOUT)),
        given: suppositions.bytes,
        method: match args.method {
            BoundMethod::Default => Method::Default,
            BoundMethod::EveryBranch => Method::EveryBranch,
            BoundMethod::NoStatic => Method::NoStatic,
            BoundMethod::OneByOne => Method::OneByOne,
            BoundMethod::Exhaustive => Method::Exhaustive,
        },
        path: args.path.as_deref().map(blocks).transpose()?,
    })
}

/// Ends the thread that watches, also when the analysis panics or nobody reads on.
pub(super) struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn analyse(
    args: &Bound,
    subject: &Subject,
    options: &Options,
    heard: Option<&Mutex<Curve>>,
) -> Result<Report, Failure> {
    analyse_graph(args, subject.graph.clone(), options, heard)
}

fn analyse_graph(
    args: &Bound,
    graph: Graph,
    options: &Options,
    heard: Option<&Mutex<Curve>>,
) -> Result<Report, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let over = AtomicBool::new(false);
    let mut tell = |by, bound| {
        if let Some(heard) = heard {
            heard.lock().unwrap_or_else(PoisonError::into_inner).hear(by, bound);
        }
    };
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                stop.store(stop::stopped(), Ordering::Relaxed);
                if let Some(heard) = heard {
                    heard.lock().unwrap_or_else(PoisonError::into_inner).print();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let _over = Over(&over);
        analysis::analyse(graph, options, stop.clone(), &mut tell)
    });
    result.map_err(|e| Failure::user(format!("{}: {e}", args.file.display())))
}

/// The blocks of a path, from a list or from the JSON of an earlier run.
fn blocks(text: &str) -> Result<Vec<Step>, Failure> {
    let one = |block: &str| {
        let block = block.trim();
        let (number, taken) = match block.chars().last() {
            Some('t') => (&block[..block.len() - 1], Some(true)),
            Some('f') => (&block[..block.len() - 1], Some(false)),
            _ => (block, None),
        };
        Some((number.parse().ok()?, taken))
    };
    if let Some(list) = text.split(',').map(one).collect() {
        return Ok(list);
    }
    let fail = |reason: String| Failure::user(format!("--path {text}: {reason}"));
    let content = std::fs::read_to_string(text)
        .map_err(|e| fail(format!("neither blocks as 0,2t,3 nor a file that can be read: {e}")))?;
    let value: serde_json::Value = serde_json::from_str(&content)
        .map_err(|e| fail(format!("not the output of bound --json: {e}")))?;
    let list =
        value["path"].as_array().ok_or_else(|| fail("no `path` in this JSON".to_string()))?;
    let step = |visit: &serde_json::Value| {
        Some((visit["block"].as_u64()?.try_into().ok()?, visit["taken"].as_bool()))
    };
    list.iter()
        .map(step)
        .collect::<Option<_>>()
        .ok_or_else(|| fail("`path` has no block numbers".to_string()))
}

/// The slowest packets, the one of the first record first.
fn slowest_packets(report: &Report) -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for path in paths(report) {
        if !packets.contains(&path.witness.packet) {
            packets.push(path.witness.packet.clone());
        }
    }
    packets
}

pub(super) fn write_pcap(file: &std::path::Path, packets: Vec<Vec<u8>>) -> Result<(), Failure> {
    let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", file.display()));
    let frame = |(at, data): (usize, Vec<u8>)| {
        let original_length = data.len() as u32;
        pcap::Frame { time_ns: at as u64, data, original_length }
    };
    let frames: Vec<pcap::Frame> = packets.into_iter().enumerate().map(frame).collect();
    let mut writer = BufWriter::new(File::create(file).map_err(fail)?);
    pcap::write(&mut writer, &frames).map_err(fail)
}

/// The limit of a machine's rates for a path: rate and name.
pub(crate) fn rate(
    machine: &Machine,
    path: &PathReport,
    shared: &'static str,
) -> (f64, &'static str) {
    let (core, engine) = machine.each(path.witness.work);
    let (mut pps, mut limit) =
        (1.0 / core.max(engine), if core >= engine { "processing" } else { shared });
    let line = machine.port_bps.map(|bps| bps / (8.0 * (path.size as f64 + WIRE_OVERHEAD)));
    for port in [machine.port_pps, line].into_iter().flatten() {
        if port < pps {
            (pps, limit) = (port, "port");
        }
    }
    (pps, limit)
}

/// Bytes a packet takes on the wire besides its own: checksum, preamble, gap.
const WIRE_OVERHEAD: f64 = 24.0;
