//! Handlers on interpreted cores, with times.
//!
//! Every unit has a core per image, since images know nothing of each other; one of them runs. The
//! core that is furthest behind runs next, until it is [`SLICE`] cycles ahead of the second, so
//! what cores write into shared memory is seen at most that late or early. What the NIC does is
//! exact: no core runs beyond the NIC's next event, and whoever asks the NIC for something stops
//! there.
//!
//! Before a handler starts its core is saved. One that faults goes to the image's trap handler; if
//! there is none, if that faults too, or if time is up, the saved core is put back, with what the
//! runtime had on its stack.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nicforge_isa::rv32::{Cause, Code, Decoder, Hart, Stop, Timing, Trap};

use super::bus::{Banks, Port};
use super::cache::Cache;
use super::debugger::{Cores, Debugger, Halt};
use super::driver::{Ask, Failure};
use super::engine::{BootError, Engine};
use super::memories::Place;
use super::world::World;
use crate::machine::{Machine, map};

/// How far cores may be apart, in cycles. Smaller is closer to hardware and slower (`bench`,
/// `spin`).
pub const SLICE: u64 = 16;

/// Cycles the runtime has to come back for the next task, beyond its handler's time.
const RETURN_CYCLES: u64 = 10_000;

#[derive(Clone, Debug)]
struct Unit {
    /// By space.
    harts: Vec<Hart>,
    space: usize,
    /// As before the handler, and the bytes from its stack pointer on.
    saved: Option<(Hart, Vec<u8>)>,
    /// Cycle at which the handler is stopped.
    deadline: u64,
    /// In a trap handler, after a fault.
    faulted: bool,
    /// Where the handler was when it was stopped, until the next one starts.
    stopped: Option<u32>,
    /// Waits for the NIC.
    blocked: bool,
    task: u64,
}

/// The cores.
#[derive(Debug)]
pub struct Iss {
    units: Vec<Unit>,
    /// By space.
    codes: Vec<Code>,
    /// Cores that go on, by time.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    banks: Vec<Banks>,
    caches: Vec<Cache>,
    cores: usize,
    slice: u64,
    restarts: u64,
    debugger: Option<Box<dyn Debugger>>,
}

impl Iss {
    /// Cores for a machine that may be so many cycles apart.
    pub fn new(machine: &Machine, slice: u64) -> Iss {
        let unit = Unit {
            harts: Vec::new(),
            space: 0,
            saved: None,
            deadline: u64::MAX,
            faulted: false,
            stopped: None,
            blocked: false,
            task: u64::MAX,
        };
        Iss {
            units: vec![unit; machine.hpus()],
            codes: Vec::new(),
            ready: BinaryHeap::new(),
            banks: vec![Banks::new(); machine.clusters],
            caches: vec![
                Cache::new(machine.cache_bytes, machine.cache_miss_cycles);
                machine.clusters
            ],
            cores: machine.cores,
            slice: slice.max(1),
            restarts: 0,
            debugger: None,
        }
    }

    /// Cores that a debugger stops.
    pub fn with_debugger(self, debugger: Box<dyn Debugger>) -> Iss {
        Iss { debugger: Some(debugger), ..self }
    }

    /// The cluster of a core, and whose memory it sees.
    pub(super) fn seen_by(&self, hpu: usize) -> (usize, usize) {
        (hpu / self.cores, self.units[hpu].space)
    }

    pub(super) fn hart(&mut self, hpu: usize) -> &mut Hart {
        let unit = &mut self.units[hpu];
        &mut unit.harts[unit.space]
    }

    /// Runs one core.
    fn step(&mut self, world: &mut World, hpu: usize, until: u64) -> Stop {
        let cluster = hpu / self.cores;
        let unit = &mut self.units[hpu];
        let mut port = Port {
            hpu,
            cluster,
            space: unit.space,
            guarded: world.drivers[hpu].busy(),
            banks: &mut self.banks[cluster],
            cache: &mut self.caches[cluster],
            world,
        };
        unit.harts[unit.space].run(&self.codes[unit.space], &mut port, until)
    }

    /// Runs one core, an instruction at a time if there is a debugger, which sees handlers alone.
    fn step_watched(&mut self, world: &mut World, hpu: usize, until: u64) -> Stop {
        let Some(mut debugger) = self.debugger.take_if(|_| world.drivers[hpu].busy()) else {
            return self.step(world, hpu, until);
        };
        let stop = loop {
            let pc = self.hart(hpu).pc;
            if let Some(why) = debugger.stops(hpu, pc) {
                debugger.halted(&mut Cores { iss: self, world }, hpu, why);
            }
            let cycle = self.hart(hpu).cycle;
            let stop = self.step(world, hpu, cycle + 1);
            let call = [Cause::CallFromUser, Cause::CallFromMachine];
            if matches!(stop, Stop::Trap(trap) if !call.contains(&trap.cause)) {
                debugger.halted(&mut Cores { iss: self, world }, hpu, Halt::Trap);
            }
            let time_left = self.hart(hpu).cycle < until || debugger.alone();
            let goes_on = stop == Stop::Time && time_left;
            if !goes_on || !world.drivers[hpu].busy() || !world.asks.is_empty() {
                break stop;
            }
        };
        self.debugger = Some(debugger);
        stop
    }

    /// Lets a core begin the task its driver has.
    fn grant(&mut self, world: &mut World, hpu: usize) {
        let Some(task) = world.drivers[hpu].task().copied() else { return };
        let unit = &mut self.units[hpu];
        let now = unit.harts[unit.space].cycle.max(task.from);
        unit.space = task.space;
        unit.task = task.number;
        (unit.faulted, unit.stopped) = (false, None);
        unit.deadline = task.watchdog.map_or(u64::MAX, |limit| now.saturating_add(limit));
        let hart = &mut unit.harts[task.space];
        hart.cycle = now;
        let frame = frame(world, hpu / self.cores, hpu % self.cores, hart);
        let bytes =
            frame.map(|(place, size)| world.memories.bytes(task.space, place, size).to_vec());
        unit.saved = Some((hart.clone(), bytes.unwrap_or_default()));
        world.begin(hpu, now);
        self.resume(hpu);
    }

    fn resume(&mut self, hpu: usize) {
        self.units[hpu].blocked = false;
        let cycle = self.hart(hpu).cycle;
        self.ready.push(Reverse((cycle, hpu)));
    }

    /// Puts the core back to before the handler; it then waits for the next task.
    fn restore(&mut self, world: &mut World, hpu: usize) {
        let (cluster, core) = (hpu / self.cores, hpu % self.cores);
        let unit = &mut self.units[hpu];
        let now = unit.harts[unit.space].cycle;
        let instret = unit.harts[unit.space].instret;
        unit.stopped = Some(unit.harts[unit.space].pc);
        if let Some((hart, bytes)) = &unit.saved {
            if let Some((place, _)) = frame(world, cluster, core, hart) {
                world.memories.write(unit.space, place, bytes);
            }
            let mut hart = hart.clone();
            (hart.cycle, hart.instret) = (now, instret);
            unit.harts[unit.space] = hart;
        }
        unit.faulted = false;
        unit.deadline = u64::MAX;
        self.resume(hpu);
    }

    /// Ends the handler from outside.
    fn abort(&mut self, world: &mut World, hpu: usize) {
        let now = self.hart(hpu).cycle;
        if world.drivers[hpu].busy() {
            let World { drivers, asks, .. } = world;
            drivers[hpu].end(now, asks);
        }
        world.file(hpu, self.units[hpu].task);
        self.restore(world, hpu);
    }

    fn trap(&mut self, world: &mut World, hpu: usize, trap: Trap) {
        let busy = world.drivers[hpu].busy();
        let task = self.units[hpu].task;
        let unit = &mut self.units[hpu];
        let hart = &mut unit.harts[unit.space];
        let handled = hart.csrs.mtvec & !3 != 0;
        let call = matches!(trap.cause, Cause::CallFromMachine | Cause::CallFromUser);
        if call && handled && !unit.faulted {
            hart.take(&trap);
            self.resume(hpu);
            return;
        }
        let again = std::mem::replace(&mut unit.faulted, true);
        if busy && !again {
            world.asks.push((hart.cycle, Ask::Failed(Failure::Trap(trap))));
            world.file(hpu, task);
        }
        if busy && handled && !again {
            self.hart(hpu).take(&trap);
            self.resume(hpu);
            return;
        }
        self.restarts += u64::from(again || !busy);
        self.abort(world, hpu);
    }
}

/// The runtime's frame on a core's stack: from the stack pointer to the stack's end.
fn frame(world: &World, cluster: usize, core: usize, hart: &Hart) -> Option<(Place, u32)> {
    let place = world.memories.place(cluster, hart.x(2), 0)?;
    let end = (core as u32 + 1) * map::STACK;
    match place {
        Place::L1 { cluster: owner, at }
            if owner == cluster && at <= end && at + map::STACK >= end =>
        {
            Some((place, end - at))
        }
        _ => None,
    }
}

impl Engine for Iss {
    fn boot(&mut self, world: &mut World, cycles: u64) -> Result<(), BootError> {
        let space = world.memories.spaces.len() - 1;
        let entry = world.memories.spaces[space].entry;
        let program = world.memories.spaces[space].program();
        self.codes.truncate(space);
        self.codes.push(Code::new(map::PROGRAM, program, &Decoder::rv32imac(), &Timing::RI5CY));
        let mut ready = BinaryHeap::new();
        for (hpu, unit) in self.units.iter_mut().enumerate() {
            let (cluster, core) = (hpu / self.cores, hpu % self.cores);
            unit.harts.truncate(space);
            unit.harts.push(Hart::new((cluster << 5 | core) as u32, entry));
            unit.space = space;
            ready.push(Reverse((0, hpu)));
        }
        while let Some(Reverse((time, hpu))) = ready.pop() {
            if time >= cycles {
                return Err(BootError::Slow { hpu, cycles, pc: self.hart(hpu).pc });
            }
            let second = ready.peek().map_or(cycles, |Reverse((time, _))| *time);
            let stop = self.step(world, hpu, (second + self.slice).min(cycles));
            match stop {
                Stop::Blocked if world.drivers[hpu].waits_for_task => {}
                Stop::Trap(trap) => match (trap.cause, self.hart(hpu).csrs.mtvec & !3) {
                    (Cause::CallFromMachine | Cause::CallFromUser, 1..) => {
                        self.hart(hpu).take(&trap);
                        ready.push(Reverse((self.hart(hpu).cycle, hpu)));
                    }
                    _ => return Err(BootError::Trap { hpu, trap }),
                },
                _ => ready.push(Reverse((self.hart(hpu).cycle, hpu))),
            }
            let early = world.asks.iter().find_map(|(_, ask)| match ask {
                Ask::Failed(_) => Some("the program's end"),
                _ => None,
            });
            if let Some(what) = early {
                return Err(BootError::Early { hpu, what, pc: self.hart(hpu).pc });
            }
            world.file(hpu, u64::MAX);
        }
        // Its time is the NIC's, which does not know how long it took.
        for unit in &mut self.units {
            unit.harts[space].cycle = 0;
            unit.blocked = true;
            unit.task = u64::MAX;
        }
        self.banks.fill(Banks::new());
        self.caches.iter_mut().for_each(Cache::clear);
        Ok(())
    }

    fn next(&mut self) -> Option<u64> {
        self.ready.peek().map(|Reverse((time, _))| *time)
    }

    fn run(&mut self, world: &mut World, until: u64) {
        while world.requests.is_empty() {
            match self.ready.peek() {
                Some(Reverse((time, _))) if *time < until => {}
                _ => return,
            }
            let Some(Reverse((time, hpu))) = self.ready.pop() else { return };
            let busy = world.drivers[hpu].busy();
            let extra = if busy { 0 } else { RETURN_CYCLES };
            let deadline = self.units[hpu].deadline.saturating_add(extra);
            if time >= deadline {
                if busy {
                    let limit = world.drivers[hpu]
                        .task()
                        .and_then(|task| task.watchdog)
                        .unwrap_or_default();
                    world.asks.push((time, Ask::Failed(Failure::Watchdog(limit))));
                } else {
                    self.restarts += 1;
                }
                self.abort(world, hpu);
                continue;
            }
            let second = self.ready.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            let end = until.min(second.saturating_add(self.slice)).min(deadline);
            let stop = self.step_watched(world, hpu, end);
            world.file(hpu, self.units[hpu].task);
            let exits =
                world.requests.iter().any(|request| request.ask == Ask::Failed(Failure::Exit));
            match stop {
                _ if exits && world.drivers[hpu].busy() => self.abort(world, hpu),
                Stop::Blocked => {
                    self.units[hpu].blocked = true;
                    if world.drivers[hpu].waits_for_task {
                        self.units[hpu].deadline = u64::MAX;
                        self.start(world, hpu);
                    }
                }
                Stop::Trap(trap) => self.trap(world, hpu, trap),
                Stop::Time | Stop::Paused | Stop::Waiting | Stop::CodeChanged => self.resume(hpu),
            }
        }
    }

    fn start(&mut self, world: &mut World, hpu: usize) {
        let driver = &world.drivers[hpu];
        if self.units[hpu].blocked && driver.waits_for_task && driver.task().is_some() {
            self.grant(world, hpu);
        }
    }

    fn wake(&mut self, world: &mut World, hpu: usize, now: u64) {
        if self.units[hpu].blocked && !world.drivers[hpu].waits_for_task {
            let hart = self.hart(hpu);
            hart.cycle = hart.cycle.max(now);
            self.resume(hpu);
        }
    }

    fn instructions(&self, hpu: usize) -> u64 {
        self.units[hpu].harts.iter().map(|hart| hart.instret).sum()
    }

    fn pc(&self, hpu: usize) -> u32 {
        let unit = &self.units[hpu];
        unit.stopped.or(unit.harts.get(unit.space).map(|hart| hart.pc)).unwrap_or_default()
    }

    fn counts(&self) -> (u64, u64) {
        (self.restarts, self.caches.iter().map(|cache| cache.misses).sum())
    }
}
