//! Unrolls a program into a graph without loops, with all values as terms.
//!
//! Positions are walked in order (see [`crate::loops`]). All states that arrive at a position are there before it is
//! walked; states that agree on the constants of their live slots and private bytes merge into one node, whose phis stand
//! for what differs. So offsets stay constants where headers before them differ in length, loops with counters end by
//! themselves, and dead ways are never entered. Offsets that the packet decides keep nodes apart by their least value, so
//! that the size a packet must have on an edge mostly follows from the edge alone. Where that would make more than
//! [`SPLIT_LIMIT`] nodes of one position, only constants count, and then only those of slots that reach addresses or
//! leave loops.
//!
//! Cost: proportional to nodes times live state.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::cells::{self, Cells};
use crate::graph::{BlockId, Contents, Effect, Expr, Graph, Next, Slot};
use crate::liveness::{self, Slots};
use crate::loops::{Loops, Position};
use crate::term::{Mem, Node as TermNode, Op, Term, Terms, Var};

/// Nodes of one position that may be told apart by constants that steer nothing.
const SPLIT_LIMIT: usize = 24;
/// Most that the unknown part of an offset into a packet adds to it.
const MOST_OFFSET: u64 = 1 << 16;
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
    #[error("{place}: no end of this loop was found within {limit} nodes; give a bound with --unroll N")]
    Unbounded { place: String, limit: usize },
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
    pub deadline: Option<Instant>,
    /// Decide no branch and learn no sizes on the way: all that is left to the solver.
    pub undecided: bool,
    pub stop: &'a dyn Fn() -> bool,
}

#[derive(Clone)]
struct State {
    slots: Vec<Option<Term>>,
    cells: BTreeMap<u64, Term>,
    mems: Vec<Option<Mem>>,
    /// Intervals that conditions have left to terms.
    bounds: BTreeMap<Term, (u64, u64)>,
    /// Conditions that hold, sorted.
    assumed: Vec<Term>,
}

/// What keeps the nodes of a position apart, from most to least.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    /// Constants, and the least values of offsets that are not constant: how large a packet must be follows from them.
    Offsets,
    /// Constants.
    Constants,
    /// Constants of slots that reach addresses or leave loops.
    Steering,
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
}

/// Unrolls a program; the graph loses its dead assignments.
///
/// # Errors
/// See [`UnrollError`].
pub fn unroll(graph: &mut Graph, terms: &mut Terms, limits: Limits) -> Result<Dag, UnrollError> {
    let loops =
        Loops::find(graph).map_err(|block| UnrollError::Irreducible { place: first_place(graph, block) })?;
    let live = liveness::prune(graph);
    let cells = cells::live(graph);
    let blocks = (0..graph.blocks.len() as u32).map(BlockId);
    let deciding: Vec<bool> =
        blocks.map(|block| graph.successors(block).iter().any(|to| loops.leaves(block, *to))).collect();
    let steering = liveness::steering(graph, &deciding);
    let dag = Dag { nodes: Vec::new(), edges: Vec::new(), cut: false };
    let mut walk = Walk { graph, loops, live, cells, steering, terms, dag, pending: BTreeMap::new(), limits };
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
        let late = self.limits.deadline.is_some_and(|deadline| Instant::now() > deadline);
        if late || (self.limits.stop)() {
            return Err(UnrollError::Stopped);
        }
        if self.dag.nodes.len() > NODE_LIMIT {
            let header = position[0];
            let block = self.loops.order.iter().position(|place| *place == header).unwrap_or(0);
            let place = first_place(self.graph, BlockId(block as u32));
            return Err(UnrollError::Unbounded { place, limit: NODE_LIMIT });
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), UnrollError> {
        let mut state = State {
            slots: vec![None; self.graph.slots.len()],
            cells: BTreeMap::new(),
            mems: Vec::new(),
            bounds: BTreeMap::new(),
            assumed: Vec::new(),
        };
        for (index, region) in self.graph.regions.iter().enumerate() {
            let whole = matches!(region.contents, Contents::Packet | Contents::Table);
            state.mems.push(whole.then(|| self.terms.initial(index as u32)));
        }
        for (slot, value) in &self.graph.start {
            let value = self.evaluate(&mut state, value);
            state.slots[slot.0 as usize] = Some(value);
        }
        for (address, value) in &self.graph.bytes {
            let value = self.evaluate(&mut state, value);
            let bytes = self.terms.bits(value) / 8;
            for byte in 0..bytes {
                let part = self.terms.extract(value, 8 * byte, 8);
                state.cells.insert(address + u64::from(byte), part);
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

    /// Indices of states that agree on what keeps nodes apart, in order of arrival.
    fn group(&self, arrivals: &[(Option<u32>, State)], apart: Apart) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<Vec<(u64, u64)>, usize> = HashMap::new();
        for (index, (_, state)) in arrivals.iter().enumerate() {
            let mut key = Vec::new();
            for (slot, value) in state.slots.iter().enumerate() {
                let steers = self.steering.contains(Slot(slot as u32));
                let Some(term) = *value else { continue };
                match self.terms.value(term) {
                    Some(value) if apart != Apart::Steering || steers => key.push((slot as u64, value)),
                    None if apart == Apart::Offsets && steers => {
                        let facts = self.terms.facts(term);
                        if facts.low > 0 && facts.high - facts.low <= MOST_OFFSET {
                            key.push((slot as u64 | 1 << 62, facts.low));
                        }
                    }
                    _ => {}
                }
            }
            for (address, value) in &state.cells {
                if let Some(value) = self.terms.value(*value) {
                    key.push((*address | 1 << 63, value));
                }
            }
            let group = *known.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(index);
        }
        groups
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
        };
        for (edge, _) in arrivals {
            if let Some(edge) = edge {
                self.dag.edges[*edge as usize].to = Some(id);
                self.dag.edges[*edge as usize].slot = node.into.len() as u32;
                node.into.push(*edge);
            }
        }
        let mut state = merge(self.terms, id, &mut node, arrivals);
        for step in &self.graph.blocks[block.0 as usize].steps {
            for effect in &step.effects {
                self.effect(&mut state, effect, step.place, &mut node)?;
            }
        }
        self.dag.nodes.push(node);
        match &self.graph.blocks[block.0 as usize].next {
            Next::Exit => self.exit(id),
            Next::Goto(to) => {
                let cond = self.terms.boolean(true);
                self.follow(id, position, *to, cond, true, state);
            }
            Next::Branch { cond, taken, fall } => {
                let cond = self.evaluate(&mut state, cond);
                let cond = if self.limits.undecided { cond } else { decide(self.terms, &state, cond) };
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
        self.dag.edges.push(Edge { from, to: None, slot: 0, cond, taken: true, size: (0, u64::MAX) });
        self.dag.nodes[from as usize].out.push(edge);
    }

    fn follow(&mut self, from: u32, position: &Position, to: BlockId, cond: Term, taken: bool, state: State) {
        let block = self.dag.nodes[from as usize].block;
        let next = self.loops.advance(block, position, to);
        if let Some(limit) = self.limits.unroll
            && next[..next.len() - 1].chunks_exact(2).any(|pair| pair[1] >= limit)
        {
            self.dag.cut = true;
            return;
        }
        let edge = self.dag.edges.len() as u32;
        let size = if self.limits.undecided { (0, u64::MAX) } else { allowed_sizes(self.terms, cond) };
        self.dag.edges.push(Edge { from, to: None, slot: 0, cond, taken, size });
        self.dag.nodes[from as usize].out.push(edge);
        self.pending.entry(next).or_default().push((Some(edge), state));
    }

    fn evaluate(&mut self, state: &mut State, expr: &Expr) -> Term {
        match expr {
            Expr::Const(bits, value) => self.terms.constant(*bits, *value),
            Expr::Slot(slot) => {
                let bits = self.graph.slots[slot.0 as usize];
                match state.slots[slot.0 as usize] {
                    Some(value) => value,
                    None => {
                        let value = self.terms.fresh(bits);
                        state.slots[slot.0 as usize] = Some(value);
                        value
                    }
                }
            }
            Expr::Size => self.terms.packet_size(),
            Expr::Fresh(bits) => self.terms.fresh(*bits),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.binary(*op, a, b)
            }
            Expr::Sub(a, b) => {
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.sub(a, b)
            }
            Expr::Not(a) => {
                let a = self.evaluate(state, a);
                self.terms.not(a)
            }
            Expr::Zext(a, bits) => {
                let a = self.evaluate(state, a);
                self.terms.zext(a, *bits)
            }
            Expr::Sext(a, bits) => {
                let a = self.evaluate(state, a);
                self.terms.sext(a, *bits)
            }
            Expr::Extract(a, low, bits) => {
                let a = self.evaluate(state, a);
                self.terms.extract(a, *low, *bits)
            }
            Expr::Concat(a, b) => {
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.concat(a, b)
            }
            Expr::Ite(c, a, b) => {
                let c = self.evaluate(state, c);
                let (a, b) = (self.evaluate(state, a), self.evaluate(state, b));
                self.terms.ite(c, a, b)
            }
        }
    }

    fn effect(
        &mut self,
        state: &mut State,
        effect: &Effect,
        place: u32,
        node: &mut Node,
    ) -> Result<(), UnrollError> {
        match effect {
            Effect::Set(slot, value) => {
                let value = self.evaluate(state, value);
                state.slots[slot.0 as usize] = Some(value);
            }
            Effect::Load { slot, address, bytes } => {
                let address = self.evaluate(state, address);
                let region = self.region(address, place)?;
                let value = self.load(state, address, *bytes, region, place)?;
                let contents = self.graph.regions[region].contents;
                if matches!(contents, Contents::Table | Contents::Shared) {
                    node.reads.push(Read { place, region: region as u32, address, value });
                }
                let value = self.terms.zext(value, self.graph.slots[slot.0 as usize]);
                state.slots[slot.0 as usize] = Some(value);
            }
            Effect::Store { address, bytes, value } => {
                let address = self.evaluate(state, address);
                let value = self.evaluate(state, value);
                let region = self.region(address, place)?;
                for byte in 0..*bytes {
                    let at = self.offset(address, byte.into());
                    let part = self.terms.extract(value, 8 * byte, 8);
                    match (self.graph.regions[region].contents, state.mems[region]) {
                        (Contents::Private, _) => {
                            let at = self.private(at, place)?;
                            state.cells.insert(at, part);
                        }
                        (Contents::Packet, Some(mem)) => {
                            state.mems[region] = Some(self.terms.store(mem, at, part))
                        }
                        // Others see it; nothing read later is taken from it.
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn load(
        &mut self,
        state: &mut State,
        address: Term,
        bytes: u8,
        region: usize,
        place: u32,
    ) -> Result<Term, UnrollError> {
        let contents = self.graph.regions[region].contents;
        if contents == Contents::Shared {
            return Ok(self.terms.fresh(8 * bytes));
        }
        let mut value = None;
        for byte in 0..bytes {
            let at = self.offset(address, byte.into());
            let part = match (contents, state.mems[region]) {
                (Contents::Private, _) => {
                    let at = self.private(at, place)?;
                    match state.cells.get(&at) {
                        Some(part) => *part,
                        None => {
                            let part = self.terms.fresh(8);
                            state.cells.insert(at, part);
                            part
                        }
                    }
                }
                (_, Some(mem)) => self.terms.load(mem, at),
                _ => self.terms.fresh(8),
            };
            value = Some(match value {
                None => part,
                Some(low) => self.terms.concat(part, low),
            });
        }
        Ok(value.unwrap_or_else(|| self.terms.constant(8, 0)))
    }

    fn offset(&mut self, address: Term, by: u64) -> Term {
        let by = self.terms.constant(self.terms.bits(address), by);
        self.terms.binary(Op::Add, address, by)
    }

    fn private(&self, address: Term, place: u32) -> Result<u64, UnrollError> {
        self.terms.value(address).ok_or_else(|| UnrollError::Address {
            place: self.graph.describe(place),
            detail: "in private memory (the stack) is not a constant on this way".to_string(),
        })
    }

    /// The region an address points into: that of its constant part, since what is added stays inside.
    fn region(&self, address: Term, place: u32) -> Result<usize, UnrollError> {
        let (rest, base) = self.terms.linear(address);
        let find = |at: u64| {
            self.graph.regions.iter().position(|region| at >= region.base && at - region.base < region.size)
        };
        let facts = self.terms.facts(address);
        let mut found = find(facts.low).filter(|region| find(facts.high) == Some(*region));
        if found.is_none() && rest.is_some() {
            found = find(base).or(find(facts.low));
        }
        found.ok_or_else(|| UnrollError::Address {
            place: self.graph.describe(place),
            detail: match rest {
                None => format!("{base:#x} is in no memory the program has"),
                Some(_) => "cannot be told from this program: no base is known".to_string(),
            },
        })
    }
}

/// One state from several: equal values stay, others become phis.
fn merge(terms: &mut Terms, id: u32, node: &mut Node, arrivals: &[(Option<u32>, &State)]) -> State {
    let (_, first) = arrivals[0];
    if arrivals.len() == 1 {
        return first.clone();
    }
    let mut made: HashMap<Vec<Term>, Term> = HashMap::new();
    let mut join = |terms: &mut Terms, node: &mut Node, values: Vec<Term>| {
        if values.iter().all(|value| *value == values[0]) {
            return values[0];
        }
        if let Some(phi) = made.get(&values) {
            return *phi;
        }
        let facts: Vec<_> = values.iter().map(|value| terms.facts(*value)).collect();
        let low = facts.iter().map(|facts| facts.low).min().unwrap_or(0);
        let high = facts.iter().map(|facts| facts.high).max().unwrap_or(u64::MAX);
        let phi = terms.phi(id, node.phis.len() as u32, facts[0].bits, (low, high));
        node.phis.push(values.clone());
        made.insert(values, phi);
        phi
    };
    let mut state = first.clone();
    for (slot, value) in state.slots.iter_mut().enumerate() {
        // A slot that is unknown on one way is unknown.
        let values: Option<Vec<Term>> = arrivals.iter().map(|(_, state)| state.slots[slot]).collect();
        *value = values.map(|values| join(terms, node, values));
    }
    state.cells.retain(|address, _| arrivals.iter().all(|(_, state)| state.cells.contains_key(address)));
    for (address, value) in &mut state.cells {
        let values = arrivals.iter().map(|(_, state)| state.cells[address]).collect();
        *value = join(terms, node, values);
    }
    for (region, mem) in state.mems.iter_mut().enumerate() {
        let mems: Vec<Mem> = arrivals.iter().filter_map(|(_, state)| state.mems[region]).collect();
        if mems.len() == arrivals.len() && mems.iter().any(|other| Some(*other) != *mem) {
            *mem = Some(terms.mem_phi(id, node.mem_phis.len() as u32, mems.clone()));
            node.mem_phis.push(mems);
        }
    }
    for (_, other) in &arrivals[1..] {
        state.bounds.retain(|term, (low, high)| match other.bounds.get(term) {
            Some((least, most)) => {
                (*low, *high) = ((*low).min(*least), (*high).max(*most));
                true
            }
            None => false,
        });
        state.assumed.retain(|term| other.assumed.binary_search(term).is_ok());
    }
    state
}

/// What a condition is where other conditions hold.
fn decide(terms: &mut Terms, state: &State, cond: Term) -> Term {
    if state.assumed.binary_search(&cond).is_ok() {
        return terms.boolean(true);
    }
    let not = terms.not(cond);
    if state.assumed.binary_search(&not).is_ok() {
        return terms.boolean(false);
    }
    let Some((term, low, high)) = interval(terms, cond) else { return cond };
    let (least, most) = bounds(terms, state, term);
    if least > high || most < low {
        return terms.boolean(false);
    }
    if least >= low && most <= high {
        return terms.boolean(true);
    }
    // What the negation says counts as well: an equation's leaves out one value.
    match interval(terms, not) {
        Some((term, low, high))
            if bounds(terms, state, term).0 > high || bounds(terms, state, term).1 < low =>
        {
            terms.boolean(true)
        }
        _ => cond,
    }
}

fn bounds(terms: &Terms, state: &State, term: Term) -> (u64, u64) {
    let facts = terms.facts(term);
    state.bounds.get(&term).copied().unwrap_or((facts.low, facts.high))
}

/// Adds a condition; false if no value is left for what it is about.
fn assume(terms: &Terms, state: &mut State, cond: Term) -> bool {
    if terms.value(cond).is_some() {
        return true;
    }
    if let Err(at) = state.assumed.binary_search(&cond) {
        state.assumed.insert(at, cond);
    }
    if let Some((term, low, high)) = interval(terms, cond) {
        let (least, most) = bounds(terms, state, term);
        let left = (least.max(low), most.min(high));
        state.bounds.insert(term, left);
        return left.0 <= left.1;
    }
    if let Some((term, value)) = excluded(terms, cond) {
        let (mut least, mut most) = bounds(terms, state, term);
        least += u64::from(value == least);
        most -= u64::from(value == most && most > 0);
        state.bounds.insert(term, (least, most));
        return least <= most;
    }
    true
}

/// A condition on one term and a constant, as the interval it leaves.
fn interval(terms: &Terms, cond: Term) -> Option<(Term, u64, u64)> {
    let below = |term: Term| match terms.node(term) {
        TermNode::Op(Op::Ult, a, b) => terms.value(b).map(|limit| (a, limit)),
        _ => None,
    };
    if let Some((term, limit)) = below(cond) {
        return Some((term, 0, limit.saturating_sub(1)));
    }
    match terms.node(cond) {
        TermNode::Op(Op::Eq, a, b) => terms.value(b).map(|value| (a, value, value)),
        // Negation is exclusive or with one.
        TermNode::Op(Op::Xor, a, b) if terms.value(b) == Some(1) => {
            below(a).map(|(term, limit)| (term, limit, u64::MAX))
        }
        _ => None,
    }
}

/// A value that a condition leaves out.
fn excluded(terms: &Terms, cond: Term) -> Option<(Term, u64)> {
    match terms.node(cond) {
        TermNode::Op(Op::Xor, a, b) if terms.value(b) == Some(1) => match terms.node(a) {
            TermNode::Op(Op::Eq, a, b) => terms.value(b).map(|value| (a, value)),
            _ => None,
        },
        _ => None,
    }
}

/// The packet sizes a condition can hold for, by the intervals of what the size is compared with.
fn allowed_sizes(terms: &Terms, cond: Term) -> (u64, u64) {
    let anything = (0, u64::MAX);
    let compared = |term: Term| match terms.node(term) {
        TermNode::Op(op @ (Op::Ult | Op::Eq), a, b) => Some((op, a, b)),
        _ => None,
    };
    let (op, a, b, holds) = match terms.node(cond) {
        TermNode::Op(Op::Xor, a, b) if terms.value(b) == Some(1) => match compared(a) {
            Some((op, a, b)) => (op, a, b, false),
            None => return anything,
        },
        _ => match compared(cond) {
            Some((op, a, b)) => (op, a, b, true),
            None => return anything,
        },
    };
    let facts = |term: Term| terms.facts(term);
    match (op, size_plus(terms, a), size_plus(terms, b), holds) {
        (Op::Eq, Some(by), None, true) => (facts(b).low.saturating_sub(by), facts(b).high.saturating_sub(by)),
        (Op::Eq, None, Some(by), true) => (facts(a).low.saturating_sub(by), facts(a).high.saturating_sub(by)),
        // size + by < b, or not
        (Op::Ult, Some(by), None, true) => (0, facts(b).high.saturating_sub(by + 1)),
        (Op::Ult, Some(by), None, false) => (facts(b).low.saturating_sub(by), u64::MAX),
        // a < size + by, or not
        (Op::Ult, None, Some(by), true) => ((facts(a).low + 1).saturating_sub(by), u64::MAX),
        (Op::Ult, None, Some(by), false) => (0, facts(a).high.saturating_sub(by)),
        _ => anything,
    }
}

/// What is added to the packet's size in a term that is nothing else and does not wrap.
fn size_plus(terms: &Terms, term: Term) -> Option<u64> {
    match terms.node(term) {
        TermNode::Var(var) if terms.var_info(var) == Var::Size => Some(0),
        TermNode::Op(Op::Zext, inner, _) => size_plus(terms, inner),
        TermNode::Op(Op::Concat, high, inner) => {
            let base = terms.value(high)? << terms.bits(inner);
            size_plus(terms, inner)?.checked_add(base)
        }
        TermNode::Op(Op::Add, inner, by) => {
            let (by, below) = (terms.value(by)?, size_plus(terms, inner)?);
            (terms.facts(term).low == terms.facts(inner).low.checked_add(by)?
                && terms.facts(term).high == terms.facts(inner).high.checked_add(by)?)
            .then_some(below.checked_add(by)?)
        }
        _ => None,
    }
}
