//! Every pass on random programs: what comes out of the interpreter must not change.

use nicforge_ir::generate::{Options, decisions, events, generate_from, shrink};
use nicforge_ir::text::{PrintOptions, print};
use nicforge_ir::{Interp, Output, Program, TableBackend, Verified};
use nicforge_passes::PassManager;
use nicforge_passes::registry::PASSES;

/// Everything that a run leaves: outputs, tables, counters, evictions.
fn behaviour(program: &Verified<Program>, seed: u64) -> Vec<String> {
    let mut interp = Interp::new(program);
    let mut seen = Vec::new();
    for event in events(seed, 12) {
        let outputs: Result<Vec<Output>, _> = interp.run(&event);
        seen.push(format!("{outputs:?} {:?}", interp.evictions()));
    }
    for table in program.tables.keys() {
        seen.push(format!("{:?} {}", interp.dump(table), interp.counters().refused[table]));
    }
    seen
}

/// What is wrong after running these passes (none: the default pipeline) on a program.
fn difference(list: &[u32], options: Options, seed: u64, passes: &[&str]) -> Option<String> {
    let program = generate_from(list, options);
    let mut manager = PassManager::new();
    let result = match passes {
        [] => manager.run_default(program.clone()),
        names => manager.run(program.clone(), names),
    };
    let after = match result {
        Ok(after) => after,
        Err(error) => return Some(error.to_string()),
    };
    let (before, now) = (behaviour(&program, seed), behaviour(&after, seed));
    let first = before.iter().zip(&now).find(|(a, b)| a != b)?;
    let text = |program| print(program, PrintOptions::default());
    Some(format!(
        "{}\nbecame\n{}\n\n{}\nbecame\n{}",
        first.0,
        first.1,
        text(&program),
        text(&after)
    ))
}

fn check(passes: &[&str], options: Options, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let list = decisions(seed);
        if difference(&list, options, seed, passes).is_some() {
            let small = shrink(&list, |list| difference(list, options, seed, passes).is_some());
            let what = difference(&small, options, seed, passes).unwrap_or_default();
            panic!(
                "{passes:?} change the meaning of the program of seed {seed}, made small:\n{what}"
            );
        }
    }
}

/// How many random programs; `NICFORGE_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("NICFORGE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(600)
}

#[test]
fn each_pass_keeps_the_meaning() {
    for pass in PASSES {
        check(&[pass.name()], Options::ALL, 0..seeds());
    }
}

#[test]
fn rules_for_single_ops_keep_the_meaning() {
    check(&["fold", "cse", "fold", "dce"], Options::ARITHMETIC, 0..4 * seeds());
}

#[test]
fn the_default_pipeline_keeps_the_meaning() {
    check(&[], Options::ALL, 0..2 * seeds());
}

#[test]
fn passes_work_on_what_other_passes_leave() {
    check(
        &[
            "inline",
            "unroll",
            "simplify-control",
            "fold",
            "cse",
            "simplify-control",
            "dce",
            "unroll",
        ],
        Options::ALL,
        0..seeds(),
    );
}

#[test]
fn the_default_pipeline_makes_programs_smaller() {
    let count = |program: &Program| {
        let mut count = 0usize;
        for handler in program.handlers.values() {
            handler.body.for_each_inst(handler.body.entry(), &mut |_| count += 1);
        }
        count
    };
    let (mut before, mut after) = (0, 0);
    for seed in 0..200 {
        let program = PassManager::new()
            .run(generate_from(&decisions(seed), Options::ALL), &["inline"])
            .unwrap();
        before += count(&program);
        after += count(&PassManager::new().run_default(program).unwrap());
    }
    assert!(after * 10 < before * 7, "{before} instructions became {after}");
}
