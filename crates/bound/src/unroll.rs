//! Unrolls a program into a graph without loops, with all values as terms.
//!
//! Positions are walked in order (see [`crate::loops`]). All states that arrive at a position are
//! there before it is walked; states that agree on the constants of their live slots and private
//! bytes merge into one node, whose phis stand for what differs. So offsets stay constants where
//! headers before them differ in length, loops with counters end by themselves, and dead ways are
//! never entered. Offsets that the packet decides keep nodes apart by their least value, so that
//! the size a packet must have on an edge mostly follows from the edge alone. Where that would make
//! more than [`SPLIT_LIMIT`] nodes of one position, only constants count, and then only those of
//! slots that reach addresses or leave loops.
//!
//! Cost: proportional to nodes times live state.

mod conditions;
mod effects;
mod group;
mod locate;
mod state;
mod unchecked;

use std::collections::{BTreeMap, BTreeSet};

use crate::cells::{self, Cells};
use crate::graph::{BlockId, Contents, Graph, Next, Slot};
use crate::liveness::{self, Slots};
use crate::loops::{Loops, Position};
use crate::term::{Mem, Term, Terms};
use conditions::{allowed_sizes, assume, decide};
use group::Apart;
pub(crate) use state::Cell;
use state::merge;
use unchecked::Flow;

/// Nodes of one position that may be told apart by constants that steer nothing.
const SPLIT_LIMIT: usize = 24;
/// Most conditions that a state keeps in unchecked programs, whose loops may have no end; the
/// oldest go first.
const MOST_ASSUMED: usize = 1024;
/// States that wait at one position with what they know; more wait without, so that memory stays
/// bounded.
const MOST_KNOWING: usize = 2048;
/// Most states that may wait at one position in unchecked programs: exits of a loop.
const MOST_WAITING: usize = 20_000;
/// Most nodes of the unrolled program.
const NODE_LIMIT: usize = 400_000;

/// A node of the unrolled program; nodes are in topological order.
#[derive(Debug)]
pub struct Node {
    pub block: BlockId,
    pub into: Vec<u32>,
    pub out: Vec<u32>,
    /// For every phi, its value by incoming edge (in the order of `into`).
    pub phis: Vec<Vec<Term>>,
    pub mem_phis: Vec<Vec<Mem>>,
    /// Table reads, in order.
    pub reads: Vec<Read>,
    /// Steps of its block that are executed: fewer than there are if one of them ends the program.
    pub steps: usize,
    /// Cycles besides those of the steps: accesses to memory and what depends on values.
    pub waits: u64,
    /// Parts of them that may be less: what they are, and what is counted.
    pub delays: Vec<(Term, u64)>,
    /// Cycles of accesses to unknown addresses, which may be fewer.
    pub uncertain: u64,
}

/// A read of a table.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub place: u32,
    pub region: u32,
    pub address: Term,
    pub value: Term,
}

/// A way from node to node.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    pub from: u32,
    /// `None`: the packet is done.
    pub to: Option<u32>,
    /// Index of this edge among the incoming ones of `to`.
    pub slot: u32,
    /// When it is taken, over the phis of nodes before.
    pub cond: Term,
    pub taken: bool,
    /// Packet sizes it allows.
    pub size: (u64, u64),
}

/// The unrolled program.
pub struct Dag {
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    /// What was taken as unknown: place and what.
    pub notes: BTreeSet<(u32, &'static str)>,
    /// What slots held at the start.
    pub start: Vec<(Slot, Term)>,
    /// Iterations that `--unroll` cut off.
    pub cut: bool,
}

/// Why a program cannot be unrolled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnrollError {
    #[error(
        "{place}: this code is entered from two sides of a loop; compile with -O2 or write the loop with one entry"
    )]
    Irreducible { place: String },
    #[error(
        "{place}: no end of this loop was found within {limit} nodes; give a bound with --unroll N"
    )]
    Unbounded { place: String, limit: usize },
    #[error(
        "{place}: where this goes is not decided by constants; indirect jumps are followed through tables of constants only"
    )]
    Jump { place: String },
    #[error("{place}: address {detail}")]
    Address { place: String, detail: String },
    #[error("stopped before the program was unrolled")]
    Stopped,
}

/// Limits of unrolling.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Most iterations of every loop; ways that go on are cut off.
    pub unroll: Option<u32>,
    /// Decide no branch and learn no sizes on the way: all that is left to the solver.
    pub undecided: bool,
    pub stop: &'a dyn Fn() -> bool,
}

#[derive(Clone)]
struct State {
    slots: Vec<Option<Term>>,
    cells: BTreeMap<u64, Cell>,
    mems: Vec<Option<Mem>>,
    /// Private bytes that are not listed may have been overwritten; else they are as at the start.
    lost: bool,
    /// Intervals that conditions have left to terms.
    bounds: BTreeMap<Term, (u64, u64)>,
    /// Conditions that hold, sorted.
    assumed: Vec<Term>,
}

struct Walk<'a> {
    graph: &'a Graph,
    loops: Loops,
    live: Vec<Slots>,
    cells: Vec<Cells>,
    steering: Slots,
    terms: &'a mut Terms,
    dag: Dag,
    pending: BTreeMap<Position, Vec<(Option<u32>, State)>>,
    limits: Limits<'a>,
    /// More states wait somewhere than may.
    crowded: bool,
    /// Phis of the node that is being walked.
    joined: Vec<Vec<Term>>,
}

/// Unrolls a program; the graph loses its dead assignments.
///
/// # Errors
/// See [`UnrollError`].
pub fn unroll(graph: &mut Graph, terms: &mut Terms, limits: Limits) -> Result<Dag, UnrollError> {
    let loops = Loops::find(graph)
        .map_err(|block| UnrollError::Irreducible { place: first_place(graph, block) })?;
    let live = liveness::prune(graph);
    let cells = cells::live(graph);
    let blocks = (0..graph.blocks.len() as u32).map(BlockId);
    let deciding: Vec<bool> = blocks
        .map(|block| graph.successors(block).iter().any(|to| loops.leaves(block, *to)))
        .collect();
    let steering = liveness::steering(graph, &deciding);
    let dag = Dag {
        nodes: Vec::new(),
        edges: Vec::new(),
        notes: BTreeSet::new(),
        start: Vec::new(),
        cut: false,
    };
    let mut walk = Walk {
        graph,
        loops,
        live,
        cells,
        steering,
        terms,
        dag,
        pending: BTreeMap::new(),
        limits,
        joined: Vec::new(),
        crowded: false,
    };
    walk.start()?;
    while let Some((position, arrivals)) = walk.pending.pop_first() {
        walk.check(&position)?;
        walk.position(&position, arrivals)?;
    }
    Ok(walk.dag)
}

fn first_place(graph: &Graph, block: BlockId) -> String {
    let block = &graph.blocks[block.0 as usize];
    match block.steps.first().map(|step| step.place).or(block.place) {
        Some(place) => graph.describe(place),
        None => "an empty block".to_string(),
    }
}

impl Walk<'_> {
    fn check(&self, position: &[u32]) -> Result<(), UnrollError> {
        if (self.limits.stop)() {
            return Err(UnrollError::Stopped);
        }
        if self.dag.nodes.len() > NODE_LIMIT || self.crowded {
            let header = position[0];
            let block = self.loops.order.iter().position(|place| *place == header).unwrap_or(0);
            let place = first_place(self.graph, BlockId(block as u32));
            return Err(UnrollError::Unbounded { place, limit: self.dag.nodes.len() });
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), UnrollError> {
        let mut state = State {
            slots: vec![None; self.graph.slots.len()],
            cells: BTreeMap::new(),
            mems: Vec::new(),
            lost: false,
            bounds: BTreeMap::new(),
            assumed: Vec::new(),
        };
        for (index, region) in self.graph.regions.iter().enumerate() {
            let whole =
                matches!(region.contents, Contents::Packet | Contents::Table | Contents::Kept);
            // Copies of the packet begin as the packet.
            let first =
                self.graph.regions.iter().position(|other| other.contents == Contents::Packet);
            let index =
                if region.contents == Contents::Packet { first.unwrap_or(index) } else { index };
            state.mems.push(whole.then(|| self.terms.initial(index as u32)));
        }
        for (slot, value) in &self.graph.start {
            let value = self.evaluate(&mut state, value);
            state.slots[slot.0 as usize] = Some(value);
            self.dag.start.push((*slot, value));
        }
        for (address, value) in &self.graph.bytes {
            let value = self.evaluate(&mut state, value);
            let bytes = self.terms.bits(value) / 8;
            for byte in 0..bytes {
                let cell = Cell { whole: value, at: byte };
                state.cells.insert(address + u64::from(byte), cell);
            }
        }
        self.pending.insert(self.loops.first(self.graph.entry), vec![(None, state)]);
        Ok(())
    }

    /// Groups what arrived at a position into nodes and walks them.
    fn position(
        &mut self,
        position: &Position,
        mut arrivals: Vec<(Option<u32>, State)>,
    ) -> Result<(), UnrollError> {
        let place = position[position.len() - 1];
        let block = self.loops.order.iter().position(|at| *at == place).unwrap_or(0);
        let live = &self.live[block];
        for (_, state) in &mut arrivals {
            for (slot, value) in state.slots.iter_mut().enumerate() {
                if !live.contains(Slot(slot as u32)) {
                    *value = None;
                }
            }
        }
        let cells = &self.cells[block];
        for (_, state) in &mut arrivals {
            state.cells.retain(|address, _| cells.contains(*address));
        }
        if self.graph.unchecked.is_some() && arrivals.len() > 1 {
            self.fill(&mut arrivals);
        }
        let mut groups = self.group(&arrivals, Apart::Offsets);
        for less in [Apart::Constants, Apart::Steering] {
            if groups.len() > SPLIT_LIMIT {
                groups = self.group(&arrivals, less);
            }
        }
        for members in groups {
            let states: Vec<(Option<u32>, &State)> =
                members.iter().map(|index| (arrivals[*index].0, &arrivals[*index].1)).collect();
            self.node(BlockId(block as u32), position, &states)?;
        }
        Ok(())
    }

    fn node(
        &mut self,
        block: BlockId,
        position: &Position,
        arrivals: &[(Option<u32>, &State)],
    ) -> Result<(), UnrollError> {
        let id = self.dag.nodes.len() as u32;
        let mut node = Node {
            block,
            into: Vec::new(),
            out: Vec::new(),
            phis: Vec::new(),
            mem_phis: Vec::new(),
            reads: Vec::new(),
            steps: usize::MAX,
            waits: 0,
            delays: Vec::new(),
            uncertain: 0,
        };
        for (edge, _) in arrivals {
            if let Some(edge) = edge {
                self.dag.edges[*edge as usize].to = Some(id);
                self.dag.edges[*edge as usize].slot = node.into.len() as u32;
                node.into.push(*edge);
            }
        }
        let mut state = merge(self.terms, id, &mut node, arrivals);
        self.joined.clone_from(&node.phis);
        let graph = self.graph;
        for (index, step) in graph.blocks[block.0 as usize].steps.iter().enumerate() {
            for effect in &step.effects {
                if let Flow::Fault = self.effect(&mut state, effect, step.place, &mut node)? {
                    node.steps = index + 1;
                    self.dag.nodes.push(node);
                    self.exit(id);
                    return Ok(());
                }
            }
        }
        let place = graph.blocks[block.0 as usize].place.unwrap_or(0);
        let cases = match &graph.blocks[block.0 as usize].next {
            Next::Switch { value, .. } => {
                let value = self.evaluate(&mut state, value);
                let cases = self.cases(value);
                Some(cases.ok_or_else(|| UnrollError::Jump { place: graph.describe(place) })?)
            }
            _ => None,
        };
        self.dag.nodes.push(node);
        match &self.graph.blocks[block.0 as usize].next {
            Next::Exit => self.exit(id),
            Next::Goto(to) => {
                let cond = self.terms.boolean(true);
                self.follow(id, position, *to, cond, true, state);
            }
            Next::Switch { targets, .. } => {
                for (value, cond) in cases.unwrap_or_default() {
                    let cond = decide(self.terms, &state, cond);
                    let mut next = state.clone();
                    if self.terms.value(cond) == Some(0) || !assume(self.terms, &mut next, cond) {
                        continue;
                    }
                    let to = targets.iter().find(|(number, _)| *number == value);
                    let (_, to) =
                        to.ok_or_else(|| UnrollError::Jump { place: graph.describe(place) })?;
                    self.follow(id, position, *to, cond, true, next);
                }
            }
            Next::Branch { cond, taken, fall } => {
                let cond = self.evaluate(&mut state, cond);
                let cond =
                    if self.limits.undecided { cond } else { decide(self.terms, &state, cond) };
                let not = self.terms.not(cond);
                for (cond, to, way) in [(cond, taken, true), (not, fall, false)] {
                    if self.terms.value(cond) == Some(0) {
                        continue;
                    }
                    let mut next = state.clone();
                    if self.limits.undecided || assume(self.terms, &mut next, cond) {
                        self.follow(id, position, *to, cond, way, next);
                    }
                }
            }
        }
        Ok(())
    }

    fn exit(&mut self, from: u32) {
        let cond = self.terms.boolean(true);
        let edge = self.dag.edges.len() as u32;
        self.dag.edges.push(Edge {
            from,
            to: None,
            slot: 0,
            cond,
            taken: true,
            size: (0, u64::MAX),
        });
        self.dag.nodes[from as usize].out.push(edge);
    }

    fn follow(
        &mut self,
        from: u32,
        position: &Position,
        to: BlockId,
        cond: Term,
        taken: bool,
        mut state: State,
    ) {
        let block = self.dag.nodes[from as usize].block;
        let next = self.loops.advance(block, position, to);
        if let Some(limit) = self.limits.unroll
            && next[..next.len() - 1].chunks_exact(2).any(|pair| pair[1] >= limit)
        {
            self.dag.cut = true;
            return;
        }
        let edge = self.dag.edges.len() as u32;
        let size =
            if self.limits.undecided { (0, u64::MAX) } else { allowed_sizes(self.terms, cond) };
        self.dag.edges.push(Edge { from, to: None, slot: 0, cond, taken, size });
        self.dag.nodes[from as usize].out.push(edge);
        let waiting = self.pending.entry(next).or_default();
        if self.graph.unchecked.is_some() {
            let most = if waiting.len() > MOST_KNOWING { 0 } else { MOST_ASSUMED };
            state.assumed.drain(..state.assumed.len().saturating_sub(most));
            while state.bounds.len() > most {
                state.bounds.pop_first();
            }
        }
        self.crowded |= self.graph.unchecked.is_some() && waiting.len() > MOST_WAITING;
        waiting.push((Some(edge), state));
    }
}
