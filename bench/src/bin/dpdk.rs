//! Generated DPDK applications against hand-written ones on the same ports in one run, the
//! hand-written l2_forward beside testpmd, tables beside DPDK's own, and the rate of handlers in a
//! process.
//!
//! Programs take turns in many short rounds, and medians of a side are compared: what else runs on
//! the machine disturbs both alike, and outliers do not count. Instructions per packet are exact.
//! Nothing is asserted. Arguments: names of programs.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nicforge_bench::case::{Case, root};
use nicforge_bench::dpdk::{
    Ran, build_by_hand, by_hand, instructions_per_packet, median, run_by_hand, tables, testpmd,
};
use nicforge_bench::{Failure, at};
use nicforge_codegen::dpdk::Pipeline;
use nicforge_run::dpdk::{DpdkProgram, Ports};
use nicforge_run::host::{HostOptions, HostProgram, Watch};
use nicforge_run::pcap::{self, Frame};

/// Rounds in which each side has a turn.
const ROUNDS: usize = 15;
/// Packets per turn on ports that never end.
const PACKETS: u64 = 1_000_000;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &&str| asked.is_empty() || asked.iter().any(|one| one == name);
    let programs = ["l2_forward", "echo", "nf_chain", "jsq_steering", "rpc_reassembly"];
    let all = || {
        programs.into_iter().filter(wanted).try_for_each(measure)?;
        if wanted(&"tables") {
            compare_tables()?;
        }
        Ok(())
    };
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err::<(), Failure>(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(1)
        }
    }
}

/// The ports a program is measured on, and packets per turn: frames from nowhere for the one that
/// reads Ethernet only; messages one after the other, which only a file holds, for the one that
/// counts them; else captures again and again. What is sent goes nowhere.
fn traffic(name: &str, dir: &Path) -> Result<(Vec<String>, u64), Failure> {
    let folder = root().join("examples").join(name);
    let again = |port: u32, file: &str| {
        format!("net_pcap{port},rx_pcap={},infinite_rx=1", folder.join(file).display())
    };
    Ok(match name {
        "l2_forward" => (vec!["net_null0,size=64".to_string()], PACKETS),
        "echo" => {
            let path = dir.join("traffic.pcap");
            (vec![format!("net_pcap0,rx_pcap={},infinite_rx=1", path.display())], PACKETS)
        }
        "nf_chain" => (vec![again(0, "traffic.pcap"), again(1, "traffic.1.pcap")], PACKETS),
        "rpc_reassembly" => {
            let path = dir.join("rpc.pcap");
            let frames = rpc_messages();
            let mut file = std::fs::File::create(&path).map_err(at(name))?;
            pcap::write(&mut file, &frames).map_err(at(name))?;
            (vec![format!("net_pcap0,rx_pcap={}", path.display())], frames.len() as u64)
        }
        _ => (vec![again(0, "traffic.pcap")], PACKETS),
    })
}

/// Writes the flow program of the UDP echo as C, and a frame of 64 bytes for it, of which 4 are the
/// wire's checksum.
fn make_echo(dir: &Path) -> Result<(), Failure> {
    let made = Command::new("python3")
        .arg(root().join("bench/flow/echo.py"))
        .output()
        .map_err(at("python3"))?;
    if !made.status.success() {
        return Err(Failure(String::from_utf8_lossy(&made.stderr).into_owned()));
    }
    std::fs::write(dir.join("echo.c"), &made.stdout).map_err(at("echo"))?;
    let mut data =
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    data.extend([10, 9, 0, 2, 10, 9, 0, 1, 0x9c, 0x40, 0, 7, 0, 26, 0, 0]);
    data.resize(60, b'x');
    let frame = Frame { time_ns: 0, original_length: data.len() as u32, data };
    let mut file = std::fs::File::create(dir.join("traffic.pcap")).map_err(at("echo"))?;
    pcap::write(&mut file, &[frame]).map_err(at("echo"))
}

/// Messages of four segments of 256 bytes on 64 channels side by side.
fn rpc_messages() -> Vec<Frame> {
    const SEGMENT: u32 = 256;
    let segment = |i: u32| {
        let (channel, seq) = (1 + i % 64, i / 64);
        let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 8, 0, 0x45, 0];
        data.extend((20 + 8 + 16 + SEGMENT as u16).to_be_bytes());
        data.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, channel as u8, 192, 0, 2, 1, 0x9c, 0x40]);
        data.extend(7000u16.to_be_bytes());
        data.extend((8 + 16 + SEGMENT as u16).to_be_bytes());
        data.extend([0, 0]);
        [channel, seq, SEGMENT, 4 * SEGMENT]
            .iter()
            .for_each(|word| data.extend(word.to_be_bytes()));
        data.resize(data.len() + SEGMENT as usize, i as u8);
        Frame { time_ns: 0, original_length: data.len() as u32, data }
    };
    (0..200_000).map(segment).collect()
}

/// Processes that start from here on are not interrupted by others of the machine, whose time would
/// be counted as cycles of theirs. Without the right to ask for it, figures are what they are.
fn undisturbed(yes: bool) {
    let priority = libc::sched_param { sched_priority: i32::from(yes) };
    let policy = if yes { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    // SAFETY: the structure lives through the call.
    let _ = unsafe { libc::sched_setscheduler(0, policy, &priority) };
}

fn measure(name: &'static str) -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(at(name))?;
    let case = if name == "echo" {
        make_echo(dir.path())?;
        Case::in_folder(name, dir.path())?
    } else {
        Case::new(name)?
    };
    let (vdevs, limit) = traffic(name, dir.path())?;
    let generated =
        DpdkProgram::new(&case.program, &Pipeline::single(&case.program)).map_err(at(name))?;
    let hand = build_by_hand(name, dir.path())?;
    let ports = |limit| Ports { vdevs: vdevs.clone(), limit, longest_frame: 2048, halt: None };
    let (mut ours, mut theirs, mut yardstick) = (Vec::new(), Vec::new(), Vec::new());
    let (mut last, mut last_by_hand) = (Ran::default(), Ran::default());
    generated.path(false).map_err(at(name))?;
    undisturbed(true);
    for _ in 0..ROUNDS {
        let run = generated.run_ports(&ports(limit), &case.entries).map_err(at(name))?;
        let io = run.stats.workers.last().ok_or_else(|| Failure(format!("{name}: no counters")))?;
        let (received, to_host) = (run.stats.received, run.stats.to_host);
        last = Ran { received, sent: run.stats.sent.iter().sum(), to_host, cycles: io.cycles };
        ours.push(last.cycles_per_packet());
        last_by_hand = run_by_hand(&hand, &vdevs, limit, dir.path())?;
        theirs.push(last_by_hand.cycles_per_packet());
        if name == "l2_forward" {
            yardstick.push(testpmd(&vdevs[0], Duration::from_millis(600))?);
        }
    }
    undisturbed(false);
    let did = |ran: Ran| (ran.received, ran.sent, ran.to_host);
    if did(last) != did(last_by_hand) {
        return Err(Failure(format!("{name}: {last:?} but by hand {last_by_hand:?}")));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ns = ns_a_cycle();
    println!(
        "{name:14} generated {ours:7.1} cycles/packet ({:.1} ns), by hand {theirs:7.1} ({:.1} ns), ratio {:.3}",
        ours * ns,
        theirs * ns,
        ours / theirs
    );
    if !yardstick.is_empty() {
        let testpmd = median(yardstick);
        let ratio = theirs / testpmd;
        println!(
            "{name:14} testpmd macswap {testpmd:.1} cycles/packet, by hand over testpmd {ratio:.3}"
        );
    }
    let counts = (limit / 20, limit / 4);
    let few = tempfile::tempdir().map_err(at(name))?;
    let instructions = instructions_per_packet(counts, few.path(), |limit| {
        generated.command(few.path(), &ports(limit), &case.entries).map_err(at(name))
    })?;
    let by_hand = instructions_per_packet(counts, few.path(), |limit| {
        Ok(by_hand(&hand, &vdevs, limit, &few.path().join("counts")))
    })?;
    match instructions.zip(by_hand) {
        Some((ours, theirs)) => println!(
            "{name:14} generated {ours:7.1} instructions/packet, by hand {theirs:7.1}, ratio {:.3} (drivers included)",
            ours / theirs
        ),
        None => println!("{name:14} instructions are not counted: valgrind is not installed"),
    }
    in_process(&case, name)
}

/// Of the counter that programs read; not a number where it is not the processor's own.
fn ns_a_cycle() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter.
        let read = || unsafe { std::arch::x86_64::_rdtsc() };
        let (start, from) = (Instant::now(), read());
        std::thread::sleep(Duration::from_millis(50));
        start.elapsed().as_nanos() as f64 / (read() - from) as f64
    }
    #[cfg(not(target_arch = "x86_64"))]
    f64::NAN
}

/// Events per second of the program in this process, with and without counting.
fn in_process(case: &Case, name: &str) -> Result<(), Failure> {
    for count in [false, true] {
        let watch = if count { Watch::Counts } else { Watch::Nothing };
        let options = HostOptions { watch, ..HostOptions::default() };
        let mut host = HostProgram::build_with(&case.program, options).map_err(at(name))?;
        nicforge_run::control::apply(host.tables_mut(), &case.entries).map_err(at(name))?;
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            let mut events = 0u32;
            while events < 200_000 {
                for event in &case.events {
                    host.run_one(event).map_err(at(name))?;
                    events += 1;
                }
            }
            best = best.min(start.elapsed().as_secs_f64() / f64::from(events));
        }
        let what = if count { "counting" } else { "plain" };
        println!("{name:14} in process, {what}: {:.0} ns/event", best * 1e9);
    }
    Ok(())
}

/// Our tables against DPDK's, where both find the same.
fn compare_tables() -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(at("tables"))?;
    let app = build_by_hand("tables", dir.path())?;
    undisturbed(true);
    let found = tables(&app, 31)?;
    undisturbed(false);
    let of = |name: &str| {
        found.iter().find(|(known, _)| known == name).map_or(f64::NAN, |(_, cycles)| *cycles)
    };
    for (ours, theirs) in [
        ("hash", "rte_hash"),
        ("hash", "rte_hash_bulk"),
        ("lru", "rte_hash"),
        ("lpm", "rte_lpm"),
        ("lpm", "rte_lpm_bulk"),
        ("masks16", "rte_acl16"),
        ("masks16", "rte_acl16_bulk"),
        ("masks256", "rte_acl256"),
        ("masks256", "rte_acl256_bulk"),
    ] {
        let (a, b) = (of(ours), of(theirs));
        println!("tables         {ours} {a:.1} cycles/lookup, {theirs} {b:.1}, ratio {:.3}", a / b);
    }
    Ok(())
}
