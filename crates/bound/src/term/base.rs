//! Addresses as sums of a base and an offset.
//!
//! Where a memory lies is not known, but two addresses in it compare as their offsets do. Sums are
//! right-nested or left-nested as they came, so the base is looked for along both operands.

use super::{Facts, Node, Op, Term, Terms, Var, ones};

/// Offsets of addresses that are compared lie in `-REACH..REACH`, for [`Terms::offsets`].
const REACH: u64 = 1 << 20;
/// Summands that are looked at.
const MOST_SUMMANDS: usize = 8;

impl Terms {
    /// Where a memory begins, 32 bits: in `low..=high`, with so many low bits zero.
    pub fn base(&mut self, index: u32, (low, high): (u64, u64), aligned: u8) -> Term {
        let facts = Facts { low, high, zeros: ones(aligned), ..Self::unknown(32) };
        let term = self.variable(Var::Base(index), facts);
        self.bases.insert(index, term);
        term
    }

    /// True if there are bases: those programs are unchecked.
    pub fn based(&self) -> bool {
        !self.bases.is_empty()
    }

    /// An address as a base and an offset.
    pub fn strip(&mut self, term: Term) -> Option<(u32, Term)> {
        if !self.based() {
            return None;
        }
        match self.node(term) {
            Node::Var(var) => match self.var_info(var) {
                Var::Base(base) => Some((base, self.constant(32, 0))),
                _ => None,
            },
            Node::Op(Op::Add, a, b) => {
                // Kept, since sums grow by a summand with every iteration of a loop.
                if let Some(known) = self.stripped.get(&term) {
                    return *known;
                }
                let parts = self.strip_sum(a, b);
                self.stripped.insert(term, parts);
                parts
            }
            _ => None,
        }
    }

    fn strip_sum(&mut self, a: Term, b: Term) -> Option<(u32, Term)> {
        if let Some((base, rest)) = self.strip(a) {
            return Some((base, self.binary(Op::Add, rest, b)));
        }
        let (base, rest) = self.strip(b)?;
        Some((base, self.binary(Op::Add, a, rest)))
    }

    /// The base of an address.
    pub fn base_of(&mut self, address: Term) -> Option<Term> {
        let (base, _) = self.strip(address)?;
        self.bases.get(&base).copied()
    }

    /// The offsets of two addresses with one base.
    pub(super) fn same_base(&mut self, a: Term, b: Term) -> Option<(Term, Term)> {
        let (one, x) = self.strip(a)?;
        let (other, y) = self.strip(b)?;
        (one == other).then_some((x, y))
    }

    /// Numbers that compare as two addresses with one base do, if neither sum wraps.
    pub(super) fn offsets(&mut self, a: Term, b: Term) -> Option<(Term, Term)> {
        let (base, x) = self.strip(a)?;
        let (other, y) = self.strip(b)?;
        if base != other {
            return None;
        }
        let facts = self.facts(*self.bases.get(&base)?);
        let reach = self.constant(32, REACH);
        let (x, y) = (self.binary(Op::Add, x, reach), self.binary(Op::Add, y, reach));
        let near = |term: Term| self.facts(term).high <= 2 * REACH;
        (facts.low >= REACH && facts.high + REACH <= ones(32) && near(x) && near(y))
            .then_some((x, y))
    }

    /// Two sums without what they have in common; they are equal if these are.
    pub(super) fn without_common(&mut self, a: Term, b: Term) -> Option<(Term, Term)> {
        if !self.based() {
            return None;
        }
        let (mut x, mut y) = (Vec::new(), Vec::new());
        self.summands(a, &mut x);
        self.summands(b, &mut y);
        let common = x.iter().position(|term| self.value(*term).is_none() && y.contains(term))?;
        let term = x.swap_remove(common);
        let other = y.iter().position(|other| *other == term)?;
        y.swap_remove(other);
        let bits = self.bits(a);
        let mut sum = |list: Vec<Term>| {
            let zero = self.constant(bits, 0);
            list.into_iter().fold(zero, |sum, term| self.binary(Op::Add, sum, term))
        };
        Some((sum(x), sum(y)))
    }

    fn summands(&self, term: Term, into: &mut Vec<Term>) {
        match self.node(term) {
            Node::Op(Op::Add, a, b) if into.len() < MOST_SUMMANDS => {
                self.summands(a, into);
                self.summands(b, into);
            }
            _ => into.push(term),
        }
    }
}
