//! Random programs with a few words of their text exchanged: parser and verifier refuse most with a
//! message; what they accept must run and must survive the passes, however odd it is.

use nicforge_ir::fuzz;
use nicforge_ir::generate::{Options, events, generate};
use nicforge_ir::io::random;
use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::{Interp, Verified, verify};
use nicforge_passes::PassManager;

fn behaviour(program: &Verified<nicforge_ir::Program>, seed: u64) -> Vec<String> {
    let mut interp = Interp::new(program);
    interp.max_steps = 100_000;
    events(seed, 4).iter().map(|event| format!("{:?}", interp.run(event))).collect()
}

/// The text with one to three words replaced by others of it, doubled or removed.
fn mutate(text: &str, seed: u64) -> String {
    let mut words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    let mut number = 0;
    let mut below = |n: usize| {
        number += 1;
        random(seed, number) as usize % n
    };
    for _ in 0..1 + below(3) {
        let (at, other) = (below(words.len()), below(words.len()));
        match below(4) {
            0 => {
                words.remove(at);
            }
            1 => words.insert(at, words[at]),
            2 => words.swap(at, other),
            _ => words[at] = words[other],
        }
    }
    words.concat()
}

#[test]
fn odd_programs_are_refused_or_work() {
    let count =
        std::env::var("NICFORGE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3000u64);
    let mut accepted = 0;
    for seed in 0..count {
        let text =
            mutate(&print(&generate(seed % 500, Options::ALL), PrintOptions::default()), seed);
        fuzz::text(text.as_bytes());
        let Some(program) = parse(&text).ok().and_then(|program| verify(program).ok()) else {
            continue;
        };
        accepted += 1;
        let before = behaviour(&program, seed);
        let names = [
            "unroll",
            "inline",
            "unroll",
            "simplify-control",
            "fold",
            "cse",
            "dce",
            "simplify-control",
        ];
        let after = PassManager::new()
            .run(program, &names)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        let now = behaviour(&after, seed);
        for (a, b) in before.iter().zip(&now) {
            // The passes may bring a run that took too long to its end.
            assert!(a == b || a.contains("TooManySteps"), "seed {seed}: {a}\nbecame\n{b}\n{text}");
        }
    }
    assert!(accepted * 20 > count, "only {accepted} of {count} were accepted: that tests little");
}
