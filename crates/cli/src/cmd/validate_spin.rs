//! `nicforge validate spin`: cycles of RTL simulations and measurements on an FPGA beside those of
//! the simulated NICs.
//!
//! PsPIN's rows run our handlers that do the same work. FPsPIN's round trips have a part that is
//! not the NIC's: what client, kernel and wire take. It is one number for ICMP and one for UDP, and
//! one for what a host adds that answers itself; each is taken from the smallest size (marked
//! calibrated), and all other sizes follow from simulated handlers.

use std::collections::BTreeMap;
use std::path::Path;

use include_dir::{Dir, include_dir};
use nicforge_driver::{Failure, Runtime};
use nicforge_isa::object::riscv::Image;
use nicforge_run::spin::{
    Api, HostProgram, ImageOptions, Load, Simulated, Simulation, Traffic, build, generate,
    handlers_of, simulate, throughput,
};
use nicforge_run::temp::Folder;
use nicforge_spin::machine::Machine;
use nicforge_spin::messages::Handler;
use nicforge_spin::nic::{Full, Options};

use super::rows::{Row, records};
use super::spin::published;

static EXAMPLES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../examples/spin");
const RTL: &str = include_str!("../../../../docs/validation/pspin_rtl.csv");
const MEASURED: &str = include_str!("../../../../docs/validation/fpspin_measured.csv");
/// Cycles after which the program on the host answers, so that its smallest measured round trip
/// comes out.
const HOST_ANSWER: u64 = 410;
/// What the host does while datatypes arrive: 16 rows of a product of matrices of order 128, at 8
/// Gflop/s [est]; 16 flags, at 100 ns a cache line that the NIC may have written [est]; an answer,
/// a write across PCIe [est].
const HOST_WORKS: HostProgram = HostProgram::Works { work: 2600, look: 64, answer: 20 };
/// The paper's overlap is 96 to 98 %.
const OVERLAP: f64 = 0.97;
/// Bytes of payload of a datatype's packets.
const DATATYPE_BYTES: usize = 1460;
/// Bytes of headers in front of a ping's payload.
const HEADERS: usize = 42;
/// Bytes of payload of a file's packets, and of the frame around them.
const SLMP_BYTES: usize = 1408;
const SLMP_HEADERS: usize = 52;

/// Images by example and flags, built once.
struct Images {
    runtime: Runtime,
    sources: Folder,
    built: BTreeMap<String, Image>,
}

impl Images {
    fn new() -> Result<Images, Failure> {
        let sources = Folder::new("validate-spin").map_err(Failure::temporary)?;
        EXAMPLES
            .extract(sources.path())
            .map_err(|e| Failure::environment(format!("{}: {e}", sources.path().display())))?;
        Ok(Images { runtime: Runtime::whole()?, sources, built: BTreeMap::new() })
    }

    fn get(&mut self, api: Api, example: &str, flags: &[&str]) -> Result<&Image, Failure> {
        let key = format!("{example} {}", flags.join(" "));
        if !self.built.contains_key(&key) {
            let options = ImageOptions {
                sources: vec![self.sources.path().join(Path::new(example)).with_extension("c")],
                layout: published(api)?.layout,
                flags: flags.iter().map(ToString::to_string).collect(),
            };
            let built =
                build(self.runtime.path(), &options).map_err(|e| Failure::of(e.fault(), e))?;
            self.built.insert(key.clone(), built.image);
        }
        Ok(&self.built[&key])
    }
}

fn run(
    machine: &Machine,
    image: &Image,
    load: &Load,
    host: HostProgram,
    memory: &[u8],
) -> Result<Simulated, Failure> {
    let simulation = Simulation {
        machine,
        image,
        handlers: handlers_of(image),
        ruleset: None,
        options: Options { full: Full::Wait, ..Options::default() },
        host,
        memory,
    };
    simulate(&simulation, generate(load)).map_err(|e| Failure::user(format!("internal error: {e}")))
}

/// All rows.
pub fn rows() -> Result<Vec<Row>, Failure> {
    let mut images = Images::new()?;
    let mut rows = Vec::new();
    pspin(&mut images, &mut rows)?;
    fpspin(&mut images, &mut rows)?;
    Ok(rows)
}

fn row(source: &'static str, case: String, metric: &'static str, published: f64, ours: f64) -> Row {
    Row { source, case, metric, published, ours, calibrated: false }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// First run of a kind of handler, and the middle of the later half: what a warm handler takes.
fn first_and_warm(simulated: &Simulated, handler: Handler) -> (f64, f64) {
    let mut ran: Vec<_> =
        simulated.handlers.iter().filter(|record| record.handler == handler).collect();
    ran.sort_by_key(|record| record.times.started);
    let cycles: Vec<f64> =
        ran.iter().map(|record| (record.times.ended - record.times.started) as f64).collect();
    let warm = match cycles.len() {
        0 => Vec::new(),
        1 => cycles.clone(),
        2 => cycles[1..].to_vec(),
        n => cycles[n / 2..].to_vec(),
    };
    (cycles.first().copied().unwrap_or(f64::NAN), median(warm))
}

fn pspin(images: &mut Images, rows: &mut Vec<Row>) -> Result<(), Failure> {
    // The line of the published simulations has no limit.
    let machine = Machine { line_rate: None, ..published(Api::Pspin)?.machine };
    let mut errors = Vec::new();
    for record in records(RTL) {
        let [
            source,
            compiler,
            example,
            bytes,
            packets,
            handler,
            nic,
            copy,
            start,
            first,
            warm,
            state,
        ] = record[..]
        else {
            continue;
        };
        // Some measurements did not trust themselves.
        if state != "valid" {
            continue;
        }
        let load = Load {
            traffic: Traffic::Pspin,
            messages: 1,
            packets: packets.parse().unwrap_or(1),
            bytes: bytes.parse().unwrap_or(64),
            packet_delay: 20,
            message_delay: 40,
        };
        // The published copies to the host wait for their end, those measured again do not.
        let mut flags = vec!["-DLIKE_PSPIN"];
        if example == "copy_to_host" && source == "log" {
            flags.push("-DWAIT_SUSPEND");
        }
        let image = images.get(Api::Pspin, &format!("pspin/{example}"), &flags)?;
        let ran = run(&machine, image, &load, HostProgram::Absent, &[])?;
        let source = if source == "log" { "RTL logs, PULP GCC" } else { "RTL, Debian's GCC" };
        let kind = if handler == "tail" { Handler::Completion } else { Handler::Payload };
        let case = format!("{example} {bytes} B, {handler}");
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        if !start.is_empty() && source.starts_with("RTL logs") {
            let least = |stage: fn(&nicforge_spin::nic::Times) -> u64| {
                ran.freed
                    .iter()
                    .map(|freed| stage(&freed.times))
                    .min()
                    .map_or(f64::NAN, |cycles| cycles as f64)
            };
            let stages = [
                ("NIC to task", nic, least(|t| t.described - t.written)),
                ("task to copy", copy, least(|t| t.copied - t.described)),
                ("copy to handler", start, least(|t| t.started - t.copied)),
            ];
            for (metric, published, ours) in stages {
                rows.push(row(
                    source,
                    format!("{example} {bytes} B"),
                    metric,
                    number(published),
                    ours,
                ));
            }
        }
        let (our_first, our_warm) = first_and_warm(&ran, kind);
        rows.push(row(source, case.clone(), "cycles, first", number(first), our_first));
        rows.push(row(source, case, "cycles, warm", number(warm), our_warm));
        if compiler == "gcc" {
            errors.push((our_first / number(first) - 1.0).abs());
            errors.push((our_warm / number(warm) - 1.0).abs());
        }
    }
    rows.push(row(
        "RTL, Debian's GCC",
        "all handlers".into(),
        "median error, %",
        f64::NAN,
        100.0 * median(errors),
    ));

    let load = Load {
        traffic: Traffic::Pspin,
        messages: 1,
        packets: 32,
        bytes: 1024,
        packet_delay: 20,
        message_delay: 40,
    };
    let ran = run(
        &machine,
        images.get(Api::Pspin, "pspin/ping_pong", &[])?,
        &load,
        HostProgram::Absent,
        &[],
    )?;
    let times =
        || ran.freed.iter().map(|freed| (freed.times.feedback - freed.times.arrived) as f64);
    let rate = throughput(
        ran.freed.iter().map(|freed| (freed.times.feedback, u64::from(freed.bytes))),
        machine.cycle_ns(),
    );
    let case = || "ping_pong 32 x 1024 B".to_string();
    let source = "PsPIN's documentation";
    rows.push(row(source, case(), "feedback Gbit/s", 443.197, rate.unwrap_or(f64::NAN) / 1e9));
    rows.push(row(source, case(), "mean latency ns", 119.75, times().sum::<f64>() / 32.0));
    rows.push(row(
        source,
        case(),
        "least latency ns",
        108.0,
        times().fold(f64::INFINITY, f64::min),
    ));
    rows.push(row(source, case(), "longest latency ns", 155.0, times().fold(0.0, f64::max)));
    Ok(())
}

/// Costs of one kind of ping on the simulated NIC.
struct Ping {
    /// From the frame's arrival to the answer's departure.
    nic_us: f64,
    /// Means of counters: the handler, the host's part, the clock.
    counters: [f64; 3],
}

fn ping(
    images: &mut Images,
    machine: &Machine,
    icmp: bool,
    host: bool,
    payload: usize,
) -> Result<Ping, Failure> {
    let (example, traffic) =
        if icmp { ("icmp_echo", Traffic::Icmp) } else { ("udp_echo", Traffic::Udp) };
    let mut flags = vec!["-DWHOLE_CHECKSUM"];
    if host {
        flags.push("-DDO_HOST=true");
    }
    let load = Load {
        traffic,
        messages: 1,
        packets: 50,
        bytes: HEADERS + payload,
        packet_delay: 20_000,
        message_delay: 0,
    };
    let image = images.get(Api::Fpspin, example, &flags)?;
    let ran = run(
        machine,
        image,
        &load,
        if host { HostProgram::After(HOST_ANSWER) } else { HostProgram::Absent },
        &[],
    )?;
    let mut arrivals: Vec<u64> = ran.freed.iter().map(|freed| freed.times.arrived).collect();
    arrivals.sort_unstable();
    let took = arrivals.iter().zip(&ran.sent).map(|(arrived, (sent, _))| (sent - arrived) as f64);
    let mean = |at: usize| {
        let counter = ran.counters.iter().find(|(number, ..)| *number == at);
        counter.map_or(f64::NAN, |(_, count, sum)| f64::from(*sum) / f64::from(*count))
    };
    Ok(Ping {
        nic_us: median(took.collect()) * machine.cycle_ns() / 1000.0,
        counters: [mean(0), mean(1), mean(2)],
    })
}

const FPGA: &str = "FPsPIN on an FPGA";

fn fpspin(images: &mut Images, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let machine = published(Api::Fpspin)?.machine;
    // Microseconds that are not the NIC's: of a ping's client, and of a host that answers itself.
    let (mut clients, mut hosts) = (BTreeMap::new(), BTreeMap::new());
    let mut wire: Option<f64> = None;
    let mut sender: Option<f64> = None;
    let mut turn: Option<f64> = None;
    let measured: Vec<Vec<&str>> = records(MEASURED).collect();
    // The client's part is known from pings that the NIC answers; they come behind those the host
    // answers.
    for record in measured
        .iter()
        .filter(|record| record[0] == "rtt" && record[1].ends_with(" nic") && record[2] == "16")
    {
        let icmp = record[1].starts_with("icmp");
        let published: f64 = record[3].parse().unwrap_or(f64::NAN);
        clients.insert(icmp, published - ping(images, &machine, icmp, false, 16)?.nic_us);
    }
    let mut within = (0usize, 0usize);
    for record in &measured {
        let [what, case, bytes, value] = record[..] else { continue };
        let (bytes, value): (usize, f64) =
            (bytes.parse().unwrap_or(0), value.parse().unwrap_or(f64::NAN));
        let (metric, ours, calibrated) = match what {
            "clock" => ("cycles", ping(images, &machine, false, false, 16)?.counters[2], false),
            "handler" => {
                let host = case.ends_with("host");
                let ping = ping(images, &machine, false, host, bytes)?;
                ("handler cycles", ping.counters[0], !host && bytes == 16)
            }
            "round" => {
                let ping = ping(images, &machine, false, true, bytes)?;
                ("host's part, cycles", ping.counters[1], bytes == 16)
            }
            "rtt" => {
                let icmp = case.starts_with("icmp");
                let client = clients.get(&icmp).copied().unwrap_or(f64::NAN);
                match case.split_once(' ').map(|(_, mode)| mode) {
                    Some("host") => {
                        let host = *hosts.entry(icmp).or_insert(value - client);
                        ("round trip us", client + host, bytes == 16)
                    }
                    Some(mode) => {
                        let ping = ping(images, &machine, icmp, mode == "nic+host", bytes)?;
                        ("round trip us", client + ping.nic_us, mode == "nic" && bytes == 16)
                    }
                    None => continue,
                }
            }
            "slmp" => {
                let window: f64 = case.parse().unwrap_or(1.0);
                let bits = (SLMP_BYTES * 8) as f64;
                let (latency_us, nic_bits) = slmp(images, &machine)?;
                // One packet under way: what its round trip takes beside the NIC. And the most a
                // sender has sent.
                let wire = *wire.get_or_insert(bits / (value * 1000.0) - latency_us);
                let sender = *sender.get_or_insert_with(|| {
                    let rates = measured.iter().filter(|record| record[0] == "slmp");
                    rates.filter_map(|record| record[3].parse::<f64>().ok()).fold(0.0, f64::max)
                });
                let ours = (window * bits / ((latency_us + wire) * 1000.0))
                    .min(sender)
                    .min(nic_bits / 1e9);
                ("Gbit/s", ours, window == 1.0 || value == sender)
            }
            "datatype" => {
                // One packet of a message is under way at a time; what a turn takes beside the NIC
                // is the sender's.
                let parallel = bytes as f64;
                let bits = (DATATYPE_BYTES * 8) as f64;
                let (latency_us, packets_a_us) = datatype(images, &machine, case)?;
                let turn = *turn.get_or_insert(bits / value - latency_us);
                let ours = (parallel * bits / (latency_us + turn)).min(packets_a_us * bits);
                ("Mbit/s", ours, case == "simple" && bytes == 1)
            }
            _ => continue,
        };
        let case = match what {
            "slmp" => format!("slmp, window {case}"),
            "datatype" => format!("{case} datatype, {bytes} messages"),
            "clock" => case.to_string(),
            _ => format!("{case} {bytes} B"),
        };
        if matches!(what, "rtt" | "slmp" | "datatype") {
            within.0 += usize::from((ours / value - 1.0).abs() <= 0.25);
            within.1 += 1;
        }
        rows.push(Row { source: FPGA, case, metric, published: value, ours, calibrated });
    }
    for name in ["simple", "complex"] {
        let ours = overlap(images, &machine, name)?;
        rows.push(row(FPGA, format!("{name} datatype, 16 messages"), "overlap", OVERLAP, ours));
    }
    let share = 100.0 * within.0 as f64 / within.1.max(1) as f64;
    rows.push(row(
        FPGA,
        "pings, windows, datatypes".into(),
        "within 25 %, % of cells",
        f64::NAN,
        share,
    ));
    Ok(())
}

/// Of a file's packet: from its arrival to its acknowledgement in us, and payload bits per second
/// that the NIC takes in.
fn slmp(images: &mut Images, machine: &Machine) -> Result<(f64, f64), Failure> {
    let load = |packets, packet_delay| Load {
        traffic: Traffic::Slmp,
        messages: 1,
        packets,
        bytes: SLMP_HEADERS + SLMP_BYTES,
        packet_delay,
        message_delay: 0,
    };
    let image = images.get(Api::Fpspin, "slmp_receive", &[])?.clone();
    let slow = run(machine, &image, &load(20, 20_000), HostProgram::After(HOST_ANSWER), &[])?;
    let arrivals = slow.freed.iter().map(|freed| freed.times.arrived);
    let took =
        arrivals.zip(&slow.sent).map(|(arrived, (sent, _))| sent.saturating_sub(arrived) as f64);
    let fast = run(machine, &image, &load(400, 1), HostProgram::After(HOST_ANSWER), &[])?;
    let rate = throughput(
        fast.sent.iter().map(|(time, _)| (*time, SLMP_BYTES as u64)),
        machine.cycle_ns(),
    );
    Ok((median(took.collect()) * machine.cycle_ns() / 1000.0, rate.unwrap_or(f64::NAN)))
}

/// The paper's datatypes as handlers read them (`examples/spin/typemap.h`): nodes of kind, size,
/// count, stride and child.
fn typemap(name: &str) -> Vec<u8> {
    const MAGIC: u32 = 0x7061_6d74;
    const HEADER: u32 = 24;
    const NODE: u32 = 20;
    const RUN: u32 = 0;
    const LOOP: u32 = 1;
    // From the inside out: hvec(2 1 18432)[hvec(2 1 12288)[hvec(2 1 6144)[vec(32 6
    // 8)[ctg(18)[float]]]]], or ctg(27648)[float].
    let nodes: Vec<[u32; 5]> = match name {
        "simple" => vec![[RUN, 27_648 * 4, 0, 0, 0]],
        _ => {
            let mut nodes = vec![[RUN, 432, 0, 0, 0]];
            for (count, stride) in [(32, 576), (2, 6144), (2, 12_288), (2, 18_432)] {
                let child = HEADER + NODE * (nodes.len() as u32 - 1);
                let size = nodes[nodes.len() - 1][1] * count;
                nodes.push([LOOP, size, count, stride, child]);
            }
            nodes
        }
    };
    let root = HEADER + NODE * (nodes.len() as u32 - 1);
    let header = [MAGIC, HEADER + NODE * nodes.len() as u32, root, 1 << 19, 0, 16];
    header.iter().chain(nodes.iter().flatten()).flat_map(|word| word.to_le_bytes()).collect()
}

/// Of a datatype's packet: from its arrival to its acknowledgement in us, and packets that all
/// units together handle in a us.
fn datatype(images: &mut Images, machine: &Machine, name: &str) -> Result<(f64, f64), Failure> {
    let load = Load {
        traffic: Traffic::Slmp,
        messages: 1,
        packets: 70,
        bytes: SLMP_HEADERS + DATATYPE_BYTES,
        packet_delay: 20_000,
        message_delay: 0,
    };
    let image = images.get(Api::Fpspin, "datatypes", &[])?.clone();
    let ran = run(machine, &image, &load, HostProgram::After(HOST_ANSWER), &typemap(name))?;
    let arrivals = ran.freed.iter().map(|freed| freed.times.arrived);
    let took =
        arrivals.zip(&ran.sent).map(|(arrived, (sent, _))| sent.saturating_sub(arrived) as f64);
    let us = machine.cycle_ns() / 1000.0;
    let (_, handler) = first_and_warm(&ran, Handler::Payload);
    Ok((median(took.collect()) * us, machine.hpus() as f64 / (handler * us)))
}

/// The share of its time that the host has for its own work while sixteen messages are unpacked.
fn overlap(images: &mut Images, machine: &Machine, name: &str) -> Result<f64, Failure> {
    let load = Load {
        traffic: Traffic::Slmp,
        messages: 16,
        packets: 40,
        bytes: SLMP_HEADERS + DATATYPE_BYTES,
        packet_delay: 400,
        message_delay: 400,
    };
    let image = images.get(Api::Fpspin, "datatypes", &[])?.clone();
    let ran = run(machine, &image, &load, HOST_WORKS, &typemap(name))?;
    Ok(ran.overlap().unwrap_or(f64::NAN))
}
