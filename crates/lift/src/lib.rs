//! BPF objects as programs: from eBPF instructions to αIR.
//!
//! `isa` reads the object; [`walk`] follows the chosen program from its first instruction with what
//! is known instead of what is, and writes αIR as it goes. Registers and stack slots become SSA
//! values, map lookups become table ops, packet pointers become offsets, and what the program
//! returns becomes an event or a drop. Whatever has no meaning here is refused by name, with the
//! instruction and the source line.
//!
//! Interface index n is port n − 1: what the kernel's test run calls interface 1 is port 0. A
//! program runs as if alone on one processor, so per-CPU maps are plain tables.
//!
//! Architecture invariant: nothing here knows a target, a file or the operating system.

mod arithmetic;
mod bytes;
mod calls;
mod emit;
mod error;
mod flow;
mod helpers;
mod join;
mod layout;
mod lines;
mod maps;
mod memory;
mod packets;
mod state;
mod value;
mod verdict;
mod walk;

use std::collections::BTreeSet;

use nicforge_ir::{Direction, Event, Handler, Param, Program, Span, Type};
use nicforge_isa::object::{self, Object};

pub use error::LiftError;
pub use nicforge_isa::object::is_elf;
pub use packets::packets;

use error::Halt;
use flow::Flow;
use lines::Lines;
use state::State;
use walk::{Lifter, Stops};

/// How often the walk begins again with ways kept apart.
const MOST_ATTEMPTS: usize = 64;
/// Stack of the thread that walks, which goes as deep as branches are nested.
const STACK_BYTES: usize = 512 << 20;

/// What to lift.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the αIR program.
    pub name: String,
    /// The program of the object, by the name of its function or section.
    pub program: Option<String>,
}

/// A lifted program and what it was.
#[derive(Debug)]
pub struct Lifted {
    pub program: Program,
    /// Name of the BPF function.
    pub function: String,
    /// The BPF program.
    pub source: object::Program,
    /// Names of the maps that tables stand for, in the tables' order.
    pub maps: Vec<String>,
}

/// Programs of an object: function and section.
///
/// # Errors
/// The object cannot be read.
pub fn programs(bytes: &[u8]) -> Result<Vec<(String, String)>, LiftError> {
    let object = object::parse(bytes)?;
    Ok(object.programs.into_iter().map(|p| (p.name, p.section)).collect())
}

/// Lifts one program of an object.
///
/// # Errors
/// See [`LiftError`].
pub fn lift(bytes: &[u8], options: &Options) -> Result<Lifted, LiftError> {
    let object = object::parse(bytes)?;
    let chosen = choose(&object, options.program.as_deref())?;
    std::thread::scope(|scope| {
        let walk = || one(&object, chosen, options);
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, walk);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(found)) => found,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(refused(&object.programs[chosen].name, "", "no memory for its stack")),
        }
    })
}

/// The program meant.
fn choose(object: &Object, wanted: Option<&str>) -> Result<usize, LiftError> {
    let programs = &object.programs;
    let names: Vec<String> =
        programs.iter().map(|p| format!("{} (section {})", p.name, p.section)).collect();
    let names = names.join(", ");
    if programs.is_empty() {
        return Err(LiftError::Empty);
    }
    let Some(wanted) = wanted else {
        return if programs.len() == 1 { Ok(0) } else { Err(LiftError::Several { names }) };
    };
    let by_name = programs.iter().position(|p| p.name == wanted);
    let by_section = || programs.iter().position(|p| p.section == wanted);
    by_name
        .or_else(by_section)
        .ok_or_else(|| LiftError::Unknown { wanted: wanted.to_string(), names })
}

fn refused(program: &str, place: &str, reason: &str) -> LiftError {
    LiftError::Refused {
        program: program.to_string(),
        place: place.to_string(),
        reason: reason.to_string(),
    }
}

fn one(object: &Object, chosen: usize, options: &Options) -> Result<Lifted, LiftError> {
    let source = &object.programs[chosen];
    let name = &source.name;
    if !source.section.contains("xdp") && !object_is_plain(&source.section) {
        let reason = format!("section `{}` is no XDP program", source.section);
        return Err(refused(name, "", &reason));
    }
    let flow = Flow::of(&source.insns).map_err(|reason| refused(name, "", &reason))?;
    let mut apart = BTreeSet::new();
    for _ in 0..MOST_ATTEMPTS {
        let mut program = Program::new(&layout::identifier(&options.name));
        let lines = Lines::of(&source.lines, &mut program);
        let event = program.events.push(Event {
            name: "net_recv".to_string(),
            direction: Direction::In,
            params: vec![Param { name: "pkt".to_string(), ty: Type::Packet, borrowed: false }],
            zeros: 0,
            period: None,
        });
        let mut lifter = Lifter::new(object, &source.insns, (&flow, &lines), &apart, program);
        let ended = lifter.walk(0, State::start(), &Stops::never());
        let here = lifter.here;
        match ended {
            Ok(_) => {}
            Err(Halt::Split(meeting)) => {
                if !apart.insert(meeting) {
                    let place = lines.describe(here);
                    return Err(refused(name, &place, "ways that differ in kinds of pointers"));
                }
                continue;
            }
            Err(Halt::Refused(reason)) => {
                return Err(refused(name, &lines.describe(here), &reason));
            }
        }
        let Lifter { mut program, mut body, tables, .. } = lifter;
        body.compact();
        let mut maps: Vec<_> = tables.iter().map(|(map, known)| (known.table, *map)).collect();
        maps.sort_unstable();
        let maps = maps.into_iter().map(|(_, map)| object.maps[map].name.clone()).collect();
        program.handlers.push(Handler {
            name: "net_recv".to_string(),
            event,
            body,
            max_replicas: None,
            unordered: false,
            side: None,
            room: None,
            span: Span::default(),
        });
        return Ok(Lifted { program, function: name.clone(), source: source.clone(), maps });
    }
    Err(refused(name, "", &format!("ways differ at more than {MOST_ATTEMPTS} meetings")))
}

/// Sections whose name says nothing about what they are for.
fn object_is_plain(section: &str) -> bool {
    matches!(section, "prog" | ".text")
}
