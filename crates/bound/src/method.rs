//! Other ways to the same answer, and one path that is given.
//!
//! The published evaluation compares its search with alternatives (CoNEXT'21, Table 4); here are
//! the same ones for ours, so that both can be timed side by side. All give the same rates; only
//! [`Method::Default`] is meant for use.

use crate::check::{self, Verdict};
use crate::enumerate;
use crate::search::{self, By, Context, Found, Goal, Outcome};
use crate::timing::{Timed, Work};

/// Methods to look for the slowest path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Best-first with learned clauses; paths are checked when they are complete.
    #[default]
    Default,
    /// The solver is asked at every branch that is not decided, for the way so far.
    EveryBranch,
    /// Nothing is decided while the program is unrolled, and edges know no packet sizes.
    NoStatic,
    /// The slowest path for cores alone, then for the shared engine alone; the slower one counts.
    OneByOne,
    /// Every possible path, one after the other.
    Exhaustive,
}

/// Finds the slowest path by a method.
pub fn search(context: &mut Context, by: By, goal: Goal, method: Method) -> Outcome {
    match method {
        Method::Default | Method::EveryBranch | Method::NoStatic => {
            search::search(context, by, goal)
        }
        Method::OneByOne => one_by_one(context, by),
        Method::Exhaustive => exhaustive(context, by),
    }
}

/// A program with one kind of its work only.
fn only(timed: &Timed, engine: bool) -> Timed {
    let mut timed = timed.clone();
    for edge in timed.out.iter_mut().flatten() {
        edge.work = match engine {
            true => Work { milli: 0, ..edge.work },
            false => Work { micro: 0, ..edge.work },
        };
    }
    timed
}

/// The larger of two maxima is the maximum of the larger: each resource's slowest path is sought
/// alone.
fn one_by_one(context: &mut Context, by: By) -> Outcome {
    let (timed, machine) = (context.timed, context.machine);
    let mut whole = Outcome { found: None, exact: true, bound: 0.0 };
    for engine in [false, true] {
        let part = only(timed, engine);
        let mut alone = Context {
            dag: context.dag,
            timed: &part,
            terms: context.terms,
            clauses: context.clauses,
            queries: check::Queries {
                solver: context.queries.solver,
                calls: context.queries.calls,
            },
            machine,
            sizes: context.sizes,
            every_branch: context.every_branch,
            paths_checked: context.paths_checked,
            labels: context.labels,
            stop: context.stop,
            progress: context.progress,
            shared: search::Shared::default(),
        };
        let outcome = search::search(&mut alone, by, Goal::default());
        let (calls, paths, labels) = (alone.queries.calls, alone.paths_checked, alone.labels);
        (context.queries.calls, context.paths_checked, context.labels) = (calls, paths, labels);
        whole.exact &= outcome.exact;
        whole.bound = whole.bound.max(outcome.bound);
        let Some(mut found) = outcome.found else { continue };
        found.work = work(timed, &found.path);
        found.slowness = machine.slowness(by, found.work, found.size);
        if whole.found.as_ref().is_none_or(|other| other.slowness < found.slowness) {
            whole.found = Some(found);
        }
    }
    whole
}

fn exhaustive(context: &mut Context, by: By) -> Outcome {
    let naive = search::naive(context, by).unwrap_or(f64::INFINITY);
    let mut best: Option<Found> = None;
    let mut paths = 0;
    let complete = enumerate::all(context, &mut |context, mut found| {
        paths += 1;
        found.slowness = context.machine.slowness(by, found.work, found.size);
        if best.as_ref().is_none_or(|other| other.slowness < found.slowness) {
            best = Some(found);
        }
        true
    });
    context.paths_checked += paths;
    let slowest = best.as_ref().map_or(0.0, |found| found.slowness);
    Outcome { found: best, exact: complete, bound: if complete { slowest } else { naive } }
}

/// Work of a path of the unrolled program.
fn work(timed: &Timed, path: &[u32]) -> Work {
    let (mut at, mut sum) = (0, Work::default());
    for edge in path {
        let Some(way) = timed.out[at as usize].iter().find(|way| way.edge == *edge) else { break };
        sum = sum.plus(way.work);
        match way.to {
            Some(to) => at = to,
            None => break,
        }
    }
    sum
}

/// Why a path that was given has no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    #[error(
        "block {block}, number {number} of the path, does not follow block {before}; there go on: {ways}"
    )]
    NotThere { number: usize, block: u32, before: u32, ways: String },
    #[error("the path ends after block {last}, and the program does not; there go on: {ways}")]
    Short { last: u32, ways: String },
    #[error("no packet takes this path: {0} cannot go together")]
    Impossible(String),
    #[error("stopped before it was known whether a packet takes this path")]
    Stopped,
}

/// A block of a path that is given, and whether it is left by a taken branch, where it matters.
pub type Step = (u32, Option<bool>);

/// The smallest packet of a path given by its blocks, from the first to the last.
///
/// # Errors
/// See [`GivenError`].
pub fn given(context: &mut Context, blocks: &[Step]) -> Result<Found, GivenError> {
    let (dag, timed) = (context.dag, context.timed);
    let block = |node: u32| dag.nodes[timed.node[node as usize] as usize].block.0;
    let ways = |at: u32| {
        let list = timed.out[at as usize].iter();
        let list: Vec<String> = list
            .map(|way| way.to.map_or("the end".to_string(), |to| block(to).to_string()))
            .collect();
        list.join(", ")
    };
    let first = blocks.first().map_or(u32::MAX, |(block, _)| *block);
    if first != block(0) {
        let ways = block(0).to_string();
        return Err(GivenError::NotThere { number: 1, block: first, before: block(0), ways });
    }
    let (mut at, mut path, mut sum) = (0, Vec::new(), Work::default());
    for (index, (next, _)) in blocks.iter().enumerate().skip(1) {
        let (before, taken) = blocks[index - 1];
        let way = timed.out[at as usize].iter().find(|way| {
            way.to.is_some_and(|to| block(to) == *next)
                && taken.is_none_or(|taken| dag.edges[way.edge as usize].taken == taken)
        });
        let Some((way, to)) = way.and_then(|way| Some((way, way.to?))) else {
            return Err(GivenError::NotThere {
                number: index + 1,
                block: *next,
                before,
                ways: ways(at),
            });
        };
        path.push(way.edge);
        sum = sum.plus(way.work);
        at = to;
    }
    let Some(way) = timed.out[at as usize].iter().find(|way| way.to.is_none()) else {
        return Err(GivenError::Short { last: block(at), ways: ways(at) });
    };
    path.push(way.edge);
    let work = sum.plus(way.work);
    context.paths_checked += 1;
    match check::check(dag, context.terms, &mut context.queries, &path, None, context.sizes) {
        Verdict::Possible((size, model)) => Ok(Found { path, work, size, model, slowness: 0.0 }),
        Verdict::Refuted(cores) => {
            let edges =
                cores.into_iter().map(|(edges, _)| edges).min_by_key(Vec::len).unwrap_or_default();
            let name = |edge: &u32| {
                let edge = dag.edges[*edge as usize];
                let from = dag.nodes[edge.from as usize].block.0;
                let to = edge
                    .to
                    .map_or("end".to_string(), |to| dag.nodes[to as usize].block.0.to_string());
                format!("{from} to {to}")
            };
            let list: Vec<String> = edges.iter().map(name).collect();
            Err(GivenError::Impossible(format!("the steps {}", list.join(", "))))
        }
        Verdict::Unknown => Err(GivenError::Stopped),
    }
}
