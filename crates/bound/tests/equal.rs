//! Two versions of a random eBPF program: what is proved equal is equal on random packets, what
//! differs on them is told apart. NICFORGE_RANDOM_PAIRS sets how many pairs, NICFORGE_RANDOM_SEED
//! which.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nicforge_bound::ebpf::Tails;
use nicforge_bound::equal::{Options, Report, Side, World, compare, link};
use nicforge_isa::ebpf::generate::{self, BYTES, ENTRIES, insn, lddw};
use nicforge_isa::ebpf::{self as isa, Insn};
use nicforge_isa::object::{Map, PSEUDO_MAP, Program};
use nicforge_util::Random;

/// Random packets for a pair.
const PACKETS: u32 = 60;

/// Those of all random programs, an array of programs and a ring buffer.
fn maps() -> Vec<Map> {
    let map = |name: &str, kind, key_size, max_entries| Map {
        name: name.to_string(),
        kind: Some(kind),
        key_size,
        value_size: key_size,
        max_entries,
        data: Vec::new(),
        constant: false,
    };
    let mut maps = generate::maps();
    maps.extend([map("jumps", 3, 4, 4), map("ring", 27, 0, 4096)]);
    maps
}

/// What a program does before its verdict, that others see: where it redirects to, which program it
/// calls, what it tells.
fn ending(random: &mut Random) -> Vec<Insn> {
    let call = |random: &mut Random| {
        let mut code = vec![insn(0x79, 1, 10, -32, 0)];
        code.extend(lddw(2, PSEUDO_MAP, 2));
        code.extend([insn(0xb7, 3, 0, 0, random.below(2) as i32), insn(0x85, 0, 0, 0, 12)]);
        code
    };
    match random.below(5) {
        0 => generate::redirect(random),
        1 => [generate::redirect(random), call(random)].concat(),
        2 => call(random),
        3 => [generate::tell(random, 3), generate::redirect(random)].concat(),
        _ => Vec::new(),
    }
}

/// A random program whose values are seen: its variables hold them at the end, and its verdict
/// depends on one.
fn program(random: &mut Random) -> Program {
    let mut program = generate::program(random);
    let code = &mut program.insns;
    code.truncate(code.len() - 2);
    let mut values = generate::seen(random);
    let verdict = values.split_off(values.len() - 2);
    code.extend(values);
    code.extend(ending(random));
    code.extend(verdict);
    code.push(insn(0x95, 0, 0, 0, 0));
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
    // Slots of `jumps` have a program or none.
    for slot in 0..2 {
        world.answers.insert((12, vec![2, slot]), vec![random.below(2)]);
    }
    world.seed = random.next() | 1;
    world
}

/// True if random packets tell two programs apart; `None` if one of them does what no program may.
fn differ(old: &Program, new: &Program, random: &mut Random) -> Option<bool> {
    let (old, new) = (side(old), side(new));
    let mut found = false;
    for _ in 0..PACKETS {
        let world = world(random);
        let (a, b) = (world.run_anywhere(&old).unwrap().unwrap(), world.run_anywhere(&new).ok()??);
        found |= a.difference(&b, &maps()).is_some();
    }
    Some(found)
}

/// One instruction becomes another: its constant, what it does, where it goes, what it works on.
fn mutant(program: &Program, random: &mut Random) -> Option<Program> {
    let mut mutant = program.clone();
    // Half of them where results are made that others see.
    let all = program.insns.len() as u64 - 1;
    let at = match random.below(2) {
        0 => random.below(all),
        _ => all - 1 - random.below(all.min(16)),
    } as usize;
    let insn = &mut mutant.insns[at];
    let before = *insn;
    let wide = at > 0 && program.insns[at - 1].code == isa::LDDW;
    // The kernel takes no other members of the context.
    let context = insn.code == 0x61 && insn.src == 1;
    if wide || context || insn.code == isa::LDDW || insn.code == 0x85 {
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
        // One in a thousand has too many paths for the time.
        let slow = !same.whole && same.example.is_none() && same.proved == same.pairs;
        assert!(same.equal() || slow, "round {round}: {same:?}\n{:?}", program.insns);
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
