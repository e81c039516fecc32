//! Exact meaning of αIR's ops, for a proof that an XDP object does the same ([`crate::equal`]).
//!
//! Tables are the kernel's maps: an op on an entry is the call of the kernel's helper that does
//! it, with key and value in memory of their own. What was emitted waits in such memory, too,
//! until the packet leaves. Ops that are not here end their path with a reason, never with a guess.
//!
//! Frames that the kernel would refuse are left out: with less than an Ethernet header, or with
//! more in front than its headroom has.

use std::collections::BTreeMap;

use nicforge_ir::{EventId, Handler, HandlerId, InstId, Op, Program, TableId, ValueId};

use super::packet::{MOST_CLEARED, joined, stores, word};
use super::{Front, Refused};
use crate::ebpf::helpers::{HEAD, LEAST};
use crate::ebpf::{CONTEXT, MAP_POINTER, PACKET, RESERVED, VALUES, VALUES_EACH, XDP};
use crate::graph::{Cost, Effect, Expr, Graph, Slot};
use crate::term::Op as TermOp;

/// Address of what was emitted.
const EMITTED: u64 = RESERVED + (1 << 38);
/// Address of the port of arrival, 32 bits.
pub const ARRIVAL: u64 = RESERVED + (1 << 35);
/// `ingress_ifindex` of `struct xdp_md`.
pub const INTERFACE: u64 = 12;
/// `bpf_ktime_get_ns`, `bpf_get_prandom_u32` and `bpf_redirect_map`.
pub const CLOCK: i32 = 5;
pub const RANDOM: i32 = 7;
const REDIRECT_MAP: i32 = 51;
/// `bpf_ringbuf_output`.
const RING_OUTPUT: i32 = 130;
/// Call that makes a record with a part of the packet, which is no helper of the kernel. It is told
/// map, bytes and how many, where the part begins and how long it is.
pub const FRAME: i32 = -2;
/// Address of a record's head, in front of what was emitted, and of records without a packet.
const HEAD_OF_RECORD: u64 = EMITTED - RECORD_HEAD;
const RECORD: u64 = RESERVED + (1 << 37);
/// Bytes of a record's head: `{ u32 kind; u32 length; u64 addr; }`.
pub const RECORD_HEAD: u64 = 16;
/// Most bytes of the packet in a record (`NF_RECORD_BYTES`).
pub const RECORD_BYTES: u64 = 4096;
/// Verdicts of XDP programs.
const DROP: u64 = 1;
const PASS: u64 = 2;
pub const TX: u64 = 3;
pub const REDIRECT: u64 = 4;
/// Most bytes of a sum that is followed.
const MOST_SUMMED: usize = 256;

/// Keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The table's.
    Same,
    /// A `u32` index.
    Index,
    /// `{ u32 bits; key }`.
    Prefix,
}

/// A table's map in the kernel.
#[derive(Clone, Debug)]
pub struct TableMap {
    pub map: usize,
    pub keys: Keys,
    /// Bytes in front of the table's value in the map's.
    pub front: u32,
}

/// The ring buffer to the program's host side, and the kinds of its records.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    pub map: usize,
    pub packet: u32,
    pub message: u32,
    pub write: u32,
    /// A copy of a packet for a port.
    pub copy: u32,
}

/// Surroundings of the program in the kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Tables that are not here are not followed.
    pub tables: BTreeMap<TableId, TableMap>,
    /// The map of ports that packets leave by; port n is interface n + 1.
    pub ports: Option<usize>,
    /// The ring to the host side; without it, what goes there is not followed.
    pub records: Option<Records>,
    /// A variable of eight bytes that nobody writes and that is zero: its map, and where in it.
    pub zero: Option<(usize, u64)>,
    /// The constant tables of CRC32C ([`super::crc_tables`]): their map, and where in it.
    pub crc: Option<(usize, u64)>,
}

/// Slots of calls, and what a packet's way leaves.
pub(super) struct Exact<'p> {
    pub kernel: &'p Kernel,
    /// Registers of calls: what a helper gives, then what it is told.
    regs: [Slot; 6],
    /// Bytes that were emitted, 32 bits.
    emitted: Slot,
    /// Verdict of the XDP program, 32 bits.
    verdict: Slot,
    /// What random numbers begin with, 64 bits, and how many were drawn, 32 bits.
    seed: Slot,
    drawn: Slot,
}

fn wide(value: Expr) -> Expr {
    Expr::zext(value, 64)
}

/// Equality of two values of one width: one bit.
pub fn equal(a: Expr, b: Expr) -> Expr {
    Expr::binary(TermOp::Eq, a, b)
}

/// The block language's form of a handler, in the memory of an XDP program's graph, with calls of
/// helpers left open as in [`crate::ebpf::open`]. Functions must have been inlined.
///
/// # Errors
/// What is not handled at all, with its place.
pub fn graph(
    program: &Program,
    handler: HandlerId,
    kernel: &Kernel,
    space: &Graph,
) -> Result<Graph, Refused> {
    let free = |_: HandlerId, _: InstId| Cost::default();
    let mut front = Front::new(program, handler, &free);
    front.inside(kernel, space);
    Ok(front.run(handler)?.graph)
}

impl<'p> Front<'p> {
    /// Makes a graph whose memory is that of an XDP program.
    fn inside(&mut self, kernel: &'p Kernel, space: &Graph) {
        // Registers are the first slots.
        let mut out = Graph {
            regions: space.regions.clone(),
            given: space.given.clone(),
            bytes: space.bytes.clone(),
            ..Graph::default()
        };
        let regs = std::array::from_fn(|_| out.slot(64));
        let [cursor, end, next, port] = std::array::from_fn(|_| out.slot(32));
        let [emitted, verdict, drawn] = std::array::from_fn(|_| out.slot(32));
        let [temp, now, seed] = std::array::from_fn(|_| out.slot(64));
        let zero = Expr::Const(32, 0);
        out.start = vec![
            (cursor, zero.clone()),
            (end, Expr::zext(Expr::Size(0), 32)),
            (next, zero.clone()),
            (emitted, zero.clone()),
            (drawn, zero),
            // Who says nothing drops it.
            (verdict, Expr::Const(32, DROP)),
        ];
        self.out = out;
        (self.cursor, self.end, self.next, self.port) = (cursor, end, next, port);
        (self.temp, self.now) = (temp, now);
        self.packet = PACKET;
        self.arrays();
        self.exact = Some(Exact { kernel, regs, emitted, verdict, seed, drawn });
    }

    /// What is read before the first op: the port of arrival and, if anybody asks, the time.
    pub(super) fn arrive(&mut self, id: InstId) {
        let Some(exact) = &self.exact else { return };
        let (regs, zero, seed) = (exact.regs, exact.kernel.zero, exact.seed);
        let from = Effect::Load { slot: self.port, address: word(CONTEXT + INTERFACE), bytes: 4 };
        let number = |port: u32| Expr::Const(32, port.into());
        let is = |port: u32| equal(Expr::Slot(self.port), number(port + 1));
        let ports = self.program.ports.max(1);
        let port = (1..ports)
            .rev()
            .fold(number(0), |other, port| Expr::ite(is(port), number(port), other));
        let kept = Effect::Store { address: word(ARRIVAL), bytes: 4, value: Expr::Slot(self.port) };
        let mut effects = vec![from, Effect::Set(self.port, port), kept];
        let asks = |op: &Op| {
            let asks = |handler: &Handler| handler.body.insts.values().any(|inst| inst.op == *op);
            self.program.handlers.values().any(asks)
        };
        if asks(&Op::Now) {
            effects.push(Effect::Call { helper: CLOCK, slots: regs });
            effects.push(Effect::Set(self.now, Expr::Slot(regs[0])));
        }
        if asks(&Op::Random) {
            let half = |high: Expr| {
                let low = Expr::extract(Expr::Slot(regs[0]), 0, 32);
                [
                    Effect::Call { helper: RANDOM, slots: regs },
                    Effect::Set(seed, Expr::concat(high, low)),
                ]
            };
            effects.extend(half(Expr::Const(32, 0)));
            effects.extend(half(Expr::extract(Expr::Slot(seed), 0, 32)));
        }
        if let Some((map, offset)) = zero {
            let address = word(VALUES + map as u64 * VALUES_EACH + offset);
            effects.push(Effect::Load { slot: self.temp, address, bytes: 8 });
            effects.push(Effect::Presume(equal(Expr::Slot(self.temp), word(0))));
        }
        self.free(id, effects);
    }

    /// The handler's end.
    pub(super) fn returns(&mut self, id: InstId) {
        if let Some(exact) = &self.exact {
            let verdict = Effect::Set(exact.regs[0], wide(Expr::Slot(exact.verdict)));
            self.free(id, vec![verdict]);
        }
    }

    /// Ends the path: what the op does is not followed.
    pub(super) fn open(&mut self, id: InstId, what: &str) {
        self.free(id, vec![Effect::Open(format!("{what} is not followed"))]);
    }

    /// Translates an op whose meaning is more than what `bound` looks at; false: its meaning is the
    /// same.
    pub(super) fn exact_op(&mut self, id: InstId) -> bool {
        let Some(exact) = &self.exact else { return false };
        let (emitted, verdict, crc) = (exact.emitted, exact.verdict, exact.kernel.crc);
        let (seed, drawn) = (exact.seed, exact.drawn);
        let inst = &self.body().insts[id];
        let result = |n: usize| inst.results[n];
        match &inst.op {
            Op::Lookup { table, key } => self.look_up(id, *table, *key, None, Some(result(1))),
            Op::LookupBits { table, key, bits } => {
                self.look_up(id, *table, *key, Some(*bits), Some(result(1)));
            }
            Op::Contains { table, key } => self.look_up(id, *table, *key, None, None),
            Op::Update { table, key, value } => {
                let value = self.bytes(*value);
                self.put(id, *table, *key, value);
            }
            Op::Delete { table, key } => self.delete(id, *table, *key),
            Op::Commute { op, table, key, path, amount } => {
                self.commute(id, *op, *table, *key, path, *amount);
            }
            Op::Emit { value, .. } => {
                let bytes = self.bytes(*value);
                let size = bytes.len() as u64;
                let to = Expr::add(word(EMITTED), wide(Expr::Slot(emitted)));
                let mut effects = stores(to, &bytes);
                let more = Expr::add(Expr::Slot(emitted), Expr::Const(32, size));
                effects.push(Effect::Set(emitted, more));
                self.free(id, effects);
            }
            Op::Reset { .. } => {
                let zero = Expr::Const(32, 0);
                let cursor = self.cursor;
                let effects = [cursor, emitted].map(|slot| Effect::Set(slot, zero.clone()));
                self.free(id, effects.into());
            }
            Op::Drop { .. } => {
                self.free(id, vec![Effect::Set(verdict, Expr::Const(32, DROP))]);
            }
            Op::CsumAdd { sum, value } => {
                let bytes = self.bytes(*value);
                if bytes.len() > MOST_SUMMED {
                    self.open(id, "a sum over so many bytes");
                } else {
                    let sum = summed(self.int(*sum), &bytes);
                    let effects = self.set(result(0), vec![sum]);
                    self.free(id, effects);
                }
            }
            Op::Extend { len, .. }
                if self.constant(*len).is_none_or(|bytes| bytes > MOST_CLEARED) =>
            {
                self.open(id, "growth by many bytes, or by a number that is not constant,");
            }
            Op::PktCsum { .. } => self.open(id, "a sum over the packet"),
            Op::Hash { seed, value } => match crc {
                None => self.open(id, "a hash that the object computes in another way"),
                Some(table) => {
                    let (seed, bytes) = (self.int(*seed), self.bytes(*value));
                    let (mut effects, hash) = self.hashed(table, seed, &bytes);
                    effects.extend(self.set(result(0), vec![hash]));
                    self.free(id, effects);
                }
            },
            Op::Random => {
                let (mut effects, number) = self.random_at(Expr::Slot(seed), Expr::Slot(drawn));
                effects.extend(self.set(result(0), vec![number]));
                let more = Expr::add(Expr::Slot(drawn), Expr::Const(32, 1));
                effects.push(Effect::Set(drawn, more));
                self.free(id, effects);
            }
            Op::Log { .. } => self.open(id, "a line of a log"),
            Op::NewPacket { .. } => self.open(id, "a new packet"),
            Op::Least { .. } => self.open(id, "a search through a table"),
            Op::Crypto { .. } => self.open(id, "a cipher or digest"),
            Op::Regex { .. } => self.open(id, "a search for patterns"),
            Op::Extern { name, .. } => self.open(id, &format!("the C function `{name}`")),
            Op::FibLookup { .. } => self.open(id, "a look-up of routes"),
            Op::BufAppend { .. }
            | Op::BufLen { .. }
            | Op::BufRead { .. }
            | Op::BufClear { .. }
            | Op::BufGenerate { .. } => self.open(id, "a byte string"),
            _ => return false,
        }
        true
    }

    /// An event to outside.
    pub(super) fn exact_event(&mut self, id: InstId, event: EventId, args: &[ValueId]) {
        let Some(exact) = &self.exact else { return };
        let (verdict, regs, ports) = (exact.verdict, exact.regs, exact.kernel.ports);
        let (emitted, records) = (exact.emitted, exact.kernel.records);
        let name = &self.program.events[event].name;
        match (name.as_str(), args, records) {
            ("stack_recv", ..) => {
                self.finish_packet(id);
                self.free(id, vec![Effect::Set(verdict, Expr::Const(32, PASS))]);
            }
            ("host_recv", _, Some(records)) => {
                self.finish_packet(id);
                let gone = Expr::Slot(emitted);
                let from = Expr::sub(Expr::Slot(self.cursor), gone.clone());
                let length = Expr::sub(Expr::Slot(self.end), from.clone());
                let part = (from, at_most(length, Expr::Const(32, RECORD_BYTES)));
                self.record(id, (records, records.packet), word(0), Expr::Const(32, 0), part);
                self.free(id, vec![Effect::Set(verdict, Expr::Const(32, DROP))]);
            }
            ("host_copy", _, Some(records)) => self.copy(id, (records, records.packet), word(0)),
            ("net_copy", [_, port], Some(records)) => {
                let port = wide(self.int_as(*port, 32));
                self.copy(id, (records, records.copy), port);
            }
            ("dma_write", [_, address, length], Some(records)) => {
                let (address, length) = (self.int_as(*address, 64), self.int_as(*length, 32));
                let from = Expr::Slot(self.cursor);
                let rest = Expr::sub(Expr::Slot(self.end), from.clone());
                let length = at_most(at_most(rest, length), Expr::Const(32, RECORD_BYTES));
                let kind = (records, records.write);
                self.record(id, kind, address, Expr::Const(32, 0), (from, length));
            }
            ("host_msg", [message], Some(records)) => {
                let bytes = self.bytes(*message);
                let size = bytes.len() as u64;
                let mut effects = head(RECORD, records.message, Expr::Const(32, size), word(0));
                effects.extend(stores(word(RECORD + RECORD_HEAD), &bytes));
                self.free(id, effects);
                let map = word(MAP_POINTER + records.map as u64);
                let args = vec![map, word(RECORD), word(RECORD_HEAD + size), word(0)];
                self.call(id, RING_OUTPUT, args);
            }
            ("net_send", [_, port], _) => {
                self.finish_packet(id);
                if let Some(Op::InPort { .. }) = self.body().def_op(*port) {
                    self.free(id, vec![Effect::Set(verdict, Expr::Const(32, TX))]);
                    return;
                }
                let Some(map) = ports else { return self.open(id, "a port") };
                let port = self.int_as(*port, 32);
                let args = vec![word(MAP_POINTER + map as u64), wide(port.clone()), word(0)];
                self.call(id, REDIRECT_MAP, args);
                let gives = Expr::Slot(regs[0]);
                // Every port has its interface.
                let known =
                    Expr::binary(TermOp::Ult, port, Expr::Const(32, self.program.ports.into()));
                let goes = equal(gives.clone(), word(REDIRECT));
                self.free(
                    id,
                    vec![
                        Effect::Presume(equal(goes, known)),
                        Effect::Set(verdict, Expr::extract(gives, 0, 32)),
                    ],
                );
            }
            _ => self.open(id, &format!("`{name}`")),
        }
    }

    /// A record with a copy of the packet as it would leave now: none if that is longer than
    /// records are.
    fn copy(&mut self, id: InstId, kind: (Records, u32), addr: Expr) {
        let Some(exact) = &self.exact else { return };
        let emitted = Expr::Slot(exact.emitted);
        let from = Expr::Slot(self.cursor);
        let rest = Expr::sub(Expr::Slot(self.end), from.clone());
        let long = Expr::binary(TermOp::Ult, Expr::Const(32, RECORD_BYTES), rest.clone());
        let (too_long, fits) = self.branch(long);
        let done = self.reserve();
        self.at = fits;
        self.record(id, kind, addr, emitted, (from, rest));
        self.goto(done);
        self.at = too_long;
        self.goto(done);
        self.at = done;
    }

    /// A record with so many of the bytes that were emitted, and a part of the packet: from where,
    /// and how many bytes.
    fn record(
        &mut self,
        id: InstId,
        (records, kind): (Records, u32),
        addr: Expr,
        emitted: Expr,
        (from, length): (Expr, Expr),
    ) {
        let whole = Expr::add(emitted.clone(), length.clone());
        self.free(id, head(HEAD_OF_RECORD, kind, whole, addr));
        let map = word(MAP_POINTER + records.map as u64);
        let size = Expr::add(word(RECORD_HEAD), wide(emitted));
        let from = Expr::add(Expr::Const(32, PACKET), from);
        self.call(id, FRAME, vec![map, word(HEAD_OF_RECORD), size, wide(from), wide(length)]);
    }

    /// Calls a helper.
    pub(super) fn call(&mut self, id: InstId, helper: i32, args: Vec<Expr>) {
        let Some(exact) = &self.exact else { return };
        let regs = exact.regs;
        let told = regs[1..].iter().zip(args).map(|(slot, arg)| Effect::Set(*slot, arg));
        let effects = told.chain([Effect::Call { helper, slots: regs }]).collect();
        self.free(id, effects);
    }

    /// What the last call gave.
    pub(super) fn given(&self) -> Expr {
        self.exact.as_ref().map_or(word(0), |exact| Expr::Slot(exact.regs[0]))
    }

    /// Moves the packet's ends to what it means, and writes in front of the rest what was emitted.
    fn finish_packet(&mut self, id: InstId) {
        let Some(exact) = &self.exact else { return };
        let emitted = Expr::Slot(exact.emitted);
        let (cursor, end) = (Expr::Slot(self.cursor), Expr::Slot(self.end));
        let number = |value: u64| Expr::Const(32, value);
        let below = |a: Expr, b: Expr| Expr::binary(TermOp::Ult, a, b);
        let fits = Expr::not(below(Expr::add(cursor.clone(), number(HEAD)), emitted.clone()));
        let long = Expr::not(below(
            Expr::add(end.clone(), emitted.clone()),
            Expr::add(cursor.clone(), number(LEAST)),
        ));
        let at = self.out.slot(32);
        let begin = self.out.slot(64);
        let start = Expr::sub(Expr::add(word(PACKET), wide(cursor)), wide(emitted.clone()));
        self.free(
            id,
            vec![
                Effect::Presume(fits),
                Effect::Presume(long),
                Effect::Set(at, number(0)),
                Effect::Set(begin, start),
            ],
        );
        let header = self.reserve();
        self.goto(header);
        self.at = header;
        let (more, done) = self.branch(below(Expr::Slot(at), emitted));
        self.at = more;
        let offset = || wide(Expr::Slot(at));
        let load =
            Effect::Load { slot: self.temp, address: Expr::add(word(EMITTED), offset()), bytes: 1 };
        let store = Effect::Store {
            address: Expr::add(Expr::Slot(begin), offset()),
            bytes: 1,
            value: Expr::extract(Expr::Slot(self.temp), 0, 8),
        };
        let next = Effect::Set(at, Expr::add(Expr::Slot(at), number(1)));
        self.free(id, vec![load, store, next]);
        self.goto(header);
        self.at = done;
        let ends = [XDP.data, XDP.data_meta].map(|member| Effect::Store {
            address: word(CONTEXT + member),
            bytes: 4,
            value: Expr::extract(Expr::Slot(begin), 0, 32),
        });
        self.free(id, ends.into());
        let whole = equal(end.clone(), Expr::zext(Expr::Size(0), 32));
        let moved = Effect::Store {
            address: word(CONTEXT + XDP.data_end),
            bytes: 4,
            value: Expr::add(Expr::Const(32, PACKET), end),
        };
        self.either(id, whole, Vec::new(), vec![moved]);
    }
}

/// Stores of a record's head: kind, length of 32 bits, address of 64.
fn head(at: u64, kind: u32, length: Expr, addr: Expr) -> Vec<Effect> {
    let store = |at: u64, bytes: u8, value: Expr| Effect::Store { address: word(at), bytes, value };
    vec![
        store(at, 4, Expr::Const(32, kind.into())),
        store(at + 4, 4, length),
        store(at + 8, 8, addr),
    ]
}

fn at_most(value: Expr, most: Expr) -> Expr {
    let more = Expr::binary(TermOp::Ult, most.clone(), value.clone());
    Expr::ite(more, most, value)
}

/// A ones-complement sum with bytes added, as 16-bit words in network order (RFC 1071): folded to
/// 16 bits.
fn summed(sum: Expr, bytes: &[Expr]) -> Expr {
    let mut total = word(0);
    for chunk in bytes.chunks(4) {
        total = Expr::add(total, wide(joined(chunk)));
    }
    let folded = Expr::extract(fold(total), 0, 16);
    let (low, high) = (Expr::extract(folded.clone(), 0, 8), Expr::extract(folded, 8, 8));
    let swapped = Expr::concat(low, high);
    Expr::extract(fold(Expr::add(wide(sum), wide(swapped))), 0, 32)
}

/// Carries of a sum of 64 bits added to its low 16 bits.
fn fold(sum: Expr) -> Expr {
    let half = |sum: Expr, bits: u8| {
        let low = wide(Expr::extract(sum.clone(), 0, bits));
        Expr::add(low, wide(Expr::extract(sum, bits, 64 - bits)))
    };
    [32, 16, 16, 16].into_iter().fold(sum, half)
}
