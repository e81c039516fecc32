//! Where the addresses of unchecked programs point.
//!
//! Nobody has proved that `base + offset` stays in the memory of that base, so an address counts as
//! inside a region only if the interval of its offset does, with what conditions have left of it.
//! An address that may be in several regions, or whose interval leaves its region, may be anything:
//! loads then give new values, and stores make private memory and packets unknown.

use super::{State, Walk};
use crate::graph::{Graph, Unchecked};
use crate::term::{Node as TermNode, Op, Term, Terms, ones};

/// Deepest nesting that intervals are looked for in.
const DEPTH: u32 = 24;

/// Where an address points.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Into this region; in the graph's addresses, with the interval.
    Inside {
        region: usize,
        address: Term,
        span: (u64, u64),
    },
    /// Into one of these regions.
    Several(Vec<usize>),
    Anywhere,
    /// To no memory.
    Nowhere,
}

/// The region without a base that an interval lies in.
fn absolute(graph: &Graph, unchecked: &Unchecked, low: u64, high: u64) -> Option<usize> {
    let based = |index: usize| unchecked.bases.iter().any(|base| base.region as usize == index);
    graph.regions.iter().enumerate().position(|(index, region)| {
        !based(index) && low >= region.base && high < region.base + region.size
    })
}

/// The values a term can have where the state is.
pub(super) fn range(terms: &Terms, state: &State, term: Term) -> (u64, u64) {
    range_below(terms, state, term, DEPTH)
}

fn range_below(terms: &Terms, state: &State, term: Term, depth: u32) -> (u64, u64) {
    let facts = terms.facts(term);
    let (mut low, mut high) = (facts.low, facts.high);
    if let Some((least, most)) = state.bounds.get(&term) {
        (low, high) = (low.max(*least), high.min(*most));
    }
    if depth == 0 || low >= high {
        return (low, high.max(low));
    }
    let mask = ones(facts.bits);
    let inner = |inner: Term| range_below(terms, state, inner, depth - 1);
    let derived = match terms.node(term) {
        TermNode::Op(Op::Zext, a, _) => Some(inner(a)),
        TermNode::Op(Op::Add, a, b) if difference(terms, a, b).is_some() => {
            let (x, y) = difference(terms, a, b).unwrap_or((a, b));
            let ((a, b), (c, d)) = (inner(x), inner(y));
            // x - y - 1
            let least = known_difference(terms, state, x, y).max(a.saturating_sub(d));
            (least > 0).then(|| (least - 1, b.saturating_sub(c.saturating_add(1))))
        }
        TermNode::Op(Op::Add, a, b) => {
            let ((a, b), (c, d)) = (inner(a), inner(b));
            let (low, high) = (u128::from(a) + u128::from(c), u128::from(b) + u128::from(d));
            let (wide, one) = (u128::from(mask), u128::from(mask) + 1);
            // None wraps, or all do.
            match (high <= wide, low > wide) {
                (true, _) => Some((low as u64, high as u64)),
                (_, true) => Some(((low - one) as u64, (high - one) as u64)),
                _ => None,
            }
        }
        TermNode::Op(Op::Shl, a, n) => {
            let n = terms.value(n).filter(|n| *n < facts.bits.into());
            let (a, b) = inner(a);
            n.filter(|n| b <= mask >> n).map(|n| (a << n, b << n))
        }
        TermNode::Op(Op::Mul, a, b) => {
            let ((a, b), (c, d)) = (inner(a), inner(b));
            b.checked_mul(d).filter(|high| *high <= mask).map(|high| (a * c, high))
        }
        TermNode::Op(Op::And, a, b) => Some((0, inner(a).1.min(inner(b).1))),
        TermNode::Op(Op::Concat, a, b) => {
            let width = terms.bits(b);
            let ((a, b), (c, d)) = (inner(a), inner(b));
            Some((a << width | c, b << width | d))
        }
        TermNode::Extract(a, from) => {
            let (a, b) = inner(a);
            (b >> from <= mask).then_some((a >> from, b >> from))
        }
        TermNode::Ite(_, a, b) => {
            let ((a, b), (c, d)) = (inner(a), inner(b));
            Some((a.min(c), b.max(d)))
        }
        _ => None,
    };
    if let Some((least, most)) = derived {
        (low, high) = (low.max(least), high.min(most));
    }
    (low, high.max(low))
}

/// A sum that is `x - y - 1`, as what is subtracted from what.
fn difference(terms: &Terms, a: Term, b: Term) -> Option<(Term, Term)> {
    let inverted = |term: Term| match terms.node(term) {
        TermNode::Op(Op::Xor, y, all) if terms.value(all) == Some(ones(terms.bits(term))) => {
            Some(y)
        }
        _ => None,
    };
    match (inverted(a), inverted(b)) {
        (None, Some(y)) => Some((a, y)),
        (Some(y), None) => Some((b, y)),
        _ => None,
    }
}

/// How much larger than `y` the term `x` is at least, by a condition `x >= y + n` or `y + n < x`
/// that holds.
fn known_difference(terms: &Terms, state: &State, x: Term, y: Term) -> u64 {
    let above = |term: Term| match terms.linear(term) {
        (Some(rest), by) if rest == y => Some(by).filter(|by| *by < u64::MAX),
        _ => None,
    };
    // The sum must not wrap for the difference to be one.
    let fits = |by: &u64| {
        range(terms, state, y).1.checked_add(*by).is_some_and(|sum| sum <= ones(terms.bits(y)))
    };
    let of = |cond: &Term| match terms.node(*cond) {
        TermNode::Op(Op::Ult, a, b) if b == x => above(a).filter(fits).map(|by| by + 1),
        TermNode::Op(Op::Xor, not, one) if terms.value(one) == Some(1) => match terms.node(not) {
            TermNode::Op(Op::Ult, a, b) if a == x => above(b).filter(fits),
            _ => None,
        },
        _ => None,
    };
    state.assumed.iter().filter_map(of).max().unwrap_or(0)
}

impl Walk<'_> {
    fn range(&self, state: &State, term: Term) -> (u64, u64) {
        range(self.terms, state, term)
    }

    /// Where `bytes` bytes at an address are.
    pub(super) fn locate(&mut self, state: &State, address: Term, bytes: u8) -> Found {
        let graph = self.graph;
        let Some(unchecked) = &graph.unchecked else { return Found::Anywhere };
        let more = u64::from(bytes) - 1;
        if let Some((index, rest)) = self.terms.strip(address) {
            let base = unchecked.bases[index as usize];
            let home = self.terms.constant(32, base.home);
            let inside = self.terms.binary(Op::Add, rest, home);
            let region = &graph.regions[base.region as usize];
            // What conditions say may be known of the offset or of the sum.
            let (low, high) = self.range(state, rest);
            for (low, high) in [self.range(state, inside), (low + base.home, high + base.home)] {
                if low >= region.base && high + more < region.base + region.size {
                    let region = base.region as usize;
                    return Found::Inside { region, address: inside, span: (low, high) };
                }
            }
            return Found::Anywhere;
        }
        let (low, high) = self.range(state, address);
        if let Some(region) = absolute(graph, unchecked, low, high + more) {
            return Found::Inside { region, address, span: (low, high) };
        }
        if self.terms.value(address).is_some() {
            return Found::Nowhere;
        }
        let mut regions = Vec::new();
        match self.sources(state, address, bytes, &mut regions, DEPTH) {
            true => Found::Several(regions),
            false => Found::Anywhere,
        }
    }

    /// Collects the regions of an address that is a choice between addresses; false if one is not
    /// known.
    fn sources(
        &mut self,
        state: &State,
        address: Term,
        bytes: u8,
        into: &mut Vec<usize>,
        depth: u32,
    ) -> bool {
        // A constant that all alternatives have in common stands outside.
        let (rest, by) = self.terms.linear(address);
        let operands = match rest.map(|rest| self.terms.node(rest)) {
            Some(TermNode::Ite(_, a, b)) => vec![a, b],
            Some(TermNode::Phi { node, index }) => match self.dag.nodes.get(node as usize) {
                Some(node) => node.phis[index as usize].clone(),
                // A phi of the node that is being walked.
                None => self.joined[index as usize].clone(),
            },
            _ => return false,
        };
        if depth == 0 {
            return false;
        }
        let by = self.terms.constant(32, by);
        for operand in operands {
            let operand = self.terms.binary(Op::Add, operand, by);
            let graph = self.graph;
            let Some(unchecked) = &graph.unchecked else { return false };
            let simple = self.terms.strip(operand).is_some() || {
                let (low, high) = self.range(state, operand);
                absolute(graph, unchecked, low, high + u64::from(bytes) - 1).is_some()
            };
            if simple {
                match self.locate(state, operand, bytes) {
                    Found::Inside { region, .. } if !into.contains(&region) => into.push(region),
                    Found::Inside { .. } => {}
                    _ => return false,
                }
            } else if !self.sources(state, operand, bytes, into, depth - 1) {
                return false;
            }
        }
        true
    }
}
