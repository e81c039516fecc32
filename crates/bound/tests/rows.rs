//! Random eBPF programs, alone and for packets in a row: every witness takes its path, and no
//! random packets, from random contents of maps, execute more instructions than the bound.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::analysis::{Options, analyse};
use nicforge_bound::ebpf::{self, Tails};
use nicforge_bound::graph::Graph;
use nicforge_bound::method::Method;
use nicforge_bound::replay;
use nicforge_bound::search::{By, Machine};
use nicforge_isa::ebpf::{self as isa, Fault, Host, Insn, Memory, RegionId};
use nicforge_isa::object::{Map, PSEUDO_MAP, PSEUDO_VALUE, Program};
use nicforge_util::Random;

/// Entries of the array, and bytes of each and of the variables.
const ENTRIES: u64 = 4;
const BYTES: u64 = 16;
/// Bytes of a packet's memory: in front of it, the packet and behind it.
const ROOM: u64 = 1024;

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

/// An array of `ENTRIES` values, and variables.
fn maps() -> Vec<Map> {
    let map = |name: &str, kind, max_entries| Map {
        name: name.to_string(),
        kind,
        key_size: 4,
        value_size: BYTES as u32,
        max_entries,
        data: if kind.is_none() { vec![0; BYTES as usize] } else { Vec::new() },
        constant: false,
    };
    vec![map("array", Some(2), ENTRIES as u32), map(".bss", None, 1)]
}

/// `lddw` of a map or of the address of its value.
fn lddw(dst: u8, source: u8, map: i32) -> Vec<Insn> {
    vec![insn(isa::LDDW, dst, source, 0, map), insn(0, 0, 0, 0, 0)]
}

/// A program: r6 is the packet's address, r7 and r8 are values, r9 is where memory is.
fn program(random: &mut Random) -> Program {
    let mut code = vec![
        insn(0x61, 6, 1, 0, 0), // r6 = data
        insn(0x61, 2, 1, 4, 0), // r2 = data_end
        insn(0xbf, 3, 6, 0, 0), // r3 = r6 + 32
        insn(0x07, 3, 0, 0, 32),
        insn(0x2d, 3, 2, 0, 0), // past the end: leave
        insn(0xb7, 7, 0, 0, 5),
        insn(0x71, 8, 6, 3, 0),
        insn(0x7a, 10, 0, -16, 0), // the stack begins as zero
        insn(0x7a, 10, 0, -8, 0),
        insn(0x7b, 10, 1, -32, 0), // the context
    ];
    code.extend(lddw(9, PSEUDO_VALUE, 1));
    let mut leaving = vec![4];
    for _ in 0..6 + random.below(10) {
        let (a, b) = if random.below(2) == 0 { (7, 8) } else { (8, 7) };
        let width = random.pick(&[0u8, 0x08, 0x10, 0x18]); // 4, 2, 1, 8 bytes
        let bytes = [4, 2, 1, 8][usize::from(width >> 3)];
        let off = (random.below(BYTES / bytes) * bytes) as i16;
        match random.below(14) {
            0 => code.push(insn(0x71, a, 6, random.below(32) as i16, 0)),
            1 => {
                let op = random.pick(&[0x07u8, 0x47, 0x57, 0xa7, 0x77]);
                code.push(insn(op, a, 0, 0, random.below(8) as i32));
            }
            2 => code.push(insn(random.pick(&[0x0fu8, 0x1f, 0x5f, 0xaf]), a, b, 0, 0)),
            3 | 4 => code.push(insn(0x61 | width, a, 9, off, 0)),
            5 => code.push(insn(0x63 | width, 9, a, off, 0)),
            6 => {
                let wide = random.below(2) == 0;
                let off =
                    (random.below(if wide { 2 } else { 4 }) * if wide { 8 } else { 4 }) as i16;
                let kind = random.pick(&[0x00, 0x01, 0x40, 0x51, 0xa1, 0xe1, 0xf1]);
                code.push(insn(0xb7, 0, 0, 0, random.below(3) as i32));
                code.push(insn(if wide { 0xdb } else { 0xc3 }, 9, a, off, kind));
                if kind == 0xf1 {
                    code.push(insn(0xbf, b, 0, 0, 0));
                }
            }
            7 => {
                // A value of the array; a key beyond it finds none.
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, random.pick(&[0, 1, 3, 7])));
                code.push(insn(0x63, 10, 1, -20, 0));
                code.push(insn(0xbf, 2, 10, 0, 0));
                code.push(insn(0x07, 2, 0, 0, -20));
                code.extend(lddw(1, PSEUDO_MAP, 0));
                code.push(insn(0x85, 0, 0, 0, 1));
                code.push(insn(0x15, 0, 0, 1, 0));
                code.push(insn(0xbf, 9, 0, 0, 0));
            }
            8 => {
                // A byte of the stack at an index.
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, 7));
                code.push(insn(0x0f, 1, 10, 0, 0));
                code.push(match random.below(2) {
                    0 => insn(0x73, 1, b, -16, 0),
                    _ => insn(0x71, b, 1, -12, 0),
                });
            }
            9 => {
                // What nobody knows, perhaps twice.
                for _ in 0..1 + random.below(2) {
                    code.push(insn(0x85, 0, 0, 0, 7));
                    code.push(insn(0xaf, a, 0, 0, 0));
                }
            }
            10 => {
                // Bytes of the packet to the stack, as many as a value says.
                code.push(insn(0xbf, 4, a, 0, 0));
                code.push(insn(0x57, 4, 0, 0, random.pick(&[3, 7])));
                code.extend([
                    insn(0x79, 1, 10, -32, 0),
                    insn(0xb7, 2, 0, 0, 0),
                    insn(0xbf, 3, 10, 0, 0),
                    insn(0x07, 3, 0, 0, -16),
                    insn(0x85, 0, 0, 0, 189),
                    insn(0x71, b, 10, -16 + random.below(8) as i16, 0),
                ]);
            }
            11 => {
                // The packet's head or end moves; where it is then has to be asked.
                let helper = random.pick(&[44, 65]);
                code.push(insn(0xbf, 2, a, 0, 0));
                code.push(insn(0x57, 2, 0, 0, random.pick(&[0, 4, 31])));
                code.push(insn(0x07, 2, 0, 0, random.pick(&[-8, 0])));
                code.extend([insn(0x79, 1, 10, -32, 0), insn(0x85, 0, 0, 0, helper)]);
                leaving.push(code.len());
                code.push(insn(0x55, 0, 0, 0, 0));
                code.extend([
                    insn(0x79, 1, 10, -32, 0),
                    insn(0x61, 6, 1, 0, 0),
                    insn(0x61, 2, 1, 4, 0),
                    insn(0xbf, 3, 6, 0, 0),
                    insn(0x07, 3, 0, 0, 32),
                ]);
                leaving.push(code.len());
                code.push(insn(0x2d, 3, 2, 0, 0));
            }
            12 => {
                // A turn in every few is longer.
                let more = 5 + random.below(40) as i16;
                code.extend(lddw(1, PSEUDO_VALUE, 1));
                code.push(insn(0xb7, a, 0, 0, 1));
                match random.below(2) {
                    0 => code.push(insn(0xc3, 1, a, off & 12, 1)),
                    _ => code.extend([
                        insn(0x61, a, 1, off & 12, 0),
                        insn(0x07, a, 0, 0, 1),
                        insn(0x63, 1, a, off & 12, 0),
                    ]),
                }
                code.push(insn(0x57, a, 0, 0, random.pick(&[1, 3, 7])));
                code.push(insn(0x55, a, 0, more, 0));
                code.extend((0..more).map(|_| insn(0x07, b, 0, 0, 1)));
            }
            _ => {
                // Some way more for some.
                let mask = random.pick(&[1, 3, 7]);
                let more = 1 + random.below(30) as i16;
                code.push(insn(0xbf, 1, a, 0, 0));
                code.push(insn(0x57, 1, 0, 0, mask));
                let is = random.below(mask as u64 + 1) as i32;
                code.push(insn(random.pick(&[0x15u8, 0x55]), 1, 0, more, is));
                code.extend((0..more).map(|_| insn(0x07, b, 0, 0, 1)));
                if random.below(6) == 0 {
                    leaving.push(code.len());
                    code.push(insn(0x15, a, 0, 0, 9));
                }
            }
        }
    }
    let end = code.len();
    code.push(insn(0xb7, 0, 0, 0, 2));
    code.push(insn(0x95, 0, 0, 0, 0));
    for at in leaving {
        code[at].off = (end - at - 1) as i16;
    }
    Program {
        name: "random".to_string(),
        section: "xdp".to_string(),
        lines: vec![None; code.len()],
        insns: code,
    }
}

/// One core with its maps, and the packet that it handles.
struct World<'a> {
    random: &'a mut Random,
    array: RegionId,
    variables: RegionId,
    /// Where the packet's memory begins, and the packet in it.
    room: u64,
    data: u64,
    end: u64,
    executed: u64,
}

impl Host for World<'_> {
    fn address(&mut self, _: &mut Memory, source: u8, _: i32, _: i32) -> Result<u64, Fault> {
        Ok(if source == PSEUDO_VALUE { self.variables.address() } else { 0 })
    }

    fn context(&mut self, _: &mut Memory, offset: u64, _: usize) -> Result<u64, Fault> {
        Ok(if offset == 0 { self.data } else { self.end })
    }

    fn call(&mut self, memory: &mut Memory, helper: i32, args: [u64; 5]) -> Result<u64, Fault> {
        let by = i64::from(args[1] as i32);
        match helper {
            44 | 65 => {
                let (mut data, mut end) = (self.data, self.end);
                let moved = if helper == 44 { &mut data } else { &mut end };
                *moved = moved.wrapping_add_signed(by);
                if data < self.room || data + 14 > end || end > self.room + ROOM {
                    return Ok(-22i64 as u64);
                }
                (self.data, self.end) = (data, end);
                return Ok(0);
            }
            189 => {
                for at in 0..args[3] {
                    memory.store(args[2] + at, 1, self.random.next() & 0xff)?;
                }
                return Ok(self.random.next() & 1);
            }
            7 => return Ok(self.random.next()),
            _ => {}
        }
        let key = memory.load(args[1], 4)?;
        Ok(if key < ENTRIES { self.array.address() + key * BYTES } else { 0 })
    }

    fn at(&mut self, _: usize) {
        self.executed += 1;
    }
}

/// Instructions of that many random packets.
fn executed(program: &Program, packets: u32, random: &mut Random) -> u64 {
    let mut memory = Memory::default();
    let bytes = |random: &mut Random, count: u64| {
        (0..count).map(|_| (random.next() & random.next()) as u8).collect::<Vec<u8>>()
    };
    let array = memory.add(bytes(random, ENTRIES * BYTES));
    let variables = memory.add(bytes(random, BYTES));
    let mut total = 0;
    for _ in 0..packets {
        let size = 60 + random.below(40);
        let room = memory.add(bytes(random, ROOM)).address();
        let data = room + 256;
        let end = data + size;
        let mut world = World { random, array, variables, room, data, end, executed: 0 };
        let machine = isa::Machine { program: &program.insns, limit: 10_000 };
        machine.run(&mut memory, &mut world).unwrap();
        total += world.executed;
    }
    total
}

fn options() -> Options {
    Options {
        machine: Machine { base_cycles: 0.0, cores: 1.0, hz: 1e9, port_pps: None, port_bps: None },
        sizes: (60, 100),
        by: vec![By::PacketRate],
        required: None,
        top: 0,
        all: false,
        unroll: None,
        timeout: Some(Duration::from_secs(20)),
        given: Vec::new(),
        method: Method::Default,
        path: None,
    }
}

#[test]
fn no_packets_in_a_row_take_more_than_the_bound() {
    let seed = std::env::var("NICFORGE_RANDOM_SEED").ok().and_then(|seed| seed.parse().ok());
    let rounds = std::env::var("NICFORGE_RANDOM_ROWS").ok().and_then(|rounds| rounds.parse().ok());
    let mut random = Random::new(seed.unwrap_or(0x0df0_11e5_5eed_0001));
    let (maps, tails) = (maps(), Tails::new());
    let (mut exact, mut below, mut tight) = (0, 0, 0);
    let rounds: u32 = rounds.unwrap_or(60);
    for round in 0..rounds {
        let program = program(&mut random);
        let show = |what: &str| format!("round {round}: {what}\n{:#?}", program.insns);
        let bound = |graph: Graph| {
            let stop = Arc::new(AtomicBool::new(false));
            let report = analyse(graph, &options(), stop, &mut |_, _| {});
            report.unwrap_or_else(|e| panic!("{}", show(&e.to_string())))
        };
        let graph = ebpf::graph(&program, &maps).unwrap_or_else(|e| panic!("{}", show(&e.reason)));
        let alone = bound(graph);
        if let Some(path) = &alone.records[0].slowest {
            replay::ebpf(&program, &maps, &path.witness).unwrap_or_else(|e| panic!("{}", show(&e)));
        }
        let most = |seconds: f64| (seconds * 1e9).round() as u64;
        let alone = most(alone.records[0].bound);
        for packets in [2, 3, 5] {
            let graph = ebpf::in_a_row(&program, &maps, &tails, packets, &[]).unwrap();
            let report = bound(graph);
            let record = &report.records[0];
            let most = most(record.bound);
            exact += u32::from(record.exact);
            if let Some(path) = &record.slowest {
                let row = replay::in_a_row(&program, &maps, &tails, &path.witness);
                let row = row.unwrap_or_else(|e| panic!("{}", show(&e)));
                let total: u64 = row.iter().map(|each| each.executed).sum();
                assert!(!record.exact || total == most, "{}", show("not what was claimed"));
            }
            assert!(most <= alone * u64::from(packets), "{}", show("more than alone"));
            below += u32::from(most < alone * u64::from(packets));
            let ran = (0..60).map(|_| executed(&program, packets, &mut random)).max();
            assert!(ran <= Some(most), "{}", show(&format!("{ran:?} above {most}")));
            tight += u32::from(ran == Some(most));
        }
    }
    // There must be something to know, and bounds that packets reach.
    println!("{rounds} programs: {exact} exact, {below} below, {tight} reached");
    assert!(
        exact > 2 * rounds && below > rounds / 6 && tight > rounds / 2,
        "{exact} {below} {tight}"
    );
}
