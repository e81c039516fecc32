//! Questions to modules beside the pipe, which know the whole of a packet: what its payload adds up
//! to (`nf_prefix_sum`), and bytes at any place of it (`nf_frame_bytes`), and to copies of tables'
//! byte strings (also `nf_frame_bytes`).
//!
//! A question is a place in the packet's frame, and its answer is there some stages later, a
//! question each cycle. Each module has a copy of the packet buffer; questions of one kind on ways
//! that exclude each other share one, as keys of tables share a port.

use super::super::super::device::{BLOCKS, MEMORY_BITS, kib};
use super::super::super::{ADDRESS_BITS, SLOT_LINES};
use super::super::exclusive::{exclude, select};
use super::super::ports::stateful;
use super::*;
use crate::c::names::Names;

/// Kinds of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// What the bytes from byte `start` of the frame up to the place add up to, `{even, odd}`.
    Sum { start: u32 },
    /// So many bytes from the place on, the first one lowest; 64 at most.
    Bytes(u32),
    /// Bytes of the strings in memory number `memory`: the place is a line of theirs and a byte of
    /// it.
    Stored { memory: u64, bytes: u32 },
}

/// Questions that designs have at most, whatever their packet buffer: names that are kept for them.
pub const MOST: usize = BLOCKS / 16 - 1;

/// Bits of a place in strings: a line, and a byte of it.
pub const STORED_BITS: u32 = ADDRESS_BITS + 6;

/// Width of a sum's answer: two sums.
pub const SUM_BITS: u32 = 36;

impl What {
    /// Width of an answer.
    pub fn bits(self) -> u32 {
        match self {
            What::Sum { .. } => SUM_BITS,
            What::Bytes(bytes) | What::Stored { bytes, .. } => 8 * bytes,
        }
    }

    /// How many bytes of a packet an answer is, if it is any.
    pub fn bytes(self) -> Option<u32> {
        match self {
            What::Sum { .. } | What::Stored { .. } => None,
            What::Bytes(bytes) => Some(bytes),
        }
    }

    /// Of strings, the number of their memory, and how many bytes an answer is.
    pub fn stored(self) -> Option<(u64, u32)> {
        match self {
            What::Stored { memory, bytes } => Some((memory, bytes)),
            What::Sum { .. } | What::Bytes(_) => None,
        }
    }

    /// Bits of a place.
    pub fn place_bits(self) -> u32 {
        if self.stored().is_some() { STORED_BITS } else { 16 }
    }

    /// Cycles from a question to its answer, as the module's head says.
    pub fn latency(self) -> u32 {
        match self {
            What::Sum { .. } => 7,
            What::Bytes(_) | What::Stored { .. } => 5,
        }
    }

    /// Ending of the name of the answer's signal.
    pub fn field(self) -> &'static str {
        match self {
            What::Sum { .. } => "sums",
            What::Bytes(_) | What::Stored { .. } => "bytes",
        }
    }
}

/// A question that some packets ask.
#[derive(Clone, Debug)]
pub struct Question {
    /// The answer, which is a wire whose value is the place.
    pub name: String,
    pub what: What,
    /// What is known wherever it is asked.
    pub given: Vec<Given>,
    span: Span,
}

impl Walk<'_, '_, '_> {
    /// The answer to a question about a place.
    pub(super) fn ask(&mut self, way: &Way, what: What, place: &str) -> String {
        let (given, span) = (self.given(way), self.span);
        let dag = &mut *self.dag;
        let same = |asked: &&mut Question| {
            asked.what == what
                && dag.wires.iter().any(|wire| wire.name == asked.name && wire.value == place)
        };
        if let Some(asked) = dag.asked.iter_mut().find(same) {
            asked.given.push(given);
            return mark(&asked.name);
        }
        let name = self.low.fresh(wanted(what));
        self.put(&name, what.bits(), place.to_string(), 0);
        self.dag.asked.push(Question { name: name.clone(), what, given: vec![given], span });
        mark(&name)
    }
}

fn wanted(what: What) -> &'static str {
    match what {
        What::Sum { .. } => "payload_sum",
        What::Bytes(_) => "far_bytes",
        What::Stored { .. } => "stored",
    }
}

/// Lets questions of one kind on ways that exclude each other share a module.
pub fn share(dag: &mut Dag, names: &mut Names) {
    let stateful = stateful(dag);
    let mut groups: Vec<Vec<Question>> = Vec::new();
    for mut asked in std::mem::take(&mut dag.asked) {
        // What tells the ways apart must be known before any table answers.
        let early = |atom: &String| !used(atom).any(|name| stateful.contains(name));
        asked.given = asked
            .given
            .into_iter()
            .map(|given| given.into_iter().filter(early).collect())
            .collect();
        let joins = |group: &Vec<Question>| {
            group.iter().all(|other| {
                other.what == asked.what
                    && !stateful.contains(&other.name)
                    && exclude(&asked.given, &other.given)
            })
        };
        let known = if stateful.contains(&asked.name) {
            None
        } else {
            groups.iter_mut().find(|group| joins(group))
        };
        match known {
            Some(group) => group.push(asked),
            None => groups.push(vec![asked]),
        }
    }
    for group in groups {
        let [first, rest @ ..] = &group[..] else { continue };
        if rest.is_empty() {
            dag.asked.push(first.clone());
            continue;
        }
        let ways: Vec<Vec<Given>> = group.iter().map(|asked| asked.given.clone()).collect();
        let conditions = select(&ways).unwrap_or_default();
        let [place, answer] = ["place", wanted(first.what)].map(|name| names.fresh(name));
        let mut text = String::new();
        for (at, asked) in group.iter().enumerate() {
            let Some(wire) = dag.wires.iter_mut().find(|wire| wire.name == asked.name) else {
                continue;
            };
            let to = std::mem::replace(&mut wire.value, mark(&answer));
            match conditions.get(at) {
                Some(condition) => text.push_str(&format!("({condition}) ? {to} : ")),
                None => text.push_str(&to),
            }
        }
        let delay = timing::mux(2 * group.len() as u32 - 1).max(timing::CHOOSE);
        dag.wires.push(Wire {
            name: place.clone(),
            width: first.what.place_bits(),
            value: text,
            delay,
        });
        dag.wires.push(Wire {
            name: answer.clone(),
            width: first.what.bits(),
            value: mark(&place),
            delay: 0,
        });
        dag.asked.push(Question {
            name: answer,
            what: first.what,
            given: Vec::new(),
            span: first.span,
        });
    }
}

/// Checks that the device has block memories for that many copies of a packet buffer of so many
/// slots, and of byte strings.
pub fn room(asked: &[Question], slots: u32, tables: &[TableForm]) -> Result<(), NoPipe> {
    stored_room(asked, tables)?;
    let asked: Vec<&Question> =
        asked.iter().filter(|asked| asked.what.stored().is_none()).collect();
    // As words of 72 bits, 512 of them in each.
    let blocks = ((slots * SLOT_LINES).div_ceil(512) * 8) as usize;
    // The packet buffer itself is as large as a copy.
    let most = BLOCKS / blocks - 1;
    if let Some(one) = asked.get(most) {
        let reason = format!(
            "a packet needs {} sums of payload or values from anywhere in it at once, each with a copy of the packet buffer in {blocks} block \
             memories; the device has {BLOCKS}, for {most} of them",
            asked.len()
        );
        return Err(NoPipe { reason, span: one.span });
    }
    Ok(())
}

/// Checks that it has memory for as many copies of byte strings as they are read from at once.
fn stored_room(asked: &[Question], tables: &[TableForm]) -> Result<(), NoPipe> {
    let bits = |memory: u64| {
        let own = tables
            .iter()
            .find(|form| form.bytes.as_ref().is_some_and(|store| store.memory == memory));
        own.map_or(0, |form| 512 * u64::from(form.pipe_lines()))
    };
    let mut all: u64 = tables.iter().map(|form| form.pipe_memory_bits(1)).sum();
    let read: Vec<(&Question, u64)> =
        asked.iter().filter_map(|asked| Some((asked, bits(asked.what.stored()?.0)))).collect();
    for (asked, bits) in &read {
        all += bits;
        if all > MEMORY_BITS {
            let reason = format!(
                "bytes of strings in tables are read at {} places at once, each with a copy of {} KiB and the like, {} KiB with all tables; \
                 the device has {} KiB",
                read.len(),
                kib(*bits),
                kib(all),
                kib(MEMORY_BITS)
            );
            return Err(NoPipe { reason, span: asked.span });
        }
    }
    Ok(())
}

/// Stages that answers are behind their questions, by name.
pub fn latencies(asked: &[Question]) -> HashMap<String, u32> {
    asked.iter().map(|asked| (asked.name.clone(), asked.what.latency())).collect()
}
