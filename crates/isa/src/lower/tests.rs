//! Instruction counts of the translation table, and what is refused.

use super::*;
use crate::ebpf::insn::class;

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

const EXIT: Insn = Insn { code: 0x95, dst: 0, src: 0, off: 0, imm: 0 };

fn program(insns: Vec<Insn>) -> Program {
    let lines = vec![None; insns.len()];
    Program { name: "test".to_string(), section: "xdp".to_string(), insns, lines }
}

fn maps() -> Vec<Map> {
    let map = |kind, max_entries| Map {
        name: format!("map{kind}"),
        kind: Some(kind),
        key_size: 4,
        value_size: 8,
        max_entries,
        data: Vec::new(),
        constant: false,
    };
    vec![map(2, 16), map(5, 16)]
}

/// Instructions that eBPF instruction `at` becomes. What comes before makes registers 0 to 5
/// numbers, 6 a packet pointer.
fn count(code: Vec<Insn>) -> usize {
    let mut insns = vec![insn(0x61, 6, 1, 0, 0)];
    insns.extend((0..6).map(|register| insn(0x79, register, 6, 8 * i16::from(register), 0)));
    let first = insns.len();
    let last = first + code.len();
    insns.extend(code);
    // All upper halves are read later.
    insns.extend((0..6).map(|register| insn(0x7b, 6, register, 0, 0)));
    insns.push(EXIT);
    let lowered = lower(&program(insns), &maps()).unwrap();
    lowered.origin.iter().filter(|origin| (first..last).contains(&(**origin as usize))).count()
}

#[test]
fn counts_of_the_table() {
    let alu64 = |code: u8, imm| insn(class::ALU64 | code, 1, 0, 0, imm);
    let alu32 = |code: u8, imm| insn(class::ALU | code, 1, 0, 0, imm);
    let reg = |code: u8| insn(code | 0x08, 1, 2, 0, 0);
    let cases: Vec<(&str, Vec<Insn>, usize)> = vec![
        ("mov64 reg", vec![reg(class::ALU64 | 0xb0)], 2),
        ("mov64 imm", vec![alu64(0xb0, 7)], 2),
        ("mov64 long imm", vec![alu64(0xb0, 0x12345678)], 3),
        ("mov64 negative imm", vec![alu64(0xb0, -2)], 2),
        ("mov32 imm", vec![alu32(0xb0, 0x12345678)], 3),
        ("and64 reg", vec![reg(class::ALU64 | 0x50)], 2),
        ("and64 low mask", vec![alu64(0x50, 0xff)], 2),
        ("and64 long mask", vec![alu64(0x50, 0x1234)], 3),
        ("xor64 all", vec![alu64(0xa0, -1)], 2),
        ("or64 zero", vec![alu64(0x40, 0)], 0),
        ("add64 reg", vec![reg(class::ALU64)], 2),
        ("add64 imm", vec![alu64(0, 5)], 2),
        ("add64 negative", vec![alu64(0, -5)], 2),
        ("add64 long", vec![alu64(0, 0x1234)], 3),
        ("add32 reg", vec![reg(class::ALU)], 2),
        ("mul32 reg", vec![reg(class::ALU | 0x20)], 7),
        ("neg64", vec![alu64(0x80, 0)], 2),
        ("neg32", vec![alu32(0x80, 0)], 2),
        ("lsh64 4", vec![alu64(0x60, 4)], 2),
        ("lsh64 32", vec![alu64(0x60, 32)], 2),
        ("lsh64 40", vec![alu64(0x60, 40)], 2),
        ("lsh64 0", vec![alu64(0x60, 0)], 0),
        ("rsh64 8", vec![alu64(0x70, 8)], 2),
        ("arsh64 8", vec![alu64(0xc0, 8)], 3),
        ("lsh32 4", vec![alu32(0x60, 4)], 2),
        ("arsh32 4", vec![alu32(0xc0, 4)], 3),
        ("lsh32 reg", vec![reg(class::ALU | 0x60)], 3),
        ("be16", vec![insn(0xdc, 1, 0, 0, 16)], 3),
        ("be32", vec![insn(0xdc, 1, 0, 0, 32)], 3),
        ("be64", vec![insn(0xdc, 1, 0, 0, 64)], 5),
        ("jeq 0", vec![insn(0x15, 1, 0, 0, 0)], 2),
        ("jeq small", vec![insn(0x15, 1, 0, 0, 5)], 3),
        ("jne 0", vec![insn(0x55, 1, 0, 0, 0)], 2),
        ("jne small", vec![insn(0x55, 1, 0, 0, 5)], 4),
        ("jgt imm", vec![insn(0x25, 1, 0, 0, 5)], 3),
        ("jge negative", vec![insn(0x35, 1, 0, 0, -5)], 3),
        ("jlt reg", vec![insn(0xad, 1, 2, 0, 0)], 3),
        ("jset imm", vec![insn(0x45, 1, 0, 0, 5)], 2),
        ("jset reg", vec![insn(0x4d, 1, 2, 0, 0)], 4),
        ("jeq reg", vec![insn(0x1d, 1, 2, 0, 0)], 4),
        ("jne reg", vec![insn(0x5d, 1, 2, 0, 0)], 4),
        ("ja", vec![insn(0x05, 0, 0, 0, 0)], 1),
        ("stack store 8", vec![insn(0x7b, 10, 1, -8, 0)], 2),
        ("stack store 4", vec![insn(0x63, 10, 1, -8, 0)], 1),
        ("stack store 1", vec![insn(0x73, 10, 1, -8, 0)], 1),
        ("packet load 4", vec![insn(0x05, 0, 0, 0, 0), insn(0x61, 1, 6, 0, 0)], 4),
        ("packet store 4", vec![insn(0x63, 6, 1, 0, 0)], 2),
        ("packet store 8", vec![insn(0x7b, 6, 1, 0, 0)], 3),
        ("packet store imm", vec![insn(0x62, 6, 0, 0, 5)], 2),
    ];
    for (name, code, expected) in cases {
        assert_eq!(count(code), expected, "{name}");
    }
}

/// A lookup of the word at the bottom of the stack, then `rest` with the value's pointer in r0.
fn lookup(map: i32, key: i16, rest: Vec<Insn>) -> Program {
    let mut insns = vec![
        insn(0x62, 10, 0, -4, 3),
        insn(0x62, 10, 0, -8, 3),
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, key.into()),
        insn(LDDW, 1, 1, 0, map),
        insn(0, 0, 0, 0, 0),
        insn(0x85, 0, 0, 0, 1),
    ];
    insns.extend(rest);
    insns.push(EXIT);
    program(insns)
}

#[test]
fn lookups_are_inline() {
    let calls = |key| {
        let lowered = lower(&lookup(0, key, vec![]), &maps()).unwrap();
        lowered.origin.iter().filter(|origin| **origin == 6).count()
    };
    assert_eq!(calls(-8), 3);
    assert_eq!(calls(-4), 9);
    let add = vec![insn(0xb7, 1, 0, 0, 1), insn(0xdb, 0, 1, 0, 0)];
    let lowered = lower(&lookup(0, -8, add), &maps()).unwrap();
    assert_eq!(lowered.origin.iter().filter(|origin| **origin == 8).count(), 3);
    assert!(lowered.writes);
}

#[test]
fn what_is_not_supported_is_named() {
    let refused = |program: Program| lower(&program, &maps()).unwrap_err().to_string();
    assert_eq!(
        refused(lookup(1, -8, vec![])),
        "section `xdp`, instruction 6: map `map5` is of type percpu_hash: the NFP's offload has arrays and hash maps only; --what-if plain-maps takes it as one"
    );
    assert_eq!(
        refused(program(vec![insn(0x85, 0, 0, 0, 51), EXIT])),
        "section `xdp`, instruction 0: helper bpf_redirect_map is not supported on the NFP"
    );
    assert_eq!(
        refused(program(vec![insn(0x61, 0, 1, 16, 0), EXIT])),
        "section `xdp`, instruction 0: 4 bytes of the context (`rx_queue_index`) are not supported on the NFP: the offload has data and data_end only"
    );
    assert!(refused(program(vec![insn(0x85, 0, 1, 0, -1), EXIT])).contains("recursive"));
    assert!(
        refused(program(vec![insn(0x85, 0, 1, 0, 9), EXIT])).contains("call out of the program")
    );
    let deep = vec![
        insn(0x7a, 10, 0, -400, 0),
        insn(0x85, 0, 1, 0, 1),
        EXIT,
        insn(0x7a, 10, 0, -200, 0),
        insn(0xb7, 0, 0, 0, 2),
        EXIT,
    ];
    assert!(refused(program(deep)).contains("600 bytes of stack"));
    assert!(refused(program(vec![insn(0x05, 0, 0, -9, 0)])).contains("jump out of the program"));
}

#[test]
fn listings_print_and_parse() {
    let lowered =
        lower(&lookup(0, -4, vec![insn(0x61, 1, 0, 4, 0), insn(0x15, 1, 0, 0, 5)]), &maps())
            .unwrap();
    let listing = crate::nfp::parse(&crate::nfp::print(&lowered.insns)).unwrap();
    assert_eq!(listing.insns, lowered.insns);
}
