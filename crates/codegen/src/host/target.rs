//! The host target: packets in buffers, tables in memory, events through the environment.

use std::collections::HashMap;

use nicforge_ir::{
    CommuteOp, Direction, EventId, HandlerId, InstId, Op, Passing, TableId, TableKind, Type,
    ValueId, Words,
};

use super::locks::{self, Locks};
use super::{Context, HostBlock};
use crate::artifact::LogFormat;
use crate::c::body::Unsupported;
use crate::inplace::state::{Cursor, Emits};
use crate::inplace::tables::value_type;
use crate::inplace::{E, Target, packet, tables};

/// Facts about a packet when an internal event carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Bytes that were read, where that is the same on every path and nothing was emitted.
    pub cursor: Option<u32>,
    /// Bytes of the frame that are there for certain.
    pub proved: u32,
}

/// State of the generator while it prints one handler.
pub struct Host<'a> {
    pub handler: HandlerId,
    pub names: &'a HashMap<TableId, String>,
    pub event_names: &'a HashMap<EventId, (String, Vec<String>)>,
    pub context: &'a Context,
    pub locks: &'a Locks,
    /// Pointers into tables say in which address space they are.
    pub spaces: bool,
    pub logs: Vec<LogFormat>,
    pub blocks: Vec<HostBlock>,
    pub handovers: Vec<(EventId, Handover)>,
    pub uses_tables: Vec<TableId>,
    /// Counter of frames without room for their headers.
    pub no_room: u32,
}

impl Host<'_> {
    fn uses(&mut self, table: TableId) -> String {
        if !self.uses_tables.contains(&table) {
            self.uses_tables.push(table);
        }
        self.names[&table].clone()
    }
}

type H<'a, 'b> = E<'a, Host<'b>>;

/// Makes the packet what is to leave. Arguments of the call that gives it away are printed behind:
/// headers that are written here may lie where values were extracted from.
fn finish(e: &mut H<'_, '_>) {
    packet::finish(e);
    e.line("pkt->data = data;");
    e.line("pkt->end = end;");
}

/// Prints what a copy of the packet takes; gives it as arguments: what was emitted and its length,
/// the frame, its end and where its unread rest begins. The packet stays as it was, but the frame
/// may have moved.
fn copied(e: &mut H<'_, '_>) -> String {
    let staged = packet::staged_copy(e);
    let off = packet::cursor_text(e);
    e.state.wire.clear();
    format!("{staged}, data, &end, {off}")
}

fn generate(
    e: &mut H<'_, '_>,
    inst: InstId,
    event: EventId,
    args: &[ValueId],
) -> Result<(), Unsupported> {
    let def = &e.program.events[event];
    if def.direction == Direction::Internal {
        internal(e, event, args);
        return Ok(());
    }
    match (def.name.as_str(), args) {
        ("net_send", [_, port]) => {
            finish(e);
            let call = format!("nf_send(env, pkt, {});", e.text(*port));
            e.line(&call);
        }
        ("net_copy", [_, port]) => {
            let port = e.text(*port);
            let copied = copied(e);
            e.line(&format!("data = nf_send_copy(env, pkt, {port}, {copied});"));
        }
        ("host_copy", [_]) => {
            let copied = copied(e);
            e.line(&format!("data = nf_host_copy(env, pkt, {copied});"));
        }
        ("stack_recv", [_]) => {
            finish(e);
            e.line("nf_stack(env, pkt);");
        }
        ("host_recv", [_]) => {
            finish(e);
            e.line("nf_host(env, pkt);");
        }
        ("dma_write", [_, addr, len]) => {
            let off = packet::cursor_text(e);
            let (addr, len) = (e.text(*addr), e.text(*len));
            e.line(&format!("nf_dma_frame(env, data, end, {off}, {addr}, {len});"));
        }
        ("host_msg", [message]) => {
            let size = e.program.size_of(e.body.ty(*message));
            let message = packet::variable(e, *message);
            e.line(&format!("nf_host_msg(env, &{message}, {size});"));
        }
        (name, _) => {
            return Err(Unsupported {
                message: format!("host targets have no event `{name}`"),
                help: "they offer `net_send`, `stack_recv`, `host_recv`, `host_msg`, `dma_write`, \
                     `net_copy` and `host_copy`"
                    .into(),
                span: e.body.insts[inst].span,
            });
        }
    }
    Ok(())
}

/// An event to another handler. The packet keeps its cursor and what was emitted, in memory.
fn internal(e: &mut H<'_, '_>, event: EventId, args: &[ValueId]) {
    let (name, members) = e.dialect.target.event_names[&event].clone();
    let packets = args.iter().any(|arg| e.body.ty(*arg) == Type::Packet);
    if packets {
        let emits_nothing = matches!(&e.state.emits, Emits::List(list) if list.is_empty());
        let cursor = match e.state.cursor {
            Cursor::Static { at, unless: None } if emits_nothing => Some(at),
            _ => None,
        };
        let proved = if cursor.is_some() { e.state.proved } else { 0 };
        e.dialect.target.handovers.push((event, Handover { cursor, proved }));
        let cursor = packet::cursor_text(e);
        e.line(&format!("pkt->cursor = (u32){cursor};"));
        if emits_nothing {
            e.line("pkt->staged_len = 0;");
        } else {
            packet::materialise_emits(e).into_iter().for_each(|line| e.line(&line));
            e.line("pkt->staged_len = staged_len;");
        }
        e.line("pkt->end = end;");
        e.state.wire.clear();
    }
    let made = e.names.fresh("made");
    e.line(&format!("struct nf_event_{name} {made} = {{0}};"));
    let own = e.program.handlers[e.dialect.target.handler].event;
    let params = e.body.blocks[e.body.entry()].params.clone();
    for (at, (member, arg)) in members.iter().zip(args).enumerate() {
        let context = e.dialect.target.context;
        if let Some(slot) = context.at(event, at) {
            let from = params.iter().position(|param| param == arg);
            if from.is_none_or(|from| !context.stays((own, from), (event, at))) {
                let value = packet::variable(e, *arg);
                let size = e.program.size_of(e.body.ty(*arg));
                e.line(&format!("memcpy(pkt->context + {slot}, &{value}, {size});"));
            }
            continue;
        }
        let value = if e.body.ty(*arg) == Type::Packet { "pkt".to_string() } else { e.text(*arg) };
        e.line(&format!("{made}.{member} = {value};"));
    }
    let pkt = if packets { "pkt" } else { "NULL" };
    e.line(&format!("nf_generate(env, NF_EVENT_{name}, &{made}, sizeof({made}), {pkt});"));
}

/// A call of a function of C. Its prototype stands before it, under a name of our own, since the
/// program may have the name for something else and the compiler ideas about it.
fn extern_call(e: &mut H<'_, '_>, inst: InstId, name: &str, passing: &[Passing], args: &[ValueId]) {
    let results = e.body.insts[inst].results.clone();
    let written = passing.iter().filter(|passing| **passing == Passing::Write).count();
    let (result, left) = results.split_at(results.len() - written);
    let (mut types, mut list, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for (arg, passing) in args.iter().zip(passing) {
        let ty = e.types.name(e.body.ty(*arg)).to_string();
        match passing {
            Passing::Value => {
                types.push(ty);
                list.push(e.operand(*arg));
            }
            Passing::Read => {
                types.push("const void *".to_string());
                list.push(e.address(*arg));
            }
            Passing::Write => {
                let copy = e.names.fresh("left");
                let value = e.text(*arg);
                e.line(&format!("{ty} {copy} = {value};"));
                types.push("void *".to_string());
                list.push(format!("&{copy}"));
                copies.push(copy);
            }
        }
    }
    let params = if types.is_empty() { "void".to_string() } else { types.join(", ") };
    let function = e.names.fresh(&format!("c_{name}"));
    let gives = result
        .first()
        .map_or("void".to_string(), |value| e.types.name(e.body.ty(*value)).to_string());
    e.line(&format!("extern {gives} {function}({params}) __asm__(\"{name}\");"));
    let call = format!("{function}({})", list.join(", "));
    match result.first() {
        Some(value) => e.define(inst, *value, &call),
        None => e.line(&format!("{call};")),
    }
    for (value, copy) in left.iter().zip(copies) {
        e.define(inst, *value, &copy);
    }
    // What C left in padding is not part of a value.
    for value in results.iter().copied() {
        let ty = e.body.ty(value);
        if e.is_used(value) && (ty.is_aggregate() || left.contains(&value)) {
            let fixes = e.types.canonical(ty, e.vars.name(value));
            fixes.iter().for_each(|line| e.line(line));
        }
    }
}

fn log(e: &mut H<'_, '_>, format: &str, args: &[ValueId]) {
    let id = e.dialect.target.logs.len();
    let signed: Vec<bool> = args.iter().map(|a| e.body.ty(*a).is_signed()).collect();
    let words: Vec<String> = args
        .iter()
        .zip(&signed)
        .map(|(a, signed)| format!("{}{}", if *signed { "(u64)(s64)" } else { "" }, e.operand(*a)))
        .collect();
    let list = if words.is_empty() { "0".to_string() } else { words.join(", ") };
    e.dialect.target.logs.push(LogFormat { text: format.to_string(), signed });
    e.line(&format!("nf_log(env, {id}, (const u64[]){{{list}}}, {});", args.len()));
}

/// The C variable with the hash of a key, which all tables of one key share: hashing is what costs
/// most in a lookup.
fn hash_of(e: &mut H<'_, '_>, table: TableId, key: ValueId, indent: &str) -> String {
    if let Some((_, name)) = e.state.hashes.iter().find(|(value, _)| *value == key) {
        return name.clone();
    }
    let size = e.program.size_of(e.program.tables[table].key);
    let wanted = if e.vars.is_inline(key) { "key" } else { e.vars.name(key) };
    let name = e.names.fresh(&format!("{wanted}_hash"));
    let line = format!("{indent}u32 {name} = nf_key_hash({}, {size});", e.address(key));
    e.line(&line);
    if indent.is_empty() {
        e.state.hashes.push((key, name.clone()));
    }
    name
}

/// Sends an entry's byte string as a packet and empties it.
fn send_bytes(
    e: &mut H<'_, '_>,
    inst: InstId,
    table: TableId,
    key: ValueId,
    port: Option<ValueId>,
) {
    let ok = e.body.insts[inst].results[0];
    let name = tables::pointer(e, table, key);
    e.define(inst, ok, &format!("{name} != 0"));
    let bytes = format!("{name}->nf_buf, {name}->nf_len");
    let call = match port {
        Some(port) => format!("nf_send_bytes(env, {}, {bytes});", e.text(port)),
        None => format!("nf_host_bytes(env, {bytes});"),
    };
    e.line(&format!("if ({name}) {{"));
    e.line(&format!("    {call}"));
    e.line(&format!("    {name}->nf_len = 0;"));
    e.line("}");
}

/// The type that pointers to a table's entries point to.
fn pointee(e: &H<'_, '_>, table: TableId) -> String {
    let ty = Host::entry_type(e, table);
    if e.dialect.target.spaces {
        format!("NF_SPACE_{} {ty}", e.dialect.target.names[&table])
    } else {
        ty
    }
}

/// Notes an access of a table under a key for the timing model.
fn trace(e: &mut H<'_, '_>, what: &str, table: TableId, key: ValueId, indent: &str) {
    let size = e.program.size_of(e.program.tables[table].key);
    let key = e.address(key);
    e.line(&format!("{indent}{what}({}, {key}, {size});", table.as_u32()));
}

impl Target for Host<'_> {
    const REACH: u64 = nicforge_ir::verify::MAX_FRAME as u64;
    const FRAME: &'static str = "data, end";
    const RANDOM: &'static str = "nf_random_at(env->seed, env->draws++)";

    const TRACED: Option<&'static str> = Some("NF_RUNS");

    fn plain_pointers(e: &E<'_, Self>) -> bool {
        !e.dialect.target.spaces
    }

    fn table_name(&self, table: TableId) -> &str {
        &self.names[&table]
    }

    fn entries_stay(&self, e_kind: TableKind) -> bool {
        e_kind == TableKind::Hash
    }

    fn statement(e: &mut E<'_, Self>, inst: InstId, _last: bool) -> Result<bool, Unsupported> {
        let data = &e.body.insts[inst];
        let result = data.results.first().copied();
        match data.op.clone() {
            Op::InPort { .. } => e.define(inst, result.expect("one result"), "pkt->in_port"),
            Op::Drop { reason, .. } => {
                e.line(&format!("nf_drop(env, pkt, {});", reason.as_u32()));
                e.state.wire.clear();
            }
            Op::Generate { event, args } => generate(e, inst, event, &args)?,
            Op::NewPacket { value, len, port, .. } => {
                let size = e.program.size_of(e.body.ty(value));
                let (len, port) = (e.text(len), e.text(port));
                let bytes = packet::variable(e, value);
                e.line(&format!("nf_send_new(env, {port}, &{bytes}, {len}, {size});"));
            }
            Op::Crypto { op, .. } if e.dialect.target.spaces => {
                return Err(Unsupported {
                    message: format!("micro-engines have no `nf_{}`", op.word()),
                    help: "put the call behind a queue to the host: a handler with NF_ON(host)"
                        .into(),
                    span: data.span,
                });
            }
            Op::Crypto { op, len, args, .. } => packet::crypto(e, inst, op, len, &args),
            Op::Log { format, args } => log(e, &format, &args),
            Op::Extern { name, passing, args, .. } => extern_call(e, inst, &name, &passing, &args),
            Op::FibLookup { .. } => {
                let (ok, answer) = (data.results[0], data.results[1]);
                e.define(inst, answer, "{0}");
                e.define(inst, ok, "false");
            }
            Op::BufGenerate { table, key, port, .. } => send_bytes(e, inst, table, key, port),
            other => unreachable!("{other:?} is printed by the emitter"),
        }
        Ok(false)
    }

    fn parameter(e: &mut E<'_, Self>, param: ValueId) {
        let entry = e.body.entry();
        let at = e.body.blocks[entry].params.iter().position(|p| *p == param).unwrap_or(0);
        let event = e.program.handlers[e.dialect.target.handler].event;
        if let Some(slot) = e.dialect.target.context.at(event, at) {
            if e.dialect.target.context.reads(e.body, event, at) {
                let declaration = e.declaration(param);
                let (name, size) =
                    (e.vars.name(param).to_string(), e.program.size_of(e.body.ty(param)));
                e.line(&format!("{declaration} NF_LOCAL;"));
                e.line(&format!("memcpy(&{name}, pkt->context + {slot}, {size});"));
            }
            return;
        }
        let member = &e.dialect.target.event_names[&event].1[at];
        let text = format!("{} NF_LOCAL = event->{member};", e.declaration(param));
        e.line(&text);
        if e.program.events[event].direction == Direction::In {
            let name = e.vars.name(param).to_string();
            e.types.canonical(e.body.ty(param), &name).iter().for_each(|line| e.line(line));
        }
    }

    fn straight_line(e: &mut E<'_, Self>, insts: &[InstId]) {
        let free = |inst: &InstId| {
            matches!(e.body.insts[*inst].op, Op::Int(_) | Op::Zero | Op::Yield(_) | Op::Return(_))
        };
        if insts.iter().all(free) {
            return;
        }
        let number = e.dialect.target.blocks.len();
        let handler = e.dialect.target.handler;
        e.dialect.target.blocks.push(HostBlock { handler, insts: insts.to_vec() });
        e.line(&format!("NF_BLOCK({number});"));
    }

    fn before(e: &mut E<'_, Self>, inst: InstId) {
        if let Some(section) = e.dialect.target.locks.section(e.dialect.target.handler)
            && section.first == inst
        {
            for (table, key) in section.locks.clone() {
                let first = e.dialect.target.locks.first(table);
                let number = match key {
                    Some(key) => format!("{first} + (u32)({}) % {}u", e.text(key), locks::STRIPES),
                    None => first.to_string(),
                };
                e.line(&format!("nf_lock(env, {number});"));
            }
        }
    }

    fn after(e: &mut E<'_, Self>, inst: InstId) {
        if let Some(section) = e.dialect.target.locks.section(e.dialect.target.handler)
            && section.last == inst
        {
            e.line("nf_unlock(env);");
            // Entries are others' from here on: values that were read from them are in variables.
            for (table, _) in section.locks.clone() {
                e.state.entries_moved(table);
                e.state.recent.retain(|(other, _)| *other != table);
            }
        }
    }

    fn end_of_handler(e: &mut E<'_, Self>) {
        e.line("return;");
    }

    fn place_at(_e: &mut E<'_, Self>, at: &str, size: u32) -> (String, String) {
        (format!("data + {at}"), format!("{at} + {size} <= nf_frame_length(data, end)"))
    }

    fn trim(e: &mut E<'_, Self>, ok: &str, keep: &str, rest: &str) {
        e.line(&format!("if ({ok})"));
        e.line(&format!("    end -= {rest} - {keep};"));
    }

    fn extend(e: &mut E<'_, Self>, ok: &str, by: &str) {
        let no_room = e.dialect.target.no_room;
        e.line(&format!("if ({ok})"));
        e.line(&format!("    data = nf_extend(pkt, data, &end, (u32){by});"));
        e.line("if (__builtin_expect(!data, 0)) {");
        e.line(&format!("    nf_drop(env, pkt, {no_room});"));
        e.line("    return;");
        e.line("}");
    }

    fn move_head(e: &mut E<'_, Self>, by: &str, constant: Option<i64>) {
        let no_room = e.dialect.target.no_room;
        match constant {
            Some(by) if by > 0 => {
                e.line(&format!("data += {by};"));
                return;
            }
            Some(by) => e.line(&format!("data = nf_grow(pkt, data, &end, {});", -by)),
            None => {
                let shift = e.names.fresh("shift");
                e.line(&format!("int {shift} = {by};"));
                e.line(&format!(
                    "data = {shift} < 0 ? nf_grow(pkt, data, &end, (u32)-{shift}) : data + {shift};"
                ));
            }
        }
        e.line("if (__builtin_expect(!data, 0)) {");
        e.line(&format!("    nf_drop(env, pkt, {no_room});"));
        e.line("    return;");
        e.line("}");
    }

    /// The frame holds its unread rest and the headers by now.
    fn check_headers(_e: &mut E<'_, Self>, _total: u32) {}

    fn unstage(e: &mut E<'_, Self>) {
        e.line("__builtin_memcpy(data, staged, staged_len);");
    }

    fn stage(name: &str, size: u32) -> String {
        format!("nf_stage(staged, &staged_len, &{name}, {size});")
    }

    fn entry_type(e: &E<'_, Self>, table: TableId) -> String {
        if e.program.tables[table].buf.is_some() {
            format!("struct nf_entry_{}", e.dialect.target.names[&table])
        } else {
            value_type(e, table)
        }
    }

    fn find(e: &mut E<'_, Self>, table: TableId, key: ValueId, name: &str) {
        let map = e.dialect.target.uses(table);
        let ty = pointee(e, table);
        let def = &e.program.tables[table];
        let size = e.program.size_of(def.key);
        let hashed = |e: &mut E<'_, Self>, function: &str| {
            let hash = hash_of(e, table, key, "");
            format!("{function}({map}, {}, {size}, {hash})", e.address(key))
        };
        let call = match def.kind {
            TableKind::Array => format!("nf_array_find({map}, {})", e.text(key)),
            TableKind::Hash => hashed(e, "nf_hash_find"),
            TableKind::Lru => hashed(e, "nf_lru_find"),
            TableKind::Lpm => format!("nf_lpm_find({map}, {}, {size})", e.address(key)),
            TableKind::Ternary => format!("nf_ternary_find({map}, {})", e.address(key)),
        };
        e.line(&format!("{ty} *{name} = {call};"));
        trace(e, "NF_READS", table, key, "");
        used(e, table, name);
    }

    fn find_bits(e: &mut E<'_, Self>, table: TableId, key: ValueId, bits: ValueId, name: &str) {
        let map = e.dialect.target.uses(table);
        let (ty, key_address, bits) = (pointee(e, table), e.address(key), e.text(bits));
        e.line(&format!("{ty} *{name} = nf_prefix_find({map}, {key_address}, {bits});"));
        trace(e, "NF_READS", table, key, "");
        used(e, table, name);
    }

    fn least(e: &mut E<'_, Self>, table: TableId, at: u32, part: Type, pointer: &str) -> String {
        let map = e.dialect.target.uses(table);
        let (ty, key) = (pointee(e, table), e.names.fresh(&format!("{pointer}_key")));
        let (size, signed) = (e.program.size_of(part), part.is_signed());
        let key_size = e.program.size_of(e.program.tables[table].key);
        e.line(&format!("const void *{key} = 0;"));
        e.line(&format!("{ty} *{pointer} = nf_least({map}, {at}, {size}, {signed}, &{key});"));
        e.line(&format!("if ({pointer})"));
        e.line(&format!("    NF_READS({}, {key}, {key_size});", table.as_u32()));
        key
    }

    fn found_again(e: &mut E<'_, Self>, table: TableId, pointer: &str) {
        let recent = e.state.recent.iter().any(|(other, name)| *other == table && name == pointer);
        if e.program.tables[table].kind == TableKind::Lru && !recent {
            let map = e.dialect.target.uses(table);
            e.line(&format!("nf_lru_touch({map}, {pointer});"));
            used(e, table, pointer);
        }
    }

    fn written(e: &mut E<'_, Self>, table: TableId, indent: &str) {
        e.line(&format!("{indent}NF_WRITES_LAST({});", table.as_u32()));
    }

    fn insert(
        e: &mut E<'_, Self>,
        table: TableId,
        key: ValueId,
        value: ValueId,
        indent: &str,
    ) -> String {
        let def = &e.program.tables[table];
        let (size, known) = (e.program.size_of(def.key), e.state.entry(table, key).is_some());
        let make = match def.kind {
            _ if known => None,
            TableKind::Lru => Some("nf_lru_entry"),
            _ => Some("nf_hash_entry"),
        };
        let hash = hash_of(e, table, key, indent);
        let map = e.dialect.target.uses(table);
        let (ty, fresh) = (pointee(e, table), e.names.fresh(&format!("{map}_new")));
        let at = e.address(key);
        let call = match make {
            None => format!("nf_insert({map}, {at}, {hash})"),
            Some(make) => format!("{make}({map}, {at}, {size}, {hash})"),
        };
        e.line(&format!("{indent}{ty} *{fresh} = {call};"));
        trace(e, "NF_WRITES", table, key, indent);
        let to = tables::value_of(e, table, &fresh);
        let name = packet::variable(e, value);
        e.line(&format!("{indent}if ({fresh})"));
        e.line(&format!("{indent}    NF_PUT(&{to}, {name});"));
        format!("{fresh} != 0")
    }

    fn create(e: &mut E<'_, Self>, table: TableId, key: ValueId) -> String {
        let map = e.dialect.target.uses(table);
        let hash = hash_of(e, table, key, "");
        format!("nf_insert({map}, {}, {hash})", e.address(key))
    }

    fn refuse(e: &mut E<'_, Self>, table: TableId) -> String {
        format!("nf_refuse({})", e.dialect.target.uses(table))
    }

    fn delete(e: &mut E<'_, Self>, table: TableId, key: ValueId) -> String {
        let map = e.dialect.target.uses(table);
        let hash = hash_of(e, table, key, "");
        trace(e, "NF_WRITES", table, key, "");
        format!("nf_remove({map}, {}, {hash})", e.address(key))
    }

    fn commute(
        e: &E<'_, Self>,
        _table: TableId,
        op: CommuteOp,
        at: &str,
        part: Type,
        amount: &str,
    ) -> String {
        let ty = e.types.name(part);
        let wrapped = |sum: String| match part {
            Type::Int { bits, signed: false } if !matches!(bits, 8 | 16 | 32 | 64) => {
                format!("({ty})(({sum}) & {}ull)", nicforge_ir::build::mask(u64::MAX, bits))
            }
            Type::Int { bits, signed: true } if !matches!(bits, 8 | 16 | 32 | 64) => {
                format!("({ty})((s64)((u64)({sum}) << {0}) >> {0})", 64 - bits)
            }
            _ => format!("({ty})({sum})"),
        };
        match op {
            CommuteOp::Add => {
                format!("{at} = {};", wrapped(format!("(u64){at} + (u64)({amount})")))
            }
            CommuteOp::Or => format!("{at} |= {amount};"),
            CommuteOp::Min => format!("{at} = ({amount}) < {at} ? ({amount}) : {at};"),
            CommuteOp::Max => format!("{at} = ({amount}) > {at} ? ({amount}) : {at};"),
        }
    }
}

/// Notes that an entry is the one of its table used last.
fn used(e: &mut H<'_, '_>, table: TableId, pointer: &str) {
    e.state.recent.retain(|(other, _)| *other != table);
    e.state.recent.push((table, pointer.to_string()));
}
