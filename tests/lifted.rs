//! Random eBPF programs, lifted, on the targets: each against the interpreter. (The interpreter
//! against the kernel: `crates/cli/tests/lift_generated.rs`.)
//!
//! `NICFORGE_RANDOM_EBPF` says how many, `NICFORGE_RANDOM_SEED` is the first seed,
//! `NICFORGE_RANDOM_TARGETS` names targets as for generated C programs.

use std::collections::BTreeMap;

use nicforge_ir::{Input, InputEvent, verify};
use nicforge_isa::ebpf::generate::source;
use nicforge_lift::{Options, lift, packets};
use nicforge_run::compile::{Effort, compile_xdp};
use nicforge_run::units;
use nicforge_tests::campaign::each;
use nicforge_tests::targets::{Case, Subject, Verdict, ahead, effort, judge};
use nicforge_tests::{dpdk_is_missing, setting, verilator_is_missing};

/// Where programs run if nothing is said, and of how many each takes one.
const TARGETS: &str = "host/2,agilio-cx/4,liquidio/4,panic/8,pspin/8,dpdk/30,u280/30";
/// Programs of one object.
const TOGETHER: u64 = 60;
/// Packets for a program.
const PACKETS: usize = 80;

/// A program that could be lifted.
struct One {
    seed: u64,
    subject: Subject,
    events: Vec<InputEvent>,
}

/// Programs of one object, lifted.
fn lifted(seeds: std::ops::Range<u64>) -> Vec<One> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("random.c");
    std::fs::write(&path, source(seeds.clone())).expect("a file");
    let bytes = compile_xdp(&path, &[]).expect("clang takes it");
    let seeds: Vec<u64> = seeds.collect();
    let all = each(&seeds, |seed| {
        let program = Some(format!("random_{seed}"));
        let options = Options { name: "random".to_string(), program, ..Options::default() };
        let lifted = lift(&bytes, &options).ok()?;
        let frames = packets(&lifted.source, PACKETS);
        let event = |(nth, frame)| InputEvent {
            time_ns: 1000 * nth,
            seed: nth,
            input: Input::Net { port: 0, frame },
        };
        let events = (0..).zip(frames).map(event).collect();
        let program = verify(lifted.program).unwrap_or_else(|e| panic!("seed {seed}: {}", e[0]));
        Some(One { seed: *seed, subject: Subject::new(program), events })
    });
    all.into_iter().flatten().collect()
}

#[test]
fn lifted_programs_do_the_same_on_every_target() {
    let first = setting("NICFORGE_RANDOM_SEED", 0);
    let count = setting("NICFORGE_RANDOM_EBPF", TOGETHER);
    let wanted = std::env::var("NICFORGE_RANDOM_TARGETS").unwrap_or_else(|_| TARGETS.to_string());
    let target = |word: &str| match word.split_once('/') {
        Some((name, of)) => (name.to_string(), of.parse().expect("a number behind the slash")),
        None => (word.to_string(), 1),
    };
    let mut targets: Vec<(String, u64)> = wanted.split(',').map(target).collect();
    targets.retain(|(name, _)| match name.as_str() {
        "dpdk" => !dpdk_is_missing(),
        "u280" => !verilator_is_missing(),
        _ => true,
    });
    let (mut wrong, mut counts) = (Vec::new(), BTreeMap::<(String, String), u64>::new());
    let mut from = first;
    while from < first + count && wrong.is_empty() {
        let to = (from + TOGETHER).min(first + count);
        let all = lifted(from..to);
        assert!(all.len() as u64 * 10 >= (to - from) * 9, "{} of {} lift", all.len(), to - from);
        for (target, of) in &targets {
            let mine: Vec<&One> = all.iter().filter(|one| one.seed % of == 0).collect();
            for wanted in [Effort::Little, Effort::Full] {
                let some = mine.iter().filter(|one| effort(one.seed) == wanted);
                ahead(target, &some.map(|one| &one.subject).collect::<Vec<_>>(), wanted);
            }
            let verdicts = each(&mine, |one| {
                let (program, events) = (&one.subject, one.events.as_slice());
                let effort = effort(one.seed);
                judge(target, &Case { program, entries: &[], events, effort })
            });
            for (one, verdict) in mine.iter().zip(verdicts) {
                let what = match verdict {
                    Verdict::Same => "same".to_string(),
                    Verdict::Lacks(what) => format!("lacks {what}"),
                    Verdict::Left(what) => format!("left: {what}"),
                    Verdict::Refused(what) => {
                        format!("refused: {}", what.lines().next().unwrap_or_default())
                    }
                    Verdict::Wrong(what) => {
                        wrong.push(format!("seed {}, {target}: {what}", one.seed));
                        "wrong".to_string()
                    }
                };
                *counts.entry((target.clone(), what)).or_default() += 1;
            }
        }
        units::forget();
        from = to;
    }
    for ((target, what), count) in &counts {
        println!("{target:<10} {count:>6} {what}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    for (target, of) in &targets {
        let same = counts.get(&(target.clone(), "same".to_string()));
        assert!(same.is_some() || count < *of, "{target} compared nothing");
    }
}
