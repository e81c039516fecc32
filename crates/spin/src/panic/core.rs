//! A core: its memory, its end of the network, and how it waits.

use std::collections::VecDeque;

use nicforge_isa::object::riscv::Image;
use nicforge_isa::rv32::{Access, Bus, Code, Hart, Refusal, Reply, Stop};

use super::config::Engine;
use super::{Config, Message, PanicError, Stay, engine, map};

/// Parts of the core beside its registers.
#[derive(Clone, Debug, Default)]
struct Port {
    program: Vec<u8>,
    local: Vec<u8>,
    /// As far as anything was written; behind it are zeros.
    dram: Vec<u8>,
    dram_bytes: usize,
    /// Of loads and stores that begin a line.
    dram_waits: (u32, u32),
    /// Lines that the last load and the last store were in, by number: the rest of a line follows
    /// at once.
    dram_lines: [Option<u32>; 2],
    dram_line_bytes: u32,
    /// Messages that have come, each behind [`map::FRONT`] bytes that are free; the first is the
    /// one in the window once it was asked for.
    received: VecDeque<Arrived>,
    /// The first message is in hand, since this cycle.
    since: Option<u64>,
    /// Cycles of that for which a queue was full.
    held: u64,
    released: bool,
    stay: Option<(u32, u64)>,
    to: u32,
    bits: u32,
    /// What the next message is made of: where pieces lie, and their bytes.
    pieces: Vec<(u32, u32)>,
    piece_at: u32,
    beat_bytes: u32,
    /// Engines that sum and take CRCs, what the next goes over, and when which result is there.
    engines: [Option<Engine>; 2],
    engine_at: u32,
    engine_first: u32,
    result: (u64, u32),
    /// A message on its way to the scheduler.
    sending: Option<Vec<u8>>,
    /// It has just set out.
    begins: bool,
    reserved: Option<u32>,
}

/// A message in a core's memory.
#[derive(Clone, Debug)]
struct Arrived {
    tag: u32,
    memory: Vec<u8>,
}

/// A core.
#[derive(Clone, Debug)]
pub(super) struct Core {
    number: usize,
    service: usize,
    hart: Hart,
    port: Port,
    blocked: bool,
    /// Since when its message has stood before a full queue.
    parked: Option<u64>,
}

impl Core {
    pub fn load(
        number: usize,
        service: usize,
        config: &Config,
        image: &Image,
    ) -> Result<Core, PanicError> {
        let mut port = Port {
            program: vec![0; map::PROGRAM_BYTES as usize],
            local: vec![0; config.local_bytes as usize],
            dram_bytes: config.dram_bytes as usize,
            dram_waits: (config.dram_load_wait, config.dram_store_wait),
            dram_line_bytes: config.dram_line_bytes.max(1),
            beat_bytes: config.beat_bytes.max(1),
            engines: [config.sums, config.crcs],
            ..Port::default()
        };
        for segment in image.segments.iter().filter(|segment| segment.size > 0) {
            let fail =
                PanicError::NoMemory { service, address: segment.address, bytes: segment.size };
            let at = |base: u32| segment.address.checked_sub(base).map(|at| at as usize);
            let memory =
                if segment.address >= map::PROGRAM { &mut port.program } else { &mut port.local };
            let base = if segment.address >= map::PROGRAM { map::PROGRAM } else { map::LOCAL };
            let place =
                at(base).and_then(|at| memory.get_mut(at..at.checked_add(segment.size as usize)?));
            place.ok_or(fail)?[..segment.bytes.len()].copy_from_slice(&segment.bytes);
        }
        let hart = Hart::new(number as u32, image.entry);
        Ok(Core { number, service, hart, port, blocked: false, parked: None })
    }

    /// A copy of the core with another number.
    pub fn numbered(&self, number: usize) -> Core {
        let mut hart = Hart::new(number as u32, self.hart.pc);
        hart.set_x(2, map::LOCAL + self.port.local.len() as u32);
        Core { number, hart, ..self.clone() }
    }

    pub fn program(&self) -> &[u8] {
        &self.port.program
    }

    pub fn service(&self) -> usize {
        self.service
    }

    pub fn time(&self) -> u64 {
        self.hart.cycle
    }

    pub fn pc(&self) -> u32 {
        self.hart.pc
    }

    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Bytes of its own memories.
    pub fn own(&self, address: u32, bytes: u32) -> Option<&[u8]> {
        if address >= map::DRAM {
            return part(&self.port.dram, address - map::DRAM, bytes);
        }
        part(&self.port.local, address.checked_sub(map::LOCAL)?, bytes)
    }

    /// Own memory, to be written.
    pub fn own_mut(&mut self, address: u32, bytes: u32) -> Option<&mut [u8]> {
        if address >= map::DRAM {
            return self.port.dram_mut(address - map::DRAM, bytes);
        }
        let at = address.checked_sub(map::LOCAL)? as usize;
        self.port.local.get_mut(at..at.checked_add(bytes as usize)?)
    }

    pub fn run(&mut self, code: &Code, until: u64) -> Stop {
        let stop = self.hart.run(code, &mut self.port, until);
        self.blocked = matches!(stop, Stop::Blocked | Stop::Waiting);
        stop
    }

    /// Its message stands before a full queue.
    pub fn park(&mut self, now: u64) {
        self.parked.get_or_insert(now);
    }

    pub fn wake(&mut self, now: u64) {
        self.blocked = false;
        self.hart.cycle = self.hart.cycle.max(now);
    }

    /// Since when it has had its message.
    pub fn since(&self) -> Option<u64> {
        self.port.since
    }

    pub fn take_stay(&mut self) -> Option<Stay> {
        self.port.stay.take().map(|(tag, cycles)| Stay { core: self.number, tag, cycles })
    }

    /// True if it gave a buffer back.
    pub fn take_release(&mut self) -> bool {
        std::mem::take(&mut self.port.released)
    }

    pub fn deliver(&mut self, bytes: &[u8]) {
        let tag = value(bytes.get(..4).unwrap_or_default());
        let memory = [&[0; map::FRONT as usize], bytes].concat();
        self.port.received.push_back(Arrived { tag, memory });
    }

    /// True if a message has just set out.
    pub fn begins_to_send(&mut self) -> bool {
        std::mem::take(&mut self.port.begins)
    }

    /// Where what is under way goes.
    pub fn sends_to(&self) -> Option<u32> {
        self.port.sending.as_ref().map(|_| self.port.to)
    }

    /// Takes what was under way; the next may be sent.
    pub fn has_sent(&mut self, now: u64) -> Option<Message> {
        let bytes = self.port.sending.take()?;
        // It worked on until it wanted to send the next one, if it wanted to at all.
        let idle = self.parked.take().filter(|_| self.blocked && self.port.since.is_some());
        self.port.held += idle.map_or(0, |at| now.saturating_sub(at.max(self.hart.cycle)));
        Some(Message { service: self.port.to, bits: self.port.bits, bytes })
    }
}

const NOTHING: Refusal = Refusal::Fault("no memory at this address");

fn part(memory: &[u8], at: u32, size: u32) -> Option<&[u8]> {
    memory.get(at as usize..at as usize + size as usize)
}

fn value(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

impl Port {
    fn dram_mut(&mut self, at: u32, size: u32) -> Option<&mut [u8]> {
        let (at, end) = (at as usize, at as usize + size as usize);
        if end > self.dram_bytes {
            return None;
        }
        if end > self.dram.len() {
            self.dram.resize(end, 0);
        }
        self.dram.get_mut(at..end)
    }

    /// Cycles that an access takes beyond its own.
    fn dram_wait(&mut self, at: u32, store: bool) -> u32 {
        let line = Some(at / self.dram_line_bytes);
        if std::mem::replace(&mut self.dram_lines[usize::from(store)], line) == line {
            return 0;
        }
        if store { self.dram_waits.1 } else { self.dram_waits.0 }
    }

    /// Gives the next message's size; the one in hand is done with.
    fn receive(&mut self, now: u64) -> Result<Reply, Refusal> {
        if let Some(since) = self.since.take()
            && let Some(done) = self.received.pop_front()
        {
            self.stay = Some((done.tag, (now - since).saturating_sub(self.held)));
        }
        let memory = self.received.front().ok_or(Refusal::Later)?.memory.len() as u32;
        (self.since, self.held) = (Some(now), 0);
        Ok(Reply { value: memory - map::FRONT, wait: 0, pause: true })
    }

    fn command(&mut self, at: u32, word: u32, now: u64) -> Result<Reply, Refusal> {
        match at {
            map::RELEASE => {
                self.released = true;
                return Ok(Reply { value: 0, wait: 0, pause: true });
            }
            // The registers are those of the message under way until it has left.
            map::TO..=map::PIECE_BYTES if self.sending.is_some() => return Err(Refusal::Later),
            map::TO => self.to = word,
            map::BITS => self.bits = word,
            map::PIECE_AT => self.piece_at = word,
            map::PIECE_BYTES => self.pieces.push((self.piece_at, word)),
            map::ENGINE_AT => self.engine_at = word,
            map::ENGINE_FIRST => self.engine_first = word,
            map::ENGINE_SUM | map::ENGINE_CRC => self.compute(at == map::ENGINE_CRC, word, now)?,
            map::SEND => {
                let message = self.gather()?;
                let wait = (message.len() as u32).div_ceil(self.beat_bytes);
                self.sending = Some(message);
                self.begins = true;
                return Ok(Reply { value: 0, wait, pause: true });
            }
            _ => return Err(NOTHING),
        }
        Ok(Reply::now(0))
    }

    /// The message that the pieces are.
    fn gather(&mut self) -> Result<Vec<u8>, Refusal> {
        let mut message = Vec::new();
        for (at, bytes) in std::mem::take(&mut self.pieces) {
            message.extend_from_slice(self.memory(at, bytes)?);
        }
        Ok(message)
    }

    /// Bytes that other hardware than the core reads.
    fn memory(&mut self, at: u32, bytes: u32) -> Result<&[u8], Refusal> {
        let found = match at >> 16 {
            _ if bytes == 0 => Some(&[][..]),
            0x1000..0x1100 => part(&self.local, at - map::LOCAL, bytes),
            0x2001 => self.window().and_then(|memory| part(memory, at - map::WINDOW, bytes)),
            0x8000.. => self.dram_mut(at - map::DRAM, bytes).map(|piece| &*piece),
            _ => None,
        };
        found.ok_or(NOTHING)
    }

    /// Starts an engine.
    fn compute(&mut self, crc: bool, bytes: u32, now: u64) -> Result<(), Refusal> {
        let engine = self.engines[usize::from(crc)].ok_or(NOTHING)?;
        let (first, at) = (self.engine_first, self.engine_at);
        let over = self.memory(at, bytes)?;
        let result = if crc { engine::crc(first, over) } else { engine::sum(over) };
        self.result = (now + u64::from(engine.cycles(bytes)), result);
        Ok(())
    }

    fn window(&self) -> Option<&[u8]> {
        self.received.front().map(|arrived| &arrived.memory[..])
    }
}

impl Bus for Port {
    #[inline]
    fn load(&mut self, access: Access) -> Result<Reply, Refusal> {
        let Access { at, size, now, .. } = access;
        let bytes = match at >> 16 {
            0x1000..0x1100 => part(&self.local, at - map::LOCAL, size),
            0x1d00 => part(&self.program, at - map::PROGRAM, size),
            0x2000 if at == map::RECEIVE => return self.receive(now),
            0x2000 if at == map::ENGINE_RESULT => {
                let wait = self.result.0.saturating_sub(now) as u32;
                return Ok(Reply { value: self.result.1, wait, pause: false });
            }
            0x8000.. => {
                let at = at - map::DRAM;
                let wait = self.dram_wait(at, false);
                let beyond = at as usize + size as usize <= self.dram_bytes;
                let value = part(&self.dram, at, size).map(value).or(beyond.then_some(0));
                return value.map(|value| Reply { value, wait, pause: false }).ok_or(NOTHING);
            }
            0x2001 => self.window().and_then(|memory| part(memory, at - map::WINDOW, size)),
            _ => None,
        };
        bytes.map(|bytes| Reply::now(value(bytes))).ok_or(NOTHING)
    }

    #[inline]
    fn store(&mut self, access: Access, word: u32) -> Result<Reply, Refusal> {
        let Access { at, size, now, .. } = access;
        let (memory, base) = match at >> 16 {
            0x1000..0x1100 => (&mut self.local, map::LOCAL),
            0x2001 => match self.received.front_mut() {
                Some(arrived) => (&mut arrived.memory, map::WINDOW),
                None => return Err(NOTHING),
            },
            0x8000.. => {
                let wait = self.dram_wait(at - map::DRAM, true);
                let place = self.dram_mut(at - map::DRAM, size).ok_or(NOTHING)?;
                place.copy_from_slice(&word.to_le_bytes()[..size as usize]);
                return Ok(Reply { value: 0, wait, pause: false });
            }
            _ => return self.command(at, word, now),
        };
        let at = (at - base) as usize;
        let place = memory.get_mut(at..at + size as usize).ok_or(NOTHING)?;
        place.copy_from_slice(&word.to_le_bytes()[..size as usize]);
        Ok(Reply::now(0))
    }

    fn fetch(&mut self, at: u32) -> Result<u16, Refusal> {
        let bytes = at.checked_sub(map::PROGRAM).and_then(|at| part(&self.program, at, 2));
        bytes
            .map(|bytes| value(bytes) as u16)
            .ok_or(Refusal::Fault("instructions are run from program memory only"))
    }

    fn load_reserved(&mut self, access: Access) -> Result<Reply, Refusal> {
        let reply = self.load(access)?;
        self.reserved = Some(access.at);
        Ok(reply)
    }

    fn store_conditional(&mut self, access: Access, word: u32) -> Result<Reply, Refusal> {
        if self.reserved.take() != Some(access.at) {
            return Ok(Reply::now(1));
        }
        self.store(access, word)
    }
}
