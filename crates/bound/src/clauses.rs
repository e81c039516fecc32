//! What was learned about edges: combinations that no packet takes, or that only large packets
//! take.
//!
//! A clause is a set of edges in topological order. A path that has taken the first ones carries
//! the rest along (a residual); it is dropped when its next edge can no longer be reached, and
//! fires when its last edge is taken.

use std::collections::HashMap;
use std::rc::Rc;

use crate::unroll::Dag;

/// Consequences of a combination of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consequence {
    /// No packet takes them all.
    Impossible,
    /// Packets that take them all have at least so many bytes.
    Size(u64),
}

/// Edges still to come, and what follows then.
type Rest = (Rc<[u32]>, Consequence);

/// Names a set of residuals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId(pub u32);

/// All clauses, and the residuals that paths carry.
pub struct Clauses {
    /// Clauses by their first edge.
    first: HashMap<u32, Vec<u32>>,
    rests: Vec<Rest>,
    known: HashMap<Rest, u32>,
    sets: Vec<Rc<[u32]>>,
    known_sets: HashMap<Rc<[u32]>, SetId>,
    /// For nodes that residuals wait for: the nodes from which they can be reached.
    reaching: HashMap<u32, Vec<u64>>,
    /// Smallest size per edge, by clauses of one edge and by conditions on the size.
    pub smallest: Vec<u64>,
    pub largest: Vec<u64>,
    /// Edges no packet takes.
    pub dead: Vec<bool>,
    pub learned: u64,
    /// Unit clauses so far: each changes `smallest` and `dead`.
    pub units: u64,
}

/// The set without residuals.
pub const EMPTY: SetId = SetId(0);

impl Clauses {
    /// None but what conditions on the size say.
    pub fn new(dag: &Dag) -> Clauses {
        let none: Rc<[u32]> = Rc::from([]);
        Clauses {
            first: HashMap::new(),
            rests: Vec::new(),
            known: HashMap::new(),
            sets: vec![none.clone()],
            known_sets: HashMap::from([(none, EMPTY)]),
            reaching: HashMap::new(),
            smallest: dag.edges.iter().map(|edge| edge.size.0).collect(),
            largest: dag.edges.iter().map(|edge| edge.size.1).collect(),
            dead: vec![false; dag.edges.len()],
            learned: 0,
            units: 0,
        }
    }

    /// Learns a clause; its edges may come in any order.
    pub fn learn(&mut self, dag: &Dag, mut edges: Vec<u32>, consequence: Consequence) {
        edges.sort_unstable_by_key(|edge| dag.edges[*edge as usize].from);
        edges.dedup();
        self.learned += 1;
        self.units += u64::from(edges.len() == 1);
        match (&edges[..], consequence) {
            ([edge], Consequence::Impossible) => self.dead[*edge as usize] = true,
            ([edge], Consequence::Size(size)) => {
                let smallest = &mut self.smallest[*edge as usize];
                *smallest = size.max(*smallest);
            }
            _ => {
                let first = edges[0];
                let rest = self.rest(edges.into(), consequence);
                let list = self.first.entry(first).or_default();
                if !list.contains(&rest) {
                    list.push(rest);
                }
            }
        }
    }

    fn rest(&mut self, edges: Rc<[u32]>, consequence: Consequence) -> u32 {
        let rest = (edges, consequence);
        if let Some(known) = self.known.get(&rest) {
            return *known;
        }
        let id = self.rests.len() as u32;
        self.rests.push(rest.clone());
        self.known.insert(rest, id);
        id
    }

    fn reaches(&mut self, dag: &Dag, from: u32, target: u32) -> bool {
        let set = self.reaching.entry(target).or_insert_with(|| {
            let mut set = vec![0u64; dag.nodes.len().div_ceil(64)];
            let mut queue = vec![target];
            while let Some(node) = queue.pop() {
                let word = &mut set[node as usize / 64];
                if *word >> (node % 64) & 1 == 0 {
                    *word |= 1 << (node % 64);
                    queue.extend(
                        dag.nodes[node as usize]
                            .into
                            .iter()
                            .map(|edge| dag.edges[*edge as usize].from),
                    );
                }
            }
            set
        });
        set[from as usize / 64] >> (from % 64) & 1 != 0
    }

    /// What a path carries after an edge, and the packet size it then needs; `None` if no packet
    /// takes the edge there.
    pub fn take(
        &mut self,
        dag: &Dag,
        set: SetId,
        edge: u32,
        mut size: u64,
    ) -> Option<(SetId, u64)> {
        if self.dead[edge as usize] {
            return None;
        }
        size = size.max(self.smallest[edge as usize]);
        let carried = self.sets[set.0 as usize].clone();
        let begun = self.first.get(&edge);
        if carried.is_empty() && begun.is_none() {
            return Some((EMPTY, size));
        }
        let mut next: Vec<u32> = Vec::new();
        let candidates: Vec<u32> =
            carried.iter().chain(begun.into_iter().flatten()).copied().collect();
        for id in candidates {
            let (edges, consequence) = self.rests[id as usize].clone();
            let rest = if edges[0] == edge {
                if edges.len() == 1 {
                    match consequence {
                        Consequence::Impossible => return None,
                        Consequence::Size(least) => size = size.max(least),
                    }
                    continue;
                }
                self.rest(edges[1..].into(), consequence)
            } else {
                id
            };
            let waits = dag.edges[self.rests[rest as usize].0[0] as usize].from;
            let alive = dag.edges[edge as usize].to.is_some_and(|at| self.reaches(dag, at, waits));
            // A size that is needed anyway will not be news.
            let useful = !matches!(consequence, Consequence::Size(least) if least <= size);
            if alive && useful {
                next.push(rest);
            }
        }
        Some((self.set(next), size))
    }

    fn set(&mut self, mut rests: Vec<u32>) -> SetId {
        rests.sort_unstable();
        rests.dedup();
        if rests.len() > 1 && rests.len() <= 32 {
            self.drop_subsumed(&mut rests);
        }
        let rests: Rc<[u32]> = rests.into();
        if let Some(known) = self.known_sets.get(&rests) {
            return *known;
        }
        let id = SetId(self.sets.len() as u32);
        self.sets.push(rests.clone());
        self.known_sets.insert(rests, id);
        id
    }

    /// A residual that fires no later than another, with no less to say, makes the other one
    /// useless.
    fn drop_subsumed(&self, rests: &mut Vec<u32>) {
        let stronger = |a: Consequence, b: Consequence| match (a, b) {
            (Consequence::Impossible, _) => true,
            (Consequence::Size(x), Consequence::Size(y)) => x >= y,
            (Consequence::Size(_), Consequence::Impossible) => false,
        };
        let all = rests.clone();
        rests.retain(|id| {
            let (edges, consequence) = &self.rests[*id as usize];
            !all.iter().any(|other| {
                let (fewer, theirs) = &self.rests[*other as usize];
                other != id
                    && stronger(*theirs, *consequence)
                    && (fewer.len() < edges.len() || *theirs != *consequence || fewer != edges)
                    && is_part(fewer, edges)
                    && !(fewer.len() == edges.len() && theirs == consequence)
            })
        });
    }

    /// Tells whether a whole path contains a combination that is impossible, and the size it needs
    /// otherwise.
    pub fn judge(&mut self, dag: &Dag, path: &[u32], smallest: u64) -> Option<u64> {
        let (mut set, mut size) = (EMPTY, smallest);
        let mut most = u64::MAX;
        for edge in path {
            (set, size) = self.take(dag, set, *edge, size)?;
            most = most.min(self.largest[*edge as usize]);
        }
        (size <= most).then_some(size)
    }
}

/// Tells whether all of `few` are among `many`. Both stand in the order of a path, and edges of a
/// graph without cycles have one order on all paths.
fn is_part(few: &[u32], many: &[u32]) -> bool {
    let mut left = many.iter();
    few.iter().all(|edge| left.any(|other| other == edge))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_in_order() {
        assert!(is_part(&[], &[]) && is_part(&[], &[4]) && !is_part(&[4], &[]));
        assert!(is_part(&[2, 7], &[1, 2, 5, 7, 9]) && is_part(&[1, 9], &[1, 2, 5, 7, 9]));
        assert!(!is_part(&[2, 6], &[1, 2, 5, 7, 9]) && !is_part(&[1, 2, 3], &[1, 2]));
    }
}
