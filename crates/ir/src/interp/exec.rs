//! Running one event: frames, and what each op does.

mod tables;

use std::collections::VecDeque;
use std::sync::Arc;

use cranelift_entity::EntityRef;

use super::step::{Pending, Stepped};
use super::trace::{BodyOf, Step, Tracer};
use super::{InterpError, Packet, Shapes, State, Val, arith};
use crate::build::mask;
use crate::io::{self, Output};
use crate::native::{self, Arg, Passing};
use crate::ops::{Class, Op};
use crate::patterns::Patterns;
use crate::program::{Body, Direction, EventId, HandlerId, InstId, Program, ValueId};
use crate::types::Type;

/// The values of a body while it runs.
pub struct Frame<'p> {
    pub body: &'p Body,
    pub of: BodyOf,
    values: Vec<Val>,
}

impl Frame<'_> {
    pub fn get(&self, value: ValueId) -> &Val {
        &self.values[value.index()]
    }

    pub fn set(&mut self, value: ValueId, to: Val) {
        self.values[value.index()] = to;
    }

    /// The bits of an integer value.
    pub fn int(&self, value: ValueId) -> u64 {
        match self.get(value) {
            Val::Int(raw) => *raw,
            other => unreachable!("{value} is verified to be an integer, not {other:?}"),
        }
    }
}

/// One event being run.
pub struct Exec<'r, 'p, T: Tracer + ?Sized> {
    pub program: &'p Program,
    shapes: &'r Shapes,
    state: &'r mut State,
    pub tracer: &'r mut T,
    packets: Vec<Option<Packet>>,
    outputs: Vec<Output>,
    queue: VecDeque<(EventId, Vec<Val>)>,
    time_ns: u64,
    seed: u64,
    /// Random numbers drawn so far.
    drawn: u64,
    steps: u64,
    max_steps: u64,
    /// Value arrays of finished frames, for reuse.
    pool: Vec<Vec<Val>>,
}

impl<'r, 'p, T: Tracer + ?Sized> Exec<'r, 'p, T> {
    pub fn new(
        program: &'p Program,
        shapes: &'r Shapes,
        state: &'r mut State,
        packets: Vec<Option<Packet>>,
        tracer: &'r mut T,
    ) -> Exec<'r, 'p, T> {
        Exec {
            program,
            shapes,
            state,
            tracer,
            packets,
            outputs: Vec::new(),
            queue: VecDeque::new(),
            time_ns: 0,
            seed: 0,
            drawn: 0,
            steps: 0,
            max_steps: 0,
            pool: Vec::new(),
        }
    }

    pub fn set_event(&mut self, time_ns: u64, seed: u64, max_steps: u64) {
        (self.time_ns, self.seed, self.max_steps) = (time_ns, seed, max_steps);
    }

    pub fn set_drawn(&mut self, drawn: u64) {
        self.drawn = drawn;
    }

    /// Runs a handler; the internal events it generated are handed out with their packets.
    pub fn step(mut self, handler: HandlerId, args: Vec<Val>) -> Result<Stepped, InterpError> {
        self.handler(handler, args)?;
        let mut generated = Vec::with_capacity(self.queue.len());
        while let Some((event, mut args)) = self.queue.pop_front() {
            let mut packets = Vec::new();
            for arg in &mut args {
                if let Val::Packet(_) = arg {
                    packets.push(self.take_packet(arg));
                    *arg = Val::Packet(packets.len() as u32 - 1);
                }
            }
            generated.push(Pending { event, args, packets, drawn: self.drawn });
        }
        Ok(Stepped { outputs: self.outputs, generated })
    }

    /// Runs a handler, then those of the internal events, first in first out.
    pub fn run(mut self, handler: HandlerId, args: Vec<Val>) -> Result<Vec<Output>, InterpError> {
        self.handler(handler, args)?;
        while let Some((event, args)) = self.queue.pop_front() {
            self.count_step()?;
            // The verifier saw to it that generated internal events have handlers.
            if let Some(handler) = self.program.handler_of(event) {
                self.handler(handler, args)?;
            }
        }
        Ok(self.outputs)
    }

    fn handler(&mut self, handler: HandlerId, args: Vec<Val>) -> Result<(), InterpError> {
        self.tracer.handler(handler, &args);
        let body = &self.program.handlers[handler].body;
        let mut frame = self.frame(body, BodyOf::Handler(handler), args);
        self.block(&mut frame, body.entry())?;
        self.recycle(frame);
        Ok(())
    }

    /// A frame whose entry parameters are `args`.
    pub fn frame(&mut self, body: &'p Body, of: BodyOf, args: Vec<Val>) -> Frame<'p> {
        let mut values = self.pool.pop().unwrap_or_default();
        values.clear();
        values.resize(body.values.len(), Val::Int(0));
        let mut frame = Frame { body, of, values };
        for (param, arg) in body.blocks[body.entry()].params.iter().zip(args) {
            frame.set(*param, arg);
        }
        frame
    }

    pub fn recycle(&mut self, frame: Frame) {
        self.pool.push(frame.values);
    }

    pub fn count_step(&mut self) -> Result<(), InterpError> {
        self.steps += 1;
        if self.steps > self.max_steps {
            Err(InterpError::TooManySteps(self.max_steps))
        } else {
            Ok(())
        }
    }

    pub fn trace_op(&mut self, frame: &Frame, id: InstId) {
        if !self.tracer.active() {
            return;
        }
        let inst = &frame.body.insts[id];
        let operands: Vec<Val> = inst.op.operands().map(|v| frame.get(v).clone()).collect();
        let done = !matches!(inst.op, Op::If { .. } | Op::Loop { .. } | Op::Call { .. });
        let results: Vec<Val> =
            inst.results.iter().filter(|_| done).map(|v| frame.get(*v).clone()).collect();
        self.tracer.op(&Step { body: frame.of, id, inst, operands: &operands, results: &results });
    }

    fn output(&mut self, output: Output) {
        self.tracer.output(&output);
        self.outputs.push(output);
    }

    // ---- operands --------------------------------------------------------------------------------------

    fn packet(&mut self, frame: &Frame, value: ValueId) -> &mut Packet {
        let found = match frame.get(value) {
            Val::Packet(number) => self.packets[*number as usize].as_mut(),
            _ => None,
        };
        found.expect("packets are verified to be used until they are given away")
    }

    fn take_packet(&mut self, value: &Val) -> Packet {
        let found = match value {
            Val::Packet(number) => self.packets[*number as usize].take(),
            _ => None,
        };
        found.expect("packets are verified to be given away once")
    }

    fn u32(&self, frame: &Frame, value: ValueId) -> u32 {
        frame.int(value) as u32
    }

    /// The bytes of a value.
    fn bytes(&self, frame: &Frame, value: ValueId) -> Arc<[u8]> {
        self.shapes.encode(frame.body.ty(value), frame.get(value))
    }

    /// Width and signedness of an integer value.
    fn int_type(&self, frame: &Frame, value: ValueId) -> (u8, bool) {
        match frame.body.ty(value) {
            Type::Int { bits, signed } => (bits, signed),
            other => unreachable!("{value} is verified to be an integer, not {other:?}"),
        }
    }

    /// `(1, value)` from bytes, or `(0, zero)`, into the two results of an op.
    fn set_read(&self, frame: &mut Frame, results: &[ValueId], bytes: Option<&[u8]>) {
        let ty = frame.body.ty(results[1]);
        let value =
            bytes.map_or_else(|| self.shapes.zero(ty), |bytes| self.shapes.decode(ty, bytes));
        frame.set(results[0], Val::Int(bytes.is_some() as u64));
        frame.set(results[1], value);
    }

    /// Calls a function of C.
    pub fn call_native(
        &mut self,
        frame: &mut Frame,
        id: InstId,
        name: &str,
        passing: &[Passing],
        args: &[ValueId],
    ) -> Result<(), InterpError> {
        let native =
            native::find(name).ok_or_else(|| InterpError::NoFunction { name: name.to_string() })?;
        let arg = |(value, passing): (&ValueId, &Passing)| match passing {
            Passing::Value => Arg::Word(frame.int(*value)),
            _ => Arg::Bytes(self.bytes(frame, *value).to_vec()),
        };
        let mut given: Vec<Arg> = args.iter().zip(passing).map(arg).collect();
        let result = native(&mut given);
        let mut results = frame.body.insts[id].results.iter();
        let written = passing.iter().filter(|passing| **passing == Passing::Write).count();
        if let Some(value) = (results.len() > written).then(|| results.next()).flatten() {
            let bits = frame.body.ty(*value).bits().unwrap_or(64);
            frame.set(*value, Val::Int(mask(result, bits)));
        }
        let left = given.iter().zip(passing).filter(|(_, passing)| **passing == Passing::Write);
        for (value, (arg, _)) in results.zip(left) {
            if let Arg::Bytes(bytes) = arg {
                frame.set(*value, self.shapes.decode(frame.body.ty(*value), bytes));
            }
        }
        Ok(())
    }

    // ---- ops -------------------------------------------------------------------------------------------

    /// Runs an op that owns no regions and ends none.
    pub fn op(&mut self, frame: &mut Frame, id: InstId) {
        let inst = &frame.body.insts[id];
        let results = &inst.results[..];
        match &inst.op {
            Op::Extract { pkt } => {
                let size = self.shapes.size(frame.body.ty(results[1]));
                let packet = self.packet(frame, *pkt);
                let bytes = packet.load(0, size).map(<[u8]>::to_vec);
                if bytes.is_some() {
                    packet.skip(size as u32);
                }
                self.set_read(frame, results, bytes.as_deref());
            }
            Op::Load { pkt, off } => {
                let (size, off) =
                    (self.shapes.size(frame.body.ty(results[1])), self.u32(frame, *off));
                let bytes = self.packet(frame, *pkt).load(off, size).map(<[u8]>::to_vec);
                self.set_read(frame, results, bytes.as_deref());
            }
            Op::Store { pkt, off, value } => {
                let (off, bytes) = (self.u32(frame, *off), self.bytes(frame, *value));
                let ok = self.packet(frame, *pkt).store(off, &bytes);
                frame.set(results[0], Val::Int(ok as u64));
            }
            Op::Skip { pkt, len } => {
                let len = self.u32(frame, *len);
                let ok = self.packet(frame, *pkt).skip(len);
                frame.set(results[0], Val::Int(ok as u64));
            }
            Op::Trim { pkt, len } => {
                let len = self.u32(frame, *len);
                let ok = self.packet(frame, *pkt).trim(len);
                frame.set(results[0], Val::Int(ok as u64));
            }
            Op::Extend { pkt, len } => {
                let len = self.u32(frame, *len);
                let ok = self.packet(frame, *pkt).extend(len);
                frame.set(results[0], Val::Int(ok as u64));
            }
            Op::Emit { pkt, value } => {
                let bytes = self.bytes(frame, *value);
                self.packet(frame, *pkt).emit(&bytes);
            }
            Op::Reset { pkt } => self.packet(frame, *pkt).reset(),
            Op::Drop { pkt, reason } => {
                let packet = frame.get(*pkt).clone();
                self.take_packet(&packet);
                self.state.counters.drops[*reason] += 1;
                self.output(Output::Drop { reason: *reason });
            }
            Op::Crypto { op, pkt, len, args } => {
                let args: Vec<Vec<u8>> =
                    args.iter().map(|arg| self.bytes(frame, *arg).to_vec()).collect();
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                let len = self.u32(frame, *len);
                let gave = op.run(self.packet(frame, *pkt).prefix_mut(len), &args);
                match results.get(1) {
                    Some(_) => self.set_read(frame, results, gave.as_deref()),
                    None => frame.set(results[0], Val::Int(gave.is_some() as u64)),
                }
            }
            op if matches!(op.class(), Class::Entry | Class::Bytes) => self.table_op(frame, id),
            Op::Generate { event, args } => {
                let args = args.iter().map(|v| frame.get(*v).clone()).collect();
                self.generate(*event, args);
            }
            Op::NewPacket { value, len, port, .. } => {
                let mut bytes = self.bytes(frame, *value).to_vec();
                bytes.truncate(self.u32(frame, *len) as usize);
                self.output(Output::Send { port: self.u32(frame, *port), frame: bytes });
            }
            Op::Log { format, args } => {
                let text = self.log_text(frame, format, args);
                self.output(Output::Log { text });
            }
            Op::FibLookup { .. } => self.set_read(frame, results, None),
            _ => {
                let value = self.value_op(frame, id);
                frame.set(results[0], value);
            }
        }
    }

    /// The result of an op that gives one value and changes at most the random stream.
    fn value_op(&mut self, frame: &Frame, id: InstId) -> Val {
        let inst = &frame.body.insts[id];
        let result = frame.body.ty(inst.results[0]);
        let raw = match &inst.op {
            Op::Int(raw) => *raw,
            Op::Zero => return self.shapes.zero(result),
            Op::Bin(op, a, b) => {
                let (bits, signed) = self.int_type(frame, *a);
                arith::bin(*op, bits, signed, frame.int(*a), frame.int(*b))
            }
            Op::Cmp(op, a, b) => {
                let (bits, signed) = self.int_type(frame, *a);
                arith::cmp(*op, bits, signed, frame.int(*a), frame.int(*b)) as u64
            }
            Op::Un(op, a) => arith::un(*op, self.int_type(frame, *a).0, frame.int(*a)),
            Op::Cast(a) => {
                let (bits, signed) = self.int_type(frame, *a);
                arith::cast(frame.int(*a), bits, signed, result.bits().unwrap_or(64))
            }
            Op::Select { cond, then, other } => {
                return frame.get(if frame.int(*cond) != 0 { *then } else { *other }).clone();
            }
            Op::Get { agg, path } => {
                let value = frame.get(*agg);
                let Val::Bytes(bytes) = value else { return value.clone() };
                let part = self.shapes.locate(frame.body.ty(*agg), path, |v| frame.int(v));
                return part.map_or_else(
                    || self.shapes.zero(result),
                    |part| self.shapes.read(bytes, part),
                );
            }
            Op::Set { agg, path, value } => {
                let Val::Bytes(bytes) = frame.get(*agg) else { return frame.get(*value).clone() };
                return match self.shapes.locate(frame.body.ty(*agg), path, |v| frame.int(v)) {
                    Some(part) => {
                        let mut bytes = bytes.to_vec();
                        self.shapes.write(&mut bytes, part, frame.get(*value));
                        Val::Bytes(bytes.into())
                    }
                    None => Val::Bytes(bytes.clone()),
                };
            }
            Op::ConstElem { array, index } => {
                let def = &self.program.consts[*array];
                let (size, index) = (self.shapes.size(def.elem), frame.int(*index));
                let start = usize::try_from(index).ok().and_then(|i| i.checked_mul(size));
                let bytes = start.and_then(|start| def.bytes.get(start..)?.get(..size));
                return bytes
                    .map_or_else(|| self.shapes.zero(result), |b| self.shapes.decode(def.elem, b));
            }
            Op::Hash { seed, value } => {
                io::hash(self.u32(frame, *seed), &self.bytes(frame, *value)) as u64
            }
            Op::CsumAdd { sum, value } => {
                io::checksum_add(self.u32(frame, *sum), &self.bytes(frame, *value)) as u64
            }
            Op::Now => self.time_ns,
            Op::Random => {
                self.drawn += 1;
                io::random(self.seed, self.drawn - 1) as u64
            }
            Op::InPort { pkt } => self.packet(frame, *pkt).port as u64,
            Op::Len { pkt } => self.packet(frame, *pkt).rest().len() as u64,
            Op::PktCsum { pkt, sum, len } => {
                let (sum, len) = (self.u32(frame, *sum), self.u32(frame, *len));
                io::checksum_add(sum, self.packet(frame, *pkt).prefix(len)) as u64
            }
            Op::Regex { pkt, patterns, len } => {
                let patterns = Patterns::of(patterns).expect("the verifier has read them");
                let len = self.u32(frame, *len);
                patterns.first(self.packet(frame, *pkt).prefix(len)) as u64
            }
            other => unreachable!("{other:?} is run elsewhere"),
        };
        Val::Int(raw)
    }

    fn log_text(&self, frame: &Frame, format: &str, args: &[ValueId]) -> String {
        let mut pieces = format.split("{}");
        let mut text = pieces.next().unwrap_or_default().to_string();
        for (piece, arg) in pieces.zip(args) {
            let (bits, signed) = self.int_type(frame, *arg);
            let raw = frame.int(*arg);
            let shown =
                if signed { arith::sign_extend(raw, bits).to_string() } else { raw.to_string() };
            text.push_str(&shown);
            text.push_str(piece);
        }
        text
    }

    /// A packet's frame, which leaves.
    fn frame_of(&mut self, value: &Val) -> Vec<u8> {
        let packet = self.take_packet(value);
        self.state.growth = self.state.growth.max(packet.growth());
        packet.into_frame()
    }

    /// Copy of a packet as it would be if it left now.
    fn copy_of(&mut self, value: &Val) -> Vec<u8> {
        let packet = match value {
            Val::Packet(number) => self.packets[*number as usize].clone(),
            _ => None,
        };
        let packet = packet.expect("packets are verified to be there until they are given away");
        self.state.growth = self.state.growth.max(packet.growth());
        packet.into_frame()
    }

    fn generate(&mut self, event: EventId, args: Vec<Val>) {
        let def = &self.program.events[event];
        if def.direction == Direction::Internal {
            self.queue.push_back((event, args));
            return;
        }
        let output = match (def.name.as_str(), &args[..]) {
            ("net_send", [pkt, Val::Int(port)]) => {
                Output::Send { port: *port as u32, frame: self.frame_of(pkt) }
            }
            ("net_copy", [pkt, Val::Int(port)]) => {
                Output::Send { port: *port as u32, frame: self.copy_of(pkt) }
            }
            ("host_copy", [pkt]) => Output::HostPacket { frame: self.copy_of(pkt) },
            ("stack_recv", [pkt]) => Output::Stack { frame: self.frame_of(pkt) },
            ("host_recv", [pkt]) => Output::HostPacket { frame: self.frame_of(pkt) },
            ("host_msg", [message]) => Output::HostMessage {
                bytes: self.shapes.encode(def.params[0].ty, message).to_vec(),
            },
            ("dma_write", [Val::Packet(number), Val::Int(addr), Val::Int(len)]) => {
                let packet = self.packets[*number as usize].as_ref();
                let data = packet.map_or(Vec::new(), |packet| packet.prefix(*len as u32).to_vec());
                Output::DmaWrite { addr: *addr, data }
            }
            (name, _) => {
                unreachable!("the verifier knows every event to outside, and `{name}` is none")
            }
        };
        self.output(output);
    }
}
