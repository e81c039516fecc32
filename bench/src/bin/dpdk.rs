//! Generated DPDK applications against hand-written ones on the same ports in one run, and the rate of handlers in a process.
//!
//! Every program runs several times, taking turns; the least cycles per packet of each count, since what else runs on the
//! machine only ever adds. Times are reported, never asserted.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use nicforge_bench::case::{Case, root};
use nicforge_bench::{Failure, at};
use nicforge_codegen::dpdk::Pipeline;
use nicforge_run::dpdk::{DpdkProgram, Ports};
use nicforge_run::host::{HostOptions, HostProgram};

/// Turns that each program has.
const TURNS: usize = 5;
/// Packets per turn.
const PACKETS: u64 = 4_000_000;

fn main() -> ExitCode {
    match ["l2_forward", "nf_chain"].into_iter().try_for_each(measure).and_then(|()| yardstick()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(1)
        }
    }
}

/// The ports each program is measured on: frames from nowhere for the one that reads Ethernet only, else the example's
/// captures again and again; what is sent goes nowhere.
fn vdevs(name: &str) -> Vec<String> {
    if name == "l2_forward" {
        return vec!["net_null0,size=64".to_string()];
    }
    let folder = root().join("examples").join(name);
    vec![
        format!("net_pcap0,rx_pcap={},infinite_rx=1", folder.join("traffic.pcap").display()),
        format!("net_pcap1,rx_pcap={},infinite_rx=1", folder.join("traffic.1.pcap").display()),
    ]
}

fn measure(name: &'static str) -> Result<(), Failure> {
    let case = Case::new(name)?;
    let dir = tempfile::tempdir().map_err(at(name))?;
    let ports = Ports { vdevs: vdevs(name), limit: PACKETS, longest_frame: 2048, halt: None };
    let generated = DpdkProgram::new(&case.program, &Pipeline::single(&case.program)).map_err(at(name))?;
    let by_hand = build_by_hand(name, dir.path())?;
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    let (mut sent, mut sent_by_hand) = (0, 0);
    for _ in 0..TURNS {
        let run = generated.run_ports(&ports, &case.entries).map_err(at(name))?;
        let io = run.stats.workers.last().ok_or_else(|| Failure(format!("{name}: no counters")))?;
        ours = ours.min(io.cycles as f64 / run.stats.received as f64);
        sent = run.stats.sent.iter().sum();
        let [received, out, cycles] = run_by_hand(&by_hand, &ports, dir.path())?;
        theirs = theirs.min(cycles as f64 / received as f64);
        sent_by_hand = out;
    }
    println!(
        "{name:12} dpdk: generated {ours:7.1} cycles/packet, by hand {theirs:7.1}, ratio {:.3} (sent {sent} and {sent_by_hand} of {PACKETS})",
        ours / theirs
    );
    in_process(&case, name)
}

/// Events per second of the program in this process, with and without counting.
fn in_process(case: &Case, name: &str) -> Result<(), Failure> {
    for count in [false, true] {
        let options = HostOptions { count, ..HostOptions::default() };
        let mut host = HostProgram::build_with(&case.program, options).map_err(at(name))?;
        nicforge_run::control::apply(host.tables_mut(), &case.entries).map_err(at(name))?;
        let mut best = f64::INFINITY;
        for _ in 0..TURNS {
            let start = Instant::now();
            let mut events = 0u32;
            while events < 500_000 {
                for event in &case.events {
                    host.run_one(event).map_err(at(name))?;
                    events += 1;
                }
            }
            best = best.min(start.elapsed().as_secs_f64() / f64::from(events));
        }
        let what = if count { "counting" } else { "plain" };
        println!("{name:12} in process, {what}: {:.0} ns/event", best * 1e9);
    }
    Ok(())
}

fn pkg_config() -> Result<Vec<String>, Failure> {
    let ran = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let ran = ran.map_err(at("pkg-config"))?;
    Ok(String::from_utf8_lossy(&ran.stdout).split_whitespace().map(String::from).collect())
}

fn build_by_hand(name: &str, dir: &Path) -> Result<PathBuf, Failure> {
    let source = root().join(format!("bench/handwritten/dpdk/{name}.c"));
    let app = dir.join("by_hand");
    let mut clang = Command::new("clang-19");
    clang.args(["-std=gnu11", "-O3", "-o"]).arg(&app).arg(&source).args(pkg_config()?);
    let ran = clang.output().map_err(at("clang-19"))?;
    if ran.status.success() {
        Ok(app)
    } else {
        Err(Failure(String::from_utf8_lossy(&ran.stderr).into_owned()))
    }
}

fn eal(prefix: &str, vdevs: &[String]) -> Vec<String> {
    let words =
        ["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--no-shconf", "--log-level", "error"];
    let mut all: Vec<String> = words.map(String::from).to_vec();
    all.extend(["--file-prefix".into(), format!("{prefix}-{}", std::process::id())]);
    all.extend(["--lcores".to_string(), "0@0".to_string()]);
    vdevs.iter().for_each(|vdev| all.extend(["--vdev".to_string(), vdev.clone()]));
    all.push("--".to_string());
    all
}

/// Packets received and sent, and cycles.
fn run_by_hand(app: &Path, ports: &Ports, dir: &Path) -> Result<[u64; 3], Failure> {
    let counts = dir.join("counts");
    let ran = Command::new(app)
        .args(eal("by-hand", &ports.vdevs))
        .arg(ports.limit.to_string())
        .arg(&counts)
        .output();
    let ran = ran.map_err(at("the hand-written program"))?;
    let text = std::fs::read_to_string(&counts).unwrap_or_default();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    numbers.try_into().map_err(|_| Failure(format!("by hand: {}", String::from_utf8_lossy(&ran.stderr))))
}

/// The hand-written l2_forward beside testpmd's macswap: packets per second of wall time on the same null port.
fn yardstick() -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(at("l2_forward"))?;
    let app = build_by_hand("l2_forward", dir.path())?;
    let ports =
        Ports { vdevs: vec!["net_null0,size=64".into()], limit: 40_000_000, longest_frame: 2048, halt: None };
    let (mut ours, mut testpmd) = (0f64, 0f64);
    for _ in 0..TURNS {
        let [received, _, cycles] = run_by_hand(&app, &ports, dir.path())?;
        ours = ours.max(received as f64 / cycles as f64);
        testpmd = testpmd.max(macswap()?);
    }
    println!(
        "yardstick    l2_forward by hand {:.1} cycles/packet, testpmd macswap {testpmd:.2} M packets/s",
        1.0 / ours
    );
    Ok(())
}

/// Millions of packets per second that testpmd's macswap reports.
fn macswap() -> Result<f64, Failure> {
    let mut command = Command::new("dpdk-testpmd");
    let mut words = eal("testpmd", &["net_null0,size=64".to_string()]);
    let lcores = words.iter().position(|w| w == "0@0");
    if let Some(at) = lcores {
        words[at] = "0@1,1@0".to_string();
    }
    command.args(words).args([
        "--forward-mode=macswap",
        "--total-num-mbufs=8192",
        "--stats-period=1",
        "--tx-first",
    ]);
    let ran = Command::new("timeout")
        .arg("-s")
        .arg("INT")
        .arg("4")
        .arg(command.get_program())
        .args(command.get_args())
        .output();
    let ran = ran.map_err(at("dpdk-testpmd"))?;
    let text = String::from_utf8_lossy(&ran.stdout);
    let rates = text.lines().filter_map(|line| line.trim().strip_prefix("Rx-pps:"));
    let rates = rates.filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    Ok(rates.fold(0.0, f64::max) / 1e6)
}
