//! Steering parameters: an internal event whose receiver is sharded by something gets that
//! something as a parameter.
//!
//! Where the receiver is steered by one whole parameter nothing is added. Otherwise every place
//! that generates the event computes a hash of the parts, from the event's own arguments, and sends
//! it along as `steer`: code generators then only look at one integer. Numbers of instances go
//! along as they are.

use std::collections::BTreeSet;
use std::rc::Rc;

use nicforge_ir::{
    BinOp, BlockId, Body, CmpOp, EventId, Inst, InstId, Op, Param, Program, Proj, Span, Type, UnOp,
    Value, ValueDef, ValueId,
};

use crate::origin::Origin;

/// The parameter's name.
pub const NAME: &str = "steer";

const U32: Type = Type::Int { bits: 32, signed: false };
const U1: Type = Type::Int { bits: 1, signed: false };
const U64: Type = Type::Int { bits: 64, signed: false };

/// Most operations of a part that a sender computes for each event.
const MOST_OPERATIONS: u32 = 64;

/// True if a part of an event can be computed by the sender from the event's arguments.
pub fn computable(origin: &Origin) -> bool {
    is_computable(origin, &mut { MOST_OPERATIONS })
}

fn is_computable(origin: &Origin, left: &mut u32) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    match origin {
        Origin::Param { .. } | Origin::Const(_) => true,
        Origin::Op {
            name: "add" | "sub" | "xor" | "and" | "or" | "zext" | "trunc" | "select" | "eq" | "ne",
            of,
            ..
        } => of.iter().all(|part| is_computable(part, left)),
        Origin::Op { name: "bswap", bits: 16 | 32 | 64, of } => is_computable(&of[0], left),
        Origin::Op { name: "urem", of, .. } => {
            is_computable(&of[0], left) && matches!(&*of[1], Origin::Const(by) if *by > 0)
        }
        // Of a value that the event has as a whole.
        Origin::Op { name: "hash", of, .. } => {
            matches!(&of[..], [seed, _, value] if matches!(**seed, Origin::Const(_)) && matches!(**value, Origin::Param { .. }))
        }
        _ => false,
    }
}

/// Values that the parts of `by` can have together, as far as a constant bounds each of them.
pub fn distinct(by: &BTreeSet<Origin>) -> u32 {
    let values = |part: &Origin| match part {
        Origin::Const(_) => 1,
        Origin::Op { name: "eq" | "ne", .. } => 2,
        Origin::Op { name: "urem", of, .. } => match *of[1] {
            Origin::Const(by) => u32::try_from(by).unwrap_or(u32::MAX),
            _ => u32::MAX,
        },
        Origin::Op { name: "and", of, .. } => match (&*of[0], &*of[1]) {
            (Origin::Const(mask), _) | (_, Origin::Const(mask)) => {
                1u32.checked_shl(mask.count_ones()).unwrap_or(u32::MAX)
            }
            _ => u32::MAX,
        },
        _ => u32::MAX,
    };
    by.iter().fold(1, |product, part| product.saturating_mul(values(part)))
}

/// Bytes of the parameter.
pub const BYTES: u32 = 4;

/// Parts that a sender hashes for each event; none where a whole parameter steers as it is.
pub fn hashed(by: &BTreeSet<Origin>) -> usize {
    match by.first() {
        Some(Origin::Param { path, .. }) if by.len() == 1 && path.is_empty() => 0,
        _ => by.len(),
    }
}

/// Makes `event` say by one integer parameter what its receiver is steered by; the parameter's
/// name. With `hash` it is always a hash.
pub fn by_param(
    program: &mut Program,
    event: EventId,
    by: &BTreeSet<Origin>,
    hash: bool,
) -> String {
    if let (false, Some(Origin::Param { index, .. })) = (hash, by.first()) {
        return program.events[event].params[*index as usize].name.clone();
    }
    let hash = |builder: &mut Builder<'_>, span| {
        let mut hash = builder.add(Op::Int(0), U32, span);
        for part in by {
            let value = builder.value(part, span);
            hash = builder.add(Op::Hash { seed: hash, value }, U32, span);
        }
        hash
    };
    add_param(program, event, &hash)
}

/// The parameter that steers where the one part of `by` is a number: it goes along as it is.
pub fn number_param(program: &mut Program, event: EventId, by: &BTreeSet<Origin>) -> String {
    if let Some(number @ Origin::Param { index, .. }) = by.first()
        && is_whole(program, event, number)
    {
        return program.events[event].params[*index as usize].name.clone();
    }
    let number = |builder: &mut Builder<'_>, span| {
        let value = by.first().map(|number| builder.value(number, span));
        let value = value.unwrap_or_else(|| builder.add(Op::Int(0), U64, span));
        builder.add(Op::Cast(value), U32, span)
    };
    add_param(program, event, &number)
}

/// True if a parameter is such a number as it is; others are computed by whoever makes the event.
fn is_whole(program: &Program, event: EventId, number: &Origin) -> bool {
    match number {
        Origin::Param { index, path } => {
            let ty = program.events[event].params.get(*index as usize).map(|param| param.ty);
            path.is_empty() && matches!(ty, Some(Type::Int { signed: false, bits }) if bits <= 32)
        }
        _ => false,
    }
}

/// Gives an event a parameter that every place which generates it computes.
fn add_param(
    program: &mut Program,
    event: EventId,
    make: &dyn Fn(&mut Builder<'_>, Span) -> ValueId,
) -> String {
    let params: Vec<Type> = program.events[event].params.iter().map(|param| param.ty).collect();
    let handlers: Vec<_> = program.handlers.keys().collect();
    for handler in handlers {
        let mut body = std::mem::take(&mut program.handlers[handler].body);
        for (block, at, inst) in generating(&body, event) {
            let Op::Generate { args, .. } = &body.insts[inst].op else { continue };
            let mut builder = Builder {
                program,
                args: args.clone(),
                params: &params,
                body: &mut body,
                insts: vec![],
            };
            let span = builder.body.insts[inst].span;
            let made = make(&mut builder, span);
            let insts = builder.insts;
            let shift = insts.len();
            body.blocks[block].insts.splice(at..at, insts);
            debug_assert_eq!(body.blocks[block].insts[at + shift], inst);
            if let Op::Generate { args, .. } = &mut body.insts[inst].op {
                args.push(made);
            }
        }
        if program.handlers[handler].event == event {
            let entry = body.entry();
            let index = body.blocks[entry].params.len() as u32;
            let def = ValueDef::Param(entry, index);
            let value = body.values.push(Value { ty: U32, name: Some(NAME.to_string()), def });
            body.blocks[entry].params.push(value);
        }
        program.handlers[handler].body = body;
    }
    program.events[event].params.push(Param { name: NAME.to_string(), ty: U32, borrowed: false });
    NAME.to_string()
}

/// Where an event is generated, last place of a block first, so that insertion does not move the
/// others.
fn generating(body: &Body, event: EventId) -> Vec<(BlockId, usize, InstId)> {
    let mut list = Vec::new();
    for (block, data) in body.blocks.iter() {
        for (at, inst) in data.insts.iter().enumerate().rev() {
            if matches!(&body.insts[*inst].op, Op::Generate { event: e, .. } if *e == event) {
                list.push((block, at, *inst));
            }
        }
    }
    list
}

struct Builder<'a> {
    program: &'a Program,
    body: &'a mut Body,
    args: Vec<ValueId>,
    params: &'a [Type],
    insts: Vec<InstId>,
}

impl Builder<'_> {
    fn add(&mut self, op: Op, ty: Type, span: Span) -> ValueId {
        let inst = self.body.insts.push(Inst { op, results: vec![], span });
        let value = self.body.values.push(Value { ty, name: None, def: ValueDef::Result(inst, 0) });
        self.body.insts[inst].results.push(value);
        self.insts.push(inst);
        value
    }

    /// The part as u64, or an array as it is.
    fn value(&mut self, origin: &Origin, span: Span) -> ValueId {
        match origin {
            Origin::Const(value) => self.add(Op::Int(*value), U64, span),
            Origin::Param { .. } => {
                let part = self.exact(origin, span);
                if self.body.ty(part).is_int() {
                    // Equal values of one type stay equal however they are widened.
                    self.add(Op::Cast(part), U64, span)
                } else {
                    part
                }
            }
            Origin::Op { name: "select", of, .. } => {
                let cond = self.value(&of[0], span);
                let cond = self.add(Op::Cast(cond), U1, span);
                let (then, other) = (self.value(&of[1], span), self.value(&of[2], span));
                self.add(Op::Select { cond, then, other }, U64, span)
            }
            Origin::Op { name: name @ ("eq" | "ne"), of, .. } => {
                let (a, b) = (self.value(&of[0], span), self.value(&of[1], span));
                let op = if *name == "eq" { CmpOp::Eq } else { CmpOp::Ne };
                let holds = self.add(Op::Cmp(op, a, b), U1, span);
                self.add(Op::Cast(holds), U64, span)
            }
            Origin::Op { name: "hash", of, .. } => {
                let seed = self.value(&of[0], span);
                let seed = self.add(Op::Cast(seed), U32, span);
                let value = self.exact(&of[2], span);
                let hash = self.add(Op::Hash { seed, value }, U32, span);
                self.add(Op::Cast(hash), U64, span)
            }
            Origin::Op { name: "bswap", bits, of } => {
                let value = self.value(&of[0], span);
                let narrow = Type::Int { bits: *bits, signed: false };
                let value = self.add(Op::Cast(value), narrow, span);
                let value = self.add(Op::Un(UnOp::Bswap, value), narrow, span);
                self.add(Op::Cast(value), U64, span)
            }
            Origin::Op { name, bits, of } => {
                let first = self.value(&of[0], span);
                let op = match *name {
                    "add" => Some(BinOp::Add),
                    "sub" => Some(BinOp::Sub),
                    "xor" => Some(BinOp::Xor),
                    "and" => Some(BinOp::And),
                    "or" => Some(BinOp::Or),
                    "urem" => Some(BinOp::Rem),
                    _ => None,
                };
                let value = match (op, of.get(1)) {
                    (Some(op), Some(second)) => {
                        let second: Rc<Origin> = second.clone();
                        let second = self.value(&second, span);
                        self.add(Op::Bin(op, first, second), U64, span)
                    }
                    _ => first,
                };
                if *bits >= 64 {
                    return value;
                }
                // Arithmetic of the receiver wraps at its own width.
                let mask = self.add(Op::Int((1u64 << bits) - 1), U64, span);
                self.add(Op::Bin(BinOp::And, value, mask), U64, span)
            }
            Origin::Frame { .. } | Origin::Port | Origin::Value { .. } => {
                self.add(Op::Int(0), U64, span)
            }
        }
    }

    /// A part of a parameter, of its own type.
    fn exact(&mut self, origin: &Origin, span: Span) -> ValueId {
        let Origin::Param { index, path } = origin else { return self.add(Op::Int(0), U64, span) };
        let (agg, mut ty) = (self.args[*index as usize], self.params[*index as usize]);
        let mut steps = Vec::new();
        for step in path {
            match ty {
                Type::Struct(id) => {
                    ty = self.program.structs[id].fields[*step as usize].ty;
                    steps.push(Proj::Field(*step));
                }
                Type::Array(id) => {
                    ty = self.program.arrays[id].elem;
                    let index = self.add(Op::Int(u64::from(*step)), U32, span);
                    steps.push(Proj::Index(index));
                }
                Type::Int { .. } | Type::Packet => break,
            }
        }
        if steps.is_empty() { agg } else { self.add(Op::Get { agg, path: steps }, ty, span) }
    }
}
