//! The solver seam: is a conjunction of one-bit terms satisfiable?
//!
//! Rates, cycles and sizes do not depend on which solver answers; only models and cores may differ.

use crate::hash::HashMap;
use crate::term::{Node, Term, Terms, evaluate, ones, signed};
use crate::term::{Op, Var};

/// An answer.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// [`Solver::model`] has the values.
    Sat,
    /// Indices of assumptions that contradict each other.
    Unsat(Vec<usize>),
    /// Stopped before an answer.
    Unknown,
}

/// Decides conjunctions of one-bit terms without phis.
pub trait Solver {
    /// Decides whether all assumptions can hold together.
    fn check(&mut self, terms: &Terms, assumptions: &[Term]) -> Outcome;
    /// Values of variables and loads after the last check, which was satisfiable.
    fn model(&mut self, terms: &Terms, wanted: &[Term]) -> Model;
}

/// Values of variables and of loads from initial memories; what is missing does not matter.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub values: HashMap<Term, u64>,
}

impl Model {
    /// The value of a term. Variables the model does not have are zero; sizes and bases then have
    /// their smallest value.
    pub fn value(&self, terms: &Terms, term: Term) -> u64 {
        self.evaluate(terms, term, &mut HashMap::default())
    }

    fn evaluate(&self, terms: &Terms, term: Term, known: &mut HashMap<Term, u64>) -> u64 {
        if let Some(value) = known.get(&term) {
            return *value;
        }
        let bits = terms.bits(term);
        let value = match terms.node(term) {
            Node::Const(value) => value,
            Node::Var(var) => match self.values.get(&term) {
                Some(value) => *value,
                None if matches!(terms.var_info(var), Var::Size(_) | Var::Base(_)) => {
                    terms.facts(term).low
                }
                None => 0,
            },
            Node::Load(..) | Node::Phi { .. } => self.values.get(&term).copied().unwrap_or(0),
            Node::Op(op, a, b) => {
                let (x, width) = (self.evaluate(terms, a, known), terms.bits(a));
                match op {
                    Op::Zext => x,
                    Op::Sext => signed(x, width) as u64,
                    Op::Concat => x << terms.bits(b) | self.evaluate(terms, b, known),
                    _ => evaluate(op, x, self.evaluate(terms, b, known), width),
                }
            }
            Node::Extract(a, low) => self.evaluate(terms, a, known) >> low,
            Node::Ite(c, a, b) => {
                let chosen = if self.evaluate(terms, c, known) == 1 { a } else { b };
                self.evaluate(terms, chosen, known)
            }
        } & ones(bits);
        known.insert(term, value);
        value
    }
}
