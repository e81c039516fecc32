//! Handlers on several machines: interpreted RISC-V units, this computer, and units behind the
//! datapath in hardware. The same packets have to leave, the same bytes to be in the host's memory,
//! and the same handlers to end the same way.
//!
//! Some results depend on when packets come even on one machine: a counter of cycles, or two
//! handlers that write one place. So the reference runs again with other gaps between packets.
//! What differs then depends on time. It is reported, and not compared.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use nicforge_spin::nic::{Arrival, HostMemory, Nic, NicError, SparseMemory};

use super::simulate::{HOST, HostProgram, Simulated, Simulation, simulate_on};

/// The host's memory, which outlives the NIC.
#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Mutex<SparseMemory>>);

impl HostMemory for Kept {
    fn read(&mut self, address: u64, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(address, bytes);
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(address, bytes);
    }
}

/// Outcomes that are compared of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Frames that left, in an order of their own: units that run side by side end in any order.
    sent: Vec<Vec<u8>>,
    /// Numbers and lists by what they are.
    facts: BTreeMap<String, String>,
    host: SparseMemory,
    /// How many ran.
    pub handlers: usize,
}

impl Outcome {
    /// Frames that left.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// Bytes of host memory, from an offset in the context's on.
    pub fn host(&mut self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        self.host.read(HOST.address.wrapping_add(offset), &mut found);
        found
    }

    /// Bytes of host memory that are not zero.
    pub fn host_bytes(&self) -> usize {
        self.host.pages().flat_map(|(_, page)| page).filter(|byte| **byte != 0).count()
    }
}

/// Runs on a NIC that `nic` makes around a host's memory.
///
/// # Errors
/// The image does not suit the machine.
pub fn outcome<E: From<NicError>>(
    simulation: &Simulation,
    arrivals: Vec<Arrival>,
    nic: impl FnOnce(Box<dyn HostMemory>) -> Result<Nic, E>,
) -> Result<Outcome, E> {
    let kept = Kept::default();
    let simulated = simulate_on(simulation, nic(Box::new(kept.clone()))?, arrivals)?;
    let mut host = kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if simulation.host != HostProgram::Absent {
        // Each unit has a page for what it asks the host, and any unit may run a handler.
        (0..simulation.machine.hpus() as u64)
            .for_each(|unit| host.write(HOST.address + unit * 4096, &[0; 4096]));
    }
    Ok(Outcome { host, ..of(simulated) })
}

/// All but the host's memory.
fn of(simulated: Simulated) -> Outcome {
    let mut facts = BTreeMap::new();
    let mut fact = |name: &str, value: String| facts.insert(name.to_string(), value);
    fact("packets handled", simulated.freed.len().to_string());
    fact("packets not for handlers", simulated.to_host.to_string());
    fact("packets dropped", simulated.dropped.len().to_string());
    fact("messages given up", simulated.abandoned.to_string());
    fact("bytes written to the host", simulated.stats.host_written_bytes.to_string());
    fact("bytes read from the host", simulated.stats.host_read_bytes.to_string());
    fact("commands", simulated.stats.commands.to_string());
    fact("commands refused", simulated.stats.commands_refused.to_string());
    for (number, count, sum) in &simulated.counters {
        fact(&format!("additions to counter {number}"), count.to_string());
        fact(&format!("sum of counter {number}"), sum.to_string());
    }
    let mut printed: Vec<&str> = simulated.printed.iter().map(|(_, text)| text.as_str()).collect();
    printed.sort_unstable();
    fact("lines printed", printed.join("\n"));
    let mut ran: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for record in &simulated.handlers {
        let how = if record.failed { "fails" } else { "ends" };
        let what = format!("{} of message {:#x} {how}", record.handler.name(), record.message);
        ran.entry(record.user).or_default().push(what);
    }
    for (packet, mut handlers) in ran {
        handlers.sort_unstable();
        fact(&format!("handlers of packet {packet}"), handlers.join(", "));
    }
    let mut sent: Vec<Vec<u8>> = simulated.sent.into_iter().map(|(_, frame)| frame).collect();
    sent.sort_unstable();
    Outcome { sent, facts, host: SparseMemory::default(), handlers: simulated.handlers.len() }
}

/// Outcomes of a reference, and which of them depend on time.
pub struct Reference {
    pub outcome: Outcome,
    sent: bool,
    facts: Vec<String>,
    /// Bytes of host memory, as addresses.
    host: Vec<Range<u64>>,
}

impl Reference {
    /// From a run, and others with packets at other times.
    pub fn new(outcome: Outcome, others: &[Outcome]) -> Reference {
        let mut timely = Reference { outcome, sent: false, facts: Vec::new(), host: Vec::new() };
        for other in others {
            let outcome = &timely.outcome;
            let names = outcome.facts.keys().chain(other.facts.keys());
            let differ = |name: &&String| outcome.facts.get(*name) != other.facts.get(*name);
            timely.facts.extend(names.filter(differ).cloned());
            timely.host.extend(unequal(&outcome.host, &other.host, 1, &timely.host));
            timely.sent |= outcome.sent != other.sent;
        }
        timely.facts.sort_unstable();
        timely.facts.dedup();
        timely
    }

    /// Names of what is not compared because it depends on when packets come.
    pub fn timely(&self) -> Vec<String> {
        let mut list = self.facts.clone();
        list.extend(self.sent.then(|| "frames that leave".to_string()));
        let bytes: u64 = self.host.iter().map(|range| range.end - range.start).sum();
        list.extend((bytes > 0).then(|| format!("{bytes} bytes of host memory")));
        list
    }

    /// Different results of another machine, in words.
    pub fn differences(&self, other: &Outcome) -> Vec<String> {
        let mut list = Vec::new();
        let (ours, theirs) = (&self.outcome, other);
        let mut names: Vec<&String> = ours.facts.keys().chain(theirs.facts.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().filter(|name| !self.facts.contains(name)) {
            let of = |outcome: &Outcome| {
                outcome.facts.get(name).map_or("none".to_string(), |value| format!("`{value}`"))
            };
            if of(ours) != of(theirs) {
                list.push(format!("{name}: {} instead of {}", of(theirs), of(ours)));
            }
        }
        if !self.sent && ours.sent != theirs.sent {
            list.push(frames(&ours.sent, &theirs.sent));
        }
        for range in unequal(&ours.host, &theirs.host, 8, &self.host) {
            let bytes = |outcome: &Outcome| {
                let mut found = vec![0; (range.end - range.start).min(8) as usize];
                outcome.host.clone().read(range.start, &mut found);
                hex(&found)
            };
            list.push(format!(
                "host memory, offset {:#x}, {} bytes: {} instead of {}",
                range.start.wrapping_sub(HOST.address),
                range.end - range.start,
                bytes(theirs),
                bytes(ours)
            ));
        }
        list
    }
}

/// How two sorted lists of frames differ, with the first frame that one of them lacks.
fn frames(ours: &[Vec<u8>], theirs: &[Vec<u8>]) -> String {
    let lacks = |list: &[Vec<u8>], other: &[Vec<u8>]| {
        let mut rest = other.to_vec();
        let missing = list.iter().find(|frame| match rest.iter().position(|f| f == *frame) {
            Some(at) => {
                rest.swap_remove(at);
                false
            }
            None => true,
        });
        missing.map(|frame| format!("{} bytes {}", frame.len(), hex(frame)))
    };
    let mut text = format!("{} frames leave instead of {}", theirs.len(), ours.len());
    if let Some(frame) = lacks(ours, theirs) {
        text.push_str(&format!("; missing: {frame}"));
    }
    if let Some(frame) = lacks(theirs, ours) {
        text.push_str(&format!("; new: {frame}"));
    }
    text
}

/// The first 64 bytes.
fn hex(bytes: &[u8]) -> String {
    let text: String = bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > 64 { text + "…" } else { text }
}

/// Where two memories differ outside of some ranges: ranges, those less than `apart` bytes apart as
/// one.
fn unequal(
    a: &SparseMemory,
    b: &SparseMemory,
    apart: u64,
    except: &[Range<u64>],
) -> Vec<Range<u64>> {
    const NONE: [u8; 4096] = [0; 4096];
    let (a, b): (BTreeMap<_, _>, BTreeMap<_, _>) = (a.pages().collect(), b.pages().collect());
    let mut starts: Vec<u64> = a.keys().chain(b.keys()).copied().collect();
    starts.sort_unstable();
    starts.dedup();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for start in starts {
        let page =
            |memory: &BTreeMap<u64, &[u8]>| memory.get(&start).copied().unwrap_or(&NONE).to_vec();
        for (at, (ours, theirs)) in (start..).zip(page(&a).into_iter().zip(page(&b))) {
            if ours == theirs || except.iter().any(|range| range.contains(&at)) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if at - last.end < apart => last.end = at + 1,
                _ => ranges.push(at..at + 1),
            }
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(sent: &[u8], sum: u32, host: &[u8]) -> Outcome {
        let mut outcome = Outcome { sent: vec![sent.to_vec()], ..Outcome::default() };
        outcome.facts.insert("sum of counter 0".to_string(), sum.to_string());
        outcome.host.write(HOST.address + 16, host);
        outcome
    }

    #[test]
    fn what_depends_on_time_is_not_compared_and_the_rest_is() {
        let reference = Reference::new(made(&[1], 7, &[1, 2]), &[made(&[1], 8, &[1, 2])]);
        assert_eq!(reference.timely(), ["sum of counter 0"]);
        assert!(reference.differences(&made(&[1], 9, &[1, 2])).is_empty());
        assert_eq!(
            reference.differences(&made(&[2], 9, &[1, 3])),
            [
                "1 frames leave instead of 1; missing: 1 bytes 01; new: 1 bytes 02",
                "host memory, offset 0x11, 1 bytes: 03 instead of 02"
            ]
        );
        let reference = Reference::new(made(&[1], 7, &[1, 2]), &[made(&[2], 7, &[1, 9])]);
        assert_eq!(reference.timely(), ["frames that leave", "1 bytes of host memory"]);
        assert!(reference.differences(&made(&[3], 7, &[1, 8])).is_empty());
        assert_eq!(
            reference.differences(&made(&[3], 6, &[0, 8])),
            [
                "sum of counter 0: `6` instead of `7`",
                "host memory, offset 0x10, 1 bytes: 00 instead of 01"
            ]
        );
    }
}
