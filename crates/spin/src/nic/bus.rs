//! What one core sees: addresses, protection, and how long accesses take.
//!
//! The own cluster's memory answers in the instruction's time unless another core, or a packet that
//! is being copied in, uses the bank in the same cycle. Cores run in slices, so a conflict is seen
//! if both accesses fall into slices that meet; which of the two waits depends on who ran first.

use nicforge_isa::rv32::{Access, Amo, Bus, Refusal, Reply};

use super::cache::Cache;
use super::driver::{Ask, Failure, NotYet};
use super::memories::Place;
use super::windows::OVERFLOW;
use super::world::{NO_MEMORY, World, below_stacks};
use crate::machine::{CACHE_LINE, map};

const BANKS: usize = 64;

/// A bank is in use without a break from one cycle until before another.
#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    first: u64,
    free: u64,
}

/// The banks of a cluster's memory.
#[derive(Clone, Debug)]
pub(crate) struct Banks(Box<[Bank; BANKS]>);

impl Banks {
    pub fn new() -> Banks {
        Banks(Box::new([Bank::default(); BANKS]))
    }

    /// Cycles until the bank of an address serves an access, one a cycle. Who comes from before the
    /// bank's last use, being behind the other cores, does not wait.
    #[inline]
    fn wait(&mut self, at: u32, now: u64) -> u32 {
        let bank = &mut self.0[at as usize / 4 % BANKS];
        if now >= bank.free {
            *bank = Bank { first: now, free: now + 1 };
            return 0;
        }
        if now < bank.first {
            return 0;
        }
        bank.free += 1;
        (bank.free - 1 - now) as u32
    }
}

/// The world from one core.
pub(crate) struct Port<'a> {
    pub world: &'a mut World,
    pub hpu: usize,
    pub cluster: usize,
    pub space: usize,
    pub banks: &'a mut Banks,
    pub cache: &'a mut Cache,
    /// A handler runs: windows hold.
    pub guarded: bool,
}

/// Where an access goes.
enum Goes {
    Memory(Place),
    Task(u32),
    Copy(u32),
    Print,
    Exit,
    /// Registers that hold nothing.
    Nothing,
}

impl Port<'_> {
    #[inline]
    fn find(&self, at: u32, size: u32, write: bool) -> Result<Goes, Refusal> {
        if let Some(place) = self.world.memories.place(self.cluster, at, size) {
            if self.guarded {
                let space = &self.world.memories.spaces[self.space];
                self.world.windows[self.hpu]
                    .check(space, place, size, write)
                    .map_err(Refusal::Fault)?;
            }
            return Ok(Goes::Memory(place));
        }
        self.device(at)
    }

    #[cold]
    fn device(&self, at: u32) -> Result<Goes, Refusal> {
        let within = |base: u32, bytes: u32| at.wrapping_sub(base) < bytes;
        Ok(match at {
            _ if within(map::TASK, map::TASK_BYTES) => Goes::Task(at - map::TASK),
            _ if within(map::COPY, 0x40) => Goes::Copy(at - map::COPY),
            _ if within(map::STDOUT, map::STDOUT_BYTES) => Goes::Print,
            _ if at == map::EXIT => Goes::Exit,
            _ if within(map::EVENTS, 0x400) => Goes::Nothing,
            _ if self.guarded && below_stacks(at) => return Err(Refusal::Fault(OVERFLOW)),
            _ => return Err(Refusal::Fault(NO_MEMORY)),
        })
    }

    /// Cycles an access to memory takes beyond the instruction's.
    #[inline]
    fn wait(&mut self, place: Place, write: bool, now: u64) -> u32 {
        match place {
            Place::L1 { cluster, at } if cluster == self.cluster => {
                let mut wait = self.banks.wait(at, now);
                let copy = &self.world.copying[cluster];
                if now < copy.cycles.end && now >= copy.cycles.start {
                    // A beat fills 16 banks.
                    let beat = (now - copy.cycles.start) as u32 + copy.at / 64;
                    wait += u32::from(beat % 4 == at / 64 % 4);
                }
                wait
            }
            Place::L1 { .. } => self.world.machine.remote_l1_wait,
            _ if write => self.world.machine.l2_store_wait,
            _ => self.world.machine.l2_load_wait,
        }
    }

    #[inline]
    fn read(&self, place: Place, size: u32) -> u32 {
        match *self.world.memories.bytes(self.space, place, size) {
            [a] => u32::from(a),
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        }
    }

    #[inline]
    fn write(&mut self, place: Place, size: u32, value: u32) {
        let bytes = value.to_le_bytes();
        let target = self.world.memories.bytes_mut(self.space, place, size);
        match target {
            [a, b, c, d] => [*a, *b, *c, *d] = bytes,
            [a, b] => [*a, *b] = [bytes[0], bytes[1]],
            [a] => *a = bytes[0],
            _ => {}
        }
        self.world.written(place);
    }

    /// The run ends behind an access that asked the NIC for something.
    fn device_reply(&self, value: Result<u32, NotYet>) -> Result<Reply, Refusal> {
        let pause = !self.world.asks.is_empty();
        value.map(|value| Reply { value, wait: 0, pause }).map_err(|NotYet| Refusal::Later)
    }

    #[cold]
    fn load_device(&mut self, goes: &Goes, access: Access) -> Result<Reply, Refusal> {
        let (driver, asks) = (&mut self.world.drivers[self.hpu], &mut self.world.asks);
        let value = match goes {
            Goes::Task(at) => driver.load(*at, access.size, access.now, asks),
            Goes::Copy(at) => driver.load_copy(*at, access.now, asks),
            _ => Ok(0),
        };
        self.guarded = driver.busy();
        self.device_reply(value)
    }

    #[cold]
    fn store_device(&mut self, goes: &Goes, access: Access, value: u32) -> Result<Reply, Refusal> {
        let (driver, asks) = (&mut self.world.drivers[self.hpu], &mut self.world.asks);
        let done = match goes {
            Goes::Task(at) => driver.store(*at, value, access.now, asks),
            Goes::Copy(at) => {
                driver.store_copy(*at, value);
                Ok(())
            }
            Goes::Print => {
                driver.print(value as u8, access.now, asks);
                Ok(())
            }
            Goes::Exit => {
                asks.push((access.now, Ask::Failed(Failure::Exit)));
                Ok(())
            }
            _ => Ok(()),
        };
        self.device_reply(done.map(|()| 0))
    }
}

impl Bus for Port<'_> {
    const LINE: u32 = CACHE_LINE;

    #[inline]
    fn load(&mut self, access: Access) -> Result<Reply, Refusal> {
        match self.find(access.at, access.size, false)? {
            Goes::Memory(place) => {
                let wait = self.wait(place, false, access.now);
                Ok(Reply { value: self.read(place, access.size), wait, pause: false })
            }
            goes => self.load_device(&goes, access),
        }
    }

    #[inline]
    fn store(&mut self, access: Access, value: u32) -> Result<Reply, Refusal> {
        match self.find(access.at, access.size, true)? {
            Goes::Memory(place) => {
                let wait = self.wait(place, true, access.now);
                self.write(place, access.size, value);
                Ok(Reply { value: 0, wait, pause: false })
            }
            goes => self.store_device(&goes, access, value),
        }
    }

    fn fetch(&mut self, at: u32) -> Result<u16, Refusal> {
        match self.world.memories.place(self.cluster, at, 2) {
            Some(place @ Place::Program { .. }) => Ok(self.read(place, 2) as u16),
            _ => Err(Refusal::Fault("instructions are run from program memory only")),
        }
    }

    #[inline]
    fn line(&mut self, at: u32, now: u64) -> u32 {
        self.cache.wait(self.space, at, now)
    }

    fn amo(&mut self, access: Access, amo: Amo, value: u32) -> Result<Reply, Refusal> {
        let place = match self.find(access.at, 4, true)? {
            Goes::Memory(place) => place,
            // The task's registers take no atomics: what is written is lost.
            goes => return self.load_device(&goes, access),
        };
        let old = self.read(place, 4);
        self.write(place, 4, amo.apply(old, value));
        Ok(Reply { value: old, wait: self.wait(place, false, access.now), pause: false })
    }

    fn load_reserved(&mut self, access: Access) -> Result<Reply, Refusal> {
        let reply = self.load(access)?;
        if let Goes::Memory(place) = self.find(access.at, 4, false)? {
            self.world.reserve(self.hpu, place);
        }
        Ok(reply)
    }

    fn store_conditional(&mut self, access: Access, value: u32) -> Result<Reply, Refusal> {
        let Goes::Memory(place) = self.find(access.at, 4, true)? else {
            return Ok(Reply::now(2));
        };
        if self.world.unreserve(self.hpu) != Some(place) {
            return Ok(Reply::now(1));
        }
        self.store(access, value)
    }
}
