//! Packets: from a cursor and emitted headers to offsets, bounds checks and stores.
//!
//! `extract` reads at `data + offset` after a bounds check, which is left out where the path has
//! proved it. Emitted headers are only remembered; when the packet leaves, the frame is moved by
//! the difference between what was consumed and what was emitted, and the headers are stored. A
//! header that was extracted from the place it is written to is stored member by member, without
//! those that did not change (`in-place-headers`).
//!
//! Where paths with different offsets meet, the cursor moves into a C variable and emitted headers
//! into a staging area; that is always right, only slower.

use nicforge_ir::verify::MAX_FRAME;
use nicforge_ir::{CryptoOp, InstId, Op, Type, ValueId, Words};

use super::state::{Cursor, Emits, Emitted};
use super::{E, Target};
use crate::c::unchanged::{Leaf, leaves, unchanged};

/// A place in the frame to access.
struct Place {
    /// C expression of its address.
    address: String,
    /// C condition under which all its bytes are there; `None`: always.
    check: Option<String>,
}

/// The cursor as a C expression, with a pending read settled first.
fn settled<T: Target>(e: &mut E<'_, T>) -> Result<u32, String> {
    match e.state.cursor.clone() {
        Cursor::Static { at, unless: None } => Ok(at),
        Cursor::Static { .. } => {
            let line = materialise_cursor(e);
            line.into_iter().for_each(|l| e.line(&l));
            Err("cursor".to_string())
        }
        Cursor::Dynamic => Err("cursor".to_string()),
    }
}

/// The line that moves a static cursor into the variable; none if it is there.
pub fn materialise_cursor<T: Target>(e: &mut E<'_, T>) -> Option<String> {
    let line = match e.state.cursor.clone() {
        Cursor::Dynamic => None,
        Cursor::Static { at, unless: None } => Some(format!("cursor = {at};")),
        Cursor::Static { at, unless: Some((ok, before)) } => {
            Some(format!("cursor = {} ? {at} : {before};", e.operand(ok)))
        }
    };
    e.dialect.uses_cursor = true;
    e.state.cursor = Cursor::Dynamic;
    line
}

/// The lines that move remembered headers into the staging area.
pub fn materialise_emits<T: Target>(e: &mut E<'_, T>) -> Vec<String> {
    let Emits::List(list) = std::mem::replace(&mut e.state.emits, Emits::Staged) else {
        return Vec::new();
    };
    e.dialect.uses_staging = true;
    T::stage_all(e, &list)
}

/// Prints what has the emitted bytes in the staging area, for a copy of the packet; gives where
/// they are and how many as two arguments. The packet itself goes on as it was.
pub fn staged_copy<T: Target>(e: &mut E<'_, T>) -> &'static str {
    match e.state.emits.clone() {
        Emits::List(list) if list.is_empty() => return "NULL, 0",
        Emits::List(list) => {
            e.dialect.uses_staging = true;
            T::stage_all(e, &list).into_iter().for_each(|line| e.line(&line));
        }
        Emits::Staged => {}
    }
    "staged, staged_len"
}

fn stage_line<T: Target>(item: &Emitted) -> String {
    T::stage(&item.name, item.size)
}

/// The address `off` bytes behind the cursor and the check that `size` bytes are there.
fn place<T: Target>(e: &mut E<'_, T>, off: Option<ValueId>, size: u32) -> Place {
    let cursor = settled(e);
    let constant = match off {
        None => Some(0),
        Some(off) => e.constant(off),
    };
    if let (Ok(at), Some(off)) = (&cursor, constant) {
        let start = *at as u64 + off;
        let stop = start + size as u64;
        if stop > T::REACH {
            return Place { address: "data".into(), check: Some("false".into()) };
        }
        let check = (stop > e.state.proved as u64).then(|| format!("data + {stop} <= end"));
        return Place {
            address: if start == 0 { "data".into() } else { format!("data + {start}") },
            check,
        };
    }
    let base = match cursor {
        Ok(at) => format!("(u64){at}"),
        Err(variable) => variable,
    };
    let sum = match off {
        Some(off) => format!("{base} + (u32){}", e.operand(off)),
        None => base,
    };
    let at = e.names.fresh("at");
    e.line(&format!("u64 {at} = {sum};"));
    let (address, check) = T::place_at(e, &at, size);
    Place { check: Some(check), address }
}

/// Prints `(ok, value) = extract pkt` and `load`.
pub fn read<T: Target>(e: &mut E<'_, T>, inst: InstId, off: Option<ValueId>, advance: bool) {
    let results = e.body.insts[inst].results.clone();
    let (ok, value) = (results[0], results[1]);
    let ty = e.body.ty(value);
    let size = e.program.size_of(ty);
    let before = e.state.cursor.clone();
    let place = place(e, off, size);
    if advance && let Cursor::Static { at, unless: None } = before {
        e.dialect.extracted.insert(inst, at);
    }
    let ok_is_shown = e.is_used(ok) || place.check.is_some();
    if ok_is_shown {
        let check = place.check.clone().unwrap_or_else(|| "true".into());
        e.define(inst, ok, &check);
    }
    if e.is_used(value) {
        let zero = if ty.is_int() { "0" } else { "{0}" };
        if place.check.is_some() {
            e.define(inst, value, zero);
            let test = format!("if ({})", e.text(ok));
            e.line(&test);
            let get = format!("    NF_GET({}, {});", e.vars.name(value), place.address);
            e.line(&get);
        } else {
            if ty.is_int() {
                e.define(inst, value, zero)
            } else {
                e.declare_value(inst, value)
            };
            let get = format!("NF_GET({}, {});", e.vars.name(value), place.address);
            e.line(&get);
        }
    }
    let fixes =
        if e.is_used(value) { e.types.canonical(ty, e.vars.name(value)) } else { Vec::new() };
    fixes.iter().for_each(|line| e.line(line));
    if let Some(stop) = static_stop(e, off, size) {
        e.dialect.proves.insert(ok, stop);
        // What was extracted lies before the cursor, what is stored behind it.
        let may_change = if advance { e.dialect.stores_over_headers } else { e.dialect.stores };
        // Elements at computed places in a frame would each have to be checked against its end
        // again.
        let lies_there = e.is_used(value) && !may_change && fixes.is_empty() && e.far.is_none();
        if let (Type::Struct(id), true) = (ty, lies_there) {
            // Members are read where they are used, as one would write it by hand, and not all at
            // once up here.
            let pointer = e.names.fresh(&format!("{}_at", e.vars.name(value)));
            let at = e.types.at_name(id);
            e.line(&format!("{at} *{pointer} = ({at} *)({});", place.address));
            e.state.wire.push((value, pointer, stop));
        }
        if advance {
            let unless = place.check.as_ref().map(|_| (ok, stop - size));
            e.state.cursor = Cursor::Static { at: stop, unless };
        }
    } else if advance {
        let line = format!("cursor += {} ? {size} : 0;", e.operand(ok));
        e.line(&line);
    }
}

/// Where a read of `size` bytes at a static cursor and offset ends.
fn static_stop<T: Target>(e: &E<'_, T>, off: Option<ValueId>, size: u32) -> Option<u32> {
    let Cursor::Static { at, unless: None } = e.state.cursor else { return None };
    let off = off.map_or(Some(0), |v| e.constant(v))?;
    let stop = at as u64 + off + size as u64;
    (stop <= T::REACH).then_some(stop as u32)
}

/// Prints `ok = skip pkt, len`.
pub fn skip<T: Target>(e: &mut E<'_, T>, inst: InstId, len: ValueId) {
    let ok = e.body.insts[inst].results[0];
    let place = place(e, Some(len), 0);
    match static_stop(e, Some(len), 0) {
        Some(stop) => {
            let Cursor::Static { at, .. } = e.state.cursor else {
                unreachable!("static_stop saw it")
            };
            let check = place.check.clone().unwrap_or_else(|| "true".into());
            if e.is_used(ok) || place.check.is_some() {
                e.define(inst, ok, &check);
            }
            e.dialect.proves.insert(ok, stop);
            e.state.cursor = Cursor::Static { at: stop, unless: place.check.map(|_| (ok, at)) };
        }
        None => {
            let check = place.check.unwrap_or_else(|| "true".into());
            e.define(inst, ok, &check);
            materialise_cursor(e).into_iter().for_each(|l| e.line(&l));
            let line = format!("if ({})", e.text(ok));
            e.line(&line);
            e.line(&format!("    cursor += (u32){};", e.operand(len)));
        }
    }
}

/// Prints `ok = store pkt, off, value`.
pub fn store<T: Target>(e: &mut E<'_, T>, inst: InstId, off: ValueId, value: ValueId) {
    let ok = e.body.insts[inst].results[0];
    let size = e.program.size_of(e.body.ty(value));
    let place = place(e, Some(off), size);
    let name = variable(e, value);
    let put = format!("NF_PUT({}, {name});", place.address);
    match place.check {
        None => {
            if e.is_used(ok) {
                e.define(inst, ok, "true");
            }
            e.line(&put);
        }
        Some(check) => {
            e.define(inst, ok, &check);
            let test = format!("if ({})", e.text(ok));
            e.line(&test);
            e.line(&format!("    {put}"));
        }
    }
    if let Some(stop) = static_stop(e, Some(off), size) {
        e.dialect.proves.insert(ok, stop);
    }
}

/// Prints a cipher or digest: a call of the runtime's function with the frame, where and how much,
/// each argument with its size, and where to write what it gives.
pub fn crypto<T: Target>(
    e: &mut E<'_, T>,
    inst: InstId,
    op: CryptoOp,
    len: ValueId,
    args: &[ValueId],
) {
    let results = e.body.insts[inst].results.clone();
    let off = cursor_text(e);
    let mut passed = vec![T::FRAME.to_string(), off, e.text(len)];
    for arg in args {
        let size = e.program.size_of(e.body.ty(*arg));
        let name = variable(e, *arg);
        passed.push(format!("&{name}, {size}"));
    }
    let mut fixes = Vec::new();
    if let Some(value) = results.get(1).copied() {
        let ty = e.body.ty(value);
        let name = if e.is_used(value) {
            e.define(inst, value, if ty.is_int() { "0" } else { "{0}" });
            fixes = e.types.canonical(ty, e.vars.name(value));
            e.vars.name(value).to_string()
        } else {
            let name = e.names.fresh("given");
            let size = e.program.size_of(ty);
            e.line(&format!("u8 {name}[{size}];"));
            name
        };
        passed.push(format!("&{name}"));
    }
    let call = format!("nf_{}({})", op.word(), passed.join(", "));
    match e.is_used(results[0]) {
        true => e.define(inst, results[0], &call),
        false => e.line(&format!("{call};")),
    }
    fixes.iter().for_each(|line| e.line(line));
}

/// The C variable that holds a value; a new one for an expression.
pub fn variable<T: Target>(e: &mut E<'_, T>, value: ValueId) -> String {
    if !e.vars.is_inline(value) {
        return e.vars.name(value).to_string();
    }
    let name = e.names.fresh("word");
    let line = format!("{} {name} = {};", e.types.name(e.body.ty(value)), e.text(value));
    e.line(&line);
    name
}

/// Remembers or stages `emit pkt, value`.
pub fn emit<T: Target>(e: &mut E<'_, T>, inst: InstId, value: ValueId) {
    let size = e.program.size_of(e.body.ty(value));
    let mut name = variable(e, value);
    // The store happens when the packet leaves; if the variable is written again before, its bytes
    // are kept aside.
    if !e.vars.is_inline(value) && e.dialect.written_after(e, inst, value) {
        let copy = e.names.fresh(&format!("{name}_emitted"));
        let line = format!("{} {copy} NF_LOCAL = {name};", e.types.name(e.body.ty(value)));
        e.line(&line);
        name = copy;
    }
    let item = Emitted { value, name, size };
    match &mut e.state.emits {
        Emits::List(list) => list.push(item),
        Emits::Staged => {
            let line = stage_line::<T>(&item);
            e.line(&line);
        }
    }
}

/// Prints `reset pkt`.
pub fn reset<T: Target>(e: &mut E<'_, T>) {
    let first = if e.state.moved { "start" } else { "0" };
    e.dialect.uses_start |= e.state.moved;
    if e.state.pinned {
        e.line(&format!("cursor = {first};"));
        e.line("staged_len = 0;");
        return;
    }
    if e.state.moved {
        e.line("cursor = start;");
        e.state.cursor = Cursor::Dynamic;
        e.dialect.uses_cursor = true;
    } else {
        e.state.cursor = Cursor::Static { at: 0, unless: None };
    }
    e.state.emits = Emits::List(Vec::new());
}

/// Nobody asks where the cursor of a packet is that was given away, or what was emitted in front of
/// it: ways on which it went differently need not agree where they meet.
pub fn gone<T: Target>(e: &mut E<'_, T>) {
    if !e.state.pinned {
        e.state.cursor = Cursor::Static { at: 0, unless: None };
        e.state.emits = Emits::List(Vec::new());
    }
}

/// Prints `ok = trim pkt, len`.
pub fn trim<T: Target>(e: &mut E<'_, T>, inst: InstId, len: ValueId) {
    let ok = e.body.insts[inst].results[0];
    keep_shortest(e, len);
    let rest = rest_length(e);
    let fits = format!("{} <= {rest}", e.operand(len));
    let keep = e.operand(len);
    e.define(inst, ok, &fits);
    let name = e.text(ok);
    T::trim(e, &name, &keep, &rest);
    forget(e);
    // What was there before the cut may be gone.
    e.dialect.proves.clear();
}

/// Prints `ok = extend pkt, len`.
pub fn extend<T: Target>(e: &mut E<'_, T>, inst: InstId, len: ValueId) {
    let ok = e.body.insts[inst].results[0];
    let cursor = settled(e);
    let emitted = match &e.state.emits {
        Emits::List(list) => Ok(list.iter().map(|item| item.size).sum::<u32>()),
        Emits::Staged => Err("staged_len".to_string()),
    };
    // What was read comes back with a reset, so the frame as it lies there counts as well.
    let more = match (&cursor, &emitted) {
        (Ok(at), Ok(emitted)) => emitted.saturating_sub(*at).to_string(),
        _ => {
            let text = |known: &Result<u32, String>| {
                known.as_ref().map_or_else(|name| format!("(u32){name}"), u32::to_string)
            };
            let (at, emitted) = (text(&cursor), text(&emitted));
            format!("({emitted} > {at} ? {emitted} - {at} : 0)")
        }
    };
    let by = e.operand(len);
    let fits = format!("(u64)nf_frame_length(data, end) + {more} + (u32){by} <= {}", MAX_FRAME);
    e.define(inst, ok, &fits);
    let name = e.text(ok);
    T::extend(e, &name, &by);
    forget(e);
    e.dialect.proves.clear();
}

/// Moves the frame's start back where a cut may leave fewer bytes than a frame can have: headers
/// that make it longer again are stored when it leaves.
fn keep_shortest<T: Target>(e: &mut E<'_, T>, len: ValueId) {
    let cursor = settled(e);
    let keep = e.constant(len).unwrap_or(0);
    let long = |at: u32| u64::from(at) + keep >= u64::from(T::SHORTEST);
    if cursor.as_ref().is_ok_and(|at| long(*at)) || long(0) || !T::may_move_early(e) {
        return;
    }
    let by = cursor.as_ref().map_or(T::SHORTEST, |at| T::SHORTEST - at);
    let outer = e.indent;
    match cursor {
        Ok(at) => e.state.cursor = Cursor::Static { at: at + by, unless: None },
        Err(_) => {
            e.line(&format!("if (cursor < {by}) {{"));
            e.indent += 1;
        }
    }
    T::move_head(e, &format!("-{by}"), Some(-i64::from(by)));
    if e.dialect.resets {
        e.dialect.uses_start = true;
        e.line(&format!("start += {by};"));
    }
    if e.indent > outer {
        e.line(&format!("cursor += {by};"));
        e.indent = outer;
        e.line("}");
    }
    e.state.moved = true;
    forget(e);
    e.dialect.proves.clear();
}

/// Bytes of the unread rest as a C expression.
pub fn rest_length<T: Target>(e: &mut E<'_, T>) -> String {
    match settled(e) {
        Ok(0) => "nf_frame_length(data, end)".to_string(),
        Ok(at) => format!("(nf_frame_length(data, end) - {at})"),
        Err(variable) => format!("(nf_frame_length(data, end) - (u32){variable})"),
    }
}

/// The cursor as a C expression of a byte offset.
pub fn cursor_text<T: Target>(e: &mut E<'_, T>) -> String {
    match settled(e) {
        Ok(at) => at.to_string(),
        Err(variable) => variable,
    }
}

/// Forgets what was known about the frame's bytes, after it was moved or cut.
fn forget<T: Target>(e: &mut E<'_, T>) {
    e.state.proved = 0;
    e.state.wire.clear();
}

/// Writes what was emitted in front of the unread rest, so that the frame is what the packet means.
pub fn finish<T: Target>(e: &mut E<'_, T>) {
    let cursor = settled(e);
    let emits = e.state.emits.clone();
    let total = match &emits {
        Emits::List(list) => Some(list.iter().map(|item| item.size).sum::<u32>()),
        Emits::Staged => None,
    };
    let shift = match (&cursor, total) {
        (Ok(at), Some(total)) => Some(*at as i64 - total as i64),
        _ => None,
    };
    if shift != Some(0) {
        let consumed = cursor.clone().map_or_else(|v| format!("(int){v}"), |at| at.to_string());
        let by = match (shift, total) {
            (Some(shift), _) => shift.to_string(),
            (None, Some(total)) => format!("{consumed} - {total}"),
            (None, None) => format!("{consumed} - (int)staged_len"),
        };
        T::move_head(e, &by, shift);
        forget(e);
    }
    match emits {
        Emits::Staged => T::unstage(e),
        Emits::List(list) => {
            let total = total.unwrap_or(0);
            if total > e.state.proved {
                T::check_headers(e, total);
                e.state.proved = total;
            }
            let mut at = 0;
            for item in &list {
                write_header(e, item, at, shift);
                at += item.size;
            }
        }
    }
    // The frame is somebody else's from here on.
    e.state.wire.clear();
}

/// The lines that store an emitted value at an address: as a whole, or member by member where a
/// word of it would have parts of two members, which the machine would have to wait for.
pub fn put<T: Target>(e: &E<'_, T>, item: &Emitted, to: &str) -> Vec<String> {
    let ty = e.body.ty(item.value);
    let all = leaves(e.program, ty);
    let cut = |leaf: &Leaf| leaf.size <= 8 && leaf.offset / 8 != (leaf.offset + leaf.size - 1) / 8;
    let padded = all.iter().map(|leaf| leaf.size).sum::<u32>() != item.size;
    if padded || !all.iter().any(cut) || !all.iter().all(|leaf| leaf.member().is_some()) {
        return vec![format!("NF_PUT({to}, {});", item.name)];
    }
    let member = |leaf: &Leaf| {
        let steps: Vec<_> = leaf.member()?.iter().map(|f| nicforge_ir::Proj::Field(*f)).collect();
        let (part, _) = e.place_from(item.name.clone(), ty, &steps);
        Some(format!("NF_PUT({to} + {}, {part});", leaf.offset))
    };
    all.iter().filter_map(member).collect()
}

/// Stores one emitted value at offset `at` of the final frame, which started `shift` bytes into the
/// original one.
fn write_header<T: Target>(e: &mut E<'_, T>, item: &Emitted, at: u32, shift: Option<i64>) {
    let ty = e.body.ty(item.value);
    let original = shift.map(|shift| at as i64 + shift);
    // What the frame has in the padding of a header is not what the value has there, which is zero.
    let in_place = !e.dialect.stores_over_headers && !e.state.moved && !e.types.has_padding(ty);
    let is_origin = |inst: InstId, index: u32| {
        index == 1
            && in_place
            && matches!(e.body.insts[inst].op, Op::Extract { .. })
            && e.dialect.extracted.get(&inst).is_some_and(|from| Some(*from as i64) == original)
    };
    let all = leaves(e.program, ty);
    let changed: Vec<_> =
        all.iter().filter(|leaf| !unchanged(e.body, item.value, leaf, &is_origin)).collect();
    let place =
        |offset: u32| if offset == 0 { "data".to_string() } else { format!("data + {offset}") };
    if changed.len() == all.len() {
        e.line(&format!("NF_PUT({}, {});", place(at), item.name));
        return;
    }
    let lines: Vec<String> = changed
        .iter()
        .map(|leaf| {
            let to = place(at + leaf.offset);
            match leaf.member() {
                Some(path) => {
                    let steps: Vec<_> = path.iter().map(|f| nicforge_ir::Proj::Field(*f)).collect();
                    let (part, _) = e.place_from(item.name.clone(), ty, &steps);
                    format!("NF_PUT({to}, {part});")
                }
                _ => {
                    format!(
                        "__builtin_memcpy({to}, (u8 *)&{} + {}, {});",
                        item.name, leaf.offset, leaf.size
                    )
                }
            }
        })
        .collect();
    lines.iter().for_each(|l| e.line(l));
}
