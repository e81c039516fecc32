//! Which bytes of private memory may still be read.
//!
//! The stack keeps what nobody will look at again (keys of lookups that are over), and nodes are kept apart by constants,
//! so dead bytes must not count. Forward, slots that hold one constant on all ways give addresses; backward, bytes that a
//! load may read are live and bytes that a store replaces are dead. A load at an address that is not constant there reads
//! everything.

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
    /// Whether the byte at an address may be read.
    pub fn contains(&self, address: u64) -> bool {
        self.all || self.bytes.contains(&address)
    }

    fn merge(&mut self, other: &Cells) {
        self.all |= other.all;
        self.bytes.extend(&other.bytes);
    }
}

/// What a slot holds on all ways; `None` is not one constant.
type Known = Vec<Option<u64>>;

fn constant(expr: &Expr, known: &Known) -> Option<u64> {
    width(expr, known).map(|(value, _)| value)
}

/// Value and bits of a constant expression.
fn width(expr: &Expr, known: &Known) -> Option<(u64, u8)> {
    Some(match expr {
        Expr::Const(bits, value) => (value & ones(*bits), *bits),
        // Slots are extended to 64 bits here; operations cut off again.
        Expr::Slot(Slot(slot)) => (known[*slot as usize]?, 64),
        Expr::Binary(op @ (Op::Add | Op::And | Op::Or), a, b) => {
            let ((x, bits), (y, other)) = (width(a, known)?, width(b, known)?);
            let bits = bits.min(other);
            (evaluate(*op, x, y, bits), bits)
        }
        Expr::Sub(a, b) => {
            let ((x, bits), (y, other)) = (width(a, known)?, width(b, known)?);
            let bits = bits.min(other);
            (x.wrapping_sub(y) & ones(bits), bits)
        }
        Expr::Zext(a, bits) => (width(a, known)?.0, *bits),
        Expr::Sext(a, bits) => {
            let (value, have) = width(a, known)?;
            (signed(value, have) as u64 & ones(*bits), *bits)
        }
        Expr::Extract(a, low, bits) => (width(a, known)?.0 >> low & ones(*bits), *bits),
        _ => return None,
    })
}

fn forward(effect: &Effect, graph: &Graph, known: &mut Known) {
    match effect {
        Effect::Set(slot, value) => {
            let bits = graph.slots[slot.0 as usize];
            known[slot.0 as usize] = constant(value, known).map(|value| value & ones(bits));
        }
        Effect::Load { slot, .. } => known[slot.0 as usize] = None,
        Effect::Store { .. } => {}
    }
}

/// Constants at the start of every block; `None` where control does not come.
fn constants(graph: &Graph) -> Vec<Option<Known>> {
    let mut at: Vec<Option<Known>> = vec![None; graph.blocks.len()];
    let mut start: Known = vec![None; graph.slots.len()];
    for (slot, value) in &graph.start {
        start[slot.0 as usize] = constant(value, &start);
    }
    let mut queue = vec![(graph.entry, start)];
    while let Some((block, incoming)) = queue.pop() {
        let slot = &mut at[block.0 as usize];
        let merged = match slot {
            None => incoming,
            Some(old) => {
                let merged: Known = old.iter().zip(&incoming).map(|(a, b)| a.filter(|_| a == b)).collect();
                if merged == *old {
                    continue;
                }
                merged
            }
        };
        *slot = Some(merged.clone());
        let mut known = merged;
        for effect in graph.blocks[block.0 as usize].steps.iter().flat_map(|step| &step.effects) {
            forward(effect, graph, &mut known);
        }
        queue.extend(graph.successors(block).into_iter().map(|to| (to, known.clone())));
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
    let known = constants(graph);
    let private = |address: u64| {
        let region =
            graph.regions.iter().find(|region| address >= region.base && address - region.base < region.size);
        region.is_some_and(|region| region.contents == Contents::Private)
    };
    let mut accesses: Vec<Vec<Access>> = Vec::new();
    for (block, known) in graph.blocks.iter().zip(known) {
        let mut list = Vec::new();
        let Some(mut known) = known else {
            accesses.push(list);
            continue;
        };
        for effect in block.steps.iter().flat_map(|step| &step.effects) {
            match effect {
                Effect::Load { address, bytes, .. } => match constant(address, &known) {
                    Some(at) if private(at) => list.push(Access::Read(Some((at, (*bytes).into())))),
                    Some(_) => {}
                    // With the base of another region inside it is no private address.
                    None if !names_other_region(address, &private) => list.push(Access::Read(None)),
                    None => {}
                },
                Effect::Store { address, bytes, .. } => {
                    if let Some(at) = constant(address, &known).filter(|at| private(*at)) {
                        list.push(Access::Write(at, (*bytes).into()));
                    }
                }
                Effect::Set(..) => {}
            }
            forward(effect, graph, &mut known);
        }
        accesses.push(list);
    }
    let mut at: Vec<Cells> = vec![Cells::default(); graph.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..graph.blocks.len()).rev() {
            let mut live = Cells::default();
            for to in graph.successors(BlockId(block as u32)) {
                live.merge(&at[to.0 as usize]);
            }
            for access in accesses[block].iter().rev() {
                match access {
                    Access::Read(Some((from, bytes))) => live.bytes.extend(*from..from + bytes),
                    Access::Read(None) => live.all = true,
                    // With everything live, a byte that is replaced is dead all the same, but that is rare.
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

/// Whether an address has a constant summand that lies in a region which is not private, or beyond all of them.
fn names_other_region(address: &Expr, private: &dyn Fn(u64) -> bool) -> bool {
    match address {
        Expr::Const(_, value) => *value >= 1 << 40 && !private(*value),
        Expr::Binary(Op::Add, a, b) => names_other_region(a, private) || names_other_region(b, private),
        // 32-bit sums address the packet.
        Expr::Zext(inner, 64) => matches!(**inner, Expr::Binary(Op::Add, ..)),
        _ => false,
    }
}
