//! Cores with memories of their own, a network on the chip, and a central scheduler: PANIC.
//!
//! A *message* (a packet with what is known of it) goes to a service, never to a core. The
//! scheduler has a queue for each service and knows the free buffers of every core: a message
//! leaves its queue when the core that its 32 bits choose (`bits * cores >> 32`) has one, the
//! oldest such message first, one a cycle. So messages for one core stay in order, and one busy
//! core holds nobody else up. A queue that is full refuses: the sender keeps the message and waits
//! before its next one, and frames wait at the port. Services send forward only, so somebody can
//! always go on.
//!
//! Cores share nothing, so each may run ahead of the others until it needs a message, or room for
//! one. Times are cycles of the cores. A message takes half the network's latency to the scheduler
//! and half to a core, and a cycle per [`Config::beat_bytes`] at either end. It comes into a buffer
//! in the core's memory, where the core works on it, and leaves by pieces that lie there: cores do
//! not copy.
//!
//! Source: Lin et al., PANIC, OSDI'20 (sections 4 and 5: credits, central scheduler, queue per
//! engine); sizes from the target's spec.

mod config;
mod core;
mod engine;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use nicforge_isa::object::riscv::Image;
use nicforge_isa::rv32::{Code, Decoder, Stop, Timing, Trap};

pub use self::config::Config;
use self::core::Core;

/// Where things are, for cores.
pub mod map {
    pub const LOCAL: u32 = 0x1000_0000;
    /// A core's slice of the board's DRAM.
    pub const DRAM: u32 = 0x8000_0000;
    pub const PROGRAM: u32 = 0x1d00_0000;
    pub const PROGRAM_BYTES: u32 = 0x8000;
    /// Reading it waits for a message and gives its bytes.
    pub const RECEIVE: u32 = 0x2000_0000;
    /// Writing it gives the message's buffer back.
    pub const RELEASE: u32 = 0x2000_0008;
    /// Where the next message goes: a service, or [`OUTSIDE`] and a number of the program's.
    /// Writing it waits while the last message has not left, as with all behind it.
    pub const TO: u32 = 0x2000_0010;
    pub const BITS: u32 = 0x2000_0014;
    /// Where the next piece of the message lies in the core's memories.
    pub const PIECE_AT: u32 = 0x2000_0018;
    /// Writing it adds the piece, of so many bytes.
    pub const PIECE_BYTES: u32 = 0x2000_001c;
    /// Writing it sends the pieces, one behind the other. The core waits while they are read.
    pub const SEND: u32 = 0x2000_0020;
    /// What an engine beside the core goes over: where that lies, and the word that a CRC begins
    /// with.
    pub const ENGINE_AT: u32 = 0x2000_0030;
    pub const ENGINE_FIRST: u32 = 0x2000_0034;
    /// Writing a number of bytes starts the engine: a sum of half words (RFC 1071), or a CRC32C.
    pub const ENGINE_SUM: u32 = 0x2000_0038;
    pub const ENGINE_CRC: u32 = 0x2000_003c;
    /// Reading it waits for the result.
    pub const ENGINE_RESULT: u32 = 0x2000_0040;
    /// The buffer of the message in hand; [`FRONT`] bytes in front of the message are free.
    pub const WINDOW: u32 = 0x2001_0000;
    pub const FRONT: u32 = 0x100;
    pub const OUTSIDE: u32 = 0x8000_0000;
}

/// Cycles without a message after which a core that does not ask for one is taken to run in
/// circles.
const PATIENCE: u64 = 20_000_000;

/// Mistakes in a machine or a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PanicError {
    #[error(
        "target `{0}` is no network of cores: it needs units, a memory of scope `unit` and a link of kind `noc`"
    )]
    NotPanic(String),
    #[error("the services want {wanted} cores; there are {have}")]
    Cores { wanted: usize, have: usize },
    #[error(
        "service {service}: the image wants {bytes} bytes at {address:#010x}, where a core has no memory"
    )]
    NoMemory { service: usize, address: u32, bytes: u32 },
    #[error("core {core} of service {service}: {trap}{symbol}")]
    Trap { core: usize, service: usize, trap: Trap, symbol: String },
    #[error(
        "core {core} of service {service} has been on one message for {PATIENCE} cycles, pc {pc:#010x}"
    )]
    Slow { core: usize, service: usize, pc: u32 },
    #[error("there is no service {0}")]
    NoService(u32),
    #[error("{bytes} bytes at {address:#010x} are not in a core's memory")]
    Memory { address: u32, bytes: u32 },
}

/// An image and how many cores run it.
#[derive(Clone, Debug)]
pub struct Service<'a> {
    pub image: &'a Image,
    pub cores: usize,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub service: u32,
    /// Choose the core.
    pub bits: u32,
    pub bytes: Vec<u8>,
}

/// Something a core sent to the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    pub time: u64,
    pub core: usize,
    /// The program's number, without [`map::OUTSIDE`].
    pub to: u32,
    pub bytes: Vec<u8>,
}

/// A core's stay with one message, without what it waited for full queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    pub core: usize,
    /// First word of the message, which is the sender's.
    pub tag: u32,
    pub cycles: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The next frame is at the port.
    Arrive,
    /// What a core sent is at the scheduler.
    Reach(usize),
    /// The scheduler may give a message of a service away.
    Dispatch(usize),
    /// A message is at a core.
    Deliver(usize),
    /// The scheduler hears of a free buffer.
    Credit(usize),
}

/// The machine.
#[derive(Debug)]
pub struct Panic {
    config: Config,
    cores: Vec<Core>,
    /// By service.
    codes: Vec<Code>,
    images: Vec<Image>,
    services: Vec<Range<usize>>,
    queues: Vec<VecDeque<Message>>,
    /// Messages under way to each core.
    flying: Vec<VecDeque<Vec<u8>>>,
    /// When the wire to each core is free.
    wires: Vec<u64>,
    credits: Vec<u32>,
    /// True if a dispatch is already asked for, and when the scheduler is free.
    asked: Vec<bool>,
    next_dispatch: u64,
    /// Frames at the port, and cores whose message no queue took.
    coming: VecDeque<(u64, Message)>,
    waiting: bool,
    parked: Vec<VecDeque<usize>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    now: u64,
    out: Vec<Out>,
    stays: Vec<Stay>,
    /// Most messages seen in each queue.
    pub deepest: Vec<usize>,
}

impl Panic {
    /// Loads the services' images into cores, one service behind the other.
    ///
    /// # Errors
    /// There are too few cores, or an image wants memory they do not have.
    pub fn new(config: &Config, services: &[Service]) -> Result<Panic, PanicError> {
        let wanted: usize = services.iter().map(|service| service.cores).sum();
        if wanted > config.cores {
            return Err(PanicError::Cores { wanted, have: config.cores });
        }
        let (mut cores, mut codes, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for (number, service) in services.iter().enumerate() {
            let core = Core::load(cores.len(), number, config, service.image)?;
            codes.push(Code::new(
                map::PROGRAM,
                core.program(),
                &Decoder::rv32imac(),
                &Timing::RI5CY,
            ));
            let first = cores.len();
            for at in 0..service.cores {
                cores.push(core.numbered(first + at));
            }
            ranges.push(first..cores.len());
        }
        let count = cores.len();
        Ok(Panic {
            ready: (0..count).map(|core| Reverse((0, core))).collect(),
            cores,
            codes,
            images: services.iter().map(|service| service.image.clone()).collect(),
            queues: vec![VecDeque::new(); ranges.len()],
            asked: vec![false; ranges.len()],
            parked: vec![VecDeque::new(); ranges.len()],
            deepest: vec![0; ranges.len()],
            services: ranges,
            flying: vec![VecDeque::new(); count],
            wires: vec![0; count],
            credits: vec![config.credits.max(1); count],
            next_dispatch: 0,
            coming: VecDeque::new(),
            waiting: false,
            events: BinaryHeap::new(),
            order: 0,
            now: 0,
            out: Vec::new(),
            stays: Vec::new(),
            config: config.clone(),
        })
    }

    /// Bytes of a core's own memories.
    ///
    /// # Errors
    /// They are not all there.
    pub fn read(&self, core: usize, address: u32, bytes: u32) -> Result<&[u8], PanicError> {
        let found = self.cores.get(core).and_then(|core| core.own(address, bytes));
        found.ok_or(PanicError::Memory { address, bytes })
    }

    /// Writes a core's own memory.
    ///
    /// # Errors
    /// As [`Panic::read`].
    pub fn write(&mut self, core: usize, address: u32, bytes: &[u8]) -> Result<(), PanicError> {
        let size = bytes.len() as u32;
        let found = self.cores.get_mut(core).and_then(|core| core.own_mut(address, size));
        found.ok_or(PanicError::Memory { address, bytes: size })?.copy_from_slice(bytes);
        Ok(())
    }

    /// A frame for a service, at a cycle; frames come in order of time.
    pub fn arrive(&mut self, time: u64, message: Message) {
        self.coming.push_back((time, message));
    }

    /// Runs until nothing is left to do.
    ///
    /// # Errors
    /// A core traps, names a service that is not there, or does not come to an end.
    pub fn run(&mut self) -> Result<(), PanicError> {
        if let Some((time, _)) = self.coming.front() {
            let time = *time;
            self.at(time, Event::Arrive);
        }
        loop {
            let event = self.events.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
            let core = self.ready.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            if event == u64::MAX && core == u64::MAX {
                return Ok(());
            }
            if event <= core {
                if let Some(Reverse((time, _, event))) = self.events.pop() {
                    self.now = self.now.max(time);
                    self.handle(event)?;
                }
            } else if let Some(Reverse((_, number))) = self.ready.pop() {
                self.step(number, event)?;
            }
        }
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// Takes what has come out since the last call, in the order in which it did.
    pub fn take_out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    /// How long cores were busy with messages, since the last call.
    pub fn take_stays(&mut self) -> Vec<Stay> {
        std::mem::take(&mut self.stays)
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    /// Runs a core until an event, or until it waits or has sent something.
    fn step(&mut self, number: usize, until: u64) -> Result<(), PanicError> {
        let core = &mut self.cores[number];
        let service = core.service();
        // One that runs in circles must come back to be found.
        let until = until.min(core.time().saturating_add(PATIENCE));
        let stop = core.run(&self.codes[service], until);
        let time = core.time();
        if core.since().is_some_and(|since| time - since >= PATIENCE) {
            return Err(PanicError::Slow { core: number, service, pc: core.pc() });
        }
        self.stays.extend(core.take_stay());
        if core.take_release() {
            self.at(time + self.config.latency / 2, Event::Credit(number));
        }
        if self.cores[number].begins_to_send() {
            self.at(time + self.config.latency / 2, Event::Reach(number));
        }
        match stop {
            Stop::Trap(trap) => {
                let symbol = self.images[service].symbol_at(trap.pc);
                let symbol = symbol.map_or(String::new(), |symbol| format!(" ({})", symbol.name));
                Err(PanicError::Trap { core: number, service, trap, symbol })
            }
            // Woken by what it waits for.
            Stop::Blocked | Stop::Waiting => Ok(()),
            Stop::Time | Stop::Paused | Stop::CodeChanged => {
                self.ready.push(Reverse((time, number)));
                Ok(())
            }
        }
    }

    fn wake(&mut self, number: usize) {
        let core = &mut self.cores[number];
        if core.is_blocked() {
            core.wake(self.now);
            self.ready.push(Reverse((core.time(), number)));
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), PanicError> {
        match event {
            Event::Arrive => self.arrived(),
            Event::Reach(core) => self.reached(core),
            Event::Dispatch(service) => {
                self.dispatch(service);
                Ok(())
            }
            Event::Deliver(core) => {
                if let Some(bytes) = self.flying[core].pop_front() {
                    self.cores[core].deliver(&bytes);
                    self.wake(core);
                }
                Ok(())
            }
            Event::Credit(core) => {
                self.credits[core] += 1;
                self.ask(self.cores[core].service());
                Ok(())
            }
        }
    }

    fn queue(&self, service: u32) -> Result<usize, PanicError> {
        let at = service as usize;
        if at < self.queues.len() { Ok(at) } else { Err(PanicError::NoService(service)) }
    }

    /// Frames go into their queue as long as it has room.
    fn arrived(&mut self) -> Result<(), PanicError> {
        self.waiting = false;
        while let Some((time, message)) = self.coming.front() {
            let at = self.queue(message.service)?;
            if *time > self.now {
                let time = *time;
                self.at(time, Event::Arrive);
                return Ok(());
            }
            if self.queues[at].len() >= self.config.depth {
                self.waiting = true;
                return Ok(());
            }
            if let Some((_, message)) = self.coming.pop_front() {
                self.enter(at, message);
            }
        }
        Ok(())
    }

    /// A message of a core is at the scheduler, or on its way out.
    fn reached(&mut self, number: usize) -> Result<(), PanicError> {
        let Some(to) = self.cores[number].sends_to() else { return Ok(()) };
        if to & map::OUTSIDE == 0 {
            let at = self.queue(to)?;
            if self.queues[at].len() >= self.config.depth {
                self.cores[number].park(self.now);
                self.parked[at].push_back(number);
                return Ok(());
            }
            if let Some(message) = self.cores[number].has_sent(self.now) {
                self.enter(at, message);
            }
        } else if let Some(message) = self.cores[number].has_sent(self.now) {
            let to = to & !map::OUTSIDE;
            self.out.push(Out { time: self.now, core: number, to, bytes: message.bytes });
        }
        self.wake(number);
        Ok(())
    }

    fn enter(&mut self, at: usize, message: Message) {
        self.queues[at].push_back(message);
        self.deepest[at] = self.deepest[at].max(self.queues[at].len());
        self.ask(at);
    }

    fn ask(&mut self, service: usize) {
        if !std::mem::replace(&mut self.asked[service], true) {
            let time = self.now.max(self.next_dispatch);
            self.at(time, Event::Dispatch(service));
        }
    }

    /// Gives the oldest message away whose core has room.
    fn dispatch(&mut self, service: usize) {
        self.asked[service] = false;
        if self.next_dispatch > self.now {
            return self.ask(service);
        }
        let cores = self.services[service].clone();
        let core_of = |message: &Message| {
            cores.start + ((u64::from(message.bits) * cores.len() as u64) >> 32) as usize
        };
        let credits = &self.credits;
        let Some(at) =
            self.queues[service].iter().position(|message| credits[core_of(message)] > 0)
        else {
            return;
        };
        let Some(message) = self.queues[service].remove(at) else { return };
        let core = core_of(&message);
        self.next_dispatch = self.now + 1;
        self.credits[core] -= 1;
        let start = self.wires[core].max(self.now);
        self.wires[core] = start + self.config.beats(message.bytes.len());
        let there = self.wires[core] + self.config.latency / 2;
        self.flying[core].push_back(message.bytes);
        self.at(there, Event::Deliver(core));
        if !self.queues[service].is_empty() {
            self.ask(service);
        }
        // The queue has room again.
        if let Some(sender) = self.parked[service].pop_front() {
            let now = self.now;
            self.at(now, Event::Reach(sender));
        } else if self.waiting {
            let now = self.now;
            self.at(now, Event::Arrive);
        }
    }
}
