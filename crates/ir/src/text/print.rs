//! Program to text.

use std::fmt::Write;

use super::names::{self, ItemNames, ValueNames, Visited, declared, is_identifier, quoted};
use crate::native::Passing;
use crate::ops::row::{List, Piece};
use crate::ops::{Arg, BufSource, Op, Proj};
use crate::program::{
    BlockId, Body, ConstArray, Direction, Event, Func, Handler, Inst, InstId, Program, Side, Table,
    ValueId,
};
use crate::span::Span;
use crate::types::{StructDef, Type};

/// Parts of a print besides the program itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrintOptions {
    /// Source files and, behind every op and item, its place in them.
    pub spans: bool,
}

/// The whole program as text. Never fails: what is broken in a program that nobody verified shows
/// as `?`.
pub fn print(program: &Program, options: PrintOptions) -> String {
    let mut printer =
        Printer { program, options, items: ItemNames::new(program), out: String::new() };
    printer.program();
    printer.out
}

/// One instruction on one line, without its regions: for messages.
pub fn inst_text(program: &Program, body: &Body, inst: InstId) -> String {
    let items = ItemNames::new(program);
    let mut printer =
        Printer { program, options: PrintOptions::default(), items, out: String::new() };
    let mut scope = Scope { body, values: ValueNames::new(body), visited: Visited::default() };
    match body.insts.get(inst) {
        Some(data) => {
            printer.results_and_op(&mut scope, data);
            printer.out
        }
        None => "?".to_string(),
    }
}

struct Printer<'a> {
    program: &'a Program,
    options: PrintOptions,
    items: ItemNames,
    out: String,
}

/// Names and numbers for printing a body.
struct Scope<'a> {
    body: &'a Body,
    values: ValueNames,
    visited: Visited,
}

impl Scope<'_> {
    /// Values with commas, each with how it is passed, if that is said.
    fn list(&self, values: &[ValueId], passing: &[Passing]) -> String {
        let before = |n: usize| passing.get(n).map_or("", |passing| names::passed(*passing));
        let one =
            |(n, value): (usize, &ValueId)| format!("{}{}", before(n), self.values.get(*value));
        values.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
    }

    fn ty(&self, value: ValueId) -> Option<Type> {
        self.body.values.get(value).map(|data| data.ty)
    }
}

macro_rules! put {
    ($printer:expr, $($arg:tt)*) => {
        // Writing to a String cannot fail.
        let _ = write!($printer.out, $($arg)*);
    };
}

impl Printer<'_> {
    fn program(&mut self) {
        let program = self.program;
        put!(self, "program {} ports {}\n", declared(&program.name), program.ports);
        if self.options.spans {
            for file in program.files.values() {
                put!(self, "file {}\n", quoted(&file.path));
            }
        }
        program.structs.values().for_each(|def| self.struct_def(def));
        program.tables.values().for_each(|table| self.table(table));
        program.consts.values().for_each(|array| self.const_array(array));
        program.events.values().for_each(|event| self.event(event));
        for reason in program.reasons.values() {
            put!(self, "reason {}{}\n", quoted(&reason.text), self.span(reason.span));
        }
        program.funcs.values().for_each(|func| self.func(func));
        program.handlers.values().for_each(|handler| self.handler(handler));
    }

    fn ty(&self, ty: Type) -> String {
        self.items.ty(self.program, ty)
    }

    /// ` @file:start-end`, or nothing.
    fn span(&self, span: Span) -> String {
        match span.file {
            Some(file) if self.options.spans => {
                format!(" @{}:{}-{}", file.as_u32(), span.start, span.end)
            }
            _ => String::new(),
        }
    }

    fn struct_def(&mut self, def: &StructDef) {
        put!(self, "struct {}{} {{", declared(&def.name), if def.packed { " packed" } else { "" });
        for (i, field) in def.fields.iter().enumerate() {
            put!(
                self,
                "{} {}: {}",
                if i == 0 { "" } else { "," },
                declared(&field.name),
                self.ty(field.ty)
            );
            if let Some(width) = field.bit_width {
                put!(self, " : {width}");
            }
            if field.big_endian {
                put!(self, " be");
            }
        }
        put!(self, "{}}}\n", if def.fields.is_empty() { "" } else { " " });
    }

    fn table(&mut self, table: &Table) {
        put!(self, "table {}: {}", declared(&table.name), table.kind.name());
        let order = if table.key_big_endian { " be" } else { "" };
        put!(
            self,
            "[{}{order} -> {}] capacity {}",
            self.ty(table.key),
            self.ty(table.value),
            table.capacity
        );
        if let Some(bytes) = table.buf {
            put!(self, " buf {bytes}");
        }
        if let Some(replicas) = table.max_replicas {
            put!(self, " replicas {replicas}");
        }
        if table.by_number {
            put!(self, " by_number");
        }
        if table.shared {
            put!(self, " shared");
        }
        put!(self, "{}\n", self.span(table.span));
    }

    fn const_array(&mut self, array: &ConstArray) {
        put!(self, "const {}: {} = ", declared(&array.name), self.ty(array.elem));
        match int_elements(array) {
            Some(elements) => {
                put!(self, "[{}]", elements.join(", "));
            }
            None => {
                let hex: String = array.bytes.iter().map(|b| format!("{b:02x}")).collect();
                put!(self, "hex \"{hex}\"");
            }
        }
        put!(self, "{}\n", self.span(array.span));
    }

    fn event(&mut self, event: &Event) {
        let params: Vec<String> = event
            .params
            .iter()
            .map(|p| {
                let borrowed = if p.borrowed { " borrowed" } else { "" };
                format!("{}: {}{borrowed}", declared(&p.name), self.ty(p.ty))
            })
            .collect();
        let direction = match event.direction {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Internal => "internal",
        };
        let zeros = if event.zeros > 0 { format!(" zeros {}", event.zeros) } else { String::new() };
        let period = event.period.map_or(String::new(), |period| format!(" period {period}"));
        let name = declared(&event.name);
        put!(self, "event {name}({}) {direction}{zeros}{period}\n", params.join(", "));
    }

    fn func(&mut self, func: &Func) {
        let mut scope = Scope::new(&func.body);
        put!(self, "\nfunc {}({})", declared(&func.name), self.entry_params(&scope));
        if !func.results.is_empty() {
            let results: Vec<String> = func.results.iter().map(|t| self.ty(*t)).collect();
            put!(self, " -> ({})", results.join(", "));
        }
        put!(self, "{} {{\n", self.span(func.span));
        self.entry_block(&mut scope);
    }

    fn handler(&mut self, handler: &Handler) {
        let mut scope = Scope::new(&handler.body);
        let event = ItemNames::of(&self.items.events, handler.event);
        put!(
            self,
            "\nhandler {} on {event}({})",
            declared(&handler.name),
            self.entry_params(&scope)
        );
        if handler.unordered {
            put!(self, " unordered");
        }
        if let Some(replicas) = handler.max_replicas {
            put!(self, " replicas {replicas}");
        }
        match handler.side {
            Some(Side::Nic) => self.out.push_str(" side nic"),
            Some(Side::Host) => self.out.push_str(" side host"),
            None => {}
        }
        if let Some(room) = handler.room {
            put!(self, " room {} {}", room.entries, if room.loses { "loses" } else { "waits" });
        }
        put!(self, "{} {{\n", self.span(handler.span));
        self.entry_block(&mut scope);
    }

    fn entry_params(&self, scope: &Scope) -> String {
        let entry = scope.body.entry.and_then(|entry| scope.body.blocks.get(entry));
        entry.map_or(String::new(), |block| self.typed(scope, &block.params))
    }

    fn entry_block(&mut self, scope: &mut Scope) {
        if let Some(entry) = scope.body.entry {
            self.block(scope, entry, 1, false);
        }
        self.out.push_str("}\n");
    }

    /// `%a: u8, %b: u16`
    fn typed(&self, scope: &Scope, values: &[ValueId]) -> String {
        let one = |value: &ValueId| match scope.body.values.get(*value) {
            Some(data) => format!("{}: {}", scope.values.get(*value), self.ty(data.ty)),
            None => scope.values.get(*value),
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The lines of a region. With `elide`, a last `yield` of nothing stays away.
    fn block(&mut self, scope: &mut Scope, block: BlockId, indent: usize, elide: bool) {
        if !scope.visited.enter(block) {
            put!(
                self,
                "{:indent$}?region used twice or nested too deep\n",
                "",
                indent = indent * 2
            );
            return;
        }
        let body = scope.body;
        let insts = body.blocks.get(block).map_or(&[][..], |b| &b.insts);
        for (i, &id) in insts.iter().enumerate() {
            let Some(inst) = body.insts.get(id) else { continue };
            if elide && i + 1 == insts.len() && self.is_implied(inst) {
                break;
            }
            put!(self, "{:indent$}", "", indent = indent * 2);
            self.results_and_op(scope, inst);
            put!(self, "{}", self.span(inst.span));
            self.regions(scope, inst, indent);
            self.out.push('\n');
        }
        scope.visited.leave();
    }

    /// A `yield` of nothing that the reader may leave out.
    fn is_implied(&self, inst: &Inst) -> bool {
        matches!(&inst.op, Op::Yield(values) if values.is_empty())
            && inst.results.is_empty()
            && self.span(inst.span).is_empty()
    }

    fn regions(&mut self, scope: &mut Scope, inst: &Inst, indent: usize) {
        match inst.op {
            Op::If { then, other, .. } => {
                self.out.push_str(" {\n");
                self.block(scope, then, indent + 1, true);
                put!(self, "{:indent$}}}", "", indent = indent * 2);
                let empty = scope.body.blocks.get(other).is_none_or(|b| {
                    b.insts.is_empty()
                        || (b.insts.len() == 1
                            && scope.body.insts.get(b.insts[0]).is_none_or(|i| self.is_implied(i)))
                });
                if !empty {
                    self.out.push_str(" else {\n");
                    self.block(scope, other, indent + 1, true);
                    put!(self, "{:indent$}}}", "", indent = indent * 2);
                }
            }
            Op::Loop { body, .. } => {
                self.out.push_str(" {\n");
                self.block(scope, body, indent + 1, false);
                put!(self, "{:indent$}}}", "", indent = indent * 2);
            }
            _ => {}
        }
    }

    /// Results, `=` and the op, without span and regions.
    fn results_and_op(&mut self, scope: &mut Scope, inst: &Inst) {
        let owns_regions = matches!(inst.op, Op::If { .. } | Op::Loop { .. });
        if !inst.results.is_empty() && !owns_regions {
            put!(self, "{} = ", self.typed(scope, &inst.results));
        }
        let text = self.op(scope, inst);
        self.out.push_str(&text);
        if !inst.results.is_empty() && owns_regions {
            put!(self, " -> ({})", self.typed(scope, &inst.results));
        }
    }

    /// The op as its row writes it, but constants by their type and carried values with theirs.
    fn op(&self, scope: &Scope, inst: &Inst) -> String {
        match (&inst.op, &inst.results[..]) {
            (Op::Int(raw), [result]) => int_text(*raw, scope.ty(*result)),
            (Op::Loop { init, max_trips, body }, _) => {
                format!("loop {max_trips}{}", self.carried(scope, init, *body))
            }
            (op, _) => self.by_row(scope, op),
        }
    }

    fn by_row(&self, scope: &Scope, op: &Op) -> String {
        let mut text = String::new();
        let mut pieces = op.row().pieces();
        // What a path begins at: the entry of the op's table, or the operand before.
        let entry =
            op.table().and_then(|table| self.program.tables.get(table)).map(|table| table.value);
        let mut from = entry;
        let mut passing: &[Passing] = &[];
        op.fields(&mut |arg| {
            let list = loop {
                match pieces.next() {
                    Some(Piece::Literal(literal)) => text.push_str(literal),
                    Some(Piece::Field(_, list)) => break list,
                    None => return false,
                }
            };
            match arg {
                Arg::Value(value) => from = entry.or_else(|| scope.ty(value)),
                Arg::Passing(all) => passing = all,
                _ => {}
            }
            text.push_str(&match arg {
                Arg::Values(values) => listed(list, &scope.list(values, passing)),
                Arg::Path(path) => self.path(scope, from, path),
                arg => self.field(scope, arg),
            });
            true
        });
        for piece in pieces {
            if let Piece::Literal(literal) = piece {
                text.push_str(literal);
            }
        }
        text
    }

    /// A field that needs nothing of what stands before it.
    fn field(&self, scope: &Scope, arg: Arg) -> String {
        let v = |value: ValueId| scope.values.get(value);
        match arg {
            Arg::Value(value) => v(value),
            Arg::Port(port) => port.map_or(String::new(), |port| format!(", port {}", v(port))),
            Arg::Source(BufSource::Packet { pkt, len }) => format!("packet {}, {}", v(pkt), v(len)),
            Arg::Source(BufSource::Value(value)) => v(value),
            Arg::Table(id) => ItemNames::of(&self.items.tables, id),
            Arg::Const(id) => ItemNames::of(&self.items.consts, id),
            Arg::Event(id) => ItemNames::of(&self.items.events, id),
            Arg::Func(id) => ItemNames::of(&self.items.funcs, id),
            Arg::Reason(id) => ItemNames::of(&self.items.reasons, id),
            Arg::Word(word) => word.to_string(),
            Arg::Number(number) => number.to_string(),
            Arg::Text(text) => quoted(text),
            Arg::Pure(pure) => if pure { "pure " } else { "" }.to_string(),
            Arg::Likely(likely) => likely.map_or(String::new(), |p| format!(" likely {p}")),
            // Lists and paths are written where they stand, regions behind the op.
            Arg::Values(_) | Arg::Path(_) | Arg::Passing(_) | Arg::Region(_) => String::new(),
        }
    }

    /// ` (%i: u32 = %0, …)`, or nothing if the loop carries nothing.
    fn carried(&self, scope: &Scope, init: &[ValueId], body: BlockId) -> String {
        let params = scope.body.blocks.get(body).map_or(&[][..], |b| &b.params);
        if params.is_empty() && init.is_empty() {
            return String::new();
        }
        // Of a broken loop with unequal numbers the surplus shows as `?`.
        let parts: Vec<String> = (0..params.len().max(init.len()))
            .map(|i| {
                let param = params.get(i).map_or("?".to_string(), |p| self.typed(scope, &[*p]));
                let init = init.get(i).map_or("?".to_string(), |v| scope.values.get(*v));
                format!("{param} = {init}")
            })
            .collect();
        format!(" ({})", parts.join(", "))
    }

    /// `.dst.b[%i]`; a member whose name does not identify it is `.#2`.
    fn path(&self, scope: &Scope, mut ty: Option<Type>, path: &[Proj]) -> String {
        let mut text = String::new();
        for step in path {
            match step {
                Proj::Field(index) => {
                    let def = match ty {
                        Some(Type::Struct(id)) => self.program.structs.get(id),
                        _ => None,
                    };
                    match def.and_then(|def| field_name(def, *index)) {
                        Some(name) => text.push_str(&format!(".{name}")),
                        None => text.push_str(&format!(".#{index}")),
                    }
                    ty = def.and_then(|def| def.fields.get(*index as usize)).map(|field| field.ty);
                }
                Proj::Index(index) => {
                    text.push_str(&format!("[{}]", scope.values.get(*index)));
                    ty = match ty {
                        Some(Type::Array(id)) => self.program.arrays.get(id).map(|def| def.elem),
                        _ => None,
                    };
                }
            }
        }
        text
    }
}

impl<'a> Scope<'a> {
    fn new(body: &'a Body) -> Scope<'a> {
        Scope { body, values: ValueNames::new(body), visited: Visited::default() }
    }
}

/// A member's name if it is an identifier and the only one of that name.
fn field_name(def: &StructDef, index: u32) -> Option<&str> {
    let name = &def.fields.get(index as usize)?.name;
    let unique = def.fields.iter().filter(|field| field.name == *name).count() == 1;
    (unique && is_identifier(name)).then_some(name)
}

/// A list of values with what stands around it.
fn listed(list: List, values: &str) -> String {
    match list {
        List::Parentheses => format!("({values})"),
        List::Optional if !values.is_empty() => format!(" ({values})"),
        List::Bare if !values.is_empty() => format!(" {values}"),
        List::Optional | List::Bare => String::new(),
    }
}

/// A constant: signed types show their sign.
fn int_text(raw: u64, ty: Option<Type>) -> String {
    match ty {
        Some(Type::Int { bits, signed: true }) if (1..=64).contains(&bits) && fits(raw, bits) => {
            let shift = 64 - bits;
            (((raw << shift) as i64) >> shift).to_string()
        }
        _ => raw.to_string(),
    }
}

fn fits(raw: u64, bits: u8) -> bool {
    crate::build::mask(raw, bits) == raw
}

/// The elements of an array of integers, or `None` if the bytes must be shown instead.
fn int_elements(array: &ConstArray) -> Option<Vec<String>> {
    let Type::Int { bits, .. } = array.elem else { return None };
    let size = crate::layout::int_layout(bits).size as usize;
    if !array.bytes.len().is_multiple_of(size) {
        return None;
    }
    array
        .bytes
        .chunks(size)
        .map(|chunk| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(chunk);
            let raw = u64::from_le_bytes(bytes);
            fits(raw, bits).then(|| int_text(raw, Some(array.elem)))
        })
        .collect()
}
