//! A sPIN NIC's sizes, addresses and cycles, as a target's spec gives them.
//!
//! Addresses are PsPIN's and the same for every machine: images are linked to them.

use nicforge_target::{PacketMemory, Scope, Target};

/// Where things are, for cores.
pub mod map {
    /// Memory of cluster `c` is at `L1 + c * L1_STRIDE`, and every core sees its own at `L1_ALIAS`
    /// too.
    pub const L1: u32 = 0x1000_0000;
    pub const L1_STRIDE: u32 = 0x40_0000;
    pub const L1_ALIAS: u32 = 0x1b00_0000;
    /// Stack of core `k`: so many bytes from `k * STACK` on.
    pub const STACK: u32 = 0x400;
    /// Packets lie behind what the runtime has in a cluster's memory, scratchpads behind those.
    pub const L1_PACKETS: u32 = 0x4400;
    pub const L1_SCRATCHPADS: u32 = 0x1_4400;
    /// Rings of packets in a cluster.
    pub const RINGS: u32 = 4;
    pub const STDOUT: u32 = 0x1a10_4000;
    pub const STDOUT_BYTES: u32 = 0x1000;
    /// A store here ends the program; handlers' assertions do it.
    pub const EXIT: u32 = 0x1b20_0000;
    pub const EVENTS: u32 = 0x1b20_4000;
    pub const COPY: u32 = 0x1b20_4400;
    pub const TASK: u32 = 0x1b20_5000;
    pub const TASK_BYTES: u32 = 0x100;
    /// Handler memory; packet memory is behind it.
    pub const L2: u32 = 0x1c00_0000;
    pub const PROGRAM: u32 = 0x1d00_0000;
}

/// The target has no `[spin]` section.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "target `{target}` is no sPIN NIC: its spec has no section [spin]; `pspin` and `fpspin` have"
)]
pub struct NotSpin {
    pub target: String,
}

/// A machine. Times are cycles of its cores; see [`nicforge_target::Spin`] for what they count.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub name: String,
    pub clusters: usize,
    /// Of a cluster.
    pub cores: usize,
    /// Cycles per second.
    pub hertz: f64,
    pub l1_bytes: u32,
    pub l2_bytes: u32,
    /// Offset in handler memory from which on it is shared with the host.
    pub handler_data: u32,
    pub program_bytes: u32,
    pub packet_bytes: u32,
    pub packets_in: PacketMemory,
    pub queues: usize,
    pub cells: usize,
    pub home_limit: u32,
    pub cluster_tasks: u32,
    pub patience: u64,
    pub beat_bytes: u32,
    pub match_cycles: u64,
    pub match_stores: bool,
    pub match_gap: u64,
    pub ingress_cycles: u64,
    pub ingress_gap: u64,
    pub task_cycles: u64,
    pub copy_cycles: u64,
    pub doorbell_cycles: u64,
    pub feedback_cycles: u64,
    pub queue_cycles: u64,
    pub commands: usize,
    pub send_cycles: u64,
    pub host_write_cycles: u64,
    pub host_word_cycles: u64,
    pub host_read_cycles: u64,
    pub host_latency: u64,
    pub max_send: u32,
    pub put_header: Option<u32>,
    pub cache_bytes: u32,
    pub cache_miss_cycles: u32,
    /// Cycles of a load and of a store beyond the instruction's own.
    pub l2_load_wait: u32,
    pub l2_store_wait: u32,
    pub remote_l1_wait: u32,
    /// Bytes a cycle of the line, all ports together, and of the link to the host; `None` if only
    /// the packet path limits.
    pub line_rate: Option<f64>,
    pub line_overhead: u32,
    pub host_rate: Option<f64>,
}

/// Bytes of an instruction cache line.
pub const CACHE_LINE: u32 = 16;

impl Machine {
    /// The machine a target describes.
    ///
    /// # Errors
    /// The target is no sPIN NIC.
    pub fn from_target(target: &Target) -> Result<Machine, NotSpin> {
        let missing = || NotSpin { target: target.name.clone() };
        let spin = target.spin.as_ref().ok_or_else(missing)?;
        let units = target.units.first().ok_or_else(missing)?;
        let l2 = target
            .memories
            .iter()
            .find(|memory| memory.scope == Scope::Device)
            .ok_or_else(missing)?;
        let access = l2.access.first().ok_or_else(missing)?;
        let hertz = units.clock.value;
        let cycles = |ns: f64| (ns * hertz / 1e9).round() as u64;
        let bytes_a_cycle = |bits: f64| bits / 8.0 / hertz;
        let cores = units.per_island.unwrap_or(units.count).max(1);
        let beyond = |ns: f64| (cycles(ns) as u32).saturating_sub(1);
        Ok(Machine {
            name: target.name.clone(),
            clusters: (units.count / cores) as usize,
            cores: cores as usize,
            hertz,
            l1_bytes: spin.l1.value as u32,
            l2_bytes: spin.handler_memory.value as u32,
            handler_data: (spin.handler_memory.value - spin.handler_data.value) as u32,
            program_bytes: spin.program_memory.value as u32,
            packet_bytes: spin.packet_memory.value as u32,
            packets_in: spin.packets_in,
            queues: spin.queues as usize,
            cells: spin.cells as usize,
            home_limit: spin.home_limit,
            cluster_tasks: spin.cluster_tasks,
            patience: cycles(spin.patience.value),
            beat_bytes: spin.beat_bytes,
            match_cycles: spin.match_cycles.into(),
            match_stores: spin.match_stores,
            match_gap: spin.match_gap.into(),
            ingress_cycles: spin.ingress_cycles.into(),
            ingress_gap: spin.ingress_gap.into(),
            task_cycles: spin.task_cycles.into(),
            copy_cycles: spin.copy_cycles.into(),
            doorbell_cycles: spin.doorbell_cycles.into(),
            feedback_cycles: spin.feedback_cycles.into(),
            queue_cycles: spin.queue_cycles.into(),
            commands: spin.commands as usize,
            send_cycles: spin.send_cycles.into(),
            host_word_cycles: spin.host_word_cycles.into(),
            host_write_cycles: spin.host_write_cycles.into(),
            host_read_cycles: spin.host_read_cycles.into(),
            host_latency: cycles(spin.host_latency.value),
            max_send: spin.max_send,
            put_header: spin.put_header,
            cache_bytes: spin.cache.value as u32,
            cache_miss_cycles: spin.cache_miss_cycles,
            l2_load_wait: beyond(access.read.value),
            l2_store_wait: beyond(access.write.value),
            remote_l1_wait: spin.remote_l1_cycles.saturating_sub(1),
            line_rate: Some(bytes_a_cycle(target.ports.rate.value * f64::from(target.ports.count))),
            line_overhead: target.ports.overhead_bytes,
            host_rate: target.host_link.as_ref().map(|link| bytes_a_cycle(link.rate.value)),
        })
    }

    /// Cores of all clusters. A core's number is `cluster * cores + core`.
    pub fn hpus(&self) -> usize {
        self.clusters * self.cores
    }

    /// Cycles that bytes take on the packet path.
    pub fn beats(&self, bytes: u32) -> u64 {
        u64::from(bytes.div_ceil(self.beat_bytes.max(1)))
    }

    /// Where packet memory begins.
    pub fn packets_at(&self) -> u32 {
        map::L2 + self.l2_bytes
    }

    /// Nanoseconds of a cycle.
    pub fn cycle_ns(&self) -> f64 {
        1e9 / self.hertz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_machines_have_the_published_sizes() {
        let machine =
            |name: &str| Machine::from_target(&nicforge_target::find(name).unwrap()).unwrap();
        let (pspin, fpspin) = (machine("pspin"), machine("fpspin"));
        assert_eq!((pspin.clusters, pspin.cores, fpspin.clusters, fpspin.cores), (4, 8, 2, 8));
        assert_eq!((pspin.packets_at(), fpspin.packets_at()), (0x1c40_0000, 0x1c10_0000));
        assert_eq!(
            (map::L2 + pspin.handler_data, map::L2 + fpspin.handler_data),
            (0x1c30_0000, 0x1c0c_0000)
        );
        assert_eq!((pspin.l2_load_wait, fpspin.l2_load_wait, fpspin.l2_store_wait), (21, 21, 20));
        assert_eq!((pspin.line_rate, fpspin.host_latency), (Some(50.0), 18));
        let xdp = Machine::from_target(&nicforge_target::find("xdp").unwrap()).unwrap_err();
        assert!(xdp.to_string().starts_with("target `xdp` is no sPIN NIC"));
    }
}
