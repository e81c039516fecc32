//! Random eBPF programs as XDP objects: in the kernel, lifted in the interpreter, and compiled again
//! in the kernel.
//!
//! `NICFORGE_RANDOM_EBPF` says how many, `NICFORGE_RANDOM_SEED` is the first seed. With
//! `NICFORGE_RANDOM_STATE`, a file, a run goes on where the last one ended.

mod common;

use std::fmt::Write;

use common::{Place, can_load};
use nicforge_isa::ebpf::generate::{Any, BYTES, ENTRIES, PSEUDO_CALL, any_program};
use nicforge_isa::ebpf::{Insn, LDDW};
use nicforge_run::compile::compile_xdp;
use nicforge_util::Random;
use serde_json::Value;

/// Programs of one object.
const TOGETHER: u64 = 25;

/// Names of the maps, by number; the variables are one of their own.
const MAPS: [&str; 4] = ["array", "variables", "hash", "ring"];

/// What the kernel may refuse of a hundred programs, and what may not be lifted.
const REFUSED: u64 = 5;

/// A function of C that is nothing but instructions.
fn function(head: &str, seed: u64, insns: &[Insn]) -> String {
    let mut text = format!("__attribute__((naked)) {head}\n{{\n    asm volatile(\n");
    let mut insns = insns.iter();
    while let Some(insn) = insns.next() {
        let line = match (insn.code, insn.src) {
            (LDDW, _) => {
                // Its second half goes with it.
                insns.next();
                format!("r{} = {} ll", insn.dst, MAPS[insn.imm as usize])
            }
            (0x85, PSEUDO_CALL) => format!("call function_{seed}_{}", insn.imm),
            _ => format!(".8byte {:#x}", word(insn)),
        };
        let _ = writeln!(text, "        \"{line}\\n\"");
    }
    text + "    );\n}\n"
}

/// A program and what it calls.
fn program(seed: u64) -> String {
    let Any { program, functions } = any_program(&mut Random::new(seed));
    let mut text = String::new();
    for (nth, insns) in functions.iter().enumerate() {
        let head = "__attribute__((noinline, used)) static __u64";
        let head = format!("{head} function_{seed}_{nth}(__u64 a, __u64 b, void *c)");
        text += &function(&head, seed, insns);
    }
    let head = format!("SEC(\"xdp\") int random_{seed}(struct xdp_md *ctx)");
    text + &function(&head, seed, &program.insns)
}

fn word(insn: &Insn) -> u64 {
    let registers = u64::from(insn.src << 4 | insn.dst);
    let (off, imm) = (u64::from(insn.off as u16), u64::from(insn.imm as u32));
    u64::from(insn.code) | registers << 8 | off << 16 | imm << 32
}

/// An object's source.
fn source(seeds: std::ops::Range<u64>) -> String {
    let mut text = String::from("#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n");
    let map = |name: &str, kind: &str| {
        format!(
            "struct {{\n    __uint(type, BPF_MAP_TYPE_{kind});\n    __type(key, __u32);\n    \
             __type(value, struct value);\n    __uint(max_entries, {ENTRIES});\n}} {name} \
             SEC(\".maps\");\n"
        )
    };
    let _ = writeln!(
        text,
        "struct value {{ __u8 bytes[{BYTES}]; }} variables __attribute__((aligned(8)));"
    );
    text += &map("array", "ARRAY");
    text += &map("hash", "HASH");
    text += "struct {\n    __uint(type, BPF_MAP_TYPE_RINGBUF);\n    __uint(max_entries, 4096);\n} \
             ring SEC(\".maps\");\n";
    for seed in seeds {
        text += &program(seed);
    }
    text + "char _license[] SEC(\"license\") = \"GPL\";\n"
}

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
