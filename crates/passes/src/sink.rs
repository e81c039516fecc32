//! Internal events to the ends of paths: they are queued behind the handler anyway.
//!
//! ```text
//! if %big { generate later(%p); yield }      if %big { rest; generate later(%p); return }
//! else { … yield }                       ==> else { … rest; return }
//! rest; return                               return
//! ```
//!
//! A handler that is fused into another ([`crate::fuse`]) runs where its event is generated, which
//! what still runs behind that place must not be able to tell. At the end of a path nothing runs
//! behind it. Several events of a path keep their order.

use std::collections::HashMap;

use nicforge_ir::{Block, BlockId, Body, Direction, InstId, Op, Program};

use crate::rewrite::{Replacements, copy_region, for_each_exit, new_inst, size};

/// Instructions that a body may grow to.
const MOST_IN_ALL: usize = 2000;

/// Moves the internal events of a body to the ends of its paths; true if something moved.
pub fn sink(program: &Program, body: &mut Body) -> bool {
    let returns = |block: &BlockId| ends_handler(body, *block);
    let mut blocks: Vec<BlockId> = vec![body.entry()];
    body.for_each_inst(body.entry(), &mut |inst| blocks.extend(body.insts[inst].op.regions()));
    blocks.retain(returns);
    let mut changed = false;
    while let Some(block) = blocks.pop() {
        let insts = body.blocks[block].insts.clone();
        match step(program, body, &insts) {
            Step::Keep => {}
            Step::Last(order) => {
                changed |= order != insts;
                body.blocks[block].insts = order;
            }
            Step::IntoArms(at) => {
                let arms = into_arms(program, body, block, at).into_iter();
                blocks.extend(arms.filter(|arm| ends_handler(body, *arm)));
                changed = true;
            }
        }
    }
    changed
}

/// True if a block ends with `return`.
pub(crate) fn ends_handler(body: &Body, block: BlockId) -> bool {
    matches!(body.terminator(block).map(|end| &end.op), Some(Op::Return(_)))
}

/// One step on a block.
enum Step {
    Keep,
    /// The block's instructions in another order.
    Last(Vec<InstId>),
    /// The `if` whose arms get what is around it.
    IntoArms(usize),
}

fn step(program: &Program, body: &Body, insts: &[InstId]) -> Step {
    let [others @ .., end] = insts else { return Step::Keep };
    let is_place = |inst: &&InstId| generates(program, body, **inst);
    let first = others.iter().position(|inst| is_place(&inst)).unwrap_or(others.len());
    for (at, inst) in others.iter().enumerate() {
        let mut has_place = false;
        for region in body.insts[*inst].op.regions() {
            body.for_each_inst(region, &mut |inner| has_place |= generates(program, body, inner));
        }
        let passed = at > first && (has_place || leaves(body, *inst));
        let is_if = matches!(body.insts[*inst].op, Op::If { .. });
        let wants_end = passed || (has_place && is_if);
        if !wants_end {
            continue;
        }
        let grown = size(body, body.entry()) + size_of(body, &insts[at + 1..]);
        return if is_if && grown <= MOST_IN_ALL { Step::IntoArms(at) } else { Step::Keep };
    }
    let (places, mut order): (Vec<_>, Vec<_>) = others.iter().partition(is_place);
    order.extend(places);
    order.push(*end);
    Step::Last(order)
}

/// True for an instruction that generates an internal event.
fn generates(program: &Program, body: &Body, inst: InstId) -> bool {
    match body.insts[inst].op {
        Op::Generate { event, .. } => program.events[event].direction == Direction::Internal,
        _ => false,
    }
}

/// True if a `return` in an instruction's regions, or a way out of a loop around it, leaves what is
/// behind it out.
fn leaves(body: &Body, inst: InstId) -> bool {
    let op = &body.insts[inst].op;
    let inside = u32::from(matches!(op, Op::Loop { .. }));
    let mut found = false;
    for region in op.regions() {
        body.for_each_inst(region, &mut |inner| {
            found |= matches!(body.insts[inner].op, Op::Return(_));
        });
        for_each_exit(body, region, inside, &mut |exit, inside| {
            found |= match body.insts[exit].op {
                Op::Break { depth, .. } | Op::Continue { depth, .. } => depth >= inside,
                _ => false,
            };
        });
    }
    found
}

fn size_of(body: &Body, insts: &[InstId]) -> usize {
    let inside =
        |inst: &InstId| body.insts[*inst].op.regions().map(|arm| size(body, arm)).sum::<usize>();
    insts.iter().map(|inst| 1 + inside(inst)).sum()
}

/// Gives both arms of an `if` what follows it up to `return`, and at their starts the events that
/// were generated before it.
fn into_arms(program: &Program, body: &mut Body, block: BlockId, at: usize) -> [BlockId; 2] {
    let mut insts = std::mem::take(&mut body.blocks[block].insts);
    let rest = insts.split_off(at + 1);
    let chosen = insts[at];
    let Op::If { then, other, .. } = body.insts[chosen].op else { unreachable!("it has arms") };
    let (before, stay): (Vec<_>, Vec<_>) =
        insts.into_iter().partition(|inst| generates(program, body, *inst));
    let results = std::mem::take(&mut body.insts[chosen].results);
    let span = body.insts[rest[rest.len() - 1]].span;
    let mut replaced = Replacements::default();
    for (arm, first) in [(then, true), (other, false)] {
        // What one arm gets is a copy.
        let own = |body: &mut Body, insts: &[InstId], values: &mut HashMap<_, _>| {
            if !first {
                return insts.to_vec();
            }
            let all = body.blocks.push(Block { params: vec![], insts: insts.to_vec() });
            let copy = copy_region(None, all, body, values);
            body.blocks[all].insts.clear();
            std::mem::take(&mut body.blocks[copy].insts)
        };
        let mut inside = own(body, &before, &mut HashMap::new());
        inside.append(&mut body.blocks[arm].insts);
        let end = inside[inside.len() - 1];
        if let Op::Yield(values) = body.insts[end].op.clone() {
            inside.pop();
            let pairs = results.iter().copied().zip(values);
            let mut values = HashMap::new();
            if first {
                values.extend(pairs);
            } else {
                pairs.for_each(|(result, value)| replaced.add(body, result, value));
            }
            inside.extend(own(body, &rest, &mut values));
        }
        body.blocks[arm].insts = inside;
    }
    body.blocks[block].insts = stay;
    // Nobody comes here.
    let end = new_inst(body, Op::Return(vec![]), &[], span);
    body.blocks[block].insts.push(end);
    replaced.apply(body);
    [then, other]
}
