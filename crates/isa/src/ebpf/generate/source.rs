//! Random programs as C that compilers and loaders take: maps with their types, and instructions.

use std::fmt::Write;
use std::ops::Range;

use nicforge_util::Random;

use super::{Any, BYTES, ENTRIES, PSEUDO_CALL, any_program};
use crate::ebpf::{Insn, LDDW};

/// Names of the maps, by number; the variables are one of their own.
const MAPS: [&str; 6] = ["array", "variables", "hash", "ring", "per_cpu", "lru"];

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
            _ => format!(".8byte {:#x}", u64::from_le_bytes(insn.encode())),
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

/// An object's source in C: a program of section `xdp` for each seed, `random_SEED`, by
/// [`any_program`]. Programs are naked functions, so that compilers leave instructions as they are.
pub fn source(seeds: Range<u64>) -> String {
    let mut text = String::from("#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n");
    let map = |name: &str, kind: &str, entries: u64| {
        format!(
            "struct {{\n    __uint(type, BPF_MAP_TYPE_{kind});\n    __type(key, __u32);\n    \
             __type(value, struct value);\n    __uint(max_entries, {entries});\n}} {name} \
             SEC(\".maps\");\n"
        )
    };
    let _ = writeln!(
        text,
        "struct value {{ __u8 bytes[{BYTES}]; }} variables __attribute__((aligned(8)));"
    );
    text += &map("array", "ARRAY", ENTRIES);
    text += &map("hash", "HASH", ENTRIES);
    text += &map("per_cpu", "PERCPU_ARRAY", ENTRIES);
    text += &map("lru", "LRU_HASH", 64);
    text += "struct {\n    __uint(type, BPF_MAP_TYPE_RINGBUF);\n    __uint(max_entries, 4096);\n} \
             ring SEC(\".maps\");\n";
    for seed in seeds {
        text += &program(seed);
    }
    text + "char _license[] SEC(\"license\") = \"GPL\";\n"
}
