//! Helpers that speak with the host: messages, and the kernel's routes.

use nicforge_ir::{
    BinOp, CmpOp, Direction, Event, Field, Op, Param, Proj, StructDef, Type, ValueId,
};
use nicforge_isa::ebpf::helper_name;

use crate::error::{Halt, refuse};
use crate::helpers::number as n;
use crate::layout::{Node, divide};
use crate::lifter::{Lifter, Message};
use crate::state::{Fork, Memory, Record, State};
use crate::value::{Abs, Cond, Num, Place};

/// Bytes of `struct bpf_fib_lookup`, and where its members are.
const FIB_BYTES: u32 = 64;
mod fib {
    pub const FAMILY: i64 = 0;
    pub const PROTOCOL: i64 = 1;
    pub const LENGTH: i64 = 6;
    pub const IFINDEX: i64 = 8;
    pub const METRIC: i64 = 12;
    pub const SOURCE: i64 = 16;
    pub const DESTINATION: i64 = 32;
    pub const VLAN: i64 = 48;
    pub const SOURCE_MAC: i64 = 52;
}
const AF_INET6: u64 = 10;
/// What a look-up without an answer returns (`BPF_FIB_LKUP_RET_NOT_FWDED`).
const NOT_FORWARDED: u64 = 4;

/// Name of the struct of messages with bytes of the packet behind them.
const SAMPLE: &str = "sample";
/// Bytes of the packet in a message at most.
pub const MOST_SAMPLED: u32 = 256;

impl Lifter<'_> {
    /// `bpf_perf_event_output` and `bpf_ringbuf_output`: bytes of memory as a message.
    pub fn message(&mut self, state: &mut State, helper: i32, args: [Abs; 5]) -> Result<Abs, Halt> {
        let name = helper_name(helper);
        let (data, size, packet) = if helper == n::RINGBUF_OUTPUT {
            (args[1], args[2], None)
        } else {
            // The upper half says how many bytes of the packet follow.
            let flags = self.num(args[2])?;
            let upper = self.binary(BinOp::Shr, flags, Num::known(32), 64);
            (args[3], args[4], (upper != Num::known(0)).then_some(upper))
        };
        let (data, size) = (self.read(data)?, self.size(size)?);
        self.send_message(state, &name, (data, size), packet)?;
        Ok(Abs::known(0))
    }

    /// `bpf_ringbuf_reserve`: memory that nobody else knows. There is always room for it.
    pub fn reserve(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Abs, Halt> {
        let bytes = self.size(args[1])?;
        let record = self.fresh();
        state.records.insert(record, Record { bytes, memory: Memory::default() });
        Ok(Abs::Record { record, place: Place::at(0) })
    }

    /// `bpf_ringbuf_submit` and `bpf_ringbuf_discard`.
    pub fn give_record(&mut self, state: &mut State, given: Abs, sent: bool) -> Result<Abs, Halt> {
        let name = if sent { "bpf_ringbuf_submit" } else { "bpf_ringbuf_discard" };
        let Abs::Record { record, place: Place { off: 0, var: None } } = self.read(given)? else {
            return refuse(format!("{name} without the start of a reserved record"));
        };
        let Some(bytes) = state.records.get(&record).map(|record| record.bytes) else {
            return refuse(format!("{name} with a record that was given away"));
        };
        if sent {
            self.send_message(state, name, (given, bytes), None)?;
        }
        state.records.remove(&record);
        Ok(Abs::Unusable("the result of giving a record away"))
    }

    /// Sends bytes of memory, with so many bytes of the packet behind them.
    fn send_message(
        &mut self,
        state: &mut State,
        name: &str,
        (data, size): (Abs, u32),
        packet: Option<Num>,
    ) -> Result<(), Halt> {
        if size == 0 && packet.is_none() {
            return refuse(format!("{name} without bytes"));
        }
        let known = self.program.event_named("host_msg");
        let (ty, node, sampled) = self.message_type(size, packet.is_some())?;
        let (mut value, _) = self.gather_first(state, data, (0, size), ty, &node)?;
        if sampled {
            // A message may be bytes of the packet alone.
            let bare = self.message.as_ref().is_some_and(|message| message.size == 0);
            let head = (!bare).then_some(value);
            value = self.with_packet(state, head, packet.unwrap_or(Num::known(0)))?;
        }
        let ty = self.body.ty(value);
        let event = known.unwrap_or_else(|| {
            let param = Param { name: "msg".to_string(), ty, borrowed: false };
            self.program.events.push(Event {
                name: "host_msg".to_string(),
                direction: Direction::Out,
                params: vec![param],
                zeros: 0,
                period: None,
            })
        });
        self.build().push0(Op::Generate { event, args: vec![value] });
        Ok(())
    }

    /// Type of all messages: as long as the longest of the program, and with bytes of the packet if
    /// any has them. If this one is not like those before, the walk begins again.
    fn message_type(&mut self, size: u32, packet: bool) -> Result<(Type, Node, bool), Halt> {
        let first = self.labels() + 2 * self.object.maps.len();
        let named = |size: u32, packet: bool| first + 2 * size as usize + usize::from(packet);
        let known = match &self.message {
            Some(known) => (known.size, known.packet),
            None => self.apart.range(first..).fold((0, false), |(most, any), label| {
                (((label - first) / 2).max(most as usize) as u32, any || (label - first) % 2 == 1)
            }),
        };
        let both = (known.0.max(size), known.1 || packet);
        let fixed = both.1 || size < both.0;
        match &mut self.message {
            Some(message) if both == known => {
                message.fixed |= fixed;
                Ok((message.ty, message.node.clone(), message.packet))
            }
            Some(_) => Err(Halt::Split(named(both.0, both.1))),
            None => {
                let (size, packet) = both;
                // No type is without bytes.
                let (ty, node) = divide(&mut self.program, "message", size.max(1), None);
                self.message = Some(Message { size, packet, fixed, ty, node: node.clone() });
                Ok((ty, node, packet))
            }
        }
    }

    /// A message and the first `count` bytes of the packet, [`MOST_SAMPLED`] at most; zeros follow.
    fn with_packet(
        &mut self,
        state: &mut State,
        head: Option<ValueId>,
        count: Num,
    ) -> Result<ValueId, Halt> {
        if state.front.bytes > 0 {
            return refuse("sends bytes of a packet with headers that were put in front");
        }
        let bytes = self.program.array_of(Type::U8, MOST_SAMPLED);
        let known = self.program.structs.iter().find(|(_, def)| def.name == SAMPLE);
        let ty = match known {
            Some((id, _)) => Type::Struct(id),
            None => {
                let field = |name: &str, ty| Field {
                    name: name.to_string(),
                    ty,
                    bit_width: None,
                    big_endian: false,
                };
                let head = head.map(|head| field("head", self.body.ty(head)));
                let fields = head.into_iter().chain([field("packet", bytes)]).collect();
                let def = StructDef { name: SAMPLE.to_string(), packed: true, fields };
                Type::Struct(self.program.add_struct(def))
            }
        };
        let mut whole = self.push1(Op::Zero, ty);
        if let Some(value) = head {
            whole = self.push1(Op::Set { agg: whole, path: vec![Proj::Field(0)], value }, ty);
        }
        if count == Num::known(0) {
            return Ok(whole);
        }
        let count = self.value(count, 32);
        let empty = self.push1(Op::Zero, bytes);
        let zero = self.build().int(0, Type::U32);
        let (pkt, outside, body) = (self.pkt, self.at, self.build().new_block());
        let at = self.build().param(body, Type::U32, None);
        let so_far = self.build().param(body, bytes, None);
        self.at = body;
        let (ok, byte) = self.build().push2(Op::Load { pkt, off: at }, Type::BOOL, Type::U8);
        let wanted = self.push1(Op::Cmp(CmpOp::Lt, at, count), Type::BOOL);
        let more = self.push1(Op::Bin(BinOp::And, ok, wanted), Type::BOOL);
        let (then, other) = (self.build().new_block(), self.build().new_block());
        self.build().push0(Op::If { cond: more, likely: None, then, other });
        self.at = other;
        self.build().push0(Op::Break { depth: 0, values: vec![at, so_far] });
        self.at = then;
        self.build().push0(Op::Yield(Vec::new()));
        self.at = body;
        let path = vec![Proj::Index(at)];
        let with = self.push1(Op::Set { agg: so_far, path, value: byte }, bytes);
        let one = self.build().int(1, Type::U32);
        let next = self.push1(Op::Bin(BinOp::Add, at, one), Type::U32);
        self.build().push0(Op::Continue { depth: 0, values: vec![next, with] });
        self.at = outside;
        let init = vec![zero, empty];
        let op = Op::Loop { max_trips: MOST_SAMPLED, init, body };
        let (_, packet) = self.build().push2(op, Type::U32, bytes);
        let path = vec![Proj::Field(head.iter().len() as u32)];
        Ok(self.push1(Op::Set { agg: whole, path, value: packet }, ty))
    }

    /// `bpf_fib_lookup`, of whose failures only one is known: the packet is not forwarded.
    pub fn fib_lookup(&mut self, state: &mut State, args: [Abs; 5]) -> Result<Option<Fork>, Halt> {
        let params = self.read(args[1])?;
        let Abs::Stack { .. } = params else {
            return refuse(format!("bpf_fib_lookup with {} for its parameters", params.kind()));
        };
        if self.size(args[2])? < FIB_BYTES {
            return refuse("bpf_fib_lookup with parameters that are too short");
        }
        // Rules of policy routing, which `BPF_FIB_LOOKUP_DIRECT` leaves out, are not known anyway.
        if !matches!(self.num(args[3])?.constant(), Some(0 | 1)) {
            return refuse("bpf_fib_lookup with flags besides BPF_FIB_LOOKUP_DIRECT");
        }
        let (query, answer) = self.fib_types();
        let query = self.fib_query(state, params, query)?;
        let (ok, answer) = self.build().push2(Op::FibLookup { query }, Type::BOOL, answer);
        let mut fails = state.clone();
        fails.done(Abs::known(NOT_FORWARDED));
        let port = self.push1(Op::Get { agg: answer, path: vec![Proj::Field(0)] }, Type::U32);
        let ifindex = self.add(Num::of(port, 32), Num::known(1));
        let ifindex = Abs::Num(self.truncate(ifindex, 32));
        self.store(state, params, fib::IFINDEX, 4, ifindex)?;
        self.store(state, params, fib::VLAN, 4, Abs::known(0))?;
        for nth in 0..12 {
            let index = self.build().int(nth % 6, Type::U32);
            let path = vec![Proj::Field(1 + (nth / 6) as u32), Proj::Index(index)];
            let byte = self.push1(Op::Get { agg: answer, path }, Type::U8);
            let at = fib::SOURCE_MAC + nth as i64;
            self.store(state, params, at, 1, Abs::Num(Num::of(byte, 8)))?;
        }
        // Which gateway, metric and MTU there are is not in the answer.
        let unknown = Abs::Unusable("what bpf_fib_lookup found besides the neighbour");
        self.store(state, params, fib::LENGTH, 2, unknown)?;
        for at in [fib::METRIC].into_iter().chain((0..4).map(|n| fib::DESTINATION + 4 * n)) {
            self.store(state, params, at, 4, unknown)?;
        }
        state.done(Abs::known(0));
        Ok(Some(Fork { cond: ok, fails, again: false }))
    }

    /// The query that the parameters ask.
    fn fib_query(&mut self, state: &mut State, params: Abs, ty: Type) -> Result<ValueId, Halt> {
        let mut query = self.push1(Op::Zero, ty);
        let mut put = |lifter: &mut Self, path: Vec<Proj>, num: Num, bits: u32| {
            let value = lifter.value(num, bits);
            query = lifter.push1(Op::Set { agg: query, path, value }, ty);
        };
        let number = |lifter: &mut Self, state: &mut State, off: i64, bytes: u32| {
            let found = lifter.load(state, params, off, bytes)?;
            lifter.num(found)
        };
        let family = number(self, state, fib::FAMILY, 1)?;
        let six: Cond = self.equals(family, AF_INET6);
        let family = self.select(six, Num::known(6), Num::known(4));
        put(self, vec![Proj::Field(0)], family, 8);
        let protocol = number(self, state, fib::PROTOCOL, 1)?;
        put(self, vec![Proj::Field(1)], protocol, 8);
        let length = number(self, state, fib::LENGTH, 2)?;
        put(self, vec![Proj::Field(2)], length, 16);
        let ifindex = number(self, state, fib::IFINDEX, 4)?;
        let port = self.port(ifindex);
        put(self, vec![Proj::Field(3)], port, 32);
        for (field, from) in [(4, fib::SOURCE), (5, fib::DESTINATION)] {
            for word in 0..4 {
                let num = number(self, state, from + 4 * word, 4)?;
                let index = self.build().int(word as u64, Type::U32);
                put(self, vec![Proj::Field(field), Proj::Index(index)], num, 32);
            }
        }
        Ok(query)
    }

    /// `struct nf_fib_query` and `struct nf_fib_answer`.
    fn fib_types(&mut self) -> (Type, Type) {
        let named = |lifter: &Self, name: &str| {
            let mut all = lifter.program.structs.iter();
            all.find(|(_, def)| def.name == name).map(|(id, _)| Type::Struct(id))
        };
        let known = (named(self, "nf_fib_query"), named(self, "nf_fib_answer"));
        if let (Some(query), Some(answer)) = known {
            return (query, answer);
        }
        let words = self.program.array_of(Type::U32, 4);
        let mac = self.program.array_of(Type::U8, 6);
        let query = [
            ("family", Type::U8),
            ("protocol", Type::U8),
            ("length", Type::U16),
            ("port", Type::U32),
            ("src", words),
            ("dst", words),
        ];
        let answer = [("port", Type::U32), ("src_mac", mac), ("dst_mac", mac)];
        let mut structure = |name: &str, members: &[(&str, Type)]| {
            let field = |(name, ty): &(&str, Type)| Field {
                name: name.to_string(),
                ty: *ty,
                bit_width: None,
                big_endian: false,
            };
            let fields = members.iter().map(field).collect();
            let def = StructDef { name: name.to_string(), packed: false, fields };
            Type::Struct(self.program.add_struct(def))
        };
        (structure("nf_fib_query", &query), structure("nf_fib_answer", &answer))
    }
}
