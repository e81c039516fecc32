//! Sizes and times of the machine, as a target's spec gives them.

use nicforge_target::{AcceleratedOp, Accelerator, Scope, Target};

use super::PanicError;

/// An engine as one core has it: others seldom ask at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Engine {
    /// Cycles until the result of no bytes is there.
    pub latency: u32,
    pub bytes_per_cycle: f64,
}

impl Engine {
    pub(super) fn cycles(self, bytes: u32) -> u32 {
        self.latency + (f64::from(bytes) / self.bytes_per_cycle).ceil() as u32
    }
}

/// Sizes and times.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub cores: usize,
    /// Cycles per second.
    pub hertz: f64,
    pub local_bytes: u32,
    /// Each core's, and what accesses that begin a line take beyond the instruction's own cycle. No
    /// bytes: there is none.
    pub dram_bytes: u32,
    pub dram_line_bytes: u32,
    pub dram_load_wait: u32,
    pub dram_store_wait: u32,
    /// An engine that sums, and one that takes CRCs.
    pub sums: Option<Engine>,
    pub crcs: Option<Engine>,
    /// Cycles from one core to another through the scheduler.
    pub latency: u64,
    /// Messages a service's queue holds.
    pub depth: usize,
    /// Messages a core has room for.
    pub credits: u32,
    /// Bytes a cycle at each end of the network.
    pub beat_bytes: u32,
    /// Bytes a cycle of the ports, and what every frame takes beside its own.
    pub line_rate: f64,
    pub line_overhead: u32,
}

/// 512 bits at the end of a wire, as the published crossbar has.
const BEAT_BYTES: u32 = 64;
/// A message under way and one that waits.
const CREDITS: u32 = 2;

/// A core's memory; the spec's is what is left for tables.
const LOCAL_BYTES: u32 = 256 << 10;
const MOST_DRAM: f64 = (1u32 << 30) as f64;

impl Config {
    /// The machine a target describes.
    ///
    /// # Errors
    /// It has no cores with memories of their own, or no network between them.
    pub fn from_target(target: &Target) -> Result<Config, PanicError> {
        let missing = || PanicError::NotPanic(target.name.clone());
        let units = target.units.first().ok_or_else(missing)?;
        let mut own = target.memories.iter().filter(|memory| memory.scope == Scope::Unit);
        let (_, dram) = (own.next().ok_or_else(missing)?, own.next());
        let link =
            target.links.iter().find(|link| link.from == units.name && link.to == units.name);
        let link = link.ok_or_else(missing)?;
        let hertz = units.clock.value;
        let cycles = |ns: f64| ((ns * hertz / 1e9).round() as u32).saturating_sub(1);
        let engine = |op| {
            let reached =
                |one: &&Accelerator| one.ops.contains(&op) && one.units.contains(&units.name);
            target.accelerators.iter().find(reached).map(|one| Engine {
                latency: (one.latency.value * hertz / 1e9).round() as u32,
                bytes_per_cycle: one.throughput.value / 8.0 / hertz,
            })
        };
        let access = dram.and_then(|dram| dram.access.first());
        let line = dram.and_then(|dram| dram.access.last());
        Ok(Config {
            cores: units.count as usize,
            hertz,
            local_bytes: LOCAL_BYTES,
            dram_bytes: dram.map_or(0, |dram| dram.size.value.min(MOST_DRAM) as u32),
            dram_line_bytes: line.map_or(0, |line| line.bytes),
            dram_load_wait: access.map_or(0, |access| cycles(access.read.value)),
            dram_store_wait: access.map_or(0, |access| cycles(access.write.value)),
            sums: engine(AcceleratedOp::Checksum),
            crcs: engine(AcceleratedOp::Hash),
            latency: (link.latency.value * hertz / 1e9).round() as u64,
            depth: link.depth.max(1) as usize,
            credits: CREDITS,
            beat_bytes: BEAT_BYTES,
            line_rate: target.ports.rate.value * f64::from(target.ports.count) / 8.0 / hertz,
            line_overhead: target.ports.overhead_bytes,
        })
    }

    pub(super) fn beats(&self, bytes: usize) -> u64 {
        (bytes as u64).div_ceil(u64::from(self.beat_bytes.max(1)))
    }
}
