//! Plans of every example on every target that takes it: they mean what the program means, they are the same on every run, they
//! survive their text form; and as DPDK processes they do what the interpreter does.

use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_codegen::pipeline;
use nicforge_ir::{Interp, Output, Program, TableBackend, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_plan::Objective;
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Found, Limits, search};
use nicforge_planner::{assemble, instance::Config, profile};
use nicforge_run::control;
use nicforge_run::dpdk::verify_dpdk;
use nicforge_target::{Target, support};
use nicforge_tests::example::{Example, for_each};
use nicforge_tests::root;

/// Candidates looked at; the search has reached several stages by then.
const CANDIDATES: u32 = 16;
/// Events of an example that are run for every plan.
const EVENTS: usize = 800;

fn plans(program: &Verified<Program>, target: &Target) -> Option<Found> {
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: true };
    search(program, target, &Config::default(), Goal::Rate, limits, &|| false).ok()
}

fn outputs(program: &Verified<Program>, example: &Example) -> (Vec<Vec<Output>>, Vec<String>) {
    let mut interp = Interp::new(program);
    control::apply(&mut interp, &example.entries).unwrap_or_else(|e| panic!("{}: {e}", example.name));
    let mut all = Vec::new();
    for event in example.events.iter().take(EVENTS) {
        all.push(interp.run(event).unwrap_or_else(|e| panic!("{}: {e}", example.name)));
    }
    let tables = program.tables.keys().map(|table| format!("{:?}", interp.dump(table).unwrap_or_default()));
    (all, tables.collect())
}

#[test]
fn plans_of_all_targets_mean_the_same() {
    let (checked, several) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_each(|example| {
        let want = outputs(&example.program, example);
        for name in nicforge_target::names() {
            let target = nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}"));
            if !support::missing(&example.program, &target).is_empty() {
                continue;
            }
            let Some(found) = plans(&example.program, &target) else { continue };
            let at = |number| {
                assemble::plan(&example.program, &target, &Config::default(), Objective::Rate, &found, number)
            };
            let last = found.candidates.len() - 1;
            for number in [found.best, last] {
                let plan = at(number);
                let text = serde_json::to_string(&plan).unwrap_or_else(|e| panic!("{e}"));
                let read = nicforge_plan::parse("plan", &text).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(serde_json::to_string(&read).ok(), Some(text), "{} on {name}", example.name);
                nicforge_plan::check("plan", &read, &target)
                    .unwrap_or_else(|e| panic!("{}: {e}", example.name));
                let program =
                    assemble::program_of(&read).unwrap_or_else(|e| panic!("{} on {name}: {e}", example.name));
                assert!(
                    outputs(&program, example) == want,
                    "{} on {name}, candidate {number}:\n{}",
                    example.name,
                    plan.air
                );
                several.fetch_add(usize::from(plan.stages.len() > 1), Ordering::Relaxed);
                checked.fetch_add(1, Ordering::Relaxed);
            }
            let again = plans(&example.program, &target).map(|found| found.steps);
            assert_eq!(again, Some(found.steps), "{} on {name} is not the same twice", example.name);
        }
    });
    let (checked, several) = (checked.into_inner(), several.into_inner());
    println!("{checked} plans, {several} of several stages");
    assert!(checked > 100 && several > 50, "only {checked} plans, {several} of several stages");
}

/// With what the capture shows instead of guesses the program means the same, and predictions change where guesses were wrong.
#[test]
fn profiles_follow_the_capture() {
    let example = Example::load(root().join("examples/flow_stats"));
    let profiled = profile::measured(&example.program, &example.entries, &example.events);
    let profiled = profiled.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(outputs(&profiled, &example), outputs(&example.program, &example));
    let target = nicforge_target::find("bluefield2").unwrap_or_else(|e| panic!("{e}"));
    let rate = |program: &Verified<Program>| {
        let found = plans(program, &target).unwrap_or_else(|| panic!("no plan"));
        found.candidates[found.best].mapping.rate
    };
    // Nearly every packet of the capture is counted; the guess is every other one.
    let (guessed, measured) = (rate(&example.program), rate(&profiled));
    assert!(measured < 0.5 * guessed, "{measured} against {guessed}");
}

#[test]
fn plans_run_on_dpdk() {
    if std::process::Command::new("pkg-config")
        .args(["--exists", "libdpdk"])
        .status()
        .is_ok_and(|s| !s.success())
    {
        assert!(std::env::var_os("CI").is_none(), "DPDK is missing: run scripts/bootstrap.sh");
        println!("skipped: DPDK is missing: apt-get install --no-install-recommends libdpdk-dev pkg-config");
        return;
    }
    let target = nicforge_target::find("dpdk").unwrap_or_else(|e| panic!("{e}"));
    let (replicated, in_context) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_each(|example| {
        let Some(found) = plans(&example.program, &target) else { panic!("{} has no plan", example.name) };
        // The best plan and two others; which ones depends on the example only.
        let seed =
            example.name.bytes().fold(7usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut numbers =
            vec![found.best, seed % found.candidates.len(), (seed / 97) % found.candidates.len()];
        numbers.dedup();
        for number in numbers {
            let plan = assemble::plan(
                &example.program,
                &target,
                &Config::default(),
                Objective::Rate,
                &found,
                number,
            );
            let roomy = |program: Verified<Program>| {
                let mut program = program.into_inner();
                plan.make_room(&mut program);
                verify(program).unwrap_or_else(|e| panic!("{}: {}", example.name, e[0]))
            };
            let planned = assemble::program_of(&plan).unwrap_or_else(|e| panic!("{}: {e}", example.name));
            let compiled = PassManager::new().run_default(roomy(planned)).unwrap_or_else(|e| panic!("{e}"));
            let stages =
                pipeline::of_plan(&plan, &compiled).unwrap_or_else(|e| panic!("{}: {e}", example.name));
            let events = &example.events[..example.events.len().min(EVENTS)];
            let reference = roomy(example.program.clone());
            let (run, differences) = verify_dpdk(&reference, &compiled, &stages, &example.entries, events)
                .unwrap_or_else(|e| panic!("{}, candidate {number}: {e}", example.name));
            assert!(differences.is_empty(), "{}, candidate {number}: {:?}", example.name, differences[0]);
            assert!(run.stats.workers.iter().all(|w| w.lost == 0), "{}: {:?}", example.name, run.stats);
            replicated.fetch_add(usize::from(plan.stages.iter().any(|s| s.replicas > 1)), Ordering::Relaxed);
            in_context.fetch_add(usize::from(plan.context_bytes > 0), Ordering::Relaxed);
        }
    });
    let replicated = replicated.into_inner();
    assert!(replicated >= 5, "only {replicated} plans had replicas");
    let in_context = in_context.into_inner();
    assert!(in_context >= 5, "only {in_context} plans left values in packets' contexts");
}
