//! Every path a packet takes, one after the other: depth-first, with the solver asked at every undecided branch.
//!
//! Exponential in the number of independent branches; `--all` and the tests use it, the search does not.

use crate::check::{Conditions, conditions, leaves};
use crate::search::{Context, Found};
use crate::solver::Outcome;
use crate::term::Term;
use crate::timing::Work;

/// Calls `found` for every possible path, until it says to stop. `slowness` of the paths is zero.
///
/// Returns whether all paths were seen.
pub fn all(context: &mut Context, found: &mut dyn FnMut(&Context, Found) -> bool) -> bool {
    let mut path = Vec::new();
    walk(context, 0, Work::default(), &mut path, found)
}

fn walk(
    context: &mut Context,
    at: u32,
    work: Work,
    path: &mut Vec<u32>,
    found: &mut dyn FnMut(&Context, Found) -> bool,
) -> bool {
    let timed = context.timed;
    for way in &timed.out[at as usize] {
        if (context.stop)() {
            return false;
        }
        path.push(way.edge);
        let Conditions { list, false_ones } = conditions(context.dag, context.terms, path);
        let undecided = context.terms.value(context.dag.edges[way.edge as usize].cond).is_none();
        let mut possible = false_ones.is_empty();
        let assumptions: Vec<Term> = list.iter().map(|(term, ..)| *term).collect();
        if possible && (undecided || way.to.is_none()) {
            context.queries.calls += 1;
            possible = match context.queries.solver.check(context.terms, &assumptions) {
                Outcome::Sat => true,
                Outcome::Unsat(_) => false,
                Outcome::Unknown => return false,
            };
        }
        let work = work.plus(way.work);
        let go_on = match way.to {
            _ if !possible => true,
            Some(to) => walk(context, to, work, path, found),
            None => {
                let found_one = smallest(context, path, work, &assumptions);
                found(context, found_one)
            }
        };
        path.pop();
        if !go_on {
            return false;
        }
    }
    true
}

/// A possible path with its smallest packet.
fn smallest(context: &mut Context, path: &[u32], work: Work, assumptions: &[Term]) -> Found {
    let variable = context.terms.packet_size();
    let mut wanted = leaves(context.terms, assumptions);
    wanted.push(variable);
    let mut model = context.queries.solver.model(context.terms, &wanted);
    let mut high = model.value(context.terms, variable);
    let mut low = context.sizes.0;
    while low < high {
        let middle = (low + high) / 2;
        let limit = context.terms.constant(16, middle + 1);
        let limit = context.terms.ult(variable, limit);
        let mut query = assumptions.to_vec();
        query.push(limit);
        context.queries.calls += 1;
        match context.queries.solver.check(context.terms, &query) {
            Outcome::Sat => {
                model = context.queries.solver.model(context.terms, &wanted);
                high = model.value(context.terms, variable).min(middle);
            }
            Outcome::Unsat(_) => low = middle + 1,
            Outcome::Unknown => break,
        }
    }
    Found { path: path.to_vec(), work, size: high, model, slowness: 0.0 }
}
