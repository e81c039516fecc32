//! Which slots matter where, and the removal of assignments nobody reads.
//!
//! Two backward analyses on the static graph (a slot is live if a later step may read it; an
//! assignment to a dead slot goes) and one that ignores order: a slot *steers* if its value can
//! reach an address. Nodes of the unrolled program are kept apart by the constants of live slots;
//! where there would be too many nodes, only steering slots keep theirs.

use crate::graph::{BlockId, Effect, Expr, Graph, Next, Slot};

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots(Vec<u64>);

impl Slots {
    pub fn new(count: usize) -> Slots {
        Slots(vec![0; count.div_ceil(64)])
    }

    pub fn contains(&self, slot: Slot) -> bool {
        self.0[slot.0 as usize / 64] >> (slot.0 % 64) & 1 != 0
    }

    pub fn insert(&mut self, slot: Slot) -> bool {
        let word = &mut self.0[slot.0 as usize / 64];
        let before = *word;
        *word |= 1 << (slot.0 % 64);
        *word != before
    }

    pub fn remove(&mut self, slot: Slot) {
        self.0[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
    }

    fn merge(&mut self, other: &Slots) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            changed |= *theirs & !*mine != 0;
            *mine |= theirs;
        }
        changed
    }
}

fn reads(effect: &Effect, f: &mut dyn FnMut(Slot)) {
    match effect {
        Effect::Set(_, value) => value.slots(f),
        Effect::Load { address, .. } | Effect::Access { address, .. } => address.slots(f),
        Effect::Call { slots, .. } => slots[1..].iter().for_each(|slot| f(*slot)),
        Effect::Fill(value)
        | Effect::Delay(value)
        | Effect::Presume(value)
        | Effect::Returns(value, _) => value.slots(f),
        Effect::Forget(slot) => f(*slot),
        Effect::Open(_) => {}
        Effect::Store { address, value, .. } => {
            address.slots(f);
            value.slots(f);
        }
    }
}

/// Goes backwards over a block; `keep` hears for every effect whether its result is read.
fn backwards(
    graph: &Graph,
    block: usize,
    live: &mut Slots,
    keep: &mut dyn FnMut(usize, usize, bool),
) {
    let block = &graph.blocks[block];
    for slot in graph.unchecked.iter().flat_map(|unchecked| &unchecked.kept) {
        live.insert(*slot);
    }
    if let Next::Branch { cond: value, .. } | Next::Switch { value, .. } = &block.next {
        value.slots(&mut |slot| {
            live.insert(slot);
        });
    }
    for (s, step) in block.steps.iter().enumerate().rev() {
        for (e, effect) in step.effects.iter().enumerate().rev() {
            let wanted = match effect {
                Effect::Set(slot, _) | Effect::Load { slot, .. } => {
                    // Loads of devices do something.
                    let acts = graph.unchecked.is_some() && matches!(effect, Effect::Load { .. });
                    let wanted = live.contains(*slot) || acts;
                    live.remove(*slot);
                    wanted
                }
                Effect::Call { slots, .. } => {
                    slots.iter().for_each(|slot| live.remove(*slot));
                    true
                }
                _ => true,
            };
            keep(s, e, wanted);
            if wanted {
                reads(effect, &mut |slot| {
                    live.insert(slot);
                });
            }
        }
    }
}

/// Removes what is dead; gives the slots that are live at the start of every block.
pub fn prune(graph: &mut Graph) -> Vec<Slots> {
    let count = graph.slots.len();
    let mut at = vec![Slots::new(count); graph.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..graph.blocks.len()).rev() {
            let mut live = Slots::new(count);
            for next in graph.successors(BlockId(block as u32)) {
                live.merge(&at[next.0 as usize]);
            }
            backwards(graph, block, &mut live, &mut |_, _, _| {});
            changed |= at[block].merge(&live);
        }
    }
    for block in 0..graph.blocks.len() {
        let mut live = Slots::new(count);
        for next in graph.successors(BlockId(block as u32)) {
            live.merge(&at[next.0 as usize]);
        }
        let mut dead = Vec::new();
        backwards(graph, block, &mut live, &mut |step, effect, wanted| {
            if !wanted {
                dead.push((step, effect));
            }
        });
        // In reverse order, so removing does not move what is still to go.
        for (step, effect) in dead {
            graph.blocks[block].steps[step].effects.remove(effect);
        }
    }
    at
}

/// Slots that reach addresses or the conditions of `deciding` blocks.
pub fn steering(graph: &Graph, deciding: &[bool]) -> Slots {
    let mut set = Slots::new(graph.slots.len());
    let mut queue = Vec::new();
    let mut mark = |expr: &Expr, set: &mut Slots| {
        expr.slots(&mut |slot| {
            if set.insert(slot) {
                queue.push(slot);
            }
        });
    };
    for (block, deciding) in graph.blocks.iter().zip(deciding) {
        match &block.next {
            Next::Branch { cond, .. } if *deciding => mark(cond, &mut set),
            Next::Switch { value, .. } => mark(value, &mut set),
            _ => {}
        }
        for effect in block.steps.iter().flat_map(|step| &step.effects) {
            if let Effect::Load { address, .. }
            | Effect::Store { address, .. }
            | Effect::Fill(address) = effect
            {
                mark(address, &mut set);
            }
        }
    }
    let mut sources: Vec<Vec<Slot>> = vec![Vec::new(); graph.slots.len()];
    for effect in graph.blocks.iter().flat_map(|block| &block.steps).flat_map(|step| &step.effects)
    {
        if let Effect::Set(slot, value) = effect {
            value.slots(&mut |source| sources[slot.0 as usize].push(source));
        }
    }
    while let Some(slot) = queue.pop() {
        for source in &sources[slot.0 as usize] {
            if set.insert(*source) {
                queue.push(*source);
            }
        }
    }
    set
}
