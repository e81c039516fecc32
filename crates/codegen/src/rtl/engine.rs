//! A handler as an engine: a state machine that runs one event at a time.
//!
//! Everything that hardware can express runs on an engine: decisions and loops are ways between
//! states, accesses of tables and of the packet's bytes are states that wait. Only what goes
//! through [`super::state`] is scheduled; values live in registers from the state that makes them
//! on if another one uses them.
//!
//! # Several engines
//!
//! A packet goes to an engine that waits (`top`). Reading and computing is done by all at the same
//! time; whatever another event could notice (accesses of tables that handlers change, what leaves,
//! records) waits for the event's *turn*, which comes when all older events have ended. So the
//! design does what one engine does, in the same order, for every program; how much faster depends
//! on how early handlers begin to wait for their turn (`length`).
//!
//! # Stages
//!
//! Handlers of internal events that cannot run where the events are generated are engines of their
//! own, one behind the other (`row`, `stages`).

mod chain;
pub mod design;
mod entries;
mod least;
mod leave;
pub mod length;
mod packet;
pub mod row;
pub mod stages;
pub mod top;
mod unit;

use nicforge_ir::{
    Body, BufSource, Class, CmpOp, CommuteOp, Direction, Inst, InstId, Op, Program, Span, TableId,
    Type, ValueId, Words,
};

use self::row::Row;
use super::cfg::{self, End, Graph, Jump, Step};
use super::expr::{Lower, Wire, divides_by_wires, mark};
use super::shape::{Bits, literal, number};
use super::state::{Arm, StateId, States};
use super::tables::{TableForm, op};
use super::timing;
use crate::abi::left as kind;
use crate::artifact::LogFormat;
use crate::c::body::Unsupported;

/// Writes the states of one handler.
pub struct Engine<'a, 'b> {
    pub program: &'a Program,
    pub low: &'b mut Lower<'a>,
    pub states: &'b mut States,
    pub tables: &'b [TableForm],
    pub logs: &'b mut Vec<LogFormat>,
    /// State after the last one.
    pub finish: StateId,
    pub bits: &'a Bits<'a>,
    /// Bytes that the packet access module moves at most.
    pub access_bytes: u32,
    /// Bytes of emitted headers there is room for.
    pub header_bytes: u32,
    /// The stages there are and the number of this one, if there are several.
    pub row: Option<(&'a Row, usize)>,
    pub errors: Vec<Unsupported>,
}

impl<'a> Engine<'a, '_> {
    /// States of a body from `entry` on. Parameters of the body are registers already.
    pub fn body(&mut self, body: &'a Body, entry: StateId) {
        let graph = cfg::graph(body);
        let starts: Vec<StateId> = (0..graph.blocks.len())
            .map(|node| if node == graph.entry { entry } else { self.states.reserve() })
            .collect();
        let counters: Vec<(String, u32)> = graph
            .trips
            .iter()
            .map(|trips| (self.low.fresh("trip"), 32 - trips.leading_zeros()))
            .collect();
        for (name, width) in &counters {
            self.states.register(name, *width);
        }
        for (node, line) in graph.blocks.iter().enumerate() {
            if node != graph.entry {
                for param in &line.params {
                    let (name, width) = (self.low.name(*param), self.low.width(*param));
                    if width > 0 {
                        self.states.register(&name, width);
                    }
                }
            }
        }
        for (node, line) in graph.blocks.iter().enumerate() {
            self.states.enter(starts[node]);
            for step in &line.steps {
                match step {
                    Step::Inst(inst) => self.inst(body, *inst),
                    Step::Choose { result, cond, then, other, at } => {
                        let value = self.low.choose(*cond, *then, *other);
                        let (name, width) = (self.low.name(*result), self.low.width(*result));
                        self.place(body.insts[*at].span);
                        self.states.wire(Wire { name, width, value, delay: timing::CHOOSE });
                    }
                }
            }
            self.end(&graph, &line.end, &starts, &counters);
        }
    }

    fn end(&mut self, graph: &Graph, end: &End, starts: &[StateId], counters: &[(String, u32)]) {
        let mut go = |jump: &Jump, when: Option<String>| {
            let params = &graph.blocks[jump.to].params;
            let writes =
                params.iter().zip(&jump.args).filter(|(param, _)| self.low.width(**param) > 0);
            let writes: Vec<_> = writes.map(|(param, arg)| (*param, *arg)).collect();
            let writes = writes
                .into_iter()
                .map(|(param, arg)| (self.low.name(param), self.low.operand(arg)))
                .collect();
            Arm { when, to: starts[jump.to], writes }
        };
        let arms = match end {
            End::Jump(jump) => vec![go(jump, None)],
            End::Branch { cond, then, other } => {
                let then = go(then, None);
                let other = go(other, None);
                let when = self.low.operand(*cond);
                vec![Arm { when: Some(when), ..then }, other]
            }
            End::Enter { number, head } => {
                let mut arm = go(head, None);
                let (name, width) = &counters[*number];
                arm.writes.push((name.clone(), super::shape::number(*width, 0)));
                vec![arm]
            }
            End::Again { number: at, head, exit } => {
                self.states.loops.push((starts[head.to], self.states.now, graph.trips[*at]));
                let (name, width) = &counters[*at];
                let last = format!("{name} == {}", number(*width, u64::from(graph.trips[*at] - 1)));
                let exit = go(exit, Some(last));
                let mut head = go(head, None);
                head.writes.push((name.clone(), format!("{name} + {}", number(*width, 1))));
                vec![exit, head]
            }
            End::Return => vec![Arm { when: None, to: self.finish, writes: Vec::new() }],
        };
        self.states.end(arms);
    }

    fn refuse(&mut self, span: Span, message: &str, help: &str) {
        self.errors.push(Unsupported {
            message: message.to_string(),
            help: help.to_string(),
            span,
        });
    }

    /// Notes the source line that the current state works on.
    fn place(&mut self, span: Span) {
        if let Some(file) = span.file {
            let source = &self.program.files[file];
            let name = source.path.rsplit('/').next().unwrap_or_default();
            let text = format!("{name}:{}", span.line_col(&source.text).0);
            self.states.note(&text);
        }
    }

    fn wire(&mut self, wanted: &str, width: u32, value: String, delay: u32) -> String {
        let name = self.low.fresh(wanted);
        self.states.wire(Wire { name: name.clone(), width, value, delay });
        mark(&name)
    }

    fn result(&mut self, value: ValueId, text: String, delay: u32) {
        let (name, width) = (self.low.name(value), self.low.width(value));
        self.states.wire(Wire { name, width, value: text, delay });
    }

    fn at(&self) -> String {
        mark(&self.states.packet.at)
    }

    /// Bytes of the unread rest, 16 bits.
    fn rest(&mut self) -> String {
        let value = format!("{} - {}", mark(&self.states.packet.end), self.at());
        self.wire("rest", 16, value, timing::carry(16))
    }

    /// The smaller of a 32-bit length and the unread rest, 16 bits.
    fn prefix(&mut self, len: ValueId) -> String {
        let rest = self.rest();
        let len = self.low.u32(len);
        let len = self.wire("length", 32, len, 0);
        let value = format!("{len} > {{16'h0, {rest}}} ? {rest} : {len}[15:0]");
        self.wire("prefix", 16, value, timing::carry(32) + timing::CHOOSE)
    }

    fn inst(&mut self, body: &'a Body, id: InstId) {
        let inst = &body.insts[id];
        self.place(inst.span);
        match &inst.op {
            Op::Bin(nicforge_ir::BinOp::Div | nicforge_ir::BinOp::Rem, a, b)
                if !divides_by_wires(self.low.ty(*a), self.low.constant(*b)) =>
            {
                self.divide(inst);
            }
            Op::Crypto { op, .. } => self.refuse(
                inst.span,
                &format!("hardware has no `nf_{}`", op.word()),
                "take a NIC with cores, or put the call behind a queue to the host",
            ),
            op if op.effects().is_pure() && !matches!(op, Op::Extern { .. }) => {
                for wire in self.low.wires(id) {
                    self.states.wire(wire);
                }
            }
            Op::Random => {
                let mut wires = Vec::new();
                let before = self.states.packet.stream.clone();
                let (state, value) = self.low.random(&before, &mut wires);
                let mut wires = wires.into_iter();
                if let Some(first) = wires.next() {
                    self.states.wire(first);
                }
                // The next number starts from here; the state's register takes it up when this
                // state ends.
                self.states.packet.stream = state;
                for wire in wires {
                    self.states.wire(wire);
                }
                self.result(inst.results[0], value, 400);
            }
            Op::Drop { reason, .. } => {
                let record = ("rec_data", number(64, u64::from(reason.as_u32())));
                let outputs = vec![
                    ("frees", "turn".to_string()),
                    ("rec_kind", number(5, kind::DROP + 8)),
                    record,
                ];
                self.states.note("drop");
                self.states.wait("turn && free_ok".to_string(), outputs, Vec::new());
            }
            Op::Generate { event, args } => self.generate(inst.span, *event, args),
            Op::Log { format, args } => self.log(format, args),
            op if op.class() == Class::Packet => self.packet_op(inst),
            Op::Least { table, path } => self.least(inst, *table, path),
            op if matches!(op.class(), Class::Entry | Class::Bytes) => self.table_op(inst),
            Op::Extern { name, .. } => self.refuse(
                inst.span,
                &format!("`{name}` is a function of C, which hardware cannot call"),
                "put the call behind a queue to the host: a handler with NF_ON(host)",
            ),
            Op::NewPacket { value, len, port, .. } => self.new_packet(*value, *len, *port),
            Op::FibLookup { .. } => self.refuse(
                inst.span,
                "the operating system's routes cannot be asked by hardware",
                "keep routes in an lpm table",
            ),
            other => self.refuse(
                inst.span,
                &format!("an engine has no such operation: {other:?}"),
                "this is an error of nicforge; please report it",
            ),
        }
    }

    fn divide(&mut self, inst: &Inst) {
        let Op::Bin(kind, a, b) = inst.op else { return };
        let (width, signed) = (self.low.width(a), self.low.ty(a).is_signed());
        let wide = |text: &str| Lower::resize(text, width, 64);
        let mut operands = Vec::new();
        let mut signs = Vec::new();
        for value in [a, b] {
            let text = self.low.signal(value);
            if signed {
                let sign = format!("{text}[{}]", width - 1);
                let size = self.wire(
                    "size",
                    width,
                    format!("{sign} ? -{text} : {text}"),
                    timing::carry(width),
                );
                operands.push(wide(&size));
                signs.push(sign);
            } else {
                operands.push(wide(&text));
            }
        }
        let rem = kind == nicforge_ir::BinOp::Rem;
        let from = if rem { "div_remainder" } else { "div_quotient" };
        let outputs = vec![
            ("div_req", "1'b1".to_string()),
            ("div_dividend", operands[0].clone()),
            ("div_divisor", operands[1].clone()),
        ];
        let raw = self.low.fresh("divided");
        let result = vec![(raw.clone(), width, format!("{from}[{}:0]", width - 1))];
        self.states.wait("div_done".to_string(), outputs, result);
        let negative = match (signed, rem) {
            (false, _) => None,
            (true, true) => Some(signs[0].clone()),
            (true, false) => Some(format!("({} ^ {})", signs[0], signs[1])),
        };
        let raw = mark(&raw);
        let value = negative.map_or(raw.clone(), |negative| format!("{negative} ? -{raw} : {raw}"));
        self.result(inst.results[0], value, timing::carry(width));
    }
}
