//! The slowest possible path: best-first search with learned clauses.
//!
//! Notation: a label is a way from the start to a timed node, with its work so far, the packet
//! sizes it allows and the residuals of clauses it carries. Its bound is the most any path through
//! it can cost per byte: work so far plus the longest way on, per size class. Labels leave a queue
//! by bound, so the first complete path that a packet takes is the slowest. A label is not kept if
//! another one at the same timed node with the same residuals has at least its work and at most its
//! size. That is right as long as nothing is learned: so after a refutation the queue is started
//! again, and what is found in between counts as a path, not as a proof. Every bound on the way is
//! valid for all packets.
//!
//! The search ends: each start either proves the answer or learns a clause that excludes at least
//! one path. Worst case exponential in interleaved clauses; programs of a thousand instructions
//! take some dozen starts.
//!
//! Source: Krude et al., CoNEXT'21, for costs and size classes; clauses over edges in place of
//! refuted prefixes are ours.

use std::collections::BinaryHeap;
use std::rc::Rc;

use crate::check::{self, Queries, Refutation, Verdict};
use crate::clauses::{Clauses, EMPTY, SetId};
use crate::hash::HashMap;
use crate::solver::Model;
use crate::term::Terms;
use crate::timing::{Suffix, Timed, Work};
use crate::unroll::Dag;

/// Packets or bits, of which slow means few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    PacketRate,
    BitRate,
}

/// The machine, as far as rates depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Core cycles of a packet outside the program.
    pub base_cycles: f64,
    pub cores: f64,
    pub hz: f64,
    /// Packets a second that the ports carry.
    pub port_pps: Option<f64>,
    /// Bits a second that the ports carry.
    pub port_bps: Option<f64>,
}

impl Machine {
    /// Seconds of the busiest resource per packet.
    pub fn seconds(&self, work: Work) -> f64 {
        let (core, engine) = self.each(work);
        core.max(engine)
    }

    /// Seconds per packet of all cores together, and of the engine.
    pub fn each(&self, work: Work) -> (f64, f64) {
        let core = (self.base_cycles + work.milli as f64 / 1e3) / (self.hz * self.cores);
        (core, work.micro as f64 / 1e6 / self.hz)
    }

    /// Seconds per packet, or per byte, as an order asks.
    pub fn slowness(&self, by: By, work: Work, size: u64) -> f64 {
        match by {
            By::PacketRate => self.seconds(work),
            By::BitRate => self.seconds(work) / size as f64,
        }
    }
}

/// A complete path that a packet takes.
#[derive(Clone, Debug)]
pub struct Found {
    /// Edges of the unrolled program.
    pub path: Vec<u32>,
    pub work: Work,
    pub size: u64,
    pub model: Model,
    pub slowness: f64,
}

/// Outcomes of a search.
pub struct Outcome {
    /// The slowest path found, and whether it is proved the slowest.
    pub found: Option<Found>,
    pub exact: bool,
    /// No packet is slower than this (seconds per packet, or per byte).
    pub bound: f64,
}

/// Facts that the search shares with others on the same program.
pub struct Context<'a> {
    pub dag: &'a Dag,
    pub timed: &'a Timed,
    pub terms: &'a mut Terms,
    pub clauses: &'a mut Clauses,
    pub queries: Queries<'a>,
    pub machine: Machine,
    /// Smallest and largest packets.
    pub sizes: (u64, u64),
    /// Ask the solver at every branch instead of at the end of a path.
    pub every_branch: bool,
    pub paths_checked: u64,
    pub labels: u64,
    /// True when to give up.
    pub stop: &'a dyn Fn() -> bool,
    /// Hears of every better bound.
    pub progress: &'a mut dyn FnMut(By, f64),
    /// What orders share.
    pub shared: Shared,
}

/// Results of a search for one order that hold for the next one, too.
#[derive(Default)]
pub struct Shared {
    /// The longest ways on, and how many edges had been learned about then.
    suffix: Option<(u64, Rc<Suffix>)>,
    /// Paths that packets take, with their smallest packets.
    possible: Vec<Found>,
}

impl Context<'_> {
    /// The longest ways on, as far as is known by now.
    fn suffix(&mut self) -> Rc<Suffix> {
        let clauses = &*self.clauses;
        match &self.shared.suffix {
            Some((then, suffix)) if *then == clauses.units => Rc::clone(suffix),
            _ => {
                let (smallest, dead) = (&clauses.smallest, &clauses.dead);
                let suffix = Rc::new(Suffix::new(self.timed, smallest, dead, self.sizes.0));
                self.shared.suffix = Some((clauses.units, Rc::clone(&suffix)));
                suffix
            }
        }
    }
}

/// When to be content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Goal {
    /// Stop when nothing slower than this is possible, or something as slow is found.
    pub required: Option<f64>,
}

#[derive(Clone, Copy)]
struct Label {
    at: Option<u32>,
    work: Work,
    low: u64,
    high: u64,
    set: SetId,
    parent: u32,
    edge: u32,
}

/// Queue entries: the largest bound first, then the latest label, so that ties run to the end of a
/// path.
#[derive(PartialEq)]
struct Entry(f64, u32);

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

const NONE: u32 = u32::MAX;
/// Complete paths to refute before the queue is started again.
const BATCH: u32 = 16;
/// Most labels of one start; memory stays under a gigabyte.
const LABEL_LIMIT: usize = 8_000_000;

/// The bound nothing was learned for: the longest path by size class.
pub fn naive(context: &mut Context, by: By) -> Option<f64> {
    let suffix = context.suffix();
    bound(context, &suffix, by, 0, Work::default(), context.sizes)
}

/// The most any way on from a timed node can cost.
fn bound(
    context: &Context,
    suffix: &Suffix,
    by: By,
    timed: u32,
    work: Work,
    (low, high): (u64, u64),
) -> Option<f64> {
    let first = suffix.classes.partition_point(|class| *class <= low).saturating_sub(1);
    let mut most: Option<f64> = None;
    for class in first..suffix.classes.len() {
        let size = suffix.classes[class].max(low);
        if size > high {
            break;
        }
        let Some(ahead) = suffix.ahead(timed, class) else { continue };
        let slowness = context.machine.slowness(by, work.plus(ahead), size);
        most = Some(most.map_or(slowness, |most| most.max(slowness)));
    }
    most
}

/// Finds the slowest path.
pub fn search(context: &mut Context, by: By, goal: Goal) -> Outcome {
    let mut best: Option<Found> = None;
    let mut proved = f64::INFINITY;
    loop {
        let learned = context.clauses.learned;
        let round = round(context, by, goal, &mut best, &mut proved);
        if round == Round::Proved || round == Round::Stopped {
            let exact = round == Round::Proved;
            return Outcome { found: best, exact, bound: proved };
        }
        if context.clauses.learned == learned {
            // Nothing new: another round would be the same. Cannot happen with an honest solver.
            return Outcome { found: best, exact: false, bound: proved };
        }
    }
}

#[derive(PartialEq)]
enum Round {
    Proved,
    Again,
    Stopped,
}

fn round(
    context: &mut Context,
    by: By,
    goal: Goal,
    best: &mut Option<Found>,
    proved: &mut f64,
) -> Round {
    let suffix = context.suffix();
    let mut labels: Vec<Label> = Vec::new();
    let mut queue = BinaryHeap::new();
    // Labels kept at a timed node with a set of residuals.
    let mut kept: HashMap<(u32, SetId), Vec<u32>> = HashMap::default();
    let start = Label {
        at: Some(0),
        work: Work::default(),
        low: context.sizes.0,
        high: context.sizes.1,
        set: EMPTY,
        parent: NONE,
        edge: NONE,
    };
    if let Some(most) = bound(context, &suffix, by, 0, start.work, context.sizes) {
        labels.push(start);
        queue.push(Entry(most, 0));
    }
    let mut refuted = 0;
    while let Some(Entry(most, id)) = queue.pop() {
        let slowest = best.as_ref().map_or(0.0, |found| found.slowness);
        if refuted == 0 && most < *proved {
            *proved = most.max(slowest);
            (context.progress)(by, *proved);
        }
        if most <= slowest * (1.0 + 1e-12) {
            break;
        }
        if goal.required.is_some_and(|required| *proved <= required || slowest > required) {
            return Round::Stopped;
        }
        if context.labels.is_multiple_of(1024) && (context.stop)() || labels.len() > LABEL_LIMIT {
            return Round::Stopped;
        }
        context.labels += 1;
        let label = labels[id as usize];
        let Some(at) = label.at else {
            if (context.stop)() {
                return Round::Stopped;
            }
            let path = trace(&labels, id);
            // Clauses learned since the queue was started may know it already.
            let size = match context.clauses.judge(context.dag, &path, context.sizes.0) {
                Some(size) if size <= label.low => label.low,
                _ => continue,
            };
            context.paths_checked += 1;
            let known = context.shared.possible.iter().find(|found| found.path == path);
            if let Some(known) = known.filter(|found| by == By::PacketRate || found.size <= size) {
                let slowness = context.machine.slowness(by, label.work, known.size);
                if slowness > slowest {
                    *best = Some(Found { work: label.work, slowness, ..known.clone() });
                }
                if refuted == 0 {
                    break;
                }
                return Round::Again;
            }
            let wanted = (by == By::BitRate).then_some(size);
            let (dag, sizes) = (context.dag, (size, context.sizes.1));
            match check::check(dag, context.terms, &mut context.queries, &path, wanted, sizes) {
                Verdict::Possible((size, model)) => {
                    let slowness = context.machine.slowness(by, label.work, size);
                    let found = Found { path, work: label.work, size, model, slowness };
                    context.shared.possible.push(found.clone());
                    if slowness > slowest {
                        *best = Some(found);
                    }
                    if refuted == 0 {
                        break;
                    }
                    return Round::Again;
                }
                Verdict::Refuted(refutations) => {
                    if !learn(context, refutations) {
                        return Round::Proved;
                    }
                    refuted += 1;
                    if refuted == BATCH {
                        return Round::Again;
                    }
                }
                Verdict::Unknown => return Round::Stopped,
            }
            continue;
        };
        if kept.get(&(at, label.set)).is_some_and(|list| !list.contains(&id)) {
            // Something better came after it was queued.
            continue;
        }
        let timed = context.timed;
        for way in &timed.out[at as usize] {
            let Some((set, low)) =
                context.clauses.take(context.dag, label.set, way.edge, label.low)
            else {
                continue;
            };
            let high = label.high.min(context.clauses.largest[way.edge as usize]);
            let work = label.work.plus(way.work);
            if low > high {
                continue;
            }
            if context.every_branch {
                let refutations = refutations_so_far(context, &labels, id, way.edge);
                if !refutations.is_empty() {
                    // Other labels may have been dropped for this one, so it counts as refuted.
                    if !learn(context, refutations) {
                        return Round::Proved;
                    }
                    refuted += 1;
                    if refuted == BATCH {
                        return Round::Again;
                    }
                    continue;
                }
            }
            let most = match way.to {
                None => Some(context.machine.slowness(by, work, low)),
                Some(to) => bound(context, &suffix, by, to, work, (low, high)),
            };
            let Some(most) = most.filter(|most| *most > slowest) else { continue };
            let next = labels.len() as u32;
            let label = Label { at: way.to, work, low, high, set, parent: id, edge: way.edge };
            if let Some(to) = way.to {
                let list = kept.entry((to, set)).or_default();
                if list.iter().any(|other| covers(&labels[*other as usize], &label)) {
                    continue;
                }
                list.retain(|other| !covers(&label, &labels[*other as usize]));
                list.push(next);
            }
            labels.push(label);
            queue.push(Entry(most, next));
        }
    }
    if refuted > 0 {
        return Round::Again;
    }
    *proved = best.as_ref().map_or(0.0, |found| found.slowness);
    Round::Proved
}

/// True if whatever follows label `b` costs no more per byte than the same after `a`.
fn covers(a: &Label, b: &Label) -> bool {
    a.work.milli >= b.work.milli
        && a.work.micro >= b.work.micro
        && a.low <= b.low
        && a.high >= b.high
}

/// Learns refutations; false if they say that there is no packet at all.
fn learn(context: &mut Context, refutations: Vec<Refutation>) -> bool {
    for (edges, consequence) in refutations {
        if edges.is_empty() {
            return false;
        }
        context.clauses.learn(context.dag, edges, consequence);
    }
    true
}

/// Why no packet takes the way to a label and one edge more, as far as is known.
fn refutations_so_far(
    context: &mut Context,
    labels: &[Label],
    id: u32,
    edge: u32,
) -> Vec<Refutation> {
    if context.terms.value(context.dag.edges[edge as usize].cond).is_some() {
        return Vec::new();
    }
    let mut path = trace(labels, id);
    path.push(edge);
    let conditions = check::conditions(context.dag, context.terms, &path);
    let (terms, queries) = (&mut *context.terms, &mut context.queries);
    check::refute(terms, queries, &conditions, None, context.sizes.1).unwrap_or_default()
}

fn trace(labels: &[Label], mut id: u32) -> Vec<u32> {
    let mut path = Vec::new();
    while labels[id as usize].parent != NONE {
        path.push(labels[id as usize].edge);
        id = labels[id as usize].parent;
    }
    path.reverse();
    path
}
