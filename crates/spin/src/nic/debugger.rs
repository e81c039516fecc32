//! The seam to a debugger of interpreted cores: it is asked before each instruction of a handler,
//! and looks at cores and memory while all of them stand.

use super::World;
use super::iss::Iss;

/// Reasons for which cores stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// In front of an instruction where the debugger wants to stop.
    Breakpoint,
    /// Behind one instruction.
    Step,
    /// The debugger asked for it.
    Interrupt,
    /// In front of an instruction that traps: it may not touch a place, or it is none.
    Trap,
}

/// A debugger of cores.
pub trait Debugger: std::fmt::Debug + Send {
    /// Reason to stop a core in front of the instruction at `pc`, if there is one.
    fn stops(&mut self, hpu: usize, pc: u32) -> Option<Halt>;

    /// True if the core that stopped last runs and the others stand, until it stops or waits.
    fn alone(&self) -> bool;

    /// A core stopped; all go on when this returns.
    fn halted(&mut self, cores: &mut Cores, hpu: usize, why: Halt);
}

/// Cores that stand, and their memory.
pub struct Cores<'a> {
    pub(super) iss: &'a mut Iss,
    pub(super) world: &'a mut World,
}

/// Number of the program counter among a core's registers, behind the general ones.
pub const PC: u8 = 32;

impl Cores<'_> {
    /// Number of cores.
    pub fn count(&self) -> usize {
        self.world.drivers.len()
    }

    /// A register of a core: a general one, or [`PC`].
    pub fn register(&mut self, hpu: usize, number: u8) -> u32 {
        let hart = self.iss.hart(hpu);
        if number == PC { hart.pc } else { hart.x(number) }
    }

    /// Sets a register.
    pub fn set_register(&mut self, hpu: usize, number: u8, value: u32) {
        let hart = self.iss.hart(hpu);
        if number == PC { hart.pc = value } else { hart.set_x(number, value) }
    }

    /// Reads memory as a core sees it, and gives how many of the bytes are there.
    pub fn read(&mut self, hpu: usize, address: u32, bytes: &mut [u8]) -> usize {
        let (cluster, space) = self.iss.seen_by(hpu);
        let memories = &self.world.memories;
        for (at, byte) in bytes.iter_mut().enumerate() {
            let place = memories.place(cluster, address.wrapping_add(at as u32), 1);
            match place.and_then(|place| memories.bytes(space, place, 1).first()) {
                Some(found) => *byte = *found,
                None => return at,
            }
        }
        bytes.len()
    }

    /// Writes memory as a core sees it; false if it is not there.
    pub fn write(&mut self, hpu: usize, address: u32, bytes: &[u8]) -> bool {
        let (cluster, space) = self.iss.seen_by(hpu);
        let memories = &mut self.world.memories;
        let place = memories.place(cluster, address, bytes.len() as u32);
        place.inspect(|place| memories.write(space, *place, bytes)).is_some()
    }
}
