//! Random programs, cut in random ways, against the uncut program.

mod common;

use common::{behaviour, cut_with, cycles, difference, shared_table, text};
use nicforge_ir::generate::{Options, decisions, events, generate_from, shrink};
use nicforge_ir::io::random;
use nicforge_planner::cut::{self, Cut, Cutter, NoCut, Objective, Weights, prepare};

/// Cuts up to three times; what is wrong, and how many cuts there were.
fn check(list: &[u32], seed: u64) -> (Option<String>, usize) {
    let program = generate_from(list, Options::ALL);
    let input = events(seed, 12);
    let want = behaviour(&program, &input, &|_| {});
    let mut current = match prepare(&program) {
        Ok(program) => program,
        Err(error) => return (Some(error.to_string()), 0),
    };
    let mut cuts = 0;
    for round in 0..3u64 {
        let number = |n| random(seed ^ 0xc07, 8 * round + n) as usize;
        let objective = Objective::ALL[number(0) % 3];
        let balance = [0.2, 0.5, 0.8][number(1) % 3];
        let handlers: Vec<_> = current.handlers.keys().collect();
        let handler = handlers[number(2) % handlers.len()];
        let before = text(&current);
        let describe = |what: String| {
            let name = &current.handlers[handler].name;
            Some(format!("{} {balance} of {name}: {what}\nbefore\n{before}", objective.name()))
        };
        let options = cut::Options {
            objective,
            balance,
            without_packet: number(3) % 2 == 0,
            reread_bytes: [None, Some(0), Some(2)][number(4) % 3],
            ..cut::Options::default()
        };
        match cut_with(&current, handler, &options) {
            Ok(cut) => {
                cuts += 1;
                let wrong = difference(&want, &cut.program, &input, &|_| {});
                if let Some(what) = wrong.or_else(|| shared_table(&cut.program)) {
                    return (describe(what), cuts);
                }
                current = cut.program;
            }
            Err(NoCut::Broken { error, .. }) => return (describe(error), cuts),
            Err(_) => {}
        }
    }
    (None, cuts)
}

/// How many random programs; `NICFORGE_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("NICFORGE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

#[test]
fn cut_random_programs_mean_the_same() {
    let mut cuts = 0;
    for seed in 0..seeds() {
        let list = decisions(seed);
        let (wrong, made) = check(&list, seed);
        cuts += made;
        if wrong.is_some() {
            let small = shrink(&list, |list| check(list, seed).0.is_some());
            panic!("seed {seed}, made small: {}", check(&small, seed).0.unwrap_or_default());
        }
    }
    assert!(cuts as u64 >= seeds() / 2, "only {cuts} cuts in {} programs", seeds());
}

#[test]
fn one_cutter_for_many_questions_answers_as_one_for_each() {
    let weights = Weights { op: &cycles };
    let mut answers = 0;
    for seed in 0..40 {
        let program = prepare(&generate_from(&decisions(seed), Options::ALL)).unwrap();
        let handler = program.handlers.keys().next().unwrap();
        let Ok(mut cutter) = Cutter::new(&program, handler, &weights) else { continue };
        for n in 0..36 {
            let options = cut::Options {
                objective: Objective::ALL[n % 3],
                balance: [0.2, 0.5, 0.8][n / 3 % 3],
                without_packet: n / 9 % 2 == 0,
                reread_bytes: [None, Some(2)][n / 18],
                ..cut::Options::default()
            };
            let whole = |cut: Result<Cut, NoCut>| match cut {
                Ok(cut) => format!("{:?} {} {}", cut.shares, cut.bytes, text(&cut.program)),
                Err(error) => error.to_string(),
            };
            let alone = cut_with(&program, handler, &options);
            answers += usize::from(alone.is_ok());
            assert_eq!(whole(cutter.cut(&options)), whole(alone), "seed {seed}, {options:?}");
        }
    }
    assert!(answers > 200, "only {answers} cuts");
}
