//! The XDP dialect: dispatch of ops, facts along paths, and events.

use std::collections::HashMap;

use nicforge_ir::{BlockId, Body, BufSource, EventId, InstId, Op, TableId, Type, ValueId};

use super::packet;
use super::state::{Cursor, Emits, State};
use super::tables;
use crate::artifact::{LogFormat, XdpTable};
use crate::c::Emitter;
use crate::c::body::{Dialect, Joined, Unsupported};

/// Facts about one handler.
pub struct Xdp<'a> {
    pub maps: &'a HashMap<TableId, XdpTable>,
    pub logs: Vec<LogFormat>,
    pub uses_cursor: bool,
    pub uses_staging: bool,
    pub uses_verdict: bool,
    /// The handler writes into the frame where it lies, at or behind the cursor, so loaded bytes may have changed since.
    pub stores: bool,
    /// It does so after having set the cursor back, so extracted bytes may have changed since, too.
    pub stores_over_headers: bool,
    /// Offset in the frame each `extract` read from, where it is a constant.
    pub extracted: HashMap<InstId, u32>,
    /// Bytes of the frame a truth value proves.
    pub proves: HashMap<ValueId, u32>,
    /// Program order of instructions, to tell what is written later.
    order: HashMap<InstId, usize>,
    /// Counter of frames that the kernel would not move or cut.
    no_room: u32,
}

impl<'a> Xdp<'a> {
    pub fn new(
        body: &Body,
        maps: &'a HashMap<TableId, XdpTable>,
        logs: Vec<LogFormat>,
        no_room: u32,
    ) -> Xdp<'a> {
        let mut order = HashMap::new();
        let mut stores = false;
        body.for_each_inst(body.entry(), &mut |inst| {
            order.insert(inst, order.len());
            stores |= matches!(body.insts[inst].op, Op::Store { .. });
        });
        Xdp {
            maps,
            logs,
            uses_cursor: false,
            uses_staging: false,
            uses_verdict: false,
            stores,
            stores_over_headers: stores
                && !matches!(rewound_store(body, body.entry(), false), Rewound::Never(_)),
            extracted: HashMap::new(),
            proves: HashMap::new(),
            order,
            no_room,
        }
    }

    /// Call that counts a frame without room for its headers.
    pub fn no_room(&self) -> String {
        format!("nf_no_room({})", self.no_room)
    }

    /// Whether the variable of `value` gets another value after `inst`.
    pub fn written_after(&self, e: &Emitter<'_, Xdp<'_>>, inst: InstId, value: ValueId) -> bool {
        let here = self.order[&inst];
        e.body.values.keys().any(|other| {
            other != value
                && e.vars.same(other, value)
                && e.body.def_inst(other).is_none_or(|def| self.order.get(&def).is_some_and(|at| *at > here))
        })
    }

    /// Facts that follow from `cond` being `holds`.
    fn facts(e: &mut Emitter<'_, Self>, cond: ValueId, holds: bool) {
        let op = e.body.def_op(cond).cloned();
        match op {
            Some(Op::Cmp(nicforge_ir::CmpOp::Eq, a, b)) if e.constant(b) == Some(0) && is_bool(e, a) => {
                Self::facts(e, a, !holds);
            }
            Some(Op::Cmp(nicforge_ir::CmpOp::Ne, a, b)) if e.constant(b) == Some(0) && is_bool(e, a) => {
                Self::facts(e, a, holds);
            }
            Some(Op::Un(nicforge_ir::UnOp::Not, a)) if is_bool(e, a) => Self::facts(e, a, !holds),
            Some(Op::Bin(nicforge_ir::BinOp::And, a, b)) if holds => {
                Self::facts(e, a, true);
                Self::facts(e, b, true);
            }
            Some(Op::Bin(nicforge_ir::BinOp::Or, a, b)) if !holds => {
                Self::facts(e, a, false);
                Self::facts(e, b, false);
            }
            _ => {
                if holds && let Some(bytes) = e.dialect.proves.get(&cond) {
                    e.state.proved = e.state.proved.max(*bytes);
                }
                if let Cursor::Static { at, unless: Some((ok, before)) } = e.state.cursor
                    && ok == cond
                {
                    e.state.cursor = Cursor::Static { at: if holds { at } else { before }, unless: None };
                }
                for entry in e.state.entries.iter_mut().filter(|entry| entry.hit == Some(cond)) {
                    entry.known = Some(holds);
                }
            }
        }
    }

    /// Ends the handler with a verdict, now or later.
    fn verdict(e: &mut Emitter<'_, Self>, call: &str, last: bool) -> bool {
        if last {
            e.line(&format!("return {call};"));
        } else {
            e.dialect.uses_verdict = true;
            e.line(&format!("verdict = {call};"));
        }
        last
    }

    fn generate(
        e: &mut Emitter<'_, Self>,
        inst: InstId,
        event: EventId,
        args: &[ValueId],
        last: bool,
    ) -> Result<bool, Unsupported> {
        let name = e.program.events[event].name.clone();
        match (name.as_str(), args) {
            ("net_send", [_, port]) => {
                packet::finish(e);
                let back = matches!(e.body.def_op(*port), Some(Op::InPort { .. }));
                let call =
                    if back { "nf_send_back()".to_string() } else { format!("nf_send({})", e.text(*port)) };
                Ok(Self::verdict(e, &call, last))
            }
            ("stack_recv", [_]) => {
                packet::finish(e);
                Ok(Self::verdict(e, "nf_pass()", last))
            }
            ("host_recv", [_]) => {
                packet::finish(e);
                e.line("nf_host_frame(ctx, NF_HOST_RECV, 0, 0, NF_RECORD_BYTES);");
                Ok(Self::verdict(e, "nf_to_host()", last))
            }
            ("dma_write", [_, addr, len]) => {
                let off = packet::cursor_text(e);
                let (addr, len) = (e.text(*addr), e.text(*len));
                e.line(&format!("nf_host_frame(ctx, NF_DMA_WRITE, {addr}, {off}, {len});"));
                Ok(false)
            }
            ("host_msg", [message]) => {
                let ty = e.body.ty(*message);
                let (record, size) = (e.names.fresh("record"), e.program.size_of(ty));
                let (ty, message) = (e.types.name(ty), e.text(*message));
                e.line(&format!("struct {{ struct nf_record_head head; {ty} message; }} {record} NF_LOCAL;"));
                e.line(&format!("__builtin_memset(&{record}, 0, sizeof({record}));"));
                e.line(&format!("{record}.head.kind = NF_HOST_MSG;"));
                e.line(&format!("{record}.head.length = {size};"));
                e.line(&format!("{record}.message = {message};"));
                e.line(&format!(
                    "bpf_ringbuf_output(&nf_host, &{record}, sizeof({record}.head) + {size}, 0);"
                ));
                Ok(false)
            }
            _ => Err(Unsupported {
                message: format!("target `xdp` has no event `{name}`"),
                help: "it offers `net_send`, `stack_recv`, `host_recv`, `host_msg` and `dma_write`".into(),
                span: e.body.insts[inst].span,
            }),
        }
    }

    fn log(e: &mut Emitter<'_, Self>, format: &str, args: &[ValueId]) {
        let id = e.dialect.logs.len();
        let signed = args.iter().map(|a| e.body.ty(*a).is_signed()).collect();
        e.dialect.logs.push(LogFormat { text: format.to_string(), signed });
        let record = e.names.fresh("record");
        let words: Vec<String> = args
            .iter()
            .map(|a| {
                let signed = e.body.ty(*a).is_signed();
                format!("{}{}", if signed { "(u64)(s64)" } else { "" }, e.operand(*a))
            })
            .collect();
        let size = 8 * (args.len() + 1);
        let list = std::iter::once(format!("{id}ull")).chain(words).collect::<Vec<_>>().join(", ");
        e.line(&format!(
            "struct {{ struct nf_record_head head; u64 words[{}]; }} {record} = {{ {{ NF_LOG, {size}, 0 }}, {{ {list} }} }};",
            args.len() + 1
        ));
        e.line(&format!("bpf_ringbuf_output(&nf_host, &{record}, sizeof({record}), 0);"));
    }
}

/// Whether a store may follow a reset on some path.
enum Rewound {
    /// Not in this region. Whether a reset was before its end; `None` if its end is not reached.
    Never(Option<bool>),
    Maybe,
}

fn rewound_store(body: &Body, block: BlockId, mut rewound: bool) -> Rewound {
    for &inst in &body.blocks[block].insts {
        match body.insts[inst].op {
            Op::Reset { .. } => rewound = true,
            Op::Store { .. } if rewound => return Rewound::Maybe,
            Op::If { then, other, .. } => {
                let mut after = None;
                for arm in [then, other] {
                    match rewound_store(body, arm, rewound) {
                        Rewound::Maybe => return Rewound::Maybe,
                        Rewound::Never(end) => after = after.max(end),
                    }
                }
                match after {
                    Some(end) => rewound = end,
                    None => return Rewound::Never(None),
                }
            }
            Op::Loop { body: region, .. } => {
                // A later trip comes after a reset in an earlier one, however that was left.
                let mut resets = rewound;
                body.for_each_inst(region, &mut |inside| {
                    resets |= matches!(body.insts[inside].op, Op::Reset { .. });
                });
                if let Rewound::Maybe = rewound_store(body, region, resets) {
                    return Rewound::Maybe;
                }
                rewound = resets;
            }
            Op::Return(_) | Op::Break { .. } | Op::Continue { .. } => return Rewound::Never(None),
            _ => {}
        }
    }
    Rewound::Never(Some(rewound))
}

fn is_bool(e: &Emitter<'_, Xdp<'_>>, value: ValueId) -> bool {
    e.body.ty(value) == Type::BOOL
}

/// Whether a region moves packets: their cursor, their headers or their length.
fn moves_packets(body: &Body, block: BlockId) -> bool {
    let mut found = false;
    body.for_each_inst(block, &mut |inst| {
        found |= matches!(
            body.insts[inst].op,
            Op::Extract { .. } | Op::Skip { .. } | Op::Trim { .. } | Op::Emit { .. } | Op::Reset { .. }
        );
    });
    found
}

impl Dialect for Xdp<'_> {
    type State = State;

    fn statement(e: &mut Emitter<'_, Self>, inst: InstId, last: bool) -> Result<bool, Unsupported> {
        let data = &e.body.insts[inst];
        let result = data.results.first().copied();
        match data.op.clone() {
            Op::InPort { .. } => {
                let result = result.expect("one result");
                let only_send_back = e.body.insts.values().all(|user| match &user.op {
                    Op::Generate { event, args } => {
                        !args.contains(&result) || e.program.events[*event].name == "net_send"
                    }
                    op => !op.operands().contains(&result),
                });
                if !only_send_back {
                    let call = format!("nf_in_port(ctx, {})", e.program.ports.max(1));
                    e.define(inst, result, &call);
                }
            }
            Op::Random => e.define(inst, result.expect("one result"), "nf_random_at(clock.seed, draws++)"),
            Op::Extract { .. } => packet::read(e, inst, None, true),
            Op::Load { off, .. } => packet::read(e, inst, Some(off), false),
            Op::Store { off, value, .. } => packet::store(e, inst, off, value),
            Op::Skip { len, .. } => packet::skip(e, inst, len),
            Op::Trim { len, .. } => packet::trim(e, inst, len),
            Op::Emit { value, .. } => packet::emit(e, inst, value),
            Op::Reset { .. } => packet::reset(e),
            Op::Len { .. } => {
                let text = packet::rest_length(e);
                e.define(inst, result.expect("one result"), &text);
            }
            Op::PktCsum { sum, len, .. } => {
                let off = packet::cursor_text(e);
                let text = format!("nf_csum_frame(ctx, {off}, {}, {})", e.text(sum), e.text(len));
                e.define(inst, result.expect("one result"), &text);
            }
            Op::Drop { reason, .. } => {
                let call = format!("nf_drop({})", reason.as_u32());
                return Ok(Self::verdict(e, &call, last));
            }
            Op::Generate { event, args } => return Self::generate(e, inst, event, &args, last),
            Op::Log { format, args } => Self::log(e, &format, &args),
            Op::FibLookup { query } => {
                let (ok, answer) = (data.results[0], data.results[1]);
                let query = packet::variable(e, query);
                e.define(inst, answer, "{0}");
                let call = format!("nf_fib(ctx, &{query}, &{})", e.vars.name(answer));
                e.define(inst, ok, &call);
            }
            Op::Lookup { table, key } => tables::lookup(e, inst, table, key),
            Op::Contains { table, key } => tables::contains(e, inst, table, key),
            Op::Update { table, key, value } => tables::update(e, inst, table, key, value),
            Op::Delete { table, key } => tables::delete(e, inst, table, key),
            Op::Commute { op, table, key, path, amount } => tables::commute(e, op, table, key, &path, amount),
            Op::BufAppend { table, key, source: BufSource::Value(value) } => {
                tables::append_value(e, inst, table, key, value);
            }
            Op::BufAppend { table, key, source: BufSource::Packet { len, .. } } => {
                tables::append_packet(e, inst, table, key, len);
            }
            Op::BufLen { table, key } => tables::buf_len(e, inst, table, key),
            Op::BufRead { table, key, off } => tables::buf_read(e, inst, table, key, off),
            Op::BufClear { table, key } => tables::buf_clear(e, table, key),
            Op::BufGenerate { event, table, key, port } => {
                if port.is_some() || e.program.events[event].name != "host_recv" {
                    return Err(Unsupported {
                        message: "target `xdp` cannot make a packet of a table's byte string".into(),
                        help: "deliver it to the host side with nf_buf_to_host()".into(),
                        span: data.span,
                    });
                }
                tables::buf_to_host(e, inst, table, key);
            }
            Op::Call { func, .. } => {
                return Err(Unsupported {
                    message: format!("call of `{}` was not inlined", e.program.funcs[func].name),
                    help: "run the pass `inline` before generating code".into(),
                    span: data.span,
                });
            }
            other => unreachable!("{other:?} is printed by the emitter"),
        }
        Ok(false)
    }

    fn assume(e: &mut Emitter<'_, Self>, cond: ValueId, holds: bool) {
        Self::facts(e, cond, holds);
    }

    fn source(e: &Emitter<'_, Self>, agg: ValueId) -> Option<String> {
        if let Some((_, pointer, bytes)) = e.state.wire.iter().find(|(value, ..)| *value == agg) {
            return (*bytes <= e.state.proved).then(|| format!("(*{pointer})"));
        }
        let holds =
            |entry: &&super::state::EntryPointer| entry.content == Some(agg) && entry.known == Some(true);
        let entry = e.state.entries.iter().find(holds)?;
        Some(tables::value_of(e, entry.table, &entry.name))
    }

    fn join(e: &mut Emitter<'_, Self>, a: &State, b: &State) -> Joined<Self> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (mut a, mut b) = (a.clone(), b.clone());
        if a.cursor != b.cursor {
            for (side, lines) in [(&mut a, &mut first), (&mut b, &mut second)] {
                e.state = side.clone();
                lines.extend(packet::materialise_cursor(e));
                side.cursor = e.state.cursor.clone();
            }
        }
        if a.emits != b.emits {
            for (side, lines) in [(&mut a, &mut first), (&mut b, &mut second)] {
                e.state = side.clone();
                lines.extend(packet::materialise_emits(e));
                side.emits = Emits::Staged;
            }
        }
        let entries = a
            .entries
            .iter()
            .filter_map(|x| {
                let y = b.entries.iter().find(|y| y.name == x.name && y.key == x.key)?;
                let mut both = x.clone();
                both.known = if x.known == y.known { x.known } else { None };
                both.content = if x.content == y.content { x.content } else { None };
                Some(both)
            })
            .collect();
        let wire = a.wire.iter().filter(|w| b.wire.contains(w)).cloned().collect();
        let pinned = a.pinned;
        let state =
            State { cursor: a.cursor, emits: a.emits, proved: a.proved.min(b.proved), entries, wire, pinned };
        Joined { state, first, second }
    }

    fn enter_loop(e: &mut Emitter<'_, Self>, body: BlockId) {
        if moves_packets(e.body, body) {
            packet::materialise_cursor(e).into_iter().for_each(|l| e.line(&l));
            packet::materialise_emits(e).into_iter().for_each(|l| e.line(&l));
            e.state.proved = 0;
            e.state.pinned = true;
        } else if let Cursor::Static { unless: Some(_), .. } = e.state.cursor {
            packet::materialise_cursor(e).into_iter().for_each(|l| e.line(&l));
        }
        // A later trip may find what an earlier one changed.
        let mut written = Vec::new();
        e.body.for_each_inst(body, &mut |inst| written.extend(e.body.insts[inst].op.effects().table_write));
        written.into_iter().for_each(|table| e.state.entries_moved(table));
    }

    fn leave_loop(e: &mut Emitter<'_, Self>, before: &State) {
        e.state.pinned = before.pinned;
    }

    fn end_of_handler(e: &mut Emitter<'_, Self>) {
        e.dialect.uses_verdict = true;
        e.line("return verdict;");
    }
}
