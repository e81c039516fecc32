//! `nicforge targets measure`: a specification of the machine it runs on.

use std::path::{Path, PathBuf};

use nicforge_driver::measure::{self, Figures, Sample};
use nicforge_driver::options::{Inputs, Source};
use nicforge_driver::{Failure, Runtime, cost, events, executed, program, stop, targets};
use nicforge_ir::InputEvent;
use nicforge_run::xdp::bench::LEAST_RUNS;
use nicforge_target::Generator;
use serde_json::{Value, json};

use super::agreement::Agreement;
use super::below;
use crate::text::{first_line, table};
use crate::{interrupt, out};

/// Time between packets of a test run.
const BETWEEN_NS: u64 = 100;
/// Small programs and others that are shown because the model is farthest off.
const SHOWN: usize = 5;

/// A program that the prices were not fitted to.
type Judged = (PathBuf, Result<Sample, Failure>);

/// Measures, prints what was found and how good it is, and writes the specification.
///
/// # Errors
/// The kernel does not load programs for us, the specification is of no such kernel, or a file
/// cannot be written.
pub fn run(
    like: &str,
    from: Option<&Path>,
    output: Option<&Path>,
    as_json: bool,
) -> Result<(), Failure> {
    let target = targets::find(like)?;
    if target.units[0].codegen != Generator::Xdp {
        return Err(Failure::user(format!(
            "{} is not a target of this machine's kernel; measured are those with codegen xdp",
            target.name
        )));
    }
    let text = super::targets::text(like)?;
    let programs = from.map(|from| below::files(from, below::with_capture)).transpose()?;
    let programs = programs.unwrap_or_default();
    let runtime = Runtime::unpack()?;
    interrupt::stop_in_order();
    let figures = measure::kernel(&runtime)?;
    let mut judged: Vec<Judged> = Vec::new();
    for (at, path) in programs.iter().enumerate() {
        if stop::stopped() {
            return Err(Failure::interrupted());
        }
        judged.push((path.clone(), judge(path, &figures, &runtime)));
        out::progress(at + 1, programs.len());
    }
    if as_json {
        print_json(&figures, &judged);
    } else {
        print(&figures, &judged);
    }
    if let Some(path) = output {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let written = measure::write(&text, &figures, cpus);
        std::fs::write(path, written)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        if !as_json {
            outln!("wrote {}; give it as --target", path.display());
        }
    }
    Ok(())
}

/// The time of a packet of a program, measured and by the prices.
fn judge(path: &Path, figures: &Figures, runtime: &Runtime) -> Result<Sample, Failure> {
    let source = Source { program: path.to_path_buf(), ..Source::default() };
    let loaded = program::load(&source, runtime)?;
    let inputs = Inputs::default();
    let list = events::captures(&inputs, &loaded.program, &loaded.path)?;
    let entries = events::tables(&inputs, &loaded.program, &loaded.path)?;
    let rate = cost::measured(&loaded, &inputs)?;
    let rate = rate.ok_or_else(|| Failure::user("no frames to measure on"))?;
    // Packets come as fast as the test run gives them, over and over: queues are full as there.
    let at = |pass: usize| {
        let first = pass * cost::SAMPLED;
        let packet = |(at, event): (usize, &InputEvent)| InputEvent {
            time_ns: (first + at) as u64 * BETWEEN_NS,
            ..event.clone()
        };
        list.iter().take(cost::SAMPLED).enumerate().map(packet).collect::<Vec<_>>()
    };
    let passes = (LEAST_RUNS as usize).div_ceil(list.len().clamp(1, cost::SAMPLED));
    let before: Vec<InputEvent> = (0..passes).flat_map(at).collect();
    let cycles = executed::count(&loaded, &figures.bpf, &entries, &before, &at(passes))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Sample { name, measured: 1e9 / rate, modelled: cycles * 1e9 / figures.clock })
}

fn agreement(samples: &[&Sample]) -> Agreement {
    // A nanosecond is what the kernel's clock tells apart.
    Agreement::of(samples.iter().map(|one| (one.modelled + 1.0) / (one.measured + 1.0)))
}

fn rows(mut samples: Vec<&Sample>, most: usize) -> Vec<Vec<String>> {
    let off = |one: &Sample| ((one.modelled + 1.0) / (one.measured + 1.0)).ln().abs();
    samples.sort_by(|a, b| off(b).total_cmp(&off(a)));
    samples.truncate(most);
    let row = |one: &&Sample| {
        vec![
            one.name.clone(),
            format!("{:.1}", one.measured),
            format!("{:.1} ({:.2})", one.modelled, one.modelled / one.measured.max(0.1)),
        ]
    };
    samples.iter().map(row).collect()
}

fn said(samples: &[&Sample]) -> String {
    let found = agreement(samples);
    format!("of {} {found}; half are off by at most {:.0} %", found.compared, 100.0 * found.median)
}

fn print(figures: &Figures, judged: &[Judged]) {
    outln!("instructions, in cycles at {:.2} GHz:", figures.clock / 1e9);
    let processor: Vec<Vec<String>> = measure::numbers(&figures.bpf)
        .into_iter()
        .map(|(name, value)| vec![format!("  {name}"), format!("{value:.2}")])
        .collect();
    out::text(&table(&["", ""], &processor));
    let helpers: Vec<Vec<String>> = figures
        .bpf
        .helpers
        .iter()
        .map(|(name, [call, unit])| {
            let ns = |cycles: f64| format!("{:.2}", cycles * 1e9 / figures.clock);
            vec![name.clone(), ns(*call), ns(*unit)]
        })
        .collect();
    outln!();
    out::text(&table(&["helper", "ns a call", "ns a byte"], &helpers));
    let samples: Vec<&Sample> = figures.samples.iter().collect();
    outln!("\nsmall programs, model over time: {}. The farthest off:", said(&samples));
    out::text(&table(&["program", "measured ns", "model"], &rows(samples, SHOWN)));
    for (name, why) in &figures.left_out {
        outln!("{name} is left out: {why}");
    }
    let found: Vec<&Sample> = judged.iter().filter_map(|(_, one)| one.as_ref().ok()).collect();
    if !found.is_empty() {
        outln!("\nother programs: {}:", said(&found));
        let all = found.len();
        out::text(&table(&["program", "measured ns", "model"], &rows(found, all)));
    }
    for (path, failure) in judged {
        if let Err(failure) = failure {
            outln!("{} is left out: {}", path.display(), first_line(failure.reason()));
        }
    }
}

fn print_json(figures: &Figures, judged: &[Judged]) {
    let sample = |one: &Sample| {
        let Sample { name, measured, modelled } = one;
        json!({ "name": name, "measured_ns": measured, "model_ns": modelled })
    };
    let found = judged.iter().filter_map(|(_, one)| one.as_ref().ok());
    let processor: serde_json::Map<String, Value> = measure::numbers(&figures.bpf)
        .into_iter()
        .map(|(name, value)| (name.to_string(), json!(value)))
        .collect();
    outln!(
        "{:#}",
        json!({
            "schema": "nicforge/measure", "version": 1, "clock_hz": figures.clock,
            "processor": processor, "helpers": figures.bpf.helpers,
            "left_out": figures.left_out,
            "samples": figures.samples.iter().map(sample).collect::<Vec<_>>(),
            "judged": found.map(sample).collect::<Vec<_>>(),
        })
    );
}
