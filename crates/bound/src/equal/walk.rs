//! Follows a program path by path. States wait on a stack; a branch that the path leaves open makes
//! two of one.

use std::collections::HashSet;

use crate::graph::{BlockId, Effect, Graph, Next, Slot};
use crate::values;

use super::Prover;
use super::side::Side;
use super::state::{End, State};

/// Most steps of a path.
const MOST_STEPS: u64 = 200_000;

/// A program that is followed.
pub struct Walker<'a> {
    side: &'a Side,
    graph: &'a Graph,
    waiting: Vec<State>,
}

impl<'a> Walker<'a> {
    /// From a state on.
    pub fn new(side: &'a Side, graph: &'a Graph, from: State) -> Walker<'a> {
        Walker { side, graph, waiting: vec![from] }
    }

    /// The next path's end; none are left, or the time is over.
    pub fn next(&mut self, prover: &mut Prover) -> Option<State> {
        while let Some(mut state) = self.waiting.pop() {
            if state.end.is_some() {
                return Some(state);
            }
            if prover.over() {
                return None;
            }
            state.steps += 1;
            if state.steps > MOST_STEPS {
                return Some(state.stuck(format!("a path of more than {MOST_STEPS} steps")));
            }
            let ways = self.step(prover, state);
            self.waiting.extend(ways.into_iter().rev());
        }
        None
    }

    /// The next path's end, of which the ways into blocks that were not seen are followed first.
    pub fn next_new(&mut self, prover: &mut Prover, seen: &mut HashSet<BlockId>) -> Option<State> {
        while !prover.over() {
            let new = |state: &State| state.end.is_some() || !seen.contains(&state.block);
            let at = self.waiting.iter().rposition(new).or(self.waiting.len().checked_sub(1))?;
            let state = self.waiting.remove(at);
            if state.end.is_some() {
                return Some(state);
            }
            // A block at a time: who waits within one would be taken for seen.
            let block = state.block;
            seen.insert(block);
            let mut here = vec![state];
            while let Some(mut state) = here.pop() {
                state.steps += 1;
                if state.end.is_some() || state.block != block {
                    self.waiting.push(state);
                } else if prover.over() {
                    return None;
                } else if state.steps <= MOST_STEPS {
                    here.extend(self.step(prover, state).into_iter().rev());
                }
            }
        }
        None
    }

    /// One step, or the end of a block.
    fn step(&self, prover: &mut Prover, mut state: State) -> Vec<State> {
        let block = &self.graph.blocks[state.block.0 as usize];
        let (at, mut from) = state.at;
        let Some(step) = block.steps.get(at) else { return self.next_block(prover, state) };
        while let Some(effect) = step.effects.get(from) {
            match effect {
                Effect::Set(slot, value) => {
                    let value =
                        values::evaluate(&mut prover.terms, self.graph, &mut state.slots, value);
                    state.slots[slot.0 as usize] = Some(value);
                }
                Effect::Load { slot, address, bytes } => {
                    let address =
                        values::evaluate(&mut prover.terms, self.graph, &mut state.slots, address);
                    state.at = (at, from);
                    let value = match prover.load(state, address, *bytes) {
                        Ok((same, value)) => {
                            state = same;
                            value
                        }
                        Err(ways) => return ways,
                    };
                    let bits = self.graph.slots[slot.0 as usize];
                    state.slots[slot.0 as usize] = Some(prover.terms.zext(value, bits));
                }
                Effect::Store { address, bytes, value } => {
                    let address =
                        values::evaluate(&mut prover.terms, self.graph, &mut state.slots, address);
                    let value =
                        values::evaluate(&mut prover.terms, self.graph, &mut state.slots, value);
                    debug_assert_eq!(prover.terms.bits(value), 8 * bytes);
                    state.at = (at, from);
                    state = match prover.store(state, address, value) {
                        Ok(state) => state,
                        Err(ways) => return ways,
                    };
                }
                Effect::Call { helper, .. } => {
                    let place = step.place as usize;
                    state.at = (at, from);
                    return match prover.call(self.side, state, place, *helper) {
                        Ok(mut done) => {
                            done.iter_mut().for_each(|state| state.at = (at, from + 1));
                            done
                        }
                        Err(again) => again,
                    };
                }
                Effect::Presume(condition) => {
                    let slots = &mut state.slots;
                    let condition =
                        values::evaluate(&mut prover.terms, self.graph, slots, condition);
                    state.at = (at, from + 1);
                    let [holds, _] = prover.branch(state, condition);
                    return holds.into_iter().collect();
                }
                Effect::Forget(slot) => {
                    let value = &mut state.slots[slot.0 as usize];
                    *value = value.map(|value| prover.terms.opaque(value));
                }
                Effect::Open(reason) => {
                    let place = self.graph.describe(step.place);
                    return vec![state.stuck(format!("{place}: {reason}"))];
                }
                _ => return vec![state.stuck("an effect that is not followed")],
            }
            from += 1;
        }
        state.at = (at + 1, 0);
        vec![state]
    }

    fn next_block(&self, prover: &mut Prover, mut state: State) -> Vec<State> {
        state.at = (0, 0);
        match &self.graph.blocks[state.block.0 as usize].next {
            Next::Goto(to) => {
                state.block = *to;
                vec![state]
            }
            Next::Branch { cond, taken, fall } => {
                let cond = values::evaluate(&mut prover.terms, self.graph, &mut state.slots, cond);
                let ways = prover.branch(state, cond);
                let go = |(way, to)| {
                    let way: Option<State> = way;
                    way.map(|mut state| {
                        state.block = to;
                        state
                    })
                };
                ways.into_iter().zip([*taken, *fall]).filter_map(go).collect()
            }
            Next::Exit => {
                let verdict = values::evaluate(
                    &mut prover.terms,
                    self.graph,
                    &mut state.slots,
                    &crate::graph::Expr::Slot(Slot(0)),
                );
                let verdict = prover.terms.extract(verdict, 0, 32);
                vec![state.ended(End::Verdict(verdict))]
            }
            Next::Switch { .. } => vec![state.stuck("a jump through a table")],
        }
    }
}

impl Prover<'_> {
    /// A state with a condition, and one without it.
    pub fn branch(&mut self, mut state: State, condition: crate::term::Term) -> [Option<State>; 2] {
        let path = std::mem::take(&mut state.path);
        let [yes, no] = self.ways(path, condition);
        match (yes, no) {
            (Some(yes), Some(no)) => {
                let other = State { path: no, ..state.clone() };
                state.path = yes;
                [Some(state), Some(other)]
            }
            (Some(path), None) => [Some(State { path, ..state }), None],
            (None, Some(path)) => [None, Some(State { path, ..state })],
            (None, None) => [None, None],
        }
    }

    /// A state for each value of a term, or a stuck one if there are many.
    pub fn split(
        &mut self,
        state: State,
        term: crate::term::Term,
        what: &str,
    ) -> Vec<(u64, State)> {
        match self.values(&state.path, term, super::MOST_VALUES) {
            None => vec![(0, state.stuck(format!("{what} may be too much")))],
            Some(list) => list
                .into_iter()
                .map(|(value, path)| (value, State { path, ..state.clone() }))
                .collect(),
        }
    }
}
