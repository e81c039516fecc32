//! The seam to whatever runs handlers: here cores that interpret an image ([`super::iss`]),
//! elsewhere native code.
//!
//! The NIC gives a unit a task and calls `start`; the engine begins it ([`World::begin`]), runs the
//! handler, which reads and writes memory and gives commands, and ends it. The engine has its own
//! times, which never go back; it never goes beyond `until` by more than an instruction, and
//! returns from `run` as soon as it has asked the NIC for something, so that the NIC can answer in
//! time.

use std::ops::Range;

use nicforge_isa::rv32::Trap;

use super::world::World;
use crate::machine::map;

/// Memories that an engine brings, because its handlers reach them at the NIC's addresses without
/// asking.
#[derive(Debug)]
pub struct Backing {
    /// By cluster; longer than the machine says, with stacks behind the rest.
    pub l1: Vec<&'static mut [u8]>,
    pub handler: &'static mut [u8],
    pub packets: &'static mut [u8],
    pub stacks: Stacks,
}

/// Where stacks lie in a cluster's memory; offsets and sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    pub first: u32,
    /// From one to the next; between them may be guards.
    pub stride: u32,
    pub bytes: u32,
}

impl Stacks {
    /// As images are linked.
    pub const HARDWARE: Stacks = Stacks { first: 0, stride: map::STACK, bytes: map::STACK };

    /// A core's.
    pub fn of(&self, core: usize) -> Range<u32> {
        let start = self.first + core as u32 * self.stride;
        start..start + self.bytes
    }

    /// Whether bytes lie in one of them.
    pub(crate) fn hold(&self, at: u32, size: u32) -> bool {
        const CORES: u32 = 32;
        let Some(offset) = at.checked_sub(self.first) else { return false };
        offset / self.stride < CORES
            && u64::from(offset % self.stride) + u64::from(size) <= self.bytes.into()
    }
}

/// What an engine does for the NIC.
pub trait Engine: std::fmt::Debug + Send {
    /// Memories for the NIC, asked for once; an engine without gets its own from the NIC. With them
    /// there is one image.
    fn backing(&mut self) -> Option<Backing> {
        None
    }

    /// Takes an image that was loaded as a new space and brings it to where it waits for tasks,
    /// within so many cycles.
    ///
    /// # Errors
    /// It does not get there.
    fn boot(&mut self, world: &mut World, cycles: u64) -> Result<(), BootError>;

    /// When the first handler goes on; `None` if all wait.
    fn next(&mut self) -> Option<u64>;

    /// Runs handlers that go on before `until`.
    fn run(&mut self, world: &mut World, until: u64);

    /// A unit's driver has a new task.
    fn start(&mut self, world: &mut World, hpu: usize);

    /// Something happened that a unit may wait for.
    fn wake(&mut self, world: &mut World, hpu: usize, now: u64);

    /// Instructions of the unit so far.
    fn instructions(&self, hpu: usize) -> u64;

    /// Where a unit is, or was when its handler was stopped; for reports.
    fn pc(&self, hpu: usize) -> u32;

    /// Units restarted and instruction cache misses so far.
    fn counts(&self) -> (u64, u64);
}

/// An image does not get to where it waits for tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    #[error("HPU {hpu} traps while the image starts: {trap}")]
    Trap { hpu: usize, trap: Trap },
    #[error(
        "HPU {hpu} does not read a task's function within {cycles} cycles after the start; it is at {pc:#010x}"
    )]
    Slow { hpu: usize, cycles: u64, pc: u32 },
    #[error("HPU {hpu} asks for {what} before it has a task, at {pc:#010x}")]
    Early { hpu: usize, what: &'static str, pc: u32 },
    #[error("{0}")]
    Engine(String),
}
