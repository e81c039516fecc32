//! Plans in the simulator against the interpreter: examples and random programs on the targets that
//! take them, the best plan and others of the search. `make soak` takes all plans of the
//! search.

use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_codegen::pipeline;
use nicforge_ir::generate::{self, decisions, generate_from};
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_passes::PassManager;
use nicforge_plan::{Objective, Plan};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Found, Limits, search};
use nicforge_planner::{assemble, instance::Config};
use nicforge_run::capacity;
use nicforge_run::sim::verify_sim;
use nicforge_target::{Target, support};
use nicforge_tests::example::for_each;
use nicforge_tests::{setting, soak};

/// Candidates that are looked at.
const CANDIDATES: u32 = 12;
/// Targets per example, chosen by its name; all targets get their turn.
const TARGETS: usize = 2;
/// Random programs, each on one target.
const RANDOM: u64 = 40;

fn plans(program: &Verified<Program>, target: &Target) -> Option<Found> {
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: true };
    search(program, target, &Config::default(), Goal::Rate, limits, &|| false).ok()
}

/// Simulates a plan and compares.
fn check(
    name: &str,
    program: &Verified<Program>,
    target: &Target,
    plan: &Plan,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) {
    let capacities = capacity::roomy(program, entries, events, |_| true);
    let wide = |program: Verified<Program>| {
        capacity::with_capacities(&program, &capacities)
            .unwrap_or_else(|e| panic!("{name}: {}", e[0]))
    };
    let planned = assemble::program_of(plan).unwrap_or_else(|e| panic!("{name}: {e}"));
    let compiled =
        PassManager::new().run_default(wide(planned)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let stages = pipeline::of_plan(plan, &compiled).unwrap_or_else(|e| panic!("{name}: {e}"));
    let reference = wide(program.clone());
    let what = (target, plan, &stages);
    let (report, differences) = verify_sim(what, &reference, &compiled, entries, events, &|| false)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(differences.is_empty(), "{name}: {:?}\n{}", differences[0], plan.air);
    assert_eq!(report.packets.missing(), 0, "{name}: {:?}", report.packets);
}

#[test]
fn examples_in_the_simulator() {
    let (checked, several, replicated) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let all = soak();
    for_each(|example| {
        let seed = example
            .name
            .bytes()
            .fold(7usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut targets: Vec<Target> = nicforge_target::names()
            .into_iter()
            .map(|name| nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}")))
            .filter(|target| support::missing(&example.program, target).is_empty())
            .collect();
        if !all {
            let from = seed % targets.len();
            targets.rotate_left(from);
            targets.truncate(TARGETS);
        }
        for target in targets {
            let Some(found) = plans(&example.program, &target) else { continue };
            let last = found.candidates.len();
            let mut numbers = if all { (0..last).collect() } else { vec![found.best, seed % last] };
            numbers.sort_unstable();
            numbers.dedup();
            for number in numbers {
                let config = Config::default();
                let plan = assemble::plan(
                    &example.program,
                    &target,
                    &config,
                    Objective::Rate,
                    &found,
                    number,
                );
                let name = format!("{} on {}, candidate {number}", example.name, target.name);
                check(&name, &example.program, &target, &plan, &example.entries, &example.events);
                checked.fetch_add(1, Ordering::Relaxed);
                several.fetch_add(usize::from(plan.stages.len() > 1), Ordering::Relaxed);
                replicated.fetch_add(
                    usize::from(plan.workers() > plan.stages.len() as u32),
                    Ordering::Relaxed,
                );
            }
        }
    });
    let (checked, several, replicated) =
        (checked.into_inner(), several.into_inner(), replicated.into_inner());
    println!("{checked} plans, {several} of several stages, {replicated} with replicas");
    assert!(checked > 50 && several > 20 && replicated > 20);
}

#[test]
fn random_programs_in_the_simulator() {
    let names = nicforge_target::names();
    let (mut checked, mut several) = (0, 0);
    let first = setting("NICFORGE_RANDOM_SEED", 0);
    for seed in first..first + setting("NICFORGE_RANDOM_PROGRAMS", RANDOM) {
        let program = generate_from(&decisions(seed), generate::Options::PORTABLE.for_seed(seed));
        let target = nicforge_target::find(names[seed as usize % names.len()])
            .unwrap_or_else(|e| panic!("{e}"));
        if !support::missing(&program, &target).is_empty() {
            continue;
        }
        let Some(found) = plans(&program, &target) else { continue };
        let number = (seed as usize / 3) % found.candidates.len();
        let plan =
            assemble::plan(&program, &target, &Config::default(), Objective::Rate, &found, number);
        let name = format!("seed {seed} on {}, candidate {number}", target.name);
        check(&name, &program, &target, &plan, &[], &generate::events(seed, 300));
        checked += 1;
        several += usize::from(plan.stages.len() > 1);
    }
    println!("{checked} random programs, {several} of several stages");
    assert!(checked > 15 && several > 5, "only {checked}, {several} of several stages");
}
