//! Frames through a simulated sPIN NIC with one context, and what came of it.

use nicforge_isa::object::riscv::Image;
use nicforge_spin::machine::Machine;
use nicforge_spin::matching::Ruleset;
use nicforge_spin::messages;
use nicforge_spin::nic::{
    Arrival, Context, Dropped, Engine, Fault, Handlers, HostRegion, Iss, Nic, NicError, Options,
    Out, Record, SparseMemory, Stats, Times, Until,
};

/// Where the context's memory on the host is; its size makes room for a page for every unit and 16
/// MiB of data.
pub const HOST: HostRegion = HostRegion { address: 0x1_0000_0000, bytes: (16 << 20) + (64 << 12) };

/// Cycles between looks at what handlers ask the host; answers are not faster.
const ANSWER_SLICE: u64 = 50;
/// Counters of an image.
const COUNTERS: u32 = 16;

/// A simulation's subject.
pub struct Simulation<'a> {
    pub machine: &'a Machine,
    pub image: &'a Image,
    pub handlers: Handlers,
    /// Selects frames that come without a message.
    pub ruleset: Option<Ruleset>,
    pub options: Options,
    pub host: HostProgram,
    /// What the handlers' memory holds at the beginning.
    pub memory: &'a [u8],
}

/// The program on the host that answers requests of handlers (`fpspin_host_req`). Times are the
/// NIC's cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostProgram {
    /// There is none.
    #[default]
    Absent,
    /// It answers so long after a request has reached its memory.
    After(u64),
    /// It has work of its own, looks for requests after each piece of it, and answers what it
    /// finds.
    Works { work: u64, look: u64, answer: u64 },
}

/// A packet whose memory was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    pub user: u64,
    pub bytes: u32,
    pub times: Times,
}

/// Results of a simulation.
#[derive(Debug, Default)]
pub struct Simulated {
    pub handlers: Vec<Record>,
    pub freed: Vec<Freed>,
    /// Time and bytes of frames sent.
    pub sent: Vec<(u64, Vec<u8>)>,
    pub to_host: u64,
    /// Times and sizes of writes to the host.
    pub host_writes: Vec<(u64, u32)>,
    pub faults: Vec<Fault>,
    pub dropped: Vec<Dropped>,
    pub abandoned: u64,
    /// Units and what their handlers printed, by line.
    pub printed: Vec<(usize, String)>,
    pub stats: Stats,
    pub messages: messages::Counts,
    /// Counters that handlers added to (`push_counter`): number, how often, sum.
    pub counters: Vec<(usize, u32, u32)>,
    /// Cycles of the host's own work, and of looking for requests and answering them.
    pub host_work: u64,
    pub host_polling: u64,
    /// Cycles until nothing was left to do.
    pub cycles: u64,
}

impl Simulated {
    /// The share of its time that the host has for its own work, T_MM / (T_MM + T_Poll), if it has
    /// any.
    pub fn overlap(&self) -> Option<f64> {
        let all = self.host_work + self.host_polling;
        (self.host_work > 0).then(|| self.host_work as f64 / all as f64)
    }
}

/// Handlers by the endings of their names: the first function each that ends in `_hh`, `_ph`,
/// `_th`.
pub fn handlers_of(image: &Image) -> Handlers {
    let named = |ending: &str| {
        image
            .symbols
            .iter()
            .find(|symbol| symbol.name.ends_with(ending))
            .map(|symbol| symbol.name.clone())
    };
    Handlers { header: named("_hh"), payload: named("_ph"), completion: named("_th") }
}

/// Runs frames through the NIC until nothing is left to do.
///
/// # Errors
/// The image cannot be set up on the machine.
pub fn simulate(simulation: &Simulation, arrivals: Vec<Arrival>) -> Result<Simulated, NicError> {
    let engine = Box::new(Iss::new(simulation.machine, simulation.options.slice));
    simulate_with(simulation, engine, arrivals)
}

/// Simulates with handlers run by another engine.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with(
    simulation: &Simulation,
    engine: Box<dyn Engine>,
    arrivals: Vec<Arrival>,
) -> Result<Simulated, NicError> {
    let host = Box::new(SparseMemory::default());
    let nic = Nic::with_engine(simulation.machine, simulation.options.clone(), host, engine);
    simulate_on(simulation, nic, arrivals)
}

/// Simulates on a NIC that has no contexts yet.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_on(
    simulation: &Simulation,
    mut nic: Nic,
    arrivals: Vec<Arrival>,
) -> Result<Simulated, NicError> {
    let mut context = Context::new(simulation.image, simulation.handlers.clone());
    context.ruleset = simulation.ruleset;
    context.host = HOST;
    context.scratchpad = 64 << 10;
    nic.add_context(context)?;
    let memory = nic.handler_memory(0)?;
    nic.write(0, memory.start, simulation.memory)?;
    let began = nic.now();
    for mut arrival in arrivals {
        arrival.time += began;
        nic.arrive(arrival);
    }
    let mut simulated = Simulated::default();
    match simulation.host {
        HostProgram::Absent => nic.run_until(Until::Idle),
        HostProgram::After(delay) => {
            while !nic.is_idle() {
                nic.run_until(Until::Cycle(nic.now() + ANSWER_SLICE));
                for request in requests(&mut nic, simulation, &mut simulated) {
                    answer(&mut nic, simulation, request, request.time + delay)?;
                }
            }
        }
        HostProgram::Works { work, look, answer: each } => {
            let mut time = nic.now();
            while !nic.is_idle() {
                time += work.max(1);
                simulated.host_work += work.max(1);
                nic.run_until(Until::Cycle(time));
                let found = requests(&mut nic, simulation, &mut simulated);
                let polling = look + each * found.len() as u64;
                simulated.host_polling += polling;
                for (at, request) in found.into_iter().enumerate() {
                    answer(&mut nic, simulation, request, time + look + each * (at as u64 + 1))?;
                }
                time += polling;
            }
        }
    }
    for out in nic.take_out() {
        collect(&mut simulated, out);
    }
    simulated.stats = nic.stats().clone();
    simulated.messages = nic.message_counts();
    simulated.cycles = nic.now() - began;
    simulated.counters = counters(&nic, simulation);
    Ok(simulated)
}

/// A request: the flag that a unit wrote to its page, and when that got there.
#[derive(Clone, Copy)]
struct Request {
    time: u64,
    hpu: u64,
    flag: [u8; 8],
}

/// Requests since the last call; all else that came out is collected.
fn requests(nic: &mut Nic, simulation: &Simulation, simulated: &mut Simulated) -> Vec<Request> {
    const PAGE: u64 = 4096;
    let mut found = Vec::new();
    for out in nic.take_out() {
        if let Out::HostWritten { time, address, bytes: 8, .. } = out {
            let offset = address - HOST.address;
            let hpu = offset / PAGE;
            if offset.is_multiple_of(PAGE) && hpu < simulation.machine.hpus() as u64 {
                let mut flag = [0; 8];
                nic.host().read(address, &mut flag);
                found.push(Request { time, hpu, flag });
            }
        }
        collect(simulated, out);
    }
    found
}

/// Answers a request: its flag goes back to the NIC.
fn answer(
    nic: &mut Nic,
    simulation: &Simulation,
    request: Request,
    time: u64,
) -> Result<(), NicError> {
    let flags = simulation.image.symbol("__host_data").map_or(0, |symbol| symbol.address);
    nic.write_at(time, 0, flags + 8 * request.hpu as u32, &request.flag)
}

/// What `__host_data` counts, behind a flag for each unit: pairs of a sum and how often something
/// was added.
fn counters(nic: &Nic, simulation: &Simulation) -> Vec<(usize, u32, u32)> {
    let Some(data) = simulation.image.symbol("__host_data") else { return Vec::new() };
    let at = data.address + 8 * simulation.machine.hpus() as u32;
    let Ok(bytes) = nic.read(0, at, COUNTERS * 8) else { return Vec::new() };
    let word = |four: &[u8]| u32::from_le_bytes(four.try_into().unwrap_or_default());
    let counters = bytes.chunks_exact(8).map(|pair| (word(&pair[4..]), word(&pair[..4])));
    counters
        .enumerate()
        .map(|(at, (count, sum))| (at, count, sum))
        .filter(|(_, count, _)| *count > 0)
        .collect()
}

fn collect(into: &mut Simulated, out: Out) {
    match out {
        Out::Sent { time, frame, .. } => into.sent.push((time, frame)),
        Out::ToHost { .. } => into.to_host += 1,
        Out::HostWritten { time, bytes, .. } => into.host_writes.push((time, bytes)),
        Out::Handler(record) => into.handlers.push(record),
        Out::Feedback { user, bytes, times, .. } => into.freed.push(Freed { user, bytes, times }),
        Out::Fault(fault) => into.faults.push(fault),
        Out::Stdout { hpu, text, .. } => into.printed.push((hpu, text)),
        Out::Dropped { why, .. } => into.dropped.push(why),
        Out::Abandoned { .. } => into.abandoned += 1,
    }
}

/// Bits per second between the first and the last of several events with bytes each; `None` for
/// fewer than two times.
pub fn throughput(events: impl Iterator<Item = (u64, u64)>, cycle_ns: f64) -> Option<f64> {
    let events: Vec<(u64, u64)> = events.collect();
    let first = events.iter().map(|event| event.0).min()?;
    let last = events.iter().map(|event| event.0).max()?;
    let bytes: u64 = events.iter().map(|event| event.1).sum();
    // The first one's bytes came before the time that is measured.
    let before = events.iter().find(|event| event.0 == first).map_or(0, |event| event.1);
    (last > first)
        .then(|| (bytes - before) as f64 * 8.0 / ((last - first) as f64 * cycle_ns * 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_leaves_out_what_came_before_the_first_time() {
        let rate = throughput([(100, 64), (228, 64)].into_iter(), 1.0).unwrap();
        assert!((rate - 4e9).abs() < 1.0, "{rate}");
        assert_eq!(throughput([(100, 64)].into_iter(), 1.0), None);
        assert_eq!(throughput([(100, 64), (100, 64)].into_iter(), 1.0), None);
    }
}
