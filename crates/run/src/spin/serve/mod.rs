//! A simulation at the other end of a socket, for drivers written for PsPIN's simulator:
//! `runtime/spin/driver/pspinsim.c` starts this process and speaks the messages of
//! `runtime/spin/driver/wire.h`.
//!
//! The simulation stands still after each event until the driver says so; what its callbacks ask
//! meanwhile (more packets, memory writes) is done first, so that the same driver always sees the
//! same times.

mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;

use nicforge_isa::object::riscv::{self, Image};
use nicforge_spin::machine::Machine;
use nicforge_spin::matching::Matched;
use nicforge_spin::nic::{
    Arrival, Context, Full, Handlers, HostRegion, MemoryRules, Nic, NicError, Options, Out, Until,
};

use super::throughput;
use wire::{Driver, Message, kind, long, wanted, word};

/// Bytes of a packet's description and of its context in front of the packet.
const PACKET: usize = 16;
const CONTEXT: usize = 72;
/// Contexts that may be given priorities.
const MOST_PRIORITIES: usize = 256;
/// Cycles between looks at what came out.
const SLICE: u64 = 64;

/// Why the simulation ends.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the driver is gone: {0}")]
    Wire(#[from] std::io::Error),
    #[error(
        "the driver sends what this version does not understand: {0}; build it again with `nicforge spin sdk`"
    )]
    Protocol(String),
    #[error("the image cannot be read: {0}")]
    Image(#[from] riscv::ImageError),
    #[error(transparent)]
    Nic(#[from] NicError),
    #[error("{0}")]
    Driver(String),
}

/// A context as packets name it: handler memory, host memory, handlers, scratchpads.
type Named = Vec<u8>;

/// The simulation.
struct Server {
    driver: Driver,
    machine: Option<Machine>,
    image: Option<Image>,
    contexts: Vec<Named>,
    /// By context, in the order in which packets name them.
    priorities: BTreeMap<usize, u8>,
    nic: Option<Nic>,
    /// Packets that came before the NIC was there, and other requests.
    waiting: VecDeque<Message>,
    /// When the next packet arrives.
    next: u64,
    ended: bool,
    latencies: Vec<u64>,
    feedback: Vec<(u64, u64)>,
    sent: Vec<(u64, u64)>,
}

/// Serves one driver until it stops.
///
/// # Errors
/// The driver is told, too.
pub fn serve(stream: UnixStream) -> Result<(), ServeError> {
    let mut server = Server {
        driver: Driver::new(stream),
        machine: None,
        image: None,
        contexts: Vec::new(),
        priorities: BTreeMap::new(),
        nic: None,
        waiting: VecDeque::new(),
        next: 0,
        ended: false,
        latencies: Vec::new(),
        feedback: Vec::new(),
        sent: Vec::new(),
    };
    let result = server.requests();
    if let Err(error) = &result
        && !matches!(error, ServeError::Wire(_))
    {
        let _ = server.driver.lock().send(kind::FAILED, 0, 0, error.to_string().as_bytes());
    }
    result
}

impl Server {
    fn requests(&mut self) -> Result<(), ServeError> {
        loop {
            let message = self.driver.lock().receive()?;
            match message.kind {
                kind::START => self.start(&message.data)?,
                kind::IMAGE => self.image = Some(riscv::parse(&message.data)?),
                kind::RUN => {
                    self.driver.lock().wanted = message.tag;
                    self.run(message.value)?;
                }
                kind::STOP => {
                    let text = self.statistics();
                    self.driver.lock().send(kind::DONE, 1, 0, text.as_bytes())?;
                    return Ok(());
                }
                _ => self.request(message)?,
            }
        }
    }

    fn start(&mut self, data: &[u8]) -> Result<(), ServeError> {
        let name = match word(data, 0) {
            4 => "pspin",
            2 => "fpspin",
            other => return Err(ServeError::Protocol(format!("a machine of {other} clusters"))),
        };
        let target =
            nicforge_target::find(name).map_err(|e| ServeError::Protocol(e.to_string()))?;
        let mut machine =
            Machine::from_target(&target).map_err(|e| ServeError::Protocol(e.to_string()))?;
        // The original's line has no limit unless the driver sets one, in nanoseconds a byte.
        let g = f64::from_bits(long(data, 8));
        machine.line_rate = (g > 0.0).then(|| machine.cycle_ns() / g);
        self.machine = Some(machine);
        Ok(())
    }

    /// Requests that may come at any time; packets and memory wait for the NIC.
    fn request(&mut self, message: Message) -> Result<(), ServeError> {
        match message.kind {
            kind::END => self.ended = true,
            kind::PRIORITY => {
                let context = message.value as usize;
                if context >= MOST_PRIORITIES {
                    return Err(ServeError::Driver(format!(
                        "pspinsim_set_fmq_prio: {context} is no context; there are 0 to {}",
                        MOST_PRIORITIES - 1
                    )));
                }
                if self.nic.is_some() {
                    return Err(ServeError::Driver(
                        "pspinsim_set_fmq_prio comes before the run begins".to_string(),
                    ));
                }
                self.priorities.insert(context, message.tag as u8);
            }
            kind::PACKET | kind::WRITE | kind::READ => {
                if message.kind == kind::PACKET {
                    let named = message.data.get(PACKET..PACKET + CONTEXT);
                    let named = named
                        .ok_or_else(|| ServeError::Protocol("a packet too short".to_string()))?;
                    if !self.contexts.iter().any(|context| context == named) {
                        if self.nic.is_some() {
                            return Err(ServeError::Driver(
                                "execution contexts are known by their first packet, which comes before the run begins"
                                    .to_string(),
                            ));
                        }
                        self.contexts.push(named.to_vec());
                    }
                }
                match self.nic.is_some() {
                    true => self.perform(message)?,
                    false => self.waiting.push_back(message),
                }
            }
            other => return Err(ServeError::Protocol(format!("message {other}"))),
        }
        Ok(())
    }

    /// Sets the NIC up with the contexts that packets have named.
    fn build(&mut self) -> Result<(), ServeError> {
        let missing = |what: &str| ServeError::Protocol(format!("no {what} before the run"));
        let machine = self.machine.as_ref().ok_or_else(|| missing("machine"))?;
        let image = self.image.as_ref().ok_or_else(|| missing("image"))?;
        let memory = MemoryRules::Pspin;
        let options = Options { full: Full::Wait, memory, ..Options::default() };
        let mut nic = Nic::new(machine, options, Box::new(self.driver.clone()));
        for (number, named) in self.contexts.iter().enumerate() {
            let mut context = context(image, named, number)?;
            // As OSMOSIS counts: priority 0 has one share.
            let priority = self.priorities.get(&number).copied().unwrap_or_default();
            context.weight = NonZeroU32::MIN.saturating_add(priority.into());
            nic.add_context(context)?;
        }
        self.next = nic.now();
        self.nic = Some(nic);
        while let Some(message) = self.waiting.pop_front() {
            self.perform(message)?;
        }
        Ok(())
    }

    /// A packet, or an access of NIC memory.
    fn perform(&mut self, message: Message) -> Result<(), ServeError> {
        let Some(nic) = &mut self.nic else { return Ok(()) };
        match message.kind {
            kind::PACKET => {
                let (description, rest) = message.data.split_at(PACKET);
                let (named, frame) = rest.split_at(CONTEXT);
                let context =
                    self.contexts.iter().position(|context| context == named).unwrap_or_default();
                let time = self.next.max(nic.now());
                nic.arrive(Arrival {
                    time,
                    frame: frame.to_vec(),
                    matched: Some(Matched {
                        context,
                        message: word(description, 0),
                        last: word(description, 8) != 0,
                    }),
                    copied: Some(word(description, 4)),
                    user: message.tag,
                });
                self.next = time + u64::from(word(description, 12));
            }
            kind::WRITE => {
                let address = message.value as u32;
                nic.write(0, address, &message.data)?;
                self.driver.lock().tell(kind::WRITTEN, 0, message.tag, &[])?;
            }
            _ => {
                let data =
                    nic.read(0, (message.value >> 32) as u32, message.value as u32)?.to_vec();
                self.driver.lock().tell(kind::READ_DONE, 0, message.tag, &data)?;
            }
        }
        self.asked_meanwhile()
    }

    /// Requests of callbacks.
    fn asked_meanwhile(&mut self) -> Result<(), ServeError> {
        loop {
            let message = self.driver.lock().later.pop_front();
            match message {
                Some(message) => self.request(message)?,
                None => return Ok(()),
            }
        }
    }

    fn run(&mut self, cycles: u64) -> Result<(), ServeError> {
        if self.nic.is_none() && !self.contexts.is_empty() {
            self.build()?;
        }
        let Some(now) = self.nic.as_ref().map(Nic::now) else {
            // Memory alone, and no packet: there is nothing that could run.
            return Ok(self.driver.lock().send(kind::DONE, u64::from(self.ended), 0, &[])?);
        };
        let end = if cycles == 0 { u64::MAX } else { now + cycles };
        let done = loop {
            let Some(nic) = &mut self.nic else { break true };
            if nic.is_idle() {
                if self.ended || cycles > 0 {
                    break self.ended;
                }
                return Err(ServeError::Driver(
                    "nothing is left to do, and more packets are to come: pspinsim_packet_eos was not called"
                        .to_string(),
                ));
            }
            if nic.now() >= end {
                break false;
            }
            let until = (nic.now() + SLICE).min(end);
            nic.run_until(Until::Cycle(until));
            self.tell_what_came_out()?;
        };
        Ok(self.driver.lock().send(kind::DONE, u64::from(done), 0, &[])?)
    }

    fn tell_what_came_out(&mut self) -> Result<(), ServeError> {
        let Some(nic) = &mut self.nic else { return Ok(()) };
        let ps = nic.machine().cycle_ns() * 1000.0;
        let ps = |cycles: u64| (cycles as f64 * ps) as u64;
        for out in nic.take_out() {
            let mut wire = self.driver.lock();
            match out {
                Out::Sent { time, frame, .. } => {
                    self.sent.push((time, frame.len() as u64));
                    if wire.wanted & wanted::OUT != 0 {
                        wire.tell(kind::OUT, 0, 0, &frame)?;
                    }
                }
                Out::Feedback { user, bytes, times, .. } => {
                    self.latencies.push(times.feedback - times.arrived);
                    self.feedback.push((times.feedback, bytes.into()));
                    if wire.wanted & wanted::FEEDBACK != 0 {
                        let times = [times.arrived, times.described, times.feedback].map(ps);
                        let data: Vec<u8> =
                            times.iter().flat_map(|time| time.to_ne_bytes()).collect();
                        wire.tell(kind::FEEDBACK, 0, user, &data)?;
                    }
                }
                Out::Stdout { hpu, text, .. } => wire.say(&format!("[{hpu}] {text}\n"))?,
                Out::Fault(fault) => wire.say(&format!("{fault}\n"))?,
                Out::Dropped { why, .. } => wire.say(&format!("dropped: {why}\n"))?,
                _ => {}
            }
        }
        self.asked_meanwhile()
    }

    fn statistics(&self) -> String {
        let Some(nic) = &self.nic else { return String::new() };
        let ns = nic.machine().cycle_ns();
        let gbit = |events: &[(u64, u64)]| {
            throughput(events.iter().copied(), ns)
                .map_or_else(|| "-".to_string(), |rate| format!("{:.3}", rate / 1e9))
        };
        let bytes = |events: &[(u64, u64)]| events.iter().map(|event| event.1).sum::<u64>();
        let packets = self.feedback.len();
        let mean = |sum: u64| sum as f64 / packets.max(1) as f64;
        let rule = "-".repeat(40);
        let stats = nic.stats();
        format!(
            "###### Statistics ######\n\
             NIC inbound engine:\n\
             \tPackets: {packets}; Bytes: {}\n\
             \tAvg packet length: {:.3} B\n\
             \tFeedback throughput: {} Gbit/s\n\
             \tPacket latency (ns): avg: {:.3}; min: {}; max: {}\n\
             \tHER stalls: {}\n{rule}\n\
             NIC outbound engine:\n\
             \tCommands: {}; Packets: {}; Bytes: {}\n\
             \tThroughput: {} Gbit/s\n{rule}\n\
             PCIe Slave:\n\
             \tBytes written: {}; Bytes read: {}\n{rule}\n",
            bytes(&self.feedback),
            mean(bytes(&self.feedback)),
            gbit(&self.feedback),
            mean(self.latencies.iter().sum()) * ns,
            self.latencies.iter().min().map_or(0.0, |least| *least as f64 * ns),
            self.latencies.iter().max().map_or(0.0, |most| *most as f64 * ns),
            stats.held_up,
            stats.commands,
            self.sent.len(),
            bytes(&self.sent),
            gbit(&self.sent),
            stats.host_written_bytes,
            stats.host_read_bytes,
        )
    }
}

/// A context from `struct nf_sim_context`; handlers are symbols of the image at its addresses.
fn context<'a>(image: &'a Image, named: &[u8], number: usize) -> Result<Context<'a>, ServeError> {
    let handler = |at: usize| match word(named, at) {
        0 => Ok(None),
        address => match image.symbols.iter().find(|symbol| symbol.address == address) {
            Some(symbol) => Ok(Some(symbol.name.clone())),
            None => {
                Err(ServeError::Driver(format!("the image has no function at {address:#010x}")))
            }
        },
    };
    let handlers =
        Handlers { header: handler(20)?, payload: handler(24)?, completion: handler(28)? };
    let mut context = Context::new(image, handlers);
    let (start, size) = (word(named, 0), word(named, 4));
    context.handler_memory = Some(start..start.saturating_add(size));
    context.host = HostRegion { address: long(named, 8), bytes: word(named, 16) };
    context.scratchpad = word(named, 48);
    context.shares = (number > 0).then_some(0);
    Ok(context)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Messages of any content end the simulation with a reason, never with a panic.
    #[test]
    fn drivers_that_send_anything_are_told_why_it_ends() {
        for seed in 0..300u64 {
            let mut random = nicforge_util::Random::new(seed);
            let mut draw = move |below: u64| random.below(below);
            let (stream, mut driver) = UnixStream::pair().unwrap();
            let mut bytes = Vec::new();
            for _ in 0..draw(6) {
                let size = [0, 4, 24, 88, 120][draw(5) as usize];
                bytes.extend((draw(12) as u32).to_ne_bytes());
                bytes.extend((size as u32).to_ne_bytes());
                bytes.extend([0, 1, 0x1c00_0000, u64::MAX][draw(4) as usize].to_ne_bytes());
                bytes.extend(draw(3).to_ne_bytes());
                // Machines of four clusters exist.
                bytes.extend(
                    (0..size).map(
                        |at| {
                            if at == 0 { 4 } else { (draw(5) == 0) as u8 * draw(256) as u8 }
                        },
                    ),
                );
            }
            driver.write_all(&bytes).unwrap();
            driver.shutdown(std::net::Shutdown::Write).unwrap();
            if let Err(error) = serve(stream) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}
