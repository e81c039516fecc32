//! Random eBPF programs as XDP objects: in the kernel, lifted in the interpreter, and compiled
//! again in the kernel.
//!
//! `NICFORGE_RANDOM_EBPF` says how many, also damaged ones; `NICFORGE_RANDOM_SEED` is the first
//! seed. With `NICFORGE_RANDOM_STATE`, a file, a run goes on where the last one ended.

mod common;

use common::{Place, can_load};
use nicforge_isa::ebpf::generate::{any_program, source};
use nicforge_run::compile::compile_xdp;
use nicforge_util::Random;
use serde_json::Value;

/// Programs of one object.
const TOGETHER: u64 = 25;

/// What the kernel may refuse of a hundred programs, and what may not be lifted.
const REFUSED: u64 = 5;

/// Writes a program to a file for whoever looks at it; where that is.
fn keep(program: &str) -> String {
    let seed: u64 = program.rsplit('_').next().unwrap().parse().unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/generated");
    std::fs::create_dir_all(folder).unwrap();
    let path = format!("{folder}/ebpf_{seed}.c");
    std::fs::write(&path, source(seed..seed + 1)).unwrap();
    path
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_programs_do_the_same_in_the_kernel_lifted_and_compiled_again() {
    if !can_load() {
        return;
    }
    let state = std::env::var_os("NICFORGE_RANDOM_STATE").map(std::path::PathBuf::from);
    let noted = state.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    let noted = noted.and_then(|text| text.trim().parse().ok());
    let first = noted.or(setting("NICFORGE_RANDOM_SEED")).unwrap_or(0);
    let count = setting("NICFORGE_RANDOM_EBPF").unwrap_or(2 * TOGETHER);
    let (mut from, mut refused, mut alike, mut again) = (first, Vec::new(), 0, 0);
    let mut wrong: Vec<String> = Vec::new();
    while from < first + count && wrong.is_empty() {
        let seeds = from..(from + TOGETHER).min(first + count);
        let place = Place::new();
        let path = place.file("random.c", source(seeds.clone()));
        std::fs::create_dir(place.path().join("objects")).unwrap();
        place.file("objects/random.o", compile_xdp(&path, &[]).unwrap());
        let all = ["validate", "lift", "--from", "objects", "--targets", "xdp", "--recompile"];
        let ran = place.run(&[&all[..], &["--json"]].concat());
        let said: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let rows = said["rows"].as_array().unwrap();
        assert_eq!(rows.len() as u64, seeds.end - seeds.start, "{ran:?}");
        for row in rows {
            let differs = |key: &str| row[key].as_bool() == Some(false);
            if differs("agrees") || differs("recompiled_agrees") {
                wrong.push(format!("{}: {row:#}", keep(row["program"].as_str().unwrap())));
            }
            let is = |key: &str| row[key].as_bool() == Some(true);
            alike += u64::from(is("agrees"));
            again += u64::from(is("recompiled_agrees"));
            for (key, reason) in [
                ("lifted", &row["reason"]),
                ("agrees", &row["kernel"]),
                ("recompiled_agrees", &row["recompiled"]),
            ] {
                if !is(key) {
                    keep(row["program"].as_str().unwrap());
                    refused.push(format!("{}: {reason}", row["program"].as_str().unwrap()));
                    break;
                }
            }
        }
        from = seeds.end;
        if let Some(path) = state.as_ref().filter(|_| wrong.is_empty()) {
            std::fs::write(path, format!("{from}\n")).unwrap();
        }
    }
    refused.iter().for_each(|why| println!("{why}"));
    assert!(wrong.is_empty(), "{} of {count} programs: {}", wrong.len(), wrong.join("\n"));
    println!(
        "{count} programs from seed {first}: {alike} as in the kernel, {again} compiled again alike"
    );
    let most = count * REFUSED / 100 + 2;
    assert!(refused.len() as u64 <= most, "{} of {count}: {refused:#?}", refused.len());
}

/// Instructions with damage, which no verifier has seen: every program ends with αIR that keeps
/// its rules, or with a reason of one line.
#[test]
fn damaged_instructions_are_lifted_or_refused() {
    let place = Place::new();
    let path = place.file("random.c", source(0..TOGETHER));
    let whole = compile_xdp(&path, &[]).unwrap();
    // All begin alike.
    let first = any_program(&mut Random::new(0)).program.insns;
    let start: Vec<u8> = first[..6].iter().flat_map(|insn| insn.encode()).collect();
    let starts: Vec<usize> =
        (0..whole.len()).filter(|at| whole[*at..].starts_with(&start)).collect();
    assert_eq!(starts.len() as u64, TOGETHER);
    let rounds = setting("NICFORGE_RANDOM_EBPF").unwrap_or(500);
    let mut random = Random::new(setting("NICFORGE_RANDOM_SEED").unwrap_or(0));
    let (mut lifted, mut refused) = (0, 0);
    for round in 0..rounds {
        let seed = random.below(TOGETHER);
        let count = any_program(&mut Random::new(seed)).program.insns.len();
        let mut bytes = whole.clone();
        for _ in 0..=random.below(3) {
            let at = starts[seed as usize] + 8 * random.index(count);
            match random.below(5) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at + 1] = random.next() as u8,
                2 => bytes[at + 2] = random.next() as u8,
                3 => bytes[at + 4] ^= 1 << random.below(8),
                _ => {
                    let any = random.next() as i32;
                    let imm = random.pick(&[0, 1, i32::MAX, i32::MIN, -1, any]);
                    bytes[at + 4..at + 8].copy_from_slice(&imm.to_le_bytes());
                }
            }
        }
        let program = Some(format!("random_{seed}"));
        let options = nicforge_lift::Options { program, ..Default::default() };
        let what = || {
            place.file("damaged.o", &bytes);
            format!("round {round}, random_{seed}")
        };
        match std::panic::catch_unwind(|| nicforge_lift::lift(&bytes, &options)) {
            Err(_) => panic!("{} ends in a panic", what()),
            Ok(Err(reason)) => {
                assert_eq!(reason.to_string().lines().count(), 1, "{}: {reason}", what());
                refused += 1;
            }
            Ok(Ok(found)) => {
                if let Err(errors) = nicforge_ir::verify(found.program) {
                    panic!("{}: {}", what(), errors[0]);
                }
                lifted += 1;
            }
        }
    }
    println!("{lifted} lifted, {refused} refused");
    assert!(lifted > rounds / 10 && refused > rounds / 10, "{lifted} lifted, {refused} refused");
}
