//! Which bytes of private memory may still be read.
//!
//! The stack keeps what nobody will look at again (keys of lookups that are over), and nodes are
//! kept apart by constants, so dead bytes must not count. Forward, slots that hold one constant on
//! all ways give addresses; backward, bytes that a load may read are live and bytes that a store
//! replaces are dead. A load at an address that is not constant there reads everything.

use std::collections::BTreeSet;

use crate::graph::{BlockId, Contents, Effect, Expr, Graph, Slot};
use crate::term::{Op, evaluate, ones, signed};

/// Live bytes at the start of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    all: bool,
    bytes: BTreeSet<u64>,
}

impl Cells {
    /// True if the byte at an address may be read.
    pub fn contains(&self, address: u64) -> bool {
        self.all || self.bytes.contains(&address)
    }

    fn merge(&mut self, other: &Cells) {
        self.all |= other.all;
        self.bytes.extend(&other.bytes);
    }
}

/// Contents of a slot on all ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Is(u64),
    /// An address made from one of this region.
    Within(usize),
    Any,
}

/// Slots of which something is known, in order: of most in αIR's graphs nothing is.
#[derive(Clone, Debug, Default)]
struct Known(Vec<(u32, Value)>);

impl Known {
    fn get(&self, slot: Slot) -> Value {
        let found = self.0.binary_search_by_key(&slot.0, |(at, _)| *at);
        found.map_or(Value::Any, |at| self.0[at].1)
    }

    fn set(&mut self, slot: Slot, value: Value) {
        match (self.0.binary_search_by_key(&slot.0, |(at, _)| *at), value) {
            (Ok(at), Value::Any) => drop(self.0.remove(at)),
            (Ok(at), value) => self.0[at].1 = value,
            (Err(_), Value::Any) => {}
            (Err(at), value) => self.0.insert(at, (slot.0, value)),
        }
    }

    /// Joins what comes on another way; true if that changed something.
    fn join(&mut self, graph: &Graph, incoming: &Known) -> bool {
        let mut changed = false;
        self.0.retain_mut(|(slot, value)| {
            let joined = join(graph, *value, incoming.get(Slot(*slot)));
            changed |= joined != *value;
            *value = joined;
            joined != Value::Any
        });
        changed
    }
}

fn region(graph: &Graph, address: u64) -> Option<usize> {
    graph
        .regions
        .iter()
        .position(|region| address >= region.base && address - region.base < region.size)
}

/// Facts that hold where either value may be.
fn join(graph: &Graph, a: Value, b: Value) -> Value {
    let within = |value| match value {
        Value::Is(address) if graph.unchecked.is_some() => region(graph, address),
        Value::Within(region) => Some(region),
        _ => None,
    };
    match (within(a), within(b)) {
        _ if a == b => a,
        (Some(one), Some(other)) if one == other => Value::Within(one),
        _ => Value::Any,
    }
}

fn constant(expr: &Expr, known: &Known, graph: &Graph) -> Option<u64> {
    width(expr, known, graph).map(|(value, _)| value)
}

/// Value and bits of a constant expression; a base is where the graph has it.
fn width(expr: &Expr, known: &Known, graph: &Graph) -> Option<(u64, u8)> {
    let width = |expr| width(expr, known, graph);
    Some(match expr {
        Expr::Const(bits, value) => (value & ones(*bits), *bits),
        Expr::Base(base) => (graph.unchecked.as_ref()?.bases.get(*base as usize)?.home, 32),
        // Slots are extended to 64 bits here; operations cut off again.
        Expr::Slot(slot) => match known.get(*slot) {
            Value::Is(value) => (value, 64),
            _ => return None,
        },
        Expr::Binary(op @ (Op::Add | Op::And | Op::Or), a, b) => {
            let ((x, bits), (y, other)) = (width(a)?, width(b)?);
            let bits = bits.min(other);
            (evaluate(*op, x, y, bits), bits)
        }
        Expr::Sub(a, b) => {
            let ((x, bits), (y, other)) = (width(a)?, width(b)?);
            let bits = bits.min(other);
            (x.wrapping_sub(y) & ones(bits), bits)
        }
        Expr::Zext(a, bits) => (width(a)?.0, *bits),
        Expr::Sext(a, bits) => {
            let (value, have) = width(a)?;
            (signed(value, have) as u64 & ones(*bits), *bits)
        }
        Expr::Extract(a, low, bits) => (width(a)?.0 >> low & ones(*bits), *bits),
        _ => return None,
    })
}

/// The region that an expression is an address in, if it is a sum with one.
fn within(expr: &Expr, known: &Known, graph: &Graph) -> Option<usize> {
    graph.unchecked.as_ref()?;
    if let Some(address) = constant(expr, known, graph) {
        return region(graph, address);
    }
    match expr {
        Expr::Slot(slot) => match known.get(*slot) {
            Value::Within(region) => Some(region),
            _ => None,
        },
        Expr::Binary(Op::Add, a, b) => match (within(a, known, graph), within(b, known, graph)) {
            (Some(region), None) | (None, Some(region)) => Some(region),
            _ => None,
        },
        Expr::Sub(a, _) => within(a, known, graph),
        _ => None,
    }
}

/// The value that a load gives from memory that stays as it is given.
fn loaded(address: &Expr, known: &Known, graph: &Graph) -> Value {
    let fixed = |address: u64| {
        let wait = graph.unchecked.as_ref()?.waits.get(region(graph, address)?)?;
        let (_, value) =
            graph.bytes.iter().find(|(at, _)| *at == address).filter(|_| wait.fixed)?;
        constant(value, known, graph)
    };
    constant(address, known, graph).and_then(fixed).map_or(Value::Any, Value::Is)
}

fn forward(effect: &Effect, graph: &Graph, known: &mut Known) {
    match effect {
        Effect::Set(slot, value) => {
            let bits = graph.slots[slot.0 as usize];
            let value = match constant(value, known, graph) {
                Some(value) => Value::Is(value & ones(bits)),
                None => within(value, known, graph).map_or(Value::Any, Value::Within),
            };
            known.set(*slot, value);
        }
        Effect::Load { slot, address, bytes } => {
            let value = if *bytes == 4 { loaded(address, known, graph) } else { Value::Any };
            known.set(*slot, value);
        }
        Effect::Store { .. }
        | Effect::Fill(_)
        | Effect::Access { .. }
        | Effect::Delay(_)
        | Effect::Call { .. }
        | Effect::Presume(_)
        | Effect::Forget(_)
        | Effect::Open(_)
        | Effect::Returns(..) => {}
    }
}

/// Constants at the start of every block; `None` where control does not come. Of the blocks that
/// wait, the first in `order` is next, so that most are looked at once for each loop around them.
fn constants(graph: &Graph, order: &[BlockId]) -> Vec<Option<Known>> {
    let mut place = vec![0; graph.blocks.len()];
    for (at, block) in order.iter().enumerate() {
        place[block.0 as usize] = at;
    }
    let mut at: Vec<Option<Known>> = vec![None; graph.blocks.len()];
    let mut start = Known::default();
    for (slot, value) in &graph.start {
        start.set(*slot, constant(value, &start, graph).map_or(Value::Any, Value::Is));
    }
    at[graph.entry.0 as usize] = Some(start);
    let mut waiting = BTreeSet::from([place[graph.entry.0 as usize]]);
    while let Some(next) = waiting.pop_first() {
        let block = order[next];
        let mut known = at[block.0 as usize].clone().expect("only reached blocks wait");
        for effect in graph.blocks[block.0 as usize].steps.iter().flat_map(|step| &step.effects) {
            forward(effect, graph, &mut known);
        }
        for to in graph.successors(block) {
            let changed = match &mut at[to.0 as usize] {
                Some(old) => old.join(graph, &known),
                none => {
                    *none = Some(known.clone());
                    true
                }
            };
            if changed {
                waiting.insert(place[to.0 as usize]);
            }
        }
    }
    at
}

/// A load or store of private memory, or of who knows what.
enum Access {
    Read(Option<(u64, u64)>),
    Write(u64, u64),
}

/// Live bytes at the start of every block.
pub fn live(graph: &Graph) -> Vec<Cells> {
    let order = graph.reverse_postorder();
    let known = constants(graph, &order);
    let is_private = |region: usize| graph.regions[region].contents == Contents::Private;
    let private = |address: u64| region(graph, address).is_some_and(is_private);
    let mut accesses: Vec<Vec<Access>> = Vec::new();
    for (block, known) in graph.blocks.iter().zip(known) {
        let mut list = Vec::new();
        let Some(mut known) = known else {
            accesses.push(list);
            continue;
        };
        for effect in block.steps.iter().flat_map(|step| &step.effects) {
            match effect {
                Effect::Load { address, bytes, .. } => match constant(address, &known, graph) {
                    Some(at) if private(at) => list.push(Access::Read(Some((at, (*bytes).into())))),
                    Some(_) => {}
                    None if within(address, &known, graph)
                        .is_some_and(|region| !is_private(region)) => {}
                    // With the base of another region inside it is no private address.
                    None if !names_other_region(address, &private) => list.push(Access::Read(None)),
                    None => {}
                },
                Effect::Store { address, bytes, .. } => {
                    if let Some(at) = constant(address, &known, graph).filter(|at| private(*at)) {
                        list.push(Access::Write(at, (*bytes).into()));
                    }
                }
                Effect::Set(..)
                | Effect::Fill(_)
                | Effect::Access { .. }
                | Effect::Delay(_)
                | Effect::Call { .. }
                | Effect::Presume(_)
                | Effect::Forget(_)
                | Effect::Open(_)
                | Effect::Returns(..) => {}
            }
            forward(effect, graph, &mut known);
        }
        accesses.push(list);
    }
    let mut at: Vec<Cells> = vec![Cells::default(); graph.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for block in order.iter().rev() {
            let mut live = Cells::default();
            for to in graph.successors(*block) {
                live.merge(&at[to.0 as usize]);
            }
            let block = block.0 as usize;
            for access in accesses[block].iter().rev() {
                match access {
                    Access::Read(Some((from, bytes))) => live.bytes.extend(*from..from + bytes),
                    Access::Read(None) => live.all = true,
                    // With everything live, a byte that is replaced is dead all the same, but that
                    // is rare.
                    Access::Write(from, bytes) => (*from..from + bytes).for_each(|byte| {
                        live.bytes.remove(&byte);
                    }),
                }
            }
            if at[block] != live {
                at[block] = live;
                changed = true;
            }
        }
    }
    at
}

/// True if an address has a constant summand that lies in a region which is not private, or beyond
/// all of them.
fn names_other_region(address: &Expr, private: &dyn Fn(u64) -> bool) -> bool {
    match address {
        // Small negative numbers are offsets.
        Expr::Const(_, value) => *value as i64 >= 1 << 40 && !private(*value),
        Expr::Binary(Op::Add, a, b) => {
            names_other_region(a, private) || names_other_region(b, private)
        }
        // 32-bit sums address the packet.
        Expr::Zext(inner, 64) => matches!(**inner, Expr::Binary(Op::Add, ..)),
        _ => false,
    }
}
