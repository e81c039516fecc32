//! What conditions say: about each other, about intervals of terms, and about the packet's size.

use super::State;
use crate::term::{Node as TermNode, Op, Term, Terms, Var};

/// What a condition is where other conditions hold.
pub(super) fn decide(terms: &mut Terms, state: &State, cond: Term) -> Term {
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
pub(super) fn assume(terms: &Terms, state: &mut State, cond: Term) -> bool {
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
pub(super) fn allowed_sizes(terms: &Terms, cond: Term) -> (u64, u64) {
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
        (Op::Ult, Some(by), None, true) => (0, facts(b).high.saturating_sub(by.saturating_add(1))),
        (Op::Ult, Some(by), None, false) => (facts(b).low.saturating_sub(by), u64::MAX),
        // a < size + by, or not
        (Op::Ult, None, Some(by), true) => (facts(a).low.saturating_add(1).saturating_sub(by), u64::MAX),
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
