//! Runs a program on a simulated sPIN NIC.

use nicforge_codegen::spin::rules::Rules;
use nicforge_ir::{Entry, Input, InputEvent, Output, TableId};
use nicforge_isa::object::riscv::Image;
use nicforge_spin::machine::{Machine, map};
use nicforge_spin::matching::{Engine, Matched, Mode, Place, Rule, Ruleset, Test};
use nicforge_spin::nic::{
    Arrival, Context, Full, Handlers, HostRegion, Nic, Options, Out, SparseMemory, Until,
};

use super::cores::{CoresError, CoresRun, Outputs, Stay, event_bytes, takes};
use super::program::CoresProgram;
use super::steer::Steering;
use super::table::word;
use super::tables::{Room, Rooms, Source, Worker, place};
use crate::dpdk::Departure;

/// Where the host's memory for outputs begins, and how much of it there is: a ring that no run here
/// goes around.
const HOST: u64 = 0x1_0000_0000;
const HOST_BYTES: u32 = 0xc000_0000;
/// Bytes behind every frame that comes in.
const ARRIVAL: usize = 22;
/// Bytes in front of every output to the host, and behind every frame that leaves.
const RECORD: usize = 32;
const DEPARTURE: usize = 16;

/// In place of a port, for a message of the host.
const FROM_HOST: u8 = 0xff;
/// Workers are told by a byte.
const WORKERS: usize = 256;

/// Rules of a program for the matching engine.
fn ruleset(rules: &Rules) -> Ruleset {
    let mut select = [Test::ALWAYS; 3];
    for (place, rule) in select.iter_mut().zip(&rules.words) {
        *place = Test::Word(Rule::equal(rule.word, rule.mask, rule.value));
    }
    Ruleset { mode: Mode::And, select, last: Test::NEVER, message: Place::HARDWARE }
}

/// The image of the one stage.
fn image_of(app: &CoresProgram) -> Result<&Image, CoresError> {
    app.images().next().ok_or(CoresError::Internal("there is no image".to_string()))
}

/// Runs input events in order.
///
/// # Errors
/// See [`CoresError`].
pub fn run(
    app: &CoresProgram,
    events: &[InputEvent],
    entries: &[(TableId, Entry)],
) -> Result<CoresRun, CoresError> {
    let machine = Machine::from_target(app.target())?;
    let image = image_of(app)?;
    let layouts = app.layouts()?;
    let base = &app.artifact().base;
    let replicas = base.pipeline.workers() as usize;
    let have = machine.queues.min(WORKERS);
    if replicas > have {
        let target = app.target().name.clone();
        return Err(CoresError::Queues { target, wanted: replicas, have });
    }
    let clusters = machine.clusters;
    let workers: Vec<Worker> =
        (0..replicas).map(|number| Worker { stage: 0, near: number % clusters }).collect();
    let data_end = image
        .segments
        .iter()
        .filter(|segment| segment.address >> 24 == map::L2 >> 24)
        .map(|segment| segment.address + segment.size)
        .max()
        .unwrap_or(map::L2)
        .next_multiple_of(64);
    let near = |cluster: usize| {
        let start = map::L1 + cluster as u32 * map::L1_STRIDE;
        let cores = machine.cores as u32 * layouts[0].core_bytes;
        Room {
            name: format!("the memory of cluster {cluster}"),
            free: start + map::L1_SCRATCHPADS + cores..start + machine.l1_bytes,
        }
    };
    let far =
        Room { name: "handler memory".to_string(), free: data_end..map::L2 + machine.l2_bytes };
    let mut rooms =
        Rooms { near: (0..clusters).map(near).collect(), far: vec![far], is_near: app.is_near() };
    let source = Source { program: app.program(), artifact: base, workers: &workers, entries };
    let placed = place(&source, &layouts, &mut rooms)
        .map_err(|source| CoresError::Place { target: app.target().name.clone(), source })?;

    let host = Box::new(SparseMemory::default());
    // Generated handlers end, but may take long: six seals of a large packet, over 4 million
    // cycles.
    let watchdog = Some(1_000_000_000);
    let options = Options { full: Full::Wait, watchdog, ..Options::default() };
    let mut nic = Nic::new(&machine, options, host);
    let handlers = Handlers { payload: Some("nf_payload".to_string()), ..Handlers::default() };
    let rules = ruleset(&app.artifact().rules);
    let mut engine = Engine::default();
    engine.rulesets[0] = Some(rules);
    nic.add_context(Context {
        handler_memory: Some(data_end..map::L2 + machine.l2_bytes),
        host: HostRegion { address: HOST, bytes: HOST_BYTES },
        scratchpad: machine.l1_bytes - map::L1_SCRATCHPADS,
        ruleset: Some(rules),
        serial: true,
        ..Context::new(image, handlers)
    })?;
    for (_, address, bytes) in &placed.writes {
        nic.write(0, *address, bytes)?;
    }
    let symbol = |name: &str| {
        let found = image.symbol(name).map(|symbol| symbol.address);
        found.ok_or_else(|| CoresError::Internal(format!("the image has no `{name}`")))
    };
    let list = symbol("nf_worker_at")?;
    for (number, at) in placed.blocks.iter().enumerate() {
        nic.write(0, list + 4 * number as u32, &at.to_le_bytes())?;
    }

    let mut steering = Steering::new(app.program(), &base.pipeline);
    let (mut time, rate) = (0.0, machine.line_rate.unwrap_or(64.0));
    for (number, event) in events.iter().enumerate() {
        let Some((_, worker)) = steering.worker(&event.input) else { continue };
        if !takes(event) {
            return Err(CoresError::Long { event: number + 1, bytes: event_bytes(event).len() });
        }
        let port = match &event.input {
            Input::Net { port, .. } => *port as u8,
            Input::Host { .. } | Input::Tick { .. } => FROM_HOST,
        };
        let bytes = event_bytes(event);
        let mut frame = bytes.to_vec();
        frame.extend(event.time_ns.to_le_bytes());
        frame.extend(event.seed.to_le_bytes());
        frame.extend((number as u32).to_le_bytes());
        frame.extend([port, worker as u8]);
        // Rules say nothing of frames that end before what they compare, and ports pad those
        // anyway.
        let decided = port != FROM_HOST && bytes.len() >= app.artifact().rules.least as usize;
        let wanted = !decided || engine.find(bytes).is_some();
        let matched = wanted.then_some(Matched { context: 0, message: worker, last: false });
        nic.arrive(Arrival {
            time: time as u64,
            frame,
            matched,
            copied: None,
            user: number as u64,
        });
        time += (bytes.len() + machine.line_overhead as usize) as f64 / rate;
    }
    nic.run_until(Until::Idle);

    let mut result = CoresRun { end: nic.now(), ..CoresRun::default() };
    let mut outputs = Outputs::new(events.len());
    let mut lost = 0;
    for out in nic.take_out() {
        match out {
            Out::Sent { mut frame, .. } if app.tells_outputs() && frame.len() >= DEPARTURE => {
                let tail = frame.split_off(frame.len() - DEPARTURE);
                let (event, number, port) = (word(&tail, 0), word(&tail, 4), word(&tail, 8));
                result.run.departures.push(Departure {
                    event: event as usize,
                    port,
                    frame: frame.clone(),
                });
                outputs.add(event, number, Output::Send { port, frame })?;
            }
            Out::Handler(record) => {
                result.stays.push(Stay {
                    event: record.user as usize,
                    worker: record.message as usize,
                    cycles: record.times.ended - record.times.started,
                });
            }
            Out::ToHost { mut frame, user, .. } => {
                frame.truncate(frame.len().saturating_sub(ARRIVAL));
                result.unmatched += 1;
                outputs.add(user as u32, 0, Output::Stack { frame })?;
            }
            Out::Dropped { .. } => lost += 1,
            Out::Fault(fault) => return Err(CoresError::Internal(fault.to_string())),
            _ => {}
        }
    }
    let end = HOST + u64::from(word(nic.read(0, symbol("nf_ring_at")?, 4)?, 0));
    let mut at = HOST;
    while at < end {
        let mut head = [0; RECORD];
        nic.host().read(at, &mut head);
        let (kind, size) = (word(&head, 0), word(&head, 4));
        let argument = u64::from(word(&head, 8)) | u64::from(word(&head, 12)) << 32;
        let mut bytes = vec![0; size as usize];
        nic.host().read(at + RECORD as u64, &mut bytes);
        if let Some(output) = app.output(kind, argument, bytes)? {
            outputs.add(word(&head, 16), word(&head, 20), output)?;
        }
        at += RECORD as u64 + u64::from(size.next_multiple_of(8));
    }
    result.run.outputs = outputs.sorted();
    let mut read = |_, at, size| nic.read(0, at, size).map(<[u8]>::to_vec).unwrap_or_default();
    app.collect(&mut result.run, &source, &layouts, &placed, &mut read);
    result.sum_up();
    if let Some(worker) = result.run.stats.workers.first_mut() {
        worker.lost += lost;
    }
    Ok(result)
}
