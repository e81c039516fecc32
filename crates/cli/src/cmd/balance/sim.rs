//! `nicforge balance sim`: both sides, a director and policies on a trace.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nicforge_balance::director::meter::Mode;
use nicforge_balance::policy::Fixed;
use nicforge_balance::profile::Profile;
use nicforge_balance::sim::station::Sleep;
use nicforge_balance::sim::{Director, Report, Scenario, System, simulate};
use nicforge_balance::traffic::{self, LINE_GBPS, Law, Trace};
use nicforge_driver::Failure;
use serde_json::{Value, json};

use super::policies::{self, PolicyName};
use super::{chart, profiles};
use crate::out;
use crate::text::table;

/// Where a published workload's law comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LawName {
    /// The paper's text
    Stated,
    /// Fitted to the published averages
    Effective,
}

/// `nicforge balance sim`.
#[derive(Args)]
pub struct Sim {
    /// A built-in profile (nat, count, …) or a file that `balance profile` wrote
    #[arg(default_value = "nat")]
    profile: String,
    /// web, cache or hadoop; a rate in Gbit/s; or a file with a rate for each second
    #[arg(long, default_value = "cache", value_name = "TRACE|GBPS|FILE")]
    trace: String,
    /// Law of a published workload
    #[arg(long, value_enum, default_value = "effective")]
    law: LawName,
    /// Length of a published workload or a constant rate
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Packets come in bursts of so many microseconds at the line's rate
    #[arg(long, value_name = "US", value_parser = positive)]
    bursts: Option<f64>,
    /// Policies to compare (default: all)
    #[arg(long, value_enum, value_name = "NAME")]
    policy: Vec<PolicyName>,
    /// p99 that is wanted, us (default: what the NIC alone has at nine tenths of the published
    /// threshold)
    #[arg(long, value_name = "US", value_parser = positive)]
    objective: Option<f64>,
    /// How long the host takes to wake up, us
    #[arg(long, default_value_t = 2.0, value_name = "US", value_parser = positive)]
    wake: f64,
    /// Wake the host ahead of need
    #[arg(long)]
    predict: bool,
    /// State that both sides share, and the host link it is shared across: pcie, cxl, or that of a
    /// target (adds to every packet's latency)
    #[arg(long, value_name = "pcie|cxl|TARGET")]
    shared_state: Option<String>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulate every packet instead of parts of seconds in which nothing changes
    #[arg(long)]
    exact: bool,
    /// Write charts over time
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Time of an access to the other side's memory across a link between NIC and host, ns: `pcie` is a
/// DMA read over PCIe 3.0 (Neugebauer et al., SIGCOMM'18, 64 bytes, median), `cxl` a cache line
/// from another socket, which the published system stands in for CXL; else a target, whose
/// `[host_link]` says.
///
/// # Errors
/// For targets that are not there or have no host link.
fn access_ns(link: &str) -> Result<f64, Failure> {
    match link {
        "pcie" => return Ok(550.0),
        "cxl" => return Ok(140.0),
        _ => {}
    }
    let target = nicforge_target::find(link).map_err(|e| Failure::usage(e.to_string()))?;
    let Some(link) = &target.host_link else {
        return Err(Failure::usage(format!(
            "target `{link}` has no [host_link]; use pcie, cxl or another target"
        )));
    };
    Ok(link.line.as_ref().unwrap_or(&link.latency).value)
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|v: &f64| *v > 0.0 && v.is_finite())
        .ok_or("expected a number above 0".to_string())
}

/// Simulates and prints.
pub fn run(args: &Sim) -> Result<(), Failure> {
    let profile = profiles::find(&args.profile)?;
    let trace = trace(args)?;
    let shared = args.shared_state.as_deref().map(access_ns).transpose()?;
    let base = Director {
        host_sleep: Sleep { wake_ns: args.wake * 1e3, ..Director::default().host_sleep },
        predictive_ns: args.predict.then_some(20e6),
        shared_state_ns: 2.0 * shared.unwrap_or(0.0),
        ..Director::default()
    };
    let mut unused = Fixed { threshold: 0.0, mode: Mode::Window };
    let mut one = |system, policy: Option<&mut dyn nicforge_balance::policy::Policy>| {
        let scenario = Scenario {
            profile: &profile,
            trace: &trace,
            system,
            seed: args.seed,
            exact: args.exact,
        };
        simulate(&scenario, policy.unwrap_or(&mut unused))
    };
    let mut runs: Vec<(String, Report)> = Vec::new();
    runs.push(("NIC alone".to_string(), one(System::NicOnly, None)));
    runs.push(("host alone".to_string(), one(System::HostOnly, None)));
    runs.push(("host that sleeps".to_string(), one(System::HostSleeping(base.host_sleep), None)));
    let usual = || policies::usual_objective_us(&profile, args.seed);
    let objective = args.objective.unwrap_or_else(usual);
    let chosen =
        if args.policy.is_empty() { PolicyName::ALL.to_vec() } else { args.policy.clone() };
    for name in chosen {
        let mut policy = policies::make(name, &profile, objective, LINE_GBPS)?;
        let director = Director { lazy: !name.is_published(), ..base };
        runs.push((
            name.name().to_string(),
            one(System::Balanced(director), Some(policy.as_mut())),
        ));
    }
    let text = show(&runs);
    if let Some(path) = &args.html {
        let title = format!("{} on {}", profile.function, trace.name);
        let series: Vec<chart::Series> =
            runs[3..].iter().map(|(name, run)| (name.clone(), &run.bins[..])).collect();
        std::fs::write(path, chart::page(&title, &series, &text))
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    }
    if args.json {
        outln!("{:#}", to_json(&profile, &trace, objective, &runs));
        return Ok(());
    }
    outln!(
        "{} on {}: mean {:.2} Gbit/s, objective {objective:.1} us (simulated)",
        profile.function,
        trace.name,
        trace.mean_gbps()
    );
    out::text(&text);
    Ok(())
}

fn trace(args: &Sim) -> Result<Trace, Failure> {
    let law = if args.law == LawName::Stated { Law::Stated } else { Law::Effective };
    let seconds = args.seconds as usize;
    let trace = if let Some(trace) = traffic::published(&args.trace, law, seconds, args.seed) {
        trace
    } else if let Some(gbps) =
        args.trace.parse().ok().filter(|gbps| (0.0..=LINE_GBPS).contains(gbps))
    {
        Trace { bin_ns: 1e9, gbps: vec![gbps; seconds], ..traffic::constant(gbps, 1.0) }
    } else {
        let names: Vec<&str> = traffic::workloads().collect();
        let text = std::fs::read_to_string(&args.trace).map_err(|e| {
            Failure::usage(format!(
                "trace `{}` is none of {}, no rate from 0 to {LINE_GBPS}, and no file that can be read ({e})",
                args.trace,
                names.join(", ")
            ))
        })?;
        Trace::parse(&args.trace, &text, 1.0).map_err(|e| Failure::user(e.to_string()))?
    };
    Ok(match args.bursts {
        Some(us) => trace.in_bursts(us),
        None => trace,
    })
}

fn show(runs: &[(String, Report)]) -> String {
    let side = |us: Option<f64>| us.map_or("-".to_string(), |us| format!("{us:.1}"));
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|(name, run)| {
            vec![
                name.clone(),
                format!("{:.2}", run.average_gbps),
                format!("{:.1}", run.max_gbps),
                format!("{:.3}", 100.0 * run.lost),
                format!("{:.2}", 100.0 * run.to_host),
                format!("{:.1}", run.packet_p99_us),
                format!("{:.1}", run.time_p99_us),
                side(run.nic_p99_us),
                side(run.host_p99_us),
                format!("{:.2}", 100.0 * run.awake),
                format!("{:.1}", run.watts),
            ]
        })
        .collect();
    let header = [
        "",
        "Gbit/s",
        "max",
        "lost %",
        "to host %",
        "p99 us",
        "over time",
        "NIC",
        "host",
        "awake %",
        "W",
    ];
    table(&header, &rows)
}

fn to_json(profile: &Profile, trace: &Trace, objective: f64, runs: &[(String, Report)]) -> Value {
    let list: Vec<Value> = runs
        .iter()
        .map(|(name, run)| {
            json!({
                "name": name, "average_gbps": run.average_gbps, "max_gbps": run.max_gbps, "lost": run.lost,
                "to_host": run.to_host, "packet_p99_us": run.packet_p99_us, "time_p99_us": run.time_p99_us,
                "nic_p99_us": run.nic_p99_us, "host_p99_us": run.host_p99_us, "awake": run.awake,
                "watts": run.watts, "packets_simulated": run.simulated,
            })
        })
        .collect();
    json!({
        "schema": "nicforge/balance-sim", "version": 1, "function": profile.function, "trace": trace.name,
        "offered_gbps": trace.mean_gbps(), "objective_us": objective, "modelled": true, "runs": list,
    })
}
