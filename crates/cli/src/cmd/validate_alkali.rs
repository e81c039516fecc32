//! `nicforge validate alkali`: the five applications of Alkali (NSDI'25) on its four NICs, planned
//! and simulated.
//!
//! Rates are the greatest that the simulator passes with less than 0.1 % loss, offered at equal
//! distances in frames of 256 bytes, up to the port's line. Cells that the paper gives as "line
//! rate" are compared as shares of it, those below it as 0. Rows marked `calibrated` served to
//! choose costs in `targets/`; the FPGA's reassembly and JSQ need parts that this version's `u280`
//! has not.

use std::path::Path;

use include_dir::{Dir, include_dir};
use nicforge_driver::options::Source;
use nicforge_driver::{Failure, Runtime, program, simulation, stop, targets};
use nicforge_ir::{Input, InputEvent, Program, Verified};
use nicforge_plan::{Objective, Plan};
use nicforge_planner::assemble;
use nicforge_planner::instance::{self, Config};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{CANDIDATES, Limits, search};
use nicforge_run::sim::Compiled;
use nicforge_run::temp::Folder;
use nicforge_sim::workload::{Rate, Replay, Timed};
use nicforge_sim::{Options, Report, find};
use nicforge_target::{Target, Traffic, support};

use super::rows::Row;
use super::validate_search;

static PROGRAMS: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../docs/validation/alkali");

/// Frames of a simulated run; queues hold some per cent of them.
const FRAMES: u32 = 60_000;
const RECEIVE_DEPTH: u32 = 64;
/// How exactly rates are searched for.
pub const WITHIN: f64 = 0.01;
const FRAME_BYTES: usize = 256;

/// The paper's cell for an application on a NIC.
enum Cell {
    LineRate,
    Below,
    /// Gbit/s of frames.
    Rate(f64),
}

/// An application's name, its flows, and its cells.
type Application = (&'static str, u32, &'static [(&'static str, Cell, bool)]);

/// Application, its flows, and per NIC what the paper says (section 6); a rate that a cost was
/// chosen by is calibrated.
const CELLS: [Application; 5] = [
    (
        "l2_forward",
        64,
        &[
            ("agilio-cx", Cell::LineRate, false),
            ("bluefield2", Cell::LineRate, false),
            ("u280", Cell::LineRate, false),
            ("panic", Cell::LineRate, false),
        ],
    ),
    (
        "flextoe_rx",
        4096,
        &[
            ("agilio-cx", Cell::LineRate, false),
            ("bluefield2", Cell::LineRate, true),
            ("u280", Cell::LineRate, false),
            ("panic", Cell::Below, false),
        ],
    ),
    (
        "nf_chain",
        4096,
        &[
            ("agilio-cx", Cell::LineRate, false),
            ("bluefield2", Cell::Rate(50.0), true),
            ("u280", Cell::LineRate, false),
        ],
    ),
    (
        "rpc_reassembly",
        128,
        &[
            ("agilio-cx", Cell::Rate(22.0), true),
            ("bluefield2", Cell::Rate(57.0), true),
            ("panic", Cell::Rate(19.73), false),
        ],
    ),
    (
        "jsq",
        1,
        &[
            ("agilio-cx", Cell::Below, false),
            ("bluefield2", Cell::Below, false),
            ("panic", Cell::Below, false),
        ],
    ),
];

/// State placement on Agilio for one flow, thousand packets per second: application, memory of all
/// tables (none: ours), published.
const PLACEMENTS: [(&str, Option<&str>, f64); 6] = [
    ("flextoe_rx", Some("emem"), 1050.0),
    ("flextoe_rx", Some("cls"), 2060.0),
    ("flextoe_rx", None, 6280.0),
    ("nf_chain", Some("emem"), 860.0),
    ("nf_chain", Some("cls"), 3340.0),
    ("nf_chain", None, 4430.0),
];

/// All rows.
pub fn rows() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (name, flows, cells) in &CELLS {
        let program = load(name)?;
        let traffic = frames(name, *flows);
        for (nic, cell, calibrated) in *cells {
            if stop::stopped() {
                return Ok(rows);
            }
            let target = targets::find(nic)?;
            if !support::missing(&program, &target).is_empty() {
                continue;
            }
            let case = format!("{name} on {nic}");
            let compared = rate(case, &program, &target, (*flows, &traffic), cell)?;
            rows.push(Row { calibrated: *calibrated, ..compared });
        }
    }
    placements(&mut rows)?;
    stages(&mut rows)?;
    validate_search::rows(&mut rows)?;
    Ok(rows)
}

/// The rate of a program in the simulator beside what the paper says.
fn rate(
    case: String,
    program: &Verified<Program>,
    target: &Target,
    (flows, traffic): (u32, &[InputEvent]),
    cell: &Cell,
) -> Result<Row, Failure> {
    let traffic_of = Traffic { flows, ..Traffic::default() };
    let config = Config { traffic: traffic_of, evenly: true, ..Config::default() };
    let (plan, line) = plan(program, target, &config)?;
    let (pps, sent_bytes) = greatest(target, &plan, traffic, line, WITHIN)?;
    // Programs that add headers reach the line on the way out first.
    let overhead = f64::from(target.ports.overhead_bytes);
    let line =
        line * (FRAME_BYTES as f64 + overhead) / (sent_bytes.max(FRAME_BYTES as f64) + overhead);
    let at_line = if pps >= line * 0.98 { 1.0 } else { 0.0 };
    Ok(match cell {
        Cell::LineRate => row(case, "share of the line rate", 1.0, pps / line),
        Cell::Below => row(case, "line rate (1) or not (0)", 0.0, at_line),
        Cell::Rate(rate) => {
            row(case, "Gbit/s of 256-byte frames", *rate, pps * 8.0 * FRAME_BYTES as f64 / 1e9)
        }
    })
}

/// The paper's words on an application on a NIC, and what a program that is it does there.
pub fn original(
    name: &str,
    program: &Verified<Program>,
    target: &Target,
) -> Result<Option<Row>, Failure> {
    let Some((_, flows, cells)) = CELLS.iter().find(|(known, ..)| *known == name) else {
        return Ok(None);
    };
    let Some((_, cell, _)) = cells.iter().find(|(nic, ..)| *nic == target.name) else {
        return Ok(None);
    };
    let case = format!("{name} on {}", target.name);
    rate(case, program, target, (*flows, &frames(name, *flows)), cell).map(Some)
}

pub fn row(case: String, metric: &'static str, published: f64, ours: f64) -> Row {
    Row { source: "Alkali, NSDI'25, section 6", case, metric, published, ours, calibrated: false }
}

/// One flow, all tables in one memory.
fn placements(rows: &mut Vec<Row>) -> Result<(), Failure> {
    let target = targets::find("agilio-cx")?;
    for (name, memory, published) in PLACEMENTS {
        let program = load(name)?;
        let pin = |memory: &str| {
            program.tables.values().map(|t| (t.name.clone(), memory.to_string())).collect()
        };
        let traffic = Traffic { flows: 1, ..Traffic::default() };
        let config = Config {
            traffic,
            pin_tables: memory.map(pin).unwrap_or_default(),
            ..Config::default()
        };
        let (plan, line) = plan(&program, &target, &config)?;
        let (pps, _) = greatest(&target, &plan, &frames(name, 1), line, WITHIN)?;
        let case = format!(
            "{name} on agilio-cx, one flow, state in {}",
            memory.unwrap_or("the planner's choice")
        );
        let compared = row(case, "Mpps", published / 1e3, pps / 1e6);
        rows.push(Row { calibrated: true, ..compared });
    }
    Ok(())
}

/// Stages of the best plan, with the keys of the public prototype and with those that the paper
/// names.
fn stages(rows: &mut Vec<Row>) -> Result<(), Failure> {
    for (name, keys) in [("nf_chain", ""), ("nf_chain_tuple", ", keys by 5-tuple and address")] {
        let program = load(name)?;
        for (nic, published) in [("bluefield2", 3.0), ("agilio-cx", 4.0)] {
            let (plan, _) = plan(&program, &targets::find(nic)?, &Config::default())?;
            let case = format!("nf_chain on {nic}{keys}");
            rows.push(row(case, "stages of the best plan", published, plan.stages.len() as f64));
        }
    }
    Ok(())
}

pub fn load(name: &str) -> Result<Verified<Program>, Failure> {
    let runtime = Runtime::unpack()?;
    let fail = |e: std::io::Error| Failure::environment(format!("cannot unpack the programs: {e}"));
    let dir = Folder::new("validate-alkali").map_err(fail)?;
    PROGRAMS.extract(dir.path()).map_err(fail)?;
    // Programs are in C, but for one that is cut by hand.
    let named = |end: &str| dir.path().join(Path::new(&format!("{name}.{end}")));
    let file = Some(named("air")).filter(|path| path.is_file()).unwrap_or_else(|| named("c"));
    let source = Source { program: file, ..Source::default() };
    Ok(program::load(&source, &runtime)?.program)
}

/// The best plan, and the port's rate in packets per second.
pub fn plan(
    program: &Verified<Program>,
    target: &Target,
    config: &Config,
) -> Result<(Plan, f64), Failure> {
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: false };
    let found = search(program, target, config, Goal::Rate, limits, &stop::stopped)
        .map_err(|e| Failure::user(e.to_string()))?;
    let line = instance::line_rate(target, program.ports, config.traffic);
    Ok((assemble::plan(program, target, config, Objective::Rate, &found, found.best), line))
}

/// The greatest rate at which hardly anything is lost, found within a share of itself, and the
/// bytes of a frame that leaves.
pub fn greatest(
    target: &Target,
    plan: &Plan,
    traffic: &[InputEvent],
    line: f64,
    within: f64,
) -> Result<(f64, f64), Failure> {
    let planned = assemble::program_of(plan).map_err(Failure::user)?;
    let mut compiled = Compiled::new(&planned, false).map_err(|e| Failure::of(e.fault(), e))?;
    let found = find::max(Rate::Frames(line), find::LOSS, within, |rate| {
        simulate(target, plan, &planned, &mut compiled, traffic, rate)
    })?;
    // Until the last frame is finished, so that what queues swallow does not count as throughput.
    Ok(found.map_or((0.0, 0.0), |(_, report)| {
        (report.offered.pps, report.delivered.bps / 8.0 / report.delivered.pps.max(1.0))
    }))
}

/// Frames that leave per second while more come in than the plan takes.
pub fn delivered(
    target: &Target,
    plan: &Plan,
    traffic: &[InputEvent],
    offered: f64,
) -> Result<f64, Failure> {
    let planned = assemble::program_of(plan).map_err(Failure::user)?;
    let mut compiled = Compiled::new(&planned, false).map_err(|e| Failure::of(e.fault(), e))?;
    let report = simulate(target, plan, &planned, &mut compiled, traffic, Rate::Frames(offered))?;
    Ok(report.delivered.pps)
}

fn simulate(
    target: &Target,
    plan: &Plan,
    planned: &Verified<Program>,
    compiled: &mut Compiled,
    traffic: &[InputEvent],
    rate: Rate,
) -> Result<Report, Failure> {
    let (Rate::Frames(pps) | Rate::Wire(pps)) = rate;
    let mut workload = Replay::new(planned, traffic, Timed::Apart(1e12 / pps), 1);
    compiled.stepper().reset();
    simulation::empty(planned, compiled.stepper().program().tables_mut())?;
    let options = Options {
        evenly: true,
        receive_depth: RECEIVE_DEPTH,
        stop: &stop::stopped,
        ..Options::default()
    };
    nicforge_sim::run(target, plan, planned, compiled, &mut workload, &options)
        .map_err(|e| Failure::user(e.to_string()))
}

/// Frames the application takes, flows in turn.
pub fn frames(name: &str, flows: u32) -> Vec<InputEvent> {
    let frame = |n: u32| {
        let flow = n % flows;
        let mut frame = vec![0u8; FRAME_BYTES];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&[8, 0]);
        let mixed = flow.wrapping_mul(0x9e37_79b9);
        frame[16..18].copy_from_slice(&242u16.to_be_bytes());
        frame[26..30].copy_from_slice(&(0x0a00_0000 | mixed >> 12).to_be_bytes());
        frame[30..34].copy_from_slice(&0xc0a8_0001u32.to_be_bytes());
        if name == "rpc_reassembly" {
            // Messages of four segments, by channel, without gaps.
            const SEGMENT: u32 = 198;
            let rpc = [flow, n / flows + 1, SEGMENT, 4 * SEGMENT];
            for (at, word) in rpc.into_iter().enumerate() {
                frame[42 + 4 * at..46 + 4 * at].copy_from_slice(&word.to_be_bytes());
            }
        } else {
            // Ports behind an address with options.
            frame[38..40].copy_from_slice(&(mixed as u16).to_be_bytes());
            frame[40..42].copy_from_slice(&((mixed >> 16) as u16).to_be_bytes());
        }
        frame
    };
    (0..FRAMES)
        .map(|n| InputEvent {
            time_ns: u64::from(n),
            seed: 0,
            input: Input::Net { port: 0, frame: frame(n) },
        })
        .collect()
}
