//! What handlers and the NIC share: memories, the registers between them, what is allowed.

use std::ops::Range;

use super::driver::{Ask, Assigned, Command, Driver, Failure, NotYet, Request};
use super::memories::{Backing, Memories, Place};
use super::windows::Windows;
use crate::machine::{Machine, map};

/// A copy that writes into a cluster's memory, beat by beat.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyWindow {
    pub cycles: Range<u64>,
    /// Where the first beat goes.
    pub at: u32,
}

/// Everything an [`super::engine::Engine`] works on.
#[derive(Debug)]
pub struct World {
    pub machine: Machine,
    pub(crate) memories: Memories,
    /// By unit.
    pub(crate) drivers: Vec<Driver>,
    pub(crate) windows: Vec<Windows>,
    /// What units asked for and the NIC has not yet heard.
    pub(crate) requests: Vec<Request>,
    /// Of the unit that runs.
    pub(crate) asks: Vec<(u64, Ask)>,
    /// By unit: the word it has reserved.
    reserved: Vec<Option<Place>>,
    reservations: usize,
    /// By cluster, the latest.
    pub(crate) copying: Vec<CopyWindow>,
}

impl World {
    pub(crate) fn new(machine: &Machine, faults: bool, backing: Option<Backing>) -> World {
        let hpus = machine.hpus();
        World {
            machine: machine.clone(),
            memories: Memories::new(machine, backing),
            drivers: (0..hpus)
                .map(|_| Driver::new(machine.commands, machine.doorbell_cycles, faults))
                .collect(),
            windows: vec![Windows::default(); hpus],
            requests: Vec::new(),
            asks: Vec::new(),
            reserved: vec![None; hpus],
            reservations: 0,
            copying: vec![CopyWindow::default(); machine.clusters],
        }
    }

    /// The task that the NIC has given a unit, until its handler ends.
    pub fn task(&self, hpu: usize) -> Option<&Assigned> {
        self.drivers[hpu].task()
    }

    /// The handler of a unit's task starts.
    pub fn begin(&mut self, hpu: usize, now: u64) {
        let Some(number) = self.task(hpu).map(|task| task.number) else { return };
        self.drivers[hpu].grant();
        self.asks.push((now, Ask::Started));
        self.file(hpu, number);
    }

    /// Memory that the handler on a unit may use, at an address.
    ///
    /// # Errors
    /// Why it may not.
    pub fn memory(
        &mut self,
        hpu: usize,
        address: u32,
        size: u32,
        write: bool,
    ) -> Result<&mut [u8], &'static str> {
        let space = self.task(hpu).ok_or("no handler runs")?.space;
        let place = self.allowed(hpu, space, address, size, write)?;
        Ok(self.memories.bytes_mut(space, place, size))
    }

    /// The handler on a unit gives a command; gives its number.
    ///
    /// # Errors
    /// It has to wait until the NIC wakes the unit.
    pub fn command(&mut self, hpu: usize, now: u64, command: Command) -> Result<u32, NotYet> {
        let Some(number) = self.task(hpu).map(|task| task.number) else { return Ok(0) };
        let id = self.drivers[hpu].give(command, now, &mut self.asks)?;
        self.file(hpu, number);
        Ok(id)
    }

    /// The handler on a unit starts a copy within the NIC; gives its number.
    ///
    /// # Errors
    /// It has to wait until the NIC wakes the unit.
    pub fn copy(
        &mut self,
        hpu: usize,
        now: u64,
        from: u32,
        to: u32,
        bytes: u32,
    ) -> Result<u32, NotYet> {
        let Some(number) = self.task(hpu).map(|task| task.number) else { return Ok(0) };
        let id = self.drivers[hpu].give_copy([from, to, bytes], now, &mut self.asks)?;
        self.file(hpu, number);
        Ok(id)
    }

    /// True if a copy of a unit is done.
    pub fn is_copied(&self, hpu: usize, id: u32) -> bool {
        self.drivers[hpu].last_copied().wrapping_sub(id) as i32 >= 0
    }

    /// The handler on a unit, or an image that starts there, prints.
    pub fn print(&mut self, hpu: usize, now: u64, text: &[u8]) {
        let number = self.task(hpu).map_or(u64::MAX, |task| task.number);
        for &character in text {
            self.drivers[hpu].print(character, now, &mut self.asks);
        }
        self.file(hpu, number);
    }

    /// The handler on a unit cannot end yet: the NIC wakes the unit when it can.
    pub fn is_held(&self, hpu: usize) -> bool {
        self.drivers[hpu].held()
    }

    /// Requests of an engine that the NIC has not yet answered.
    pub fn is_asked(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Bytes that the last image begins with at an address of handler memory.
    ///
    /// # Errors
    /// There is no image, or no such memory.
    pub fn image_memory(&mut self, address: u32, size: u32) -> Result<&mut [u8], &'static str> {
        let place = self.memories.place(0, address, size).ok_or(NO_MEMORY)?;
        let space = self.memories.spaces.len().checked_sub(1).ok_or("no image")?;
        Ok(self.memories.bytes_mut(space, place, size))
    }

    /// True if a command of a unit is done.
    pub fn is_done(&self, hpu: usize, id: u32) -> bool {
        self.drivers[hpu].is_done(id)
    }

    /// The handler on a unit ends, because it has failed if a reason is given.
    pub fn end(&mut self, hpu: usize, now: u64, failure: Option<Failure>) {
        let Some(number) = self.task(hpu).map(|task| task.number) else { return };
        self.asks.extend(failure.map(|failure| (now, Ask::Failed(failure))));
        self.drivers[hpu].end(now, &mut self.asks);
        self.file(hpu, number);
    }

    pub(crate) fn cluster_of(&self, hpu: usize) -> usize {
        hpu / self.machine.cores
    }

    /// Checks that the handler on a unit may touch bytes at an address; gives where they are.
    pub(crate) fn allowed(
        &self,
        hpu: usize,
        space: usize,
        address: u32,
        size: u32,
        write: bool,
    ) -> Result<Place, &'static str> {
        let place = self.memories.place(self.cluster_of(hpu), address, size).ok_or(NO_MEMORY)?;
        self.windows[hpu].check(&self.memories.spaces[space], place, size, write)?;
        Ok(place)
    }

    /// Hands what a unit asked over to the NIC.
    pub(crate) fn file(&mut self, hpu: usize, task: u64) {
        let asks = self.asks.drain(..).map(|(time, ask)| Request { time, hpu, task, ask });
        self.requests.extend(asks);
    }

    pub(crate) fn reserve(&mut self, hpu: usize, place: Place) {
        self.unreserve(hpu);
        self.reserved[hpu] = Some(place);
        self.reservations += 1;
    }

    /// Gives up a unit's reservation; says which it was.
    pub(crate) fn unreserve(&mut self, hpu: usize) -> Option<Place> {
        let place = self.reserved[hpu].take();
        self.reservations -= usize::from(place.is_some());
        place
    }

    /// A word was written: nobody's reservation of it stands.
    #[inline]
    pub(crate) fn written(&mut self, place: Place) {
        if self.reservations > 0 {
            self.break_reservations(place);
        }
    }

    #[cold]
    fn break_reservations(&mut self, place: Place) {
        let word = |place: Place| match place {
            Place::L1 { cluster, at } => (cluster, at & !3),
            Place::Handler { at } => (usize::MAX, at & !3),
            Place::Packet { at } => (usize::MAX - 1, at & !3),
            Place::Program { at } => (usize::MAX - 2, at & !3),
        };
        for reserved in &mut self.reserved {
            if reserved.is_some_and(|reserved| word(reserved) == word(place)) {
                *reserved = None;
                self.reservations -= 1;
            }
        }
    }
}

/// What who touches nothing is told.
pub(crate) const NO_MEMORY: &str = "no memory at this address";

/// True if an address is just below a cluster's memory, where the stack of core 0 runs to.
pub(crate) fn below_stacks(address: u32) -> bool {
    let just_below = |base: u32| address < base && address >= base - map::STACK;
    just_below(map::L1) || just_below(map::L1_ALIAS)
}
