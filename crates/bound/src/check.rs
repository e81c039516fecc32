//! Is a path possible? If not, why: clauses that hold for every path.
//!
//! The conditions on the path, resolved, are assumptions of one query. A refutation is reduced to a
//! minimal one by leaving out assumptions one after the other; the clause is the edges of what is
//! left, with the edges that resolved it. All refutations that share no condition are taken from
//! one path. The packet size takes part as an assumption of its own: a refutation that needs it
//! says how large packets on those edges are at least.

use crate::clauses::Consequence;
use crate::hash::{HashMap, HashSet};
use crate::resolve::{Resolver, Used};
use crate::solver::{Model, Outcome, Solver};
use crate::term::{Node, Term, Terms};
use crate::unroll::Dag;

/// A path's conditions with equal ones merged.
pub struct Conditions {
    /// Condition, edge it stands on, edges that resolved it.
    pub list: Vec<(Term, u32, Used)>,
    /// Edges whose condition is false.
    pub false_ones: Vec<(u32, Used)>,
}

/// A combination of edges, and what follows from it.
pub type Refutation = (Vec<u32>, Consequence);

/// Verdicts on a path.
pub enum Verdict {
    /// The smallest packet, and values of what the conditions mention.
    Possible((u64, Model)),
    Refuted(Vec<Refutation>),
    /// The solver was stopped.
    Unknown,
}

/// The conditions of a path.
pub fn conditions(dag: &Dag, terms: &mut Terms, path: &[u32]) -> Conditions {
    let mut resolver = Resolver::new(dag, path);
    let mut seen: HashMap<Term, usize> = HashMap::default();
    let mut result = Conditions { list: Vec::new(), false_ones: Vec::new() };
    for edge in path {
        let cond = dag.edges[*edge as usize].cond;
        if terms.value(cond).is_some() {
            continue;
        }
        let (term, used) = resolver.term(terms, cond);
        match terms.value(term) {
            Some(0) => result.false_ones.push((*edge, used)),
            Some(_) => {}
            None => {
                let at = *seen.entry(term).or_insert(result.list.len());
                if at == result.list.len() {
                    result.list.push((term, *edge, used));
                }
            }
        }
    }
    result
}

fn clause(conditions: &Conditions, core: &[usize]) -> Vec<u32> {
    let mut edges = Vec::new();
    for index in core {
        let (_, edge, used) = &conditions.list[*index];
        edges.push(*edge);
        edges.extend(used.iter());
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Queries of a solver, counted.
pub struct Queries<'a> {
    pub solver: &'a mut dyn Solver,
    pub calls: u64,
}

impl Queries<'_> {
    /// One query more.
    pub fn check(&mut self, terms: &Terms, assumptions: &[Term]) -> Outcome {
        self.calls += 1;
        self.solver.check(terms, assumptions)
    }
}

/// Checks a path, with packets of at most `size` bytes; all packets have `least` to `largest`.
pub fn check(
    dag: &Dag,
    terms: &mut Terms,
    queries: &mut Queries,
    path: &[u32],
    size: Option<u64>,
    (least, largest): (u64, u64),
) -> Verdict {
    let conditions = conditions(dag, terms, path);
    match refute(terms, queries, &conditions, size, largest) {
        None => Verdict::Unknown,
        Some(refutations) if refutations.is_empty() => {
            let all: Vec<Term> = conditions.list.iter().map(|(term, ..)| *term).collect();
            Verdict::Possible(smallest(terms, queries, &all, least))
        }
        Some(refutations) => Verdict::Refuted(refutations),
    }
}

/// Refutations of a path's conditions that share none of them; none if some packet fulfils them,
/// `None` if the solver was stopped.
pub fn refute(
    terms: &mut Terms,
    queries: &mut Queries,
    conditions: &Conditions,
    size: Option<u64>,
    largest: u64,
) -> Option<Vec<Refutation>> {
    if !conditions.false_ones.is_empty() {
        let impossible = |(edge, used): &(u32, Used)| {
            let mut edges = vec![*edge];
            edges.extend(used.iter());
            (edges, Consequence::Impossible)
        };
        return Some(conditions.false_ones.iter().map(impossible).collect());
    }
    let limit = size.filter(|size| *size < largest).map(|size| at_most(terms, size));
    let mut refutations = Vec::new();
    let mut left: Vec<usize> = (0..conditions.list.len()).collect();
    loop {
        let assumptions = assemble(conditions, &left, limit);
        match queries.check(terms, &assumptions) {
            Outcome::Unknown if refutations.is_empty() => return None,
            Outcome::Sat | Outcome::Unknown => return Some(refutations),
            Outcome::Unsat(core) => {
                let core: Vec<usize> =
                    core.into_iter().filter(|index| *index < left.len()).map(|i| left[i]).collect();
                let (core, sized) = minimise(terms, queries, conditions, core, limit);
                let consequence = if sized {
                    match least_size(terms, queries, conditions, &core, size.unwrap_or(0), largest)
                    {
                        Some(least) => Consequence::Size(least),
                        None => Consequence::Impossible,
                    }
                } else {
                    Consequence::Impossible
                };
                refutations.push((clause(conditions, &core), consequence));
                left.retain(|index| !core.contains(index));
                if core.is_empty() {
                    return Some(refutations);
                }
            }
        }
    }
}

fn at_most(terms: &mut Terms, size: u64) -> Term {
    let (variable, limit) = (terms.packet_size(0), terms.constant(16, size + 1));
    terms.ult(variable, limit)
}

fn assemble(conditions: &Conditions, indices: &[usize], limit: Option<Term>) -> Vec<Term> {
    indices.iter().map(|index| conditions.list[*index].0).chain(limit).collect()
}

/// Leaves out what a refutation does not need; says whether the size is needed.
fn minimise(
    terms: &Terms,
    queries: &mut Queries,
    conditions: &Conditions,
    mut core: Vec<usize>,
    limit: Option<Term>,
) -> (Vec<usize>, bool) {
    let mut limit = limit;
    if limit.is_some()
        && let Outcome::Unsat(used) = queries.check(terms, &assemble(conditions, &core, None))
    {
        core = used.into_iter().map(|index| core[index]).collect();
        limit = None;
    }
    let mut at = 0;
    // Conditions that many phis resolved make long clauses: try to do without them first.
    core.sort_by_key(|index| std::cmp::Reverse(conditions.list[*index].2.len()));
    while at < core.len() {
        let mut without = core.clone();
        without.remove(at);
        match queries.check(terms, &assemble(conditions, &without, limit)) {
            Outcome::Unsat(used) => {
                // What was tried before and is needed is in every refutation from here on.
                core = used
                    .into_iter()
                    .filter(|index| *index < without.len())
                    .map(|index| without[index])
                    .collect();
            }
            _ => at += 1,
        }
    }
    (core, limit.is_some())
}

/// The least packet size some conditions allow.
fn least_size(
    terms: &mut Terms,
    queries: &mut Queries,
    conditions: &Conditions,
    core: &[usize],
    refuted: u64,
    largest: u64,
) -> Option<u64> {
    let (mut low, mut high) = (refuted + 1, None);
    let mut step = 0;
    loop {
        // A little more than was refuted is the likeliest: steps double until a packet is found.
        let middle = match high {
            None => (low + step).min(largest),
            Some(high) if low >= high => return Some(high),
            Some(high) => (low + high) / 2,
        };
        step = 2 * step + 1;
        let limit = at_most(terms, middle);
        match queries.check(terms, &assemble(conditions, core, Some(limit))) {
            Outcome::Sat => {
                let variable = terms.packet_size(0);
                let model = queries.solver.model(terms, &[variable]);
                high = Some(model.value(terms, variable).clamp(low, middle));
            }
            Outcome::Unsat(_) if middle == largest => return None,
            Outcome::Unsat(_) => low = middle + 1,
            // What is refuted so far holds.
            Outcome::Unknown => return Some(low),
        }
    }
}

/// The smallest packet that takes a path which some packet takes, and the values of what its
/// conditions mention.
pub fn smallest(
    terms: &mut Terms,
    queries: &mut Queries,
    assumptions: &[Term],
    least: u64,
) -> (u64, Model) {
    let variable = terms.packet_size(0);
    let mut wanted = leaves(terms, assumptions);
    wanted.push(variable);
    let mut model = queries.solver.model(terms, &wanted);
    let (mut low, mut high) = (least, model.value(terms, variable));
    while low < high {
        // The least size is the likeliest.
        let middle = if low == least { low } else { (low + high) / 2 };
        let mut query = assumptions.to_vec();
        query.push(at_most(terms, middle));
        match queries.check(terms, &query) {
            Outcome::Sat => {
                model = queries.solver.model(terms, &wanted);
                high = model.value(terms, variable).min(middle);
            }
            Outcome::Unsat(_) => low = middle + 1,
            Outcome::Unknown => break,
        }
    }
    (high, model)
}

/// Variables and loads that terms mention.
pub fn leaves(terms: &Terms, roots: &[Term]) -> Vec<Term> {
    let (mut seen, mut queue, mut found) = (HashSet::default(), roots.to_vec(), Vec::new());
    while let Some(term) = queue.pop() {
        if !seen.insert(term) {
            continue;
        }
        match terms.node(term) {
            Node::Const(_) | Node::Phi { .. } => {}
            Node::Var(_) => found.push(term),
            Node::Load(_, address) => {
                found.push(term);
                queue.push(address);
            }
            Node::Op(_, a, b) => queue.extend([a, b]),
            Node::Extract(a, _) => queue.push(a),
            Node::Ite(c, a, b) => queue.extend([c, a, b]),
        }
    }
    found
}
