//! `inline`: puts the bodies of functions where they are called.
//!
//! Callees first, so that every body is copied when it has no calls left; without recursion (the
//! verifier's word) that ends. A body whose only `return` is its last instruction is spliced in
//! place of the call. One that returns early becomes a loop of one trip which `return` leaves by
//! `break`, at the depth that the loops around it inside the function demand; `simplify-control`
//! turns most of these into nested `if`s.
//!
//! Chains of functions that call each other several times grow exponentially: a body that would
//! exceed [`MAX_INSTS`] keeps its remaining calls.

use std::collections::HashMap;

use cranelift_entity::SecondaryMap;
use nicforge_ir::{BlockId, Body, FuncId, InstId, Op, Program, Type, ValueDef, ValueId};

use crate::Pass;
use crate::rewrite::{Replacements, copy_region, new_inst, size, zero_of};

/// No body grows beyond this many instructions.
const MAX_INSTS: usize = 50_000;

pub struct Inline;

impl Pass for Inline {
    fn name(&self) -> &'static str {
        "inline"
    }

    fn description(&self) -> &'static str {
        "puts the bodies of functions where they are called, and removes the functions"
    }

    fn run(&self, program: &mut Program) -> bool {
        let mut changed = false;
        for func in callees_first(program) {
            let mut body = std::mem::take(&mut program.funcs[func].body);
            changed |= inline_into(program, &mut body);
            program.funcs[func].body = body;
        }
        let handlers: Vec<_> = program.handlers.keys().collect();
        for handler in handlers {
            let mut body = std::mem::take(&mut program.handlers[handler].body);
            changed |= inline_into(program, &mut body);
            program.handlers[handler].body = body;
        }
        let calls = program.handlers.values().any(|handler| has_calls(&handler.body));
        if !calls && !program.funcs.is_empty() {
            program.funcs.clear();
            changed = true;
        }
        changed
    }
}

fn has_calls(body: &Body) -> bool {
    let mut found = false;
    body.for_each_inst(body.entry(), &mut |inst| {
        found |= matches!(body.insts[inst].op, Op::Call { .. })
    });
    found
}

/// All functions, each behind those it calls.
fn callees_first(program: &Program) -> Vec<FuncId> {
    let mut order = Vec::new();
    let mut done: SecondaryMap<FuncId, bool> = SecondaryMap::new();
    for root in program.funcs.keys() {
        let mut stack = vec![root];
        while let Some(&func) = stack.last() {
            let before = stack.len();
            if !done[func] {
                let body = &program.funcs[func].body;
                body.for_each_inst(body.entry(), &mut |inst| {
                    if let Op::Call { func, .. } = body.insts[inst].op
                        && !done[func]
                    {
                        stack.push(func);
                    }
                });
            }
            if stack.len() == before {
                stack.pop();
                if !std::mem::replace(&mut done[func], true) {
                    order.push(func);
                }
            }
        }
    }
    order
}

fn inline_into(program: &Program, body: &mut Body) -> bool {
    let mut replaced = Replacements::default();
    let mut total = size(body, body.entry());
    let changed = inline_block(program, body, body.entry(), &mut replaced, &mut total);
    replaced.apply(body);
    changed
}

fn inline_block(
    program: &Program,
    body: &mut Body,
    block: BlockId,
    replaced: &mut Replacements,
    total: &mut usize,
) -> bool {
    let mut changed = false;
    let mut insts = Vec::new();
    for inst in std::mem::take(&mut body.blocks[block].insts) {
        if let Op::Call { func, args } = &body.insts[inst].op {
            let callee = &program.funcs[*func].body;
            *total += size(callee, callee.entry());
            if *total <= MAX_INSTS {
                let args = args.clone();
                inline_call(
                    callee,
                    &program.funcs[*func].results,
                    body,
                    inst,
                    &args,
                    replaced,
                    &mut insts,
                );
                changed = true;
                continue;
            }
        }
        for region in body.insts[inst].op.regions() {
            changed |= inline_block(program, body, region, replaced, total);
        }
        insts.push(inst);
    }
    body.blocks[block].insts = insts;
    changed
}

/// Appends to `insts` what the call `inst` does.
fn inline_call(
    callee: &Body,
    results: &[Type],
    body: &mut Body,
    inst: InstId,
    args: &[ValueId],
    replaced: &mut Replacements,
    insts: &mut Vec<InstId>,
) {
    let params = &callee.blocks[callee.entry()].params;
    let mut values: HashMap<ValueId, ValueId> =
        params.iter().copied().zip(args.iter().copied()).collect();
    let copy = copy_region(Some(callee), callee.entry(), body, &mut values);
    let mut returns = Vec::new();
    find_returns(body, copy, 0, &mut returns);
    let last = body.blocks[copy].insts.last().copied();
    if let [(only, _)] = returns[..]
        && Some(only) == last
    {
        if let Op::Return(given) = body.insts[only].op.clone() {
            for (result, value) in body.insts[inst].results.clone().into_iter().zip(given) {
                replaced.add(body, result, value);
            }
        }
        body.blocks[copy].insts.pop();
        insts.append(&mut body.blocks[copy].insts);
        return;
    }
    for (exit, depth) in returns {
        if let Op::Return(given) = &mut body.insts[exit].op {
            let values = std::mem::take(given);
            body.insts[exit].op = Op::Break { depth, values };
        }
    }
    // The loop carries what it will break with; the initial values are never seen.
    let span = body.insts[inst].span;
    let mut init = Vec::new();
    for ty in results {
        let zero = new_inst(body, zero_of(*ty), &[*ty], span);
        insts.push(zero);
        init.push(body.insts[zero].results[0]);
        let param = body.values.push(nicforge_ir::Value {
            ty: *ty,
            name: None,
            def: ValueDef::Param(copy, body.blocks[copy].params.len() as u32),
        });
        body.blocks[copy].params.push(param);
    }
    body.insts[inst].op = Op::Loop { init, max_trips: 1, body: copy };
    insts.push(inst);
}

/// All `return`s, with the number of loops around each.
fn find_returns(body: &Body, block: BlockId, depth: u32, found: &mut Vec<(InstId, u32)>) {
    for &inst in &body.blocks[block].insts {
        match &body.insts[inst].op {
            Op::Return(_) => found.push((inst, depth)),
            Op::If { then, other, .. } => {
                find_returns(body, *then, depth, found);
                find_returns(body, *other, depth, found);
            }
            Op::Loop { body: region, .. } => find_returns(body, *region, depth + 1, found),
            _ => {}
        }
    }
}
