//! The program and its parts: arenas with typed ids, no pointers, no string keys.

use cranelift_entity::{PrimaryMap, SecondaryMap};

pub use crate::ids::*;
use crate::ops::Op;
use crate::span::{FileId, SourceFile, Span};
use crate::types::{ArrayDef, ArrayId, StructDef, StructId, Type};

/// A stateful handler graph.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub files: PrimaryMap<FileId, SourceFile>,
    pub structs: PrimaryMap<StructId, StructDef>,
    pub arrays: PrimaryMap<ArrayId, ArrayDef>,
    pub tables: PrimaryMap<TableId, Table>,
    pub consts: PrimaryMap<ConstId, ConstArray>,
    pub events: PrimaryMap<EventId, Event>,
    pub reasons: PrimaryMap<ReasonId, DropReason>,
    pub funcs: PrimaryMap<FuncId, Func>,
    pub handlers: PrimaryMap<HandlerId, Handler>,
    /// Number of network ports the program names (`NF_PORTS`), at least 1.
    pub ports: u32,
}

/// Kinds of tables, by how they find their entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Exact match; a full table refuses new keys.
    Hash,
    /// Index 0 ≤ key < capacity; every entry exists from the start, holding zero.
    Array,
    /// Exact match; a full table evicts the least recently used entry.
    Lru,
    /// Longest prefix match on the key's bytes, first byte first. Filled from outside only.
    Lpm,
    /// Value-and-mask match on the key's bytes; the highest priority wins. Filled from outside
    /// only.
    Ternary,
}

impl TableKind {
    pub const ALL: [TableKind; 5] =
        [TableKind::Hash, TableKind::Array, TableKind::Lru, TableKind::Lpm, TableKind::Ternary];

    /// The kind's number in `enum nf_table_kind` of the runtimes, and wherever they are told it.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The kind's word in C, in αIR text and in table files.
    pub fn name(self) -> &'static str {
        match self {
            TableKind::Hash => "hash",
            TableKind::Array => "array",
            TableKind::Lru => "lru",
            TableKind::Lpm => "lpm",
            TableKind::Ternary => "ternary",
        }
    }

    /// True if only the control plane inserts and deletes; handlers change what they find.
    pub fn is_filled_from_outside(self) -> bool {
        matches!(self, TableKind::Lpm | TableKind::Ternary)
    }

    /// True if handlers may insert and delete keys (`lpm` and `ternary` are filled by the control
    /// plane; the entries of an `array` always exist).
    pub fn takes_inserts(self) -> bool {
        matches!(self, TableKind::Hash | TableKind::Lru)
    }
}

/// A table: state that outlives a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    pub kind: TableKind,
    pub key: Type,
    /// The key is an integer in network order (`nf_be16/32/64`); dumps and table files show and
    /// read it as people write it.
    pub key_big_endian: bool,
    pub value: Type,
    /// Entries it holds at least.
    pub capacity: u32,
    /// Capacity in bytes of the byte string (`nf_buf(N)`) each entry carries beside its value.
    pub buf: Option<u32>,
    pub max_replicas: Option<u32>,
    /// Of arrays: events find the replica that has their entry by its number, in ranges, instead of
    /// by a hash (`NF_BY_NUMBER`).
    pub by_number: bool,
    /// Of arrays: a program that attaches as the host side may map its memory (`NF_SHARED`).
    pub shared: bool,
    pub span: Span,
}

/// A read-only array of integers or structs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstArray {
    pub name: String,
    pub elem: Type,
    /// The elements' bytes, one after the other, each `size_of(elem)` long.
    pub bytes: Vec<u8>,
    pub span: Span,
}

/// Who an event goes to or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From outside into the program (`net_recv`, `host_send`, timers).
    In,
    /// From the program to outside (`net_send`, `stack_recv`, `host_recv`, `host_msg`,
    /// `dma_write`, and copies of packets: `net_copy`, `host_copy`).
    Out,
    /// Between handlers.
    Internal,
}

/// An event and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub direction: Direction,
    pub params: Vec<Param>,
    /// Bytes of zeros at the ends of its byte strings in the mean, as a capture showed; 0 where
    /// nothing was measured. They do not cross from side to side.
    pub zeros: u32,
    /// Nanoseconds from one to the next, of a timer (`NF_TIMER`); see [`timers`](crate::timers).
    pub period: Option<u64>,
}

/// A named parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    pub ty: Type,
    /// For packets: generating the event copies from the packet and leaves its handle with the
    /// handler (`dma_write`, `net_copy`, `host_copy`), instead of giving it away.
    pub borrowed: bool,
}

/// Why packets are dropped at one place of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropReason {
    pub text: String,
    pub span: Span,
}

/// The side a handler is pinned to (`NF_ON`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Nic,
    Host,
}

/// Room of a queue: entries that wait for a handler, and what becomes of one more (`NF_QUEUE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    pub entries: u32,
    /// It is lost, and counted; otherwise whoever enqueues it waits.
    pub loses: bool,
}

/// Reacts to one event.
#[derive(Clone, Debug)]
pub struct Handler {
    pub name: String,
    pub event: EventId,
    pub body: Body,
    pub max_replicas: Option<u32>,
    /// `NF_UNORDERED`: the user gives up order between events of different keys and of the same
    /// key.
    pub unordered: bool,
    pub side: Option<Side>,
    /// Handlers of queues may say it; otherwise room is the target's.
    pub room: Option<Room>,
    pub span: Span,
}

/// A function; its parameters are the entry block's, `return` gives its results.
#[derive(Clone, Debug)]
pub struct Func {
    pub name: String,
    pub results: Vec<Type>,
    pub body: Body,
    pub span: Span,
}

/// Values, instructions and regions of one handler or function.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pub values: PrimaryMap<ValueId, Value>,
    pub insts: PrimaryMap<InstId, Inst>,
    pub blocks: PrimaryMap<BlockId, Block>,
    /// The outermost region; its parameters are the event's or the function's.
    pub entry: Option<BlockId>,
}

/// An SSA value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub ty: Type,
    /// The source variable it holds, for people and for readable generated code.
    pub name: Option<String>,
    pub def: ValueDef,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueDef {
    /// Parameter number `.1` of a region.
    Param(BlockId, u32),
    /// Result number `.1` of an instruction.
    Result(InstId, u32),
}

/// A region: parameters, a straight line, the last instruction a terminator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub params: Vec<ValueId>,
    pub insts: Vec<InstId>,
}

/// An operation with its results.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    pub op: Op,
    pub results: Vec<ValueId>,
    pub span: Span,
}

/// A body that moves into new arenas.
struct Moved<'a> {
    old: &'a Body,
    new: &'a mut Body,
    values: SecondaryMap<ValueId, Option<ValueId>>,
}

impl Moved<'_> {
    fn value(&mut self, value: ValueId, def: ValueDef) -> ValueId {
        let id = self.new.values.push(Value { def, ..self.old.values[value].clone() });
        self.values[value] = Some(id);
        id
    }

    /// Definitions come before uses, so operands have moved already.
    fn block(&mut self, block: BlockId) -> BlockId {
        let id = self.new.blocks.push(Block::default());
        let old = &self.old.blocks[block];
        let params = old.params.iter().zip(0..);
        let params =
            params.map(|(param, at)| self.value(*param, ValueDef::Param(id, at))).collect();
        self.new.blocks[id].params = params;
        for inst in &old.insts {
            let old = &self.old.insts[*inst];
            let mut op = old.op.clone();
            op.map_operands(&mut |value| self.values[value].unwrap_or(value));
            op.map_regions(&mut |region| self.block(region));
            let moved = self.new.insts.push(Inst { op, results: Vec::new(), span: old.span });
            let results = old.results.iter().zip(0..);
            let results =
                results.map(|(r, at)| self.value(*r, ValueDef::Result(moved, at))).collect();
            self.new.insts[moved].results = results;
            self.new.blocks[id].insts.push(moved);
        }
        id
    }
}

impl Body {
    /// The outermost region. Every body that a builder finished has one.
    pub fn entry(&self) -> BlockId {
        self.entry.expect("a finished body has an entry region")
    }

    /// Type of a value.
    pub fn ty(&self, value: ValueId) -> Type {
        self.values[value].ty
    }

    /// The instruction that defines `value`, unless it is a region parameter.
    pub fn def_inst(&self, value: ValueId) -> Option<InstId> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            ValueDef::Param(..) => None,
        }
    }

    /// The op that defines `value`, unless it is a region parameter.
    pub fn def_op(&self, value: ValueId) -> Option<&Op> {
        self.def_inst(value).map(|inst| &self.insts[inst].op)
    }

    /// The terminator of a region.
    pub fn terminator(&self, block: BlockId) -> Option<&Inst> {
        self.blocks[block].insts.last().map(|inst| &self.insts[*inst])
    }

    /// Drops instructions, regions and values that passes have left behind. Ids change.
    pub fn compact(&mut self) {
        let Some(entry) = self.entry else { return };
        let old = std::mem::take(self);
        let mut moved = Moved { old: &old, new: self, values: SecondaryMap::new() };
        let entry = moved.block(entry);
        self.entry = Some(entry);
    }

    /// Calls `visit` on every instruction reachable from `block`, outer ones before the regions
    /// they own.
    pub fn for_each_inst(&self, block: BlockId, visit: &mut dyn FnMut(InstId)) {
        for &inst in &self.blocks[block].insts {
            visit(inst);
            for region in self.insts[inst].op.regions() {
                self.for_each_inst(region, visit);
            }
        }
    }
}

impl Event {
    /// From outside and without a packet: a message of the host side, or a timer.
    pub fn is_aside(&self) -> bool {
        self.direction == Direction::In && self.params.iter().all(|p| p.ty != Type::Packet)
    }
}

impl Program {
    /// Bytes below which a string is none: looking for its end would cost more than they do.
    pub const SHORTEST_STRING: u32 = 16;

    /// True if values of a type are byte strings, of which what counts may end before they do: an
    /// array of bytes, or a struct with nothing else in it.
    pub fn is_string(&self, ty: Type) -> bool {
        let bytes = |ty: Type| matches!(ty, Type::Array(id) if self.arrays[id].elem == Type::U8);
        let string = match ty {
            Type::Struct(id) => matches!(&self.structs[id].fields[..], [one] if bytes(one.ty)),
            other => bytes(other),
        };
        string && self.size_of(ty) >= Program::SHORTEST_STRING
    }

    /// True if it calls functions of C that may have state of their own, so that all calls are made
    /// once and in order.
    pub fn calls_in_order(&self) -> bool {
        let calls = |body: &Body| {
            let mut found = false;
            body.for_each_inst(body.entry(), &mut |inst| {
                found |= matches!(body.insts[inst].op, Op::Extern { pure: false, .. });
            });
            found
        };
        self.handlers.values().any(|handler| calls(&handler.body))
            || self.funcs.values().any(|func| calls(&func.body))
    }

    /// An empty program with one network port.
    pub fn new(name: &str) -> Program {
        Program {
            name: name.to_string(),
            files: PrimaryMap::new(),
            structs: PrimaryMap::new(),
            arrays: PrimaryMap::new(),
            tables: PrimaryMap::new(),
            consts: PrimaryMap::new(),
            events: PrimaryMap::new(),
            reasons: PrimaryMap::new(),
            funcs: PrimaryMap::new(),
            handlers: PrimaryMap::new(),
            ports: 1,
        }
    }

    /// Adds a struct type. Struct types are nominal: two declarations are two types.
    pub fn add_struct(&mut self, def: StructDef) -> StructId {
        self.structs.push(def)
    }

    /// The array type of `len` elements of `elem`.
    pub fn array_of(&mut self, elem: Type, len: u32) -> Type {
        let def = ArrayDef { elem, len };
        let known = self.arrays.iter().find(|(_, d)| **d == def).map(|(id, _)| id);
        Type::Array(known.unwrap_or_else(|| self.arrays.push(def)))
    }

    pub fn table_named(&self, name: &str) -> Option<TableId> {
        self.tables.iter().find(|(_, t)| t.name == name).map(|(id, _)| id)
    }

    /// True if an op sends a frame to the network: a packet, a copy of one, a byte string or a new
    /// packet.
    pub fn sends(&self, op: &Op) -> bool {
        let named = |event| matches!(self.events[event].name.as_str(), "net_send" | "net_copy");
        op.event().is_some_and(named)
    }

    pub fn event_named(&self, name: &str) -> Option<EventId> {
        self.events.iter().find(|(_, e)| e.name == name).map(|(id, _)| id)
    }

    /// The timers, in the order in which those that are due at one time fire.
    pub fn timers(&self) -> impl Iterator<Item = (EventId, u64)> + '_ {
        self.events.iter().filter_map(|(id, event)| Some((id, event.period?)))
    }

    /// The handler of an event, if the program has one.
    pub fn handler_of(&self, event: EventId) -> Option<HandlerId> {
        self.handlers.iter().find(|(_, h)| h.event == event).map(|(id, _)| id)
    }

    /// A type as the text form writes it: `u16`, `nf_eth`, `u8[6]`, `packet`.
    pub fn type_name(&self, ty: Type) -> String {
        match ty {
            Type::Int { bits, signed } => format!("{}{bits}", if signed { 'i' } else { 'u' }),
            Type::Struct(id) => self.structs[id].name.clone(),
            Type::Array(id) => {
                format!("{}[{}]", self.type_name(self.arrays[id].elem), self.arrays[id].len)
            }
            Type::Packet => "packet".to_string(),
        }
    }

    /// Forgets the files that no place is in.
    pub fn prune_files(&mut self) {
        let mut kept = PrimaryMap::new();
        let mut moved: SecondaryMap<FileId, Option<FileId>> = SecondaryMap::new();
        let files = std::mem::take(&mut self.files);
        let tables = self.tables.values_mut().map(|table| &mut table.span);
        let arrays = self.consts.values_mut().map(|array| &mut array.span);
        let reasons = self.reasons.values_mut().map(|reason| &mut reason.span);
        let handlers =
            self.handlers.values_mut().map(|handler| (&mut handler.span, &mut handler.body));
        let funcs = self.funcs.values_mut().map(|func| (&mut func.span, &mut func.body));
        let bodies = handlers.chain(funcs).flat_map(|(span, body)| {
            std::iter::once(span).chain(body.insts.values_mut().map(|inst| &mut inst.span))
        });
        for span in tables.chain(arrays).chain(reasons).chain(bodies) {
            let Some(file) = span.file else { continue };
            span.file = Some(*moved[file].get_or_insert_with(|| kept.push(files[file].clone())));
        }
        self.files = kept;
    }

    /// `path:line:col` of a span, or the program's name if it has no place in a file.
    pub fn place(&self, span: Span) -> String {
        match span.file {
            Some(file) => {
                let source = &self.files[file];
                let (line, col) = span.line_col(&source.text);
                format!("{}:{line}:{col}", source.path)
            }
            None => self.name.clone(),
        }
    }
}
