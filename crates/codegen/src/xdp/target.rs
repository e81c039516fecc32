//! The XDP target: what of a handler is the kernel's.

use std::collections::HashMap;

use nicforge_ir::{
    CommuteOp, Direction, EventId, HandlerId, InstId, Op, TableId, TableKind, Type, ValueId, Words,
};

use super::pipeline::{self, Handed, Handover, Pipe};
use super::refused;
use crate::artifact::{LogFormat, XdpMapShape, XdpTable};
use crate::c::body::Unsupported;
use crate::inplace::state::Emitted;
use crate::inplace::tables::{copy_to_insert, value_type};
use crate::inplace::{E, Target, packet, tables};

/// As in `runtime/xdp/nf_rt.h`.
const STAGED_BYTES: u32 = 256;

/// State of the generator while it prints one handler.
pub struct Xdp<'a> {
    pub maps: &'a HashMap<TableId, XdpTable>,
    pub handler: HandlerId,
    /// The stages, and the one of this handler, if there are several.
    pub pipe: Option<&'a Pipe>,
    pub stage: usize,
    /// The stage's first drop counter.
    pub drop_base: u32,
    pub logs: Vec<LogFormat>,
    pub handovers: Vec<Handover>,
    pub uses_verdict: bool,
    /// Counter of frames that the kernel would not move or cut.
    pub no_room: u32,
    /// Searches through all entries of tables.
    pub scans: Vec<Scan>,
}

/// A search for the least entry of a table, by the integer at a byte of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    name: String,
    key: String,
    number: String,
    at: u32,
}

impl Scan {
    /// The function that the kernel calls for each entry.
    pub fn declaration(&self) -> String {
        let Scan { name, key, number, at } = self;
        format!("NF_LEAST({name}, {key}, {number}, {at})\n")
    }
}

impl Xdp<'_> {
    /// Call that counts a frame without room for its headers.
    pub fn no_room(&self) -> String {
        format!("nf_no_room({})", self.no_room)
    }

    /// `call` sends the packet away; recorded runs mark it with what it is and how it came.
    fn leave(e: &E<'_, Self>, call: String) -> String {
        if e.dialect.target.pipe.is_some() { format!("NF_LEAVE(ctx, clock, {call})") } else { call }
    }

    /// The place of a parameter that lies in the handler's frame.
    fn framed(e: &E<'_, Self>, param: ValueId) -> Option<String> {
        let name = e.vars.name(param);
        name.starts_with(super::FRAME).then(|| name.to_string())
    }

    /// True if this handler runs behind a queue, where packets cannot be sent back as such.
    fn queued(e: &E<'_, Self>) -> bool {
        let target = &e.dialect.target;
        target.pipe.is_some_and(|pipe| pipe.queued(e.program, target.handler))
    }

    /// Ends the handler with a verdict, now or later.
    fn verdict(e: &mut E<'_, Self>, call: &str, last: bool) -> bool {
        if last {
            e.line(&format!("return {call};"));
        } else {
            e.dialect.target.uses_verdict = true;
            e.line(&format!("verdict = {call};"));
        }
        last
    }

    fn generate(
        e: &mut E<'_, Self>,
        inst: InstId,
        event: EventId,
        args: &[ValueId],
        last: bool,
    ) -> Result<bool, Unsupported> {
        let name = e.program.events[event].name.clone();
        if e.program.events[event].direction == Direction::Internal
            && let Some(handed) = pipeline::hand_over(e, event, args)
        {
            return Ok(match handed {
                Handed::Packet(call) => Self::verdict(e, &call, last),
                Handed::Values => false,
            });
        }
        match (name.as_str(), args) {
            ("net_send", [_, port]) => {
                packet::finish(e);
                let back =
                    matches!(e.body.def_op(*port), Some(Op::InPort { .. })) && !Self::queued(e);
                let call = if back {
                    "nf_send_back()".to_string()
                } else {
                    format!("nf_send({})", e.text(*port))
                };
                let call = Self::leave(e, call);
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
            ("net_copy", [_, port]) => {
                let (port, staged) = (e.text(*port), packet::staged_copy(e));
                let off = packet::cursor_text(e);
                e.line(&format!("nf_copy_frame(ctx, NF_NET_COPY, {port}, {staged}, {off});"));
                Ok(false)
            }
            ("host_copy", [_]) => {
                let staged = packet::staged_copy(e);
                let off = packet::cursor_text(e);
                e.line(&format!("nf_copy_frame(ctx, NF_HOST_RECV, 0, {staged}, {off});"));
                Ok(false)
            }
            ("host_msg", [message]) => {
                let ty = e.body.ty(*message);
                let (record, size) = (e.names.fresh("record"), e.program.size_of(ty));
                let (ty, message) = (e.types.name(ty), e.text(*message));
                e.in_braces(&[
                    format!("struct {{ struct nf_record_head head; {ty} message; }} {record} NF_LOCAL;"),
                    format!("__builtin_memset(&{record}, 0, sizeof({record}));"),
                    format!("{record}.head.kind = NF_HOST_MSG;"),
                    format!("{record}.head.length = {size};"),
                    format!("{record}.message = {message};"),
                    format!(
                        "bpf_ringbuf_output(&nf_host, &{record}, sizeof({record}.head) + {size}, 0);"
                    ),
                ]);
                Ok(false)
            }
            _ => Err(refused::generated(&e.program.events[event], e.body.insts[inst].span)),
        }
    }

    fn log(e: &mut E<'_, Self>, format: &str, args: &[ValueId]) {
        let id = e.dialect.target.logs.len();
        let signed = args.iter().map(|a| e.body.ty(*a).is_signed()).collect();
        e.dialect.target.logs.push(LogFormat { text: format.to_string(), signed });
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
        e.in_braces(&[
            format!(
                "struct {{ struct nf_record_head head; u64 words[{}]; }} {record} = {{ {{ NF_LOG, {size}, 0 }}, {{ {list} }} }};",
                args.len() + 1
            ),
            format!("bpf_ringbuf_output(&nf_host, &{record}, sizeof({record}), 0);"),
        ]);
    }

    /// The process sends the first bytes of a value.
    fn new_packet(e: &mut E<'_, Self>, value: ValueId, len: ValueId, port: ValueId) {
        let size = e.program.size_of(e.body.ty(value));
        let (len, port) = (e.text(len), e.text(port));
        let bytes = packet::variable(e, value);
        let record = e.names.fresh("record");
        e.in_braces(&[
            format!("struct nf_record_head *{record} ="),
            format!("    bpf_ringbuf_reserve(&nf_host, sizeof(*{record}) + {size}, 0);"),
            format!("if ({record}) {{"),
            format!("    nf_new_head({record}, {port}, {len}, {size});"),
            format!("    __builtin_memcpy({record} + 1, &{bytes}, {size});"),
            format!("    bpf_ringbuf_submit({record}, 0);"),
            "}".to_string(),
        ]);
    }

    /// Delivers an entry's byte string and empties it: to the host side, or to the process, which
    /// sends it by a port.
    fn buf_leaves(
        e: &mut E<'_, Self>,
        inst: InstId,
        table: TableId,
        key: ValueId,
        port: Option<String>,
    ) {
        let ok = e.body.insts[inst].results[0];
        let name = tables::pointer(e, table, key);
        let capacity = e.program.tables[table].buf.unwrap_or(0);
        e.define(inst, ok, &format!("{name} != 0"));
        e.line(&format!("if ({name}) {{"));
        let (kind, port) = match port {
            Some(port) => ("NF_NET_COPY", port),
            None => ("NF_HOST_RECV", "0".to_string()),
        };
        e.line(&format!("    {name}->nf_head.kind = {kind};"));
        e.line(&format!("    {name}->nf_head.addr = {port};"));
        e.line(&format!("    nf_buf_deliver(&{name}->nf_head, {name}->nf_len, {capacity});"));
        e.line(&format!("    {name}->nf_len = 0;"));
        e.line("}");
    }
}

fn reload(e: &mut E<'_, Xdp<'_>>) {
    e.line("data = (u8 *)(long)ctx->data;");
    e.line("end = (u8 *)(long)ctx->data_end;");
}

fn refused(table: TableId) -> String {
    format!("&nf_refused[{}]", table.as_u32())
}

impl Target for Xdp<'_> {
    /// The verifier tracks offsets of 15 bits.
    const REACH: u64 = 0x7fff;
    /// An Ethernet header.
    const SHORTEST: u32 = 14;
    const FRAME: &'static str = "ctx";
    const RANDOM: &'static str = "nf_random_at(clock.seed, draws++)";

    fn table_name(&self, table: TableId) -> &str {
        &self.maps[&table].map
    }

    fn entries_stay(&self, _kind: TableKind) -> bool {
        false
    }

    fn statement(e: &mut E<'_, Self>, inst: InstId, last: bool) -> Result<bool, Unsupported> {
        let data = &e.body.insts[inst];
        let result = data.results.first().copied();
        match data.op.clone() {
            Op::InPort { .. } => {
                let result = result.expect("one result");
                let only_send_back = e.body.insts.values().all(|user| match &user.op {
                    Op::Generate { event, args } => {
                        !args.contains(&result) || e.program.events[*event].name == "net_send"
                    }
                    op => !op.uses(result),
                }) && !Self::queued(e);
                if !only_send_back {
                    let event = e.program.handlers[e.dialect.target.handler].event;
                    let call = match e.dialect.target.pipe {
                        Some(pipe) => pipeline::port_of(pipe, e.program, event),
                        None => format!("nf_in_port(ctx, {})", e.program.ports.max(1)),
                    };
                    e.define(inst, result, &call);
                }
            }
            Op::Drop { reason, .. } => {
                let call = format!("nf_drop({})", e.dialect.target.drop_base + reason.as_u32());
                return Ok(Self::verdict(e, &call, last));
            }
            Op::Generate { event, args } => return Self::generate(e, inst, event, &args, last),
            Op::NewPacket { value, len, port, .. } => Self::new_packet(e, value, len, port),
            Op::Log { format, args } => Self::log(e, &format, &args),
            Op::Crypto { op, .. } => {
                return Err(Unsupported {
                    message: format!("the kernel's hook has no `nf_{}`", op.word()),
                    help: "put the call behind a queue to the host: a handler with NF_ON(host)"
                        .into(),
                    span: data.span,
                });
            }
            Op::Extern { name, .. } => {
                return Err(Unsupported {
                    message: format!(
                        "`{name}` is a function of C, and the kernel runs nothing it has not checked"
                    ),
                    help: "put the call behind a queue to the host: a handler with NF_ON(host)"
                        .into(),
                    span: data.span,
                });
            }
            Op::FibLookup { query } => {
                let (ok, answer) = (data.results[0], data.results[1]);
                let query = packet::variable(e, query);
                e.define(inst, answer, "{0}");
                let call = format!("nf_fib(ctx, &{query}, &{})", e.vars.name(answer));
                e.define(inst, ok, &call);
            }
            Op::BufGenerate { table, key, port, .. } => {
                let port = port.map(|port| e.text(port));
                Self::buf_leaves(e, inst, table, key, port);
            }
            other => unreachable!("{other:?} is printed by the emitter"),
        }
        Ok(false)
    }

    fn parameter(e: &mut E<'_, Self>, param: ValueId) {
        let event = e.program.handlers[e.dialect.target.handler].event;
        if let Some(edge) = e.dialect.target.pipe.and_then(|pipe| pipe.edges.get(&event)) {
            let params = &e.body.blocks[e.body.entry()].params;
            let at = params.iter().position(|p| *p == param).unwrap_or(0);
            if let Some(member) = &edge.members[at] {
                // Nobody else uses the event, and the stack is small.
                if edge.large && e.program.size_of(e.body.ty(param)) > pipeline::SMALL {
                    let place = edge.member(member);
                    e.vars.lies_at(param, place);
                    return;
                }
                let place = edge.member(member);
                let text = match Self::framed(e, param) {
                    Some(name) => format!("{name} = {place};"),
                    None => format!("{} NF_LOCAL = {place};", e.declaration(param)),
                };
                e.line(&text);
            }
            return;
        }
        if Self::framed(e, param).is_none() {
            let text = format!("{} NF_LOCAL;", e.declaration(param));
            e.line(&text);
        }
        let name = e.vars.name(param).to_string();
        e.line(&format!("NF_GET({name}, data);"));
        e.types.canonical(e.body.ty(param), &name).iter().for_each(|line| e.line(line));
    }

    fn end_of_handler(e: &mut E<'_, Self>) {
        e.dialect.target.uses_verdict = true;
        e.line("return verdict;");
    }

    fn place_at(e: &mut E<'_, Self>, at: &str, size: u32) -> (String, String) {
        let (inside, address) = (e.names.fresh("inside"), e.names.fresh("place"));
        e.line(&format!("bool {inside} = {at} < 0x8000;"));
        e.line(&format!("NF_BOUND_OFFSET({at});"));
        e.line(&format!("u8 *{address} = data + {at};"));
        e.line(&format!("NF_PIN({address});"));
        let check = format!("{inside} && {address} + {size} <= end");
        (address, check)
    }

    /// Stages read headers again without leaving where they are too short, which nothing that comes
    /// to them is. The verifier does not know that, and would walk the loop once for every sum of
    /// headers that may be there.
    fn cursor_enters_loop(e: &mut E<'_, Self>) {
        if e.dialect.target.pipe.is_some() {
            e.line("NF_FORGET(cursor);");
        }
    }

    /// Handlers behind a queue do not know by how much.
    fn may_move_early(e: &E<'_, Self>) -> bool {
        let resets = |handler: &nicforge_ir::Handler| {
            handler.body.insts.values().any(|inst| matches!(inst.op, Op::Reset { .. }))
        };
        e.dialect.target.pipe.is_none() || !e.program.handlers.values().any(resets)
    }

    /// The kernel keeps at least an Ethernet header; a frame that would leave with less fails as a
    /// whole, counted.
    fn trim(e: &mut E<'_, Self>, ok: &str, keep: &str, rest: &str) {
        let fail = e.dialect.target.no_room();
        e.line(&format!("if ({ok} && bpf_xdp_adjust_tail(ctx, (int)({keep} - {rest})))"));
        e.line(&format!("    return {fail};"));
        reload(e);
    }

    /// The kernel clears what it appends.
    fn extend(e: &mut E<'_, Self>, ok: &str, by: &str) {
        let fail = e.dialect.target.no_room();
        e.line(&format!("if ({ok} && bpf_xdp_adjust_tail(ctx, (int){by}))"));
        e.line(&format!("    return {fail};"));
        reload(e);
    }

    fn move_head(e: &mut E<'_, Self>, by: &str, _constant: Option<i64>) {
        let fail = e.dialect.target.no_room();
        e.line(&format!("if (bpf_xdp_adjust_head(ctx, {by}))"));
        e.line(&format!("    return {fail};"));
        reload(e);
    }

    fn check_headers(e: &mut E<'_, Self>, total: u32) {
        let fail = e.dialect.target.no_room();
        e.line(&format!("if (data + {total} > end)"));
        e.line(&format!("    return {fail};"));
    }

    fn unstage(e: &mut E<'_, Self>) {
        let fail = e.dialect.target.no_room();
        e.line("if (!nf_unstage(ctx, staged, staged_len))");
        e.line(&format!("    return {fail};"));
    }

    fn stage(name: &str, size: u32) -> String {
        format!("nf_stage(staged, &staged_len, &{name}, {size});")
    }

    /// At constant places: no header waits until the number of bytes in front of it is known.
    fn stage_all(e: &E<'_, Self>, list: &[Emitted]) -> Vec<String> {
        let mut at = 0;
        let mut lines = Vec::new();
        for item in list {
            lines.extend(packet::put(e, item, &format!("staged + {at}")));
            at += item.size;
        }
        if at > STAGED_BYTES {
            return std::iter::once("staged_len = 0;".to_string())
                .chain(list.iter().map(|item| Self::stage(&item.name, item.size)))
                .collect();
        }
        lines.push("staged_len = 0;".to_string());
        if at > 0 {
            lines.push(format!("nf_staged_more(staged, &staged_len, {at});"));
        }
        lines
    }

    fn entry_type(e: &E<'_, Self>, table: TableId) -> String {
        match Self::wraps(e, table) {
            true => format!("struct nf_entry_{}", e.dialect.target.maps[&table].map),
            false => value_type(e, table),
        }
    }

    /// A list's entries point at values, which the rules around them hold.
    fn wraps(e: &E<'_, Self>, table: TableId) -> bool {
        let XdpTable { shape, front, buf, .. } = &e.dialect.target.maps[&table];
        buf.is_some() || *front > 0 && *shape != XdpMapShape::TernaryList
    }

    fn find_bits(e: &mut E<'_, Self>, table: TableId, key: ValueId, bits: ValueId, name: &str) {
        let (whole, bits) = (e.program.size_of(e.program.tables[table].key) * 8, e.text(bits));
        let bits = format!("({bits}) < {whole} ? {bits} : {whole}");
        find_prefix(e, table, key, &bits, name);
    }

    fn find(e: &mut E<'_, Self>, table: TableId, key: ValueId, name: &str) {
        let map = e.dialect.target.maps[&table].map.clone();
        let ty = Self::entry_type(e, table);
        match e.dialect.target.maps[&table].shape {
            XdpMapShape::Lpm => {
                let bits = e.program.size_of(e.program.tables[table].key) * 8;
                find_prefix(e, table, key, &bits.to_string(), name);
            }
            XdpMapShape::TernaryList => {
                let (rule, at) = (e.names.fresh("rule"), e.names.fresh("at"));
                let capacity = e.program.tables[table].capacity;
                let key = packet::variable(e, key);
                e.line(&format!("{ty} *{name} = 0;"));
                e.line(&format!("for (u32 {at} = 0; {at} < {capacity}; {at}++) {{"));
                e.line(&format!("    u32 at_ = {at};"));
                e.line(&format!(
                    "    struct nf_rule_{map} *{rule} = bpf_map_lookup_elem(&{map}, &at_);"
                ));
                e.line(&format!("    if (!{rule} || !{rule}->used)"));
                e.line("        break;");
                e.line(&format!(
                    "    if (nf_masked_equal(&{key}, &{rule}->key, &{rule}->mask, sizeof({key}))) {{"
                ));
                e.line(&format!("        {name} = &{rule}->value;"));
                e.line("        break;");
                e.line("    }");
                e.line("}");
            }
            _ => {
                let key = e.address(key);
                e.line(&format!("{ty} *{name} = bpf_map_lookup_elem(&{map}, {key});"));
            }
        }
    }

    fn least(e: &mut E<'_, Self>, table: TableId, at: u32, part: Type, pointer: &str) -> String {
        let XdpTable { map, front, .. } = e.dialect.target.maps[&table].clone();
        let (number, key) = (e.types.name(part), e.types.name(e.program.tables[table].key));
        let scan =
            Scan { name: format!("nf_least_{map}_{at}_{number}"), key, number, at: at + front };
        let (ty, best) = (Self::entry_type(e, table), e.names.fresh("best"));
        e.line(&format!("struct {} {best} NF_LOCAL;", scan.name));
        e.line(&format!("__builtin_memset(&{best}, 0, sizeof({best}));"));
        e.line(&format!("bpf_for_each_map_elem(&{map}, {}_each, &{best}, 0);", scan.name));
        e.line(&format!(
            "{ty} *{pointer} = {best}.found ? bpf_map_lookup_elem(&{map}, &{best}.key) : 0;"
        ));
        if !e.dialect.target.scans.contains(&scan) {
            e.dialect.target.scans.push(scan);
        }
        format!("&{best}.key")
    }

    /// clang may keep the answer of an earlier test in place of the pointer, and the verifier does
    /// not see that both are one: what asks less of it tests the pointer again.
    fn found_again(e: &mut E<'_, Self>, _: TableId, pointer: &str) {
        if e.far.is_some() {
            e.line(&format!("NF_PIN({pointer});"));
        }
    }

    /// All entries of an array exist, which the kernel's verifier does not know.
    fn exists(e: &mut E<'_, Self>, pointer: &str) {
        e.line(&format!("if (!{pointer})"));
        e.line("    return XDP_ABORTED;");
    }

    fn insert(
        e: &mut E<'_, Self>,
        table: TableId,
        key: ValueId,
        value: ValueId,
        indent: &str,
    ) -> String {
        let map = e.dialect.target.maps[&table].map.clone();
        let refused = refused(table);
        let key = e.address(key);
        if e.dialect.target.maps[&table].buf.is_some() {
            let (ty, zero) = (Self::entry_type(e, table), e.names.fresh("fresh"));
            let value = e.text(value);
            // Too large for the stack: the entry is made from zeroes in a map and then given its
            // value.
            e.line(&format!(
                "{indent}{ty} *{zero} = nf_map_entry(&{map}, {key}, nf_zeroes(), {refused});"
            ));
            e.line(&format!("{indent}if ({zero})"));
            e.line(&format!("{indent}    {zero}->value = {value};"));
            return format!("{zero} != 0");
        }
        // The kernel gets a copy, so that the value itself may stay in registers on all other
        // paths.
        let mut inserted = copy_to_insert(e, value, indent);
        if Self::wraps(e, table) {
            let (ty, entry) = (Self::entry_type(e, table), e.names.fresh("entry"));
            e.line(&format!("{indent}{ty} {entry} NF_LOCAL = {{ .value = {inserted} }};"));
            inserted = entry;
        }
        format!("nf_map_update(&{map}, {key}, &{inserted}, {refused})")
    }

    fn create(e: &mut E<'_, Self>, table: TableId, key: ValueId) -> String {
        let XdpTable { map, buf, .. } = &e.dialect.target.maps[&table];
        let zero = match buf {
            Some(_) => "nf_zeroes()".to_string(),
            None => format!("&({}){{0}}", Self::entry_type(e, table)),
        };
        format!("nf_map_create(&{map}, {}, {zero}, {})", e.address(key), refused(table))
    }

    fn refuse(_e: &mut E<'_, Self>, table: TableId) -> String {
        format!("nf_refuse({})", refused(table))
    }

    fn delete(e: &mut E<'_, Self>, table: TableId, key: ValueId) -> String {
        format!(
            "bpf_map_delete_elem(&{}, {}) == 0",
            e.dialect.target.maps[&table].map,
            e.address(key)
        )
    }

    fn commute(
        e: &E<'_, Self>,
        table: TableId,
        op: CommuteOp,
        at: &str,
        part: Type,
        amount: &str,
    ) -> String {
        let shape = e.dialect.target.maps[&table].shape;
        let atomic = matches!(part.bits(), Some(32 | 64)) && shape != XdpMapShape::PerCpuSum;
        // A member of a packed struct may lie anywhere; BPF atomics take its address as it is.
        let target = format!("(({} *)(void *)&{at})", e.types.name(part));
        match (op, atomic) {
            (CommuteOp::Add, true) => format!("__sync_fetch_and_add({target}, {amount});"),
            (CommuteOp::Or, true) => format!("__sync_fetch_and_or({target}, {amount});"),
            (CommuteOp::Min, true) => format!("NF_ATOMIC_UPDATE({target}, {amount}, <);"),
            (CommuteOp::Max, true) => format!("NF_ATOMIC_UPDATE({target}, {amount}, >);"),
            (CommuteOp::Add, false) => format!("*{target} += {amount};"),
            (CommuteOp::Or, false) => format!("*{target} |= {amount};"),
            (CommuteOp::Min, false) => {
                format!("*{target} = ({amount}) < *{target} ? ({amount}) : *{target};")
            }
            (CommuteOp::Max, false) => {
                format!("*{target} = ({amount}) > *{target} ? ({amount}) : *{target};")
            }
        }
    }
}

/// Prints the declaration of a pointer to the entry of the longest prefix of `key` that has at most
/// so many bits.
fn find_prefix(e: &mut E<'_, Xdp>, table: TableId, key: ValueId, bits: &str, name: &str) {
    let map = e.dialect.target.maps[&table].map.clone();
    let (ty, query) = (Xdp::entry_type(e, table), e.names.fresh(&format!("{map}_query")));
    let key = e.text(key);
    e.line(&format!("struct nf_lpm_{map} {query} NF_LOCAL = {{ {bits}, {key} }};"));
    e.line(&format!("{ty} *{name} = bpf_map_lookup_elem(&{map}, &{query});"));
}
