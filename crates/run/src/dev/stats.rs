//! What programs on interfaces count.

use std::time::Instant;

use super::received::Received;
use crate::xdp::{Loaded, RunCount, XdpError};

/// Statistics of one second, or of the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DevStats {
    /// The time it is about.
    pub seconds: f64,
    /// Packets the program saw.
    pub packets: u64,
    /// Nanoseconds it spent on them, the kernel's counting included.
    pub busy_ns: u64,
    /// Packets it dropped, by reason (the runtime's own reasons too).
    pub drops: Vec<(String, u64)>,
    /// Inserts that full tables refused, by table.
    pub refused: Vec<(String, u64)>,
    /// Records for the host side: packets, messages, DMA writes, logs.
    pub host: u64,
    /// Copies of packets and byte strings that the process sent.
    pub copies: u64,
    /// Those that it could not: their port is not there, or its interface does not take them, as
    /// frames beyond its MTU.
    pub copies_lost: u64,
}

impl DevStats {
    /// Packets per second.
    pub fn packets_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.packets as f64 / self.seconds } else { 0.0 }
    }

    /// Counts since `before`; both count from the same start.
    pub(super) fn since(&self, before: &DevStats) -> DevStats {
        let less = |now: &[(String, u64)], then: &[(String, u64)]| {
            let was =
                |name: &str| then.iter().find(|(known, _)| known == name).map_or(0, |(_, n)| *n);
            now.iter().map(|(name, n)| (name.clone(), n - was(name))).collect()
        };
        DevStats {
            seconds: self.seconds - before.seconds,
            packets: self.packets - before.packets,
            busy_ns: self.busy_ns - before.busy_ns,
            drops: less(&self.drops, &before.drops),
            refused: less(&self.refused, &before.refused),
            host: self.host - before.host,
            copies: self.copies - before.copies,
            copies_lost: self.copies_lost - before.copies_lost,
        }
    }
}

/// Counts of a session: of its program, and of those it had before a reload.
pub(super) struct Counting {
    started: Instant,
    /// Of programs that were replaced.
    earlier: DevStats,
    /// Runs of the present program that are not the session's.
    first: RunCount,
    /// Where runs of programs are not counted.
    received: Option<Received>,
    pub(super) host: u64,
    pub(super) copies: u64,
    pub(super) copies_lost: u64,
}

impl Counting {
    /// `received` counts packets where the kernel does not count runs.
    pub(super) fn start(loaded: &Loaded, received: Option<Received>) -> Result<Counting, XdpError> {
        let first = loaded.run_count()?;
        Ok(Counting {
            started: Instant::now(),
            earlier: DevStats::default(),
            first,
            received,
            host: 0,
            copies: 0,
            copies_lost: 0,
        })
    }

    /// Everything since the start.
    pub(super) fn now(&self, loaded: &Loaded, tables: &[String]) -> Result<DevStats, XdpError> {
        let count = loaded.run_count()?;
        let mut now = self.earlier.clone();
        now.seconds = self.started.elapsed().as_secs_f64();
        match &self.received {
            Some(received) => now.packets = received.packets(),
            None => now.packets += count.runs - self.first.runs,
        }
        now.busy_ns += count.ns - self.first.ns;
        now.host = self.host;
        (now.copies, now.copies_lost) = (self.copies, self.copies_lost);
        for (_, text, n) in loaded.drops() {
            add(&mut now.drops, &text, n);
        }
        for (id, n) in loaded.refused() {
            add(&mut now.refused, tables.get(id.as_u32() as usize).map_or("?", String::as_str), n);
        }
        Ok(now)
    }

    /// The program of `total` is no more; another one starts at zero.
    pub(super) fn retire(&mut self, total: DevStats) {
        self.earlier = total;
        self.first = RunCount::default();
    }
}

fn add(list: &mut Vec<(String, u64)>, name: &str, more: u64) {
    match list.iter_mut().find(|(known, _)| known == name) {
        Some((_, n)) => *n += more,
        None => list.push((name.to_string(), more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_a_difference_by_name() {
        let drops = |list: &[(&str, u64)]| {
            list.iter().map(|(s, n)| (s.to_string(), *n)).collect::<Vec<_>>()
        };
        let before =
            DevStats { packets: 3, drops: drops(&[("a", 2), ("b", 1)]), ..DevStats::default() };
        // After a reload the order of reasons may be another one, and there may be new ones.
        let now = DevStats {
            packets: 9,
            drops: drops(&[("new", 4), ("b", 1), ("a", 5)]),
            ..DevStats::default()
        };
        let second = now.since(&before);
        assert_eq!((second.packets, second.drops), (6, drops(&[("new", 4), ("b", 0), ("a", 3)])));
    }
}
