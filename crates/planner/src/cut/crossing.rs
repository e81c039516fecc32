//! What an event between stages carries, for people.

use nicforge_ir::text::inst_text;
use nicforge_ir::{Body, HandlerId, Op, Program, Proj, Span, Type, ValueId};

/// One parameter of the event that a handler reacts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The source variable, or what the value is.
    pub name: String,
    /// Bytes in the event; 0 for the packet handle.
    pub bytes: u32,
    /// The op that makes it, as αIR text, at the first place that generates the event with more
    /// than a constant; `None` if it comes in with that stage's own event.
    pub made_by: Option<String>,
    /// Where the user wrote that op.
    pub span: Span,
}

/// What each parameter of the event is that `handler` reacts to, in order. For an event from
/// outside nothing made them.
pub fn crossing(program: &Program, handler: HandlerId) -> Vec<Crossing> {
    let event = program.handlers[handler].event;
    let mut found: Vec<Crossing> = program.events[event]
        .params
        .iter()
        .map(|param| Crossing {
            name: param.name.clone(),
            bytes: program.size_of(param.ty),
            made_by: None,
            span: Span::default(),
        })
        .collect();
    for sender in program.handlers.values() {
        let body = &sender.body;
        body.for_each_inst(body.entry(), &mut |inst| {
            let Op::Generate { event: generated, args } = &body.insts[inst].op else { return };
            if *generated != event {
                return;
            }
            for (crossing, arg) in found.iter_mut().zip(args) {
                let maker = body.def_inst(*arg).filter(|maker| {
                    !matches!(body.insts[*maker].op, Op::Int(_) | Op::Zero)
                        && crossing.made_by.is_none()
                });
                if let Some(maker) = maker {
                    crossing.made_by = Some(inst_text(program, body, maker));
                    crossing.span = body.insts[maker].span;
                }
            }
        });
    }
    found
}

/// Steps from a value to one that has a name.
const NAME_DEPTH: usize = 4;

/// A name for a value: its own, or what it is, as `ip_src` for `get %ip.src`.
pub fn name_of(program: &Program, body: &Body, value: ValueId) -> String {
    let name = describe(program, body, value, NAME_DEPTH);
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(fits).collect()
}

fn describe(program: &Program, body: &Body, value: ValueId, depth: usize) -> String {
    let data = &body.values[value];
    if let Some(name) = &data.name {
        return name.clone();
    }
    let Some(inst) = body.def_inst(value).filter(|_| depth > 0) else { return "value".to_string() };
    let first = body.insts[inst].results.first() == Some(&value);
    match &body.insts[inst].op {
        Op::Get { agg, path } => {
            let mut name = describe(program, body, *agg, depth - 1);
            let mut ty = body.ty(*agg);
            for (at, step) in path.iter().enumerate() {
                if let (Type::Struct(id), Proj::Field(field)) = (ty, step) {
                    name = format!("{name}_{}", program.structs[id].fields[*field as usize].name);
                }
                ty = program.project(body.ty(*agg), &path[..=at]).unwrap_or(ty);
            }
            name
        }
        Op::Cast(inner) | Op::Un(_, inner) => describe(program, body, *inner, depth - 1),
        Op::If { then, .. } => {
            let at =
                body.insts[inst].results.iter().position(|result| *result == value).unwrap_or(0);
            match body.terminator(*then).map(|end| &end.op) {
                Some(Op::Yield(values)) => describe(program, body, values[at], depth - 1),
                _ => "value".to_string(),
            }
        }
        Op::Cmp(_, a, _) => format!("if_{}", describe(program, body, *a, depth - 1)),
        op => {
            match (op.table().map(|table| program.tables[table].name.as_str()), op.row().called) {
                (_, "") => "value".to_string(),
                (Some(table), called) if first => format!("{table}_{called}"),
                (Some(table), _) => table.to_string(),
                (None, called) if first => called.to_string(),
                (None, _) => "value".to_string(),
            }
        }
    }
}
