//! Random eBPF programs as XDP objects: in the kernel, lifted in the interpreter, and compiled again
//! in the kernel.
//!
//! `NICFORGE_RANDOM_EBPF` says how many, `NICFORGE_RANDOM_SEED` is the first seed. With
//! `NICFORGE_RANDOM_STATE`, a file, a run goes on where the last one ended.

mod common;

use common::{Place, can_load};
use nicforge_isa::ebpf::generate::source;
use nicforge_run::compile::compile_xdp;
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
