//! Which values are live where, and which may therefore not share a C variable.
//!
//! Backward over the structured body: `live` is the set of values some later op on the path still
//! needs. At the definition of a value everything else that is live interferes with it. A copy from
//! region to region (`yield`, `break`, `continue`, a loop's first entry) defines its targets there:
//! they interfere with what stays live, but not with their sources, which is what lets a variable
//! that is updated in place be one C variable. Results of what is printed in several steps
//! interfere with its operands, but for the aggregate that is updated.
//!
//! Loops are walked until the live set at their head no longer grows; sets only grow and are
//! finite, and each walk is linear in the body, so with nesting depth d the cost is O(d · size ·
//! live).

use std::collections::{BTreeSet, HashMap};

use nicforge_ir::{BlockId, Body, InstId, Op, Proj, ValueId};

/// Pairs of values that are live at the same time.
#[derive(Default)]
pub struct Interference {
    edges: HashMap<ValueId, BTreeSet<ValueId>>,
}

impl Interference {
    /// True if two values must not share a variable.
    pub fn conflict(&self, a: ValueId, b: ValueId) -> bool {
        self.edges.get(&a).is_some_and(|set| set.contains(&b))
    }

    /// Neighbours of a value.
    pub fn of(&self, value: ValueId) -> impl Iterator<Item = ValueId> + '_ {
        self.edges.get(&value).into_iter().flatten().copied()
    }

    fn add(&mut self, a: ValueId, b: ValueId) {
        if a != b {
            self.edges.entry(a).or_default().insert(b);
            self.edges.entry(b).or_default().insert(a);
        }
    }

    /// Makes `a` conflict with all that `b` conflicts with, when the two become one variable.
    pub fn merge(&mut self, a: ValueId, b: ValueId) {
        for other in self.edges.get(&b).cloned().unwrap_or_default() {
            self.add(a, other);
        }
    }
}

type Live = BTreeSet<ValueId>;

struct LoopFrame {
    /// Live behind the loop, without its results.
    after: Live,
    results: Vec<ValueId>,
    /// Live at the head, without the carried values.
    head: Live,
    params: Vec<ValueId>,
}

struct Walk<'a> {
    body: &'a Body,
    /// What an op reads, with inlined expressions replaced by what they read.
    uses: &'a dyn Fn(InstId) -> Vec<ValueId>,
    /// True if an instruction is printed where its result is used, and defines nothing.
    inlined: &'a dyn Fn(InstId) -> bool,
    found: Interference,
    loops: Vec<LoopFrame>,
}

/// The interference of all values of `body`. `uses` gives what an instruction reads.
pub fn interference(
    body: &Body,
    uses: &dyn Fn(InstId) -> Vec<ValueId>,
    inlined: &dyn Fn(InstId) -> bool,
) -> Interference {
    let mut walk = Walk { body, uses, inlined, found: Interference::default(), loops: Vec::new() };
    let live = walk.block(body.entry(), Live::new(), &[]);
    walk.define(&body.blocks[body.entry()].params, &live);
    walk.found
}

impl Walk<'_> {
    fn define(&mut self, values: &[ValueId], live: &Live) {
        for (i, value) in values.iter().enumerate() {
            for other in live.iter().chain(&values[..i]) {
                self.found.add(*value, *other);
            }
        }
    }

    /// Where an instruction is printed in several steps, the first may write a result before a
    /// later one reads an operand.
    fn keep_apart(&mut self, inst: InstId) {
        let data = &self.body.insts[inst];
        let computed = |path: &[Proj]| path.iter().any(|step| matches!(step, Proj::Index(_)));
        let updated = match &data.op {
            Op::Set { agg, .. } => Some(*agg),
            Op::Get { path, .. } if computed(path) => None,
            Op::ConstElem { .. } => None,
            op if !op.effects().is_pure() => None,
            _ => return,
        };
        for operand in (self.uses)(inst).into_iter().filter(|operand| Some(*operand) != updated) {
            data.results.iter().for_each(|result| self.found.add(*result, operand));
        }
    }

    /// Live before `block`, given what is live behind the `if` it belongs to; its `yield` defines
    /// `targets`.
    fn block(&mut self, block: BlockId, after: Live, targets: &[ValueId]) -> Live {
        let mut live = after;
        for &inst in self.body.blocks[block].insts.iter().rev() {
            if (self.inlined)(inst) {
                continue;
            }
            let data = &self.body.insts[inst];
            match &data.op {
                Op::Yield(_) => self.define(targets, &live),
                Op::Return(_) => live.clear(),
                Op::Break { depth, .. } => {
                    let frame = &self.loops[self.loops.len() - 1 - *depth as usize];
                    live = frame.after.clone();
                    let results = frame.results.clone();
                    self.define(&results, &live);
                }
                Op::Continue { depth, .. } => {
                    let frame = &self.loops[self.loops.len() - 1 - *depth as usize];
                    live = frame.head.clone();
                    // The last trip leaves with the carried values, so what is live behind the loop
                    // is live here.
                    live.extend(frame.after.iter().copied());
                    let params = frame.params.clone();
                    self.define(&params, &live);
                }
                Op::If { then, other, .. } => {
                    for result in &data.results {
                        live.remove(result);
                    }
                    let mut before = self.block(*then, live.clone(), &data.results);
                    before.extend(self.block(*other, live, &data.results));
                    live = before;
                }
                Op::Loop { body, .. } => live = self.walk_loop(inst, *body, live),
                _ => {
                    for result in &data.results {
                        live.remove(result);
                    }
                    self.define(&data.results, &live);
                    self.keep_apart(inst);
                }
            }
            live.extend((self.uses)(inst));
        }
        live
    }

    fn walk_loop(&mut self, inst: InstId, body: BlockId, mut after: Live) -> Live {
        let results = self.body.insts[inst].results.clone();
        let params = self.body.blocks[body].params.clone();
        for result in &results {
            after.remove(result);
        }
        // Running out of trips copies the carried values to the results.
        self.define(&results, &after);
        let mut head = Live::new();
        loop {
            self.loops.push(LoopFrame {
                after: after.clone(),
                results: results.clone(),
                head: head.clone(),
                params: params.clone(),
            });
            let mut next = self.block(body, Live::new(), &[]);
            self.loops.pop();
            for param in &params {
                next.remove(param);
            }
            next.extend(after.iter().copied());
            if next == head {
                break;
            }
            head = next;
        }
        self.define(&params, &head);
        head
    }
}
