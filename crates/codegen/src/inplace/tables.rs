//! Table ops through pointers to entries.
//!
//! A lookup leaves a pointer to the entry. While that pointer is known to be right, an update of
//! the same key writes through it, and only the members that differ from what the entry holds; that
//! is what a person writes by hand, and the way to keep the cost of a read-modify-write at one
//! hash. Pointers are forgotten when an entry may have moved (an insert or delete), contents when
//! some other key of the table was written, since two keys may be equal at run time.

use nicforge_ir::{
    Body, CommuteOp, InstId, Op, Program, Proj, TableId, TableKind, Type, ValueDef, ValueId,
};

use super::state::EntryPointer;
use super::{E, Target, packet};
use crate::c::unchanged::{leaves, unchanged};

/// Values with more members are copied as a whole.
const MEMBER_WISE: usize = 8;

/// C lvalue of the αIR value in the entry that a C variable points to.
pub fn value_of<T: Target>(e: &E<'_, T>, table: TableId, pointer: &str) -> String {
    if T::wraps(e, table) { format!("{pointer}->value") } else { format!("(*{pointer})") }
}

/// C type of a table's value where it lies.
pub fn value_type<T: Target>(e: &E<'_, T>, table: TableId) -> String {
    match e.program.tables[table].value {
        Type::Struct(id) => e.types.at_name(id),
        other => e.types.name(other),
    }
}

/// Finds the pointer to the entry of `key`, looking it up if none is known. Gives its name.
pub fn pointer<T: Target>(e: &mut E<'_, T>, table: TableId, key: ValueId) -> String {
    if let Some(known) = e.state.entry(table, key) {
        let name = known.name.clone();
        T::found_again(e, table, &name);
        return name;
    }
    let map = e.dialect.target.table_name(table).to_string();
    let name = e.names.fresh(&format!("{map}_entry"));
    T::find(e, table, key, &name);
    let def = &e.program.tables[table];
    let exists = def.kind == TableKind::Array
        && e.constant(key).is_some_and(|index| index < u64::from(def.capacity));
    if exists {
        T::exists(e, &name);
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

fn entry_mut<'s, T: Target>(e: &'s mut E<'_, T>, name: &str) -> Option<&'s mut EntryPointer> {
    e.state.entries.iter_mut().find(|entry| entry.name == name)
}

/// Prints `(hit, value) = lookup table[key]`.
pub fn lookup<T: Target>(e: &mut E<'_, T>, inst: InstId, table: TableId, key: ValueId) {
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
            get_or_zero(e, inst, value, &name, &get);
        }
    }
    // The host writes entries of a shared table with C of its own, which may leave anything in
    // their padding.
    let ty = e.body.ty(value);
    let foreign = e.program.tables[table].shared && e.types.has_padding(ty);
    if foreign && e.is_used(value) {
        let fixes = e.types.canonical(ty, e.vars.name(value));
        fixes.iter().for_each(|line| e.line(line));
    }
    if let Some(entry) = entry_mut(e, &name) {
        entry.hit = Some(hit);
        entry.content = (!foreign).then_some(value);
    }
}

/// Prints `(hit, value) = lookup_bits table[key], bits`.
pub fn lookup_bits<T: Target>(
    e: &mut E<'_, T>,
    inst: InstId,
    table: TableId,
    [key, bits]: [ValueId; 2],
) {
    let (hit, value) = (e.body.insts[inst].results[0], e.body.insts[inst].results[1]);
    let map = e.dialect.target.table_name(table).to_string();
    let name = e.names.fresh(&format!("{map}_entry"));
    T::find_bits(e, table, key, bits, &name);
    if e.is_used(hit) {
        e.define(inst, hit, &format!("{name} != 0"));
    }
    if e.is_used(value) {
        let get = format!("NF_GET({}, &{});", e.vars.name(value), value_of(e, table, &name));
        get_or_zero(e, inst, value, &name, &get);
    }
}

/// Prints `get`, which fills in a value where an entry was found; elsewhere the value is zero.
fn get_or_zero<T: Target>(e: &mut E<'_, T>, inst: InstId, value: ValueId, entry: &str, get: &str) {
    if e.body.ty(value).is_int() {
        e.define(inst, value, "0");
        e.line(&format!("if ({entry})"));
        e.line(&format!("    {get}"));
        return;
    }
    // Not first zero and then the entry: compilers do not see that nobody looks in between.
    e.declare_value(inst, value);
    let zero = e.zeroed(value);
    e.line(&format!("if ({entry})"));
    e.line(&format!("    {get}"));
    e.line("else");
    e.line(&format!("    {zero}"));
}

/// Prints `(found, key, value) = least entry of a table`.
pub fn least<T: Target>(e: &mut E<'_, T>, inst: InstId, table: TableId, path: &[Proj]) {
    let [found, key, value] = e.body.insts[inst].results[..] else { return };
    let ty = e.program.tables[table].value;
    let (at, part) = offset(e.program, e.body, ty, path).unwrap_or((0, ty));
    let map = e.dialect.target.table_name(table).to_string();
    let name = e.names.fresh(&format!("{map}_least"));
    let key_at = T::least(e, table, at, part, &name);
    if e.is_used(found) {
        e.define(inst, found, &format!("{name} != 0"));
    }
    if e.is_used(key) {
        let get = format!("NF_GET({}, {key_at});", e.vars.name(key));
        get_or_zero(e, inst, key, &name, &get);
    }
    if e.is_used(value) {
        let get = format!("NF_GET({}, &{});", e.vars.name(value), value_of(e, table, &name));
        get_or_zero(e, inst, value, &name, &get);
        if e.program.tables[table].shared && e.types.has_padding(ty) {
            let fixes = e.types.canonical(ty, e.vars.name(value));
            fixes.iter().for_each(|line| e.line(line));
        }
    }
}

/// Offset of a part in a value, in bytes, and its type.
pub fn offset(program: &Program, body: &Body, mut ty: Type, path: &[Proj]) -> Option<(u32, Type)> {
    let mut at = 0;
    for step in path {
        (at, ty) = match (ty, step) {
            (Type::Struct(id), Proj::Field(field)) => {
                let (_, slots) = program.struct_layout(id);
                let slot = slots.get(*field as usize)?;
                (at + slot.bit_offset / 8, program.structs[id].fields.get(*field as usize)?.ty)
            }
            (Type::Array(id), Proj::Index(index)) => {
                let array = &program.arrays[id];
                let index = match body.def_op(*index) {
                    Some(Op::Int(index)) => u32::try_from(*index).ok()?,
                    Some(Op::Zero) => 0,
                    _ => return None,
                };
                (at + index * program.size_of(array.elem), array.elem)
            }
            _ => return None,
        };
    }
    Some((at, ty))
}

/// Prints `hit = contains table[key]`.
pub fn contains<T: Target>(e: &mut E<'_, T>, inst: InstId, table: TableId, key: ValueId) {
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
pub fn update<T: Target>(
    e: &mut E<'_, T>,
    inst: InstId,
    table: TableId,
    key: ValueId,
    value: ValueId,
) {
    let ok = e.body.insts[inst].results[0];
    let ok_used = e.is_used(ok);
    let kind = e.program.tables[table].kind;
    if !kind.takes_inserts() {
        pointer(e, table, key);
    }
    let known = e.state.entry(table, key).cloned();
    let insert = |e: &mut E<'_, T>, indent: &str| match kind {
        TableKind::Array => T::refuse(e, table),
        TableKind::Lpm | TableKind::Ternary => "false".to_string(),
        _ => T::insert(e, table, key, value, indent),
    };
    match known {
        Some(entry) if entry.known != Some(false) => {
            T::found_again(e, table, &entry.name);
            if ok_used {
                e.define(inst, ok, "true");
            }
            let lines = write_back(e, table, &entry, value);
            if entry.known == Some(true) {
                T::written(e, table, "");
                lines.iter().for_each(|l| e.line(l));
            } else {
                e.line(&format!("if ({}) {{", entry.name));
                T::written(e, table, "    ");
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
            if entry.known == Some(true) || !kind.takes_inserts() {
                if let Some(now) = entry_mut(e, &entry.name) {
                    now.content = (entry.known == Some(true)).then_some(value);
                }
            } else {
                // Where it missed there is an entry now that the pointer does not know.
                inserted(e, table);
            }
        }
        _ => {
            let call = insert(e, "");
            if ok_used {
                e.define(inst, ok, &call);
            } else {
                e.line(&format!("(void)({call});"));
            }
            inserted(e, table);
        }
    }
}

/// Forgets what is not known any more after some entry was inserted.
fn inserted<T: Target>(e: &mut E<'_, T>, table: TableId) {
    e.state.recent.retain(|(other, _)| *other != table);
    if e.dialect.target.entries_stay(e.program.tables[table].kind) {
        e.state.entry_came(table);
    } else {
        e.state.entries_moved(table);
    }
}

/// Prints a copy of a value for the kernel to read. Padding is zero in every value; saying so here
/// spares carrying it along from where the value was read.
pub fn copy_to_insert<T: Target>(e: &mut E<'_, T>, value: ValueId, indent: &str) -> String {
    let ty = e.body.ty(value);
    let (c_type, inserted) = (e.types.name(ty), e.names.fresh("inserted"));
    // Behind a pointer, or with elements at computed places, it is in nobody's register.
    if !e.vars.is_inline(value) && (e.vars.name(value).contains("->") || e.filled_by_index(value)) {
        return e.vars.name(value).to_string();
    }
    let all = leaves(e.program, ty);
    let padded = all.iter().map(|leaf| leaf.size).sum::<u32>() < e.program.size_of(ty);
    let members =
        all.iter().all(|leaf| matches!(leaf.paths.as_slice(), [path] if !path.is_empty()));
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
fn write_back<T: Target>(
    e: &mut E<'_, T>,
    table: TableId,
    entry: &EntryPointer,
    value: ValueId,
) -> Vec<String> {
    let to = value_of(e, table, &entry.name);
    let ty = e.body.ty(value);
    let name = packet::variable(e, value);
    let content = entry.content.map(|v| e.body.values[v].def);
    let is_origin = |inst: InstId, index: u32| content == Some(ValueDef::Result(inst, index));
    let all = leaves(e.program, ty);
    let changed: Vec<_> =
        all.iter().filter(|leaf| !unchanged(e.body, value, leaf, &is_origin)).collect();
    // Member by member leaves the padding alone, which would otherwise drag the value through
    // memory.
    if changed.len() == all.len() && (all.len() == 1 || all.len() > MEMBER_WISE) {
        return vec![format!("NF_PUT(&{to}, {name});")];
    }
    changed
        .iter()
        .map(|leaf| match leaf.member() {
            Some(path) => {
                let steps: Vec<_> = path.iter().map(|f| Proj::Field(*f)).collect();
                let (from, _) = e.place_from(name.clone(), ty, &steps);
                let (at, _) = e.place_from(to.clone(), ty, &steps);
                match e.program.project(ty, &steps) {
                    Some(Type::Int { .. }) => {
                        format!("NF_PUT((u8 *)&{to} + {}, {from});", leaf.offset)
                    }
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
pub fn delete<T: Target>(e: &mut E<'_, T>, inst: InstId, table: TableId, key: ValueId) {
    let existed = e.body.insts[inst].results[0];
    let call = T::delete(e, table, key);
    if e.is_used(existed) {
        e.define(inst, existed, &call);
    } else {
        e.line(&format!("(void)({call});"));
    }
    e.state.recent.retain(|(other, _)| *other != table);
    e.state.entries_moved(table);
}

/// Prints a commutative update of one integer.
pub fn commute<T: Target>(
    e: &mut E<'_, T>,
    op: CommuteOp,
    table: TableId,
    key: ValueId,
    path: &[Proj],
    amount: ValueId,
) {
    let name = pointer(e, table, key);
    let known = e.state.entry(table, key).and_then(|entry| entry.known);
    let takes_inserts = e.program.tables[table].kind.takes_inserts();
    if known != Some(true) && takes_inserts {
        let create = T::create(e, table, key);
        e.line(&format!("if (!{name})"));
        e.line(&format!("    {name} = {create};"));
    }
    let base = value_of(e, table, &name);
    let value_ty = e.program.tables[table].value;
    let (at, _) = e.place_from(base, value_ty, path);
    let part = e.program.project(value_ty, path).unwrap_or(value_ty);
    let change = T::commute(e, table, op, &at, part, &e.text(amount));
    T::written(e, table, "");
    if known == Some(true) {
        e.line(&change);
    } else {
        e.line(&format!("if ({name})"));
        e.line(&format!("    {change}"));
        if e.program.tables[table].kind == TableKind::Array {
            let refuse = T::refuse(e, table);
            e.line("else");
            e.line(&format!("    (void)({refuse});"));
        }
    }
    e.state.contents_changed(table);
    if let Some(entry) = entry_mut(e, &name)
        && entry.known != Some(true)
    {
        // The pointer is right either way now; what it was at the lookup no longer says whether it
        // is null.
        entry.known = None;
        entry.hit = None;
    }
    // An insert of this key may have evicted others, and another key that missed may be the same
    // one.
    if takes_inserts && known != Some(true) {
        let stays = e.dialect.target.entries_stay(e.program.tables[table].kind);
        let kind = e.program.tables[table].kind;
        e.state.entries.retain(|entry| {
            let right = entry.known == Some(true) && (stays || kind != TableKind::Lru);
            entry.table != table || entry.name == name || right
        });
    }
}

fn bytes_capacity<T: Target>(e: &E<'_, T>, table: TableId) -> u32 {
    e.program.tables[table].buf.unwrap_or(0)
}

/// Prints `ok = append of a value's bytes`.
pub fn append_value<T: Target>(
    e: &mut E<'_, T>,
    inst: InstId,
    table: TableId,
    key: ValueId,
    value: ValueId,
) {
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
pub fn append_packet<T: Target>(
    e: &mut E<'_, T>,
    inst: InstId,
    table: TableId,
    key: ValueId,
    len: ValueId,
) {
    let ok = e.body.insts[inst].results[0];
    let name = pointer(e, table, key);
    let off = packet::cursor_text(e);
    let (capacity, len, frame) = (bytes_capacity(e, table), e.text(len), T::FRAME);
    let call = format!(
        "{name} && nf_buf_append_frame({frame}, {off}, {len}, {name}->nf_buf, &{name}->nf_len, {capacity})"
    );
    e.define(inst, ok, &call);
}

/// Prints `bytes = length of the byte string`.
pub fn buf_len<T: Target>(e: &mut E<'_, T>, inst: InstId, table: TableId, key: ValueId) {
    let result = e.body.insts[inst].results[0];
    let name = pointer(e, table, key);
    e.define(inst, result, &format!("{name} ? {name}->nf_len : 0"));
}

/// Prints `(ok, value) = read of the byte string`.
pub fn buf_read<T: Target>(
    e: &mut E<'_, T>,
    inst: InstId,
    table: TableId,
    key: ValueId,
    off: ValueId,
) {
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
pub fn buf_clear<T: Target>(e: &mut E<'_, T>, table: TableId, key: ValueId) {
    let name = pointer(e, table, key);
    e.line(&format!("if ({name})"));
    e.line(&format!("    {name}->nf_len = 0;"));
}
