//! Plans of every example on every target that takes it: they mean what the program means, they are
//! the same on every run, they survive their text form; and as DPDK processes, on Arm too, on the
//! shim of an NFP and as threads they do what the interpreter does.

use std::sync::atomic::{AtomicUsize, Ordering};

use nicforge_codegen::nfp::Engines;
use nicforge_codegen::pipeline;
use nicforge_ir::verify::verify;
use nicforge_ir::{Interp, Output, Program, Side, TableBackend, Verified};
use nicforge_passes::PassManager;
use nicforge_plan::{HostSide, Objective};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Found, Limits, search};
use nicforge_planner::{assemble, instance::Config, profile};
use nicforge_run::dpdk::{Machine, verify_on};
use nicforge_run::nfp::EnginesProgram;
use nicforge_run::{capacity, control};
use nicforge_target::{Target, support};
use nicforge_tests::example::{Example, for_each};
use nicforge_tests::{root, share, soak};

/// Candidates looked at; the search has reached several stages by then.
const CANDIDATES: u32 = 16;
/// Events of an example that are run for every plan; fewer where something stands in for the
/// target's hardware.
const EVENTS: usize = 800;
const STOOD_IN: usize = 300;

fn plans(program: &Verified<Program>, target: &Target) -> Option<Found> {
    plans_with(program, target, &Config::default())
}

fn plans_with(program: &Verified<Program>, target: &Target, config: &Config) -> Option<Found> {
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: true };
    search(program, target, config, Goal::Rate, limits, &|| false).ok()
}

/// A program with handlers on the host's side where only that has what they need.
fn placed(program: &Verified<Program>, target: &Target) -> Verified<Program> {
    let mut placed = program.clone().into_inner();
    for handler in support::needs_host(program, target) {
        placed.handlers[handler].side = Some(Side::Host);
    }
    verify(placed).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn outputs(program: &Verified<Program>, example: &Example) -> (Vec<Vec<Output>>, Vec<String>) {
    let mut interp = Interp::new(program);
    control::apply(&mut interp, &example.entries)
        .unwrap_or_else(|e| panic!("{}: {e}", example.name));
    let mut all = Vec::new();
    for event in example.events.iter().take(EVENTS) {
        all.push(interp.run(event).unwrap_or_else(|e| panic!("{}: {e}", example.name)));
    }
    let tables =
        program.tables.keys().map(|table| format!("{:?}", interp.dump(table).unwrap_or_default()));
    (all, tables.collect())
}

#[test]
fn plans_of_all_targets_mean_the_same() {
    let (checked, several) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_each(|example| {
        let want = outputs(&example.program, example);
        // Other targets for the next example.
        let from = example.name.bytes().map(usize::from).sum::<usize>() % 3;
        for name in
            share(nicforge_target::names().into_iter().skip(if soak() { 0 } else { from }), 3)
        {
            let target = nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}"));
            if !support::missing(&example.program, &target).is_empty() {
                continue;
            }
            let Some(found) = plans(&example.program, &target) else { continue };
            let at = |number| {
                assemble::plan(
                    &example.program,
                    &target,
                    &Config::default(),
                    Objective::Rate,
                    &found,
                    number,
                )
            };
            let last = found.candidates.len() - 1;
            for number in [found.best, last] {
                let plan = at(number);
                let text = serde_json::to_string(&plan).unwrap_or_else(|e| panic!("{e}"));
                let read = nicforge_plan::parse("plan", &text).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(
                    serde_json::to_string(&read).ok(),
                    Some(text),
                    "{} on {name}",
                    example.name
                );
                nicforge_plan::check("plan", &read, &target)
                    .unwrap_or_else(|e| panic!("{}: {e}", example.name));
                let program = assemble::program_of(&read)
                    .unwrap_or_else(|e| panic!("{} on {name}: {e}", example.name));
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
            assert_eq!(
                again,
                Some(found.steps),
                "{} on {name} is not the same twice",
                example.name
            );
        }
    });
    let (checked, several) = (checked.into_inner(), several.into_inner());
    println!("{checked} plans, {several} of several stages");
    assert!(checked > 70 && several > 35, "only {checked} plans, {several} of several stages");
}

/// With what the capture shows instead of guesses the program means the same, and predictions
/// change where guesses were wrong.
#[test]
fn profiles_follow_the_capture() {
    let example = Example::load(root().join("examples/flow_stats"));
    let profiled = profile::measured(&example.program, &example.entries, &[], &example.events);
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

/// A number that follows from the names of example and target.
fn seed(example: &Example, target: &str) -> usize {
    let letters = example.name.bytes().chain(target.bytes());
    letters.fold(7, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

/// The best plan or one other; `make soak` takes all.
fn chosen(seed: usize, found: &Found) -> Vec<usize> {
    let count = found.candidates.len();
    if soak() {
        return (0..count).collect();
    }
    vec![if seed % 4 < 2 { found.best } else { seed / 4 % count }]
}

/// What runs a plan.
#[derive(Clone, Copy)]
enum Runs {
    Dpdk,
    Engines(Engines),
}

/// Runs plans of half of the examples for a target, on the first events of each capture; `make
/// soak` takes all.
fn run_plans(name: &str, runs: Runs, events: usize) {
    let target = nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}"));
    let host = HostSide::of(&target);
    // Cores of a host behind a NIC.
    let mut devices = target.units.iter().map(|group| host.has_units(&group.name));
    let has_host = devices.next() == Some(false) && devices.any(|on_host| on_host);
    let [ran, replicated, in_context, on_host] = [(); 4].map(|()| AtomicUsize::new(0));
    for_each(|example| {
        let seed = seed(example, name);
        if !soak() && seed % 5 > 1 {
            return;
        }
        if !support::missing(&example.program, &target).is_empty() {
            return;
        }
        let program = placed(&example.program, &target);
        let mut plans = Vec::new();
        // A few have cores of the host, too.
        let with_host = has_host && (soak() || seed.is_multiple_of(3));
        for host_cores in if with_host { vec![0, 2] } else { vec![0] } {
            let config = Config { host_cores, ..Config::default() };
            let found = plans_with(&program, &target, &config)
                .unwrap_or_else(|| panic!("{} has no plan", example.name));
            plans.extend(chosen(seed, &found).into_iter().map(|at| {
                let rate = Objective::Rate;
                (at, assemble::plan(&program, &target, &config, rate, &found, at))
            }));
        }
        for (number, plan) in plans {
            let name = format!("{} on {name}, candidate {number}", example.name);
            let events = &example.events[..example.events.len().min(events)];
            let capacities = capacity::roomy(&example.program, &example.entries, events, |_| true);
            let roomy = |program: Verified<Program>| {
                capacity::with_capacities(&program, &capacities)
                    .unwrap_or_else(|e| panic!("{name}: {}", e[0]))
            };
            let planned = assemble::program_of(&plan).unwrap_or_else(|e| panic!("{name}: {e}"));
            let compiled =
                PassManager::new().run_default(roomy(planned)).unwrap_or_else(|e| panic!("{e}"));
            let stages =
                pipeline::of_plan(&plan, &compiled).unwrap_or_else(|e| panic!("{name}: {e}"));
            let reference = roomy(example.program.clone());
            let result = match runs {
                Runs::Dpdk => {
                    let machine = Machine::of(&target);
                    verify_on(machine, &reference, &compiled, &stages, &example.entries, events)
                }
                Runs::Engines(engines) => EnginesProgram::new(
                    &compiled,
                    &stages,
                    &pipeline::placement(&plan, &compiled, &host),
                    engines,
                )
                .and_then(|program| program.verify(&reference, &example.entries, events)),
            };
            let (run, differences) = result.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(differences.is_empty(), "{name}: {:?}", differences[0]);
            assert!(run.stats.workers.iter().all(|w| w.lost == 0), "{name}: {:?}", run.stats);
            ran.fetch_add(1, Ordering::Relaxed);
            replicated.fetch_add(
                usize::from(plan.stages.iter().any(|s| s.replicas > 1)),
                Ordering::Relaxed,
            );
            in_context.fetch_add(usize::from(plan.context_bytes > 0), Ordering::Relaxed);
            on_host.fetch_add(
                usize::from(plan.stages.iter().any(|s| host.has_units(&s.group))),
                Ordering::Relaxed,
            );
        }
    });
    let [ran, replicated, in_context, on_host] =
        [ran, replicated, in_context, on_host].map(AtomicUsize::into_inner);
    println!(
        "{name}: {ran} plans, {replicated} with replicas, {in_context} with values in contexts, \
         {on_host} with stages on the host"
    );
    assert!(ran >= 8 && replicated >= 2 && in_context >= 1);
    assert!(!has_host || on_host > 0, "no plan has stages on the host");
}

#[test]
fn plans_run_on_dpdk() {
    if std::process::Command::new("pkg-config")
        .args(["--exists", "libdpdk"])
        .status()
        .is_ok_and(|s| !s.success())
    {
        assert!(std::env::var_os("CI").is_none(), "DPDK is missing: run scripts/bootstrap.sh");
        println!(
            "skipped: DPDK is missing: apt-get install --no-install-recommends libdpdk-dev pkg-config"
        );
        return;
    }
    run_plans("dpdk", Runs::Dpdk, EVENTS);
}

#[test]
fn plans_run_on_bluefield2() {
    let missing =
        |program: &str| std::process::Command::new(program).arg("--version").output().is_err();
    if missing("qemu-aarch64") || missing("aarch64-linux-gnu-gcc") {
        assert!(
            std::env::var_os("CI").is_none(),
            "qemu or gcc for arm64 is missing: run scripts/bootstrap.sh"
        );
        println!(
            "skipped: qemu-aarch64 or aarch64-linux-gnu-gcc is missing: run scripts/bootstrap.sh"
        );
        return;
    }
    run_plans("bluefield2", Runs::Dpdk, STOOD_IN);
}

#[test]
fn plans_run_on_agilio_cx() {
    run_plans("agilio-cx", Runs::Engines(Engines::Nfp), STOOD_IN);
}

#[test]
fn plans_run_on_liquidio() {
    run_plans("liquidio", Runs::Engines(Engines::Threads), STOOD_IN);
}
