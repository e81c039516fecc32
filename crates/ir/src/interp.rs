//! The reference interpreter: the definition of αIR's meaning.
//!
//! [`Interp::run`] takes one event from outside, runs its handler to completion, then the handlers
//! of the internal events that were generated, in the order they were generated, and gives what
//! went to outside, in order.
//!
//! Where the descriptions of the ops leave something open, this is how it is:
//!
//! * Values read from packets, byte strings and outside have their padding, and the bits above an
//!   integer's width, set to zero. A signed bit-field reads sign-extended; writing one cuts off
//!   what it has no room for.
//! * Indices and shift amounts are read as unsigned, so a negative index is beyond the end.
//! * `trim` shortens the frame for good: `reset` does not bring the bytes back.
//! * `extend` lengthens it for good, too: what `reset` brings back counts in its limit of 65535
//!   bytes.
//! * An `emit` that would make the packet longer than 65535 bytes does nothing.
//! * `dma_write` copies the first `len` bytes of the unread rest, all of it if it is shorter.
//! * A packet handed on by an internal event keeps its cursor and what was emitted.
//! * In LRU tables every op that finds or makes an entry counts as a use, and commutative ops evict
//!   as `update` does. Commutative ops that a full hash table refuses are counted like refused
//!   updates.
//! * `update` of a present key keeps the entry's byte string; a new entry's is empty. `BufGenerate`
//!   of an empty byte string sends an empty frame.
//! * There is no kernel to ask, so `fib_lookup` always fails.
//! * A run may take [`Interp::max_steps`] ops and generate as many internal events; more is an
//!   error.

pub mod arith;
pub mod bits;
mod control;
mod exec;
#[cfg(test)]
mod native_tests;
mod packet;
mod shapes;
mod step;
mod store;
mod trace;

use std::sync::Arc;

use cranelift_entity::{EntityRef, SecondaryMap};

use crate::io::{Input, InputEvent, Output};
use crate::program::{Program, ReasonId, TableId};
use crate::tables::{Entry, Match, TableBackend, TableError};
use crate::verify::{MAX_FRAME, Verified};

pub use packet::Packet;
pub use shapes::{Part, Shapes};
pub use step::{Pending, Stepped};
pub use trace::{Access, BodyOf, NoTrace, Step, Tracer};

use store::Store;

/// A value at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Val {
    /// Bits above the type's width are zero.
    Int(u64),
    /// A struct or an array.
    Bytes(Arc<[u8]>),
    /// Number of a packet of this run.
    Packet(u32),
}

/// Why an event could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpError {
    #[error("the program has no handler for `{event}`")]
    NoHandler { event: String },
    #[error("a frame of {length} bytes came in; {MAX_FRAME} are the most")]
    FrameTooLong { length: usize },
    #[error("a message of {length} bytes came in; the handler takes {expected}")]
    MessageSize { length: usize, expected: usize },
    #[error("nothing has the C function `{name}`; name the file or library with --with")]
    NoFunction { name: String },
    #[error("the run took more than {0} steps; raise the limit if that is right")]
    TooManySteps(u64),
}

/// Counters of the interpreter from its start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Frames that came in.
    pub packets: u64,
    /// Insertions that a full table refused.
    pub refused: SecondaryMap<TableId, u64>,
    pub evicted: SecondaryMap<TableId, u64>,
    pub drops: SecondaryMap<ReasonId, u64>,
}

/// An entry that an LRU table gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub table: TableId,
    pub key: Vec<u8>,
    /// The new key that took its place.
    pub by: Vec<u8>,
}

/// A program with its tables.
pub struct Interp<'p> {
    program: &'p Program,
    shapes: Shapes,
    state: State,
    /// A run that executes more ops ends with an error.
    pub max_steps: u64,
}

/// State that outlives an event.
#[derive(Clone)]
struct State {
    tables: Vec<Store>,
    counters: Counters,
    evictions: Vec<Eviction>,
    growth: usize,
}

impl<'p> Interp<'p> {
    /// The program with empty tables.
    pub fn new(program: &'p Verified<Program>) -> Interp<'p> {
        let shapes = Shapes::new(program);
        let tables =
            program.tables.values().map(|t| Store::new(t.kind, t.capacity, shapes.size(t.value)));
        let state = State {
            tables: tables.collect(),
            counters: Counters::default(),
            evictions: Vec::new(),
            growth: 0,
        };
        Interp { program, shapes, state, max_steps: 100_000_000 }
    }

    /// Another one in the same state.
    pub fn fork(&self) -> Interp<'p> {
        let shapes = Shapes::new(self.program);
        Interp {
            program: self.program,
            shapes,
            state: self.state.clone(),
            max_steps: self.max_steps,
        }
    }

    /// Entries in all tables.
    pub fn entries(&self) -> usize {
        self.state.tables.iter().map(Store::len).sum()
    }

    pub fn program(&self) -> &'p Program {
        self.program
    }

    /// Runs one event; what it sent to outside, in order.
    pub fn run(&mut self, event: &InputEvent) -> Result<Vec<Output>, InterpError> {
        self.run_traced(event, &mut NoTrace)
    }

    /// Runs one event, watched by a tracer.
    pub fn run_traced<T: Tracer + ?Sized>(
        &mut self,
        event: &InputEvent,
        tracer: &mut T,
    ) -> Result<Vec<Output>, InterpError> {
        self.state.evictions.clear();
        self.state.growth = 0;
        let name = event.input.event();
        let timer = matches!(event.input, Input::Tick { .. });
        let id = self.program.event_named(name);
        let id = id.filter(|id| self.program.events[*id].period.is_some() == timer);
        let handler = id.and_then(|event| self.program.handler_of(event));
        let handler = handler.ok_or_else(|| InterpError::NoHandler { event: name.to_string() })?;
        let mut packets = Vec::new();
        let args = match &event.input {
            Input::Net { port, frame } => {
                if frame.len() > MAX_FRAME as usize {
                    return Err(InterpError::FrameTooLong { length: frame.len() });
                }
                self.state.counters.packets += 1;
                packets.push(Some(Packet::new(frame.clone(), *port)));
                vec![Val::Packet(0)]
            }
            Input::Host { message } => {
                let params = &self.program.events[self.program.handlers[handler].event].params;
                let expected = params.iter().map(|p| self.shapes.size(p.ty)).sum();
                if message.len() != expected {
                    return Err(InterpError::MessageSize { length: message.len(), expected });
                }
                let mut rest = &message[..];
                let mut take = |ty| {
                    let (bytes, after) = rest.split_at(self.shapes.size(ty));
                    rest = after;
                    self.shapes.decode(ty, bytes)
                };
                params.iter().map(|p| take(p.ty)).collect()
            }
            Input::Tick { .. } => Vec::new(),
        };
        let mut exec =
            exec::Exec::new(self.program, &self.shapes, &mut self.state, packets, tracer);
        exec.set_event(event.time_ns, event.seed, self.max_steps);
        exec.run(handler, args)
    }

    /// Decides what full hash tables refuse during the next event: the first insertions of a new
    /// key into each table, as often as the table is named here, and no others, whatever its
    /// capacity. So what a target with several replicas refused can be repeated.
    pub fn refuse_next(&mut self, refused: &[TableId]) {
        for (at, store) in self.state.tables.iter_mut().enumerate() {
            let times = refused.iter().filter(|table| table.index() == at).count();
            store.refusing = Some(times as u32);
            store.accepting = 0;
            store.refused_keys.clear();
        }
    }

    /// Beside those of [`Interp::refuse_next`], insertions of these keys into a table are refused,
    /// each once. Keys are told by a digest: FNV-1a of 32 bits.
    pub fn refuse_keys(&mut self, table: TableId, digests: Vec<u32>) {
        self.state.tables[table.index()].refused_keys = digests;
    }

    /// Lets so many insertions of a new key into a table happen first, behind which those of
    /// [`Interp::refuse_next`] are refused.
    pub fn refuse_behind(&mut self, table: TableId, inserted: u32) {
        self.state.tables[table.index()].accepting = inserted;
    }

    /// Decides what LRU tables evict during the next event: the entries that are named here, each
    /// for the new key that took its place, in this order; other new keys take none, whatever the
    /// capacity. So what a target evicted can be repeated.
    pub fn evict_next(&mut self, evicted: &[Eviction]) {
        for (at, store) in self.state.tables.iter_mut().enumerate() {
            let here = evicted.iter().filter(|eviction| eviction.table.index() == at);
            store.evicting =
                Some(here.map(|eviction| (eviction.by.clone(), eviction.key.clone())).collect());
        }
    }

    pub fn counters(&self) -> &Counters {
        &self.state.counters
    }

    /// Bytes by which a frame of the last event grew at its head before it left, at most: what was
    /// emitted beyond what was read.
    pub fn growth(&self) -> usize {
        self.state.growth
    }

    /// Evictions of LRU tables during the last event, in order.
    pub fn evictions(&self) -> &[Eviction] {
        &self.state.evictions
    }

    fn store(&self, table: TableId) -> &Store {
        &self.state.tables[table.index()]
    }

    /// Checks key, match and value from outside against the table's types.
    fn check(
        &self,
        table: TableId,
        key: &[u8],
        matching: &Match,
        value: Option<&[u8]>,
    ) -> Result<(), TableError> {
        let def = &self.program.tables[table];
        let fail = |message: String| Err(TableError::Target { table: def.name.clone(), message });
        let size = self.shapes.size(def.key);
        if key.len() != size {
            return fail(format!("a key has {size} bytes, not {}", key.len()));
        }
        if !self.shapes.is_canonical(def.key, key) {
            return fail(
                "padding and bits above an integer's width must be zero in the key".to_string(),
            );
        }
        if let Some(value) = value {
            let size = self.shapes.size(def.value);
            if value.len() != size {
                return fail(format!("a value has {size} bytes, not {}", value.len()));
            }
            if !self.shapes.is_canonical(def.value, value) {
                return fail(
                    "padding and bits above an integer's width must be zero in the value"
                        .to_string(),
                );
            }
        }
        let kind = def.kind.name();
        use crate::program::TableKind::{Lpm, Ternary};
        match (matching, def.kind) {
            (Match::Exact, _) => Ok(()),
            (Match::Prefix(bits), Lpm) if *bits as usize <= size * 8 => Ok(()),
            (Match::Prefix(bits), Lpm) => {
                fail(format!("a prefix of {bits} bits is longer than the key"))
            }
            (Match::Mask { mask, .. }, Ternary) if mask.len() == size => Ok(()),
            (Match::Mask { mask, .. }, Ternary) => {
                fail(format!("a mask has {size} bytes, not {}", mask.len()))
            }
            (Match::Prefix(_), _) => {
                fail(format!("{kind} tables do not match prefixes; lpm tables do"))
            }
            (Match::Mask { .. }, _) => {
                fail(format!("{kind} tables do not match masks; ternary tables do"))
            }
        }
    }

    fn in_range(&self, table: TableId, key: &[u8]) -> Result<(), TableError> {
        if self.store(table).in_range(key) {
            return Ok(());
        }
        let def = &self.program.tables[table];
        let index = store::index_of(key);
        Err(TableError::OutOfRange { table: def.name.clone(), index, capacity: def.capacity })
    }
}

impl TableBackend for Interp<'_> {
    fn get(
        &self,
        table: TableId,
        key: &[u8],
        matching: &Match,
    ) -> Result<Option<Entry>, TableError> {
        self.check(table, key, matching, None)?;
        self.in_range(table, key)?;
        let with_buf = self.program.tables[table].buf.is_some();
        Ok(self.store(table).stored(key, matching).map(|slot| Entry {
            key: key.to_vec(),
            matching: matching.clone(),
            value: slot.value,
            buf: with_buf.then_some(slot.buf),
        }))
    }

    /// An entry without a byte string leaves that of a present one as it is.
    fn set(&mut self, table: TableId, entry: &Entry) -> Result<(), TableError> {
        self.check(table, &entry.key, &entry.matching, Some(&entry.value))?;
        self.in_range(table, &entry.key)?;
        let def = &self.program.tables[table];
        if let Some(buf) = &entry.buf {
            let room = def.buf.unwrap_or(0);
            if buf.len() > room as usize {
                let message = format!("a byte string of {} bytes does not fit {room}", buf.len());
                return Err(TableError::Target { table: def.name.clone(), message });
            }
        }
        match self.state.tables[table.index()].writable(&entry.key, &entry.matching) {
            Some(slot) => {
                slot.value.clone_from(&entry.value);
                if let Some(buf) = &entry.buf {
                    slot.buf.clone_from(buf);
                }
                Ok(())
            }
            None => Err(TableError::Full { table: def.name.clone(), capacity: def.capacity }),
        }
    }

    fn delete(&mut self, table: TableId, key: &[u8], matching: &Match) -> Result<bool, TableError> {
        self.check(table, key, matching, None)?;
        self.in_range(table, key)?;
        Ok(self.state.tables[table.index()].remove_stored(key, matching))
    }

    fn dump(&self, table: TableId) -> Result<Vec<Entry>, TableError> {
        Ok(self.store(table).entries(self.program.tables[table].buf.is_some()))
    }
}

#[cfg(test)]
mod tests;
