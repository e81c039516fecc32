//! `thread-branches`: leaves early where the outcome of a later `if` is known.
//!
//! `a || b` in C is an `if` that yields true in one arm. When the next thing that happens is an
//! `if` on that result whose arm leaves the handler, function or loop, the arm that yields the
//! constant may leave right there:
//!
//! ```text
//! %r = if %a { yield true } else { …; yield %b }        if %a { drop; return } else { …; yield %b } -> %r
//! if %r { drop; return }                          ==>   if %r { drop; return }
//! ```
//!
//! `simplify-control` then moves the other arm's content behind the `if`. What this buys is one
//! path per header check instead of paths that meet with different packet cursors, so the code
//! generator keeps constant offsets.
//!
//! The leaving arm is copied, so it may have at most [`MOST_COPIED`] instructions; what stands
//! between the two `if`s is copied too and must be pure. Every step removes a `yield` of a
//! constant, so repeating them ends.

use std::collections::HashMap;

use nicforge_ir::{BlockId, Body, InstId, Op, Program, UnOp, ValueId};

use crate::Pass;
use crate::rewrite::{constant, copy_region, for_each_body, size};

/// Instructions of an arm that is still copied: a drop with its reason, or a reset and a pass.
const MOST_COPIED: usize = 16;

pub struct ThreadBranches;

impl Pass for ThreadBranches {
    fn name(&self) -> &'static str {
        "thread-branches"
    }

    fn description(&self) -> &'static str {
        "leaves early where the outcome of a later if is known"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |_, body| {
            let mut changed = false;
            let blocks: Vec<BlockId> = body.blocks.keys().collect();
            for block in blocks {
                while let Some(step) = find(body, block) {
                    apply(body, block, &step);
                    changed = true;
                }
            }
            changed
        })
    }
}

/// An arm that may leave.
struct Step {
    /// Place of the first `if` in its region, and of the second.
    first: usize,
    second: usize,
    arm: BlockId,
    leaving: BlockId,
}

fn find(body: &Body, block: BlockId) -> Option<Step> {
    let insts = &body.blocks[block].insts;
    for (second, &inst) in insts.iter().enumerate() {
        let Op::If { cond, then, other, .. } = body.insts[inst].op else { continue };
        let Some(first) =
            (0..second).rev().find(|at| !body.insts[insts[*at]].op.effects().is_pure())
        else {
            continue;
        };
        let Op::If { then: a, other: b, .. } = body.insts[insts[first]].op else { continue };
        for arm in [a, b] {
            let Some(Op::Yield(values)) = body.terminator(arm).map(|t| &t.op) else { continue };
            let Some(holds) = outcome(body, cond, insts[first], values) else { continue };
            let leaving = if holds { then } else { other };
            let leaves =
                !matches!(body.terminator(leaving).map(|t| &t.op), Some(Op::Yield(_)) | None);
            if leaves && size(body, leaving) + second - first <= MOST_COPIED {
                return Some(Step { first, second, arm, leaving });
            }
        }
    }
    None
}

/// The value of `cond` if the `if` at `source` yields `values`, where that is a constant.
fn outcome(body: &Body, cond: ValueId, source: InstId, values: &[ValueId]) -> Option<bool> {
    let inst = body.def_inst(cond)?;
    if inst == source {
        let index = body.insts[source].results.iter().position(|r| *r == cond)?;
        return constant(body, values[index]).map(|c| c != 0);
    }
    match body.insts[inst].op {
        Op::Un(UnOp::Not, inner) => outcome(body, inner, source, values).map(|holds| !holds),
        _ => None,
    }
}

/// Puts copies of what stands between the `if`s and of the leaving arm in the place of the arm's
/// `yield`.
fn apply(body: &mut Body, block: BlockId, step: &Step) {
    let insts = body.blocks[block].insts.clone();
    let Some(end) = body.blocks[step.arm].insts.pop() else { return };
    let Op::Yield(values) = body.insts[end].op.clone() else { return };
    let results = body.insts[insts[step.first]].results.clone();
    let mut map: HashMap<ValueId, ValueId> = results.into_iter().zip(values).collect();
    let between = body.blocks.push(nicforge_ir::Block {
        params: Vec::new(),
        insts: insts[step.first + 1..step.second].to_vec(),
    });
    for region in [between, step.leaving] {
        let copy = copy_region(None, region, body, &mut map);
        let copied = std::mem::take(&mut body.blocks[copy].insts);
        body.blocks[step.arm].insts.extend(copied);
    }
    body.blocks[between].insts.clear();
}
