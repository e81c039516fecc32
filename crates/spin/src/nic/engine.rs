//! The seam to whatever runs handlers: here cores that interpret an image ([`super::iss`]),
//! elsewhere native code.
//!
//! The NIC gives a unit a task and calls `start`; the engine begins it ([`World::begin`]), runs the
//! handler, which reads and writes memory and gives commands, and ends it. The engine has its own
//! times, which never go back; it never goes beyond `until` by more than an instruction, and
//! returns from `run` as soon as it has asked the NIC for something, so that the NIC can answer in
//! time.

use nicforge_isa::rv32::Trap;

use super::memories::Backing;
use super::world::World;

/// An engine of the NIC.
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
