//! What does not fit, with the number that does not, and how much room a program needs.

use cranelift_entity::SecondaryMap;
use nicforge_ir::{
    BlockId, Body, BufSource, Direction, EventId, HandlerId, Op, Program, TableId, Work,
};

use super::device::{MEMORY_BITS, kib};
use super::pipe::dag::NoPipe;
use super::pipe::leave::Commit;
use super::shape::Bits;
use super::tables::TableForm;
use crate::c::body::Unsupported;

/// Flip-flops of one table's keys and masks in a pipe, which compares all rows at once: a tenth of
/// a U280's.
pub const MOST_COMPARED: u64 = 256 * 1024;
/// Rows of such a table: nf_pipe_ternary's tree.
pub const MOST_ROWS: u32 = 4096;
/// Memory that copies of one table take, of which a packet changes several entries at once: an
/// eighth of the device's.
const MOST_COPIED: u64 = MEMORY_BITS / 8;
/// Entries of a table that a packet is given at once, each compared with all those of packets
/// before: their square in comparators.
const MOST_AT_ONCE: usize = 8;
/// Bytes of headers that a packet may get: registers of the deparser.
const MOST_HEADER: u32 = 1024;
/// Bytes of one value.
const MOST_VALUE: u32 = 2048;

/// Room for what a program's packets and values need.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes that are emitted at most, messages to the host included.
    pub header: u32,
    /// Bytes of the largest value that is read or written in memory, in lines of 64.
    pub access: u32,
}

// Byte strings in memory have fewer lines than an address can say.
const _: () = assert!(MEMORY_BITS / 512 < 1 << super::ADDRESS_BITS);

/// Tables that are too large.
pub fn tables(program: &Program, forms: &[TableForm]) -> Result<(), Vec<Unsupported>> {
    let mut errors = Vec::new();
    let all: u64 = forms.iter().map(TableForm::memory_bits).sum();
    for (table, form) in program.tables.values().zip(forms) {
        if all > MEMORY_BITS && form.memory_bits() * forms.len() as u64 >= all {
            errors.push(Unsupported {
                message: format!(
                    "table `{}` takes {} KiB of memory, all tables {} KiB; the device has {} KiB",
                    table.name,
                    kib(form.memory_bits()),
                    kib(all),
                    kib(MEMORY_BITS)
                ),
                help: "give it fewer entries".to_string(),
                span: table.span,
            });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A table, by number, whose entries are not given at once, though it could be: what it would take.
pub fn copies(
    program: &Program,
    forms: &[TableForm],
    commits: &[Commit],
) -> Option<(usize, NoPipe)> {
    let bits = |commit: &Commit| forms[commit.table].pipe_memory_bits(u64::from(commit.copies()));
    let of = |table: usize| commits.iter().find(|commit| commit.table == table);
    let each = |(table, form): (usize, &TableForm)| {
        of(table).map_or_else(|| form.pipe_memory_bits(1), bits)
    };
    let all: u64 = forms.iter().enumerate().map(each).sum();
    let largest =
        commits.iter().filter(|commit| commit.at_once).max_by_key(|commit| bits(commit))?;
    let table = &program.tables[TableId::from_u32(largest.table as u32)];
    let (count, name, takes) = (largest.ends.len(), &table.name, kib(bits(largest)));
    let reason = match () {
        () if count > MOST_AT_ONCE => {
            format!(
                "a packet asks for {count} entries of table `{name}`; {MOST_AT_ONCE} at most are given at once"
            )
        }
        () if bits(largest) > MOST_COPIED => format!(
            "{} copies of table `{name}`, which give a packet {count} entries at once, would take {takes} KiB of memory; {} KiB at most",
            largest.copies(),
            kib(MOST_COPIED)
        ),
        () if all > MEMORY_BITS => format!(
            "{} copies of table `{name}`, which give a packet {count} entries at once, would take {takes} KiB of memory, all tables {} KiB; \
             the device has {} KiB",
            largest.copies(),
            kib(all),
            kib(MEMORY_BITS)
        ),
        () => return None,
    };
    Some((largest.table, NoPipe { reason, span: table.span }))
}

/// Most bytes that are emitted, now and at any time before.
#[derive(Clone, Copy, Default)]
struct Emitted {
    now: u32,
    most: u32,
}

/// Room that bodies need.
pub fn room(program: &Program, bits: &Bits) -> Result<Room, Vec<Unsupported>> {
    let mut room = Room { header: 8, access: 64 };
    let mut errors = Vec::new();
    let before = before(program, bits);
    for (id, handler) in &program.handlers {
        let body = &handler.body;
        let sum = Emitted { now: before[id], most: before[id] };
        let emitted = region(body, bits, body.entry(), sum, &mut Vec::new());
        room.header = room.header.max(emitted.most);
        body.for_each_inst(body.entry(), &mut |inst| {
            let data = &body.insts[inst];
            let value = match (data.op.work(), data.op.source()) {
                (Work::Read | Work::Bytes, _) => Some(data.results[1]),
                (Work::Append, Some(BufSource::Value(value))) => Some(value),
                _ if data.op.overwrites() => data.op.operands().last(),
                _ => None,
            };
            room.access = room.access.max(value.map_or(0, |value| bits.bytes(body.ty(value))));
            match &data.op {
                Op::Generate { event, args }
                    if program.events[*event].direction == Direction::Out =>
                {
                    let sizes = args.iter().map(|arg| bits.bytes(body.ty(*arg)));
                    if program.events[*event].name == "host_msg" {
                        room.header = room.header.max(sizes.sum());
                    }
                }
                Op::NewPacket { value, .. } => {
                    room.header = room.header.max(bits.bytes(body.ty(*value)));
                }
                op if op.logs() => room.header = room.header.max(8 * op.operands().count() as u32),
                _ => {}
            }
        });
        let message: u32 =
            program.events[handler.event].params.iter().map(|param| bits.bytes(param.ty)).sum();
        room.access = room.access.max(message);
        let too_large = [
            (
                room.header,
                MOST_HEADER,
                "bytes of new headers, of a new packet or of a message to the host",
            ),
            (room.access, MOST_VALUE, "bytes of one value in packets or byte strings"),
        ];
        for (has, most, what) in too_large.into_iter().filter(|(has, most, _)| has > most) {
            errors.push(Unsupported {
                message: format!(
                    "a packet may get {has} {what}; hardware keeps them in registers, {most} at most"
                ),
                help: "emit fewer or smaller headers".to_string(),
                span: handler.span,
            });
        }
    }
    room.access = room.access.next_multiple_of(64);
    if errors.is_empty() { Ok(room) } else { Err(errors) }
}

/// Bytes that are emitted when the packet of an internal event comes to its handler, for every
/// handler: what its senders emitted. Where packets go round and get more headers every time, this
/// grows until it is too much.
fn before(program: &Program, bits: &Bits) -> SecondaryMap<HandlerId, u32> {
    let mut starts: SecondaryMap<HandlerId, u32> = SecondaryMap::new();
    loop {
        let known = starts.clone();
        for (id, handler) in &program.handlers {
            let mut sends = Vec::new();
            let sum = Emitted { now: known[id], most: known[id] };
            region(&handler.body, bits, handler.body.entry(), sum, &mut sends);
            for (event, bytes) in sends {
                if let Some(to) = program.handler_of(event) {
                    starts[to] = starts[to].max(bytes);
                }
            }
        }
        if starts == known || starts.values().any(|bytes| *bytes > MOST_HEADER) {
            return starts;
        }
    }
}

/// Bytes emitted after a region, and those at events that are generated there. Loops repeat what
/// one trip adds.
fn region(
    body: &Body,
    bits: &Bits,
    block: BlockId,
    mut sum: Emitted,
    sends: &mut Vec<(EventId, u32)>,
) -> Emitted {
    for inst in &body.blocks[block].insts {
        match &body.insts[*inst].op {
            Op::Generate { event, .. } => sends.push((*event, sum.now)),
            Op::Emit { value, .. } => sum.now += bits.bytes(body.ty(*value)),
            Op::Reset { .. } => sum.now = 0,
            Op::If { then, other, .. } => {
                let arms = [*then, *other].map(|arm| (arm, region(body, bits, arm, sum, sends)));
                // What an arm that leaves the handler emits is not there behind the `if`.
                let stays = |arm: BlockId| {
                    !matches!(body.terminator(arm).map(|inst| &inst.op), Some(Op::Return(_)))
                };
                let now = arms
                    .iter()
                    .filter(|(arm, _)| stays(*arm))
                    .map(|(_, emitted)| emitted.now)
                    .max();
                let most = arms.iter().map(|(_, emitted)| emitted.most).max().unwrap_or(0);
                sum = Emitted { now: now.unwrap_or(0), most };
            }
            Op::Loop { max_trips, body: inner, .. } => {
                let once = region(body, bits, *inner, sum, sends);
                let more =
                    once.now.saturating_sub(sum.now).saturating_mul(max_trips.saturating_sub(1));
                sum.now = once.now.saturating_add(more);
                sum.most = once.most.saturating_add(more);
            }
            _ => {}
        }
        sum.most = sum.most.max(sum.now);
    }
    sum
}
