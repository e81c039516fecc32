//! Random eBPF programs as XDP objects: in the kernel, lifted in the interpreter, and compiled
//! again in the kernel.
//!
//! `NICFORGE_RANDOM_EBPF` says how many, also damaged ones; `NICFORGE_RANDOM_SEED` is the first
//! seed. With `NICFORGE_RANDOM_STATE`, a file, a run goes on where the last one ended.

mod common;

use std::time::{Duration, Instant};

use common::{Place, can_load};
use nicforge_isa::ebpf::generate::{any_program, source};
use nicforge_isa::object;
use nicforge_lift::fuzz;
use nicforge_run::compile::compile_xdp;
use nicforge_util::Random;
use serde_json::Value;

/// Programs of one object.
const TOGETHER: u64 = 25;

/// A damaged object that takes longer is kept.
const LONG: Duration = Duration::from_secs(5);

/// What the kernel may refuse of a hundred programs, and what may not be lifted.
const REFUSED: u64 = 5;

/// Writes a file for whoever looks at it; where that is.
fn keep(name: &str, contents: &[u8]) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/generated");
    std::fs::create_dir_all(folder).unwrap();
    let path = format!("{folder}/{name}");
    std::fs::write(&path, contents).unwrap();
    path
}

/// Writes the source of a program to a file; where that is.
fn keep_source(program: &str) -> String {
    let seed: u64 = program.rsplit('_').next().unwrap().parse().unwrap();
    keep(&format!("ebpf_{seed}.c"), source(seed..seed + 1).as_bytes())
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Lifts a damaged program: true if it was lifted. One that should not end so is kept.
fn ended(bytes: &[u8], program: &str, round: u64) -> bool {
    std::panic::catch_unwind(|| fuzz::program(bytes, program)).unwrap_or_else(|_| {
        let kept = keep(&format!("damaged_{round}.o"), bytes);
        panic!("round {round}: see above, and {program} of {kept}");
    })
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
                wrong.push(format!("{}: {row:#}", keep_source(row["program"].as_str().unwrap())));
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
                    keep_source(row["program"].as_str().unwrap());
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
        match ended(&bytes, &format!("random_{seed}"), round) {
            true => lifted += 1,
            false => refused += 1,
        }
    }
    println!("{lifted} lifted, {refused} refused");
    assert!(lifted > rounds / 10 && refused > rounds / 10, "{lifted} lifted, {refused} refused");
}

/// Damage that a program may survive: instructions that make sense, a register or a constant in
/// place of another.
fn damage(random: &mut Random, bytes: &mut [u8], code: &[usize]) {
    let at = code[random.index(code.len())];
    let near =
        |random: &mut Random, byte: u8| byte.wrapping_add(random.below(9) as u8).wrapping_sub(4);
    match random.below(6) {
        0 => bytes[at + random.index(8)] = random.next() as u8,
        1 => {
            let other = code[random.index(code.len())];
            bytes[at] = bytes[other];
        }
        2 => bytes[at + 1] = (random.below(11) | random.below(11) << 4) as u8,
        3 => bytes[at + 2] = near(random, bytes[at + 2]),
        4 => bytes[at + 4] = near(random, bytes[at + 4]),
        _ => {
            let from = code[random.index(code.len())];
            bytes.copy_within(from..from + 8, at);
        }
    }
}

/// Objects of examples with damage, most in their instructions, some anywhere: each ends with αIR
/// that keeps its rules, or with a reason of one line. What following a program may cost is
/// limited, so none runs on.
#[test]
fn damaged_objects_are_lifted_or_refused() {
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/xdp"));
    let mut sources: Vec<_> = sources.unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    let rounds = setting("NICFORGE_RANDOM_EBPF").unwrap_or(300);
    let mut random = Random::new(setting("NICFORGE_RANDOM_SEED").unwrap_or(0));
    let few: Vec<_> = (0..rounds.div_ceil(60)).map(|_| random.index(sources.len())).collect();
    let (mut lifted, mut refused, mut longest) = (0, 0, (LONG, String::new()));
    let mut round = 0;
    for which in few {
        let whole = compile_xdp(&sources[which], &[]).unwrap();
        let code = object::instructions(&whole);
        let names: Vec<_> = nicforge_lift::programs(&whole).unwrap();
        for _ in 0..60 {
            let mut bytes = whole.clone();
            if random.below(4) == 0 {
                for _ in 0..=random.below(3) {
                    let at = random.index(bytes.len());
                    bytes[at] = random.next() as u8;
                }
            } else {
                (0..=random.below(3)).for_each(|_| damage(&mut random, &mut bytes, &code));
            }
            let (name, _) = &names[random.index(names.len())];
            let start = Instant::now();
            match ended(&bytes, name, round) {
                true => lifted += 1,
                false => refused += 1,
            }
            if start.elapsed() > longest.0 {
                let what = format!("{name} of {}", keep("slowest.o", &bytes));
                longest = (start.elapsed(), what);
            }
            round += 1;
        }
    }
    println!(
        "{lifted} lifted, {refused} refused; none took more than {:.1?} {}",
        longest.0, longest.1
    );
    assert!(lifted > round / 10 && refused > round / 10, "{lifted} lifted, {refused} refused");
}
