//! Random programs do the same as eBPF and as what they are translated to: verdict, packet, maps.

use std::collections::HashMap;

use super::*;
use crate::ebpf::insn::class;
use crate::ebpf::{Fault, Host, Machine, Memory, RegionId};
use crate::nfp::{self, DRAM_BASE, DramRead, Entry};
use crate::object::{PSEUDO_MAP, PSEUDO_VALUE};

struct Random(nicforge_util::Random);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0.index(most)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Constants of all lengths and signs.
    fn constant(&mut self) -> i32 {
        let value = self.below(1 << 32) as u32 as i32;
        let short = value >> self.pick(&[0, 8, 16, 24, 28]);
        self.pick(&[value, short, short, 0, 1, -1, 0xff, 0x1234, -0x1234])
    }
}

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

const PACKET: usize = 128;
/// An array, a hash map with keys of six bytes, global data.
const MAPS: usize = 3;
const KEYS: usize = 8;
/// Double words of stack that hold numbers; keys and values for calls are below.
const SLOTS: i16 = 6;

fn maps(random: &mut Random) -> Vec<Map> {
    let map = |kind, key_size, value_size, max_entries| Map {
        name: "map".to_string(),
        kind,
        key_size,
        value_size,
        max_entries,
        data: Vec::new(),
        constant: false,
    };
    let mut list =
        vec![map(Some(2), 4, 24, KEYS as u32), map(Some(1), 6, 16, 1 << 16), map(None, 4, 32, 1)];
    list[2].data = (0..32).map(|_| random.below(256) as u8).collect();
    list
}

/// Registers that hold numbers; r6 is the packet.
const NUMBERS: [u8; 8] = [0, 1, 2, 3, 4, 5, 7, 8];

/// Instructions at a function's beginning, from the packet's address in r6: numbers everywhere.
fn numbers(random: &mut Random, registers: std::ops::Range<u8>) -> Vec<Insn> {
    let load = |register| {
        let (code, bytes) = random.pick(&[(0x79, 8), (0x61, 4), (0x69, 2), (0x71, 1)]);
        insn(code, register, 6, (random.below(PACKET / bytes - 1) * bytes) as i16, 0)
    };
    registers.filter(|register| *register != 6).map(load).collect()
}

/// Instructions that belong together.
fn group(random: &mut Random, functions: usize) -> Vec<Insn> {
    let (d, s) = (random.pick(&NUMBERS), random.pick(&NUMBERS));
    let imm = random.constant();
    let slot = -8 * (1 + random.below(SLOTS as usize) as i16);
    let sized = random.pick(&[(0x18u8, 8i16), (0, 4), (8, 2), (0x10, 1)]);
    let within = |random: &mut Random, bytes: i16, of: usize| {
        (random.below(of / bytes as usize) * bytes as usize) as i16
    };
    match random.below(if functions > 0 { 15 } else { 14 }) {
        0 | 1 => {
            let code = random.pick(&[0x00, 0x10, 0x40, 0x50, 0xa0, 0xb0]);
            let kind = random.pick(&[class::ALU, class::ALU64]);
            vec![if random.below(2) == 0 {
                insn(code | kind | 8, d, s, 0, 0)
            } else {
                insn(code | kind, d, 0, 0, imm)
            }]
        }
        2 => {
            let code = random.pick(&[0x60, 0x70, 0xc0]);
            match random.below(4) {
                // An amount's top bit would become the sign, and an amount that is shifted itself
                // is gone too early, on the driver.
                by @ (0 | 1) => {
                    let kind = if by == 0 { class::ALU } else { class::ALU64 };
                    let amount = if d == s { 9 } else { s };
                    vec![
                        insn(0xbf, amount, s, 0, 0),
                        insn(0x57, amount, 0, 0, random.pick(&[31, 63])),
                        insn(code | kind | 8, d, amount, 0, 0),
                    ]
                }
                2 => vec![insn(code | class::ALU, d, 0, 0, imm & 31)],
                _ => vec![insn(code | class::ALU64, d, 0, 0, imm & 63)],
            }
        }
        3 => match random.below(3) {
            // Upper halves are cleared before: the driver leaves that of a short product as it is.
            0 => vec![insn(0xbc, d, d, 0, 0), insn(0x2c, d, s, 0, 0)],
            1 => vec![insn(0x87, d, 0, 0, 0)],
            _ => vec![insn(0xdc, d, 0, 0, random.pick(&[16, 32, 64]))],
        },
        // Division and remainder of what is known to be short.
        4 => {
            let code = random.pick(&[0x30, 0x90]) | random.pick(&[class::ALU, class::ALU64]);
            vec![insn(0x57, d, 0, 0, 0xf_ffff), insn(code, d, 0, 0, 2 + (imm & 0xfff))]
        }
        5 => vec![insn(0x63 | sized.0, 10, s, slot + within(random, sized.1, 8), 0)],
        6 => vec![insn(0x61 | sized.0, d, 10, slot + within(random, sized.1, 8), 0)],
        7 => vec![insn(0x63 | sized.0, 6, s, within(random, sized.1, PACKET), 0)],
        8 => vec![insn(0x61 | sized.0, d, 6, within(random, sized.1, PACKET), 0)],
        9 => vec![insn(0x62 | sized.0, 6, 0, within(random, sized.1, PACKET), imm)],
        10 => {
            // Global data: read, write, or both.
            let at = within(random, sized.1, 24);
            let mut list = vec![
                insn(LDDW, 9, PSEUDO_VALUE, 0, 2),
                insn(0, 0, 0, 0, 8 * random.below(2) as i32),
            ];
            list.push(insn(0x61 | sized.0, d, 9, at, 0));
            if random.below(2) == 0 {
                list.push(insn(0x63 | sized.0, 9, s, at, 0));
            }
            list.push(insn(0xb7, 9, 0, 0, 0));
            list
        }
        11 => {
            // The array: look up, change a member.
            let at = within(random, sized.1, 24);
            let key = -8 * (SLOTS + 1) - 8 * random.below(2) as i16;
            let mut list = vec![insn(0x62, 10, 0, key, random.below(KEYS) as i32)];
            list.extend(call(key, 0, 1));
            list.push(insn(0x15, 0, 0, 3, 0));
            list.push(insn(0x61 | sized.0, 1, 0, at, 0));
            list.push(insn(0x07, 1, 0, 0, imm));
            list.push(match random.below(3) {
                0 => insn(0xdb, 0, 7, within(random, 8, 24), 0),
                1 => insn(0xc3, 0, 1, within(random, 4, 24), 0),
                _ => insn(0x63 | sized.0, 0, 1, at, 0),
            });
            list.push(insn(0xb7, 0, 0, 0, 5));
            list.extend(numbers(random, 1..6));
            list
        }
        12 | 13 => {
            // The hash map: keys of six bytes, values of two double words.
            let key = -8 * (SLOTS + 1);
            let mut list = vec![
                insn(0x7a, 10, 0, key, random.below(KEYS) as i32),
                insn(0x7b, 10, 7, key - 16, 0),
                insn(0x7b, 10, 8, key - 8, 0),
            ];
            match random.below(3) {
                0 => {
                    list.extend([
                        insn(0xbf, 3, 10, 0, 0),
                        insn(0x07, 3, 0, 0, i32::from(key) - 16),
                    ]);
                    list.extend(call(key, 1, 2));
                }
                1 => list.extend(call(key, 1, 3)),
                _ => {
                    list.extend(call(key, 1, 1));
                    list.push(insn(0x15, 0, 0, 2, 0));
                    list.push(insn(0x79, 8, 0, 8, 0));
                    list.push(insn(0x7b, 0, 7, 0, 0));
                    list.push(insn(0xb7, 0, 0, 0, 5));
                }
            }
            list.extend(numbers(random, 1..6));
            list
        }
        _ => {
            // Where the function is, is known later.
            let mut list =
                vec![insn(0xbf, 1, 6, 0, 0), insn(0x85, 0, 1, 0, random.below(functions) as i32)];
            list.extend(numbers(random, 1..6));
            list
        }
    }
}

fn call(key: i16, map: i32, helper: i32) -> Vec<Insn> {
    vec![
        insn(0xbf, 2, 10, 0, 0),
        insn(0x07, 2, 0, 0, key.into()),
        insn(LDDW, 1, PSEUDO_MAP, 0, map),
        insn(0, 0, 0, 0, 0),
        insn(0x85, 0, 0, 0, helper),
    ]
}

fn function(random: &mut Random, functions: usize, first: bool) -> Vec<Insn> {
    let start = if first { insn(0x61, 6, 1, 0, 0) } else { insn(0xbf, 6, 1, 0, 0) };
    let mut code = vec![start];
    code.extend(numbers(random, 0..10));
    code.extend((1..=SLOTS).map(|slot| insn(0x7b, 10, random.pick(&NUMBERS), -8 * slot, 0)));
    for _ in 0..3 + random.below(14) {
        let group = group(random, functions);
        if random.below(3) == 0 {
            // A jump over the group, on some condition.
            let op =
                random.pick(&[0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0]);
            let kind = random.pick(&[class::JMP, class::JMP32]);
            let (d, s) = (random.pick(&NUMBERS), random.pick(&NUMBERS));
            let off = group.len() as i16;
            code.push(if random.below(2) == 0 {
                insn(op | kind | 8, d, s, off, 0)
            } else {
                insn(op | kind, d, 0, off, random.constant())
            });
        }
        code.extend(group);
    }
    code.extend([7, 8, 1, 3].map(|register| insn(0xaf, 0, register, 0, 0)));
    code.push(EXIT);
    code
}

const EXIT: Insn = Insn { code: 0x95, dst: 0, src: 0, off: 0, imm: 0 };

/// A program of one to three functions, which call those after them.
fn program(random: &mut Random) -> Program {
    let count = 1 + random.below(3);
    let functions: Vec<Vec<Insn>> =
        (0..count).map(|number| function(random, count - 1 - number, number == 0)).collect();
    let start = |number: usize| functions[..number].iter().map(Vec::len).sum::<usize>();
    let mut insns: Vec<Insn> = Vec::new();
    for (number, code) in functions.iter().enumerate() {
        for insn in code {
            let mut insn = *insn;
            if insn.code == 0x85 && insn.src == 1 {
                let to = start(number + 1 + insn.imm as usize);
                insn.imm = to as i32 - insns.len() as i32 - 1;
            }
            insns.push(insn);
        }
    }
    let lines = vec![None; insns.len()];
    Program { name: "random".to_string(), section: "xdp".to_string(), insns, lines }
}

/// The kernel's side.
struct World {
    packet: RegionId,
    length: u64,
    /// The array and the global data.
    array: RegionId,
    global: RegionId,
    hash: HashMap<Vec<u8>, RegionId>,
}

impl Host for World {
    fn address(&mut self, _: &mut Memory, src: u8, imm: i32, next: i32) -> Result<u64, Fault> {
        Ok(if src == PSEUDO_VALUE { self.global.address() + next as u64 } else { imm as u64 })
    }

    fn context(&mut self, _: &mut Memory, offset: u64, _: usize) -> Result<u64, Fault> {
        Ok(self.packet.address() + if offset == 4 { self.length } else { 0 })
    }

    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        if args[0] == 0 {
            let key = memory.load(args[1], 4)?;
            return Ok(self.array.address() + 24 * key);
        }
        let key = memory.read(args[1], 6)?.to_vec();
        Ok(match helper {
            1 => self.hash.get(&key).map_or(0, |region| region.address()),
            2 => {
                let value = memory.read(args[2], 16)?.to_vec();
                let region = *self.hash.entry(key).or_insert_with(|| memory.add(vec![0; 16]));
                *memory.bytes_mut(region) = value;
                0
            }
            _ if self.hash.remove(&key).is_some() => 0,
            _ => NOT_FOUND as u64,
        })
    }
}

const NOT_FOUND: i64 = -2;

#[test]
fn random_programs_do_the_same() {
    let (mut calls, mut tables) = (0, 0);
    for seed in 1..=1000u64 {
        let mut random = Random(nicforge_util::Random::new(seed));
        let maps = maps(&mut random);
        let program = program(&mut random);
        let lowered = lower(&program, &maps).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        calls += usize::from(program.insns.iter().any(|insn| insn.code == 0x85 && insn.src == 1));
        tables += usize::from(lowered.maps.len() == MAPS);
        let bytes: Vec<u8> = (0..PACKET).map(|_| random.below(256) as u8).collect();

        let mut memory = Memory::default();
        let mut world = World {
            packet: memory.add(bytes.clone()),
            length: PACKET as u64,
            array: memory.add(vec![0; 24 * KEYS]),
            global: memory.add(maps[2].data.clone()),
            hash: HashMap::new(),
        };
        let run = Machine { program: &program.insns, limit: 100_000 }
            .run(&mut memory, &mut world)
            .unwrap();

        // Bytes of DRAM that are not zero.
        let place = |map: u32| {
            lowered.maps.iter().position(|known| *known == map).map(|at| base(at as u64))
        };
        let mut dram: HashMap<u64, u8> = HashMap::new();
        if let Some(base) = place(2) {
            dram.extend(
                maps[2].data.iter().enumerate().map(|(at, byte)| (base + at as u64, *byte)),
            );
        }
        let mut packet = bytes;
        let dram = std::cell::RefCell::new(dram);
        let ran = nfp::Machine::run(
            &lowered.insns,
            Entry {
                packet: &mut packet,
                dram: &mut |read: &DramRead| {
                    let byte = |at| dram.borrow().get(&(read.address + at)).copied().unwrap_or(0);
                    (0..read.bytes as u64).map(byte).collect()
                },
                written: &mut |address, bytes| {
                    dram.borrow_mut().extend((address..).zip(bytes.iter().copied()));
                },
                limit: 1_000_000,
            },
        )
        .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let dram = dram.into_inner();
        let found = |at: u64| dram.get(&at).copied().unwrap_or(0);
        assert_eq!(ran.result, run.result as u32, "seed {seed}: verdict");
        assert_eq!(packet, memory.bytes(world.packet), "seed {seed}: packet");
        if let Some(base) = place(2) {
            let data: Vec<u8> = (0..32).map(|at| found(base + at)).collect();
            assert_eq!(data, memory.bytes(world.global), "seed {seed}: global data");
        }
        if let Some(base) = place(0) {
            for (key, value) in memory.bytes(world.array).chunks(24).enumerate() {
                let data: Vec<u8> = (0..24).map(|at| found(base + 32 * key as u64 + at)).collect();
                assert_eq!(data, value, "seed {seed}: entry {key}");
            }
        }
        let listing = nfp::parse(&nfp::print(&lowered.insns)).unwrap();
        assert_eq!(listing.insns, lowered.insns, "seed {seed}");
    }
    assert!(calls > 300 && tables > 150, "{calls} with calls, {tables} with all maps");
}

/// Where a map begins.
fn base(place: u64) -> u64 {
    (u64::from(DRAM_BASE) << 8) + (place << 32)
}
