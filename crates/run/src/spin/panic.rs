//! Runs a program on cores behind a central scheduler.

use nicforge_codegen::spin::Cores;
use nicforge_ir::{Entry, Input, InputEvent, Output, Program, TableId};
use nicforge_spin::panic::{Config, Message, Panic, Service, map};

use super::cores::{CoresError, CoresRun, Outputs, Stay, event_bytes, takes};
use super::image::stack_bytes;
use super::program::CoresProgram;
use super::steer::Steering;
use super::table::word;
use super::tables::{Room, Rooms, Source, Worker, place};
use crate::dpdk::Departure;

/// Bytes in front of every message, and of every output (`runtime/riscv/panic/nf_port.h`).
const HEAD: usize = 56;
const OUTPUT: usize = 16;

/// A message with an input event. What follows the head lies at multiples of 8.
fn message(program: &Program, context: u32, number: usize, event: &InputEvent) -> Vec<u8> {
    let (port, frame, params) = match &event.input {
        // The packet is the only parameter: a pointer.
        Input::Net { port, frame, .. } => (*port, &frame[..], &[0; 8][..]),
        aside => (0, &[][..], aside.bytes()),
    };
    let id = program.event_named(event.input.event()).map_or(u32::MAX, |event| event.as_u32());
    let mut bytes = Vec::with_capacity(HEAD + frame.len() + params.len() + 16);
    for word in [number as u32, id, port, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for word in [event.time_ns, event.seed, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for word in [0, params.len() as u32, frame.len() as u32, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for part in [frame, params] {
        bytes.extend(part);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.resize(bytes.len() + context as usize, 0);
    bytes
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
    let config = Config::from_target(app.target())?;
    let layouts = app.layouts()?;
    let base = &app.artifact().base;
    let stages = &base.pipeline.stages;
    let services: Vec<Service> = app
        .images()
        .zip(stages)
        .map(|(image, stage)| Service { image, cores: stage.replicas as usize })
        .collect();
    let mut machine = Panic::new(&config, &services)?;

    let (mut workers, mut near) = (Vec::new(), Vec::new());
    for (stage, service) in services.iter().enumerate() {
        let local = service.image.segments.iter().filter(|segment| segment.address < map::PROGRAM);
        let end = local.map(|segment| segment.address + segment.size).max().unwrap_or(map::LOCAL);
        for _ in 0..service.cores {
            workers.push(Worker { stage, near: workers.len() });
            near.push(Room {
                name: format!("the memory of core {}", near.len()),
                free: end..map::LOCAL + config.local_bytes - stack_bytes(Cores::Panic),
            });
        }
    }
    let far = |core| Room {
        name: format!("the DRAM of core {core}"),
        free: map::DRAM..map::DRAM + config.dram_bytes,
    };
    let far = if config.dram_bytes > 0 { (0..near.len()).map(far).collect() } else { Vec::new() };
    let mut rooms = Rooms { near, far, is_near: app.is_near() };
    let source = Source { program: app.program(), artifact: base, workers: &workers, entries };
    let placed = place(&source, &layouts, &mut rooms)
        .map_err(|source| CoresError::Place { target: app.target().name.clone(), source })?;
    for (core, address, bytes) in &placed.writes {
        machine.write(*core, *address, bytes)?;
    }
    for (number, worker) in workers.iter().enumerate() {
        let symbol =
            services[worker.stage].image.symbol("nf_worker_at").map(|symbol| symbol.address);
        let at =
            symbol.ok_or(CoresError::Internal("an image has no `nf_worker_at`".to_string()))?;
        machine.write(number, at, &placed.blocks[number].to_le_bytes())?;
    }

    let mut steering = Steering::new(app.program(), &base.pipeline);
    let mut time = 0.0;
    for (number, event) in events.iter().enumerate() {
        let Some((stage, bits)) = steering.bits_of(&event.input) else { continue };
        let bytes = event_bytes(event);
        if !takes(event) {
            return Err(CoresError::Long { event: number + 1, bytes: bytes.len() });
        }
        let service = stage as u32;
        let packed = message(app.program(), base.pipeline.context.bytes, number, event);
        time += (bytes.len() as f64 + f64::from(config.line_overhead)) / config.line_rate;
        machine.arrive(time as u64, Message { service, bits, bytes: packed });
    }
    machine.run()?;

    let stays = machine.take_stays().into_iter();
    let stays = stays
        .map(|stay| Stay { event: stay.tag as usize, worker: stay.core, cycles: stay.cycles })
        .collect();
    let mut result = CoresRun { stays, end: machine.now(), ..CoresRun::default() };
    let mut outputs = Outputs::new(events.len());
    let told = if app.tells_outputs() { machine.take_out() } else { Vec::new() };
    for out in told {
        let (event, number) = (word(&out.bytes, 0), word(&out.bytes, 4));
        let argument = u64::from(word(&out.bytes, 8)) | u64::from(word(&out.bytes, 12)) << 32;
        let bytes = out.bytes.get(OUTPUT..).unwrap_or_default().to_vec();
        if let Some(output) = app.output(out.to, argument, bytes)? {
            if let Output::Send { port, frame } = &output {
                let departure =
                    Departure { event: event as usize, port: *port, frame: frame.clone() };
                result.run.departures.push(departure);
            }
            outputs.add(event, number, output)?;
        }
    }
    result.run.outputs = outputs.sorted();
    let mut read =
        |core, at, size| machine.read(core, at, size).map(<[u8]>::to_vec).unwrap_or_default();
    app.collect(&mut result.run, &source, &layouts, &placed, &mut read);
    result.sum_up();
    Ok(result)
}
