//! How often a function calls others on its ways (`NF_FIRES`): an element's outputs, or the inputs
//! of a join below a fork.
//!
//! For the functions that are listed, the set of *counts* is found: what one way through the body
//! calls, as a vector of 0, 1 or 2 (more than once), through `if`s, loops and calls of functions
//! between. Everything else follows from the set: each vector all ones is class `all`, sums of one
//! are `one`, sums of at most one `zero_or_one`, and vectors of all zeros and all ones are
//! `together`, or `last` if the last one listed comes last. Conditions are not looked at: an `if`
//! may take both arms. A call too many is reported at the call, one too few where the way ends. The
//! inputs of a join that lies between start it when the last of them is called, so they have places
//! in the vectors too, until they are complete. There are at most 3 to the power of the functions'
//! number of vectors; beyond [`MOST`] the class is `many`.

use std::collections::{BTreeSet, HashMap};

use nicforge_ir::{BlockId, Body, Diagnostic, FuncId, Op, Program, Span};

use crate::diagnostics::codes;
use crate::promises::{Declared, Fires};
use crate::signatures::FuncState;
use crate::unit::Unit;

/// Vectors that are told apart.
const MOST: usize = 2048;

/// Calls of each listed function on one way: 0, 1, 2 for more.
pub type Counts = Vec<u8>;

/// True if a way may have called this much, if it may go on.
fn within(class: &str, counts: &[u8]) -> bool {
    match class {
        "one" | "zero_or_one" => counts.iter().sum::<u8>() <= 1,
        "all" | "together" => counts.iter().all(|count| *count <= 1),
        "last" => {
            let begun = counts.last() != Some(&0);
            counts.iter().all(|count| *count == 1 || *count == 0 && !begun)
        }
        _ => true,
    }
}

/// True if a way may end having called this much.
fn complete(class: &str, counts: &[u8]) -> bool {
    let ones = counts.iter().all(|count| *count == 1);
    match class {
        "all" => ones,
        "one" => counts.iter().sum::<u8>() == 1,
        "together" | "last" => ones || counts.iter().all(|count| *count == 0),
        _ => true,
    }
}

type Ways = BTreeSet<Counts>;

/// A join on the way to another: its inputs' places in the vectors, and what they start together.
struct Between {
    inputs: Vec<usize>,
    joined: Option<FuncId>,
}

struct Counter<'p> {
    program: &'p Program,
    /// For each function that is counted, its place in the vectors: those listed first, then the
    /// inputs of joins between.
    places: HashMap<FuncId, usize>,
    listed: usize,
    width: usize,
    between: Vec<Between>,
    class: &'p str,
    /// Too many ways to tell apart.
    lost: bool,
    /// The first call too many, and the way's calls with it.
    excess: Option<(Span, Counts)>,
}

#[derive(Default)]
struct Walk {
    breaks: Vec<Ways>,
    trips: Vec<Ways>,
    returned: Vec<(Ways, Span)>,
}

impl Counter<'_> {
    /// The ways that come out at a region's end; none if it always leaves.
    fn block(&mut self, walk: &mut Walk, body: &Body, block: BlockId, mut ways: Ways) -> Ways {
        for inst in &body.blocks[block].insts {
            if ways.is_empty() || self.lost {
                return ways;
            }
            let inst = &body.insts[*inst];
            match &inst.op {
                Op::Yield(_) => return ways,
                Op::Return(_) => {
                    walk.returned.push((ways, inst.span));
                    return Ways::new();
                }
                Op::Break { depth, .. } => {
                    let level = walk.breaks.len() - 1 - *depth as usize;
                    walk.breaks[level].extend(ways);
                    return Ways::new();
                }
                Op::Continue { depth, .. } => {
                    let level = walk.trips.len() - 1 - *depth as usize;
                    walk.trips[level].extend(ways);
                    return Ways::new();
                }
                Op::If { then, other, .. } => {
                    let mut met = self.block(walk, body, *then, ways.clone());
                    met.extend(self.block(walk, body, *other, ways));
                    ways = met;
                }
                Op::Loop { body: region, .. } => ways = self.trips(walk, body, *region, ways),
                Op::Call { func, .. } => ways = self.call(*func, ways, inst.span),
                _ => {}
            }
            self.lost |= ways.len() > MOST;
        }
        ways
    }

    fn trips(&mut self, walk: &mut Walk, body: &Body, region: BlockId, entered: Ways) -> Ways {
        let mut begins = entered;
        loop {
            walk.breaks.push(Ways::new());
            walk.trips.push(Ways::new());
            self.block(walk, body, region, begins.clone());
            let ends = walk.trips.pop().unwrap_or_default();
            let broken = walk.breaks.pop().unwrap_or_default();
            let grown: Ways = begins.union(&ends).cloned().collect();
            if grown == begins || self.lost {
                return broken.into_iter().chain(ends).collect();
            }
            begins = grown;
        }
    }

    /// The ways behind a call.
    fn call(&mut self, func: FuncId, ways: Ways, span: Span) -> Ways {
        let Some(at) = self.places.get(&func).copied() else {
            let returned = self.body(&self.program.funcs[func].body, ways);
            return returned.into_iter().flat_map(|(ways, _)| ways).collect();
        };
        let mut behind = Ways::new();
        let mut joined = Ways::new();
        let join = self.between.iter().position(|join| join.inputs.contains(&at));
        for mut way in ways {
            way[at] = (way[at] + 1).min(2);
            if self.excess.is_none() && !within(self.class, &way[..self.listed]) {
                self.excess = Some((span, way[..self.listed].to_vec()));
            }
            match join {
                Some(join) if self.between[join].inputs.iter().all(|input| way[*input] > 0) => {
                    self.between[join].inputs.iter().for_each(|input| way[*input] = 0);
                    joined.insert(way);
                }
                _ => drop(behind.insert(way)),
            }
        }
        if let (Some(next), false) =
            (join.and_then(|join| self.between[join].joined), joined.is_empty())
        {
            joined = self.call(next, joined, span);
        }
        behind.extend(joined);
        behind
    }

    fn body(&mut self, body: &Body, ways: Ways) -> Vec<(Ways, Span)> {
        let mut walk = Walk::default();
        self.block(&mut walk, body, body.entry(), ways);
        walk.returned
    }

    /// The ways through a function, with where they end.
    fn through(&mut self, func: FuncId) -> Vec<(Ways, Span)> {
        let mut found =
            self.body(&self.program.funcs[func].body, Ways::from([vec![0; self.width]]));
        let cut = |ways: Ways| ways.into_iter().map(|way| way[..self.listed].to_vec()).collect();
        found.iter_mut().for_each(|(ways, _)| *ways = cut(std::mem::take(ways)));
        found
    }
}

/// The first class that holds for all ways.
fn class_of(ways: &[(Ways, Span)]) -> &'static str {
    let fits = |class: &str| {
        ways.iter().flat_map(|(ways, _)| ways).all(|way| within(class, way) && complete(class, way))
    };
    ["all", "one", "zero_or_one"].into_iter().find(|class| fits(class)).unwrap_or("many")
}

/// The function that a function calls first.
fn callee(body: &Body) -> Option<FuncId> {
    let mut found = None;
    body.for_each_inst(body.entry(), &mut |inst| {
        if let (None, Op::Call { func, .. }) = (found, &body.insts[inst].op) {
            found = Some(*func);
        }
    });
    found
}

impl Unit<'_> {
    fn id_of(&self, name: &str) -> Option<FuncId> {
        self.funcs.get(name)?.iter().find_map(|(_, state)| match state {
            FuncState::Done(info) => Some(info.id),
            _ => None,
        })
    }

    /// Counts calls for every `NF_FIRES`, and reports broken promises.
    pub fn check_fires(&mut self) {
        let all = std::mem::take(&mut self.fires_declared);
        for each in &all {
            if !self.index.functions.contains_key(&each.function) {
                let message = format!("there is no function `{}`", each.function);
                let help = "name one that is defined in this file";
                self.refuse(codes::ANNOTATION, each.span, message, help);
                continue;
            }
            let Some(function) = self.id_of(&each.function) else { continue };
            let mut counter = self.counter(each, &all);
            let ways = counter.through(function);
            let (lost, excess) = (counter.lost, counter.excess.take());
            if !is_join(each) {
                let class = if lost { "many" } else { class_of(&ways) };
                let (function, outputs) = (each.function.clone(), each.outputs.clone());
                self.fires.push(Fires { function, outputs, class });
            }
            let short = ways.iter().find_map(|(ways, span)| {
                let way =
                    ways.iter().find(|way| !complete(&each.class, way) && within(&each.class, way));
                way.map(|way| (*span, way.clone()))
            });
            let too_many = excess.is_some();
            if let Some((span, counts)) = excess.or(short).filter(|_| !lost) {
                let diagnostic = broken(each, span, &counts, too_many);
                self.report(diagnostic);
            }
        }
    }

    fn counter<'p>(&'p self, each: &'p Declared, all: &[Declared]) -> Counter<'p> {
        let listed = each.outputs.len();
        let mut places: HashMap<FuncId, usize> = HashMap::new();
        for (at, name) in each.outputs.iter().enumerate() {
            places.extend(self.id_of(name).map(|id| (id, at)));
        }
        let (mut width, mut between) = (listed, Vec::new());
        for other in all.iter().filter(|other| is_join(other) && other.outputs != each.outputs) {
            let inputs: Vec<FuncId> =
                other.outputs.iter().filter_map(|name| self.id_of(name)).collect();
            if inputs.iter().any(|id| places.contains_key(id)) {
                continue;
            }
            let joined = inputs.iter().find_map(|id| callee(&self.prog.funcs[*id].body));
            let first = width;
            for id in &inputs {
                places.insert(*id, width);
                width += 1;
            }
            between.push(Between { inputs: (first..width).collect(), joined });
        }
        Counter {
            program: &self.prog,
            places,
            listed,
            width,
            between,
            class: &each.class,
            lost: false,
            excess: None,
        }
    }
}

fn is_join(each: &Declared) -> bool {
    matches!(each.class.as_str(), "together" | "last")
}

/// Calls of a way that break the promise.
fn broken(each: &Declared, span: Span, counts: &[u8], too_many: bool) -> Diagnostic {
    let prefix = format!("{}_", each.function);
    let plain = |name: &str| format!("`{}`", name.strip_prefix(&prefix).unwrap_or(name));
    let of = |wanted: fn(u8) -> bool| {
        let named = each.outputs.iter().zip(counts).filter(|(_, count)| wanted(**count));
        let named: Vec<String> = named.map(|(name, _)| plain(name)).collect();
        named.join(", ")
    };
    let (called, twice, left) =
        (of(|count| count > 0), of(|count| count > 1), of(|count| count == 0));
    let promise = match each.class.as_str() {
        "all" => "calls each of its outputs once",
        "one" => "calls one of its outputs, once",
        "zero_or_one" => "calls at most one of its outputs, once",
        "last" => "leads to all of the join's inputs once, the packet's last, or to none",
        _ => "leads to all of the join's inputs once, or to none",
    };
    let found = match (too_many, twice.is_empty(), called.is_empty()) {
        (true, false, _) => format!("a way calls {twice} more than once"),
        (true, true, _) if each.class == "last" => format!("a way calls {called} before {left}"),
        (true, true, _) => format!("a way calls {called}"),
        (false, _, true) => "a way ends here that calls none".to_string(),
        (false, ..) => format!("a way ends here that calls {called} and not {left}"),
    };
    Diagnostic::error(codes::FIRES.id, span, format!("`{}` {promise}, but {found}", each.function))
        .label(if too_many { "called here" } else { "ends here" })
        .help("call them so on every way (conditions are not looked at), or declare another class")
}
