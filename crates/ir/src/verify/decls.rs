//! Round one: types, tables, constants, events, and who calls whom.

use std::collections::HashSet;

use cranelift_entity::{EntityRef, SecondaryMap};

use super::{Checker, MAX_FRAME, MAX_STRUCT_NESTING, MAX_TYPE_SIZE};
use crate::interp::Shapes;
use crate::ops::Op;
use crate::program::{BlockId, Body, Direction, Event, FuncId, TableKind};
use crate::span::Span;
use crate::types::Type;

/// Most ports: more than any NIC or host has. Whoever runs a program keeps something for each.
const MAX_PORTS: u32 = 65_536;

/// What every target offers programs to generate, as `name(parameters)`.
pub const OUT_EVENTS: &str = "net_send(packet, u32), stack_recv(packet), host_recv(packet), host_msg(T), dma_write(packet borrowed, u64, u32), net_copy(packet borrowed, u32), host_copy(packet borrowed)";

pub fn check(c: &mut Checker) {
    if c.program.ports == 0 {
        c.item = format!("program `{}`", c.program.name);
        c.error(Span::default(), "a program has at least one port".to_string());
    }
    if c.program.ports > MAX_PORTS {
        c.item = format!("program `{}`", c.program.name);
        c.error(
            Span::default(),
            format!("a program has at most {MAX_PORTS} ports, not {}", c.program.ports),
        );
    }
    if check_types(c) {
        check_tables(c);
        check_consts(c);
    }
    check_events(c);
    check_calls(c);
}

/// Sizes of structs found so far.
struct Sizes {
    done: SecondaryMap<crate::types::StructId, Option<u64>>,
    depth: usize,
}

/// Checks every struct and array type; false if sizes must not be asked for.
fn check_types(c: &mut Checker) -> bool {
    let before = c.errors.len();
    let mut sizes = Sizes { done: SecondaryMap::new(), depth: 0 };
    for (id, def) in &c.program.structs {
        c.item = format!("struct `{}`", def.name);
        if let Err(message) = size(c, &mut sizes, Type::Struct(id)) {
            c.error(Span::default(), message);
        }
    }
    if c.errors.len() > before {
        return false;
    }
    for (id, _) in &c.program.arrays {
        c.item = "an array type".to_string();
        if let Err(message) = size(c, &mut sizes, Type::Array(id)) {
            c.error(Span::default(), message);
        }
    }
    c.errors.len() == before
}

/// An upper bound of a type's size in bytes (eight per bit-field), which also proves that the type
/// is finite.
fn size(c: &Checker, sizes: &mut Sizes, ty: Type) -> Result<u64, String> {
    let program = c.program;
    let found = match ty {
        Type::Int { bits, .. } if (1..=64).contains(&bits) => {
            return Ok(crate::layout::int_layout(bits).size as u64);
        }
        Type::Int { bits, .. } => {
            return Err(format!("an integer cannot have {bits} bits; 1 to 64 are possible"));
        }
        Type::Packet => return Err("a packet cannot be part of another type".to_string()),
        Type::Array(id) => {
            let Some(def) = program.arrays.get(id) else {
                return Err(format!("there is no array type {}", id.index()));
            };
            if def.len == 0 {
                return Err("an array has at least one element".to_string());
            }
            nested(sizes, |sizes| size(c, sizes, def.elem))?.saturating_mul(def.len as u64)
        }
        Type::Struct(id) => {
            let Some(def) = program.structs.get(id) else {
                return Err(format!("there is no struct {}", id.index()));
            };
            if let Some(size) = sizes.done[id] {
                return Ok(size);
            }
            if def.fields.is_empty() {
                return Err(format!("struct `{}` has no members", def.name));
            }
            let mut total = 0u64;
            for field in &def.fields {
                if let Some(width) = field.bit_width {
                    let fits = field.ty.bits().is_some_and(|bits| (1..=bits).contains(&width));
                    if !fits {
                        return Err(format!(
                            "bit-field `{}` cannot be {width} bits wide",
                            field.name
                        ));
                    }
                }
                // An array is in network order if its elements are.
                let word = match field.ty {
                    Type::Array(id) => program.arrays.get(id).map_or(field.ty, |def| def.elem),
                    other => other,
                };
                if field.big_endian && !matches!(word.bits(), Some(16 | 32 | 64)) {
                    return Err(format!(
                        "member `{}` has no byte order: it is no u16, u32 or u64",
                        field.name
                    ));
                }
                // Room for the padding before the member is within the next multiple of 8.
                let own = nested(sizes, |sizes| size(c, sizes, field.ty))?;
                total = total.saturating_add(own.saturating_add(7));
            }
            sizes.done[id] = Some(total);
            total
        }
    };
    if found > MAX_TYPE_SIZE {
        let name = program.type_name(ty);
        return Err(format!("a value of type {name} is larger than {MAX_TYPE_SIZE} bytes"));
    }
    Ok(found)
}

fn nested<T>(
    sizes: &mut Sizes,
    f: impl FnOnce(&mut Sizes) -> Result<T, String>,
) -> Result<T, String> {
    if sizes.depth >= MAX_STRUCT_NESTING {
        return Err(format!("types contain themselves or nest deeper than {MAX_STRUCT_NESTING}"));
    }
    sizes.depth += 1;
    let result = f(sizes);
    sizes.depth -= 1;
    result
}

/// True if a type exists and is no packet.
fn is_data(c: &Checker, ty: Type) -> bool {
    match ty {
        Type::Int { bits, .. } => (1..=64).contains(&bits),
        Type::Struct(id) => c.program.structs.is_valid(id),
        Type::Array(id) => c.program.arrays.is_valid(id),
        Type::Packet => false,
    }
}

fn check_tables(c: &mut Checker) {
    for table in c.program.tables.values() {
        c.item = format!("table `{}`", table.name);
        let mut wrong = Vec::new();
        if !is_data(c, table.key) || !is_data(c, table.value) {
            wrong.push("keys and values are integers, structs or arrays of these".to_string());
        }
        if table.capacity == 0 {
            wrong.push("the capacity must be at least 1".to_string());
        }
        if table.kind == TableKind::Array && table.key != Type::U32 {
            wrong.push(format!(
                "the key of an array table is u32, not {}",
                c.program.type_name(table.key)
            ));
        }
        if table.buf == Some(0) {
            wrong.push("byte strings need room for at least one byte".to_string());
        }
        if table.buf.is_some_and(|bytes| bytes > MAX_FRAME) {
            wrong.push(format!("byte strings hold at most {MAX_FRAME} bytes, one packet"));
        }
        if table.buf.is_some() && matches!(table.kind, TableKind::Lpm | TableKind::Ternary) {
            wrong.push(format!("the entries of {} tables have no byte strings", table.kind.name()));
        }
        if table.by_number && table.kind != TableKind::Array {
            wrong.push(format!("the entries of {} tables have no numbers", table.kind.name()));
        }
        if table.shared && (table.kind != TableKind::Array || table.buf.is_some()) {
            wrong.push(
                "only arrays without byte strings are memory that a program may map".to_string(),
            );
        }
        if table.max_replicas == Some(0) {
            wrong.push("a table has at least one replica".to_string());
        }
        wrong.into_iter().for_each(|message| c.error(table.span, message));
    }
}

fn check_consts(c: &mut Checker) {
    let shapes = Shapes::new(c.program);
    for array in c.program.consts.values() {
        c.item = format!("const `{}`", array.name);
        if !is_data(c, array.elem) {
            c.error(array.span, "elements are integers, structs or arrays of these".to_string());
            continue;
        }
        let size = c.program.size_of(array.elem) as usize;
        if array.bytes.is_empty() || !array.bytes.len().is_multiple_of(size) {
            let bytes = array.bytes.len();
            c.error(
                array.span,
                format!("{bytes} bytes are no whole number of {size}-byte elements"),
            );
        } else if array.bytes.chunks(size).any(|elem| !shapes.is_canonical(array.elem, elem)) {
            c.error(
                array.span,
                "padding and bits above an integer's width must be zero".to_string(),
            );
        }
    }
}

fn check_events(c: &mut Checker) {
    for event in c.program.events.values() {
        c.item = format!("event `{}`", event.name);
        for param in &event.params {
            if param.ty != Type::Packet && !is_data(c, param.ty) {
                c.error(
                    Span::default(),
                    format!("parameter `{}` has a type that does not exist", param.name),
                );
            }
            if param.borrowed && (param.ty != Type::Packet || event.direction != Direction::Out) {
                let message = "only packets in events to outside can be borrowed";
                c.error(Span::default(), format!("parameter `{}`: {message}", param.name));
            }
        }
        let timer = event.direction == Direction::In && event.params.is_empty();
        if event.period.is_some_and(|period| period == 0 || !timer) {
            let message = "a timer comes from outside, without parameters, and has a period";
            c.error(Span::default(), message.to_string());
        }
        if event.direction == Direction::Out && !is_known_output(event) {
            c.error(
                Span::default(),
                format!("no such event goes to outside; there are {OUT_EVENTS}"),
            );
        }
    }
    let mut handled: SecondaryMap<crate::program::EventId, bool> = SecondaryMap::new();
    for handler in c.program.handlers.values() {
        c.item = format!("handler `{}`", handler.name);
        let Some(event) = c.program.events.get(handler.event) else {
            c.error(handler.span, format!("there is no event {}", handler.event.index()));
            continue;
        };
        if event.direction == Direction::Out {
            c.error(
                handler.span,
                format!("event `{}` goes to outside; nothing here can react to it", event.name),
            );
        }
        if std::mem::replace(&mut handled[handler.event], true) {
            c.error(handler.span, format!("event `{}` has another handler", event.name));
        }
        if handler.max_replicas == Some(0) {
            c.error(handler.span, "a handler has at least one replica".to_string());
        }
        if handler.room.is_some_and(|room| room.entries == 0) {
            c.error(handler.span, "a queue has room for at least one entry".to_string());
        }
        if handler.room.is_some() && event.direction != Direction::Internal {
            c.error(handler.span, format!("event `{}` is no queue, and has no room", event.name));
        }
    }
}

fn is_known_output(event: &Event) -> bool {
    let params: Vec<(Type, bool)> = event.params.iter().map(|p| (p.ty, p.borrowed)).collect();
    match event.name.as_str() {
        "net_send" => params == [(Type::Packet, false), (Type::U32, false)],
        "stack_recv" | "host_recv" => params == [(Type::Packet, false)],
        "host_msg" => matches!(params[..], [(ty, false)] if ty != Type::Packet),
        "dma_write" => params == [(Type::Packet, true), (Type::U64, false), (Type::U32, false)],
        "net_copy" => params == [(Type::Packet, true), (Type::U32, false)],
        "host_copy" => params == [(Type::Packet, true)],
        _ => false,
    }
}

/// Functions that a body calls. Calls that passes took out of it are still among its instructions;
/// whether regions are in one place only is not known yet.
pub(super) fn called(body: &Body) -> Vec<FuncId> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut open: Vec<BlockId> = body.entry.into_iter().collect();
    while let Some(block) = open.pop() {
        if !seen.insert(block) {
            continue;
        }
        let insts = body.blocks.get(block).into_iter().flat_map(|block| &block.insts);
        for op in insts.filter_map(|inst| Some(&body.insts.get(*inst)?.op)) {
            open.extend(op.regions());
            if let Op::Call { func, .. } = op {
                found.push(*func);
            }
        }
    }
    found
}

/// No function may reach itself through calls: bodies would not end and could not be inlined.
fn check_calls(c: &mut Checker) {
    let mut calls: SecondaryMap<FuncId, Vec<FuncId>> = SecondaryMap::new();
    for (id, func) in &c.program.funcs {
        calls[id] = called(&func.body);
    }
    // Functions all of whose callees are settled get settled, until none is left or those left are
    // in cycles.
    let mut settled: SecondaryMap<FuncId, bool> = SecondaryMap::new();
    let mut callers: SecondaryMap<FuncId, Vec<FuncId>> = SecondaryMap::new();
    let mut missing: SecondaryMap<FuncId, usize> = SecondaryMap::new();
    let mut ready = Vec::new();
    for id in c.program.funcs.keys() {
        let known = calls[id].iter().filter(|callee| c.program.funcs.is_valid(**callee));
        missing[id] = known.clone().map(|callee| callers[*callee].push(id)).count();
        if missing[id] == 0 {
            ready.push(id);
        }
    }
    while let Some(id) = ready.pop() {
        settled[id] = true;
        for caller in std::mem::take(&mut callers[id]) {
            missing[caller] -= 1;
            if missing[caller] == 0 {
                ready.push(caller);
            }
        }
    }
    for (_, func) in c.program.funcs.iter().filter(|(id, _)| !settled[*id]) {
        c.item = format!("func `{}`", func.name);
        c.error(func.span, "the function calls itself, directly or through others".to_string());
    }
}
