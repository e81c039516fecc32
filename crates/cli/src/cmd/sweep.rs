//! `nicforge sweep`: many runs from one file, several at a time, resumable.
//!
//! ```toml
//! [balance]                      # nicforge balance sim
//! profiles = ["nat", "count"]
//! traces = ["web", "hadoop"]
//! policies = ["fixed", "gate"]
//! [sim]                          # nicforge sim
//! programs = ["examples/nat/nat.c"]
//! targets = ["bluefield2", "agilio-cx"]
//! workloads = ["size=256", "imix"]
//! ```
//!
//! Every combination is a run of this program with `--json`, whose output is kept in the result folder under the name of the case; a case whose output is there is
//! not run again. In the end all numbers are in `results.csv` (case, metric, value), and `plots.html` compares cases.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::context::Failure;
use crate::interrupt;

/// `nicforge sweep`.
#[derive(Args)]
pub struct Sweep {
    /// What to combine (TOML)
    file: PathBuf,
    /// Folder for results; what is there already is not run again
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Runs at a time (default: processors)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Metrics to plot, by the end of their names
    #[arg(long, value_name = "NAME", default_values = ["watts", "packet_p99_us", "average_gbps"])]
    plot: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    balance: Option<Balance>,
    sim: Option<Sim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Balance {
    profiles: Vec<String>,
    traces: Vec<String>,
    policies: Vec<String>,
    /// Length of traces, s.
    #[serde(default)]
    seconds: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sim {
    programs: Vec<String>,
    targets: Vec<String>,
    workloads: Vec<String>,
}

/// A run: its name and arguments.
struct Case {
    name: String,
    arguments: Vec<String>,
}

fn cases(file: &File) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |parts: &[&str], arguments: &[&str]| {
        cases.push(Case {
            name: parts.join(" "),
            arguments: arguments.iter().map(ToString::to_string).collect(),
        });
    };
    if let Some(balance) = &file.balance {
        let seconds = balance.seconds.unwrap_or(600).to_string();
        for profile in &balance.profiles {
            for trace in &balance.traces {
                for policy in &balance.policies {
                    let arguments = [
                        "balance",
                        "sim",
                        profile,
                        "--trace",
                        trace,
                        "--policy",
                        policy,
                        "--seconds",
                        &seconds,
                        "--json",
                    ];
                    push(&["balance", profile, trace, policy, &seconds], &arguments);
                }
            }
        }
    }
    if let Some(sim) = &file.sim {
        for program in &sim.programs {
            for target in &sim.targets {
                for workload in &sim.workloads {
                    let arguments = ["sim", program, "--target", target, "--workload", workload, "--json"];
                    push(&["sim", program, target, workload], &arguments);
                }
            }
        }
    }
    cases
}

/// A file name for a case: what is no letter, digit or dot becomes a line, and a hash keeps names apart.
fn file_name(name: &str) -> String {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("{}-{:08x}.json", plain.chars().take(80).collect::<String>(), hash as u32)
}

/// Runs what is missing, then writes tables and plots.
pub fn run(args: &Sweep) -> Result<(), Failure> {
    let place = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).map_err(|e| Failure::user(format!("{place}: {e}")))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        Failure::user(format!("{place}:{line}: {}", error.message()))
    })?;
    let cases = cases(&file);
    if cases.is_empty() {
        return Err(Failure::user(format!("{place}: there is nothing to run; fill [balance] or [sim]")));
    }
    let write = |e: std::io::Error| Failure::user(format!("{}: {e}", args.out.display()));
    std::fs::create_dir_all(&args.out).map_err(write)?;
    interrupt::stop_in_order();
    let missing: Vec<&Case> =
        cases.iter().filter(|case| !args.out.join(file_name(&case.name)).exists()).collect();
    errln!("{} of {} cases are there already", cases.len() - missing.len(), cases.len());
    let failed = run_all(&missing, &args.out, args.jobs)?;
    let mut results = BTreeMap::new();
    for case in &cases {
        let path = args.out.join(file_name(&case.name));
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let value: Value = serde_json::from_str(&text)
            .map_err(|e| Failure::user(format!("{}: {e}; remove it and run again", path.display())))?;
        let mut numbers = Vec::new();
        flatten("", &value, &mut numbers);
        results.insert(case.name.clone(), numbers);
    }
    std::fs::write(args.out.join("results.csv"), csv(&results)).map_err(write)?;
    std::fs::write(args.out.join("plots.html"), plots(&results, &args.plot)).map_err(write)?;
    outln!("{} of {} cases, in {}", results.len(), cases.len(), args.out.join("results.csv").display());
    match failed.first() {
        Some(first) => Err(Failure::user(format!("{} cases failed; the first: {first}", failed.len()))),
        None => Ok(()),
    }
}

/// Runs cases, several at a time; gives what failed.
fn run_all(cases: &[&Case], folder: &Path, jobs: Option<usize>) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("cannot find this program: {e}")))?;
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let one = |case: &Case| -> Result<(), String> {
        let ran = Command::new(&program).args(&case.arguments).stdin(Stdio::null()).output();
        let ran = ran.map_err(|e| e.to_string())?;
        if !ran.status.success() {
            return Err(String::from_utf8_lossy(&ran.stderr).trim().to_string());
        }
        // A whole file or none: a sweep may be interrupted at any time.
        let path = folder.join(file_name(&case.name));
        let partial = path.with_extension("part");
        std::fs::write(&partial, ran.stdout)
            .and_then(|()| std::fs::rename(&partial, &path))
            .map_err(|e| e.to_string())
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if interrupt::stopped() {
                        return;
                    }
                    if let Err(message) = one(case) {
                        let mut failed = failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        failed.push(format!("{}: {message}", case.name));
                    }
                }
            });
        }
    });
    Ok(failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// All numbers of a result with their paths; elements of lists are named by their `name`, if they have one.
fn flatten(path: &str, value: &Value, out: &mut Vec<(String, f64)>) {
    let join = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
    match value {
        Value::Number(number) => out.extend(number.as_f64().map(|number| (path.to_string(), number))),
        Value::Object(members) => members.iter().for_each(|(name, value)| flatten(&join(name), value, out)),
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                let name = value["name"].as_str().map_or(at.to_string(), ToString::to_string);
                flatten(&join(&name), value, out);
            }
        }
        _ => {}
    }
}

type Results = BTreeMap<String, Vec<(String, f64)>>;

fn csv(results: &Results) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = "case,metric,value\n".to_string();
    for (case, numbers) in results {
        for (metric, value) in numbers {
            let _ = writeln!(text, "{},{},{value}", quoted(case), quoted(metric));
        }
    }
    text
}

/// Bars for each case, metric by metric.
fn plots(results: &Results, metrics: &[String]) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut page = "<!doctype html><meta charset=\"utf-8\"><title>nicforge sweep</title>\n<style>body{font:14px system-ui,sans-serif;margin:2em}\
                    text{font:11px system-ui,sans-serif}rect{fill:#1b6ca8}</style>\n<h1>Sweep</h1>\n"
        .to_string();
    for metric in metrics {
        let bars: Vec<(String, f64)> = (results.iter())
            .flat_map(|(case, numbers)| {
                let wanted = numbers.iter().filter(|(name, _)| name.rsplit('.').next() == Some(metric));
                wanted.map(move |(name, value)| {
                    (
                        format!("{case}: {}", name.trim_end_matches(metric.as_str()).trim_end_matches('.')),
                        *value,
                    )
                })
            })
            .collect();
        let most = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        if most <= 0.0 {
            continue;
        }
        let height = 18 * bars.len();
        let _ = writeln!(
            page,
            "<h2>{}</h2>\n<svg viewBox=\"0 0 1000 {height}\" width=\"1000\" role=\"img\">",
            escape(metric)
        );
        for (at, (name, value)) in bars.iter().enumerate() {
            let (y, width) = (18 * at, 420.0 * value / most);
            let _ = writeln!(
                page,
                "<text x=\"0\" y=\"{}\">{}</text><rect x=\"480\" y=\"{}\" width=\"{width:.1}\" height=\"12\"/><text x=\"{:.1}\" y=\"{}\">{value:.3}</text>",
                y + 12,
                escape(name),
                y + 2,
                485.0 + width,
                y + 12
            );
        }
        page.push_str("</svg>\n");
    }
    page
}
