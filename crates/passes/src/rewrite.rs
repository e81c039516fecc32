//! What passes have in common: all bodies of a program, replacing values, copying regions.

use std::collections::HashMap;

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use nicforge_ir::{BlockId, Body, Inst, InstId, Op, Program, Span, Type, Value, ValueDef, ValueId};

/// Calls `change` on every body; whether one of the calls said so.
pub fn for_each_body(
    program: &mut Program,
    mut change: impl FnMut(&Program, &mut Body) -> bool,
) -> bool {
    let mut changed = false;
    let funcs: Vec<_> = program.funcs.keys().collect();
    for id in funcs {
        let mut body = std::mem::take(&mut program.funcs[id].body);
        changed |= change(program, &mut body);
        program.funcs[id].body = body;
    }
    let handlers: Vec<_> = program.handlers.keys().collect();
    for id in handlers {
        let mut body = std::mem::take(&mut program.handlers[id].body);
        changed |= change(program, &mut body);
        program.handlers[id].body = body;
    }
    changed
}

/// Values to be replaced by others.
#[derive(Default)]
pub struct Replacements {
    to: SecondaryMap<ValueId, PackedOption<ValueId>>,
    any: bool,
}

impl Replacements {
    /// Replaces `from` by `to`. A name that `from` has and `to` lacks moves over, but not to a
    /// constant: that may stand for many variables.
    pub fn add(&mut self, body: &mut Body, from: ValueId, to: ValueId) {
        let to = self.get(to);
        if from == to {
            return;
        }
        let constant = matches!(body.def_op(to), Some(Op::Int(_) | Op::Zero));
        if body.values[to].name.is_none() && !constant {
            body.values[to].name = body.values[from].name.clone();
        }
        self.to[from] = to.into();
        self.any = true;
    }

    /// The value that stands for `value` now.
    pub fn get(&self, mut value: ValueId) -> ValueId {
        while let Some(to) = self.to[value].expand() {
            value = to;
        }
        value
    }

    /// True if there is anything to replace.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Replaces in the operands of one instruction.
    pub fn apply_to(&self, op: &mut Op) {
        if self.any {
            op.map_operands(&mut |value| self.get(value));
        }
    }

    /// Replaces in a whole body.
    pub fn apply(&self, body: &mut Body) {
        if self.any {
            body.insts.values_mut().for_each(|inst| self.apply_to(&mut inst.op));
        }
    }
}

/// A new instruction of a body, in no region yet.
pub fn new_inst(body: &mut Body, op: Op, results: &[Type], span: Span) -> InstId {
    let inst = body.insts.push(Inst { op, results: Vec::new(), span });
    let results = results.iter().enumerate().map(|(i, ty)| {
        body.values.push(Value { ty: *ty, name: None, def: ValueDef::Result(inst, i as u32) })
    });
    body.insts[inst].results = results.collect();
    inst
}

/// The constant zero of any type.
pub fn zero_of(ty: Type) -> Op {
    if ty.is_int() { Op::Int(0) } else { Op::Zero }
}

/// The value of an integer constant.
pub fn constant(body: &Body, value: ValueId) -> Option<u64> {
    match body.def_op(value) {
        Some(Op::Int(raw)) => Some(*raw),
        Some(Op::Zero) if body.ty(value).is_int() => Some(0),
        _ => None,
    }
}

/// Copies region `block` of `from` (or of the body itself, if that is `None`) into `body`, with
/// everything in it. `values` maps operands: parameters must be in it already, results are added;
/// what is not in it stays as it is.
pub fn copy_region(
    from: Option<&Body>,
    block: BlockId,
    body: &mut Body,
    values: &mut HashMap<ValueId, ValueId>,
) -> BlockId {
    let copy = body.blocks.push(Default::default());
    for inst in from.unwrap_or(body).blocks[block].insts.clone() {
        let data = from.unwrap_or(body).insts[inst].clone();
        let mut op = data.op;
        op.map_operands(&mut |value| values.get(&value).copied().unwrap_or(value));
        let new = body.insts.push(Inst { op: Op::Zero, results: Vec::new(), span: data.span });
        match &mut op {
            Op::If { then, other, .. } => {
                *then = copy_region(from, *then, body, values);
                *other = copy_region(from, *other, body, values);
            }
            Op::Loop { body: region, .. } => {
                let params = from.unwrap_or(body).blocks[*region].params.clone();
                let copies: Vec<ValueId> =
                    params.iter().map(|param| copy_value(from, *param, body, values)).collect();
                let copied = copy_region(from, *region, body, values);
                for (i, param) in copies.iter().enumerate() {
                    body.values[*param].def = ValueDef::Param(copied, i as u32);
                }
                body.blocks[copied].params = copies;
                *region = copied;
            }
            _ => {}
        }
        body.insts[new].op = op;
        for (i, result) in data.results.iter().enumerate() {
            let value = copy_value(from, *result, body, values);
            body.values[value].def = ValueDef::Result(new, i as u32);
            body.insts[new].results.push(value);
        }
        body.blocks[copy].insts.push(new);
    }
    copy
}

fn copy_value(
    from: Option<&Body>,
    value: ValueId,
    body: &mut Body,
    values: &mut HashMap<ValueId, ValueId>,
) -> ValueId {
    let data = from.unwrap_or(body).values[value].clone();
    let copy = body.values.push(data);
    values.insert(value, copy);
    copy
}

/// Calls `visit` on every `break` and `continue` in a region and the regions inside, with how many
/// loops lie between the region and the terminator.
pub fn for_each_exit(body: &Body, block: BlockId, inside: u32, visit: &mut dyn FnMut(InstId, u32)) {
    for &inst in &body.blocks[block].insts {
        match &body.insts[inst].op {
            Op::Break { .. } | Op::Continue { .. } => visit(inst, inside),
            Op::If { then, other, .. } => {
                for_each_exit(body, *then, inside, visit);
                for_each_exit(body, *other, inside, visit);
            }
            Op::Loop { body: region, .. } => for_each_exit(body, *region, inside + 1, visit),
            _ => {}
        }
    }
}

/// Number of instructions of a region and the regions inside.
pub fn size(body: &Body, block: BlockId) -> usize {
    let mut count = 0;
    body.for_each_inst(block, &mut |_| count += 1);
    count
}

/// How deep regions nest in a region, itself included.
pub fn height(body: &Body, block: BlockId) -> usize {
    let regions = body.blocks[block].insts.iter().flat_map(|inst| body.insts[*inst].op.regions());
    1 + regions.map(|region| height(body, region)).max().unwrap_or(0)
}
