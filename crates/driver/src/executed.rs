//! Costs of packets by the eBPF that is executed for them, with a target's prices of it.

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::{Entry, Input, InputEvent, TableId};
use nicforge_isa::ebpf::world::World;
use nicforge_isa::ebpf::{Item, Processor, Tally};
use nicforge_isa::object;
use nicforge_run::compile::Mode;
use nicforge_run::xdp::{SMALLEST_FRAME, Tables, compile_bpf};
use nicforge_target::Bpf;

use crate::{Failure, Loaded, Runtime, events, program};

/// The processor of a spec's prices.
pub fn processor(bpf: &Bpf) -> Processor {
    Processor {
        width: bpf.width,
        window: bpf.window,
        load: bpf.load,
        mul: bpf.mul,
        div: bpf.div,
        atomic: bpf.atomic,
        store: bpf.store,
        branch: bpf.branch,
        taken: bpf.taken,
        call: bpf.call,
        mispredict: bpf.mispredict,
        l2: bpf.l2,
        l1_kib: bpf.l1_kib,
        between: bpf.between,
    }
}

/// Cycles of what was executed.
///
/// # Errors
/// A helper that was called has no price.
pub fn cycles(bpf: &Bpf, tally: &Tally) -> Result<f64, String> {
    let mut cycles = tally.cycles;
    for (item, times) in &tally.items {
        let (name, which) = match item {
            Item::Call(name) => (name, 0),
            Item::Unit(name) => (name, 1),
        };
        let prices = bpf.helpers.get(name).ok_or_else(|| {
            format!("`{name}` has no price in [bpf.helpers]; `nicforge targets measure` gives some")
        })?;
        cycles += times * prices[which];
    }
    Ok(cycles)
}

/// Cycles of a packet on one unit, on average over those of `events` that the kernel takes; with
/// all stages on it, without the driver's part. The packets of `before` do not count.
///
/// # Errors
/// The program has no packets or no code for the kernel, calls what has no price, or what the
/// machine of [`World`] does not have.
pub fn count(
    loaded: &Loaded,
    bpf: &Bpf,
    entries: &[(TableId, Entry)],
    before: &[InputEvent],
    events: &[InputEvent],
) -> Result<f64, Failure> {
    let compiled = program::lower(&loaded.program)?;
    let artifact = xdp::generate(&compiled, LineStyle::Directives)
        .map_err(|e| program::unsupported(&compiled, &e))?;
    let runtime = Runtime::unpack()?;
    let object =
        compile_bpf(&compiled.name, &artifact.source, Mode::Live, &runtime.target_headers("xdp"))
            .map_err(|e| Failure::of(e.fault(), e))?;
    let wrong = |why: String| Failure::user(format!("{}: {why}", compiled.name));
    let object = object::parse(&object).map_err(|e| wrong(e.to_string()))?;
    let comes = |event| compiled.events[event].name == "net_recv";
    let handler = artifact.programs.iter().find(|program| comes(program.event));
    let code = handler
        .and_then(|handler| object.programs.iter().find(|program| program.name == handler.name));
    let code = code.ok_or_else(|| wrong("it handles no packets".to_string()))?;
    let mut tables = Tables::listed(&compiled, &artifact.tables, &object.maps)
        .map_err(|e| wrong(e.to_string()))?;
    events::fill(&mut tables, entries)?;
    let mut world = World::new(code, &object.maps, processor(bpf)).map_err(wrong)?;
    for (map, key, value) in tables.entries() {
        world.install(&map, &key, &value).map_err(wrong)?;
    }
    let mut run = |events: &[InputEvent]| {
        let mut packets = 0;
        for event in events {
            if let Input::Net { frame, .. } = &event.input
                && frame.len() >= SMALLEST_FRAME
            {
                world.run(frame, event.time_ns).map_err(|fault| wrong(fault.to_string()))?;
                packets += 1;
            }
        }
        Ok::<_, Failure>((packets, world.take()))
    };
    run(before)?;
    let (packets, tally) = run(events)?;
    if packets == 0 {
        return Err(wrong("no packets to count on".to_string()));
    }
    Ok(cycles(bpf, &tally).map_err(wrong)? / f64::from(packets))
}
