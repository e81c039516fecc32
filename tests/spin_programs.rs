//! Planned programs on bare RISC-V cores against the interpreter: every example that fits on
//! PsPIN's and FPsPIN's handler units and on cores behind PANIC's scheduler, plans beside the best
//! one, random programs, and which example runs on which target at all.
//!
//! `make soak` takes all plans of the search. `NICFORGE_BLESS=1` writes the capability
//! matrix anew; it may grow, not shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_codegen::dpdk::{Pipeline, SteerBy, Steering};
use nicforge_codegen::nfp::Placement;
use nicforge_codegen::pipeline;
use nicforge_filetest::expect;
use nicforge_ir::generate::{self, decisions, generate_from};
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_passes::PassManager;
use nicforge_plan::{HostSide, Objective, Plan};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Found, Limits, search};
use nicforge_planner::{assemble, instance::Config};
use nicforge_run::capacity::{roomy, with_capacities};
use nicforge_run::spin::{CoresError, CoresProgram, CoresRun, takes};
use nicforge_target::{Target, support};
use nicforge_tests::example::{Example, for_each};
use nicforge_tests::pipes::{event, program, stage};
use nicforge_tests::{root, setting, soak};

/// Candidates that are looked at, and events that are run.
const CANDIDATES: u32 = 8;
const EVENTS: usize = 150;
/// Random programs, on every machine.
const RANDOM: u64 = 8;

fn target(name: &str) -> Target {
    nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}"))
}

fn plans(program: &Verified<Program>, target: &Target) -> Option<Found> {
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: true };
    search(program, target, &Config::default(), Goal::Rate, limits, &|| false).ok()
}

/// Runs a plan and compares.
fn check(name: &str, example: &Example, target: &Target, plan: &Plan) -> CoresRun {
    let events: Vec<InputEvent> =
        example.events.iter().filter(|e| takes(e)).take(EVENTS).cloned().collect();
    let planned = assemble::program_of(plan).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (mut reference, mut planned) = (example.program.clone(), planned);
    if plan.workers() > 1 {
        let capacities = roomy(&reference, &example.entries, &events, |_| true);
        let wide = |program: &Verified<Program>| {
            with_capacities(program, &capacities).unwrap_or_else(|e| panic!("{name}: {}", e[0]))
        };
        reference = wide(&reference);
        planned = wide(&planned);
    }
    let compiled =
        PassManager::new().run_default(planned).unwrap_or_else(|e| panic!("{name}: {e}"));
    let stages = pipeline::of_plan(plan, &compiled).unwrap_or_else(|e| panic!("{name}: {e}"));
    let placement = pipeline::placement(plan, &compiled, &HostSide::of(target));
    compare(name, (&reference, &compiled), (&stages, &placement), target, &example.entries, &events)
}

fn compare(
    name: &str,
    (reference, compiled): (&Verified<Program>, &Verified<Program>),
    (stages, placement): (&Pipeline, &Placement),
    target: &Target,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> CoresRun {
    let app = CoresProgram::new(compiled, stages, placement, target)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let (run, differences) =
        app.verify(reference, entries, events).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(differences.is_empty(), "{name}: {:?}", differences[0]);
    assert!(
        run.run.stats.workers.iter().all(|worker| worker.lost == 0),
        "{name}: {:?}",
        run.run.stats
    );
    let handled: BTreeSet<usize> = run.stays.iter().map(|stay| stay.event).collect();
    let handled = handled.len();
    assert_eq!(handled + run.unmatched as usize, events.len(), "{name}: packets that took no time");
    run
}

/// The best plan, and `others` more, chosen by the example's name.
fn chosen(example: &Example, found: &Found, others: usize) -> Vec<usize> {
    let count = found.candidates.len();
    if soak() {
        return (0..count).collect();
    }
    let start = example.name.bytes().map(usize::from).sum::<usize>();
    let mut numbers = vec![found.best];
    let rest = (0..count).map(|at| (start + at) % count).filter(|number| *number != found.best);
    numbers.extend(rest.take(others));
    numbers
}

/// Runs every example that fits a machine; gives how many plans ran, how many had replicas, and how
/// many several stages.
fn examples_on(name: &str, others: usize) -> [usize; 3] {
    let target = target(name);
    let counts = [(); 3].map(|()| AtomicUsize::new(0));
    for_each(|example| {
        if !support::missing(&example.program, &target).is_empty() {
            return;
        }
        let Some(found) = plans(&example.program, &target) else { return };
        for number in chosen(example, &found, others) {
            let config = Config::default();
            let plan =
                assemble::plan(&example.program, &target, &config, Objective::Rate, &found, number);
            check(
                &format!("{} on {name}, candidate {number}", example.name),
                example,
                &target,
                &plan,
            );
            let facts = [true, plan.workers() > plan.stages.len() as u32, plan.stages.len() > 1];
            for (count, fact) in counts.iter().zip(facts) {
                count.fetch_add(usize::from(fact), Ordering::Relaxed);
            }
        }
    });
    let counts = counts.map(AtomicUsize::into_inner);
    println!(
        "{name}: {} plans, {} with replicas, {} of several stages",
        counts[0], counts[1], counts[2]
    );
    counts
}

#[test]
fn examples_on_pspin() {
    let [plans, replicated, several] = examples_on("pspin", 0);
    assert!(plans >= 9 && replicated >= 5);
    assert_eq!(several, 0, "a handler of a sPIN NIC runs to completion");
}

#[test]
fn examples_on_fpspin() {
    let [plans, replicated, _] = examples_on("fpspin", 0);
    assert!(plans >= 5 && replicated >= 3);
}

#[test]
fn examples_on_panic() {
    let [plans, replicated, several] = examples_on("panic", 1);
    assert!(plans >= 20 && replicated >= 10 && several >= 10);
}

/// Random programs on one worker: what no example does.
#[test]
fn random_programs_do_the_same() {
    let first = setting("NICFORGE_RANDOM_SEED", 0);
    let count = setting("NICFORGE_RANDOM_PROGRAMS", RANDOM);
    for name in ["pspin", "panic"] {
        let target = target(name);
        let mut ran = 0;
        for seed in first..first + count {
            let program =
                generate_from(&decisions(seed), generate::Options::PORTABLE.for_seed(seed));
            let name = format!("seed {seed} on {name}");
            let compiled =
                PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
            let events: Vec<InputEvent> =
                generate::events(seed, 150).into_iter().filter(takes).collect();
            let (stages, placement) = (Pipeline::single(&compiled), Placement::default());
            let app = match CoresProgram::new(&compiled, &stages, &placement, &target) {
                Ok(app) => app,
                // More code than a core has memory for, or more headers than a worker has room for.
                Err(CoresError::Build(_) | CoresError::Unsupported(_)) => continue,
                Err(error) => panic!("{name}: {error}"),
            };
            let (_, differences) =
                app.verify(&program, &[], &events).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(differences.is_empty(), "{name}: {:?}", differences[0]);
            ran += 1;
        }
        assert!(ran * 4 >= count * 3, "only {ran} of {count} random programs fit {name}");
    }
}

/// Three stages by hand, with more replicas in the middle than at the ends: what stages hand each
/// other, steered by a parameter.
#[test]
fn stages_hand_on_packets() {
    let program = program("keyed");
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let stages = keyed(&compiled);
    let events = generate::events(7, 300).into_iter().filter(takes).collect::<Vec<_>>();
    let target = target("panic");
    let run = compare(
        "keyed",
        (&program, &compiled),
        (&stages, &Placement::default()),
        &target,
        &[],
        &events,
    );
    let busy = run.run.stats.workers.iter().filter(|worker| worker.events > 0).count();
    assert!(busy >= 3, "{:?}", run.run.stats.workers);
}

fn keyed(program: &Program) -> Pipeline {
    let names: Vec<&str> = program.handlers.values().map(|handler| handler.name.as_str()).collect();
    let mut pipeline = Pipeline::single(program);
    pipeline.stages = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            // Packets of a flow leave in order only if the last stage has one replica: it is
            // steered by another number.
            let middle = (1..names.len() - 1).contains(&at);
            stage(program, &[name], if middle { 3 } else { 1 }, false)
        })
        .collect();
    for name in &names[1..] {
        let handler = program.handlers.values().find(|handler| handler.name == *name);
        let name = handler.map_or("", |handler| program.events[handler.event].name.as_str());
        let event = event(program, name);
        let key = program.events[event].params.iter().position(|param| param.ty.is_int());
        let by = key.map_or(SteerBy::RoundRobin, |key| SteerBy::Params(vec![(key, vec![])]));
        pipeline.steering.push(Steering { event, by });
    }
    pipeline
}

const MATRIX: &str = "tests/capabilities.txt";

/// Which example runs where: every construct is there, and for bare cores there is a plan that
/// fits.
#[test]
fn capabilities_do_not_shrink() {
    let names = nicforge_target::names();
    let rows = Mutex::new(BTreeMap::new());
    for_each(|example| {
        let cells: Vec<&str> = names
            .iter()
            .map(|name| {
                let target = target(name);
                let bare = ["pspin", "fpspin", "panic"].contains(name);
                match () {
                    () if !support::missing(&example.program, &target).is_empty() => "no",
                    () if bare && plans(&example.program, &target).is_none() => "no-room",
                    () => "yes",
                }
            })
            .collect();
        let cells: Vec<String> = cells.into_iter().map(String::from).collect();
        rows.lock().unwrap_or_else(|e| e.into_inner()).insert(example.name.clone(), cells);
    });
    let rows = rows.into_inner().unwrap_or_else(|e| e.into_inner());
    let on_panic = names.iter().position(|name| *name == "panic");
    let runs = rows.values().filter(|cells| on_panic.is_some_and(|at| cells[at] == "yes")).count();
    assert!(runs >= 11, "only {runs} examples run on panic");

    let mut text = "# Which example runs on which target: `nicforge check --target all`, and whether a plan fits (NICFORGE_BLESS=1).\n".to_string();
    let _ = write!(text, "{:16}", "example");
    text.extend(names.iter().map(|name| format!(" {name:11}")));
    for (example, cells) in &rows {
        let _ = write!(text, "\n{example:16}");
        text.extend(cells.iter().map(|cell| format!(" {cell:11}")));
    }
    let text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let path: PathBuf = root().join(MATRIX);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let shrunk = before.lines().skip(2).find(|line| {
        let was = words(line);
        let Some(now) = was.first().and_then(|example| rows.get(*example)) else {
            return !was.is_empty();
        };
        was[1..].iter().zip(now).any(|(was, now)| *was == "yes" && now != "yes")
    });
    assert_eq!(shrunk, None, "this example runs on fewer targets than before");
    expect(&path, &text).unwrap_or_else(|why| panic!("{why}"));
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
