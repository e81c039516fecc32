//! Conditions that hold on a path, and questions to the solver about what they leave open.

use std::rc::Rc;
use std::time::Instant;

use crate::check::leaves;
use crate::hash::{HashMap, HashSet};
use crate::solver::{Model, Outcome, Solver};
use crate::term::{Node, Op, Term, Terms};

use super::Prover;

/// Conditions that hold together, and values that fulfil them.
#[derive(Clone, Default)]
pub struct Path {
    pub conditions: Vec<Term>,
    holds: HashSet<Term>,
    /// Terms that are one value here.
    pub fixed: HashMap<Term, u64>,
    leaves: HashSet<Term>,
    /// Bytes at addresses that are not constants matter: bytes that are not in the model may be
    /// tied to others.
    loads: bool,
    model: Option<Rc<Model>>,
    /// The solver gave up somewhere on the way: perhaps no packet goes here.
    pub unsure: bool,
}

impl Path {
    /// Adds a condition.
    pub fn assume(&mut self, terms: &Terms, condition: Term) {
        if terms.value(condition).is_some() || !self.holds.insert(condition) {
            return;
        }
        self.conditions.push(condition);
        match terms.node(condition) {
            Node::Op(Op::Eq, a, b) => {
                if let Some(value) = terms.value(b) {
                    self.fixed.insert(a, value);
                } else if let Some(value) = terms.value(a) {
                    self.fixed.insert(b, value);
                }
            }
            Node::Var(_) | Node::Extract(..) | Node::Op(Op::And, ..) => {
                self.fixed.insert(condition, 1);
            }
            _ => {}
        }
        for leaf in leaves(terms, &[condition]) {
            self.loads |= matches!(terms.node(leaf), Node::Load(..));
            self.leaves.insert(leaf);
        }
    }

    fn set(&mut self, model: Option<Rc<Model>>) {
        self.unsure |= model.is_none();
        self.model = model;
    }
}

/// Answers whether a condition can hold on a path.
enum Possible {
    No,
    With(Rc<Model>),
    Unknown,
}

impl Prover<'_> {
    /// True if a condition, or that it does not hold, is certain on a path.
    fn known(&mut self, path: &Path, condition: Term) -> Option<bool> {
        if let Some(value) = self.terms.value(condition) {
            return Some(value == 1);
        }
        if path.holds.contains(&condition) {
            return Some(true);
        }
        let not = self.terms.not(condition);
        path.holds.contains(&not).then_some(false)
    }

    /// Asks the solver about a path with one condition more.
    fn possible(&mut self, path: &Path, condition: Term) -> Possible {
        if self.over() {
            return Possible::Unknown;
        }
        self.queries += 1;
        let mut all = path.conditions.clone();
        all.push(condition);
        self.until.set(Instant::now().checked_add(self.patience));
        let answer = self.solver.check(&self.terms, &all);
        self.until.set(None);
        match answer {
            Outcome::Unsat(_) => Possible::No,
            Outcome::Unknown => Possible::Unknown,
            Outcome::Sat => {
                let mut wanted: Vec<Term> = path.leaves.iter().copied().collect();
                wanted.extend(leaves(&self.terms, &[condition]));
                Possible::With(Rc::new(self.solver.model(&self.terms, &wanted)))
            }
        }
    }

    /// The ways on from a path: with a condition, and without it. Either may be one no packet takes
    /// only if the solver gave up.
    pub fn ways(&mut self, path: Path, condition: Term) -> [Option<Path>; 2] {
        if let Some(known) = self.known(&path, condition) {
            return if known { [Some(path), None] } else { [None, Some(path)] };
        }
        let not = self.terms.not(condition);
        // What fulfils the path so far fulfils one of both.
        let loads = path.loads
            || leaves(&self.terms, &[condition])
                .iter()
                .any(|leaf| matches!(self.terms.node(*leaf), Node::Load(..)));
        let free = path.model.clone().filter(|_| !loads);
        let given = free.as_ref().map(|model| model.value(&self.terms, condition) == 1);
        let mut found: [Option<Path>; 2] = [None, None];
        for (index, way) in [condition, not].into_iter().enumerate() {
            let model = match given {
                Some(value) if value == (index == 0) => free.clone(),
                _ => match self.possible(&path, way) {
                    Possible::No => continue,
                    Possible::With(model) => Some(model),
                    Possible::Unknown => None,
                },
            };
            let mut next = path.clone();
            next.assume(&self.terms, way);
            next.set(model);
            found[index] = Some(next);
        }
        found
    }

    /// Values that fulfil a path and a condition; `None` if none do, `Some(None)` if the solver
    /// does not know.
    pub fn example(&mut self, path: &Path, condition: Term) -> Option<Option<Rc<Model>>> {
        match self.possible(path, condition) {
            Possible::No => None,
            Possible::With(model) => Some(Some(model)),
            Possible::Unknown => Some(None),
        }
    }

    /// A path for each value that a term can have there; `None` if there are more than `most`, or
    /// the solver gave up.
    pub fn values(&mut self, path: &Path, term: Term, most: usize) -> Option<Vec<(u64, Path)>> {
        let known = self.terms.value(term).or_else(|| path.fixed.get(&term).copied());
        if let Some(value) = known {
            return Some(vec![(value, path.clone())]);
        }
        let bits = self.terms.bits(term);
        let mut found = Vec::new();
        let mut rest = path.clone();
        loop {
            let all = self.terms.boolean(true);
            let model = match self.possible(&rest, all) {
                Possible::No => return Some(found),
                Possible::Unknown => return None,
                Possible::With(_) if found.len() == most => return None,
                Possible::With(model) => model,
            };
            let value = model.value(&self.terms, term);
            let constant = self.terms.constant(bits, value);
            let equal = self.terms.eq(term, constant);
            match self.possible(&rest, equal) {
                Possible::With(model) => {
                    let mut next = rest.clone();
                    next.assume(&self.terms, equal);
                    next.fixed.insert(term, value);
                    next.set(Some(model));
                    found.push((value, next));
                }
                Possible::No => {}
                Possible::Unknown => return None,
            }
            let other = self.terms.not(equal);
            rest.assume(&self.terms, other);
        }
    }
}
