//! `--measure`: the slowest packet beside typical ones, in the kernel.
//!
//! The kernel's test run times them, with the entries in the tables that the slowest packet finds.
//! Where its path also depends on results of helpers or fields of the context it may be shorter
//! here, which the output says.

use nicforge_bound::analysis::PathReport;
use nicforge_bound::replay;
use nicforge_driver::{Failure, Runtime};
use nicforge_run::xdp::bench::bench_object;
use serde_json::{Value, json};

use super::load::Subject;

/// Runs per turn, for packets that the program leaves as they are.
const REPEAT: u32 = 10_000;

/// Measurements.
pub struct Measured {
    /// Name and nanoseconds; the slowest packet first.
    pub list: Vec<(&'static str, f64)>,
    /// Entries put into tables for it.
    pub entries: usize,
    /// The slowest packet also depends on what is in no table.
    pub more_needed: bool,
    /// What the program returns for the slowest packet, in the kernel and at the end of its path.
    pub verdicts: [u64; 2],
}

impl Measured {
    /// Time of the slowest packet against the mean of the typical ones.
    pub fn slowdown(&self) -> f64 {
        let typical: f64 =
            self.list[1..].iter().map(|(_, ns)| ns).sum::<f64>() / (self.list.len() - 1) as f64;
        self.list[0].1 / typical.max(0.1)
    }

    pub fn json(&self) -> Value {
        let list = self.list.iter().map(|(name, ns)| json!({ "packet": name, "ns": ns }));
        json!({ "packets": list.collect::<Vec<_>>(), "slowdown": self.slowdown(), "entries": self.entries, "more_needed": self.more_needed,
            "verdict": self.verdicts[0], "verdict_of_path": self.verdicts[1] })
    }
}

/// An Ethernet frame with a type, some bytes behind it, and zeroes up to a size.
fn frame(kind: u16, bytes: &[u8], size: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend(bytes);
    frame.resize(size.max(frame.len()), 0);
    frame
}

/// IPv4 from 10.0.0.1 to 10.0.0.2 with a protocol, ports 1024 and `port`.
fn ipv4(protocol: u8, port: u16, size: usize) -> Vec<u8> {
    let length = (size - 14) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0]);
    bytes.extend(port.to_be_bytes());
    if protocol == 6 {
        // Sequence numbers, five words of header, ACK, window.
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
    } else {
        bytes.extend((length - 20).to_be_bytes());
    }
    frame(0x0800, &bytes, size)
}

/// Measures on a target that is the kernel.
pub fn run(subject: &Subject, path: &PathReport) -> Result<Measured, Failure> {
    let Some((program, maps)) = subject.program.as_ref().filter(|_| subject.target == "xdp") else {
        return Err(Failure::usage(
            "--measure needs --target xdp: there is no such NIC here".to_string(),
        ));
    };
    let mut ipv6 = vec![0x60, 0, 0, 0, 0, 16, 17, 64];
    ipv6.extend([0; 32]);
    ipv6.extend([4, 0, 0, 53, 0, 16]);
    let packets = [
        ("slowest", path.witness.packet.clone()),
        ("udp, 64 bytes", ipv4(17, 53, 64)),
        ("tcp, 64 bytes", ipv4(6, 443, 64)),
        ("tcp, 1500 bytes", ipv4(6, 443, 1500)),
        ("ipv6 udp", frame(0x86dd, &ipv6, 80)),
        ("arp", frame(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1], 60)),
    ];
    let frames: Vec<Vec<u8>> = packets.iter().map(|(_, frame)| frame.clone()).collect();
    let runtime = Runtime::unpack()?;
    let contents = replay::contents(program, maps, &path.witness)
        .map_err(|e| Failure::user(format!("internal error: the witness cannot be run: {e}")))?;
    let entries: Vec<(&str, &[u8], &[u8])> =
        contents.entries.iter().map(|entry| (&*entry.map, &*entry.key, &*entry.value)).collect();
    let headers = runtime.target_headers("xdp");
    let costs = bench_object(&subject.object, &program.name, &entries, &frames, REPEAT, &headers)
        .map_err(|e| Failure::of(e.fault(), e))?;
    let verdicts = [costs[0].verdict.into(), u64::from(contents.verdict as u32)];
    if verdicts[0] != verdicts[1] && !contents.more {
        return Err(Failure::user(format!(
            "internal error: the kernel decides {} for the slowest packet, its path ends in {}",
            verdicts[0], verdicts[1]
        )));
    }
    let list = packets.iter().zip(costs).map(|((name, _), cost)| (*name, cost.ns)).collect();
    Ok(Measured { list, entries: entries.len(), more_needed: contents.more, verdicts })
}
