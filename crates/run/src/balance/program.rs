//! Compiled programs as sides of the demo, and requests for them with the answers they must get.
//!
//! Both sides run the same shared object, made once; each has tables of its own, filled alike. An
//! answer may depend on the frame, on tables that handlers leave alone, and on entries that the
//! packets of one bucket of flows have for themselves: these move with the bucket
//! ([`super::handoff`]), and the director must be flow-affine. [`Requests::prepare`] refuses other
//! programs. Counting is allowed (`nf_add` and its like): in fields that no handler reads, and
//! without new entries in tables that are looked up, which the interpreter's tables show after all
//! requests.
//!
//! The host side's frames have its own address; the program gets them with the address that clients
//! know, so that keys and answers are the same on both sides.
//!
//! Requests are frames of a capture with the demo's addresses. The IP identification is their
//! number; a program that answers leaves it alone, so a reply is matched by it and compared, byte
//! for byte, with the interpreter's answer to the frame as the client sent it.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nicforge_balance::director::checksum::{fold, sum};
use nicforge_balance::director::flows::BUCKETS;
use nicforge_balance::director::{change_destination, change_source, flow_bucket};
use nicforge_ir::interp::{Access, NoTrace, Tracer};
use nicforge_ir::ops::{Class, Op, Proj};
use nicforge_ir::{
    Entry, Input, InputEvent, Interp, InterpError, Output, Program, TableBackend, TableError,
    TableId, Verified,
};

use super::demo::{CLIENT, CLIENT_MAC, HOST, HOST_MAC, VIP, VIP_MAC, mac_of};
use super::handoff::Handoff;
use super::heartbeat::Side;
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
        "{program}: packets of different flows use the same entry of table `{table}`, which handlers write, so it cannot go with a flow; use a program whose entries belong to one flow each, that only reads its tables, or counts in fields that it does not read"
    )]
    Shared { program: String, table: String },
    #[error(
        "{program}: table `{table}` is full after {requests} requests, and the sides' tables are filled differently; make it larger"
    )]
    Full { program: String, table: String, requests: usize },
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
    #[error("the other side cannot be met: {0}")]
    Meet(#[from] std::io::Error),
}

impl ProgramError {
    /// The party that has to act.
    pub fn fault(&self) -> Fault {
        match self {
            ProgramError::Host(error) => error.fault(),
            ProgramError::Meet(_) => Fault::Environment,
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
    side: Side,
    start: Instant,
    taken: u64,
    handoff: Option<Handoff>,
}

impl Answerer {
    /// Loads the program and fills its tables. If its state goes with flows, it meets the other
    /// side at `state`.
    pub fn open(compiled: &Compiled, side: Side, state: &Path) -> Result<Answerer, ProgramError> {
        let program = &compiled.program;
        let mut host = HostProgram::open(program, &compiled.object)?;
        control::apply(host.tables_mut(), &compiled.entries)?;
        let moves = flow_tables(program);
        let handoff =
            (!moves.is_empty()).then(|| Handoff::meet(side, state, program, &moves)).transpose()?;
        Ok(Answerer { host, side, start: Instant::now(), taken: 0, handoff })
    }

    /// True if a frame is for this side.
    pub fn takes(&self, frame: &[u8]) -> bool {
        frame.starts_with(&mac_of(self.side))
    }

    /// The bucket of a frame's flow, with the address that clients know.
    fn bucket(&self, frame: &[u8]) -> Option<usize> {
        let mut frame = frame.to_vec();
        self.enter(&mut frame);
        flow_bucket(&frame)
    }

    /// As a client sent it.
    fn enter(&self, frame: &mut [u8]) {
        if self.side == Side::Host && change_destination(frame, &HOST.into(), &VIP.into()) {
            frame[..6].copy_from_slice(&VIP_MAC);
        }
    }

    /// As this side has to send it.
    fn leave(&self, frame: &mut [u8]) {
        if self.side == Side::Host && change_source(frame, &VIP.into(), &HOST.into()) {
            frame[6..12].copy_from_slice(&HOST_MAC);
        }
    }

    /// Outputs of the program when a frame comes in; nothing where it cannot run.
    pub fn answers(&mut self, mut frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.enter(&mut frame);
        let bucket = flow_bucket(&frame);
        let time_ns = self.start.elapsed().as_nanos() as u64;
        let event = InputEvent {
            time_ns,
            seed: event_seed(self.taken),
            input: Input::Net { port: 0, frame },
        };
        self.taken += 1;
        let outputs = self.host.run_one(&event).unwrap_or_default();
        if let (Some(handoff), Some(bucket)) = (&mut self.handoff, bucket) {
            handoff.note(bucket, self.host.touched());
        }
        let sent = outputs.into_iter().filter_map(|output| match output {
            Output::Send { mut frame, .. } => {
                self.leave(&mut frame);
                Some(frame)
            }
            _ => None,
        });
        sent.collect()
    }

    /// The descriptor by which state that moves is waited for.
    pub fn fd(&self) -> Option<RawFd> {
        self.handoff.as_ref().and_then(Handoff::fd)
    }

    /// The bucket whose state is not here, and must be before the frame is handled.
    pub fn missing(&self, frame: &[u8]) -> Option<usize> {
        let handoff = self.handoff.as_ref()?;
        self.bucket(frame).filter(|bucket| !handoff.owns(*bucket))
    }

    /// Asks the other side for a bucket.
    pub fn ask(&mut self, bucket: usize) {
        if let Some(handoff) = &mut self.handoff {
            handoff.ask(bucket);
        }
    }

    /// Takes what the other side gave; the buckets it asks for.
    pub fn hear(&mut self) -> Vec<usize> {
        self.handoff.as_mut().map_or(Vec::new(), |handoff| handoff.hear(self.host.tables_mut()))
    }

    /// True if a frame belongs to a bucket.
    pub fn is_of(&self, frame: &[u8], bucket: usize) -> bool {
        self.bucket(frame) == Some(bucket)
    }

    /// Gives a bucket away.
    pub fn give(&mut self, bucket: usize) {
        if let Some(handoff) = &mut self.handoff {
            handoff.give(bucket, self.host.tables_mut());
        }
    }
}

/// Frames that a client sends, with the answers of the interpreter.
#[derive(Debug)]
pub struct Requests {
    list: Vec<Request>,
    program: Verified<Program>,
    entries: Vec<(TableId, Entry)>,
    /// Answers depend on the flow's earlier frames.
    stateful: bool,
}

/// A frame and its answer: the first one, where answers depend on earlier frames.
#[derive(Debug)]
pub struct Request {
    pub frame: Vec<u8>,
    pub reply: Vec<u8>,
}

/// The interpreter, which gets every request that is sent.
pub struct Expecting<'a>(Option<Interp<'a>>);

impl Expecting<'_> {
    /// The answer that a request must get now; none where it is always [`Request::reply`].
    ///
    /// # Errors
    /// The interpreter's.
    pub fn sent(&mut self, request: &Request) -> Result<Option<Vec<u8>>, ProgramError> {
        self.0.as_mut().map_or(Ok(None), |interp| answer(interp, &request.frame, &mut NoTrace))
    }
}

/// Which bucket of flows used which entries.
struct Users<'a> {
    tables: &'a [TableId],
    bucket: usize,
    seen: HashMap<(TableId, Vec<u8>), usize>,
    shared: Option<TableId>,
}

impl Tracer for Users<'_> {
    fn table(&mut self, access: &Access) {
        if self.tables.contains(&access.table) {
            let owner =
                *self.seen.entry((access.table, access.key.to_vec())).or_insert(self.bucket);
            if owner != self.bucket {
                self.shared = Some(access.table);
            }
        }
    }
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
        let table_name = |table: TableId| program.tables[table].name.to_string();
        if let Some(what) = outside(program) {
            return Err(ProgramError::Outside { program: name(), what });
        }
        let flow_tables = flow_tables(program);
        let mut users =
            Users { tables: &flow_tables, bucket: 0, seen: HashMap::new(), shared: None };
        let mut interp = Interp::new(program);
        control::apply(&mut interp, entries)?;
        let watched = |table: &TableId| is_read(program, *table) && !flow_tables.contains(table);
        let watched: Vec<TableId> = program.tables.keys().filter(watched).collect();
        let keys = |interp: &Interp, table: TableId| -> Result<Vec<Vec<u8>>, TableError> {
            Ok(interp.dump(table)?.into_iter().map(|entry| entry.key).collect())
        };
        let before: Vec<_> =
            watched.iter().map(|table| keys(&interp, *table)).collect::<Result<_, _>>()?;
        let mut answered = Vec::new();
        for event in events {
            let Input::Net { port: 0, frame } = &event.input else { continue };
            if let Some(frame) = addressed(frame, 0)
                && answer(&mut interp, &frame, &mut NoTrace)?.is_some()
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
            users.bucket = flow_bucket(&frame).unwrap_or(BUCKETS);
            // A frame that gets no answer under this number would keep numbers from being places in
            // the list.
            let Some(reply) = answer(&mut interp, &frame, &mut users)? else {
                return Err(ProgramError::Silent { program: name() });
            };
            list.push(Request { frame, reply });
        }
        if let Some(table) = users.shared {
            return Err(ProgramError::Shared { program: name(), table: table_name(table) });
        }
        for (table, before) in watched.iter().zip(before) {
            if keys(&interp, *table)? != before {
                return Err(ProgramError::Shared { program: name(), table: table_name(*table) });
            }
        }
        let full = |table: &&TableId| {
            interp.counters().refused[**table] + interp.counters().evicted[**table] > 0
        };
        if let Some(table) = flow_tables.iter().find(full) {
            let requests = list.len();
            return Err(ProgramError::Full {
                program: name(),
                table: table_name(*table),
                requests,
            });
        }
        let stateful = !flow_tables.is_empty();
        Ok(Requests { list, program: program.clone(), entries: entries.to_vec(), stateful })
    }

    /// True if answers depend on the flow's earlier frames, so that directors must be flow-affine
    /// and no request may be lost.
    pub fn stateful(&self) -> bool {
        self.stateful
    }

    /// The interpreter at its start.
    ///
    /// # Errors
    /// For tables' entries that do not fit.
    pub fn expecting(&self) -> Result<Expecting<'_>, ProgramError> {
        if !self.stateful {
            return Ok(Expecting(None));
        }
        let mut interp = Interp::new(&self.program);
        control::apply(&mut interp, &self.entries)?;
        Ok(Expecting(Some(interp)))
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

/// Inputs that an answer may depend on besides frame and tables.
fn outside(program: &Program) -> Option<&'static str> {
    find(program, |_, op| match op {
        op if op.reads_clock() => Some("the time"),
        op if op.draws() => Some("random numbers"),
        op if op.asks_routes() => Some("the kernel's routes"),
        _ => None,
    })
}

/// Tables that handlers write so that answers may depend on them.
pub fn flow_tables(program: &Program) -> Vec<TableId> {
    let writes = |table: TableId| {
        find(program, |_, op| {
            let matters = match op {
                _ if op.effects().table_write != Some(table) => false,
                op if op.effects().commutes => {
                    reads_field(program, table, op.path().and_then(<[_]>::first))
                }
                _ => true,
            };
            matters.then_some(())
        })
    };
    program.tables.keys().filter(|table| writes(*table).is_some()).collect()
}

/// True if handlers look anything up in a table.
fn is_read(program: &Program, table: TableId) -> bool {
    find(program, |_, op| (op.effects().table_read == Some(table)).then_some(())).is_some()
}

/// True if a value that was looked up in `table` is used otherwise than for members other than
/// `field`.
fn reads_field(program: &Program, table: TableId, field: Option<&Proj>) -> bool {
    let other = |path: &[Proj]| match (path.first(), field) {
        (Some(Proj::Field(used)), Some(Proj::Field(written))) => used != written,
        _ => false,
    };
    let used = |body: &nicforge_ir::Body, op: &Op| {
        let bad = op.operands().any(|operand| {
            let from_table = body
                .def_op(operand)
                .is_some_and(|op| op.class() == Class::Entry && op.table() == Some(table));
            // The first result says whether there was an entry.
            let hit =
                body.def_inst(operand).is_some_and(|inst| body.insts[inst].results[0] == operand);
            let apart = matches!(op, Op::Get { agg, path } if *agg == operand && other(path));
            from_table && !hit && !apart
        });
        bad.then_some(())
    };
    find(program, used).is_some()
}

/// The first thing that `test` finds in the handlers, whose calls are inlined.
fn find<T>(
    program: &Program,
    mut test: impl FnMut(&nicforge_ir::Body, &Op) -> Option<T>,
) -> Option<T> {
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
fn answer<T: Tracer>(
    interp: &mut Interp,
    frame: &[u8],
    tracer: &mut T,
) -> Result<Option<Vec<u8>>, ProgramError> {
    let input = Input::Net { port: 0, frame: frame.to_vec() };
    let mut sent =
        interp.run_traced(&InputEvent { time_ns: 0, seed: event_seed(0), input }, tracer)?;
    let Some(Output::Send { port: 0, frame: reply }) = sent.pop().filter(|_| sent.is_empty())
    else {
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

/// A frame from the client to the service with a number, checksums right; none for what is no plain
/// IPv4 packet. ICMP's checksum covers no address.
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
