//! The solver inside: circuits ([`crate::circuits`]) under an incremental SAT solver, a few of them
//! side by side.
//!
//! A satisfiable answer gives every variable a value, those of terms that have nothing to do with
//! the query too. The conditions of a path are thousands of gates, and most queries are about the
//! few conditions that contradict each other; so every query goes to the circuits with the fewest
//! terms besides its own, and to new ones if all have far more. The least recently used are
//! dropped. Answers do not depend on it.

use std::rc::Rc;

pub use crate::circuits::Stop;
use crate::circuits::{Circuits, Decide};
use crate::solver::{Model, Outcome, Solver};
use crate::term::{Term, Terms};

/// Circuits kept at a time: those of a path, of a core of its conditions, and of cores of cores.
const KEPT: usize = 4;
/// Conditions that may be added to circuits: limits on the packet's size are.
const MOST_NEW: usize = 2;
/// Conditions that circuits may have besides the query's own, and how many times as many.
const SPARE: (usize, usize) = (8, 2);

struct Kept {
    circuits: Circuits,
    /// Conditions asked for so far.
    roots: usize,
    used: u64,
}

/// See the head of this file.
pub struct BitBlaster {
    stop: Stop,
    kept: Vec<Kept>,
    last: usize,
    time: u64,
}

impl BitBlaster {
    /// No terms yet.
    pub fn new(stop: Stop) -> BitBlaster {
        BitBlaster { stop, kept: Vec::new(), last: 0, time: 0 }
    }

    /// The circuits for a query.
    fn choose(&mut self, assumptions: &[Term]) -> usize {
        let most = SPARE.0 + SPARE.1 * assumptions.len();
        let fits = |(index, kept): (usize, &Kept)| {
            let missing = kept.circuits.missing(assumptions);
            (missing <= MOST_NEW && kept.roots + missing <= most)
                .then_some((kept.roots, missing, index))
        };
        if let Some((_, missing, index)) = self.kept.iter().enumerate().filter_map(fits).min() {
            self.kept[index].roots += missing;
            return index;
        }
        let new = Kept {
            circuits: Circuits::new(Rc::clone(&self.stop), Decide::Inputs),
            roots: assumptions.len(),
            used: 0,
        };
        if self.kept.len() < KEPT {
            self.kept.push(new);
            return self.kept.len() - 1;
        }
        let oldest =
            self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.used).map_or(0, |(at, _)| at);
        self.kept[oldest] = new;
        oldest
    }
}

impl Solver for BitBlaster {
    fn check(&mut self, terms: &Terms, assumptions: &[Term]) -> Outcome {
        self.last = self.choose(assumptions);
        self.time += 1;
        let kept = &mut self.kept[self.last];
        kept.used = self.time;
        match kept.circuits.check(terms, assumptions) {
            Outcome::Unknown if !(self.stop)() => {}
            answer => return answer,
        }
        kept.circuits = Circuits::new(Rc::clone(&self.stop), Decide::Everything);
        kept.roots = assumptions.len();
        kept.circuits.check(terms, assumptions)
    }

    fn model(&mut self, terms: &Terms, wanted: &[Term]) -> Model {
        self.kept.get(self.last).map(|kept| kept.circuits.model(terms, wanted)).unwrap_or_default()
    }
}
