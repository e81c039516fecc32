//! Compiled programs as sides of the demo, and requests for them with the answers they must get.
//!
//! Both sides run the same shared object, made once; each has tables of its own, filled alike. So an answer may depend on the frame and on tables that
//! handlers leave alone, on nothing else: [`Requests::prepare`] refuses other programs. Counting is allowed (`nf_add` and its like): in fields that
//! no handler reads, and without new entries in tables that are looked up, which the interpreter's tables show after all requests.
//!
//! Requests are frames of a capture with the demo's addresses. The IP identification is their number; a program that answers leaves it alone, so a
//! reply is matched by it and compared, byte for byte, with the interpreter's answer to the frame as the client sent it.

use std::path::PathBuf;
use std::time::Instant;

use nicforge_balance::director::checksum::{fold, sum};
use nicforge_ir::ops::{Op, Proj};
use nicforge_ir::{
    Entry, Input, InputEvent, Interp, InterpError, Output, Program, TableBackend, TableError, TableId,
    Verified,
};

use super::demo::{CLIENT, CLIENT_MAC, VIP, VIP_MAC};
use crate::control;
use crate::fault::Fault;
use crate::host::{HostError, HostProgram};
use crate::pcap::event_seed;

/// Requests that differ, so many may be under way.
const NUMBERS: u16 = 8192;
/// Bytes of Ethernet and IPv4 headers.
const HEADERS: usize = 34;
/// Longest frame of an interface as it comes.
const LONGEST: usize = 1514;

/// Why a program cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error(
        "{program}: answers may depend on table `{table}`, which handlers write and the sides do not share; use a program that only reads its tables or counts in fields that it does not read"
    )]
    State { program: String, table: String },
    #[error(
        "{program}: answers may depend on {what}, which is not the same on both sides; use a program without it"
    )]
    Outside { program: String, what: &'static str },
    #[error(
        "{program}: no frame of the capture is answered to its sender with its IP identification; give another with --pcap"
    )]
    Silent { program: String },
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Interp(#[from] InterpError),
    #[error(transparent)]
    Host(#[from] HostError),
}

impl ProgramError {
    /// Who has to act.
    pub fn fault(&self) -> Fault {
        match self {
            ProgramError::Host(error) => error.fault(),
            _ => Fault::User,
        }
    }
}

/// A program as a side gets it.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub program: Verified<Program>,
    pub entries: Vec<(TableId, Entry)>,
    /// What [`HostProgram::compile`] made of the program.
    pub object: PathBuf,
}

/// A program that answers frames for one address.
pub struct Answerer {
    host: HostProgram,
    mac: [u8; 6],
    start: Instant,
    taken: u64,
}

impl Answerer {
    /// Loads the program and fills its tables.
    pub fn open(compiled: &Compiled, mac: [u8; 6]) -> Result<Answerer, ProgramError> {
        let mut host = HostProgram::open(&compiled.program, &compiled.object)?;
        control::apply(host.tables_mut(), &compiled.entries)?;
        Ok(Answerer { host, mac, start: Instant::now(), taken: 0 })
    }

    /// Whether a frame is for this side.
    pub fn takes(&self, frame: &[u8]) -> bool {
        frame.starts_with(&self.mac)
    }

    /// What the program sends when a frame comes in; nothing where it cannot run.
    pub fn answers(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        let time_ns = self.start.elapsed().as_nanos() as u64;
        let event =
            InputEvent { time_ns, seed: event_seed(self.taken), input: Input::Net { port: 0, frame } };
        self.taken += 1;
        let outputs = self.host.run_one(&event).unwrap_or_default();
        let sent = outputs.into_iter().filter_map(|output| match output {
            Output::Send { frame, .. } => Some(frame),
            _ => None,
        });
        sent.collect()
    }
}

/// Frames that a client sends, with the answers of the interpreter.
#[derive(Debug)]
pub struct Requests {
    list: Vec<Request>,
}

/// A frame and its answer.
#[derive(Debug)]
pub struct Request {
    pub frame: Vec<u8>,
    pub reply: Vec<u8>,
}

impl Requests {
    /// Takes the frames of `events` that `program` answers.
    ///
    /// # Errors
    /// For programs with answers that sides cannot agree on, and for those that answer nothing.
    pub fn prepare(
        program: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<Requests, ProgramError> {
        let name = || program.name.clone();
        let state = |table: TableId| ProgramError::State {
            program: name(),
            table: program.tables[table].name.to_string(),
        };
        if let Some(what) = outside(program) {
            return Err(ProgramError::Outside { program: name(), what });
        }
        if let Some(table) = unshared(program) {
            return Err(state(table));
        }
        let mut interp = Interp::new(program);
        control::apply(&mut interp, entries)?;
        let watched: Vec<TableId> = program.tables.keys().filter(|table| is_read(program, *table)).collect();
        let keys = |interp: &Interp, table: TableId| -> Result<Vec<Vec<u8>>, TableError> {
            Ok(interp.dump(table)?.into_iter().map(|entry| entry.key).collect())
        };
        let before: Vec<_> = watched.iter().map(|table| keys(&interp, *table)).collect::<Result<_, _>>()?;
        let mut answered = Vec::new();
        for event in events {
            let Input::Net { port: 0, frame } = &event.input else { continue };
            if let Some(frame) = addressed(frame, 0)
                && answer(&mut interp, &frame)?.is_some()
            {
                answered.push(frame);
            }
        }
        if answered.is_empty() {
            return Err(ProgramError::Silent { program: name() });
        }
        let mut list = Vec::new();
        for (number, frame) in (0..NUMBERS).zip(answered.iter().cycle()) {
            let frame = addressed(frame, number).unwrap_or_default();
            // A frame that gets no answer under this number would keep numbers from being places in the list.
            let Some(reply) = answer(&mut interp, &frame)? else {
                return Err(ProgramError::Silent { program: name() });
            };
            list.push(Request { frame, reply });
        }
        for (table, before) in watched.iter().zip(before) {
            if keys(&interp, *table)? != before {
                return Err(state(*table));
            }
        }
        Ok(Requests { list })
    }

    /// Request number `number`, counted round and round, and its number in the frame.
    pub fn at(&self, number: u64) -> (u64, &Request) {
        let number = number % self.count();
        (number, &self.list[number as usize])
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.list.len() as u64
    }

    /// The number in a reply, if it may be one.
    pub fn number_of(&self, reply: &[u8]) -> Option<u64> {
        let id = reply.get(18..20)?;
        let number = u64::from(u16::from_be_bytes([id[0], id[1]]));
        (number < self.count()).then_some(number)
    }

    /// Bytes of a frame, on average.
    pub fn mean_bytes(&self) -> usize {
        self.list.iter().map(|request| request.frame.len()).sum::<usize>() / self.list.len()
    }
}

/// What an answer may depend on besides frame and tables.
fn outside(program: &Program) -> Option<&'static str> {
    find(program, |_, op| match op {
        Op::Now => Some("the time"),
        Op::Random => Some("random numbers"),
        Op::FibLookup { .. } => Some("the kernel's routes"),
        _ => None,
    })
}

/// A table that handlers write so that answers may depend on it.
fn unshared(program: &Program) -> Option<TableId> {
    find(program, |_, op| {
        let table = op.effects().table_write?;
        match op {
            Op::Commute { path, .. } => reads_field(program, table, path.first()).then_some(table),
            _ => Some(table),
        }
    })
}

/// Whether handlers look anything up in a table.
fn is_read(program: &Program, table: TableId) -> bool {
    find(program, |_, op| (op.effects().table_read == Some(table)).then_some(())).is_some()
}

/// Whether a value that was looked up in `table` is used otherwise than for members other than `field`.
fn reads_field(program: &Program, table: TableId, field: Option<&Proj>) -> bool {
    let other = |path: &[Proj]| match (path.first(), field) {
        (Some(Proj::Field(used)), Some(Proj::Field(written))) => used != written,
        _ => false,
    };
    let used = |body: &nicforge_ir::Body, op: &Op| {
        let bad = op.operands().into_iter().any(|operand| {
            let from_table =
                matches!(body.def_op(operand), Some(Op::Lookup { table: from, .. }) if *from == table);
            // The first result says whether there was an entry.
            let hit = body.def_inst(operand).is_some_and(|inst| body.insts[inst].results[0] == operand);
            let apart = matches!(op, Op::Get { agg, path } if *agg == operand && other(path));
            from_table && !hit && !apart
        });
        bad.then_some(())
    };
    find(program, used).is_some()
}

/// What `test` finds first in the handlers, whose calls are inlined.
fn find<T>(program: &Program, mut test: impl FnMut(&nicforge_ir::Body, &Op) -> Option<T>) -> Option<T> {
    program.handlers.values().find_map(|handler| {
        let mut found = None;
        handler.body.for_each_inst(handler.body.entry(), &mut |inst| {
            if found.is_none() {
                found = test(&handler.body, &handler.body.insts[inst].op);
            }
        });
        found
    })
}

/// The interpreter's answer, if it is one frame to the sender with the number it came with.
fn answer(interp: &mut Interp, frame: &[u8]) -> Result<Option<Vec<u8>>, ProgramError> {
    let input = Input::Net { port: 0, frame: frame.to_vec() };
    let mut sent = interp.run(&InputEvent { time_ns: 0, seed: event_seed(0), input })?;
    let Some(Output::Send { port: 0, frame: reply }) = sent.pop().filter(|_| sent.is_empty()) else {
        return Ok(None);
    };
    let back = (HEADERS..=LONGEST).contains(&reply.len())
        && reply[..6] == CLIENT_MAC
        && reply[6..12] == VIP_MAC
        && reply[12..15] == [8, 0, 0x45]
        && reply[18..20] == frame[18..20]
        && reply[26..30] == VIP
        && reply[30..34] == CLIENT;
    Ok(back.then_some(reply))
}

/// A frame from the client to the service with a number, checksums right; none for what is no plain IPv4 packet. ICMP's checksum covers no address.
fn addressed(frame: &[u8], number: u16) -> Option<Vec<u8>> {
    let plain = (HEADERS..=LONGEST).contains(&frame.len()) && frame[12..15] == [8, 0, 0x45];
    // No fragments: flag and offset.
    if !plain || frame[20] & 0x3f != 0 || frame[21] != 0 {
        return None;
    }
    let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&VIP_MAC);
    frame[6..12].copy_from_slice(&CLIENT_MAC);
    frame[18..20].copy_from_slice(&number.to_be_bytes());
    frame[26..30].copy_from_slice(&CLIENT);
    frame[30..34].copy_from_slice(&VIP);
    frame[24..26].fill(0);
    let header = !fold(sum(&frame[14..HEADERS]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let (at, header) = match frame[23] {
        6 => (50, 20),
        17 => (40, 8),
        _ => return Some(frame),
    };
    if end > frame.len() || end < HEADERS + header {
        return None;
    }
    if frame[23] == 17 && frame[at..at + 2] == [0, 0] {
        return Some(frame);
    }
    frame[at..at + 2].fill(0);
    let pseudo = sum(&frame[26..HEADERS]) + u64::from(frame[23]) + (end - HEADERS) as u64;
    let value = match !fold(pseudo + sum(&frame[HEADERS..end])) {
        0 => 0xffff,
        value => value,
    };
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
    Some(frame)
}
