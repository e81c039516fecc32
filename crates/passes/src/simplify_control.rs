//! `simplify-control`: regions that need not be.
//!
//! Working from the inside out, in every region:
//!
//! * an `if` on a constant becomes the arm it takes; so does one on a condition that an `if` around
//!   it or before it decided;
//! * when one arm of an `if` leaves (a loop or the body), the other one's content moves behind the
//!   `if`: `if c { break v } else { A; yield a }; B` becomes `if c { break v }; A; B`, as a person
//!   would write it;
//! * when both arms leave, what follows is unreachable and goes;
//! * a result for which both arms yield the same value is that value; an `if` that then does
//!   nothing goes;
//! * a loop of no trips gives its initial values; in a loop of one trip `continue` is `break`; a
//!   loop that no `continue` runs again has one trip;
//! * a loop of one trip whose `break`s are in tail position becomes nested `if`s (early returns of
//!   inlined functions are such loops): what follows an `if` with a `break` in one arm moves into
//!   the other arm, `break` becomes `yield`. That needs no copy of anything unless both arms go on,
//!   in which case the loop stays. It also stays if regions would nest deeper than is good for
//!   readers and for the walks of other passes.
//!
//! Each step removes a region, an instruction or a loop, so repeating them ends.

use std::collections::HashMap;

use nicforge_ir::{BlockId, Body, InstId, Op, Program, Type, Value, ValueDef, ValueId};

use crate::Pass;
use crate::rewrite::{Replacements, constant, for_each_body, for_each_exit, height, new_inst};

/// Loops do not become `if`s that nest deeper; a quarter of what the verifier allows.
const MAX_DEPTH: usize = nicforge_ir::text::MAX_NESTING / 4;

pub struct SimplifyControl;

impl Pass for SimplifyControl {
    fn name(&self) -> &'static str {
        "simplify-control"
    }

    fn description(&self) -> &'static str {
        "removes needless regions: constant ifs, empty arms, loops that run once, unreachable code"
    }

    fn run(&self, program: &mut Program) -> bool {
        for_each_body(program, |_, body| {
            let mut changed = false;
            loop {
                let mut simplify = Simplify {
                    replaced: Replacements::default(),
                    changed: false,
                    facts: HashMap::new(),
                    depth: 0,
                };
                simplify.block(body, body.entry());
                simplify.replaced.apply(body);
                if !simplify.changed {
                    return changed;
                }
                changed = true;
            }
        })
    }
}

struct Simplify {
    replaced: Replacements,
    changed: bool,
    /// Conditions that are known where we are: in the arms of an `if` on them, and behind one with
    /// an arm that leaves.
    facts: HashMap<ValueId, bool>,
    /// How deep the region being looked at is nested.
    depth: usize,
}

/// How a region ends.
fn leaves(body: &Body, block: BlockId) -> bool {
    !matches!(body.terminator(block).map(|inst| &inst.op), Some(Op::Yield(_)))
}

impl Simplify {
    fn block(&mut self, body: &mut Body, block: BlockId) {
        self.depth += 1;
        let mut queue: Vec<InstId> = std::mem::take(&mut body.blocks[block].insts);
        queue.reverse();
        let mut done = Vec::new();
        let mut learned = Vec::new();
        while let Some(inst) = queue.pop() {
            // What stands in for the instruction is looked at again; what follows may be dropped.
            let keep = match body.insts[inst].op {
                Op::If { cond, then, other, .. } => {
                    let cond = self.replaced.get(cond);
                    let keep = self.if_inst(body, inst, cond, &mut queue);
                    match (keep, leaves(body, then), leaves(body, other)) {
                        (true, true, false) => self.learn(&mut learned, cond, false),
                        (true, false, true) => self.learn(&mut learned, cond, true),
                        _ => {}
                    }
                    keep
                }
                Op::Loop { body: region, .. } => {
                    self.block(body, region);
                    self.loop_inst(body, inst, &mut queue)
                }
                _ => true,
            };
            if keep {
                done.push(inst);
            } else {
                self.changed = true;
            }
        }
        body.blocks[block].insts = done;
        for cond in learned {
            self.facts.remove(&cond);
        }
        self.depth -= 1;
    }

    /// From here to the end of the region the condition is known.
    fn learn(&mut self, learned: &mut Vec<ValueId>, cond: ValueId, holds: bool) {
        if self.facts.insert(cond, holds).is_none() {
            learned.push(cond);
        }
    }

    /// Simplifies an arm of an `if`, in which its condition is known.
    fn arm(&mut self, body: &mut Body, arm: BlockId, cond: ValueId, holds: bool) {
        self.facts.insert(cond, holds);
        self.block(body, arm);
        self.facts.remove(&cond);
    }

    /// Puts the content of `region` in front of what follows. Its `yield` gives `inst`'s results;
    /// if it leaves instead, nothing of what follows is reached.
    fn splice(&mut self, body: &mut Body, inst: InstId, region: BlockId, queue: &mut Vec<InstId>) {
        let mut insts = std::mem::take(&mut body.blocks[region].insts);
        let last = insts.last().map(|last| body.insts[*last].op.clone());
        if let Some(Op::Yield(values)) = last {
            insts.pop();
            for (result, value) in body.insts[inst].results.clone().into_iter().zip(values) {
                self.replaced.add(body, result, value);
            }
        } else {
            queue.clear();
        }
        queue.extend(insts.into_iter().rev());
    }

    /// True if the `if` stays.
    fn if_inst(
        &mut self,
        body: &mut Body,
        inst: InstId,
        cond: ValueId,
        queue: &mut Vec<InstId>,
    ) -> bool {
        let Op::If { then, other, .. } = body.insts[inst].op else { return true };
        let known = constant(body, cond).map(|value| value != 0).or(self.facts.get(&cond).copied());
        if let Some(holds) = known {
            self.splice(body, inst, if holds { then } else { other }, queue);
            return false;
        }
        self.arm(body, then, cond, true);
        self.arm(body, other, cond, false);
        let empty = |region: BlockId| body.blocks[region].insts.len() == 1 && !leaves(body, region);
        match (leaves(body, then), leaves(body, other)) {
            (true, _) if !empty(other) || !body.insts[inst].results.is_empty() => {
                self.move_behind(body, inst, other, queue);
            }
            (false, true) if !empty(then) || !body.insts[inst].results.is_empty() => {
                self.move_behind(body, inst, then, queue);
            }
            (false, false) => {
                self.same_results(body, inst, then, other);
                let empty = |region: BlockId| body.blocks[region].insts.len() == 1;
                if body.insts[inst].results.is_empty() && empty(then) && empty(other) {
                    return false;
                }
            }
            _ => {}
        }
        true
    }

    /// Moves the content of one arm behind the `if`, whose other arm leaves.
    fn move_behind(
        &mut self,
        body: &mut Body,
        inst: InstId,
        arm: BlockId,
        queue: &mut Vec<InstId>,
    ) {
        self.splice(body, inst, arm, queue);
        body.insts[inst].results.clear();
        let span = body.insts[inst].span;
        let end = new_inst(body, Op::Yield(Vec::new()), &[], span);
        body.blocks[arm].insts.push(end);
        self.changed = true;
    }

    /// Drops results for which both arms yield one value: it comes from outside, as both see it.
    fn same_results(&mut self, body: &mut Body, inst: InstId, then: BlockId, other: BlockId) {
        let ends = [then, other].map(|region| body.blocks[region].insts.last().copied());
        let [Some(first), Some(second)] = ends else { return };
        let (Op::Yield(a), Op::Yield(b)) = (&body.insts[first].op, &body.insts[second].op) else {
            return;
        };
        let same = |(x, y)| self.replaced.get(x) == self.replaced.get(y);
        let keep: Vec<bool> =
            a.iter().copied().zip(b.iter().copied()).map(|pair| !same(pair)).collect();
        if !keep.contains(&false) {
            return;
        }
        self.changed = true;
        let given = a.clone();
        let results = std::mem::take(&mut body.insts[inst].results);
        for ((result, value), keep) in results.into_iter().zip(given).zip(&keep) {
            if *keep {
                let index = body.insts[inst].results.len() as u32;
                body.values[result].def = ValueDef::Result(inst, index);
                body.insts[inst].results.push(result);
            } else {
                self.replaced.add(body, result, value);
            }
        }
        for end in [first, second] {
            if let Op::Yield(values) = &mut body.insts[end].op {
                let mut flags = keep.iter();
                values.retain(|_| flags.next().copied().unwrap_or(true));
            }
        }
    }

    /// True if the loop stays.
    fn loop_inst(&mut self, body: &mut Body, inst: InstId, queue: &mut Vec<InstId>) -> bool {
        let Op::Loop { init, max_trips, body: region } = body.insts[inst].op.clone() else {
            return true;
        };
        if max_trips == 0 {
            for (result, value) in body.insts[inst].results.clone().into_iter().zip(init) {
                self.replaced.add(body, result, value);
            }
            return false;
        }
        let mut exits = Vec::new();
        for_each_exit(body, region, 0, &mut |exit, inside| exits.push((exit, inside)));
        let runs_again = exits.iter().any(
            |(exit, inside)| matches!(body.insts[*exit].op, Op::Continue { depth, .. } if depth == *inside),
        );
        if max_trips > 1 && runs_again {
            return true;
        }
        if max_trips > 1 {
            if let Op::Loop { max_trips, .. } = &mut body.insts[inst].op {
                *max_trips = 1;
            }
            self.changed = true;
        }
        for (exit, inside) in &exits {
            if let Op::Continue { depth, values } = body.insts[*exit].op.clone()
                && depth == *inside
            {
                body.insts[*exit].op = Op::Break { depth, values };
                self.changed = true;
            }
        }
        let deepest = self.depth + height(body, region) + ifs_with_breaks(body, region);
        if deepest > MAX_DEPTH || !breaks_in_tail_position(body, region) {
            return true;
        }
        for (param, value) in body.blocks[region].params.clone().into_iter().zip(init) {
            self.replaced.add(body, param, value);
        }
        let further: Vec<InstId> = exits
            .into_iter()
            .filter(|(exit, inside)| exit_depth(body, *exit) > *inside)
            .map(|(exit, _)| exit)
            .collect();
        let types: Vec<Type> = body.insts[inst].results.iter().map(|v| body.ty(*v)).collect();
        self.nest(body, region, &types);
        // One loop less around everything that leaves for further out.
        for exit in further {
            if let Op::Break { depth, .. } | Op::Continue { depth, .. } = &mut body.insts[exit].op {
                *depth -= 1;
            }
        }
        self.splice(body, inst, region, queue);
        false
    }

    /// Turns the region of a loop of one trip into one that yields the results: what follows an
    /// `if` with a `break` in one arm moves into the arm that goes on, and `break` becomes `yield`.
    fn nest(&mut self, body: &mut Body, block: BlockId, types: &[Type]) {
        let insts = &body.blocks[block].insts;
        let Some(at) = insts.iter().position(|inst| has_breaks(body, *inst)) else {
            let last = insts.last().copied();
            if let Some(Op::Break { depth: 0, values }) = last.map(|last| &body.insts[last].op) {
                let values = values.clone();
                if let Some(last) = last {
                    body.insts[last].op = Op::Yield(values);
                }
            }
            return;
        };
        let inst = insts[at];
        let Op::If { then, other, .. } = body.insts[inst].op else { return };
        let rest = body.blocks[block].insts.split_off(at + 1);
        if let Some(arm) = [then, other].into_iter().find(|arm| !leaves(body, *arm)) {
            let end = body.blocks[arm].insts.pop();
            if let Some(Op::Yield(values)) = end.map(|end| body.insts[end].op.clone()) {
                for (result, value) in body.insts[inst].results.clone().into_iter().zip(values) {
                    self.replaced.add(body, result, value);
                }
            }
            body.blocks[arm].insts.extend(rest);
        }
        let results = types.iter().enumerate().map(|(i, ty)| {
            body.values.push(Value { ty: *ty, name: None, def: ValueDef::Result(inst, i as u32) })
        });
        let results: Vec<_> = results.collect();
        body.insts[inst].results.clone_from(&results);
        let span = body.insts[inst].span;
        let end = new_inst(body, Op::Yield(results), &[], span);
        body.blocks[block].insts.push(end);
        self.nest(body, then, types);
        self.nest(body, other, types);
    }
}

/// How many `if`s with a `break` of the loop there are: each may become one more level.
fn ifs_with_breaks(body: &Body, region: BlockId) -> usize {
    let count = |inst: &InstId| match body.insts[*inst].op {
        Op::If { then, other, .. } if has_breaks(body, *inst) => {
            1 + ifs_with_breaks(body, then) + ifs_with_breaks(body, other)
        }
        _ => 0,
    };
    body.blocks[region].insts.iter().map(count).sum()
}

fn exit_depth(body: &Body, inst: InstId) -> u32 {
    match body.insts[inst].op {
        Op::Break { depth, .. } | Op::Continue { depth, .. } => depth,
        _ => 0,
    }
}

/// True if an `if` has a `break` of the loop around it, in itself or in `if`s inside.
fn has_breaks(body: &Body, inst: InstId) -> bool {
    body.insts[inst].op.regions().any(|region| {
        let mut found = false;
        for_each_exit(body, region, 0, &mut |exit, inside| {
            found |= inside == 0 && matches!(body.insts[exit].op, Op::Break { depth: 0, .. });
        });
        found && matches!(body.insts[inst].op, Op::If { .. })
    })
}

/// True if every `break` of the loop whose region this is can become a `yield` without copying
/// code: none is inside another loop, and of every `if` that has one at most one arm goes on behind
/// it.
fn breaks_in_tail_position(body: &Body, region: BlockId) -> bool {
    let mut inside_loops = false;
    for_each_exit(body, region, 0, &mut |exit, inside| {
        inside_loops |=
            inside > 0 && matches!(body.insts[exit].op, Op::Break { depth, .. } if depth == inside);
    });
    !inside_loops && one_arm_goes_on(body, region)
}

fn one_arm_goes_on(body: &Body, region: BlockId) -> bool {
    body.blocks[region].insts.iter().all(|inst| match body.insts[*inst].op {
        Op::If { then, other, .. } if has_breaks(body, *inst) => {
            (leaves(body, then) || leaves(body, other))
                && one_arm_goes_on(body, then)
                && one_arm_goes_on(body, other)
        }
        _ => true,
    })
}
