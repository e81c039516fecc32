//! Two versions of an XDP program: do they give the same?
//!
//! Both are followed path by path from one packet, one context, and maps that hold the same. For
//! each path of the old program, the new one is followed under the path's conditions: where a
//! branch is decided by them, one way is left. So each end of the new one is a pair of paths that
//! some packet takes, and every packet takes one of them. What both give is terms over the same
//! variables; the pair is proved when no values of them make one result differ: verdict, packet,
//! where it goes, what maps hold afterwards, messages.
//!
//! What the kernel answers from outside (time, random numbers, routes) is a variable for each
//! question, so both are told the same if they ask the same. Maps other than arrays are a list of
//! the keys that were asked for, each with an entry or none; a key that may or may not be one of
//! the list makes two paths. What is not followed leaves its pair open, and an open pair is never
//! proved.
//!
//! # Why a proof holds
//! Every run of both programs is a run along one pair of paths with values of the variables. The
//! variables allow every packet of the sizes, everything that maps can hold, and every answer, and
//! sometimes more. Programs are taken to be ones that the kernel's verifier accepts: accesses stay
//! in what their address points to, and addresses are no data. One packet is looked at, and nobody
//! changes maps meanwhile; an LRU map evicts nothing.
//!
//! A difference is only reported when both programs, run by the interpreter in the world that the
//! solver found, give different results ([`World`]).

mod calls;
mod compare;
mod copies;
mod coverage;
mod example;
mod host;
mod link;
mod maps;
mod memory;
mod path;
mod paths;
mod reference;
mod side;
mod state;
mod walk;
mod world;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nicforge_isa::object::Map;

use crate::air::exact;
use crate::ebpf::{self, Layout, XDP};
use crate::graph::{Graph, Region};
use crate::sat::BitBlaster;
use crate::term::Terms;

use state::State;
use walk::Walker;

pub use coverage::{Coverage, coverage};
pub use link::{Pair, dropped, link};
pub use paths::worlds;
pub use reference::Reference;
pub use side::Side;
pub use world::{Ended, World, entry_name, hex, verdict_name};

/// Stack of the thread that proves: terms are walked recursively.
const STACK_BYTES: usize = 1 << 30;
/// Most values of an address or argument that are followed one by one.
const MOST_VALUES: usize = 64;
/// So many hard questions there is time for.
const QUESTIONS: u32 = 8;
/// Packets that are run for an open pair.
const VARIANTS: u64 = 8;
/// Most reasons for open pairs that are kept.
const MOST_REASONS: usize = 20;

/// Limits.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Smallest and largest packets in bytes.
    pub sizes: (u64, u64),
    pub time: Duration,
}

/// A world in which both programs do not give the same.
#[derive(Clone, Debug)]
pub struct Example {
    pub world: World,
    pub old: Ended,
    pub new: Ended,
    /// What the old one gives, and the new one.
    pub difference: (String, String),
}

/// The report of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Pairs of paths that were looked at, and how many of them are proved.
    pub pairs: u64,
    pub proved: u64,
    /// All pairs there are were looked at.
    pub whole: bool,
    /// Packets for open pairs that were run instead, and gave the same.
    pub tested: u64,
    /// Why pairs are open, and how many.
    pub open: BTreeMap<String, u64>,
    pub example: Option<Example>,
    pub queries: u64,
    pub seconds: f64,
}

impl Report {
    /// Every pair is proved.
    pub fn equal(&self) -> bool {
        self.whole && self.pairs > 0 && self.example.is_none() && self.proved == self.pairs
    }
}

/// Everything that a proof works with.
struct Prover<'a> {
    terms: Terms,
    solver: BitBlaster,
    maps: &'a [Map],
    pair: &'a Pair,
    regions: Vec<Region>,
    /// Memories that nothing is known about, each with a number behind the regions'.
    unknown: u32,
    stop: Arc<AtomicBool>,
    /// When the solver gives up its question, and how long it may think about one.
    until: Rc<Cell<Option<Instant>>>,
    patience: Duration,
    queries: u64,
}

impl<'a> Prover<'a> {
    /// Before the first step of `old`.
    fn new(pair: &'a Pair, old: &Graph, options: &Options, stop: Arc<AtomicBool>) -> Prover<'a> {
        let flag = Arc::clone(&stop);
        let until = Rc::new(Cell::new(None));
        let end: Rc<Cell<Option<Instant>>> = Rc::clone(&until);
        let late = move || end.get().is_some_and(|end| Instant::now() >= end);
        let mut prover = Prover {
            terms: Terms::new(options.sizes.0, options.sizes.1),
            solver: BitBlaster::new(Rc::new(move || flag.load(Ordering::Relaxed) || late())),
            until,
            patience: options.time / QUESTIONS,
            maps: &pair.maps,
            pair,
            regions: old.regions.clone(),
            unknown: 0,
            stop,
            queries: 0,
        };
        for (region, address, byte) in &old.given {
            prover.terms.give(*region, *address, *byte);
        }
        prover
    }

    /// True when to end with what is known.
    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Compares two programs.
///
/// # Errors
/// A program that is not followed at all, with the place.
pub fn compare(pair: &Pair, options: &Options, user: &Arc<AtomicBool>) -> Result<Report, String> {
    for side in [&pair.old, &pair.new] {
        if Layout::of(&side.program.section)? != XDP {
            return Err(format!("`{}` is no XDP program", side.program.name));
        }
    }
    let graph = |side: &Side| {
        ebpf::open(&side.program, &pair.maps, &side.tails).map_err(|error| error.to_string())
    };
    let new = graph(&pair.new)?;
    let old = match &pair.reference {
        None => graph(&pair.old)?,
        Some(Reference { program, handler, kernel }) => {
            exact::graph(program, *handler, kernel, &new).map_err(|error| error.to_string())?
        }
    };
    let graphs = (old, new);
    in_time(options.time, user, |stop| run(pair, graphs, options, stop))
}

/// Does work in a thread with a large stack, and says by the flag when the time is over or the user
/// has enough.
fn in_time<R: Send>(
    time: Duration,
    user: &Arc<AtomicBool>,
    work: impl FnOnce(Arc<AtomicBool>) -> R + Send,
) -> Result<R, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let inner = Arc::clone(&stop);
        let work = move || {
            let _done = done;
            work(inner)
        };
        let handle = thread.spawn_scoped(scope, work).map_err(|error| error.to_string())?;
        let begun = Instant::now();
        // The thread that waits looks at the clock and at the user; the solver at a flag.
        while waiting.recv_timeout(Duration::from_millis(20))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            if begun.elapsed() >= time || user.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
        }
        Ok(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn run(
    pair: &Pair,
    (old, new): (Graph, Graph),
    options: &Options,
    stop: Arc<AtomicBool>,
) -> Report {
    let begun = Instant::now();
    let mut prover = Prover::new(pair, &old, options, stop);
    let start = State::begin(&mut prover, &pair.old, &old);
    let other = State::begin(&mut prover, &pair.new, &new);
    let mut report = Report::default();
    let mut first = Walker::new(&pair.old, &old, start);
    while let Some(mut before) = first.next(&mut prover) {
        let mut second = Walker::new(&pair.new, &new, before.handed(&other));
        let pairs = report.pairs;
        while let Some(mut after) = second.next(&mut prover) {
            report.pairs += 1;
            prover.pair(pair, &mut before, &mut after, &mut report);
            if report.example.is_some() {
                break;
            }
        }
        if report.example.is_some() {
            break;
        }
        if report.pairs == pairs && pair.reference.is_some() && !prover.over() {
            // All ways of the object were left out, so nothing was compared.
            report.pairs += 1;
            let [one, other] = pair.sides();
            let reason = format!("{other}: no path for packets of a path of {one}");
            *report.open.entry(reason).or_default() += 1;
        }
    }
    report.whole = !prover.over();
    report.queries = prover.queries;
    report.seconds = begun.elapsed().as_secs_f64();
    report
}

impl Prover<'_> {
    /// Proves a pair of paths, or finds what tells them apart, or leaves it open.
    fn pair(&mut self, pair: &Pair, old: &mut State, new: &mut State, report: &mut Report) {
        let reason = match self.differences(old, new) {
            Err(reason) => {
                // A packet that goes here is better than none.
                let always = self.terms.boolean(true);
                let _ = self.try_example(pair, new, always, report);
                reason
            }
            Ok(list) => {
                let mut any = self.terms.boolean(false);
                for difference in list {
                    any = self.terms.or(any, difference);
                }
                if self.terms.value(any) == Some(0) {
                    report.proved += 1;
                    return;
                }
                match self.example(&new.path, any) {
                    None => {
                        report.proved += 1;
                        return;
                    }
                    Some(None) if self.over() => "the time was over".to_string(),
                    Some(None) => {
                        let always = self.terms.boolean(true);
                        let _ = self.try_example(pair, new, always, report);
                        "the solver gave up".to_string()
                    }
                    Some(Some(_)) => match self.try_example(pair, new, any, report) {
                        Ok(()) => "what the solver found gives the same when it runs".to_string(),
                        Err(reason) => format!("what the solver found does not run: {reason}"),
                    },
                }
            }
        };
        if report.example.is_none()
            && (report.open.len() < MOST_REASONS || report.open.contains_key(&reason))
        {
            *report.open.entry(reason).or_default() += 1;
        }
    }

    /// Runs both programs in a world on this path, where a condition holds; or says why that cannot
    /// be done.
    fn try_example(
        &mut self,
        pair: &Pair,
        state: &State,
        condition: crate::term::Term,
        report: &mut Report,
    ) -> Result<(), String> {
        let Some(Some(model)) = self.example(&state.path, condition) else {
            return Err("no packet goes here".to_string());
        };
        let mut first = self.world(state, &model);
        if let Some(reference) = &pair.reference {
            first = reference.alone(first);
        }
        for variant in 0..VARIANTS {
            let mut world = first.clone();
            if variant > 0 {
                world = first.stirred(report.tested + 1);
            }
            if pair.reference.is_some() {
                // The reference interpreter knows what is told, and zero.
                world.seed = 0;
            }
            let moved = || "it depends on where memory is".to_string();
            let old = pair.run_old(&world)?.ok_or_else(moved)?;
            let new = pair.run_new(&world)?.ok_or_else(moved)?;
            if let Some(difference) = pair.difference(&old, &new) {
                report.example = Some(Example { world, old, new, difference });
                return Ok(());
            }
            report.tested += 1;
        }
        Ok(())
    }
}
