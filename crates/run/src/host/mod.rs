//! Programs in this process: generated C compiled to a shared object, fed with events, its outputs
//! collected.
//!
//! Events run one at a time as in the interpreter: the handler of the event from outside, then
//! those of the internal events that were generated, in that order, with the time and the random
//! stream of the event. A simulator uses the same with counting on and reads [`HostProgram::trace`]
//! after each event.

mod collect;
mod error;
pub mod ffi;
mod files;
mod library;
mod runtime;
mod step;
mod tables;

use std::collections::VecDeque;
use std::ffi::c_void;
use std::path::Path;

use nicforge_codegen::LineStyle;
use nicforge_codegen::host::{HostArtifact, generate};
use nicforge_ir::verify::MAX_FRAME;
use nicforge_ir::{EventId, Input, InputEvent, Output, Program, ReasonId, TableId, Verified};

use crate::compile::Effort;
use crate::native;
use collect::{Collector, HOOKS};
pub use error::HostError;
use error::MAX_EVENTS;
use ffi::{Env, Packet, Trace, TraceItem};
pub use files::{fresh_dir, refused, write_files};
pub use library::{RUNTIME, compile_ahead, object_of_unit};
pub use runtime::{NoObject, object, object_of, write_object};
pub use step::{Passage, StepEffect, Stepper, Underway};
pub use tables::Tables;

/// Room in front of a frame before its buffer must be moved.
const HEADROOM: usize = 256;
/// Items of one event's trace that are kept.
const TRACE_ITEMS: usize = 1 << 16;

/// Options of building.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    pub lines: LineStyle,
    pub watch: Watch,
    pub effort: Effort,
}

/// Things that handlers tell about themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    Nothing,
    /// What they execute, see [`HostProgram::trace`].
    Counts,
    /// Entries of tables that they read and write, see [`HostProgram::touched`].
    Keys,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions { lines: LineStyle::Comments, watch: Watch::Nothing, effort: Effort::Full }
    }
}

/// A program in this process with its tables.
pub struct HostProgram {
    artifact: HostArtifact,
    net_recv: Option<EventId>,
    host_send: Option<(EventId, usize)>,
    timers: Vec<(String, EventId)>,
    env: Box<Env>,
    collector: Box<Collector>,
    // Read through `env` only, but they must live as long as it does.
    trace: Box<Trace>,
    trace_items: Vec<TraceItem>,
    buffer: Vec<u8>,
    _staged: Vec<u8>,
    packet: Box<Packet>,
    tables: Tables,
    // Last: the tables' functions are in it.
    loaded: library::Loaded,
}

impl HostProgram {
    /// Generates, compiles and loads a program whose calls are all inlined. Its tables are empty.
    pub fn build(program: &Verified<Program>) -> Result<HostProgram, HostError> {
        HostProgram::build_with(program, HostOptions::default())
    }

    /// Builds a program with options.
    pub fn build_with(
        program: &Verified<Program>,
        options: HostOptions,
    ) -> Result<HostProgram, HostError> {
        native::check(program).map_err(|error| HostError::Functions(Box::new(error)))?;
        let artifact = generate(program, options.lines).map_err(HostError::Unsupported)?;
        let loaded = library::load(&artifact.source, &options)?;
        HostProgram::assemble(program, artifact, loaded, options)
    }

    /// Generates and compiles a program to the shared object `object`, for several processes to
    /// [`HostProgram::open`].
    pub fn compile(
        program: &Verified<Program>,
        watch: Watch,
        object: &Path,
    ) -> Result<(), HostError> {
        let options = HostOptions { watch, ..HostOptions::default() };
        let artifact = generate(program, options.lines).map_err(HostError::Unsupported)?;
        library::compile(&artifact.source, &options, object)
    }

    /// Loads what [`HostProgram::compile`] made of the same program. Its tables are empty.
    pub fn open(program: &Verified<Program>, object: &Path) -> Result<HostProgram, HostError> {
        let options = HostOptions::default();
        native::check(program).map_err(|error| HostError::Functions(Box::new(error)))?;
        let artifact = generate(program, options.lines).map_err(HostError::Unsupported)?;
        HostProgram::assemble(program, artifact, library::open(object)?, options)
    }

    fn assemble(
        program: &Verified<Program>,
        artifact: HostArtifact,
        loaded: library::Loaded,
        options: HostOptions,
    ) -> Result<HostProgram, HostError> {
        let mut tables = Tables::new(program, &artifact.tables, loaded.tables)?;
        let taken = |name: &str| {
            program.event_named(name).filter(|event| program.handler_of(*event).is_some())
        };
        let size = |event: EventId| artifact.event_sizes[event.as_u32() as usize] as usize;
        // An event without parameters has one byte in C, which is no part of the message.
        let message =
            |event: EventId| if program.events[event].params.is_empty() { 0 } else { size(event) };
        let host_send = taken("host_send").map(|event| (event, message(event)));
        let mut collector = Box::new(Collector {
            outputs: Vec::new(),
            queue: VecDeque::new(),
            drops: vec![0; artifact.reasons.len()],
            logs: artifact.logs.clone(),
            no_room: false,
            touched: Vec::new(),
        });
        let mut trace_items = vec![
            TraceItem::default();
            if options.watch == Watch::Counts { TRACE_ITEMS } else { 0 }
        ];
        let room = trace_items.len() as u32;
        let mut trace =
            Box::new(Trace { items: trace_items.as_mut_ptr(), count: 0, room, lost: 0 });
        let mut buffer = vec![0u8; HEADROOM + MAX_FRAME as usize + 1];
        let mut staged = vec![0u8; artifact.staged_bytes.max(1) as usize];
        let head = buffer.as_mut_ptr();
        let packet = Box::new(Packet {
            data: head,
            end: head,
            head,
            // SAFETY: one past the buffer's last byte.
            tail: unsafe { head.add(buffer.len()) },
            staged: staged.as_mut_ptr(),
            cursor: 0,
            staged_len: 0,
            in_port: 0,
            spare: 0,
            owner: std::ptr::null_mut(),
            owner_data: std::ptr::null_mut(),
            owner_end: std::ptr::null_mut(),
        });
        let env = Box::new(Env {
            now: 0,
            seed: 0,
            draws: 0,
            worker: 0,
            spare: 0,
            tables: tables.handles(),
            hooks: &HOOKS,
            trace: &mut *trace,
            user: (&raw mut *collector).cast(),
        });
        Ok(HostProgram {
            net_recv: taken("net_recv"),
            host_send,
            timers: program.timers().map(|(id, _)| (program.events[id].name.clone(), id)).collect(),
            artifact,
            env,
            collector,
            trace,
            trace_items,
            buffer,
            _staged: staged,
            packet,
            tables,
            loaded,
        })
    }

    /// The generated code and its description.
    pub fn artifact(&self) -> &HostArtifact {
        &self.artifact
    }

    /// The program's tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The program's tables, to change them between events.
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Packets dropped for a reason so far.
    pub fn drops(&self, reason: ReasonId) -> u64 {
        self.collector.drops[reason.as_u32() as usize]
    }

    /// Insertions that a table refused so far.
    pub fn refused(&self, table: TableId) -> u64 {
        self.tables.refused(table)
    }

    /// Entries that a table evicted so far.
    pub fn evicted(&self, table: TableId) -> u64 {
        self.tables.evicted(table)
    }

    /// Instructions of the last event's handlers, in order; empty unless built to count.
    pub fn trace(&self) -> &[TraceItem] {
        &self.trace_items[..self.trace.count as usize]
    }

    /// Table and key of every access of the last event's handlers, in order; empty unless built to
    /// tell keys.
    pub fn touched(&self) -> &[(TableId, Vec<u8>)] {
        &self.collector.touched
    }

    /// Runs events in order; what each sent to outside.
    pub fn run(&mut self, events: &[InputEvent]) -> Result<Vec<Vec<Output>>, HostError> {
        events.iter().map(|event| self.run_one(event)).collect()
    }

    /// Runs one event; what it sent to outside, in order.
    ///
    /// # Errors
    /// [`HostError::NoRoom`] where the frame with its headers would be too long: the packet was
    /// dropped and counted.
    pub fn run_one(&mut self, event: &InputEvent) -> Result<Vec<Output>, HostError> {
        (self.env.now, self.env.seed, self.env.draws) = (event.time_ns, event.seed, 0);
        (self.trace.count, self.trace.lost) = (0, 0);
        self.collector.no_room = false;
        self.collector.touched.clear();
        let missing = || HostError::NoHandler(event.input.event().to_string());
        match &event.input {
            Input::Net { port, frame } => {
                let event = self.net_recv.ok_or_else(missing)?;
                if frame.len() > MAX_FRAME as usize {
                    return Err(HostError::FrameLength { length: frame.len() });
                }
                self.buffer[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
                let packet = &mut *self.packet;
                // SAFETY: the buffer has headroom and the longest frame.
                unsafe {
                    packet.data = self.buffer.as_mut_ptr().add(HEADROOM);
                    packet.end = packet.data.add(frame.len());
                }
                (packet.cursor, packet.staged_len, packet.in_port) = (0, 0, *port);
                let params: *mut Packet = packet;
                self.call(event.as_u32(), (&raw const params).cast());
            }
            Input::Host { message } => {
                let (event, expected) = self.host_send.ok_or_else(missing)?;
                if message.len() != expected {
                    return Err(HostError::MessageLength { length: message.len(), expected });
                }
                let mut params = message.clone();
                params.push(0);
                self.call(event.as_u32(), params.as_ptr().cast());
            }
            Input::Tick { timer } => {
                let found = self.timers.iter().find(|(name, _)| name == timer);
                let event = found.map(|(_, event)| *event).ok_or_else(missing)?;
                self.call(event.as_u32(), [0u8].as_ptr().cast());
            }
        }
        let mut steps = 0;
        while let Some((event, params)) = self.collector.queue.pop_front() {
            steps += 1;
            if steps > MAX_EVENTS {
                self.collector.queue.clear();
                return Err(HostError::TooManyEvents);
            }
            self.call(event, params.as_ptr().cast());
        }
        let outputs = std::mem::take(&mut self.collector.outputs);
        if self.collector.no_room { Err(HostError::NoRoom) } else { Ok(outputs) }
    }

    fn call(&mut self, event: u32, params: *const c_void) {
        // SAFETY: the environment's pointers live in this struct, the parameters have the event's
        // size.
        unsafe { (self.loaded.dispatch)(&mut *self.env, event, params) };
    }
}
