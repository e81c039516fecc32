//! Maps and helpers, each by a program of a few instructions.

use super::*;
use crate::ebpf::{Item, Processor};
use crate::object::Program;

const PROCESSOR: Processor = Processor {
    width: 4.0,
    window: 64.0,
    load: 5.0,
    mul: 3.0,
    div: 20.0,
    atomic: 18.0,
    store: 0.5,
    branch: 0.5,
    taken: 0.0,
    call: 4.0,
    mispredict: 15.0,
    l2: 14.0,
    l1_kib: 48.0,
    between: 10.0,
};

fn map(kind: u32, key_size: u32, max_entries: u32) -> Map {
    let name = "m".to_string();
    let kind = Some(kind);
    Map { name, kind, key_size, value_size: 8, max_entries, data: Vec::new(), constant: false }
}

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

/// Calls a helper on the map with the packet's first bytes as the key, and the packet as the value.
fn on_map(helper: i32) -> Vec<Insn> {
    vec![
        insn(0x61, 2, 1, 0, 0), // r2 = data
        insn(0xbf, 3, 2, 0, 0), // r3 = data
        insn(0xb7, 4, 0, 0, 0),
        insn(0x18, 1, PSEUDO_MAP, 0, 0),
        insn(0, 0, 0, 0, 0),
        insn(0x85, 0, 0, 0, helper),
    ]
}

fn program(insns: Vec<Insn>) -> Program {
    Program { name: "p".to_string(), section: "xdp".to_string(), insns, lines: Vec::new() }
}

const LOOKUP: i32 = 1;
const UPDATE: i32 = 2;
const DELETE: i32 = 3;

/// Results of helpers on a map, one after the other; of a lookup the value, or -1.
fn results(map: &Map, calls: &[(i32, &[u8])]) -> Vec<i64> {
    let programs: Vec<Program> = [LOOKUP, UPDATE, DELETE]
        .into_iter()
        .map(|helper| {
            let mut insns = on_map(helper);
            if helper == LOOKUP {
                // r0 = r0 ? *r0 : -1
                insns.push(insn(0x15, 0, 0, 2, 0));
                insns.push(insn(0x79, 0, 0, 0, 0));
                insns.push(insn(0x95, 0, 0, 0, 0));
                insns.push(insn(0xb7, 0, 0, 0, -1));
            }
            insns.push(insn(0x95, 0, 0, 0, 0));
            program(insns)
        })
        .collect();
    let maps = [map.clone()];
    let mut world = World::new(&programs[0], &maps, PROCESSOR).unwrap();
    let mut found = Vec::new();
    for (helper, bytes) in calls {
        let which = &programs[(*helper - 1) as usize];
        (world.program, world.core.insns) = (which, &which.insns);
        let mut frame = bytes.to_vec();
        frame.resize(64, 0);
        found.push(world.run(&frame, 0).unwrap() as i64);
    }
    found
}

#[test]
fn hash_maps_refuse_what_does_not_fit_and_others_forget() {
    let (a, b, c) = (&[1, 0, 0, 0][..], &[2, 0, 0, 0][..], &[3, 0, 0, 0][..]);
    let calls = [
        (LOOKUP, a),
        (UPDATE, a),
        (UPDATE, b),
        (LOOKUP, a),
        (UPDATE, c),
        (LOOKUP, b),
        (LOOKUP, c),
        (DELETE, a),
        (DELETE, a),
    ];
    assert_eq!(results(&map(1, 4, 2), &calls), [-1, 0, 0, 1, -7, 2, -1, 0, -2]);
    // Of two entries the one that was not used goes.
    assert_eq!(results(&map(9, 4, 2), &calls), [-1, 0, 0, 1, 0, -1, 3, 0, -2]);
}

#[test]
fn arrays_have_all_their_entries() {
    let (last, behind) = (&[1, 0, 0, 0][..], &[2, 0, 0, 0][..]);
    let calls = [(LOOKUP, last), (UPDATE, last), (LOOKUP, last), (LOOKUP, behind), (DELETE, last)];
    assert_eq!(results(&map(2, 4, 2), &calls), [0, 0, 1, -1, -2]);
}

#[test]
fn tries_find_the_longest_prefix() {
    let key = |bits: u8, address: [u8; 4]| {
        let [a, b, c, d] = address;
        [bits, 0, 0, 0, a, b, c, d]
    };
    let (net, host) = (key(8, [10, 0, 0, 0]), key(32, [10, 1, 1, 1]));
    let (inside, outside) = (key(32, [10, 9, 9, 9]), key(32, [11, 9, 9, 9]));
    let calls = [
        (UPDATE, &net[..]),
        (UPDATE, &host[..]),
        (LOOKUP, &host[..]),
        (LOOKUP, &inside[..]),
        (LOOKUP, &outside[..]),
    ];
    let value = |key: [u8; 8]| i64::from_le_bytes(key);
    assert_eq!(results(&map(11, 8, 4), &calls), [0, 0, value(host), value(net), -1]);
}

#[test]
fn packets_grow_and_shrink_as_in_the_kernel() {
    // r0 = helper(context, by), and what the packet is then.
    let after = |helper: i32, by: i32| {
        let insns =
            vec![insn(0xb7, 2, 0, 0, by), insn(0x85, 0, 0, 0, helper), insn(0x95, 0, 0, 0, 0)];
        let program = program(insns);
        let mut world = World::new(&program, &[], PROCESSOR).unwrap();
        let frame: Vec<u8> = (0..64).collect();
        let result = world.run(&frame, 0).unwrap() as i64;
        (result, world.packet().len(), world.packet()[0])
    };
    let grown = vec![
        insn(0xbf, 6, 1, 0, 0), // r6 = context
        insn(0xb7, 2, 0, 0, -8),
        insn(0x85, 0, 0, 0, 65),
        insn(0xbf, 1, 6, 0, 0),
        insn(0xb7, 2, 0, 0, 8),
        insn(0x85, 0, 0, 0, 65),
        insn(0x95, 0, 0, 0, 0),
    ];
    let program = program(grown);
    let mut world = World::new(&program, &[], PROCESSOR).unwrap();
    world.run(&[7; 64], 0).unwrap();
    assert_eq!(world.packet(), [[7; 56].as_slice(), &[0; 8]].concat(), "what is new is zero");
    assert_eq!(after(44, 8), (0, 56, 8));
    assert_eq!(after(44, -8), (0, 72, 0));
    assert_eq!(after(44, 51), (-22, 64, 0));
    assert_eq!(after(65, -8), (0, 56, 0));
    assert_eq!(after(65, 8), (0, 72, 0));
    assert_eq!(after(65, 4000), (-22, 64, 0));
}

#[test]
fn what_is_executed_is_counted() {
    let program = program([on_map(LOOKUP), vec![insn(0x95, 0, 0, 0, 0)]].concat());
    let maps = [map(1, 4, 8)];
    let mut world = World::new(&program, &maps, PROCESSOR).unwrap();
    world.install("m", &[9, 0, 0, 0], &[7; 8]).unwrap();
    assert!(world.install("n", &[], &[]).is_err());
    for _ in 0..10 {
        world.run(&[9; 64], 0).unwrap();
    }
    let tally = world.take();
    let name = || "map_lookup_elem hash".to_string();
    assert_eq!(tally.items[&Item::Call(name())], 10.0);
    assert_eq!(tally.items[&Item::Unit(name())], 40.0);
    assert!(tally.cycles > 0.0 && world.take().cycles == 0.0, "{tally:?}");
}

#[test]
fn what_this_world_does_not_have_is_said_by_name() {
    let program = program(vec![insn(0x85, 0, 0, 0, 69), insn(0x95, 0, 0, 0, 0)]);
    let mut world = World::new(&program, &[], PROCESSOR).unwrap();
    let fault = world.run(&[0; 64], 0).unwrap_err();
    assert!(fault.to_string().contains("bpf_fib_lookup is not in this world"), "{fault}");
}
