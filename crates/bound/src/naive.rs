//! A bound before anything is unrolled: the longest way through the blocks as they stand.
//!
//! Waits count in full, since nothing is known of the cycles before. Blocks outside of loops are on
//! one way once, so the longest way over forward edges holds for them. Blocks inside of loops are
//! executed as often as the kernel's verifier lets them be: it walks every instruction of every way
//! and gives up after a million ([`Walked`](crate::graph::Walked)). Cost: linear in the graph.

use std::collections::HashMap;

use nicforge_isa::nfp::cost::LEAST_WAIT;

use crate::graph::{Block, BlockId, Graph, Step};
use crate::loops::Loops;
use crate::timing::Work;

/// No packet causes more work than this; `None` if a loop has no known end.
pub fn most(graph: &Graph) -> Option<Work> {
    if graph.unchecked.is_some() {
        return None;
    }
    let Ok(loops) = Loops::find(graph) else {
        return inside_loops(graph, |_| true);
    };
    let once = |block: usize| loops.around[block].is_empty();
    let reached = |block: usize| loops.order[block] != u32::MAX;
    let mut order: Vec<usize> = (0..graph.blocks.len()).filter(|block| reached(*block)).collect();
    order.sort_unstable_by_key(|block| loops.order[*block]);
    let repeated = match order.iter().all(|block| once(*block)) {
        true => Work::default(),
        false => inside_loops(graph, |block| reached(block) && !once(block))?,
    };
    let mut ahead = vec![Work::default(); graph.blocks.len()];
    for block in order.into_iter().rev() {
        let mut longest = Work::default();
        for to in graph.successors(BlockId(block as u32)) {
            if loops.order[to.0 as usize] > loops.order[block] {
                let rest = ahead[to.0 as usize];
                longest.milli = longest.milli.max(rest.milli);
                longest.micro = longest.micro.max(rest.micro);
            }
        }
        let own = if once(block) { whole(&graph.blocks[block]) } else { Work::default() };
        ahead[block] = own.plus(longest);
    }
    Some(ahead[graph.entry.0 as usize].plus(repeated))
}

/// The dearest instruction of some blocks, as often as any may be executed.
fn inside_loops(graph: &Graph, inside: impl Fn(usize) -> bool) -> Option<Work> {
    let walked = graph.walked.as_ref()?;
    let mut places: HashMap<u32, Work> = HashMap::new();
    let blocks = graph.blocks.iter().enumerate().filter(|(block, _)| inside(*block));
    for (_, block) in blocks {
        let mut own: HashMap<u32, Work> = HashMap::new();
        for step in &block.steps {
            let sum = own.entry(step.place).or_default();
            *sum = sum.plus(work(step));
        }
        let end = block.place.or(block.steps.last().map(|step| step.place)).unwrap_or(0);
        let sum = own.entry(end).or_default();
        *sum = sum.plus(way_out(block));
        for (place, work) in own {
            let most = places.entry(place).or_default();
            most.milli = most.milli.max(work.milli);
            most.micro = most.micro.max(work.micro);
        }
    }
    let mut insns: HashMap<u32, Work> = HashMap::new();
    for (place, work) in places {
        let insn = walked.part_of.get(place as usize).copied().unwrap_or(place);
        let sum = insns.entry(insn).or_default();
        *sum = sum.plus(work);
    }
    let dearest = |of: fn(&Work) -> u64| insns.values().map(of).max().unwrap_or(0) * walked.most;
    Some(Work { milli: dearest(|work| work.milli), micro: dearest(|work| work.micro) })
}

fn whole(block: &Block) -> Work {
    block.steps.iter().map(work).fold(way_out(block), Work::plus)
}

fn work(step: &Step) -> Work {
    let milli = match step.cost.latency {
        Some(latency) => 1000 * u64::from(latency.max(LEAST_WAIT)),
        None => step.cost.milli,
    };
    Work { milli, micro: step.cost.engine_micro }
}

fn way_out(block: &Block) -> Work {
    let branch = block.branch;
    Work { milli: branch.fall.max(branch.taken + branch.fresh), micro: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{BranchCost, Cost, Expr, Next, Walked};

    fn block(cycles: &[u64], to: &[u32]) -> Block {
        let step = |cycles: &u64| Step {
            effects: Vec::new(),
            cost: Cost::cycles(*cycles),
            place: *cycles as u32,
        };
        let next = match to {
            [] => Next::Exit,
            [a] => Next::Goto(BlockId(*a)),
            [a, b, ..] => {
                Next::Branch { cond: Expr::Fresh(1), taken: BlockId(*a), fall: BlockId(*b) }
            }
        };
        let steps = cycles.iter().map(step).collect();
        Block { steps, next, branch: BranchCost::default(), place: None }
    }

    #[test]
    fn the_longer_of_two_ways_counts() {
        let blocks =
            vec![block(&[1], &[1, 2]), block(&[5], &[3]), block(&[7], &[3]), block(&[2], &[])];
        let graph = Graph { blocks, ..Graph::default() };
        assert_eq!(most(&graph), Some(Work { milli: 10_000, micro: 0 }));
    }

    #[test]
    fn loops_count_as_often_as_the_verifier_walks() {
        let blocks = vec![block(&[1], &[1]), block(&[3, 4], &[1, 2]), block(&[2], &[])];
        let mut graph = Graph { blocks, ..Graph::default() };
        assert_eq!(most(&graph), None);
        graph.walked = Some(Walked { most: 10, part_of: Vec::new() });
        assert_eq!(most(&graph), Some(Work { milli: 43_000, micro: 0 }));
        graph.walked = Some(Walked { most: 10, part_of: vec![0; 5] });
        assert_eq!(most(&graph), Some(Work { milli: 73_000, micro: 0 }));
    }
}
