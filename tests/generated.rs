//! Generated C programs: as plain C, in the interpreter and on the targets.
//!
//! `NICFORGE_RANDOM_PROGRAMS` says how many, `NICFORGE_RANDOM_SEED` is the first seed,
//! `NICFORGE_RANDOM_TARGETS` names targets (with commas between them; `host/4` is every fourth
//! program on `host`, `plan:dpdk` what the planner makes of it for `dpdk`). With
//! `NICFORGE_RANDOM_STATE`, a file, a run goes on where the last one ended.

use nicforge_run::compile::Effort;
use nicforge_tests::campaign::{Campaign, EVENTS, Report, compile, reduced, verdict};
use nicforge_tests::oracle::faults::{FAULTS, TAMPERS};
use nicforge_tests::oracle::{self, Source};
use nicforge_tests::targets::{Case, Subject, TARGETS as TARGETS_HERE, UNTOLD, Verdict, judge};
use nicforge_tests::{
    dpdk_is_missing, kernel_is_missing, programs, root, setting, soak, verilator_is_missing,
};

/// Where programs run if nothing is said, and of how many each takes one.
const TARGETS: &str = "xdp,host/4,liquidio/20,agilio-cx/20,pspin/20,panic/20,dpdk/50,u280/100,\
    plan:liquidio/40,plan:agilio-cx/40,plan:xdp/20,plan:pspin/40,plan:panic/100";

/// The share of programs that a target may refuse.
const REFUSED: f64 = 0.01;
/// How seldom a part of a run may have more than its share by chance.
const SELDOM: f64 = 1e-3;

/// Failing programs that are made small.
const REDUCED: usize = 3;

/// Programs after which a run's state is noted.
const PART: u64 = 200;

/// So many of some programs are refused at most, if each is with the chance [`REFUSED`], but for
/// seldom cases: the binomial distribution's bound.
fn most_refused(programs: u64) -> u64 {
    let mut term = (1.0 - REFUSED).powi(programs as i32);
    let (mut refused, mut all) = (0, term);
    while all < 1.0 - SELDOM && refused < programs {
        term *= (programs - refused) as f64 / (refused + 1) as f64 * REFUSED / (1.0 - REFUSED);
        refused += 1;
        all += term;
    }
    refused
}

/// Writes a program to a file for whoever looks at it.
fn keep(seed: u64) -> std::path::PathBuf {
    let folder = root().join("target/generated");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let path = folder.join(format!("program_{seed}.c"));
    std::fs::write(&path, programs::generate(seed).text).expect("a file for a program");
    path
}

#[test]
fn allowance_is_a_percent_and_what_chance_needs() {
    assert_eq!([1, 10, 200].map(most_refused), [1, 2, 8]);
    assert!((110..140).contains(&most_refused(10_000)), "{}", most_refused(10_000));
}

#[test]
fn generated_programs_do_the_same_everywhere() {
    let state = std::env::var_os("NICFORGE_RANDOM_STATE").map(std::path::PathBuf::from);
    let noted = state.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    let noted = noted.and_then(|text| text.trim().parse().ok());
    let first = noted.unwrap_or_else(|| setting("NICFORGE_RANDOM_SEED", 0));
    let count = setting("NICFORGE_RANDOM_PROGRAMS", 200);
    let wanted = std::env::var("NICFORGE_RANDOM_TARGETS").unwrap_or_else(|_| TARGETS.to_string());
    let named = wanted.split(',').filter(|name| !name.is_empty());
    let mut targets: Vec<(String, u64)> = named
        .map(|name| match name.split_once('/') {
            Some((name, of)) => (name.to_string(), of.parse().expect("a number behind the slash")),
            None => (name.to_string(), 1),
        })
        .collect();
    // Planned or not.
    let is = |name: &str, target: &str| name.strip_prefix("plan:").unwrap_or(name) == target;
    let asked = |target| targets.iter().any(|(name, _)| is(name, target));
    let mut missing = Vec::new();
    if let Some(why) = kernel_is_missing().filter(|_| asked("xdp")) {
        println!("skipped on xdp: {why}");
        missing.push("xdp");
    }
    missing.extend((asked("dpdk") && dpdk_is_missing()).then_some("dpdk"));
    missing.extend((asked("u280") && verilator_is_missing()).then_some("u280"));
    targets.retain(|(name, _)| !missing.iter().any(|target| is(name, target)));
    let mut report = Report::default();
    let mut from = first;
    while from < first + count && report.wrong.is_empty() {
        let part = Campaign {
            first: from,
            count: PART.min(first + count - from),
            targets: targets.clone(),
        };
        report.add(part.run());
        from += part.count;
        if let Some(path) = state.as_ref().filter(|_| report.wrong.is_empty()) {
            std::fs::write(path, format!("{from}\n")).expect("the state file");
        }
    }
    report.lines().iter().for_each(|line| println!("{line}"));
    for seed in report.refused.values().flatten() {
        keep(*seed);
    }
    let mut said = Vec::new();
    for (seed, judge, what) in &report.wrong {
        let path = keep(*seed);
        let at = path.display();
        println!("seed {seed}, {judge}: {what}");
        // The first few are made small; more of them are seldom more faults.
        if said.len() < REDUCED {
            let (small, what) = reduced(*seed, judge, what);
            said.push(format!("seed {seed}, {judge}, {at}:\n{what}\n\nreduced:\n{small}"));
        } else {
            said.push(format!("seed {seed}, {judge}, {at}:\n{what}"));
        }
    }
    assert!(said.is_empty(), "{} of {} programs\n{}", said.len(), from - first, said.join("\n\n"));
    let untold: Vec<_> =
        report.refused.iter().filter(|((_, why), _)| why.starts_with(UNTOLD)).collect();
    assert!(untold.is_empty(), "refused by the kernel, and `check` says nothing: {untold:?}");
    for (target, of) in &targets {
        let compared = report.compared(target);
        assert!(compared > 0 || count < *of, "{target} compared nothing");
        let refused = Report::counted(&report.refused, target);
        let most = most_refused(compared + refused);
        assert!(
            refused <= most,
            "{target} refuses {refused} programs and takes {compared}: {most} may be chance"
        );
    }
    println!("{} programs agree", from - first);
}

/// Programs that once showed a fault, made small by hand.
#[test]
fn programs_that_showed_faults_do_the_same() {
    let mut paths: Vec<_> = std::fs::read_dir(root().join("tests/found"))
        .expect("programs")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 14, "{paths:?}");
    let kernel = kernel_is_missing().is_none();
    for (number, path) in paths.into_iter().enumerate() {
        let always = ["oracle", "host", "xdp", "pspin"].into_iter();
        let others =
            ["liquidio", "plan:agilio-cx", "panic", "plan:liquidio", "agilio-cx", "plan:panic"];
        // `make test` takes two of these in turn.
        let others =
            others.into_iter().enumerate().filter(|(at, _)| soak() || at % 3 == number % 3);
        let targets = always.chain(others.map(|(_, name)| name));
        let targets = targets.filter(|target| kernel || *target != "xdp");
        let text = std::fs::read_to_string(&path).expect("a program");
        for target in targets {
            let found = verdict(&text, 1, target);
            // Targets may lack what a program asks for; plain C lacks nothing.
            let is_right = match &found {
                Verdict::Same => true,
                Verdict::Lacks(_) | Verdict::Left(_) => target != "oracle",
                Verdict::Refused(_) | Verdict::Wrong(_) => false,
            };
            assert!(is_right, "{} on {target}: {found:?}", path.display());
        }
    }
}

/// Programs of `tests/programs/ops`, each about some ops: on every target, which has to take them,
/// but for those that the program's `Lacked by:` names, which have to say so.
#[test]
fn programs_about_ops_do_the_same_on_every_target() {
    let mut paths: Vec<_> = std::fs::read_dir(root().join("tests/programs/ops"))
        .expect("programs")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let here = |target: &&str| match *target {
        "xdp" => kernel_is_missing().is_none(),
        "dpdk" => !dpdk_is_missing(),
        "u280" => !verilator_is_missing(),
        _ => true,
    };
    let targets: Vec<&str> = TARGETS_HERE.into_iter().filter(here).collect();
    assert!(targets.len() >= 5 && !paths.is_empty(), "{targets:?}, {paths:?}");
    for path in paths {
        let program = compile(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (entries, events) =
            (programs::entries(&program, 1), programs::events(&program, 1, EVENTS));
        let (program, effort) = (Subject::new(program), Effort::Full);
        let case = Case { program: &program, entries: &entries, events: &events, effort };
        let text = std::fs::read_to_string(&path).expect("a program");
        let lacked = text.lines().find_map(|line| line.split_once("Lacked by: "));
        for target in &targets {
            let verdict = judge(target, &case);
            let name = path.display();
            match lacked.is_some_and(|(_, list)| list.split(' ').any(|one| one == *target)) {
                true => assert!(matches!(verdict, Verdict::Lacks(_)), "{name} on {target}"),
                false => assert_eq!(verdict, Verdict::Same, "{name} on {target}"),
            }
        }
    }
}

/// The comparison can fail: with a deliberate mistake in the program that the interpreter gets, or
/// in what it gives, it does.
#[test]
fn deliberate_mistakes_are_found() {
    const TOGETHER: usize = 40;
    const FIRST: u64 = 1000;
    // Programs that clear byte strings are few, and what comes of it shows in fewer.
    const SELDOM: (&str, &str) = ("does not clear strings", "nf_buf_clear");
    let folder = tempfile::tempdir().expect("a folder");
    let mut faults: Vec<_> = FAULTS.iter().collect();
    let mut tampers: Vec<_> = TAMPERS.iter().collect();
    let mut from = FIRST;
    while (!faults.is_empty() || !tampers.is_empty()) && from < FIRST + 4000 {
        let only_seldom = tampers.is_empty() && faults.iter().all(|fault| fault.name == SELDOM.0);
        let cases: Vec<_> = (from..)
            .map(|seed| (seed, programs::generate(seed).text))
            .filter(|(_, text)| !only_seldom || text.contains(SELDOM.1))
            .take(TOGETHER)
            .map(|(seed, text)| {
                from = seed + 1;
                let path = folder.path().join(format!("program_{seed}.c"));
                std::fs::write(&path, text).expect("a file");
                let program = compile(&path).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                let entries = programs::entries(&program, seed);
                let events = programs::events(&program, seed, EVENTS);
                (path, program, entries, events)
            })
            .collect();
        let names = programs::Generated::names();
        let source =
            |path: &std::path::PathBuf| Source { path: path.clone(), names: names.clone() };
        let sources: Vec<Source> = cases.iter().map(|(path, ..)| source(path)).collect();
        let oracles = oracle::build(&sources).unwrap_or_else(|e| panic!("{e}"));
        let all = || cases.iter().zip(&oracles);
        faults.retain(|fault| {
            !all().any(|((_, program, entries, events), oracle)| {
                let wrong = fault.of(program);
                wrong.is_some_and(|wrong| {
                    oracle::difference(&wrong, &mut oracle.fresh(), entries, events).is_some()
                })
            })
        });
        tampers.retain(|tamper| {
            !all().any(|((_, program, entries, events), oracle)| {
                let oracle = &mut oracle.fresh();
                oracle::difference_with(program, oracle, entries, events, tamper.change).is_some()
            })
        });
    }
    let names = faults.iter().map(|f| f.name).chain(tampers.iter().map(|t| t.name));
    let names: Vec<&str> = names.collect();
    assert!(names.is_empty(), "not found in {} programs: {names:?}", from - FIRST);
    println!("{} mistakes found in {} programs", FAULTS.len() + TAMPERS.len(), from - FIRST);
}
