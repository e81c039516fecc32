//! Exact costs of edges, and the longest way on from everywhere.
//!
//! What an instruction costs depends on the cycles since the last memory instruction. A timed node
//! is a node of the unrolled program with that number, as far as it still matters: beyond what can
//! shorten any wait ahead it is cut off, so few timed nodes come of one node. On timed nodes costs
//! of edges are exact and fixed.
//!
//! The suffix bounds are a longest-path sweep per resource and per packet-size class: through edges
//! that allow packets of that size only.

use nicforge_isa::nfp::cost::LEAST_WAIT;

use crate::graph::{Block, Graph, Next, Step};
use crate::hash::HashMap;
use crate::unroll::Dag;

/// Work on the way so far or ahead: thousandths of core cycles, millionths of engine cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub milli: u64,
    pub micro: u64,
}

impl Work {
    pub fn plus(self, other: Work) -> Work {
        Work { milli: self.milli + other.milli, micro: self.micro + other.micro }
    }
}

/// An edge of the timed program.
#[derive(Clone, Copy, Debug)]
pub struct TimedEdge {
    /// Edge of the unrolled program.
    pub edge: u32,
    /// Timed node it leads to, or `None` when the packet is done.
    pub to: Option<u32>,
    pub work: Work,
}

/// The unrolled program with exact costs; timed nodes are in topological order.
#[derive(Clone)]
pub struct Timed {
    /// Node of the unrolled program.
    pub node: Vec<u32>,
    pub out: Vec<Vec<TimedEdge>>,
}

/// Time through a block: cycles of its steps and what a branch at its end sees.
struct Through {
    work: Work,
    since: u64,
    fresh: bool,
}

fn through(steps: &[Step], mut since: u64) -> Through {
    let (mut work, mut fresh) = (Work::default(), false);
    for step in steps {
        let cost = &step.cost;
        let milli = match cost.latency {
            Some(latency) => {
                1000 * u64::from(LEAST_WAIT).max(u64::from(latency).saturating_sub(since))
            }
            None => cost.milli,
        };
        work = work.plus(Work { milli, micro: cost.engine_micro });
        since = if cost.memory { 0 } else { since + milli / 1000 };
        fresh = cost.flags;
    }
    Through { work, since, fresh }
}

/// Cycles of one way out of a block.
fn way_out(block: &Block, taken: bool, fresh: bool) -> u64 {
    match block.next {
        Next::Branch { .. } if taken => {
            block.branch.taken + if fresh { block.branch.fresh } else { 0 }
        }
        Next::Branch { .. } => block.branch.fall,
        Next::Goto(_) | Next::Switch { .. } | Next::Exit => block.branch.taken,
    }
}

/// For every node the largest number of cycles since the last memory instruction that still changes
/// a cost.
fn slack(graph: &Graph, dag: &Dag) -> Vec<u64> {
    let mut slack = vec![0u64; dag.nodes.len()];
    for (id, node) in dag.nodes.iter().enumerate().rev() {
        let block = &graph.blocks[node.block.0 as usize];
        let mut before = 0;
        let mut decided = None;
        for step in &block.steps {
            if let Some(latency) = step.cost.latency {
                decided =
                    Some(u64::from(latency.saturating_sub(LEAST_WAIT)).saturating_sub(before));
            } else if step.cost.memory {
                decided = Some(0);
            }
            if decided.is_some() {
                break;
            }
            before += step.cost.milli / 1000;
        }
        slack[id] = decided.unwrap_or_else(|| {
            let next = node.out.iter().filter_map(|edge| dag.edges[*edge as usize].to);
            next.map(|to| slack[to as usize]).max().unwrap_or(0).saturating_sub(before)
        });
    }
    slack
}

/// Node, cycles since the last memory instruction, whether flags were just written.
type Key = (u32, u64, bool);

/// Computes timed nodes.
pub fn timed(graph: &Graph, dag: &Dag) -> Timed {
    let slack = slack(graph, dag);
    let mut result = Timed { node: Vec::new(), out: Vec::new() };
    // Topological: nodes are, and states of a node are made when all edges into it are known.
    let mut states: Vec<Vec<(u64, bool)>> = vec![Vec::new(); dag.nodes.len()];
    let mut ids: HashMap<Key, u32> = HashMap::default();
    if dag.nodes.is_empty() {
        return result;
    }
    states[0].push((0, false));
    let mut raw: Vec<Vec<(u32, Option<Key>, Work)>> = Vec::new();
    for (id, node) in dag.nodes.iter().enumerate() {
        let block = &graph.blocks[node.block.0 as usize];
        for (since, fresh) in std::mem::take(&mut states[id]) {
            let timed = result.node.len() as u32;
            ids.insert((id as u32, since, fresh), timed);
            result.node.push(id as u32);
            let mut edges = Vec::new();
            let steps = &block.steps[..node.steps.min(block.steps.len())];
            let mut passed = through(steps, since);
            passed.work.milli += 1000 * node.waits;
            let fresh = if block.steps.is_empty() { fresh } else { passed.fresh };
            for edge in &node.out {
                let info = &dag.edges[*edge as usize];
                // A fault in the middle of a block is no way out of it.
                let whole = node.steps >= block.steps.len();
                let out = if whole { way_out(block, info.taken, fresh) } else { 0 };
                let work = passed.work.plus(Work { milli: out, micro: 0 });
                let to = info.to.map(|to| {
                    let since = (passed.since + out / 1000).min(slack[to as usize]);
                    // Only a block that is nothing but a branch asks how fresh the flags are.
                    let empty =
                        graph.blocks[dag.nodes[to as usize].block.0 as usize].steps.is_empty();
                    let state = (since, empty && fresh && out == 0);
                    if !states[to as usize].contains(&state) {
                        states[to as usize].push(state);
                    }
                    (to, state.0, state.1)
                });
                edges.push((*edge, to, work));
            }
            raw.push(edges);
        }
    }
    result.out = raw
        .into_iter()
        .map(|edges| {
            let timed = |(edge, to, work): (u32, Option<Key>, Work)| TimedEdge {
                edge,
                to: to.and_then(|key| ids.get(&key).copied()),
                work,
            };
            edges.into_iter().map(timed).collect()
        })
        .collect();
    result
}

/// Longest ways on, by timed node and size class; `None` where there is none.
pub struct Suffix {
    /// Smallest sizes of the classes, rising.
    pub classes: Vec<u64>,
    ahead: Vec<Work>,
}

/// Work of no way at all.
const NO_WAY: Work = Work { milli: u64::MAX, micro: 0 };

impl Suffix {
    /// `smallest(edge)` is the least packet size with which an edge can be taken.
    pub fn new(timed: &Timed, smallest: &[u64], dead: &[bool], first: u64) -> Suffix {
        let mut classes: Vec<u64> = smallest.iter().map(|size| (*size).max(first)).collect();
        classes.push(first);
        classes.sort_unstable();
        classes.dedup();
        let width = classes.len();
        let mut ahead = vec![NO_WAY; timed.node.len() * width];
        for id in (0..timed.node.len()).rev() {
            for edge in &timed.out[id] {
                if dead[edge.edge as usize] {
                    continue;
                }
                let from = classes.partition_point(|class| *class < smallest[edge.edge as usize]);
                for class in from..width {
                    let rest = match edge.to {
                        None => Work::default(),
                        Some(to) => ahead[to as usize * width + class],
                    };
                    if rest == NO_WAY {
                        continue;
                    }
                    let whole = edge.work.plus(rest);
                    let best = &mut ahead[id * width + class];
                    *best = match *best {
                        NO_WAY => whole,
                        Work { milli, micro } => {
                            Work { milli: milli.max(whole.milli), micro: micro.max(whole.micro) }
                        }
                    };
                }
            }
        }
        Suffix { classes, ahead }
    }

    /// The longest way on from a timed node with packets of a class.
    pub fn ahead(&self, timed: u32, class: usize) -> Option<Work> {
        let ahead = self.ahead[timed as usize * self.classes.len() + class];
        (ahead != NO_WAY).then_some(ahead)
    }
}
