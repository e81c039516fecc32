//! A handler on `isa`'s core: the packet, its stack and read-only data as they are, everything else
//! by whoever asks.
//!
//! This is the independent executor that claims are checked with. It knows the memory map and the
//! rules of command registers, and nothing of terms and graphs.

use std::collections::HashMap;

use nicforge_isa::rv32::{Access, Amo, Bus, Cause, Hart, Op, Refusal, Reply, Stop};

use super::memory::{self as map, FAULT_CYCLES, RETURN, Surroundings, base};
use super::text::Program;

/// Initial values.
#[derive(Clone, Debug)]
pub struct Start {
    pub packet: Vec<u8>,
    /// Bytes around the packet: offset, byte.
    pub beyond: Vec<(i64, u8)>,
    /// Bytes of the stack: offset from the stack pointer, byte.
    pub stack: Vec<(i64, u8)>,
    /// Where memories are, by base.
    pub bases: Vec<u64>,
    /// Registers 1 to 31; those of the calling convention and a handler's argument are set besides.
    pub regs: Vec<u32>,
    pub cluster: u32,
    pub core: u32,
    /// Task registers that are neither pointers nor the packet's size, in order.
    pub task: Vec<u32>,
}

/// Uses of a value from outside.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// How many instructions were executed before.
    pub step: usize,
    pub at: u32,
    pub bytes: u32,
    /// What the memory holds, where it is known.
    pub known: Option<u32>,
    /// No address belongs to it: counters, results of commands, success of conditional stores.
    pub outside: bool,
}

/// Gives values; `None` leaves what is known, or zero.
pub type Values<'a> = &'a mut dyn FnMut(Asked) -> Option<u32>;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Instructions executed, by number.
    pub places: Vec<u32>,
    pub cycles: u64,
}

struct World<'a> {
    around: &'a Surroundings,
    program: &'a Program,
    values: Values<'a>,
    /// Memory that is the handler's own.
    own: HashMap<u32, u8>,
    areas: Vec<(u32, u32)>,
    task: Vec<u32>,
    step: usize,
    kind: u32,
    flight: u64,
    longest: u64,
    asked: bool,
    copy: u32,
    copy_asked: bool,
    /// Accesses to nowhere are faults.
    faults: bool,
}

/// Runs at most `limit` instructions. Accesses to nowhere are faults from instruction `faults_from`
/// on.
///
/// # Errors
/// What the program did that no handler does.
pub fn run(
    program: &Program,
    around: &Surroundings,
    start: &Start,
    values: Values,
    (limit, faults_from): (usize, usize),
) -> Result<Run, String> {
    let at = |base: u32| start.bases.get(base as usize).copied().unwrap_or(0) as u32;
    let mut own = HashMap::new();
    for packet in [base::PACKET, base::PACKET_L2] {
        own.extend((at(packet)..).zip(start.packet.iter().copied()));
        let outside =
            start.beyond.iter().map(|(by, byte)| (at(packet).wrapping_add(*by as u32), *byte));
        own.extend(outside);
    }
    let args =
        [map::TASK, start.cluster * around.cores_each + start.core, start.cluster, start.core];
    for (index, value) in args.iter().enumerate() {
        own.extend((at(base::ARGS) + 4 * index as u32..).zip(value.to_le_bytes()));
    }
    let mut rest = start.task.iter().copied();
    let task = (0..map::TASK_BYTES / 4).map(|index| match index {
        0 => at(base::HANDLER),
        2 => at(base::PACKET),
        3 => start.packet.len() as u32,
        4..=7 => at(base::SCRATCH + index - 4),
        15 => at(base::PACKET_L2),
        _ => rest.next().unwrap_or(0),
    });
    let task = task.collect();
    let stack = at(base::STACK);
    own.extend(start.stack.iter().map(|(by, byte)| (stack.wrapping_add(*by as u32), *byte)));
    let areas = vec![
        (at(base::PACKET).wrapping_sub(0x1000), 0x1_1000),
        (at(base::PACKET_L2).wrapping_sub(0x1000), 0x1_1000),
        (stack.wrapping_sub(map::STACK_BYTES), map::STACK_BYTES + 256),
        (at(base::ARGS), 16),
    ];
    let mut world = World {
        around,
        program,
        values,
        own,
        areas,
        task,
        step: 0,
        kind: 0,
        flight: 0,
        longest: 0,
        asked: false,
        copy: 0,
        copy_asked: false,
        faults: false,
    };
    let mut hart = Hart::new(0, program.entry.address);
    for (index, value) in start.regs.iter().enumerate().take(31) {
        hart.set_x(index as u8 + 1, *value);
    }
    let back = at(base::CODE).wrapping_add(RETURN);
    hart.set_x(1, back);
    hart.set_x(2, stack);
    if program.handler {
        hart.set_x(10, at(base::ARGS));
    }
    let mut run = Run::default();
    while hart.pc != back {
        if run.places.len() >= limit {
            return Ok(Run { cycles: hart.cycle, ..run });
        }
        let pc = hart.pc;
        let place = program
            .numbers
            .get(&pc)
            .ok_or_else(|| format!("control comes to {pc:#x}, which was not found"))?;
        world.step = run.places.len();
        world.faults = run.places.len() + 1 >= faults_from;
        run.places.push(*place);
        let insn = program.insns[&pc];
        match hart.run(&program.code, &mut world, hart.cycle + 1) {
            Stop::Time | Stop::Paused | Stop::CodeChanged => {}
            Stop::Trap(trap) => match trap.cause {
                Cause::CallFromMachine | Cause::CallFromUser => {
                    hart.cycle += around.now_cycles.saturating_sub(1);
                    hart.pc = pc.wrapping_add(4);
                    let value = world.outside(4);
                    hart.set_x(10, value);
                }
                Cause::Breakpoint | Cause::Illegal | Cause::LoadFault | Cause::StoreFault => {
                    // A trap that is not a refusal counts its instruction's cycle itself.
                    return Ok(Run { cycles: hart.cycle + FAULT_CYCLES, ..run });
                }
                _ => return Err(trap.to_string()),
            },
            stop => return Err(format!("{}: {stop:?}", program.name(pc))),
        }
        let csr = matches!(insn.op, Op::Csrrs | Op::Csrrc | Op::Csrrsi | Op::Csrrci);
        if csr && insn.rd != 0 {
            let value = world.outside(4);
            hart.set_x(insn.rd, value);
        }
    }
    let left = if world.flight > 0 { world.longest } else { 0 };
    run.cycles = hart.cycle + left;
    Ok(run)
}

impl World<'_> {
    fn outside(&mut self, bytes: u32) -> u32 {
        let asked = Asked { step: self.step, at: 0, bytes, known: None, outside: true };
        (self.values)(asked).unwrap_or(0)
    }

    fn owned(&self, at: u32) -> bool {
        self.areas.iter().any(|(from, bytes)| at.wrapping_sub(*from) < *bytes)
    }

    /// Bytes of memory whose contents are known.
    fn known(&self, at: u32, bytes: u32) -> Option<u32> {
        let byte = |at: u32| {
            if self.owned(at) {
                return self.own.get(&at).copied();
            }
            let task = at.wrapping_sub(map::TASK);
            if task < map::TASK_BYTES {
                return self
                    .task
                    .get(task as usize / 4)
                    .map(|word| word.to_le_bytes()[task as usize % 4]);
            }
            let mut constant =
                self.program.image.sections.iter().filter(|section| !section.writable);
            let section =
                constant.find(|section| at.wrapping_sub(section.address) < section.size)?;
            section.bytes.get((at - section.address) as usize).copied()
        };
        let mut value = 0;
        for by in 0..bytes {
            value |= u32::from(byte(at.wrapping_add(by))?) << (8 * by);
        }
        Some(value)
    }

    fn nowhere(&self, at: u32) -> bool {
        let far = map::L2..map::PROGRAM + 0x10_0000;
        let near = (map::L1..map::L1 + map::MOST_CLUSTERS * map::L1_EACH).contains(&at)
            || (map::L1_OWN..map::L1_OWN + map::L1_EACH).contains(&at);
        let device = map::DEVICES.iter().any(|(from, bytes)| (*from..from + bytes).contains(&at));
        let section = self
            .program
            .image
            .sections
            .iter()
            .any(|section| at.wrapping_sub(section.address) < section.size);
        !(far.contains(&at) || near || device || section || self.owned(at))
    }

    /// Cycles that an access waits, twice if it is made twice.
    fn wait(&self, access: Access, write: bool) -> u32 {
        // Packets and the stack in the own cluster's memory, whatever its address.
        let own = self.owned(access.at) && access.at < map::L2;
        let wait = if own { self.around.near } else { self.around.wait(access.at) };
        let once = if write { wait.store } else { wait.load } as u32;
        if (access.at & 3) + access.size > 4 { 2 * once } else { once }
    }

    /// Waits until a command is done.
    fn finish(&mut self) -> u32 {
        let waits = if self.flight > 0 { self.longest } else { 0 };
        self.flight = self.flight.saturating_sub(1);
        waits as u32
    }
}

impl Bus for World<'_> {
    fn load(&mut self, access: Access) -> Result<Reply, Refusal> {
        let reply = |value, wait| Ok(Reply { value, wait, pause: false });
        match access.at {
            map::ISSUE => {
                let wait = if self.flight >= map::MOST_COMMANDS { self.longest as u32 } else { 0 };
                self.flight = (self.flight + 1).min(map::MOST_COMMANDS);
                let sends = self.kind >> 1 & 3 == 1;
                let takes = if sends { self.around.send_cycles } else { self.around.host_cycles };
                self.longest = self.longest.max(takes);
                self.asked = false;
                return reply(self.outside(4), wait);
            }
            map::WAIT => return reply(0, 0),
            map::TEST => {
                let again = std::mem::replace(&mut self.asked, true);
                let value = self.outside(1) & 1;
                if again {
                    self.asked = false;
                    return reply(1, self.finish());
                }
                return reply(value, 0);
            }
            map::KIND => return reply(self.outside(4), 0),
            map::COPY => {
                self.copy = self.outside(4);
                self.copy_asked = false;
                return reply(self.copy, 0);
            }
            map::COPIED => {
                let value = self.outside(4);
                if std::mem::replace(&mut self.copy_asked, true) {
                    return reply(self.copy, self.around.copy_cycles as u32);
                }
                return reply(value, 0);
            }
            _ => {}
        }
        let known = self.known(access.at, access.size);
        let asked =
            Asked { step: self.step, at: access.at, bytes: access.size, known, outside: false };
        let value = (self.values)(asked).map(|value| value & (u32::MAX >> (32 - 8 * access.size)));
        if value.is_none() && self.faults && self.nowhere(access.at) {
            return Err(Refusal::Fault("no memory at this address"));
        }
        // Bytes that nobody gave are zero, those beside them are what they are.
        let byte = |by: u32| self.known(access.at.wrapping_add(by), 1).unwrap_or(0) << (8 * by);
        let value = value.or(known).unwrap_or_else(|| (0..access.size).map(byte).sum());
        if self.owned(access.at) {
            self.own.extend((access.at..).zip(value.to_le_bytes()).take(access.size as usize));
        }
        let wait = self.wait(access, false);
        reply(value, wait)
    }

    fn store(&mut self, access: Access, value: u32) -> Result<Reply, Refusal> {
        let reply = |wait| Ok(Reply { value: 0, wait, pause: false });
        match access.at {
            map::KIND => self.kind = value,
            map::WAIT => return reply(self.finish()),
            at if self.owned(at) => {
                self.own.extend((at..).zip(value.to_le_bytes()).take(access.size as usize));
            }
            at if self.faults && self.nowhere(at) => {
                return Err(Refusal::Fault("no memory at this address"));
            }
            _ => {}
        }
        reply(self.wait(access, true))
    }

    fn fetch(&mut self, _: u32) -> Result<u16, Refusal> {
        Err(Refusal::Fault("no code at this address"))
    }

    fn amo(&mut self, access: Access, amo: Amo, value: u32) -> Result<Reply, Refusal> {
        let old = self.load(access)?;
        let stored = self.store(access, amo.apply(old.value, value))?;
        Ok(Reply { value: old.value, wait: old.wait + stored.wait, pause: false })
    }

    fn load_reserved(&mut self, access: Access) -> Result<Reply, Refusal> {
        self.load(access)
    }

    fn store_conditional(&mut self, access: Access, value: u32) -> Result<Reply, Refusal> {
        let wait = self.wait(access, true);
        let failed = self.outside(1) & 1;
        let old = self.load(access)?;
        let value = if failed == 1 { old.value } else { value };
        self.store(access, value)?;
        Ok(Reply { value: failed, wait, pause: false })
    }
}
