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
use nicforge_isa::ebpf::generate::{BYTES, ENTRIES, maps, program};
use nicforge_isa::ebpf::{self as isa, Fault, Host, Memory, RegionId};
use nicforge_isa::object::{PSEUDO_VALUE, Program};
use nicforge_util::Random;

/// Bytes of a packet's memory: in front of it, the packet and behind it.
const ROOM: u64 = 1024;

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
