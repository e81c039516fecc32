//! Loops of the static graph, and the order in which the unrolled program is walked.
//!
//! A position names a block in an iteration of each loop around it: the headers and iteration
//! numbers from the outermost loop inwards, then the block, all by their place in reverse
//! postorder. Compared lexicographically, every edge of a reducible graph leads to a later
//! position, so walking positions in order visits every node after all its predecessors.

use crate::graph::{BlockId, Graph};

/// Where a node of the unrolled program is; see the head of this file.
pub type Position = Vec<u32>;

/// The loops of a graph.
pub struct Loops {
    /// Place of each block in reverse postorder; `u32::MAX` if it cannot be reached.
    pub order: Vec<u32>,
    /// Headers of the loops around each block, outermost first; a header is in its own loop.
    pub around: Vec<Vec<BlockId>>,
}

impl Loops {
    /// Finds the loops.
    ///
    /// # Errors
    /// A block that is entered from several sides of a loop (irreducible control flow).
    pub fn find(graph: &Graph) -> Result<Loops, BlockId> {
        let count = graph.blocks.len();
        let mut order = vec![u32::MAX; count];
        let post = graph.reverse_postorder();
        for (place, block) in post.iter().enumerate() {
            order[block.0 as usize] = place as u32;
        }
        let dominator = dominators(graph, &post, &order);
        let dominates = |a: u32, mut b: u32| {
            while b > a {
                b = dominator[b as usize];
            }
            a == b
        };
        let mut predecessors: Vec<Vec<BlockId>> = vec![Vec::new(); count];
        for block in &post {
            for to in graph.successors(*block) {
                predecessors[to.0 as usize].push(*block);
            }
        }
        let mut around: Vec<Vec<BlockId>> = vec![Vec::new(); count];
        // Outer headers come first in reverse postorder, so lists grow inwards.
        for header in &post {
            let place = order[header.0 as usize];
            let mut inside = vec![false; count];
            let mut queue = Vec::new();
            for from in &predecessors[header.0 as usize] {
                let at = order[from.0 as usize];
                if at >= place {
                    if !dominates(place, at) {
                        return Err(*header);
                    }
                    queue.push(*from);
                }
            }
            if queue.is_empty() {
                continue;
            }
            inside[header.0 as usize] = true;
            while let Some(block) = queue.pop() {
                if !std::mem::replace(&mut inside[block.0 as usize], true) {
                    queue.extend(&predecessors[block.0 as usize]);
                }
            }
            for (block, _) in inside.iter().enumerate().filter(|(_, inside)| **inside) {
                around[block].push(*header);
            }
        }
        Ok(Loops { order, around })
    }

    /// The position an edge leads to.
    pub fn advance(&self, from: BlockId, position: &[u32], to: BlockId) -> Position {
        let (old, new) = (&self.around[from.0 as usize], &self.around[to.0 as usize]);
        let mut next = Vec::with_capacity(2 * new.len() + 1);
        for (depth, header) in new.iter().enumerate() {
            let kept = old.get(depth) == Some(header);
            let iteration = if kept { position[2 * depth + 1] } else { 0 };
            // An edge to a header from inside its loop begins the next iteration.
            let again = u32::from(kept && *header == to);
            next.extend([self.order[header.0 as usize], iteration + again]);
            if !kept {
                debug_assert_eq!(depth + 1, new.len(), "a loop is entered by its header");
            }
        }
        next.push(self.order[to.0 as usize]);
        next
    }

    /// The first position.
    pub fn first(&self, entry: BlockId) -> Position {
        let mut position = Vec::new();
        for header in &self.around[entry.0 as usize] {
            position.extend([self.order[header.0 as usize], 0]);
        }
        position.push(self.order[entry.0 as usize]);
        position
    }

    /// True if an edge leaves a loop.
    pub fn leaves(&self, from: BlockId, to: BlockId) -> bool {
        let inner = self.around[from.0 as usize].last();
        inner.is_some_and(|header| !self.around[to.0 as usize].contains(header))
    }
}

/// Immediate dominators, by place in reverse postorder (Cooper, Harvey, Kennedy: A Simple, Fast
/// Dominance Algorithm).
fn dominators(graph: &Graph, post: &[BlockId], order: &[u32]) -> Vec<u32> {
    let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); post.len()];
    for (place, block) in post.iter().enumerate() {
        for to in graph.successors(*block) {
            predecessors[order[to.0 as usize] as usize].push(place as u32);
        }
    }
    let mut dominator = vec![u32::MAX; post.len()];
    dominator[0] = 0;
    let mut changed = true;
    while changed {
        changed = false;
        for place in 1..post.len() {
            let mut new = u32::MAX;
            for &from in
                predecessors[place].iter().filter(|from| dominator[**from as usize] != u32::MAX)
            {
                let mut a = from;
                if new == u32::MAX {
                    new = a;
                    continue;
                }
                while a != new {
                    while a > new {
                        a = dominator[a as usize];
                    }
                    while new > a {
                        new = dominator[new as usize];
                    }
                }
            }
            changed |= dominator[place] != new;
            dominator[place] = new;
        }
    }
    dominator
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Block, BranchCost, Expr, Next};

    fn graph(edges: &[&[u32]]) -> Graph {
        let block = |to: &&[u32]| {
            let next = match to {
                [] => Next::Exit,
                [a] => Next::Goto(BlockId(*a)),
                [a, b, ..] => {
                    Next::Branch { cond: Expr::Fresh(1), taken: BlockId(*a), fall: BlockId(*b) }
                }
            };
            Block { steps: Vec::new(), next, branch: BranchCost::default(), place: None }
        };
        Graph { blocks: edges.iter().map(block).collect(), ..Graph::default() }
    }

    #[test]
    fn nested_loops_have_lexicographic_positions() {
        // 0 -> 1 (outer) -> 2 (inner) -> 2 | 3 -> 1 | 4
        let graph = graph(&[&[1], &[2], &[2, 3], &[1, 4], &[]]);
        let loops = Loops::find(&graph).unwrap();
        assert_eq!(loops.around[2], [BlockId(1), BlockId(2)]);
        let mut position = loops.first(BlockId(0));
        let mut at = BlockId(0);
        for to in [1, 2, 2, 2, 3, 1, 2, 3, 4] {
            let next = loops.advance(at, &position, BlockId(to));
            assert!(next > position, "{position:?} -> {next:?}");
            (position, at) = (next, BlockId(to));
        }
        assert!(loops.leaves(BlockId(2), BlockId(3)));
    }

    #[test]
    fn irreducible_flow_is_refused() {
        assert!(Loops::find(&graph(&[&[1, 2], &[2], &[1]])).is_err());
    }
}
