//! The whole analysis of one program: unroll, bound, search, witness.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::check::Queries;
use crate::clauses::{Clauses, Consequence};
use crate::enumerate;
use crate::graph::{Contents, Graph};
use crate::method::{self, GivenError, Method, Step};
use crate::naive;
use crate::sat::BitBlaster;
use crate::search::{self, By, Context, Found, Goal, Machine};
use crate::term::Terms;
use crate::timing::{self, Work};
use crate::unroll::{self, Dag, Limits, UnrollError};
use crate::witness::{Witness, witness};

/// Stack of the thread that analyses: terms are walked recursively.
const STACK_BYTES: usize = 1 << 30;

/// Questions and limits of an analysis.
#[derive(Clone, Debug)]
pub struct Options {
    pub machine: Machine,
    /// Smallest and largest packets in bytes, without checksum.
    pub sizes: (u64, u64),
    /// Orders to answer for.
    pub by: Vec<By>,
    /// Seconds per packet or byte that must not be exceeded; for the first of `by`.
    pub required: Option<f64>,
    /// So many slowest paths, for the first of `by`.
    pub top: usize,
    /// Every possible path.
    pub all: bool,
    pub unroll: Option<u32>,
    pub timeout: Option<Duration>,
    /// Packet bytes that are given: offset, byte.
    pub given: Vec<(u64, u8)>,
    /// How to search; the answer does not depend on it.
    pub method: Method,
    /// Blocks of the only path to look at.
    pub path: Option<Vec<Step>>,
}

/// A path with its witness.
#[derive(Clone, Debug)]
pub struct PathReport {
    pub witness: Witness,
    /// Seconds per packet.
    pub seconds: f64,
    pub size: u64,
}

/// The answer for one order.
#[derive(Clone, Debug)]
pub struct Record {
    pub by: By,
    /// The path is proved the slowest.
    pub exact: bool,
    /// Seconds per packet (per byte, by bit rate) that no packet exceeds.
    pub bound: f64,
    /// The bound before anything was checked.
    pub naive: f64,
    pub slowest: Option<PathReport>,
    /// The requirement holds or not, if one was given and is decided.
    pub fulfilled: Option<bool>,
    pub seconds: f64,
}

/// Everything found out.
#[derive(Clone, Debug)]
pub struct Report {
    pub graph: Graph,
    pub records: Vec<Record>,
    /// The slowest paths, slowest first.
    pub top: Vec<PathReport>,
    /// All possible paths, and whether that is all of them.
    pub all: Option<(Vec<PathReport>, bool)>,
    pub paths_checked: u64,
    pub solver_calls: u64,
    pub clauses: u64,
    pub nodes: usize,
    /// Iterations were cut off by `--unroll`: the answer holds for packets that stay below.
    pub cut: bool,
    /// Why the program was not unrolled: the bound is that of its blocks as they stand.
    pub gave_up: Option<UnrollError>,
    /// What an unchecked program does that had to be taken as unknown: place and what.
    pub notes: Vec<(u32, &'static str)>,
    pub seconds: f64,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    #[error(transparent)]
    Unroll(#[from] UnrollError),
    #[error("no packet of the allowed sizes gets through the program")]
    NoPath,
    #[error(transparent)]
    Given(#[from] GivenError),
    #[error("the analysis could not be started: {0}")]
    Thread(String),
}

/// Tells when to end with what is known: the user asked, or the time is over. The thread that waits
/// for the analysis looks at the clock, so that asking costs nothing even where the solver does for
/// every decision.
#[derive(Clone)]
struct Watch {
    user: Arc<AtomicBool>,
    late: Arc<AtomicBool>,
    /// The time is over for unrolling, too.
    last: Arc<AtomicBool>,
}

impl Watch {
    fn over(&self) -> bool {
        self.user.load(Ordering::Relaxed) || self.late.load(Ordering::Relaxed)
    }

    fn over_for_good(&self) -> bool {
        self.user.load(Ordering::Relaxed) || self.last.load(Ordering::Relaxed)
    }
}

/// Unrolling may take so long whatever the limit is: it gives the first bound worth having.
const FIRST_BOUND: Duration = Duration::from_millis(800);

/// Analyses a program. `progress` hears of every bound, the first within milliseconds where loops
/// have a known end; `stop` ends the analysis with what is known then.
///
/// # Errors
/// See [`BoundError`].
pub fn analyse(
    graph: Graph,
    options: &Options,
    stop: Arc<AtomicBool>,
    progress: &mut (dyn FnMut(By, f64) + Send),
) -> Result<Report, BoundError> {
    let (late, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let watch = Watch { user: stop, late, last };
    let (done, waiting) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let watching = watch.clone();
        let work = move || {
            // Dropped with the thread, also when it panics.
            let _done = done;
            run(graph, options, watching, progress)
        };
        let handle =
            thread.spawn_scoped(scope, work).map_err(|e| BoundError::Thread(e.to_string()))?;
        if let Some(timeout) = options.timeout
            && waiting.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout)
        {
            watch.late.store(true, Ordering::Relaxed);
            let more = FIRST_BOUND.saturating_sub(timeout);
            if waiting.recv_timeout(more) == Err(RecvTimeoutError::Timeout) {
                watch.last.store(true, Ordering::Relaxed);
            }
        }
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run(
    mut graph: Graph,
    options: &Options,
    watch: Watch,
    progress: &mut dyn FnMut(By, f64),
) -> Result<Report, BoundError> {
    let start = Instant::now();
    let (over, over_for_good) = (|| watch.over(), || watch.over_for_good());
    let first = naive::most(&graph);
    for by in first.iter().flat_map(|_| &options.by) {
        let slowness = options.machine.slowness(*by, first.unwrap_or_default(), options.sizes.0);
        progress(*by, slowness);
    }
    let mut terms = Terms::new(options.sizes.0, options.sizes.1);
    let base = packet_base(&graph);
    if let Some(region) =
        graph.regions.iter().position(|region| region.contents == Contents::Packet)
    {
        for (offset, byte) in &options.given {
            terms.give(region as u32, base + offset, *byte);
        }
    }
    for (region, address, byte) in &graph.given {
        terms.give(*region, *address, *byte);
    }
    let limits = Limits {
        unroll: options.unroll,
        undecided: options.method == Method::NoStatic,
        stop: &over_for_good,
    };
    let dag = match (unroll::unroll(&mut graph, &mut terms, limits), first) {
        (Ok(dag), _) => dag,
        (Err(reason @ (UnrollError::Stopped | UnrollError::Unbounded { .. })), Some(work)) => {
            return Ok(unimproved(graph, options, work, reason, start));
        }
        (Err(reason), _) => return Err(reason.into()),
    };
    let timed = timing::timed(&graph, &dag);
    let watching = watch.clone();
    let mut solver = BitBlaster::new(Rc::new(move || watching.over()));
    let mut clauses = Clauses::new(&dag);
    let mut context = Context {
        dag: &dag,
        timed: &timed,
        terms: &mut terms,
        clauses: &mut clauses,
        queries: Queries { solver: &mut solver, calls: 0 },
        machine: options.machine,
        sizes: options.sizes,
        every_branch: options.method == Method::EveryBranch,
        paths_checked: 0,
        labels: 0,
        stop: &over,
        progress,
        shared: search::Shared::default(),
    };
    let mut records = Vec::new();
    let only = match &options.path {
        Some(blocks) => Some(method::given(&mut context, blocks)?),
        None => None,
    };
    let mut naive = Vec::new();
    for by in &options.by {
        naive.push(search::naive(&mut context, *by).ok_or(BoundError::NoPath)?);
        (context.progress)(*by, naive[naive.len() - 1]);
    }
    for (index, (by, naive)) in options.by.iter().zip(naive).enumerate() {
        let begun = Instant::now();
        let required = options.required.filter(|_| index == 0);
        let outcome = match &only {
            Some(path) => {
                let slowness = options.machine.slowness(*by, path.work, path.size);
                search::Outcome { found: Some(path.clone()), exact: true, bound: slowness }
            }
            None => method::search(&mut context, *by, Goal { required }, options.method),
        };
        if outcome.exact && outcome.found.is_none() {
            return Err(BoundError::NoPath);
        }
        let slowness = outcome
            .found
            .as_ref()
            .map_or(0.0, |found| options.machine.slowness(*by, found.work, found.size));
        let fulfilled = required.and_then(|required| match () {
            () if outcome.bound <= required => Some(true),
            () if slowness > required => Some(false),
            () => None,
        });
        let slowest = outcome.found.map(|found| report(&graph, &mut context, &found, base));
        let seconds = begun.elapsed().as_secs_f64();
        let bound = outcome.bound.min(naive);
        records.push(Record {
            by: *by,
            exact: outcome.exact,
            bound,
            naive,
            slowest,
            fulfilled,
            seconds,
        });
    }
    let all = options.all.then(|| {
        let mut paths = Vec::new();
        let mut found = |_: &Context, path: Found| {
            paths.push(path);
            true
        };
        let whole = enumerate::all(&mut context, &mut found);
        let mut paths: Vec<PathReport> =
            paths.iter().map(|found| report(&graph, &mut context, found, base)).collect();
        let by = options.by.first().copied().unwrap_or(By::BitRate);
        let slowness = |path: &PathReport| match by {
            By::PacketRate => path.seconds,
            By::BitRate => path.seconds / path.size as f64,
        };
        paths.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
        (paths, whole)
    });
    let top = top(&graph, &dag, &mut context, options, base);
    let (paths_checked, solver_calls) = (context.paths_checked, context.queries.calls);
    Ok(Report {
        records,
        top,
        all,
        paths_checked,
        solver_calls,
        clauses: clauses.learned,
        nodes: dag.nodes.len(),
        cut: dag.cut,
        gave_up: None,
        notes: dag.notes.iter().copied().collect(),
        seconds: start.elapsed().as_secs_f64(),
        graph,
    })
}

/// The answer where unrolling gave up: the bound of the blocks as they stand.
fn unimproved(
    graph: Graph,
    options: &Options,
    work: Work,
    reason: UnrollError,
    start: Instant,
) -> Report {
    let seconds = start.elapsed().as_secs_f64();
    let record = |(index, by): (usize, &By)| {
        let bound = options.machine.slowness(*by, work, options.sizes.0);
        let required = options.required.filter(|_| index == 0);
        Record {
            by: *by,
            exact: false,
            bound,
            naive: bound,
            slowest: None,
            fulfilled: required.filter(|required| bound <= *required).map(|_| true),
            seconds,
        }
    };
    Report {
        records: options.by.iter().enumerate().map(record).collect(),
        top: Vec::new(),
        all: options.all.then(|| (Vec::new(), false)),
        paths_checked: 0,
        solver_calls: 0,
        clauses: 0,
        nodes: 0,
        cut: false,
        gave_up: Some(reason),
        notes: Vec::new(),
        seconds,
        graph,
    }
}

/// The slowest paths one after the other: each found path becomes a clause of its own.
fn top(
    graph: &Graph,
    dag: &Dag,
    context: &mut Context,
    options: &Options,
    base: u64,
) -> Vec<PathReport> {
    let mut list = Vec::new();
    let Some(by) = options.by.first().filter(|_| options.top > 1) else { return list };
    while list.len() < options.top {
        let outcome = search::search(context, *by, Goal::default());
        let (Some(found), true) = (outcome.found, outcome.exact) else { break };
        let decided = found
            .path
            .iter()
            .filter(|edge| dag.nodes[dag.edges[**edge as usize].from as usize].out.len() > 1);
        let edges: Vec<u32> = decided.copied().collect();
        list.push(report(graph, context, &found, base));
        if edges.is_empty() {
            break;
        }
        context.clauses.learn(dag, edges, Consequence::Impossible);
    }
    list
}

fn report(graph: &Graph, context: &mut Context, found: &Found, base: u64) -> PathReport {
    let seconds = context.machine.seconds(found.work);
    let witness = witness(graph, context.dag, context.terms, found, base);
    PathReport { witness, seconds, size: found.size }
}

/// Address of packet byte 0: the packet's region begins with headroom.
pub fn packet_base(graph: &Graph) -> u64 {
    let region = graph.regions.iter().find(|region| region.contents == Contents::Packet);
    region.map_or(0, |region| region.base + HEADROOM)
}

/// Bytes before the packet that its region has.
pub const HEADROOM: u64 = 0x1000;

/// Work as whole and fractional cycles of cores and engine.
pub fn cycles(work: Work) -> (f64, f64) {
    (work.milli as f64 / 1e3, work.micro as f64 / 1e6)
}
