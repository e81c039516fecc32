//! Choosing a division: balanced as asked, then as few bytes carried as possible.
//!
//! Nodes that must lie in one stage by the rules of [`super::graph`] form groups (the strongly
//! connected components of the "if this, then that" graph, Tarjan 1972). A division is settled by
//! which groups lie upstream: a set closed under the rules. Pure nodes follow by a smallest cut,
//! which is exact.
//!
//! *Exact.* If there are at most [`MOST_SETS`] closed sets, all are looked at: each one's share is
//! estimated by the nodes it needs, and the [`MOST_CUTS`] that come closest to the wanted share get
//! their smallest cut. Handlers are mostly straight, so this is the rule.
//!
//! *Otherwise* (many independent branches) the closed sets looked at are the prefixes of one
//! topological order, the one that prefers what stands first in the program.
//!
//! Of the divisions within the tolerance the one that carries the fewest bytes wins; if there are
//! none, the one closest to the wanted share. Ties: closer to the share, then the set found first.
//! Nothing is random and no order depends on addresses or hashes, so a program always gives the
//! same cut. Nothing here is parametric: a sweep of weights in the network would find only
//! divisions on the convex hull of share and bytes, and closed sets are few. Work: for each of at
//! most three sets of rules [`MOST_CUTS`] maximum flows and [`MOST_SETS`] times groups steps.

use std::rc::Rc;

use super::Options;
use super::flow::SOURCE;
use super::graph::{Division, Graph, Rules};
use super::nodes::{NodeId, Work};

/// Closed sets that are enumerated.
pub const MOST_SETS: usize = 1024;
/// Maximum flows for one set of rules.
pub const MOST_CUTS: usize = 24;

/// A division with what decides between divisions.
#[derive(Clone, Debug)]
pub struct Choice {
    pub division: Rc<Division>,
    /// Upstream's part of the weight.
    pub share: f64,
    /// In [`super::graph::BYTE`]s and parts of it.
    pub cost: i64,
}

/// Groups, each after those it needs.
struct Groups {
    /// The nodes of each group that cannot be repeated.
    nodes: Vec<Vec<NodeId>>,
    /// Groups that a group needs, itself included.
    needs: Vec<Bits>,
    /// All nodes a group needs, repeatable ones included.
    reach: Vec<Bits>,
    /// Groups that must lie upstream.
    forced: Bits,
}

/// A set of small numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(size: usize) -> Bits {
        Bits(vec![0; size.div_ceil(64)])
    }
    fn add(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }
    fn has(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }
    fn join(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
    fn within(&self, other: &Bits) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }
    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                (word != 0).then(|| {
                    word &= word - 1;
                    at * 64 + bit as usize
                })
            })
        })
    }
}

impl Groups {
    fn new(graph: &Graph, work: &Work) -> Groups {
        let edges = graph.network.implications();
        let components = components(&edges);
        let mut node_at = vec![None; edges.len()];
        graph.x.iter().enumerate().for_each(|(node, vertex)| node_at[*vertex] = Some(node));
        let mut fixed = vec![false; work.nodes.len()];
        graph.sides.iter().for_each(|(node, ..)| fixed[*node] = true);
        // Components come after those they need; sets of nodes and groups add up along the edges,
        // and go with the last edge that wants them.
        let is_group = |component: &&Vec<usize>| {
            component.iter().any(|vertex| node_at[*vertex].is_some_and(|node| fixed[node]))
        };
        let most = components.iter().filter(is_group).count();
        let mut component_of = vec![0; edges.len()];
        for (id, component) in components.iter().enumerate() {
            component.iter().for_each(|vertex| component_of[*vertex] = id);
        }
        let mut wanted = vec![0u32; components.len()];
        for (vertex, to) in
            edges.iter().enumerate().flat_map(|(v, all)| all.iter().map(move |to| (v, to)))
        {
            if component_of[*to] != component_of[vertex] {
                wanted[component_of[*to]] += 1;
            }
        }
        let mut sets: Vec<(Bits, Bits)> = Vec::with_capacity(components.len());
        let mut groups = Groups {
            nodes: Vec::new(),
            needs: Vec::new(),
            reach: Vec::new(),
            forced: Bits::new(most),
        };
        for (id, component) in components.iter().enumerate() {
            let (mut nodes, mut needed) = (Bits::new(work.nodes.len()), Bits::new(most));
            for &vertex in component {
                if let Some(node) = node_at[vertex] {
                    nodes.add(node);
                }
                for &to in &edges[vertex] {
                    let other = component_of[to];
                    if other == id {
                        continue;
                    }
                    nodes.join(&sets[other].0);
                    needed.join(&sets[other].1);
                    wanted[other] -= 1;
                    if wanted[other] == 0 {
                        sets[other] = Default::default();
                    }
                }
            }
            let mut own: Vec<NodeId> =
                component.iter().filter_map(|v| node_at[*v]).filter(|node| fixed[*node]).collect();
            own.sort_unstable();
            if !own.is_empty() {
                needed.add(groups.nodes.len());
                groups.nodes.push(own);
                groups.needs.push(needed.clone());
                groups.reach.push(nodes.clone());
            }
            if component.contains(&SOURCE) {
                groups.forced = needed.clone();
            }
            let wanted = wanted[id] > 0;
            sets.push(if wanted { (nodes, needed) } else { Default::default() });
        }
        groups
    }

    /// The closed sets, as (groups, nodes needed).
    fn sets(&self, nodes: usize) -> Vec<(Bits, Bits)> {
        let mut found = Vec::new();
        let start = (Bits::new(self.forced.0.len() * 64), Bits::new(nodes));
        if self.enumerate(0, start.clone(), &mut found) { found } else { self.prefixes(start) }
    }

    /// Adds the closed sets that agree with the choice for the first `at` groups; false if there
    /// are too many.
    fn enumerate(&self, at: usize, set: (Bits, Bits), found: &mut Vec<(Bits, Bits)>) -> bool {
        if found.len() > MOST_SETS {
            return false;
        }
        // Groups that cannot be upstream any more need no choice, and leave no depth to recurse
        // into.
        let choice = (at..self.nodes.len()).find(|group| self.addable(*group, &set.0));
        let Some(group) = choice else {
            if self.forced.within(&set.0) {
                found.push(set);
            }
            return true;
        };
        let mut with = set.clone();
        with.0.add(group);
        with.1.join(&self.reach[group]);
        self.enumerate(group + 1, with, found)
            && (self.forced.has(group) || self.enumerate(group + 1, set, found))
    }

    /// True if all that a group needs but itself is in the set.
    fn addable(&self, group: usize, set: &Bits) -> bool {
        let mut with = set.clone();
        with.add(group);
        self.needs[group].within(&with)
    }

    fn prefixes(&self, start: (Bits, Bits)) -> Vec<(Bits, Bits)> {
        let mut left: Vec<usize> = (0..self.nodes.len()).collect();
        left.sort_by_key(|group| (!self.forced.has(*group), self.nodes[*group][0]));
        let (mut set, mut found) = (start.clone(), vec![start]);
        while let Some(at) = left.iter().position(|group| self.addable(*group, &set.0)) {
            let group = left.remove(at);
            set.0.add(group);
            set.1.join(&self.reach[group]);
            found.push(set.clone());
        }
        found.retain(|(groups, _)| self.forced.within(groups));
        found
    }
}

/// Strongly connected components, each after those it reaches (Tarjan, without recursion).
fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let (mut index, mut low) = (vec![NEW; edges.len()], vec![0; edges.len()]);
    let mut open = vec![false; edges.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..edges.len() {
        if index[root] != NEW {
            continue;
        }
        let mut work = vec![(root, 0)];
        while let Some(&mut (vertex, ref mut next)) = work.last_mut() {
            if *next == 0 {
                (index[vertex], low[vertex], open[vertex]) = (count, count, true);
                count += 1;
                stack.push(vertex);
            }
            match edges[vertex].get(*next) {
                Some(&to) => {
                    *next += 1;
                    if index[to] == NEW {
                        work.push((to, 0));
                    } else if open[to] {
                        low[vertex] = low[vertex].min(index[to]);
                    }
                }
                None => {
                    work.pop();
                    if let Some(&(before, _)) = work.last() {
                        low[before] = low[before].min(low[vertex]);
                    }
                    if low[vertex] == index[vertex] {
                        let start = stack.iter().rposition(|v| *v == vertex).unwrap_or(0);
                        let component = stack.split_off(start);
                        component.iter().for_each(|v| open[*v] = false);
                        found.push(component);
                    }
                }
            }
        }
    }
    found
}

/// Of the cheapest divisions those with the least and the most upstream, with what they cost.
type Cheapest = [(i64, Rc<Division>); 2];

/// The divisions under one set of rules: closed sets are listed once, and the smallest cut of a set
/// is found when it is first wanted.
pub struct Divider {
    pub rules: Rules,
    graph: Graph,
    groups: Groups,
    /// Closed sets, as (groups, nodes needed), that leave something on either side.
    sets: Vec<(Bits, Bits)>,
    /// By set, cheapest divisions: none if there is no cut.
    cuts: Vec<Option<Option<Cheapest>>>,
}

impl Divider {
    pub fn new(program: &nicforge_ir::Program, work: &Work, rules: Rules) -> Divider {
        let graph = Graph::new(program, work, rules);
        let groups = Groups::new(&graph, work);
        let all = groups.nodes.len();
        let mut sets = groups.sets(work.nodes.len());
        sets.retain(|(up, _)| !up.is_empty() && up.iter().count() < all);
        let cuts = sets.iter().map(|_| None).collect();
        Divider { rules, graph, groups, sets, cuts }
    }

    /// The divisions near the wanted share of `weight`, by node.
    pub fn choices(&mut self, weight: &[f64], options: &Options) -> Vec<Choice> {
        let total: f64 = weight.iter().sum();
        let heavy: Vec<usize> = (0..weight.len()).filter(|node| weight[*node] != 0.0).collect();
        let share = |nodes: &Bits| {
            heavy.iter().filter(|node| nodes.has(**node)).map(|node| weight[*node]).sum::<f64>()
                / total
        };
        let mut near: Vec<(f64, usize)> = self
            .sets
            .iter()
            .enumerate()
            .map(|(at, (_, nodes))| (share(nodes), at))
            .filter(|(share, _)| *share > 0.0 && *share < 1.0)
            .map(|(share, at)| ((share - options.balance).abs(), at))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let best = near.first().map_or(0.0, |(distance, _)| *distance);
        let mut found = Vec::new();
        for (rank, (distance, at)) in near.into_iter().take(MOST_CUTS).enumerate() {
            // The estimate leaves out pure nodes that may go either way, so some more than the
            // closest are tried.
            if rank >= 4 && distance > options.tolerance.max(best) {
                break;
            }
            for (cost, division) in self.divisions(at).iter().flatten() {
                let sum = |side: &[bool]| -> f64 {
                    weight.iter().zip(side).filter(|(_, on)| **on).map(|(w, _)| w).sum()
                };
                let (upstream, downstream) = (sum(&division.up), sum(&division.down));
                if upstream > 0.0 && downstream > 0.0 {
                    let share = upstream / (upstream + downstream);
                    found.push(Choice { division: division.clone(), share, cost: *cost });
                }
            }
        }
        found
    }

    /// The cheapest divisions with a set upstream.
    fn divisions(&mut self, set: usize) -> &Option<Cheapest> {
        let Divider { rules, graph, groups, sets, cuts } = self;
        cuts[set].get_or_insert_with(|| {
            let mut up = vec![false; graph.x.len()];
            sets[set]
                .0
                .iter()
                .flat_map(|group| &groups.nodes[group])
                .for_each(|node| up[*node] = true);
            let divisions = graph.divide(&|node| up[node], *rules)?;
            Some(divisions.map(|(cost, division)| (cost, Rc::new(division))))
        })
    }
}

/// The candidates, best first: the closest shares if none is within the tolerance.
pub fn ranked(mut candidates: Vec<Choice>, options: &Options) -> Vec<Choice> {
    let distance = |choice: &Choice| (choice.share - options.balance).abs();
    let bytes =
        |choice: &Choice| if distance(choice) > options.tolerance { 0 } else { choice.cost };
    candidates.sort_by(|a, b| {
        let far = |choice: &Choice| distance(choice) > options.tolerance;
        let balance = distance(a).total_cmp(&distance(b));
        far(a).cmp(&far(b)).then(bytes(a).cmp(&bytes(b))).then(balance).then(a.cost.cmp(&b.cost))
    });
    candidates
}
