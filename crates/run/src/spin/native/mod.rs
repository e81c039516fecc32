//! Handlers as code of this computer, in the place of interpreted cores: the same NIC, the same
//! memories at the same addresses ([`memory`]), the handlers compiled for x86-64 with pointers of
//! 32 bits (the x32 ABI), so that structures look as on RISC-V.
//!
//! Each unit's handler has a stack of its own and runs until it asks the NIC for something, waits,
//! or its slice is over ([`switch`]). It runs in no simulated time but for constants: what is
//! reported is what handlers do, not how long. A handler that waits in a loop of its own is
//! interrupted, since nothing says that it waits. Threads would do too, but order between units
//! would be the system's and a switch microseconds; so equal inputs give equal outputs as long as
//! no handler is interrupted.
//!
//! Handlers are not kept apart: they are trusted as native code is. What their commands touch is
//! checked as ever.

mod image;
mod memory;
mod request;
mod switch;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use nicforge_spin::machine::{Machine, map};
use nicforge_spin::nic::{Backing, BootError, Command, Engine, Failure, World};

pub use image::NativeImage;
use memory::{Memory, STACKS};
use request::{
    COMMAND, COMMAND_DONE, COMMAND_WAIT, COPY, COPY_DONE, CYCLES, PAUSE, PRINT, Request, TERMINATE,
};
use switch::{Back, Signals, Trouble};

/// Cycles that a handler takes besides those in which it waits, and that a look at something takes.
const HANDLER_CYCLES: u64 = 32;
const LOOK_CYCLES: u64 = 16;
/// A watchdog below this would end handlers for what else the computer does.
const LEAST_WATCHDOG: Duration = Duration::from_millis(100);
/// Looks between looks at the clock.
const LOOKS: u32 = 256;
const BOOT: Duration = Duration::from_secs(2);

/// Why there is no native engine.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    #[error(transparent)]
    Memory(#[from] memory::MemoryError),
    #[error("no timer for handlers that wait: {0}")]
    Timer(std::io::Error),
}

/// Actions of a unit when it goes on.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Nothing: it has no handler.
    Idle,
    Begin,
    Resume,
    /// What the handler asked for at this address.
    Answer(u32),
    End,
}

#[derive(Clone, Debug)]
struct Unit {
    stack: u64,
    clock: u64,
    then: Then,
    blocked: bool,
    /// When it was first seen to take long.
    since: Option<Instant>,
    watchdog: Option<(u64, Duration)>,
    looks: u32,
    pc: u32,
}

/// The engine.
#[derive(Debug)]
pub struct Native {
    units: Vec<Unit>,
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    cores: usize,
    hertz: f64,
    start: u32,
    gate: Option<u32>,
    unit_word: Option<u32>,
    memory: Memory,
    _signals: Signals,
}

impl Native {
    /// An engine for a machine and one image. A process has one at a time.
    ///
    /// # Errors
    /// See [`NativeError`].
    pub fn new(machine: &Machine, image: &NativeImage) -> Result<Native, NativeError> {
        let memory = Memory::new(machine, &image.code)?;
        let signals = Signals::take(memory.code(), memory.clusters());
        switch::on_this_thread().map_err(NativeError::Timer)?;
        let unit = Unit {
            stack: 0,
            clock: 0,
            then: Then::Idle,
            blocked: false,
            since: None,
            watchdog: None,
            looks: 0,
            pc: 0,
        };
        let address = |name: &str| image.image.symbol(name).map(|symbol| symbol.address);
        Ok(Native {
            units: vec![unit; machine.hpus()],
            ready: BinaryHeap::new(),
            cores: machine.cores,
            hertz: machine.hertz,
            start: image.start,
            gate: address("nf_spin_gate"),
            unit_word: address("nf_spin_self")
                .filter(|at| *at >= map::L2 && *at < map::L2 + machine.l2_bytes),
            memory,
            _signals: signals,
        })
    }

    /// End of a unit's stack.
    fn top(&self, hpu: usize) -> u32 {
        let (cluster, core) = (hpu / self.cores, hpu % self.cores);
        map::L1 + cluster as u32 * map::L1_STRIDE + STACKS.of(core).end
    }

    fn push(&mut self, hpu: usize) {
        self.ready.push(Reverse((self.units[hpu].clock, hpu)));
    }

    /// Puts the task and what points to it onto the unit's stack, as `task_t` and `handler_args_t`,
    /// and the handler's call below.
    fn begin(&mut self, world: &mut World, hpu: usize) {
        let Some(task) = world.task(hpu).copied() else { return };
        let top = self.top(hpu);
        let (task_at, arguments_at) = (top - 128, top - 160);
        let arguments = [task_at, hpu as u32, (hpu / self.cores) as u32, (hpu % self.cores) as u32];
        // SAFETY: the upper end of a mapped stack that no handler uses now.
        let stack = unsafe {
            std::ptr::copy_nonoverlapping(task.registers[2..].as_ptr(), task_at as *mut u32, 18);
            std::ptr::copy_nonoverlapping(arguments.as_ptr(), arguments_at as *mut u32, 4);
            switch::prepare(arguments_at, task.registers[0], arguments_at)
        };
        let limit = |cycles: u64| {
            (
                cycles,
                Duration::from_secs_f64((cycles as f64 / self.hertz).min(1e9)).max(LEAST_WATCHDOG),
            )
        };
        let unit = &mut self.units[hpu];
        unit.stack = stack;
        unit.watchdog = task.watchdog.map(limit);
        (unit.since, unit.looks, unit.pc) = (None, 0, task.registers[0]);
        world.begin(hpu, unit.clock);
        unit.then = Then::Resume;
    }

    /// Lets a unit's handler go on until it comes back.
    fn resume(&mut self, hpu: usize) -> Back {
        if let Some(at) = self.unit_word {
            let id = ((hpu / self.cores) << 5) | (hpu % self.cores);
            // SAFETY: a word of handler memory, which is mapped.
            unsafe { (at as *mut u32).write_volatile(id as u32) };
        }
        // SAFETY: the stack is of `prepare` or as the handler left it; memories live as long as
        // this does, and signals are taken.
        unsafe { switch::resume(&mut self.units[hpu].stack) }
    }

    /// The request of a handler at an address of its stack; nothing if it lies elsewhere.
    fn request(&self, hpu: usize, at: u32) -> Option<Request> {
        let top = self.top(hpu);
        let inside = at.is_multiple_of(4)
            && at >= top - STACKS.bytes
            && at <= top - size_of::<Request>() as u32;
        // SAFETY: within the unit's stack, which is mapped.
        inside.then(|| unsafe { (at as *const Request).read() })
    }

    fn answer(&mut self, hpu: usize, at: u32, answer: u32) {
        // SAFETY: `request` has found it within the unit's stack.
        unsafe { (&raw mut (*(at as *mut Request)).answer).write(answer) };
        self.units[hpu].then = Then::Resume;
    }

    /// Ends a unit's handler.
    fn end(&mut self, world: &mut World, hpu: usize, failure: Option<Failure>) {
        let unit = &mut self.units[hpu];
        unit.then = Then::Idle;
        unit.clock += HANDLER_CYCLES;
        world.end(hpu, unit.clock, failure);
    }

    /// A handler has looked at something in vain, or its slice is over. Says whether its time is
    /// over too.
    fn is_late(&mut self, hpu: usize) -> Option<u64> {
        let unit = &mut self.units[hpu];
        let (_, limit) = unit.watchdog?;
        let taken = unit.since.get_or_insert_with(Instant::now).elapsed();
        (taken >= limit).then_some(taken.as_millis() as u64)
    }

    /// Goes on with a unit, until it asks the NIC for something, waits, or gets beyond `until`.
    fn go(&mut self, world: &mut World, hpu: usize, until: u64) {
        loop {
            match self.units[hpu].then {
                Then::Idle => return,
                Then::Begin => self.begin(world, hpu),
                Then::Resume => self.step(world, hpu),
                Then::Answer(at) => self.serve(world, hpu, at),
                Then::End if world.is_held(hpu) => self.units[hpu].blocked = true,
                Then::End => self.end(world, hpu, None),
            }
            let unit = &self.units[hpu];
            if unit.blocked || matches!(unit.then, Then::Idle) {
                return;
            }
            if world.is_asked() || unit.clock >= until {
                return self.push(hpu);
            }
        }
    }

    fn step(&mut self, world: &mut World, hpu: usize) {
        match self.resume(hpu) {
            Back::Ended => self.units[hpu].then = Then::End,
            Back::Asks(at) => self.units[hpu].then = Then::Answer(at),
            Back::Preempted(pc) => {
                let slice = switch::SLICE_NS as f64 * 1e-9 * self.hertz;
                self.units[hpu].pc = pc;
                self.units[hpu].clock += slice as u64;
                if let Some(milliseconds) = self.is_late(hpu) {
                    self.end(world, hpu, Some(Failure::Late { milliseconds }));
                }
            }
            Back::Faulted(trouble) => {
                self.units[hpu].pc = trouble.pc;
                let reason = self.reason(hpu, &trouble);
                let (pc, address) = (trouble.pc, trouble.address as u32);
                self.end(world, hpu, Some(Failure::Refused { pc, address, reason }));
            }
        }
    }

    fn reason(&self, hpu: usize, trouble: &Trouble) -> &'static str {
        let bottom = u64::from(self.top(hpu) - STACKS.bytes);
        match (trouble.signal, trouble.write) {
            (libc::SIGSEGV | libc::SIGBUS, _)
                if (bottom - 4096..bottom).contains(&trouble.address) =>
            {
                "below the handler's stack, which has 60 KiB with the native engine and 1 KiB on RISC-V units"
            }
            (libc::SIGSEGV | libc::SIGBUS, true) => "nothing can be written there",
            (libc::SIGSEGV | libc::SIGBUS, false) => "nothing can be read or run there",
            (libc::SIGFPE, _) => {
                "division by zero, or a quotient too large (RISC-V units go on with a defined result)"
            }
            (libc::SIGTRAP, _) => "a breakpoint, as abort and failed assertions have",
            _ => "an illegal instruction",
        }
    }

    /// Does what a handler asks for, or leaves it waiting.
    fn serve(&mut self, world: &mut World, hpu: usize, at: u32) {
        let Some(request) = self.request(hpu, at) else {
            let reason = "a request to the NIC does not lie on the handler's stack";
            let pc = self.units[hpu].pc;
            return self.end(world, hpu, Some(Failure::Refused { pc, address: at, reason }));
        };
        let unit = &mut self.units[hpu];
        (unit.pc, unit.clock) = (request.pc, unit.clock + 1);
        let now = unit.clock;
        let [w0, w1, w2, w3, w4, w5] = request.words;
        let answered = match request.kind {
            COMMAND => {
                let command = Command { info: w0, words: [w1, w2, w3, w4, w5, 0, 0] };
                world.command(hpu, now, command).ok()
            }
            COMMAND_WAIT => world.is_done(hpu, w0).then_some(0),
            COMMAND_DONE => return self.looked(world, hpu, at, world.is_done(hpu, w0)),
            COPY => world.copy(hpu, now, w0, w1, w2).ok(),
            COPY_DONE => return self.looked(world, hpu, at, world.is_copied(hpu, w0)),
            PAUSE => return self.looked(world, hpu, at, false),
            PRINT => {
                let text = world.memory(hpu, w0, w1, false).map(|text| text.to_vec());
                world.print(hpu, now, &text.unwrap_or_default());
                Some(0)
            }
            TERMINATE => return self.end(world, hpu, Some(Failure::Exit)),
            CYCLES => Some(now as u32),
            _ => Some(0),
        };
        match answered {
            Some(answer) => self.answer(hpu, at, answer),
            None => self.units[hpu].blocked = true,
        }
    }

    /// A handler that looks whether something is so goes on a little later if it is not.
    fn looked(&mut self, world: &mut World, hpu: usize, at: u32, so: bool) {
        self.answer(hpu, at, so.into());
        if so {
            return;
        }
        let unit = &mut self.units[hpu];
        unit.clock += LOOK_CYCLES;
        unit.looks += 1;
        if unit.looks.is_multiple_of(LOOKS)
            && let Some(milliseconds) = self.is_late(hpu)
        {
            self.end(world, hpu, Some(Failure::Late { milliseconds }));
        }
    }

    /// Runs the image's start on unit 0.
    fn run_start(&mut self, world: &mut World) -> Result<(), String> {
        let began = Instant::now();
        // SAFETY: the upper end of a mapped stack that no handler uses.
        self.units[0].stack = unsafe { switch::prepare(self.top(0), self.start, 0) };
        loop {
            match self.resume(0) {
                Back::Ended => return Ok(()),
                Back::Faulted(trouble) => {
                    let (pc, address) = (trouble.pc, trouble.address);
                    let reason = self.reason(0, &trouble);
                    return Err(format!("it fails at {pc:#010x}, at {address:#x}: {reason}"));
                }
                Back::Preempted(pc) if began.elapsed() > BOOT => {
                    return Err(format!("it still runs after {} s, at {pc:#010x}", BOOT.as_secs()));
                }
                Back::Preempted(_) => {}
                Back::Asks(at) => match self.request(0, at) {
                    Some(Request { kind: PRINT, words: [from, bytes, ..], .. }) => {
                        let text = self.text(world, from, bytes);
                        world.print(0, 0, &text);
                    }
                    Some(Request { kind: TERMINATE, .. }) | None => {
                        return Err("it asks for the program's end".to_string());
                    }
                    Some(_) if began.elapsed() > BOOT => {
                        return Err(format!("it still waits after {} s", BOOT.as_secs()));
                    }
                    Some(_) => self.answer(0, at, 1),
                },
            }
        }
    }

    /// Bytes of handler memory, or of unit 0's stack.
    fn text(&self, world: &mut World, from: u32, bytes: u32) -> Vec<u8> {
        world.image_memory(from, bytes).map(|text| text.to_vec()).unwrap_or_default()
    }
}

impl Engine for Native {
    fn backing(&mut self) -> Option<Backing> {
        self.memory.backing()
    }

    fn boot(&mut self, world: &mut World, _cycles: u64) -> Result<(), BootError> {
        let fail = |why: String| BootError::Engine(why);
        if let Some(gate) = self.gate {
            let place = world.image_memory(gate, 8).map_err(|e| fail(format!("its gate: {e}")))?;
            place.copy_from_slice(&switch::gate_address().to_le_bytes());
        }
        self.run_start(world).map_err(fail)?;
        self.units.iter_mut().for_each(|unit| (unit.clock, unit.then) = (0, Then::Idle));
        Ok(())
    }

    fn next(&mut self) -> Option<u64> {
        self.ready.peek().map(|Reverse((time, _))| *time)
    }

    fn run(&mut self, world: &mut World, until: u64) {
        // The thread may be another one than at the start. Without a timer only handlers that never
        // come back are lost.
        let _ = switch::on_this_thread();
        while !world.is_asked() {
            match self.ready.peek() {
                Some(Reverse((time, _))) if *time < until => {}
                _ => return,
            }
            let Some(Reverse((_, hpu))) = self.ready.pop() else { return };
            self.go(world, hpu, until);
        }
    }

    fn start(&mut self, world: &mut World, hpu: usize) {
        let Some(task) = world.task(hpu) else { return };
        let unit = &mut self.units[hpu];
        if matches!(unit.then, Then::Idle) {
            unit.clock = unit.clock.max(task.from);
            unit.then = Then::Begin;
            self.push(hpu);
        }
    }

    fn wake(&mut self, _world: &mut World, hpu: usize, now: u64) {
        let unit = &mut self.units[hpu];
        if std::mem::replace(&mut unit.blocked, false) {
            unit.clock = unit.clock.max(now);
            self.push(hpu);
        }
    }

    fn instructions(&self, _hpu: usize) -> u64 {
        0
    }

    fn pc(&self, hpu: usize) -> u32 {
        self.units[hpu].pc
    }

    fn counts(&self) -> (u64, u64) {
        (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use nicforge_isa::object::riscv::Image;

    use super::*;

    #[test]
    fn a_process_has_one_engine_at_a_time() {
        let target = nicforge_target::find("fpspin").unwrap();
        let machine = Machine::from_target(&target).unwrap();
        let image = NativeImage::new(Image::default(), &[]);
        let engine = Native::new(&machine, &image).unwrap();
        let second = Native::new(&machine, &image).unwrap_err();
        assert!(
            second.to_string().starts_with("a native engine runs in this process already"),
            "{second}"
        );
        drop(engine);
        Native::new(&machine, &image).unwrap();
    }
}
