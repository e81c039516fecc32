//! `nicforge balance profile`: what a function costs on either side, measured, as the file that simulator, planner and daemon read.
//!
//! A side is a service that answers datagrams: the worker of `examples/balance/functions`, started here in a network namespace of
//! its own, or any that runs already, on a NIC's processor for one. Four loads tell what a profile says:
//!
//! * one request at a time: latency without queueing;
//! * a window of requests: the capacity;
//! * half the capacity, evenly: the p99 that goes into the file;
//! * half as much again as the capacity: what is lost shows how long the queue is (latency then, times capacity).
//!
//! How much service times vary the worker says itself (`--bench`), as a network in between would hide it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use nicforge_balance::profile::{Power, Profile as Measured, Side};
use nicforge_run::load::{Pace, Seen, offer};
use nicforge_run::netns::Namespace;
use serde_json::json;

use crate::context::Failure;
use crate::interrupt;

/// Ethernet, IPv4, UDP, the number; CRC, preamble and gap.
const AROUND_BYTES: usize = 14 + 20 + 8 + 8 + 24;
/// Requests that differ.
const REQUESTS: usize = 4096;
/// Requests on their way when the capacity is looked for.
const WINDOW: u32 = 64;
/// Packets a queue holds if no overload showed it.
const RING: u32 = 1024;
const PORT: u16 = 9000;

/// `nicforge balance profile`.
#[derive(Args)]
pub struct Profile {
    /// Function, or several with commas between: `worker --list` names them
    function: String,
    /// The worker: makes requests, and is a side that no address is given for
    #[arg(long, value_name = "FILE")]
    worker: PathBuf,
    /// Where the NIC's side answers, ADDRESS:PORT; else one thread of the worker here
    #[arg(long, value_name = "ADDRESS")]
    nic: Option<SocketAddr>,
    /// Where the host's side answers; else a worker here
    #[arg(long, value_name = "ADDRESS")]
    host: Option<SocketAddr>,
    /// Threads of the NIC's worker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    nic_threads: u32,
    /// Threads of the host's worker
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    host_threads: u32,
    /// Seconds per load
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The server with its NIC, nothing running (a wattmeter knows; the default is HAL's server)
    #[arg(long, value_name = "WATTS", default_value_t = 199.9)]
    idle_watts: f64,
    /// More when the NIC's processor works all the time
    #[arg(long, value_name = "WATTS", default_value_t = 1.0)]
    nic_watts: f64,
    /// More when the host is awake
    #[arg(long, value_name = "WATTS", default_value_t = 76.0)]
    host_watts: f64,
    /// Write the profile there
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print what was measured as JSON
    #[arg(long)]
    json: bool,
}

/// A packet's service by itself, as the worker measures it.
struct Service {
    mean_us: f64,
    /// Standard deviation over mean.
    cv: f64,
}

/// What was seen of a side.
struct Sides {
    alone: Seen,
    window: Seen,
    half: Seen,
    overload: Seen,
}

/// Measures both sides and writes the profile.
pub fn run(args: &Profile) -> Result<(), Failure> {
    if !(args.seconds > 0.0 && args.seconds <= 600.0) {
        return Err(Failure::usage(format!("--seconds is above 0 and at most 600, not {}", args.seconds)));
    }
    interrupt::stop_in_order();
    let requests = requests(&args.worker, &args.function)?;
    let service = service(&args.worker, &args.function)?;
    let mean = requests.iter().map(Vec::len).sum::<usize>() / requests.len();
    let wire_bytes = (mean + AROUND_BYTES).max(84) as u32;
    let mut sides = Vec::new();
    for (name, address, threads) in
        [("nic", args.nic, args.nic_threads), ("host", args.host, args.host_threads)]
    {
        let seen = match address {
            Some(to) => loads(to, &requests, args.seconds).map_err(|e| unreachable_side(name, to, &e))?,
            None => here(args, &requests, threads)?,
        };
        if interrupt::stopped() {
            return Err(Failure::user("interrupted before both sides were measured; nothing was written"));
        }
        if seen.window.answered == 0 || seen.alone.answered == 0 {
            let of = args.function.as_str();
            return Err(Failure::environment(format!("the {name} side answered none of {of}'s requests")));
        }
        sides.push((name, threads, seen));
    }
    let profile = Measured {
        function: args.function.clone(),
        source: "measured by `nicforge balance profile`, sockets included; watts as given".to_string(),
        packet_bytes: wire_bytes,
        threshold_gbps: 0.0,
        nic: side(&sides[0].2, &service, sides[0].1, wire_bytes),
        host: side(&sides[1].2, &service, sides[1].1, wire_bytes),
        power: Power { idle_watts: args.idle_watts, nic_watts: args.nic_watts, host_watts: args.host_watts },
    };
    let text = profile.to_toml();
    // What is written must be read.
    Measured::parse("the measured profile", &text).map_err(|e| Failure::user(e.to_string()))?;
    print(args, &profile, &service, &sides);
    if let Some(path) = &args.output {
        std::fs::write(path, text).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        errln!("wrote {}", path.display());
    }
    Ok(())
}

fn unreachable_side(name: &str, to: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::environment(format!(
        "the {name} side at {to}: {error}; start `worker FUNCTION --listen {to}` there"
    ))
}

/// Packets of the function's load, from the worker.
fn requests(worker: &Path, function: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let output = Command::new(worker)
        .args([function, "--answer", &REQUESTS.to_string()])
        .output()
        .map_err(|e| no_worker(worker, &e))?;
    if !output.status.success() {
        return Err(Failure::user(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    // Packet, packet afterwards, results, each behind its length.
    let (mut list, mut rest, mut at) = (Vec::new(), output.stdout.as_slice(), 0);
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let (part, next) = tail
            .split_at_checked(u32::from_le_bytes(*length) as usize)
            .ok_or_else(|| Failure::user(format!("{}: not a worker's answer", worker.display())))?;
        if at % 3 == 0 {
            list.push(part.to_vec());
        }
        (rest, at) = (next, at + 1);
    }
    if list.is_empty() { Err(Failure::user(format!("{}: no requests", worker.display()))) } else { Ok(list) }
}

/// What `worker FUNCTION --bench` says.
fn service(worker: &Path, function: &str) -> Result<Service, Failure> {
    let output = Command::new(worker)
        .args([function, "--bench", &REQUESTS.to_string()])
        .output()
        .map_err(|e| no_worker(worker, &e))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let number = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|value| value.trim().parse::<f64>().ok());
        value.ok_or_else(|| Failure::user(format!("{}: --bench does not say `{name}`", worker.display())))
    };
    Ok(Service { mean_us: number("mean_ns")? / 1e3, cv: number("variation")? })
}

fn no_worker(worker: &Path, error: &std::io::Error) -> Failure {
    let path = worker.display();
    Failure::user(format!("{path}: {error}; `make` in examples/balance/functions builds one"))
}

/// A worker in a namespace of its own, ended when this goes.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn here(args: &Profile, requests: &[Vec<u8>], threads: u32) -> Result<Sides, Failure> {
    let space = Namespace::new().map_err(|e| Failure::of(e.fault(), e))?;
    let (threads, at) = (threads.to_string(), SocketAddr::from(([127, 0, 0, 1], PORT)));
    let listen = at.to_string();
    let found: Result<Sides, Failure> = space
        .enter(|| {
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
            if !up.is_ok_and(|status| status.success()) {
                return Ok(Err(Failure::environment("`ip link set lo up` failed: install iproute2")));
            }
            let started = Command::new(&args.worker)
                .args([&args.function, "--listen", &listen, "--threads", &threads])
                .stdout(Stdio::piped())
                .spawn();
            let mut worker = match started {
                Ok(child) => Worker(child),
                Err(error) => return Ok(Err(no_worker(&args.worker, &error))),
            };
            let mut ready = String::new();
            let said = worker.0.stdout.take().map(|out| BufReader::new(out).read_line(&mut ready));
            if !matches!(said, Some(Ok(_))) || ready != "ready\n" {
                return Ok(Err(Failure::user("the worker did not start")));
            }
            Ok(loads(at, requests, args.seconds).map_err(|e| unreachable_side("local", at, &e)))
        })
        .map_err(|e| Failure::of(e.fault(), e))?;
    found
}

fn loads(to: SocketAddr, requests: &[Vec<u8>], seconds: f64) -> std::io::Result<Sides> {
    let time = Duration::from_secs_f64(seconds);
    let offer = |pace| offer(to, requests, pace, time, &interrupt::stopped);
    let alone = offer(Pace::Window(1))?;
    let window = offer(Pace::Window(WINDOW))?;
    let half = offer(Pace::Rate((window.rate() / 2.0).max(1.0)))?;
    let overload = offer(Pace::Rate((window.rate() * 1.5).max(1.0)))?;
    Ok(Sides { alone, window, half, overload })
}

fn side(seen: &Sides, service: &Service, queues: u32, wire_bytes: u32) -> Side {
    let capacity = seen.window.rate();
    let held = (seen.overload.p99_us * 1e-6 * capacity / f64::from(queues)).round();
    Side {
        gbps: capacity * f64::from(wire_bytes) * 8e-9,
        queues,
        ring: if seen.overload.lost > 0 && held >= 1.0 { (held as u32).min(1_000_000) } else { RING },
        base_us: (seen.alone.p50_us - service.mean_us).max(0.0),
        cv: service.cv.min(4.0),
        measured_p99_us: seen.half.p99_us,
    }
}

fn print(args: &Profile, profile: &Measured, service: &Service, sides: &[(&str, u32, Sides)]) {
    let of = |name: &str| if name == "nic" { &profile.nic } else { &profile.host };
    if args.json {
        let rows: Vec<_> = sides
            .iter()
            .map(|(name, threads, seen)| {
                let side = of(name);
                json!({
                    "side": name, "threads": threads, "capacity_pps": seen.window.rate(), "capacity_gbps": side.gbps,
                    "alone_p50_us": seen.alone.p50_us, "half_p99_us": seen.half.p99_us, "lost_at_half": seen.half.lost,
                    "ring": side.ring,
                })
            })
            .collect();
        let report = json!({
            "schema": "nicforge/profile", "version": 1, "function": args.function, "service_us": service.mean_us,
            "cv": service.cv, "sides": rows,
        });
        outln!("{report:#}");
        return;
    }
    outln!(
        "{}: {} bytes a packet on the wire; {:.2} us a packet in the function, deviation {:.2} of that; with sockets:",
        args.function,
        profile.packet_bytes,
        service.mean_us,
        service.cv
    );
    outln!("  side  threads  capacity kpps   Gbit/s  alone p50 us  p99 us at half  lost at half   ring");
    for (name, threads, seen) in sides {
        let side = of(name);
        outln!(
            "  {name:4}  {threads:7}  {:13.1}  {:7.3}  {:12.1}  {:14.1}  {:12}  {:5}",
            seen.window.rate() / 1e3,
            side.gbps,
            seen.alone.p50_us,
            seen.half.p99_us,
            seen.half.lost,
            side.ring
        );
    }
}
