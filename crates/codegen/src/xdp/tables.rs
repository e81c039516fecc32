//! Table ops on BPF maps.
//!
//! A lookup leaves a pointer to the entry. While that pointer is known to be right, an update of the same key writes
//! through it, and only the members that differ from what the entry holds; that is what a person writes by hand, and
//! the way to keep the cost of a read-modify-write at one hash. Pointers are forgotten when an entry may have moved
//! (an insert or delete through the kernel), contents when some other key of the table was written, since two keys
//! may be equal at run time.

use nicforge_ir::{CommuteOp, InstId, Proj, TableId, TableKind, Type, ValueDef, ValueId};

use super::dialect::Xdp;
use super::packet;
use super::state::EntryPointer;
use crate::artifact::XdpMapShape;
use crate::c::Emitter;
use crate::c::unchanged::{leaves, unchanged};

type E<'a, 'b> = Emitter<'a, Xdp<'b>>;

/// Values with more members are copied as a whole.
const MEMBER_WISE: usize = 8;

/// The C type of a map's value and the way from the entry pointer to the αIR value.
fn entry_type(e: &E<'_, '_>, table: TableId) -> (String, &'static str) {
    let map = &e.dialect.maps[&table].map;
    let value = match e.program.tables[table].value {
        Type::Struct(id) => e.types.at_name(id),
        other => e.types.name(other),
    };
    if e.dialect.maps[&table].buf.is_some() {
        (format!("struct nf_entry_{map}"), "->value")
    } else {
        (value, "")
    }
}

/// C lvalue of the αIR value in the entry that a C variable points to.
pub fn value_of(e: &E<'_, '_>, table: TableId, pointer: &str) -> String {
    match entry_type(e, table).1 {
        "" => format!("(*{pointer})"),
        member => format!("{pointer}{member}"),
    }
}

/// Finds the pointer to the entry of `key`, looking it up if none is known. Gives its name.
fn pointer(e: &mut E<'_, '_>, table: TableId, key: ValueId) -> String {
    if let Some(known) = e.state.entry(table, key) {
        return known.name.clone();
    }
    let map = e.dialect.maps[&table].map.clone();
    let (ty, _) = entry_type(e, table);
    let name = e.names.fresh(&format!("{map}_entry"));
    match e.dialect.maps[&table].shape {
        XdpMapShape::Lpm => {
            let query = e.names.fresh(&format!("{map}_query"));
            let bits = e.program.size_of(e.program.tables[table].key) * 8;
            let key = e.text(key);
            e.line(&format!("struct nf_lpm_{map} {query} NF_LOCAL = {{ {bits}, {key} }};"));
            e.line(&format!("{ty} *{name} = bpf_map_lookup_elem(&{map}, &{query});"));
        }
        XdpMapShape::TernaryList => {
            let (rule, at) = (e.names.fresh("rule"), e.names.fresh("at"));
            let capacity = e.program.tables[table].capacity;
            let key = packet::variable(e, key);
            e.line(&format!("{ty} *{name} = 0;"));
            e.line(&format!("for (u32 {at} = 0; {at} < {capacity}; {at}++) {{"));
            e.line(&format!("    u32 at_ = {at};"));
            e.line(&format!("    struct nf_rule_{map} *{rule} = bpf_map_lookup_elem(&{map}, &at_);"));
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
    // All entries of an array exist, which the kernel's verifier does not know.
    let def = &e.program.tables[table];
    let exists =
        def.kind == TableKind::Array && e.constant(key).is_some_and(|index| index < u64::from(def.capacity));
    if exists {
        e.line(&format!("if (!{name})"));
        e.line("    return XDP_ABORTED;");
    }
    e.state.entries.push(EntryPointer {
        table,
        key,
        name: name.clone(),
        hit: None,
        known: exists.then_some(true),
        content: None,
    });
    name
}

fn entry_mut<'s>(e: &'s mut E<'_, '_>, name: &str) -> Option<&'s mut EntryPointer> {
    e.state.entries.iter_mut().find(|entry| entry.name == name)
}

/// Prints `(hit, value) = lookup table[key]`.
pub fn lookup(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId) {
    let (hit, value) = (e.body.insts[inst].results[0], e.body.insts[inst].results[1]);
    let name = pointer(e, table, key);
    if e.is_used(hit) {
        e.define(inst, hit, &format!("{name} != 0"));
    }
    if e.is_used(value) {
        let is_int = e.body.ty(value).is_int();
        let get = format!("NF_GET({}, &{});", e.vars.name(value), value_of(e, table, &name));
        if e.state.entry(table, key).is_some_and(|entry| entry.known == Some(true)) {
            if is_int {
                e.define(inst, value, "0")
            } else {
                e.declare_value(inst, value)
            }
            e.line(&get);
        } else {
            e.define(inst, value, if is_int { "0" } else { "{0}" });
            e.line(&format!("if ({name})"));
            e.line(&format!("    {get}"));
        }
    }
    if let Some(entry) = entry_mut(e, &name) {
        entry.hit = Some(hit);
        entry.content = Some(value);
    }
}

/// Prints `hit = contains table[key]`.
pub fn contains(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId) {
    let hit = e.body.insts[inst].results[0];
    let name = pointer(e, table, key);
    e.define(inst, hit, &format!("{name} != 0"));
    if let Some(entry) = entry_mut(e, &name)
        && entry.hit.is_none()
    {
        entry.hit = Some(hit);
    }
}

/// Prints `ok = update table[key] = value`.
pub fn update(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId, value: ValueId) {
    let ok = e.body.insts[inst].results[0];
    let ok_used = e.is_used(ok);
    let kind = e.program.tables[table].kind;
    let map = e.dialect.maps[&table].map.clone();
    if kind == TableKind::Array {
        pointer(e, table, key);
    }
    let refused = format!("&nf_refused[{}]", table.as_u32());
    let known = e.state.entry(table, key).cloned();
    let insert = |e: &mut E<'_, '_>, indent: &str| match kind {
        TableKind::Array => format!("nf_refuse({refused})"),
        _ if e.dialect.maps[&table].buf.is_some() => {
            let (ty, _) = entry_type(e, table);
            let (zero, key) = (e.names.fresh("fresh"), e.address(key));
            let value = e.text(value);
            // Too large for the stack: the entry is made from zeroes in a map and then given its value.
            e.line(&format!("{indent}{ty} *{zero} = nf_map_entry(&{map}, {key}, nf_zeroes(), {refused});"));
            e.line(&format!("{indent}if ({zero})"));
            e.line(&format!("{indent}    {zero}->value = {value};"));
            format!("{zero} != 0")
        }
        _ => {
            // The kernel gets a copy, so that the value itself may stay in registers on all other paths.
            let key = e.address(key);
            let inserted = copy_to_insert(e, value, indent);
            format!("nf_map_update(&{map}, {key}, &{inserted}, {refused})")
        }
    };
    match known {
        Some(entry) if entry.known != Some(false) => {
            if ok_used {
                e.define(inst, ok, "true");
            }
            let lines = write_back(e, table, &entry, value);
            if entry.known == Some(true) {
                lines.iter().for_each(|l| e.line(l));
            } else {
                e.line(&format!("if ({}) {{", entry.name));
                lines.iter().for_each(|l| e.line(&format!("    {l}")));
                e.line("} else {");
                let insert = insert(e, "    ");
                let line = if ok_used {
                    format!("    {} = {insert};", e.vars.name(ok))
                } else {
                    format!("    (void)({insert});")
                };
                e.line(&line);
                e.line("}");
            }
            e.state.contents_changed(table);
            if entry.known == Some(true) || kind == TableKind::Array {
                if let Some(now) = entry_mut(e, &entry.name) {
                    now.content = (entry.known == Some(true)).then_some(value);
                }
            } else {
                // Where it missed there is an entry now that the pointer does not know.
                e.state.entries_moved(table);
            }
        }
        _ => {
            let call = insert(e, "");
            if ok_used {
                e.define(inst, ok, &call);
            } else {
                e.line(&format!("(void)({call});"));
            }
            e.state.entries_moved(table);
        }
    }
}

/// Prints a copy of a value for the kernel to read. Padding is zero in every value; saying so here spares carrying it along
/// from where the value was read.
fn copy_to_insert(e: &mut E<'_, '_>, value: ValueId, indent: &str) -> String {
    let ty = e.body.ty(value);
    let (c_type, inserted) = (e.types.name(ty), e.names.fresh("inserted"));
    let all = leaves(e.program, ty);
    let padded = all.iter().map(|leaf| leaf.size).sum::<u32>() < e.program.size_of(ty);
    let members = all.iter().all(|leaf| matches!(leaf.paths.as_slice(), [path] if !path.is_empty()));
    if !padded || !members || all.len() > MEMBER_WISE || e.vars.is_inline(value) {
        let line = format!("{indent}{c_type} {inserted} NF_LOCAL = {};", e.text(value));
        e.line(&line);
        return inserted;
    }
    e.line(&format!("{indent}{c_type} {inserted} NF_LOCAL = {{0}};"));
    for leaf in &all {
        let steps: Vec<_> = leaf.paths[0].iter().map(|f| Proj::Field(*f)).collect();
        let (from, _) = e.place_from(e.vars.name(value).to_string(), ty, &steps);
        let (to, _) = e.place_from(inserted.clone(), ty, &steps);
        let line = match e.program.project(ty, &steps) {
            Some(Type::Int { .. }) => format!("{indent}{to} = {from};"),
            _ => format!("{indent}NF_MOVE(&{to}, &{from}, {});", leaf.size),
        };
        e.line(&line);
    }
    inserted
}

/// The stores that make an entry hold `value`, without what it holds already.
fn write_back(e: &mut E<'_, '_>, table: TableId, entry: &EntryPointer, value: ValueId) -> Vec<String> {
    let to = value_of(e, table, &entry.name);
    let ty = e.body.ty(value);
    let name = packet::variable(e, value);
    let content = entry.content.map(|v| e.body.values[v].def);
    let is_origin = |inst: InstId, index: u32| content == Some(ValueDef::Result(inst, index));
    let all = leaves(e.program, ty);
    let changed: Vec<_> = all.iter().filter(|leaf| !unchanged(e.body, value, leaf, &is_origin)).collect();
    // Member by member leaves the padding alone, which would otherwise drag the value through memory.
    if changed.len() == all.len() && (all.len() == 1 || all.len() > MEMBER_WISE) {
        return vec![format!("NF_PUT(&{to}, {name});")];
    }
    changed
        .iter()
        .map(|leaf| match leaf.paths.as_slice() {
            [path] if !path.is_empty() => {
                let steps: Vec<_> = path.iter().map(|f| Proj::Field(*f)).collect();
                let (from, _) = e.place_from(name.clone(), ty, &steps);
                let (at, _) = e.place_from(to.clone(), ty, &steps);
                match e.program.project(ty, &steps) {
                    Some(Type::Int { .. }) => format!("NF_PUT((u8 *)&{to} + {}, {from});", leaf.offset),
                    _ => format!("NF_MOVE(&{at}, &{from}, {});", leaf.size),
                }
            }
            _ => format!(
                "__builtin_memcpy((u8 *)&{to} + {0}, (u8 *)&{name} + {0}, {1});",
                leaf.offset, leaf.size
            ),
        })
        .collect()
}

/// Prints `existed = delete table[key]`.
pub fn delete(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId) {
    let existed = e.body.insts[inst].results[0];
    let call = format!("bpf_map_delete_elem(&{}, {})", e.dialect.maps[&table].map, e.address(key));
    if e.is_used(existed) {
        e.define(inst, existed, &format!("{call} == 0"));
    } else {
        e.line(&format!("{call};"));
    }
    e.state.entries_moved(table);
}

/// Prints a commutative update of one integer.
pub fn commute(
    e: &mut E<'_, '_>,
    op: CommuteOp,
    table: TableId,
    key: ValueId,
    path: &[Proj],
    amount: ValueId,
) {
    let map = e.dialect.maps[&table].map.clone();
    let shape = e.dialect.maps[&table].shape;
    let name = pointer(e, table, key);
    let known = e.state.entry(table, key).and_then(|entry| entry.known);
    let refused = format!("&nf_refused[{}]", table.as_u32());
    if known != Some(true) && shape == XdpMapShape::Exact {
        let (ty, _) = entry_type(e, table);
        let zero = if e.dialect.maps[&table].buf.is_some() {
            "nf_zeroes()".to_string()
        } else {
            format!("&({ty}){{0}}")
        };
        e.line(&format!("if (!{name})"));
        let line = format!("    {name} = nf_map_create(&{map}, {}, {zero}, {refused});", e.address(key));
        e.line(&line);
    }
    let base = value_of(e, table, &name);
    let value_ty = e.program.tables[table].value;
    let (at, _) = e.place_from(base, value_ty, path);
    let part = e.program.project(value_ty, path).unwrap_or(value_ty);
    let atomic = matches!(part.bits(), Some(32 | 64)) && shape != XdpMapShape::PerCpuSum;
    let amount = e.text(amount);
    // A member of a packed struct may lie anywhere; BPF atomics take its address as it is.
    let target = format!("(({} *)(void *)&{at})", e.types.name(part));
    let change = match (op, atomic) {
        (CommuteOp::Add, true) => format!("__sync_fetch_and_add({target}, {amount});"),
        (CommuteOp::Or, true) => format!("__sync_fetch_and_or({target}, {amount});"),
        (CommuteOp::Min, true) => format!("NF_ATOMIC_UPDATE({target}, {amount}, <);"),
        (CommuteOp::Max, true) => format!("NF_ATOMIC_UPDATE({target}, {amount}, >);"),
        (CommuteOp::Add, false) => format!("*{target} += {amount};"),
        (CommuteOp::Or, false) => format!("*{target} |= {amount};"),
        (CommuteOp::Min, false) => format!("if ({amount} < *{target}) *{target} = {amount};"),
        (CommuteOp::Max, false) => format!("if ({amount} > *{target}) *{target} = {amount};"),
    };
    if known == Some(true) {
        e.line(&change);
    } else {
        e.line(&format!("if ({name})"));
        e.line(&format!("    {change}"));
        if shape != XdpMapShape::Exact {
            e.line("else");
            e.line(&format!("    nf_refuse({refused});"));
        }
    }
    e.state.contents_changed(table);
    if let Some(entry) = entry_mut(e, &name)
        && entry.known != Some(true)
    {
        // The pointer is right either way now; what it was at the lookup no longer says whether it is null.
        entry.known = None;
        entry.hit = None;
    }
    // An insert of this key may have evicted others.
    if e.program.tables[table].kind == TableKind::Lru {
        e.state.entries.retain(|entry| entry.table != table || entry.name == name);
    }
}

fn bytes_capacity(e: &E<'_, '_>, table: TableId) -> u32 {
    e.dialect.maps[&table].buf.map_or(0, |b| b.capacity)
}

/// Prints `ok = append of a value's bytes`.
pub fn append_value(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId, value: ValueId) {
    let ok = e.body.insts[inst].results[0];
    let name = pointer(e, table, key);
    let from = packet::variable(e, value);
    let capacity = bytes_capacity(e, table);
    let call = format!(
        "{name} && nf_buf_append({name}->nf_buf, &{name}->nf_len, {capacity}, &{from}, sizeof({from}))"
    );
    e.define(inst, ok, &call);
}

/// Prints `ok = append of the packet's unread rest`.
pub fn append_packet(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId, len: ValueId) {
    let ok = e.body.insts[inst].results[0];
    let name = pointer(e, table, key);
    let off = packet::cursor_text(e);
    let (capacity, len) = (bytes_capacity(e, table), e.text(len));
    let call = format!(
        "{name} && nf_buf_append_frame(ctx, {off}, {len}, {name}->nf_buf, &{name}->nf_len, {capacity})"
    );
    e.define(inst, ok, &call);
}

/// Prints `bytes = length of the byte string`.
pub fn buf_len(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId) {
    let result = e.body.insts[inst].results[0];
    let name = pointer(e, table, key);
    e.define(inst, result, &format!("{name} ? {name}->nf_len : 0"));
}

/// Prints `(ok, value) = read of the byte string`.
pub fn buf_read(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId, off: ValueId) {
    let (ok, value) = (e.body.insts[inst].results[0], e.body.insts[inst].results[1]);
    let name = pointer(e, table, key);
    let zero = if e.body.ty(value).is_int() { "0" } else { "{0}" };
    e.define(inst, value, zero);
    let (capacity, off) = (bytes_capacity(e, table), e.text(off));
    let to = e.vars.name(value).to_string();
    let call = format!(
        "{name} && nf_buf_read({name}->nf_buf, {name}->nf_len, {capacity}, {off}, &{to}, sizeof({to}))"
    );
    e.define(inst, ok, &call);
    let fixes = e.types.canonical(e.body.ty(value), &to);
    fixes.iter().for_each(|line| e.line(line));
}

/// Prints `clear of the byte string`.
pub fn buf_clear(e: &mut E<'_, '_>, table: TableId, key: ValueId) {
    let name = pointer(e, table, key);
    e.line(&format!("if ({name})"));
    e.line(&format!("    {name}->nf_len = 0;"));
}

/// Prints `ok = the byte string to the host side`.
pub fn buf_to_host(e: &mut E<'_, '_>, inst: InstId, table: TableId, key: ValueId) {
    let ok = e.body.insts[inst].results[0];
    let name = pointer(e, table, key);
    let capacity = bytes_capacity(e, table);
    e.define(inst, ok, &format!("{name} != 0"));
    e.line(&format!("if ({name}) {{"));
    e.line(&format!("    nf_buf_deliver(&{name}->nf_head, {name}->nf_len, {capacity});"));
    e.line(&format!("    {name}->nf_len = 0;"));
    e.line("}");
}
