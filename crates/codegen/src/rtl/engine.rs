//! A handler as an engine: a state machine that runs one event at a time.
//!
//! Everything that hardware can express runs on an engine: decisions and loops are ways between states, accesses of tables and of the
//! packet's bytes are states that wait. Only what goes through [`super::state`] is scheduled; values live in registers from the state
//! that makes them on if another one uses them.

use nicforge_ir::{
    Body, BufSource, CmpOp, CommuteOp, Direction, Inst, InstId, Op, Program, Span, TableId, Type, ValueId,
};

use super::cfg::{self, End, Graph, Jump, Step};
use super::expr::{Lower, Wire, divides_by_wires, mark};
use super::shape::{Bits, literal, number};
use super::state::{Arm, StateId, States};
use super::tables::{TableForm, op};
use super::timing;
use crate::artifact::LogFormat;
use crate::c::body::Unsupported;

/// Kinds of what leaves, in commands to the deparser and in the record of a simulation. See `rtl/nf_egress.sv`.
pub mod kind {
    pub const SEND: u64 = 0;
    pub const STACK: u64 = 1;
    pub const HOST_PACKET: u64 = 2;
    pub const HOST_MESSAGE: u64 = 3;
    pub const DMA_WRITE: u64 = 4;
    pub const LOG: u64 = 5;
    pub const DROP: u64 = 6;
    /// The handler has ended.
    pub const END: u64 = 7;
}

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
    pub errors: Vec<Unsupported>,
}

impl<'a> Engine<'a, '_> {
    /// States of a body from `entry` on. Parameters of the body are registers already.
    pub fn body(&mut self, body: &'a Body, entry: StateId) {
        let graph = cfg::graph(body);
        let starts: Vec<StateId> = (0..graph.blocks.len())
            .map(|node| if node == graph.entry { entry } else { self.states.reserve() })
            .collect();
        let counters: Vec<(String, u32)> =
            graph.trips.iter().map(|trips| (self.low.fresh("trip"), 32 - trips.leading_zeros())).collect();
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
            let writes = params.iter().zip(&jump.args).filter(|(param, _)| self.low.width(**param) > 0);
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
        self.errors.push(Unsupported { message: message.to_string(), help: help.to_string(), span });
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
            op if op.effects().is_pure() => {
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
                // The next number starts from here; the state's register takes it up when this state ends.
                self.states.packet.stream = state;
                for wire in wires {
                    self.states.wire(wire);
                }
                self.result(inst.results[0], value, 400);
            }
            Op::Extract { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Skip { .. }
            | Op::Trim { .. }
            | Op::Emit { .. }
            | Op::Reset { .. }
            | Op::Len { .. }
            | Op::PktCsum { .. } => self.packet_op(inst),
            Op::Drop { reason, .. } => {
                let record = ("rec_data", number(64, u64::from(reason.as_u32())));
                let outputs =
                    vec![("frees", "1'b1".to_string()), ("rec_kind", number(5, kind::DROP + 8)), record];
                self.states.note("drop");
                self.states.wait("1'b1".to_string(), outputs, Vec::new());
            }
            Op::Generate { event, args } => self.generate(inst.span, *event, args),
            Op::Log { format, args } => self.log(format, args),
            Op::Lookup { .. }
            | Op::Contains { .. }
            | Op::Update { .. }
            | Op::Delete { .. }
            | Op::Commute { .. }
            | Op::BufAppend { .. }
            | Op::BufLen { .. }
            | Op::BufRead { .. }
            | Op::BufClear { .. }
            | Op::BufGenerate { .. } => self.table_op(inst),
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
                let size =
                    self.wire("size", width, format!("{sign} ? -{text} : {text}"), timing::carry(width));
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

    // ---- packets ---------------------------------------------------------------------------------------

    /// A wait for the packet access module.
    fn access(&mut self, outputs: Vec<(&str, String)>, results: Vec<(String, u32, String)>) {
        let mut all = vec![("a_req", "1'b1".to_string())];
        all.extend(outputs);
        self.states.wait("a_done".to_string(), all, results);
    }

    /// Whether `size` bytes lie `off` (32 bits) behind the cursor.
    fn fits(&mut self, off: &str, size: u32) -> String {
        let rest = self.rest();
        let value = format!("{{1'b0, {off}}} + {} <= {{17'h0, {rest}}}", number(33, u64::from(size)));
        self.wire("fits", 1, value, 2 * timing::carry(32))
    }

    fn packet_op(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Extract { .. } => {
                let size = self.bits.bytes(self.low.ty(inst.results[1]));
                let off = self.wire("off", 32, number(32, 0), 0);
                let ok = self.fits(&off, size);
                self.read(inst, 0, ("slot_line".to_string(), &ok), &off, size);
                let ok = mark(&self.low.name(inst.results[0]));
                let value = format!("{ok} ? {} + {} : {}", self.at(), number(16, u64::from(size)), self.at());
                let next = self.low.fresh("cursor_next");
                self.states.wire(Wire { name: next.clone(), width: 16, value, delay: timing::carry(16) });
                self.states.packet.at = next;
            }
            Op::Load { off, .. } => {
                let size = self.bits.bytes(self.low.ty(inst.results[1]));
                let off = self.low.u32(*off);
                let off = self.wire("off", 32, off, 0);
                let ok = self.fits(&off, size);
                self.read(inst, 0, ("slot_line".to_string(), &ok), &off, size);
            }
            Op::Store { off, value, .. } => {
                let size = self.bits.bytes(self.low.ty(*value));
                let off = self.low.u32(*off);
                let off = self.wire("off", 32, off, 0);
                let ok = self.fits(&off, size);
                self.result(inst.results[0], ok.clone(), 0);
                let from = self.wire("from", 16, format!("{} + {off}[15:0]", self.at()), timing::carry(16));
                let bytes = self.low.bytes_of(*value);
                let outputs = vec![
                    ("a_op", number(2, 1)),
                    ("a_line", "slot_line".to_string()),
                    ("a_from", from),
                    ("a_length", format!("{ok} ? {} : 16'h0", number(16, u64::from(size)))),
                    ("a_value", Lower::resize(&bytes, 8 * size, 8 * self.access_bytes)),
                ];
                self.access(outputs, Vec::new());
            }
            Op::Skip { len, .. } | Op::Trim { len, .. } => {
                let rest = self.rest();
                let len = self.low.u32(*len);
                let len = self.wire("length", 32, len, 0);
                let ok = self.wire("fits", 1, format!("{len} <= {{16'h0, {rest}}}"), timing::carry(32));
                self.result(inst.results[0], ok.clone(), 0);
                let skip = matches!(inst.op, Op::Skip { .. });
                let old = if skip { self.at() } else { mark(&self.states.packet.end) };
                let value = format!("{ok} ? {} + {len}[15:0] : {old}", self.at());
                let next = self.low.fresh(if skip { "cursor_next" } else { "end_next" });
                self.states.wire(Wire { name: next.clone(), width: 16, value, delay: timing::carry(16) });
                if skip {
                    self.states.packet.at = next;
                } else {
                    self.states.packet.end = next;
                }
            }
            Op::Emit { value, .. } => {
                let size = self.bits.bytes(self.low.ty(*value));
                let room = 8 * self.header_bytes;
                let bytes = self.low.bytes_of(*value);
                let bytes = Lower::resize(&bytes, 8 * size, room);
                let (emitted, header) = (mark(&self.states.packet.emitted), mark(&self.states.packet.header));
                let place = format!("{header} | ({bytes} << {{{emitted}, 3'b000}})");
                let delay = timing::mux(self.header_bytes) + 400;
                let next = self.low.fresh("header_next");
                self.states.wire(Wire { name: next.clone(), width: room, value: place, delay });
                // The wire may have begun a new state, where the registers are up to date.
                let emitted = mark(&self.states.packet.emitted);
                let value = format!("{emitted} + {}", number(16, u64::from(size)));
                let length = self.low.fresh("emitted_next");
                self.states.packet.header = next;
                self.states.wire(Wire { name: length.clone(), width: 16, value, delay: timing::carry(16) });
                self.states.packet.emitted = length;
            }
            Op::Reset { .. } => {
                let room = 8 * self.header_bytes;
                let zero = [("cursor_next", 16), ("emitted_next", 16), ("header_next", room)].map(
                    |(name, width)| {
                        let name = self.low.fresh(name);
                        self.states.wire(Wire {
                            name: name.clone(),
                            width,
                            value: number(width, 0),
                            delay: 0,
                        });
                        name
                    },
                );
                let [at, emitted, header] = zero;
                self.states.packet.at = at;
                self.states.packet.emitted = emitted;
                self.states.packet.header = header;
            }
            Op::Len { .. } => {
                let rest = self.rest();
                self.result(inst.results[0], format!("{{16'h0, {rest}}}"), 0);
            }
            Op::PktCsum { sum, len, .. } => {
                let prefix = self.prefix(*len);
                let sum = self.low.u32(*sum);
                let result = (self.low.name(inst.results[0]), 32, "a_r_sum".to_string());
                let outputs = vec![
                    ("a_op", number(2, 2)),
                    ("a_line", "slot_line".to_string()),
                    ("a_from", self.at()),
                    ("a_length", prefix),
                    ("a_sum", sum),
                ];
                self.access(outputs, vec![result]);
            }
            _ => {}
        }
    }

    /// Reads `size` bytes at `off` behind the cursor (memory 0) or behind the start of line `line` into an op's two results.
    fn read(&mut self, inst: &Inst, memory: u64, (line, ok): (String, &str), off: &str, size: u32) {
        let at = if memory == 0 { format!("{} + {off}[15:0]", self.at()) } else { format!("{off}[15:0]") };
        let from = self.wire("from", 16, at, timing::carry(16));
        let ty = self.low.ty(inst.results[1]);
        let value = self.low.of_bytes(ty, "a_r_value");
        let results = vec![
            (self.low.name(inst.results[0]), 1, ok.to_string()),
            (self.low.name(inst.results[1]), self.bits.width(ty), value),
        ];
        let outputs = vec![
            ("a_op", number(2, 0)),
            ("a_mem", number(4, memory)),
            ("a_line", line),
            ("a_from", from),
            ("a_length", format!("{ok} ? {} : 16'h0", number(16, u64::from(size)))),
        ];
        self.access(outputs, results);
    }

    // ---- what leaves -----------------------------------------------------------------------------------

    /// A command to the deparser, recorded. It ends when the deparser has asked for all lines it needs.
    fn command(&mut self, kind: u64, fields: Vec<(&'static str, String)>, record: String) {
        let mut outputs = vec![
            ("c_valid", "1'b1".to_string()),
            ("c_kind", number(8, kind)),
            ("c_host", number(1, u64::from(kind >= kind::HOST_PACKET))),
            ("rec_kind", number(5, kind + 8)),
            ("rec_data", record),
        ];
        outputs.extend(fields);
        self.states.wait("c_ready".to_string(), outputs, Vec::new());
    }

    /// The packet as it is: emitted headers, then the unread rest.
    fn whole(&mut self) -> Vec<(&'static str, String)> {
        let rest = self.rest();
        vec![
            ("c_hlen", mark(&self.states.packet.emitted)),
            ("c_hdr", mark(&self.states.packet.header)),
            ("c_from", self.at()),
            ("c_rest", rest),
            ("c_line", "slot_line".to_string()),
            ("c_free", "1'b1".to_string()),
        ]
    }

    fn generate(&mut self, span: Span, event: nicforge_ir::EventId, args: &[ValueId]) {
        let def = &self.program.events[event];
        if def.direction == Direction::Internal {
            self.refuse(
                span,
                &format!("event `{}` goes to another handler, and the design has only one stage", def.name),
                "call a function in place of generating an event",
            );
            return;
        }
        self.states.note(&def.name);
        match def.name.as_str() {
            "net_send" => {
                let port = self.low.u32(args[1]);
                let port = self.wire("out_port", 32, port, 0);
                let mut fields = self.whole();
                fields.push(("c_port", format!("{port}[7:0]")));
                self.command(kind::SEND, fields, format!("{{32'h0, {port}}}"));
            }
            "stack_recv" => {
                let fields = self.whole();
                self.command(kind::STACK, fields, number(64, 0));
            }
            "host_recv" => {
                let fields = self.whole();
                self.command(kind::HOST_PACKET, fields, number(64, 0));
            }
            "host_msg" => {
                let size = self.bits.bytes(self.low.ty(args[0]));
                let bytes = self.low.bytes_of(args[0]);
                let fields = vec![
                    ("c_hlen", number(16, u64::from(size))),
                    ("c_hdr", Lower::resize(&bytes, 8 * size, 8 * self.header_bytes)),
                ];
                self.command(kind::HOST_MESSAGE, fields, number(64, 0));
            }
            "dma_write" => {
                let width = self.low.width(args[1]);
                let text = self.low.operand(args[1]);
                let addr = Lower::resize(&text, width, 64);
                let addr = self.wire("addr", 64, addr, 0);
                let prefix = self.prefix(args[2]);
                let fields = vec![
                    ("c_addr", addr.clone()),
                    ("c_from", self.at()),
                    ("c_rest", prefix),
                    ("c_line", "slot_line".to_string()),
                ];
                self.command(kind::DMA_WRITE, fields, addr);
            }
            name => self.refuse(
                span,
                &format!("hardware has no event `{name}`"),
                "see `nicforge targets show u280`",
            ),
        }
    }

    fn log(&mut self, format: &str, args: &[ValueId]) {
        let id = self.logs.len() as u64;
        let signed = args.iter().map(|arg| self.low.ty(*arg).is_signed()).collect();
        self.logs.push(LogFormat { text: format.to_string(), signed });
        let mut words = Vec::new();
        for arg in args {
            let (width, signed) = (self.low.width(*arg), self.low.ty(*arg).is_signed());
            let text = self.low.signal(*arg);
            words.push(match width {
                64 => text,
                _ if signed => format!("{{{{{}{{{text}[{}]}}}}, {text}}}", 64 - width, width - 1),
                _ => Lower::resize(&text, width, 64),
            });
        }
        words.reverse();
        let bits = 64 * words.len() as u32;
        let mut fields = vec![("c_addr", number(64, id)), ("c_hlen", number(16, u64::from(bits / 8)))];
        if bits > 0 {
            let all = self.wire("log_words", bits, format!("{{{}}}", words.join(", ")), 0);
            fields.push(("c_hdr", Lower::resize(&all, bits, 8 * self.header_bytes)));
        }
        self.command(kind::LOG, fields, number(64, id));
    }

    // ---- tables ----------------------------------------------------------------------------------------

    /// A wait for a table.
    fn table(
        &mut self,
        table: TableId,
        op: u64,
        when: Option<String>,
        fields: Vec<(&str, String)>,
        results: Vec<(String, u32, String)>,
    ) {
        let signals = self.tables[table.as_u32() as usize].signals.clone();
        let named: Vec<(String, String)> =
            fields.into_iter().map(|(field, value)| (format!("{signals}_{field}"), value)).collect();
        let (req, op_name) = (format!("{signals}_req"), format!("{signals}_op"));
        let mut outputs = vec![
            (req.as_str(), when.clone().unwrap_or("1'b1".to_string())),
            (op_name.as_str(), number(4, op)),
        ];
        outputs.extend(named.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let done = format!("{signals}_done");
        let until = when.map_or(done.clone(), |when| format!("(!({when}) || {done})"));
        self.states.note(&format!("table {}", self.program.tables[table].name));
        self.states.wait(until, outputs, results);
    }

    /// Finds an entry: names of registers with `ok`, the whole entry and its number.
    fn find(&mut self, table: TableId, how: u64, key: ValueId) -> (String, String, String) {
        let form = &self.tables[table.as_u32() as usize];
        let (signals, wide) = (form.signals.clone(), form.value_bits + form.extra_bits);
        let names = ["hit", "entry", "place"].map(|name| self.low.fresh(name));
        let [hit, entry, place] = names;
        let key = self.low.bytes_of(key);
        let results = vec![
            (hit.clone(), 1, format!("{signals}_ok")),
            (entry.clone(), wide, format!("{signals}_r_value")),
            (place.clone(), 32, format!("{signals}_r_index")),
        ];
        self.table(table, how, None, vec![("key", key)], results);
        (mark(&hit), mark(&entry), mark(&place))
    }

    fn table_op(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Lookup { table, key } => {
                let signals = self.tables[table.as_u32() as usize].signals.clone();
                let key = self.low.bytes_of(*key);
                let ty = self.low.ty(inst.results[1]);
                let value = self.low.of_bytes(ty, &format!("{signals}_r_value"));
                let results = vec![
                    (self.low.name(inst.results[0]), 1, format!("{signals}_ok")),
                    (self.low.name(inst.results[1]), self.bits.width(ty), value),
                ];
                self.table(*table, op::FIND, None, vec![("key", key)], results);
            }
            Op::Contains { table, key } | Op::Delete { table, key } => {
                let signals = self.tables[table.as_u32() as usize].signals.clone();
                let how = if matches!(inst.op, Op::Delete { .. }) { op::DELETE } else { op::FIND };
                let key = self.low.bytes_of(*key);
                let results = vec![(self.low.name(inst.results[0]), 1, format!("{signals}_ok"))];
                self.table(*table, how, None, vec![("key", key)], results);
            }
            Op::Update { table, key, value } => {
                let form = self.tables[table.as_u32() as usize].clone();
                let key = self.low.bytes_of(*key);
                let bytes = self.low.bytes_of(*value);
                let value = Lower::resize(&bytes, form.value_bits, form.value_bits + form.extra_bits);
                let results = vec![(self.low.name(inst.results[0]), 1, format!("{}_ok", form.signals))];
                self.table(*table, op::UPDATE, None, vec![("key", key), ("value", value)], results);
            }
            Op::Commute { .. } => self.commute(inst),
            _ => self.bytes_op(inst),
        }
    }

    fn commute(&mut self, inst: &Inst) {
        let Op::Commute { op: how, table, key, path, amount } = &inst.op else { return };
        let form = self.tables[table.as_u32() as usize].clone();
        let (hit, entry, place) = self.find(*table, op::ENSURE, *key);
        let def = self.program.tables[*table].value;
        let Some(part) = self.bits.locate(def, path, |v| self.low.constant(v)) else { return };
        let (width, signed) = (self.low.width(*amount), self.low.ty(*amount).is_signed());
        let kept = part.bits.min(width);
        let field = format!("{entry}[{}:{}]", part.at + kept - 1, part.at);
        let old = match () {
            () if kept == width => field,
            () if signed => format!("{{{{{}{{{entry}[{}]}}}}, {field}}}", width - kept, part.at + kept - 1),
            () => Lower::resize(&field, kept, width),
        };
        let old = self.wire("old", width, old, 0);
        let amount = self.low.operand(*amount);
        let less = |a: &str, b: &str| {
            if signed { format!("$signed({a}) < $signed({b})") } else { format!("{a} < {b}") }
        };
        let new = match how {
            CommuteOp::Add => format!("{old} + {amount}"),
            CommuteOp::Or => format!("{old} | {amount}"),
            CommuteOp::Min => format!("{} ? {amount} : {old}", less(&amount, &old)),
            CommuteOp::Max => format!("{} ? {amount} : {old}", less(&old, &amount)),
        };
        let new = self.wire("new", width, new, timing::cmp(CmpOp::Lt, width) + timing::CHOOSE);
        let new = Lower::resize(&new, width, part.bits);
        let whole = form.value_bits + form.extra_bits;
        let mut pieces = Vec::new();
        if part.at + part.bits < whole {
            pieces.push(format!("{entry}[{}:{}]", whole - 1, part.at + part.bits));
        }
        pieces.push(new);
        if part.at > 0 {
            pieces.push(format!("{entry}[{}:0]", part.at - 1));
        }
        let value = format!("{{{}}}", pieces.join(", "));
        self.table(*table, op::WRITE, Some(hit), vec![("value", value), ("index", place)], Vec::new());
    }

    /// Ops on the byte strings of entries: their length is in the entry's extra bits, their bytes in a memory of their own.
    fn bytes_op(&mut self, inst: &Inst) {
        let (table, key) = match &inst.op {
            Op::BufAppend { table, key, .. }
            | Op::BufLen { table, key }
            | Op::BufRead { table, key, .. }
            | Op::BufClear { table, key }
            | Op::BufGenerate { table, key, .. } => (*table, *key),
            _ => return,
        };
        let form = self.tables[table.as_u32() as usize].clone();
        let Some(store) = form.bytes.clone() else { return };
        let (hit, entry, place) = self.find(table, op::FIND, key);
        let (value_bits, extra) = (form.value_bits, form.extra_bits);
        let value = format!("{entry}[{}:0]", value_bits.max(1) - 1);
        let len = format!("{entry}[{}:{value_bits}]", value_bits + extra - 1);
        let len = self.wire("length", 32, Lower::resize(&len, extra, 32), 0);
        let line = format!("{}'({place} * {})", super::ADDRESS_BITS, number(32, u64::from(store.lines)));
        let line = self.wire("line", super::ADDRESS_BITS, line, 1500);
        match &inst.op {
            Op::BufLen { .. } => {
                self.result(inst.results[0], format!("{hit} ? {len} : 32'h0"), timing::CHOOSE);
            }
            Op::BufRead { off, .. } => {
                let size = self.bits.bytes(self.low.ty(inst.results[1]));
                let off = self.low.u32(*off);
                let off = self.wire("off", 32, off, 0);
                let check =
                    format!("{hit} && {{1'b0, {off}}} + {} <= {{1'b0, {len}}}", number(33, u64::from(size)));
                let ok = self.wire("fits", 1, check, 2 * timing::carry(32));
                self.read(inst, store.memory, (line, &ok), &off, size);
            }
            Op::BufClear { .. } => {
                let value = format!("{{{}, {value}}}", number(extra, 0));
                self.table(table, op::WRITE, Some(hit), vec![("value", value), ("index", place)], Vec::new());
            }
            Op::BufGenerate { event, port, .. } => {
                self.result(inst.results[0], hit.clone(), 0);
                let to_net = self.program.events[*event].name == "net_send";
                let port = match port {
                    Some(port) => self.low.u32(*port),
                    None => number(32, 0),
                };
                let port = self.wire("out_port", 32, port, 0);
                let kind = if to_net { kind::SEND } else { kind::HOST_PACKET };
                let outputs = vec![
                    ("c_valid", hit.clone()),
                    ("c_kind", number(8, kind)),
                    ("c_host", number(1, u64::from(!to_net))),
                    ("c_port", format!("{port}[7:0]")),
                    ("c_mem", number(4, store.memory)),
                    ("c_line", line),
                    ("c_rest", format!("{len}[15:0]")),
                    ("rec_kind", format!("{hit} ? {} : 5'h0", number(5, kind + 8))),
                    ("rec_data", format!("{{32'h0, {port}}}")),
                ];
                self.states.wait(format!("(!{hit} || c_ready)"), outputs, Vec::new());
                let value = format!("{{{}, {value}}}", number(extra, 0));
                self.table(table, op::WRITE, Some(hit), vec![("value", value), ("index", place)], Vec::new());
            }
            Op::BufAppend { source, .. } => {
                let count = match source {
                    BufSource::Packet { len, .. } => self.prefix(*len),
                    BufSource::Value(value) => number(16, u64::from(self.bits.bytes(self.low.ty(*value)))),
                };
                let count = self.wire("count", 16, count, 0);
                let check = format!(
                    "{hit} && {len} + {{16'h0, {count}}} <= {}",
                    number(32, u64::from(store.capacity))
                );
                let ok = self.wire("fits", 1, check, 2 * timing::carry(32));
                self.result(inst.results[0], ok.clone(), 0);
                let moved = format!("{ok} ? {count} : 16'h0");
                let mut outputs = vec![("a_length", moved)];
                match source {
                    BufSource::Packet { .. } => outputs.extend([
                        ("a_op", number(2, 3)),
                        ("a_line", "slot_line".to_string()),
                        ("a_from", self.at()),
                        ("a_to_mem", number(4, store.memory)),
                        ("a_to_line", line),
                        ("a_to", format!("{len}[15:0]")),
                    ]),
                    BufSource::Value(value) => {
                        let wide = 8 * self.bits.bytes(self.low.ty(*value));
                        let bytes = self.low.bytes_of(*value);
                        outputs.extend([
                            ("a_op", number(2, 1)),
                            ("a_mem", number(4, store.memory)),
                            ("a_line", line),
                            ("a_from", format!("{len}[15:0]")),
                            ("a_value", Lower::resize(&bytes, wide, 8 * self.access_bytes)),
                        ]);
                    }
                }
                self.access(outputs, Vec::new());
                let total = self.wire("total", 32, format!("{len} + {{16'h0, {count}}}"), timing::carry(32));
                let value = format!("{{{total}[{}:0], {value}}}", extra - 1);
                self.table(table, op::WRITE, Some(ok), vec![("value", value), ("index", place)], Vec::new());
            }
            _ => {}
        }
    }

    /// The message of a host event into the registers of the handler's parameters; its slot is free then.
    pub fn message(&mut self, body: &Body) {
        let params: Vec<(ValueId, Type)> =
            body.blocks[body.entry()].params.iter().map(|param| (*param, body.ty(*param))).collect();
        let size: u32 = params.iter().map(|(_, ty)| self.bits.bytes(*ty)).sum();
        let mut results = Vec::new();
        let mut at = 0;
        for (param, ty) in params {
            let bytes = self.bits.bytes(ty);
            if bytes > 0 {
                let width = self.bits.width(ty);
                let low = format!("a_r_value[{}:{}]", 8 * at + width - 1, 8 * at);
                let value = match self.bits.meaning(ty).filter(|_| !ty.is_int()) {
                    Some(mask) => format!("{low} & {}", literal(width, &mask)),
                    None => low,
                };
                results.push((self.low.name(param), width, value));
            }
            at += bytes;
        }
        let outputs = vec![
            ("a_line", "slot_line".to_string()),
            ("a_length", number(16, u64::from(size))),
            ("frees", "1'b1".to_string()),
        ];
        self.states.note("the message");
        self.access(outputs, results);
    }
}
