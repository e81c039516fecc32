//! Tables of simulated designs through their registers: random operations, with the interpreter's
//! tables as the measure.

use nicforge_codegen::rtl::Wanted;
use nicforge_ir::io::random;
use nicforge_ir::{Entry, Interp, Match, Program, TableBackend, TableId, TableKind, json};
use nicforge_passes::PassManager;
use nicforge_run::control;
use nicforge_run::rtl::{Drive, RtlProgram, takes};
use nicforge_tests::example::Example;
use nicforge_tests::{root, verilator_is_missing};

/// Operations on each program.
const OPERATIONS: u64 = 600;

/// Random numbers, the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u32) -> u32 {
        self.0 += 1;
        random(11, self.0) % most
    }

    fn bytes(&mut self, size: usize) -> Vec<u8> {
        (0..size).map(|_| self.below(256) as u8).collect()
    }
}

/// One of a few keys more than the table takes, and what of it must match.
fn identity(program: &Program, table: TableId, dice: &mut Dice) -> (Vec<u8>, Match) {
    let def = &program.tables[table];
    let size = program.size_of(def.key) as usize;
    // Small tables overflow; pipes evict another entry than the interpreter from large ones, so
    // those stay below.
    let number = dice.below((def.capacity + def.capacity.min(80) / 4).min(90));
    let mut key: Vec<u8> =
        (0..size as u64).map(|at| random(u64::from(number), at / 4) as u8).collect();
    key[..size.min(2)].copy_from_slice(&(number as u16).to_le_bytes()[..size.min(2)]);
    match def.kind {
        TableKind::Array => (number.to_le_bytes()[..size].to_vec(), Match::Exact),
        TableKind::Hash | TableKind::Lru => (key, Match::Exact),
        TableKind::Lpm => {
            let bits = [8 * size as u32, 17, 16, 1, 0][dice.below(5) as usize];
            for (at, byte) in key.iter_mut().enumerate() {
                *byte &= (0xff00u32 >> (bits as usize).saturating_sub(8 * at).min(8)) as u8;
            }
            (key, Match::Prefix(bits))
        }
        TableKind::Ternary => {
            let mask: Vec<u8> = (0..size)
                .map(|at| if at < 2 || number.is_multiple_of(3) { 255 } else { 15 })
                .collect();
            key.iter_mut().zip(&mask).for_each(|(byte, mask)| *byte &= mask);
            (key, Match::Mask { mask, priority: dice.below(2) })
        }
    }
}

/// The same without bits in padding, which tables do not take.
fn canonical(program: &Program, table: TableId, entry: Entry) -> Entry {
    let written = json::entries(program, table, std::slice::from_ref(&entry));
    let read =
        control::parse_entry(program, table, &written[0]).unwrap_or_else(|e| panic!("{e:?}"));
    Entry { buf: entry.buf, ..read }
}

/// Some packets, then random operations: all answers, and in the end all contents, are the
/// interpreter's.
fn check(example: &Example, wanted: Wanted) {
    let (name, program) = (&example.name, &*example.program);
    let compiled = PassManager::new()
        .run_default(example.program.clone())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let design = RtlProgram::new(&compiled, wanted).unwrap_or_else(|e| panic!("{name}: {e}"));
    let events: Vec<_> = example.events.iter().filter(|e| takes(e)).take(50).cloned().collect();
    let (_, mut held) = design
        .hold(&events, &example.entries, &Drive { pressure: 3, ..Drive::default() })
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut interp = Interp::new(&example.program);
    control::apply(&mut interp, &example.entries).unwrap_or_else(|e| panic!("{name}: {e}"));
    for event in &events {
        interp.run(event).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let ids: Vec<TableId> = program.tables.keys().collect();
    let (mut dice, mut full) = (Dice(0), 0);
    for step in 0..OPERATIONS {
        let table = ids[dice.below(ids.len() as u32) as usize];
        let def = &program.tables[table];
        let (key, matching) = identity(program, table, &mut dice);
        let value = dice.bytes(program.size_of(def.value) as usize);
        let length = dice.below(def.buf.unwrap_or(0) + 1) as usize;
        let buf = def.buf.filter(|_| dice.below(3) > 0).map(|_| dice.bytes(length));
        let entry = canonical(program, table, Entry { key, matching, value, buf });
        let Entry { key, matching, .. } = &entry;
        let at = format!("{name}, operation {step} on `{}`", def.name);
        match dice.below(8) {
            0..=3 => {
                let want = interp.set(table, &entry);
                full += usize::from(want.is_err());
                assert_eq!(held.set(table, &entry), want, "{at}: set {entry:?}");
            }
            4 | 5 => {
                let want = interp.get(table, key, matching);
                assert_eq!(held.get(table, key, matching), want, "{at}: get {key:?} {matching:?}");
            }
            // An array's entries are always there; the interpreter says whether one was set.
            6 if def.kind != TableKind::Array => {
                let want = interp.delete(table, key, matching);
                assert_eq!(
                    held.delete(table, key, matching),
                    want,
                    "{at}: delete {key:?} {matching:?}"
                );
            }
            _ if step % 5 == 0 => {
                let sorted = |mut entries: Vec<Entry>| {
                    entries.sort();
                    entries
                };
                let (got, want) = (held.dump(table), interp.dump(table));
                assert_eq!(got.map(sorted), want.map(sorted), "{at}: dump");
            }
            _ => {}
        }
    }
    println!("{name}: {:?}, {full} inserts refused", design.artifact().form);
}

#[test]
fn tables_of_engines() {
    if verilator_is_missing() {
        return;
    }
    check(&Example::load(root().join("tests/programs/every_table")), Wanted::Engine);
    check(&Example::load(root().join("examples/jsq_steering")), Wanted::Engine);
    check(&Example::load(root().join("tests/programs/small_tables")), Wanted::Engine);
}

#[test]
fn tables_of_pipes() {
    if verilator_is_missing() {
        return;
    }
    check(&Example::load(root().join("examples/jsq_steering")), Wanted::Best);
    check(&Example::load(root().join("examples/conn_limiter")), Wanted::Best);
    check(&Example::load(root().join("tests/programs/masked")), Wanted::Best);
    check(&Example::load(root().join("tests/programs/transfers")), Wanted::Best);
    check(&Example::load(root().join("tests/programs/pairs")), Wanted::Best);
}
