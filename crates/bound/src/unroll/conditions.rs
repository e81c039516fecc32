//! What conditions say: about each other, about intervals of terms, and about the packet's size.

use super::State;
use super::locate::range;
use crate::term::{Node as TermNode, Op, Term, Terms, Var, ones};

/// The value of a condition where other conditions hold.
pub(super) fn decide(terms: &mut Terms, state: &State, cond: Term) -> Term {
    if state.assumed.binary_search(&cond).is_ok() {
        return terms.boolean(true);
    }
    let not = terms.not(cond);
    if state.assumed.binary_search(&not).is_ok() {
        return terms.boolean(false);
    }
    if let Some((a, b, holds)) = compared(terms, cond)
        && terms.based()
    {
        let ((least, most), (low, high)) = (range(terms, state, a), range(terms, state, b));
        if most < low || least >= high {
            return terms.boolean((most < low) == holds);
        }
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

/// An unsigned comparison, and whether it or its negation is meant.
fn compared(terms: &Terms, cond: Term) -> Option<(Term, Term, bool)> {
    match terms.node(cond) {
        TermNode::Op(Op::Ult, a, b) => Some((a, b, true)),
        TermNode::Op(Op::Xor, not, one) if terms.value(one) == Some(1) => match terms.node(not) {
            TermNode::Op(Op::Ult, a, b) => Some((a, b, false)),
            _ => None,
        },
        _ => None,
    }
}

/// Leaves an interval to a term and to what it is made of; false if that leaves nothing.
fn narrow(terms: &Terms, state: &mut State, term: Term, low: u64, high: u64) -> bool {
    if terms.value(term).is_some() {
        return true;
    }
    let (least, most) = range(terms, state, term);
    let (low, high) = (low.max(least), high.min(most));
    if low > high {
        return false;
    }
    state.bounds.insert(term, (low, high));
    match terms.node(term) {
        TermNode::Op(Op::Zext, inner, _) => narrow(terms, state, inner, low, high),
        TermNode::Op(Op::Add, inner, by) => {
            let mask = ones(terms.bits(term));
            let back = |value: u64, by: u64| value.wrapping_sub(by) & mask;
            match terms.value(by).map(|by| (back(low, by), back(high, by))) {
                Some((low, high)) if low <= high => narrow(terms, state, inner, low, high),
                _ => true,
            }
        }
        _ => true,
    }
}

/// Bounds of a term where the conditions of a state hold.
pub(super) fn bounds(terms: &Terms, state: &State, term: Term) -> (u64, u64) {
    if terms.based() {
        return range(terms, state, term);
    }
    if let Some(bounds) = state.bounds.get(&term) {
        return *bounds;
    }
    let facts = terms.facts(term);
    match terms.node(term) {
        TermNode::Extract(inner, 0) | TermNode::Op(Op::Zext, inner, _) => {
            let (low, high) = bounds(terms, state, inner);
            match high <= ones(facts.bits) {
                true => (low.max(facts.low), high.min(facts.high)),
                false => (facts.low, facts.high),
            }
        }
        _ => (facts.low, facts.high),
    }
}

/// Adds a condition; false if no value is left for what it is about.
pub(super) fn assume(terms: &Terms, state: &mut State, cond: Term) -> bool {
    if terms.value(cond).is_some() {
        return true;
    }
    if let TermNode::Op(Op::And, a, b) = terms.node(cond)
        && !(assume(terms, state, a) && assume(terms, state, b))
    {
        return false;
    }
    if let Err(at) = state.assumed.binary_search(&cond) {
        state.assumed.insert(at, cond);
    }
    if let Some((a, b, holds)) = compared(terms, cond)
        && terms.based()
    {
        let ((least, most), (low, high)) = (range(terms, state, a), range(terms, state, b));
        let (x, y) = match holds {
            true => ((0, high.saturating_sub(1)), (least.saturating_add(1), u64::MAX)),
            false => ((low, u64::MAX), (0, most)),
        };
        return narrow(terms, state, a, x.0, x.1) && narrow(terms, state, b, y.0, y.1);
    }
    if let Some((term, low, high)) = interval(terms, cond) {
        if terms.based() {
            return narrow(terms, state, term, low, high);
        }
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
pub(super) fn allowed_sizes(terms: &Terms, cond: Term) -> (u64, u64) {
    let anything = (0, u64::MAX);
    let comparison = |term: Term| match terms.node(term) {
        TermNode::Op(op @ (Op::Ult | Op::Eq), a, b) => Some((op, a, b)),
        _ => None,
    };
    let (op, a, b, holds) = match terms.node(cond) {
        TermNode::Op(Op::Xor, a, b) if terms.value(b) == Some(1) => match comparison(a) {
            Some((op, a, b)) => (op, a, b, false),
            None => return anything,
        },
        _ => match comparison(cond) {
            Some((op, a, b)) => (op, a, b, true),
            None => return anything,
        },
    };
    let (f, g) = (terms.facts(a), terms.facts(b));
    let of = |term: Term, low: u64, high: u64| sizes(terms, term, (low, high)).unwrap_or(anything);
    let (x, y) = match (op, holds) {
        (Op::Eq, true) => (of(a, g.low, g.high), of(b, f.low, f.high)),
        (Op::Ult, true) => {
            (of(a, 0, g.high.saturating_sub(1)), of(b, f.low.saturating_add(1), u64::MAX))
        }
        (Op::Ult, false) => (of(a, g.low, u64::MAX), of(b, 0, f.high)),
        _ => (anything, anything),
    };
    (x.0.max(y.0), x.1.min(y.1))
}

/// The packet sizes for which a term is in an interval, if it grows with the size and depends on
/// nothing else.
fn sizes(terms: &Terms, term: Term, (low, high): (u64, u64)) -> Option<(u64, u64)> {
    let facts = terms.facts(term);
    let (low, high) = (low.max(facts.low), high.min(facts.high));
    match terms.node(term) {
        TermNode::Var(var) if terms.var_info(var) == Var::Size(0) => Some((low, high)),
        TermNode::Op(Op::Zext, inner, _) => sizes(terms, inner, (low, high)),
        TermNode::Op(Op::Concat, above, inner) => {
            let base = terms.value(above)? << terms.bits(inner);
            sizes(terms, inner, (low.saturating_sub(base), high.saturating_sub(base)))
        }
        TermNode::Op(Op::Add, inner, by) => {
            // The sums of the smallest and the largest value are the bounds: none wraps, or all do.
            let (by, below) = (terms.value(by)?, terms.facts(inner));
            let mask = ones(facts.bits);
            let sums = (below.low.wrapping_add(by) & mask, below.high.wrapping_add(by) & mask);
            let back = |value: u64| value.wrapping_sub(by) & mask;
            (sums == (facts.low, facts.high) && low <= high)
                .then(|| sizes(terms, inner, (back(low), back(high))))
                .flatten()
        }
        TermNode::Op(Op::Shl, inner, by) => {
            let by = terms.value(by).filter(|by| *by < facts.bits.into())?;
            (terms.facts(inner).high <= ones(facts.bits) >> by)
                .then(|| sizes(terms, inner, (low.div_ceil(1 << by), high >> by)))
                .flatten()
        }
        // The upper part: what is cut off may be anything.
        TermNode::Extract(inner, from) if from + facts.bits == terms.bits(inner) => {
            sizes(terms, inner, (low << from, high << from | ones(from)))
        }
        _ => None,
    }
}
