//! What programs on interfaces count.

use std::time::Instant;

use nicforge_ir::Output;
use serde::{Deserialize, Serialize};

use super::received::Received;
use crate::xdp::{Loaded, RunCount, XdpError};

/// Statistics of one second, of the whole run, or of all runs of a program that is pinned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DevStats {
    /// The time it is about.
    pub seconds: f64,
    /// Packets the program saw.
    pub packets: u64,
    /// Packets of them whose time was measured.
    pub timed: u64,
    /// Nanoseconds it spent on those, the kernel's counting included.
    pub busy_ns: u64,
    /// Packets it dropped, by reason (the runtime's own reasons too).
    pub drops: Vec<(String, u64)>,
    /// Inserts that full tables refused, by table.
    pub refused: Vec<(String, u64)>,
    /// What came for the host side.
    pub host: HostCounts,
    /// Copies of packets and byte strings that the process sent.
    pub copies: u64,
    /// Those that it could not: their port is not there, or its interface does not take them, as
    /// frames beyond its MTU.
    pub copies_lost: u64,
}

/// Numbers of outputs for the host side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCounts {
    pub packets: u64,
    pub messages: u64,
    pub dma_writes: u64,
    pub logs: u64,
}

impl HostCounts {
    /// Adds one output; others than those for the host side do not count.
    pub(super) fn add(&mut self, output: &Output) {
        match output {
            Output::HostPacket { .. } => self.packets += 1,
            Output::HostMessage { .. } => self.messages += 1,
            Output::DmaWrite { .. } => self.dma_writes += 1,
            Output::Log { .. } => self.logs += 1,
            Output::Send { .. } | Output::Stack { .. } | Output::Drop { .. } => {}
        }
    }

    fn since(&self, before: &HostCounts) -> HostCounts {
        HostCounts {
            packets: self.packets - before.packets,
            messages: self.messages - before.messages,
            dma_writes: self.dma_writes - before.dma_writes,
            logs: self.logs - before.logs,
        }
    }
}

impl DevStats {
    /// Nanoseconds per packet, where that was measured.
    pub fn ns_per_packet(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.busy_ns as f64 / self.timed as f64)
    }

    /// Packets per second.
    pub fn packets_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.packets as f64 / self.seconds } else { 0.0 }
    }

    /// Adds drops of a reason.
    pub(super) fn add_drops(&mut self, reason: &str, more: u64) {
        add(&mut self.drops, reason, more);
    }

    /// Adds inserts that a table refused.
    pub(super) fn add_refused(&mut self, table: &str, more: u64) {
        add(&mut self.refused, table, more);
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
            timed: self.timed - before.timed,
            busy_ns: self.busy_ns - before.busy_ns,
            drops: less(&self.drops, &before.drops),
            refused: less(&self.refused, &before.refused),
            host: self.host.since(&before.host),
            copies: self.copies - before.copies,
            copies_lost: self.copies_lost - before.copies_lost,
        }
    }
}

/// Counts of a session: of its program, and of those that it took the place of.
pub(super) struct Counting {
    started: Instant,
    /// Seconds before that, of a program that was pinned.
    before: f64,
    /// Of programs that were replaced.
    earlier: DevStats,
    /// Runs of the present program that are not the session's.
    first: RunCount,
    /// Where runs of programs are not counted.
    received: Option<Received>,
    pub(super) host: HostCounts,
    pub(super) copies: u64,
    pub(super) copies_lost: u64,
}

impl Counting {
    /// Counts from `first` on, runs of the program before it was attached. `received` counts
    /// packets where the kernel does not count runs; `earlier` is what was counted before.
    pub(super) fn start(
        first: RunCount,
        received: Option<Received>,
        earlier: DevStats,
    ) -> Counting {
        let (host, copies, copies_lost) = (earlier.host, earlier.copies, earlier.copies_lost);
        Counting {
            started: Instant::now(),
            before: earlier.seconds,
            earlier,
            first,
            received,
            host,
            copies,
            copies_lost,
        }
    }

    /// Everything since the start.
    pub(super) fn now(&self, loaded: &Loaded, tables: &[String]) -> Result<DevStats, XdpError> {
        let count = loaded.run_count()?;
        let mut now = self.earlier.clone();
        now.seconds = self.before + self.started.elapsed().as_secs_f64();
        match &self.received {
            Some(received) => now.packets = received.packets(),
            None => now.packets += count.runs - self.first.runs,
        }
        now.timed += count.runs - self.first.runs;
        now.busy_ns += count.ns - self.first.ns;
        now.host = self.host;
        (now.copies, now.copies_lost) = (self.copies, self.copies_lost);
        for (_, text, n) in loaded.drops() {
            now.add_drops(&text, n);
        }
        for (id, n) in loaded.refused() {
            now.add_refused(tables.get(id.as_u32() as usize).map_or("?", String::as_str), n);
        }
        Ok(now)
    }

    /// What was counted of programs that were replaced.
    pub(super) fn earlier(&self) -> &DevStats {
        &self.earlier
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
