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

mod alike;
mod arithmetic;
mod bytes;
mod callbacks;
mod calls;
mod carry;
mod chain;
mod context;
mod devices;
mod emit;
mod error;
mod exits;
mod few;
mod flow;
pub mod fuzz;
mod helpers;
mod host;
mod join;
mod kernel_functions;
mod keys;
mod kind;
mod layout;
mod lifter;
mod lines;
mod loops;
mod maps;
mod memory;
mod packets;
mod print;
mod rings;
mod roll;
mod sections;
mod skb;
mod split;
mod state;
mod tail_calls;
mod value;
mod verdict;
mod walk;

use std::collections::BTreeSet;

use nicforge_ir::{BlockId, Body, Direction, Event, Handler, Param, Program, Span, Type};
use nicforge_isa::object::{self, Object};

pub use chain::Chain;
pub use error::LiftError;
pub use nicforge_isa::object::is_elf;
pub use packets::packets;
pub use sections::is_taken;

use error::Halt;
use flow::Flow;
use lifter::Lifter;
use lines::Lines;
use sections::{is_tc, is_xdp};
use state::State;
use walk::Stops;

/// How often the walk begins again with ways kept apart at one place more.
const MOST_ATTEMPTS: usize = 64;
/// Stack of the thread that walks, which goes as deep as branches are nested.
const STACK_BYTES: usize = 512 << 20;

/// Choices of what to lift.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the αIR program.
    pub name: String,
    /// The program of the object, by the name of its function or section.
    pub program: Option<String>,
    /// Entries of maps whose number the loader decides; [`ENTRIES`] of those that are not named.
    pub entries: Vec<(String, u32)>,
    /// Programs in slots of program arrays: map, slot, function or section. Without the last, no
    /// slot of the map has a program.
    pub tail_calls: Vec<(String, u32, String)>,
    /// Values of global data that the loader sets.
    pub globals: Vec<(String, u64)>,
}

/// Entries of a map to which neither the object nor the user gives a number.
pub const ENTRIES: u32 = 64;

/// A lifted program and what it was.
#[derive(Debug)]
pub struct Lifted {
    pub program: Program,
    /// Name of the BPF function.
    pub function: String,
    /// The BPF program.
    pub source: object::Program,
    /// True if it is a tc program, which gets a socket buffer and returns other verdicts.
    pub is_tc: bool,
    /// Names of the maps that tables stand for, in the tables' order; empty for those that are only
    /// a part of one.
    pub maps: Vec<String>,
    /// Device hash maps that became arrays of slots: keys of 4 bytes lie in front of their values.
    pub listed: Vec<String>,
    /// Global data that is written and not zero at first, by its section: tables hold the exclusive
    /// or with it.
    pub first: Vec<(String, Vec<u8>)>,
    /// Bytes of map values that the program takes from its stack without having written them, by
    /// map: in the kernel they hold whatever was there.
    pub unwritten: Vec<(String, Vec<u32>)>,
    /// Messages to the host are all as long as the longest: zeros are behind shorter ones.
    pub fixed_messages: bool,
    /// Maps whose entries are keys and values that anybody may put there.
    pub settable: Vec<String>,
    /// Entries of every map of the object, by name.
    pub sizes: Vec<(String, u32)>,
    /// Functions in slots of program arrays, by the array's name.
    pub tail_calls: Vec<(String, u32, String)>,
    /// Global data that the loader set, whole, by its section.
    pub data: Vec<(String, Vec<u8>)>,
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
    let mut object = object::parse(bytes)?;
    let data = set(&mut object, options)?;
    let object = object;
    let chosen = choose(&object, options.program.as_deref())?;
    std::thread::scope(|scope| {
        let walk = || one(&object, chosen, options, &data);
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, walk);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(found)) => found,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(refused(&object.programs[chosen].name, "", "no memory for its stack")),
        }
    })
}

/// Sets sizes of maps and global data as the object's loader would; returns the sections that
/// changed.
///
/// # Errors
/// A map or variable that is not there, or a value that does not fit.
pub fn set(object: &mut Object, options: &Options) -> Result<Vec<(String, Vec<u8>)>, LiftError> {
    size_maps(object, options)?;
    set_globals(object, options)
}

/// Gives maps without a number of entries the one that their loader would.
fn size_maps(object: &mut Object, options: &Options) -> Result<(), LiftError> {
    for (name, count) in &options.entries {
        match object.maps.iter_mut().find(|map| map.name == *name) {
            Some(map) => map.max_entries = *count,
            None => return Err(LiftError::NoMap { name: name.clone() }),
        }
    }
    for map in object.maps.iter_mut().filter(|map| kind::has_entries(map) && map.max_entries == 0) {
        map.max_entries = ENTRIES;
    }
    Ok(())
}

/// Sets global data as its loader would: the sections that changed.
fn set_globals(
    object: &mut Object,
    options: &Options,
) -> Result<Vec<(String, Vec<u8>)>, LiftError> {
    let mut changed = BTreeSet::new();
    for (name, value) in &options.globals {
        let found = object.globals.iter().find(|global| global.name == *name);
        let found = found.ok_or_else(|| LiftError::NoGlobal { name: name.clone() })?;
        let fits = found.size <= 8 && (found.size == 8 || *value >> (8 * found.size) == 0);
        let data = &mut object.maps[found.map].data;
        let bytes = found.off.checked_add(found.size).and_then(|end| data.get_mut(found.off..end));
        let Some(bytes) = bytes.filter(|_| fits) else {
            let (name, size) = (name.clone(), found.size);
            return Err(LiftError::Global { name, size, value: *value });
        };
        bytes.copy_from_slice(&value.to_le_bytes()[..found.size]);
        changed.insert(found.map);
    }
    let one = |map: usize| (object.maps[map].name.clone(), object.maps[map].data.clone());
    Ok(changed.into_iter().map(one).collect())
}

/// The program meant.
pub fn choose(object: &Object, wanted: Option<&str>) -> Result<usize, LiftError> {
    let programs = &object.programs;
    let names: Vec<String> =
        programs.iter().map(|p| format!("{} (section {})", p.name, p.section)).collect();
    let names = names.join(", ");
    if programs.is_empty() {
        return Err(LiftError::Empty);
    }
    let Some(wanted) = wanted else {
        // Beside programs of other kinds, such as tracepoints, the one for XDP is meant, else the one
        // for tc.
        let only = |meant: &dyn Fn(&str) -> bool| {
            let mut found = programs.iter().enumerate().filter(|(_, p)| meant(&p.section));
            (found.next().map(|(at, _)| at), found.next().is_some())
        };
        return match (only(&is_xdp), only(&is_tc)) {
            ((Some(one), false), _) | ((None, _), (Some(one), false)) => Ok(one),
            ((None, _), (None, _)) if programs.len() == 1 => Ok(0),
            _ => Err(LiftError::Several { names }),
        };
    };
    let by_name = programs.iter().position(|p| p.name == wanted);
    let by_section = || programs.iter().position(|p| p.section == wanted);
    by_name
        .or_else(by_section)
        .ok_or_else(|| LiftError::Unknown { wanted: wanted.to_string(), names })
}

/// How deep regions of αIR nest below a block.
fn nesting(body: &Body, block: BlockId) -> usize {
    let insts = body.blocks[block].insts.iter();
    let inner = insts.flat_map(|inst| body.insts[*inst].op.regions());
    inner.map(|block| 1 + nesting(body, block)).max().unwrap_or(0)
}

/// Refuses bodies that nest deeper than their text can say.
fn nests(body: &Body) -> Result<(), Halt> {
    const MOST: usize = nicforge_ir::text::MAX_NESTING;
    if body.entry.is_some_and(|entry| nesting(body, entry) > MOST) {
        return error::limit(format!(
            "more than {MOST} branches within each other, as loops make that are left early"
        ));
    }
    Ok(())
}

fn refused(program: &str, place: &str, reason: &str) -> LiftError {
    LiftError::Refused {
        program: program.to_string(),
        place: place.to_string(),
        reason: reason.to_string(),
    }
}

/// Ways to follow loops of many trips.
enum Loops {
    /// Trip by trip, until that takes long.
    First,
    /// As loops of αIR. If that fails, the error is this one, or they are written out.
    Rolled(Option<LiftError>),
    /// Trip by trip, as far as the limits go.
    WrittenOut,
}

fn one(
    object: &Object,
    chosen: usize,
    options: &Options,
    data: &[(String, Vec<u8>)],
) -> Result<Lifted, LiftError> {
    let mut chain = Chain::of(object, chosen, &options.tail_calls)?;
    callbacks::write_out(&mut chain.program);
    let source = &chain.program;
    let name = &source.name;
    if sections::layout(&source.section).is_none() {
        let reason = format!("section `{}` is neither for XDP nor for tc", source.section);
        return Err(refused(name, "", &reason));
    }
    let flow =
        Flow::of(&source.insns, &chain.entries()).map_err(|reason| refused(name, "", &reason))?;
    let (mut apart, mut rolled, mut loops) = (BTreeSet::new(), BTreeSet::new(), Loops::First);
    let mut never = BTreeSet::new();
    let mut cost = 0;
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
        let mut lifter = Lifter::new(object, &chain, (&flow, &lines), (&apart, &rolled), program);
        lifter.cost = cost;
        lifter.gives_up = matches!(loops, Loops::First);
        let mut start = State::start();
        let found = if lifter.is_tc() { lifter.find_protocol(&mut start) } else { Ok(()) };
        let ended = found.and_then(|()| lifter.walk(0, start, &Stops::never()));
        let ended = ended.and_then(|_| nests(&lifter.body));
        cost = lifter.cost;
        let here = lifter.here;
        match ended {
            Ok(()) => {}
            Err(Halt::Split(meeting)) if !apart.contains(&meeting) => {
                apart.insert(meeting);
                continue;
            }
            Err(halt) => {
                let error = |reason: &str| refused(name, &lines.describe(here), reason);
                (rolled, loops) = match (halt, loops) {
                    (Halt::Limit(reason), Loops::First | Loops::WrittenOut) => {
                        let found = error(&reason);
                        let rolled = &lifter.long_loops() - &never;
                        if rolled.is_empty() {
                            return Err(found);
                        }
                        (rolled, Loops::Rolled(Some(found)))
                    }
                    (Halt::ManyTrips, _) => (lifter.long_loops(), Loops::Rolled(None)),
                    // But for those that cannot be; others show that they are long only now.
                    (halt, rolls @ Loops::Rolled(_)) => {
                        let mut all = &rolled | &lifter.long_loops();
                        if let (Halt::Refused(_), Some(header)) = (&halt, lifter.rolling.last()) {
                            never.insert(*header);
                        }
                        all.retain(|header| !never.contains(header));
                        match rolls {
                            rolls if all != rolled && !all.is_empty() => (all, rolls),
                            Loops::Rolled(Some(found)) => return Err(found),
                            _ => (BTreeSet::new(), Loops::WrittenOut),
                        }
                    }
                    (Halt::Refused(reason), _) => return Err(error(&reason)),
                    (Halt::Split(_), _) => {
                        return Err(error("ways that differ in kinds of pointers"));
                    }
                };
                apart.clear();
                continue;
            }
        }
        let listed = (0..object.maps.len()).filter(|map| lifter.is_listed(*map));
        let listed = listed.map(|map| object.maps[map].name.clone()).collect();
        let named = |map: usize| (object.maps[map].name.clone(), object.maps[map].data.clone());
        let first = (0..object.maps.len()).filter(|map| lifter.is_written(*map));
        let first = first.map(named).collect();
        let Lifter { mut program, mut body, tables, rings, unwritten, message, .. } = lifter;
        let of_map = |(map, bytes): (usize, BTreeSet<u32>)| {
            (object.maps[map].name.clone(), bytes.into_iter().collect())
        };
        let unwritten = unwritten.into_iter().map(of_map).collect();
        body.compact();
        let map =
            |(map, known): (&usize, &lifter::Known)| (known.table, object.maps[*map].name.clone());
        let mut maps: Vec<_> = tables.iter().map(map).collect();
        maps.extend(rings.into_values().map(|table| (table, String::new())));
        maps.sort_unstable();
        let maps = maps.into_iter().map(|(_, name)| name).collect();
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
        let sized = object.maps.iter().filter(|map| kind::has_entries(map));
        let sizes = sized.map(|map| (map.name.clone(), map.max_entries)).collect();
        let settable = object.maps.iter().filter(|map| kind::is_settable(map));
        let settable = settable.map(|map| map.name.clone()).collect();
        return Ok(Lifted {
            program,
            function: name.clone(),
            source: source.clone(),
            is_tc: is_tc(&source.section),
            maps,
            listed,
            first,
            unwritten,
            fixed_messages: message.is_some_and(|message| message.fixed),
            settable,
            sizes,
            tail_calls: chain.names.clone(),
            data: data.to_vec(),
        });
    }
    Err(refused(name, "", &format!("ways differ at more than {MOST_ATTEMPTS} meetings")))
}
