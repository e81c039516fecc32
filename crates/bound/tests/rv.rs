//! Random RISC-V handlers: the search finds what enumerating all paths finds, every witness takes
//! its path in the cycles claimed, and no random packet in random surroundings takes more than the
//! bound.

mod common;

use nicforge_bound::analysis::{Options, PathReport, analyse};
use nicforge_bound::method::Method;
use nicforge_bound::rv::{self, Program, world};
use nicforge_bound::search::By;
use nicforge_bound::timing::Work;
use nicforge_isa::rv32::encode::encode;
use nicforge_isa::rv32::{Insn, Op, RV32IMA, print};

use common::{assembled, image, start, surroundings};
use nicforge_util::Random;

fn asm(op: Op, rd: u8, rs1: u8, rs2: u8, imm: i32) -> u32 {
    let row = RV32IMA.iter().find(|row| row.op == op).expect("a base instruction");
    encode(row, &Insn { op, row: 0, rd, rs1, rs2, imm, len: 4 })
}

const SP: u8 = 2;
const S0: u8 = 8;
const ARGS: u8 = 10;
/// Task registers, packet, its copy in L2, handler memory, a scratchpad.
const TASK: u8 = 9;
const PACKET: u8 = 18;
const PACKET_L2: u8 = 19;
const HANDLER: u8 = 20;
const SCRATCH: u8 = 21;
/// Registers with values: a1 to a5.
fn value(random: &mut Random) -> u8 {
    11 + random.below(5) as u8
}

/// One or a few instructions; branches go to one of the next few pieces.
fn piece(random: &mut Random) -> Vec<u32> {
    let (d, a, b) = (value(random), value(random), value(random));
    let imm = random.pick(&[0, 1, 3, 7, 0x10, 0x3f, -1, -8, 0x7ff]);
    match random.below(20) {
        0..=3 => {
            let op = random.pick(&[
                Op::Add,
                Op::Sub,
                Op::Xor,
                Op::Or,
                Op::And,
                Op::Sll,
                Op::Srl,
                Op::Sra,
                Op::Slt,
                Op::Sltu,
            ]);
            vec![asm(op, d, a, b, 0)]
        }
        4..=6 => {
            let op = random.pick(&[Op::Addi, Op::Xori, Op::Ori, Op::Andi, Op::Slti, Op::Sltiu]);
            vec![asm(op, d, a, 0, imm)]
        }
        7 => vec![asm(random.pick(&[Op::Slli, Op::Srli, Op::Srai]), d, a, 0, imm & 31)],
        8 => {
            let op = random.pick(&[
                Op::Mul,
                Op::Mulh,
                Op::Mulhu,
                Op::Mulhsu,
                Op::Div,
                Op::Divu,
                Op::Rem,
                Op::Remu,
            ]);
            // Small operands: what counts is that both sides mean the same.
            vec![asm(Op::Andi, d, a, 0, 7), asm(op, d, d, b, 0)]
        }
        9..=11 => {
            let op = random.pick(&[Op::Lb, Op::Lbu, Op::Lh, Op::Lhu, Op::Lw]);
            vec![asm(op, d, random.pick(&[PACKET, PACKET, PACKET_L2]), 0, random.below(50) as i32)]
        }
        // An offset that the packet decides, sometimes misaligned, sometimes of anything.
        12 => {
            let mask = random.pick(&[3, 0x3c, 0x1f]);
            vec![
                asm(Op::Andi, 16, a, 0, mask),
                asm(Op::Add, 16, 16, PACKET, 0),
                asm(Op::Lhu, d, 16, 0, 8),
            ]
        }
        13 => {
            let op = random.pick(&[Op::Sb, Op::Sh, Op::Sw]);
            vec![asm(op, 0, random.pick(&[PACKET, SP, SP]), b, random.below(5) as i32 * 4 + 8)]
        }
        14 => vec![asm(
            random.pick(&[Op::Lw, Op::Lhu, Op::Lb]),
            d,
            SP,
            0,
            random.below(5) as i32 * 4 + 8,
        )],
        // An index on the stack.
        15 => {
            let index = [asm(Op::Andi, 16, a, 0, 0xc), asm(Op::Add, 16, 16, SP, 0)];
            let access = if random.below(2) == 0 {
                asm(Op::Sw, 0, 16, b, 8)
            } else {
                asm(Op::Lw, d, 16, 0, 8)
            };
            index.into_iter().chain([access]).collect()
        }
        16 => {
            vec![asm(random.pick(&[Op::Lw, Op::Lbu]), d, random.pick(&[HANDLER, SCRATCH]), 0, 16)]
        }
        17 => vec![asm(
            random.pick(&[Op::AmoAdd, Op::AmoSwap, Op::AmoMaxu]),
            d,
            random.pick(&[HANDLER, SCRATCH]),
            b,
            0,
        )],
        // A command: its kind, its issue, waiting for it.
        18 => vec![
            asm(Op::Lui, 16, 0, 0, 0x1b20_5000u32 as i32),
            asm(Op::Addi, 17, 0, 0, random.pick(&[0, 2])),
            asm(Op::Sw, 0, 16, 17, 0x8c),
            asm(Op::Lw, 17, 16, 0, 0x80),
            if random.below(2) == 0 {
                asm(Op::Sw, 0, 16, 17, 0x84)
            } else {
                asm(Op::Lw, d, 16, 0, 0x88)
            },
        ],
        // A pointer from memory: loads give anything, stores may change the stack and the packet.
        _ => {
            let pointer = asm(Op::Lw, 16, HANDLER, 0, 32);
            let align = asm(Op::Andi, 16, 16, 0, -4);
            let store = random.below(4) == 0;
            let access = if store { asm(Op::Sw, 0, 16, b, 0) } else { asm(Op::Lw, d, 16, 0, 0) };
            vec![pointer, align, access]
        }
    }
}

fn handler(random: &mut Random) -> Vec<u32> {
    let mut words = vec![
        asm(Op::Addi, SP, SP, 0, -48),
        asm(Op::Sw, 0, SP, 1, 44),
        asm(Op::Sw, 0, SP, S0, 40),
        asm(Op::Lw, TASK, ARGS, 0, 0),
        asm(Op::Lw, PACKET, TASK, 0, 8),
        asm(Op::Lw, PACKET_L2, TASK, 0, 0x3c),
        asm(Op::Lw, HANDLER, TASK, 0, 0),
        asm(Op::Lw, SCRATCH, TASK, 0, 0x14),
        asm(Op::Lw, 15, TASK, 0, 12),
    ];
    // Few bits, so that branches contradict each other often.
    for (number, register) in (11..15).enumerate() {
        words.push(asm(Op::Lbu, register, PACKET, 0, 12 + number as i32));
        words.push(asm(Op::Andi, register, register, 0, 15));
    }
    let count = 8 + random.below(14) as usize;
    let mut pieces: Vec<Vec<u32>> = (0..count).map(|_| piece(random)).collect();
    let branches: Vec<Option<(Op, u8, u8, usize)>> = (0..count)
        .map(|at| {
            let op = random.pick(&[Op::Beq, Op::Bne, Op::Blt, Op::Bge, Op::Bltu, Op::Bgeu]);
            let to = at + 1 + random.below((count - at).min(4) as u64) as usize;
            let second = if random.below(3) == 0 { 0 } else { value(random) };
            (random.below(2) == 0).then_some((op, value(random), second, to))
        })
        .collect();
    for (piece, branch) in pieces.iter_mut().zip(&branches) {
        // Its place; the target is not known yet.
        if branch.is_some() {
            piece.push(0);
        }
    }
    let mut starts = Vec::new();
    let mut at = words.len();
    for piece in &pieces {
        starts.push(at);
        at += piece.len();
    }
    starts.push(at);
    for (index, (mut piece, branch)) in pieces.into_iter().zip(branches).enumerate() {
        if let Some((op, a, b, to)) = branch {
            let from = starts[index] + piece.len() - 1;
            let last = piece.len() - 1;
            piece[last] = asm(op, 0, a, b, 4 * (starts[to] as i32 - from as i32));
        }
        words.extend(piece);
    }
    words.extend([
        asm(Op::Lw, 1, SP, 0, 44),
        asm(Op::Lw, S0, SP, 0, 40),
        asm(Op::Addi, SP, SP, 0, 48),
        asm(Op::Jalr, 0, 1, 0, 0),
    ]);
    words
}

fn options(around: &rv::Surroundings) -> Options {
    Options {
        machine: around.machine,
        sizes: (60, 1500),
        by: vec![By::BitRate, By::PacketRate],
        required: None,
        top: 0,
        all: true,
        unroll: None,
        timeout: None,
        given: Vec::new(),
        method: Method::Default,
        path: None,
    }
}

fn slowness(by: By, path: &PathReport) -> f64 {
    match by {
        By::BitRate => path.seconds / path.size as f64,
        By::PacketRate => path.seconds,
    }
}

fn listing(program: &Program) -> String {
    let line = |(at, insn): (&u32, &Insn)| {
        format!("{:#x} {}\n", at - 0x1d00_0000, print(&program.decoder, insn, *at))
    };
    program.insns.iter().map(line).collect()
}

#[test]
fn search_agrees_with_enumeration_and_with_packets() {
    let mut random = Random::new(0x1234_5678_9abc_def1);
    let around = surroundings("pspin");
    let (mut paths, mut unknown) = (0, 0);
    for round in 0..200 {
        let words = handler(&mut random);
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let image = image("test_ph", &code);
        let entry = rv::entry(&image, None).unwrap();
        let program = Program::new(image, entry).unwrap();
        let graph = rv::graph(&program, &around).unwrap();
        let options = options(&around);
        let report = analyse(graph, &options, Default::default(), &mut |_, _| {})
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        let (all, whole) = report.all.as_ref().unwrap();
        assert!(whole);
        paths += all.len();
        unknown += report.notes.len();
        for record in &report.records {
            assert!(record.exact, "round {round}");
            let brute = all.iter().map(|path| slowness(record.by, path)).fold(0.0, f64::max);
            let ours = slowness(record.by, record.slowest.as_ref().unwrap());
            assert!(
                (ours / brute - 1.0).abs() < 1e-9,
                "round {round} {:?}: {ours} {brute}",
                record.by
            );
        }
        let records = report.records.iter().filter_map(|record| record.slowest.as_ref());
        for path in all.iter().take(40).chain(records) {
            rv::replay::replay(&program, &around, &report.graph, &path.witness)
                .unwrap_or_else(|e| panic!("round {round}: {e}\n{}", listing(&program)));
        }
        for _ in 0..60 {
            let size = 60 + random.below(1441) as usize;
            let packet: Vec<u8> =
                (0..size).map(|_| (random.next() & random.next()) as u8).collect();
            let start = start(&program, packet, &mut || random.next());
            let mut more = Random::new(random.next());
            let mut values = |asked: world::Asked| {
                let value = more.next() as u32;
                asked.known.is_none().then_some(value)
            };
            let run =
                world::run(&program, &around, &start, &mut values, (10_000, usize::MAX)).unwrap();
            let seconds = options.machine.seconds(Work { milli: 1000 * run.cycles, micro: 0 });
            assert!(seconds <= report.records[1].bound * (1.0 + 1e-9), "round {round}: {run:?}");
            assert!(
                seconds / size as f64 <= report.records[0].bound * (1.0 + 1e-9),
                "round {round}: {run:?}"
            );
        }
    }
    // The handlers must be such that there is something to find.
    assert!(paths > 1000 && unknown > 20, "{paths} paths, {unknown} unknown addresses");
}

/// A handler in assembly gives these cycles, or this error.
fn bound(source: &str) -> Result<(f64, u64, Vec<String>), String> {
    let image = nicforge_isa::object::riscv::parse(&assembled(source)).unwrap();
    let entry = rv::entry(&image, None)?;
    let program = Program::new(image, entry).map_err(|e| e.to_string())?;
    let around = surroundings("pspin");
    let graph = rv::graph(&program, &around).map_err(|e| e.to_string())?;
    let options = Options { by: vec![By::PacketRate], all: false, ..options(&around) };
    let report =
        analyse(graph, &options, Default::default(), &mut |_, _| {}).map_err(|e| e.to_string())?;
    let path = report.records[0].slowest.as_ref().unwrap();
    rv::replay::replay(&program, &around, &report.graph, &path.witness).unwrap();
    let notes = report
        .notes
        .iter()
        .map(|(place, what)| format!("{}: {what}", report.graph.describe(*place)));
    Ok((path.witness.work.milli as f64 / 1e3, path.size, notes.collect()))
}

#[test]
fn handlers_in_assembly() {
    let cases = include_str!("rv/handlers.txt");
    let mut said = String::new();
    for case in cases.split("\n== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let source = rest.split("\n=> ").next().unwrap();
        let result = match bound(source) {
            Ok((cycles, size, notes)) => {
                let notes: String = notes.iter().map(|note| format!("\n=> {note}")).collect();
                format!("{cycles} cycles, packets of {size} bytes{notes}")
            }
            Err(error) => error,
        };
        said.push_str(&format!("\n== {title}\n{}\n=> {result}\n", source.trim_end()));
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rv/handlers.txt");
    let head = cases.split("\n== ").next().unwrap();
    let said = format!("{head}{said}");
    nicforge_filetest::expect(&file, &said).unwrap_or_else(|why| panic!("{why}"));
}
