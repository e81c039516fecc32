//! Two versions of a random eBPF program: what is proved equal is equal on random packets, what
//! differs on them is told apart. NICFORGE_RANDOM_PAIRS sets how many pairs, NICFORGE_RANDOM_SEED
//! which.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::ebpf::Tails;
use nicforge_bound::equal::{Options, Report, Side, World, compare, link};
use nicforge_isa::ebpf::{self as isa, Insn};
use nicforge_isa::object::{PSEUDO_VALUE, Program};
use nicforge_util::Random;

#[path = "common/programs.rs"]
mod programs;

use programs::{BYTES, ENTRIES, insn, lddw, maps};

/// Random packets for a pair.
const PACKETS: u32 = 60;

/// A random program whose values are seen: its variables hold them at the end, and its verdict
/// depends on one.
fn program(random: &mut Random) -> Program {
    let mut program = programs::program(random);
    let code = &mut program.insns;
    code.truncate(code.len() - 2);
    code.extend(lddw(1, PSEUDO_VALUE, 1));
    code.extend([
        insn(0x7b, 1, 7, 0, 0),
        insn(0x7b, 1, 8, 8, 0),
        insn(0xbf, 0, 7, 0, 0),
        insn(0x57, 0, 0, 0, 3),
        insn(0x95, 0, 0, 0, 0),
    ]);
    code.splice(0..0, [insn(0xb7, 7, 0, 0, 0), insn(0xb7, 8, 0, 0, 0)]);
    program.lines = vec![None; code.len()];
    program
}

fn side(program: &Program) -> Side {
    Side { program: program.clone(), maps: maps(), tails: Tails::new() }
}

fn prove(old: &Program, new: &Program) -> Report {
    let pair = link(side(old), side(new)).unwrap();
    let options = Options { sizes: (60, 100), time: Duration::from_secs(10) };
    compare(&pair, &options, &Arc::new(AtomicBool::new(false))).unwrap_or_else(|error| {
        // Instructions that no program has, as mutants may.
        let open = [(error, 1)].into_iter().collect();
        Report { pairs: 1, open, ..Report::default() }
    })
}

fn world(random: &mut Random) -> World {
    let bytes = |random: &mut Random, count: u64| -> Vec<u8> {
        (0..count).map(|_| (random.next() & random.next()) as u8).collect()
    };
    let size = 60 + random.below(41);
    let mut world = World { packet: bytes(random, size), ..World::default() };
    for index in 0..ENTRIES as u32 {
        world.entries.insert((0, index.to_le_bytes().to_vec()), bytes(random, BYTES));
    }
    world.entries.insert((1, vec![0; 4]), bytes(random, BYTES));
    world.seed = random.next() | 1;
    world
}

/// Whether random packets tell two programs apart; `None` if one of them does what no program may.
fn differ(old: &Program, new: &Program, random: &mut Random) -> Option<bool> {
    let (old, new) = (side(old), side(new));
    let mut found = false;
    for _ in 0..PACKETS {
        let world = world(random);
        let (a, b) = (world.run(&old).unwrap(), world.run(&new).ok()?);
        found |= a.difference(&b, &maps()).is_some();
    }
    Some(found)
}

/// One instruction becomes another: its constant, what it does, where it goes, what it works on.
fn mutant(program: &Program, random: &mut Random) -> Option<Program> {
    let mut mutant = program.clone();
    let at = random.below(program.insns.len() as u64 - 1) as usize;
    let insn = &mut mutant.insns[at];
    let before = *insn;
    let wide = at > 0 && program.insns[at - 1].code == isa::LDDW;
    if wide || insn.code == isa::LDDW || insn.code == 0x85 {
        return None;
    }
    let class = insn.code & 7;
    let register = insn.code & 8 != 0;
    match (class, random.below(3)) {
        // Arithmetic: what is done, its constant or source, its destination.
        (4 | 7, 0) => insn.code ^= 0x10 << random.below(4),
        (4 | 7, 1) if register => insn.src = random.pick(&[7, 8]),
        (4 | 7, 1) => insn.imm ^= 1 << random.below(5),
        (4 | 7, _) => insn.dst = random.pick(&[7, 8]),
        // Jumps: their sense, what is compared, where they go.
        (5 | 6, 0) => insn.code ^= 0x40,
        (5 | 6, 1) => insn.imm ^= 1 << random.below(3),
        (5 | 6, _) => insn.off ^= 1 << random.below(4),
        // Loads and stores: where, how much, of what.
        (_, 0) => insn.off ^= 1 << random.below(3),
        (_, 1) => insn.code ^= 0x08,
        (1, _) => insn.dst = random.pick(&[7, 8]),
        (_, _) => insn.src = random.pick(&[7, 8]),
    }
    (*insn != before).then_some(mutant)
}

/// The same program, written otherwise.
fn rewritten(program: &Program, random: &mut Random) -> Program {
    let mut other = program.clone();
    for insn in &mut other.insns {
        if random.below(2) == 0 {
            continue;
        }
        match *insn {
            Insn { code: 0xb7, imm: 0.., .. } => insn.code = 0xb4,
            Insn { code: 0x07, imm, .. } if imm != 0 => (insn.code, insn.imm) = (0x17, -imm),
            Insn { code: 0xaf, dst, src, .. } if dst == src => {
                *insn = self::insn(0xb7, dst, 0, 0, 0);
            }
            _ => {}
        }
    }
    // Before the first instruction nothing goes.
    let first = [insn(0xb7, 7, 0, 0, 3), insn(0x27, 7, 0, 0, 8), insn(0x05, 0, 0, 0, 0)];
    other.insns.splice(0..0, first);
    other.lines = vec![None; other.insns.len()];
    other
}

fn rounds(least: u32) -> u32 {
    let rounds = std::env::var("NICFORGE_RANDOM_PAIRS").ok().and_then(|rounds| rounds.parse().ok());
    rounds.unwrap_or(least)
}

fn random() -> Random {
    let seed = std::env::var("NICFORGE_RANDOM_SEED").ok().and_then(|seed| seed.parse().ok());
    Random::new(seed.unwrap_or(0x0df0_11e5_5eed_0035))
}

#[test]
fn a_program_is_proved_equal_to_itself_and_never_told_from_a_rewriting() {
    let mut random = random();
    let (mut proved, rounds) = (0, rounds(20));
    for round in 0..rounds {
        let program = program(&mut random);
        let same = prove(&program, &program);
        assert!(same.equal(), "round {round}: {same:?}\n{:?}", program.insns);
        let other = rewritten(&program, &mut random);
        assert_eq!(differ(&program, &other, &mut random), Some(false), "round {round}");
        let report = prove(&program, &other);
        assert!(report.example.is_none(), "round {round}: {report:?}\n{:?}", program.insns);
        proved += u32::from(report.equal());
    }
    println!("{rounds} rewritings: {proved} proved");
    assert!(proved * 10 >= rounds * 9, "{proved} of {rounds}");
}

#[test]
fn mutants_are_told_apart_and_none_that_differs_is_proved() {
    let mut random = random();
    let (mut made, mut differing, mut apart, mut proved, mut open) = (0, 0, 0, 0, 0);
    let rounds = rounds(25);
    while differing < rounds {
        let program = program(&mut random);
        let Some(mutant) = mutant(&program, &mut random) else { continue };
        let Some(differs) = differ(&program, &mutant, &mut random) else { continue };
        let report = prove(&program, &mutant);
        // Sizes and addresses that may be anything: the kernel's verifier would refuse it.
        let decided = report.equal() || report.example.is_some();
        if !decided && !prove(&mutant, &mutant).equal() {
            continue;
        }
        made += 1;
        let changed =
            program.insns.iter().zip(&mutant.insns).enumerate().find(|(_, (a, b))| a != b);
        let show = || format!("{report:?}\n{changed:?} in {:?}", program.insns);
        // An example has been run on both.
        match (&report.example, report.equal()) {
            (Some(_), _) => apart += 1,
            (None, true) => {
                assert!(!differs, "proved, but packets differ: {}", show());
                proved += 1;
            }
            (None, false) => {
                println!("open: {:?}", report.open);
                open += 1;
            }
        }
        if differs {
            differing += 1;
            assert!(report.example.is_some(), "packets differ: {}", show());
        }
    }
    println!(
        "{made} mutants: {differing} differ on random packets, {apart} told apart, {proved} proved \
         equal, {open} open"
    );
}
