//! `nicforge balance demo`: everything at work, in namespaces of its own.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nicforge_balance::director::meter::Mode;
use nicforge_balance::policy::Policy;
use nicforge_balance::policy::failover::Limits;
use nicforge_balance::policy::gate::Gate;
use nicforge_balance::policy::headroom::Headroom;
use nicforge_driver::options::Inputs;
use nicforge_driver::{Failure, stop};
use nicforge_run::balance::demo::{self, Options, Phase, PhaseReport, vips, wire_bits};
use nicforge_run::balance::functions::FunctionName;
use nicforge_run::balance::{Config, heartbeat, metrics, peer};
use nicforge_run::temp::Folder;
use serde_json::{Value, json};

use super::{profile, program};
use crate::text::table;
use crate::{interrupt, out};

/// `nicforge balance demo`.
#[derive(Args)]
pub struct Demo {
    /// What the sides compute
    #[arg(long, default_value = "count", value_name = "digest|count|kvs|ema|FILE.c[,FILE.c]")]
    function: String,
    /// A compiled program in place of a function; requests are frames of its capture that it
    /// answers
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["function", "frame"])]
    program: Option<PathBuf>,
    #[command(flatten)]
    inputs: Inputs,
    /// Requests a second: low, so that the host sleeps
    #[arg(long, default_value_t = 1000.0, value_name = "N")]
    low: f64,
    /// Requests a second: high, so that the host helps
    #[arg(long, default_value_t = 12_000.0, value_name = "N")]
    high: f64,
    /// What the NIC side is paced to, requests a second: it stands for a slower processor
    #[arg(long, default_value_t = 6000, value_name = "N")]
    nic: u32,
    /// Seconds at the low rate; the others take a third of that
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// How packets are metered
    #[arg(long, value_enum, default_value = "gate")]
    policy: DemoPolicy,
    /// Silence of a side that means death, ms
    #[arg(long, default_value_t = 40, value_name = "MS")]
    silence: u64,
    /// How late a side may look at what arrived, us: with --policy flows, flows change sides after
    /// a gap of that length only
    #[arg(long, default_value_t = 5000, value_name = "US")]
    drain: u64,
    /// Do not kill the NIC side at the end
    #[arg(long)]
    no_kill: bool,
    /// Bytes of a request's frame
    #[arg(long, default_value_t = 256, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(96..=1514))]
    frame: u32,
    /// Only watch: decide and count, divert nothing
    #[arg(long)]
    shadow: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Policies that need no objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DemoPolicy {
    /// All to the NIC up to nine tenths of its capacity; above it both get their part (director:
    /// proportional)
    Gate,
    /// Nine tenths of the NIC's capacity (director: token bucket)
    Headroom,
    /// The same, and all packets of a flow go the same way (director: flow-affine)
    Flows,
}

fn function(name: &str) -> Result<FunctionName, String> {
    let known: Vec<&str> = FunctionName::ALL.iter().map(|(_, name)| *name).collect();
    FunctionName::named(name).ok_or(format!("known are {}", known.join(", ")))
}

/// A side of the demo, started by it.
#[derive(Args)]
pub struct Peer {
    #[arg(long)]
    side: String,
    #[arg(long)]
    interface: String,
    #[arg(long, value_parser = function)]
    function: FunctionName,
    #[arg(long)]
    beats: PathBuf,
    #[arg(long)]
    table: PathBuf,
    #[arg(long)]
    state: PathBuf,
    /// Shared objects of C functions
    #[arg(long)]
    object: Vec<PathBuf>,
    #[arg(long)]
    pace: Option<u32>,
    /// A program's text after all passes; the object is its shared object
    #[arg(long)]
    program: Option<PathBuf>,
    #[command(flatten)]
    inputs: Inputs,
}

/// Serves as a side.
pub fn peer(args: Peer) -> Result<(), Failure> {
    let side = if args.side == "nic" { heartbeat::Side::Nic } else { heartbeat::Side::Host };
    let compiled =
        args.program.as_ref().map(|path| program::read(path, &args.object, &args.inputs));
    let compiled = compiled.transpose()?;
    let Peer { interface, function, object: objects, beats, table, state, pace, .. } = args;
    peer::serve(&peer::Options {
        side,
        interface,
        beats,
        pace,
        function,
        objects,
        table,
        compiled,
        state,
    })
    .map_err(|e| Failure::of(e.fault(), e))
}

/// Runs the demo.
pub fn run(args: &Demo) -> Result<(), Failure> {
    let folder = Folder::new("demo").map_err(Failure::temporary)?;
    let compiled =
        args.program.as_ref().map(|path| program::prepare(path, &args.inputs, folder.path()));
    let compiled = compiled.transpose()?;
    let stateful = compiled.as_ref().is_some_and(|(requests, _)| requests.stateful());
    if stateful && args.policy != DemoPolicy::Flows {
        return Err(Failure::usage(
            "the program's answers depend on earlier packets of their flow; keep flows on one side with --policy flows",
        ));
    }
    let frame_bytes =
        compiled.as_ref().map_or(args.frame as usize, |(requests, _)| requests.mean_bytes());
    let capacity = f64::from(args.nic) * wire_bits(frame_bytes);
    // The host side is not paced; how much more it does only decides how both share.
    let (mode, policy): (Mode, Box<dyn Policy>) = match args.policy {
        DemoPolicy::Gate => (
            Mode::Proportional,
            Box::new(Gate::new(capacity, 2.0 * capacity, 0.9 * capacity, f64::INFINITY)),
        ),
        DemoPolicy::Headroom => (Mode::TokenBucket, Box::new(Headroom::new(capacity, 0.1, 256))),
        DemoPolicy::Flows => (Mode::FlowAffine, Box::new(Headroom::new(capacity, 0.1, 256))),
    };
    let phase = |name: &str, packets_per_second, seconds, kill_nic| Phase {
        name: name.to_string(),
        packets_per_second,
        seconds,
        kill_nic,
    };
    let third = args.seconds / 3.0;
    let mut phases =
        vec![phase("low", args.low, args.seconds, false), phase("high", args.high, third, false)];
    phases.push(phase("low again", args.low, third, false));
    // Who dies takes the state of its flows along, and later answers are not what they were.
    if !args.no_kill && !stateful {
        phases.push(phase("NIC side dies", args.low, third, true));
    }
    let objects = profile::objects(&args.function, folder.path())?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("cannot find this program: {e}")))?;
    let silence = Duration::from_millis(args.silence).as_nanos() as u64;
    let options = Options {
        config: Config {
            vips: vips(),
            mode,
            lazy: true,
            shadow: args.shadow,
            nic_is_stack: false,
            test: false,
        },
        phases,
        function: FunctionName::named(&args.function).unwrap_or(FunctionName::Library),
        objects: objects.unwrap_or_default(),
        compiled,
        nic_pace: args.nic,
        frame_bytes,
        drain_ns: args.drain * 1000,
        limits: Limits { silence_ns: silence, ..Limits::default() },
        seed: 1,
        program,
        arguments: vec!["balance".to_string(), "peer".to_string()],
    };
    interrupt::stop_in_order();
    let shown =
        args.program.as_ref().map_or(args.function.clone(), |path| path.display().to_string());
    let mut tell = |status: &nicforge_run::balance::daemon::Status| {
        if !args.json {
            errln!("{}", metrics::line(status));
        }
    };
    let reports = demo::run(&options, policy, &mut tell, &stop::stopped)
        .map_err(|e| Failure::of(e.fault(), e))?;
    if args.json {
        let list: Vec<Value> = reports.iter().map(to_json).collect();
        outln!(
            "{:#}",
            json!({ "schema": "nicforge/balance-demo", "version": 1, "function": shown, "phases": list })
        );
    } else {
        show(&reports);
    }
    let wrong: u64 = reports.iter().map(|report| report.wrong).sum();
    if wrong > 0 {
        return Err(Failure::user(format!("{wrong} answers are wrong")));
    }
    Ok(())
}

fn to_json(report: &PhaseReport) -> Value {
    json!({
        "name": report.phase.name, "packets_per_second": report.phase.packets_per_second, "seconds": report.phase.seconds,
        "sent": report.sent, "answered": report.answered, "wrong": report.wrong, "lost": report.lost,
        "nic": report.nic_packets, "host": report.host_packets, "host_cpu_percent": report.host_cpu_percent,
        "p99_us": report.p99_us,
        "failover": report.failover.map(|it| json!({ "wall_ms": it.wall_ms, "lost": it.lost, "bound": it.bound })),
    })
}

fn show(reports: &[PhaseReport]) {
    let rows: Vec<Vec<String>> = reports
        .iter()
        .map(|report| {
            let all = (report.nic_packets + report.host_packets).max(1);
            vec![
                report.phase.name.clone(),
                format!("{:.0}", report.phase.packets_per_second),
                report.sent.to_string(),
                report.answered.to_string(),
                report.wrong.to_string(),
                report.lost.to_string(),
                format!("{:.1}", 100.0 * report.host_packets as f64 / all as f64),
                format!("{:.2}", report.host_cpu_percent),
                format!("{:.0}", report.p99_us),
            ]
        })
        .collect();
    let header = [
        "phase",
        "rate /s",
        "sent",
        "answered",
        "wrong",
        "lost",
        "to host %",
        "host CPU %",
        "p99 us",
    ];
    out::text(&table(&header, &rows));
    for failover in reports.iter().filter_map(|report| report.failover) {
        outln!(
            "fail-over: {:.1} ms from the kill to the director's new setting (wall); {} requests lost, at most {} were in flight or came meanwhile",
            failover.wall_ms,
            failover.lost,
            failover.bound
        );
    }
}
