//! `nicforge validate originals`: other systems' own programs, as they are in their repositories.
//! NFP programs are the business of `originals_nfp`.
//!
//! Alkali's C programs: whether they are accepted, do in the interpreter what they do as plain C
//! (`nicforge_run::alkali`), and do on every target what they do in the interpreter (`nicforge
//! verify` in a process of its own); their plans, and what the paper says of the application.

use std::path::Path;
use std::process::Command;

use nicforge_driver::options::Source;
use nicforge_driver::{Failure, Runtime, program, stop};
use nicforge_ir::{Input, InputEvent, Interp, Output, Program, Verified};
use nicforge_planner::instance::Config;
use nicforge_run::alkali;
use nicforge_run::pcap::{self, Frame};
use nicforge_run::temp::Folder;
use nicforge_target::{Target, support};
use serde_json::{Value, json};

use super::validate_alkali::{original, plan};
use super::{below, originals_nfp, rows};
use crate::args::Validate;
use crate::out;
use crate::text::{first_line, table};

/// Frames that programs are compared on.
const FRAMES: usize = 2000;
/// Those of them that targets get.
const ON_TARGETS: usize = 300;

/// A program on a target.
struct Cell {
    program: String,
    target: String,
    /// The error, where the front end refuses it.
    accepted: Result<(), String>,
    /// Frames of [`FRAMES`] that leave as those of the program as plain C.
    plain: Option<usize>,
    /// What `verify` says: nothing where it agrees.
    target_says: Option<Result<(), String>>,
    planned: Option<Planned>,
    published: Option<rows::Row>,
}

struct Planned {
    stages: usize,
    units: u32,
    mpps: f64,
}

/// Prints what becomes of the programs below a folder.
pub fn run(from: &Path, args: &Validate) -> Result<(), Failure> {
    let found = below::files(from, of_alkali)?;
    let listings = below::files(from, originals_nfp::has_object)?;
    if !listings.is_empty() {
        originals_nfp::run(from, &listings, args)?;
    }
    if found.is_empty() {
        if listings.is_empty() {
            return Err(Failure::user(format!(
                "no program of Alkali and no NFP listing with its object below {}",
                from.display()
            )));
        }
        return Ok(());
    }
    let targets = below::targets(&args.targets)?;
    let mut cells = Vec::new();
    for path in found {
        let name = path.strip_prefix(from).unwrap_or(&path).display().to_string();
        cells.extend(of_program(&name, &path, &targets)?);
        if stop::stopped() {
            break;
        }
    }
    print(&cells, args);
    Ok(())
}

/// True if a file is C that reads packets as Alkali's programs do.
fn of_alkali(path: &Path) -> std::io::Result<bool> {
    if !below::ends(path, "c") {
        return Ok(false);
    }
    let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
    let handles = text.contains("NET_RECV__") || text.contains("_packet_event_handler");
    Ok(handles && text.contains("bufextract("))
}

fn of_program(name: &str, path: &Path, targets: &[Target]) -> Result<Vec<Cell>, Failure> {
    let runtime = Runtime::unpack()?;
    let source = Source { program: path.to_path_buf(), ..Source::default() };
    let cell = |target: &str, accepted| Cell {
        program: name.to_string(),
        target: target.to_string(),
        accepted,
        plain: None,
        target_says: None,
        planned: None,
        published: None,
    };
    let loaded = match program::load(&source, &runtime) {
        Ok(loaded) => loaded.program,
        Err(error) => return Ok(vec![cell("-", Err(first_line(error.reason())))]),
    };
    let frames = alkali::frames(1, FRAMES);
    let plain = Some(as_plain_c(path, &loaded, &runtime, &frames)?);
    let fail = |e: std::io::Error| Failure::environment(format!("cannot write a capture: {e}"));
    let dir = Folder::new("originals").map_err(fail)?;
    let capture = dir.path().join("frames.pcap");
    let captured = |(i, data): (usize, &Vec<u8>)| Frame {
        time_ns: 1000 * i as u64,
        data: data.clone(),
        original_length: data.len() as u32,
    };
    let captured: Vec<Frame> = frames[..ON_TARGETS].iter().enumerate().map(captured).collect();
    pcap::write(&mut std::fs::File::create(&capture).map_err(fail)?, &captured).map_err(fail)?;
    let mut cells = Vec::new();
    for target in targets {
        if stop::stopped() {
            break;
        }
        let mut cell = Cell { plain, ..cell(&target.name, Ok(())) };
        match support::missing(&loaded, target).first() {
            Some(missing) => cell.target_says = Some(Err(missing.what.clone())),
            None => {
                let (plan, _) = plan(&loaded, target, &Config::default())?;
                cell.planned = Some(Planned {
                    stages: plan.stages.len(),
                    units: plan.stages.iter().map(|stage| stage.replicas).sum(),
                    mpps: plan.predicted.rate_pps / 1e6,
                });
                cell.target_says = Some(on_target(path, &target.name, &capture)?);
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                if let Some(application) = application(&stem) {
                    cell.published = original(application, &loaded, target)?;
                }
            }
        }
        cells.push(cell);
    }
    Ok(cells)
}

/// The paper's application that a program of the repository is.
fn application(stem: &str) -> Option<&'static str> {
    match stem {
        "l2_echo" => Some("l2_forward"),
        "nfchain" => Some("nf_chain"),
        "test" | "transport_rx" => Some("flextoe_rx"),
        _ => None,
    }
}

/// How many frames the interpreter and the program as plain C answer alike.
fn as_plain_c(
    path: &Path,
    program: &Verified<Program>,
    runtime: &Runtime,
    frames: &[Vec<u8>],
) -> Result<usize, Failure> {
    let received = program.event_named("net_recv").and_then(|event| program.handler_of(event));
    let Some(handler) = received else {
        return Err(Failure::user(format!("{}: no handler of packets", path.display())));
    };
    let name = &program.handlers[handler].name;
    let headers = runtime.path().join("alkali");
    let want = alkali::run(path, name, &headers, frames).map_err(|e| Failure::of(e.fault(), e))?;
    let mut interp = Interp::new(program);
    let mut alike = 0;
    for (i, (frame, want)) in frames.iter().zip(&want).enumerate() {
        let input = Input::Net { port: 0, frame: frame.clone() };
        let event = InputEvent { time_ns: i as u64, seed: 0, input };
        let mut got = interp.run(&event).map_err(|e| Failure::user(e.to_string()))?;
        got.retain(|output| !matches!(output, Output::Drop { .. }));
        alike += usize::from(&got == want);
    }
    Ok(alike)
}

/// `nicforge verify` on a target; the reason where it does not agree.
fn on_target(path: &Path, target: &str, capture: &Path) -> Result<Result<(), String>, Failure> {
    let own = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("cannot find this program: {e}")))?;
    let ran = Command::new(own)
        .args(["verify", "--json", "--target", target, "--pcap"])
        .arg(capture)
        .arg(path)
        .output()
        .map_err(|e| Failure::environment(format!("cannot start this program: {e}")))?;
    let said: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    if ran.status.success() && said["ok"] == true {
        return Ok(Ok(()));
    }
    let differs = said["differences"][0].as_str().map(str::to_string);
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    let error = errors.lines().find(|line| line.starts_with("error")).unwrap_or("it fails");
    Ok(Err(differs.unwrap_or_else(|| error.to_string())))
}

fn print(cells: &[Cell], args: &Validate) {
    if args.json {
        let list: Vec<Value> = cells.iter().map(to_json).collect();
        let suite = "originals";
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/validate", "version": 1, "suite": suite, "rows": list })
        );
        return;
    }
    let head = [
        "program",
        "target",
        "accepted",
        "as plain C",
        "right there",
        "stages",
        "units",
        "Mpps",
        "published",
        "ours",
        "error",
    ];
    let rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    if args.markdown {
        outln!("| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        rows.iter().for_each(|row| outln!("| {} |", row.join(" | ")));
    } else {
        out::text(&table(&head, &rows));
    }
    let right = cells.iter().filter(|cell| matches!(cell.target_says, Some(Ok(()))));
    outln!("{} of {} right", right.count(), cells.len());
}

fn row(cell: &Cell) -> Vec<String> {
    let verdict = |said: &Result<(), String>| match said {
        Ok(()) => "yes".to_string(),
        Err(why) => why.clone(),
    };
    let none = || "-".to_string();
    let planned = cell.planned.as_ref();
    let published = cell.published.as_ref();
    vec![
        cell.program.clone(),
        cell.target.clone(),
        verdict(&cell.accepted),
        cell.plain.map_or_else(none, |alike| format!("{alike} of {FRAMES}")),
        cell.target_says.as_ref().map_or_else(none, verdict),
        planned.map_or_else(none, |plan| plan.stages.to_string()),
        planned.map_or_else(none, |plan| plan.units.to_string()),
        planned.map_or_else(none, |plan| format!("{:.2}", plan.mpps)),
        published.map_or_else(none, |row| format!("{} {}", row.published, row.metric)),
        published.map_or_else(none, |row| format!("{:.3}", row.ours)),
        published.map_or_else(none, |row| format!("{:+.1} %", 100.0 * row.error())),
    ]
}

fn to_json(cell: &Cell) -> Value {
    let planned = cell.planned.as_ref();
    json!({
        "program": cell.program, "target": cell.target,
        "accepted": cell.accepted.is_ok(), "refused": cell.accepted.as_ref().err(),
        "frames": FRAMES, "as_plain_c": cell.plain,
        "right": matches!(cell.target_says, Some(Ok(()))),
        "differs": cell.target_says.as_ref().and_then(|said| said.as_ref().err()),
        "stages": planned.map(|plan| plan.stages), "units": planned.map(|plan| plan.units),
        "mpps": planned.map(|plan| plan.mpps),
        "metric": cell.published.as_ref().map(|row| row.metric),
        "published": cell.published.as_ref().map(|row| row.published),
        "ours": cell.published.as_ref().map(|row| row.ours),
        "error": cell.published.as_ref().map(rows::Row::error),
    })
}
