//! Every path a packet takes, one after the other: depth-first, with the solver asked at every
//! undecided branch.
//!
//! Exponential in the number of independent branches; `--all` and the tests use it, the search does
//! not.

use crate::check::{self, Conditions, conditions};
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
                let least = context.sizes.0;
                let (size, model) =
                    check::smallest(context.terms, &mut context.queries, &assumptions, least);
                found(context, Found { path: path.clone(), work, size, model, slowness: 0.0 })
            }
        };
        path.pop();
        if !go_on {
            return false;
        }
    }
    true
}
