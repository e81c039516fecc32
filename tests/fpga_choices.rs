//! Tables of pipes, which evict, or refuse, when a key's rows are full: the interpreter repeats
//! what the design says it did.

use nicforge_codegen::rtl::{Form, Wanted};
use nicforge_ir::{Input, InputEvent};
use nicforge_passes::PassManager;
use nicforge_run::rtl::{Drive, RtlProgram};
use nicforge_tests::example::Example;
use nicforge_tests::{root, verilator_is_missing};

/// A packet with a key, and whether its entries in tables that are not LRU are deleted before.
fn packet(key: u32, deletes: bool) -> InputEvent {
    let mut frame = key.to_le_bytes().to_vec();
    frame.extend(u32::from(deletes).to_le_bytes());
    frame.resize(60, 0);
    InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame } }
}

/// Keys that come again sooner and later, in tables of 16 and of 1000 entries; packets back to
/// back, and with waits.
#[test]
fn evictions_are_repeated() {
    if verilator_is_missing() {
        return;
    }
    let example = Example::load(root().join("tests/programs/small_tables"));
    let compiled =
        PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{e}"));
    assert!(
        matches!(design.artifact().form, Form::Pipe { interval: 1, .. }),
        "{:?}",
        design.artifact().form
    );
    let events: Vec<InputEvent> = (0..8000u64)
        .map(|n| {
            let spread = [3, 40, 8000, 8000][(n / 500 % 4) as usize];
            let key = nicforge_ir::io::random(3, n) % spread;
            packet(key.wrapping_mul(0x9e37_79b9), n % 5 == 0)
        })
        .collect();
    for pressure in [0, 1] {
        let drive = Drive { pressure, ..Drive::default() };
        let (mut run, found) =
            design.verify(&example.program, &[], &events, &drive).unwrap_or_else(|e| panic!("{e}"));
        assert!(found.is_empty(), "{:?}", found[0]);
        let evicted = run.run.evicted.take().unwrap_or_default();
        for (number, table) in
            compiled.tables.iter().filter(|(_, table)| table.kind.name() == "lru")
        {
            let of_table = evicted.iter().flatten().filter(|one| one.table == number).count();
            println!("{}: {of_table} evictions", table.name);
            assert!(of_table > 500, "{}: only {of_table} evictions", table.name);
            assert_eq!(run.stats.counters[&format!("evicted_{}", table.name)], of_table as u64);
        }
    }
}

/// Masks of the hash of a table's rows, as the design has them: `.H3(BITS'hDIGITS)` behind
/// `.TABLE(NUMBER)`.
fn masks(text: &str, table: usize) -> Vec<u32> {
    let text =
        text.split(&format!(".TABLE({table})")).nth(1).and_then(|rest| rest.split(".H3(").nth(1));
    let literal = text.and_then(|rest| rest.split(')').next()).expect("the table's hash");
    let (bits, digits) = literal.split_once("'h").expect("a number");
    let digits = format!("{digits:0>width$}", width = bits.parse::<usize>().unwrap() / 4);
    let words = digits.as_bytes().rchunks(8).map(|word| std::str::from_utf8(word).unwrap());
    words.map(|word| u32::from_str_radix(word, 16).unwrap()).collect()
}

/// Keys that all have the same two rows: 16 fit, in rows and stash, and others are refused long
/// before the table is full.
#[test]
fn refusals_are_repeated() {
    if verilator_is_missing() {
        return;
    }
    let example = Example::load(root().join("tests/programs/small_tables"));
    let compiled = PassManager::new().run_default(example.program.clone()).unwrap();
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap();
    let many = compiled.table_named("many").unwrap();
    let (_, top) = design.artifact().files.iter().find(|(name, _)| name == "nf_top.sv").unwrap();
    let masks = masks(top, many.as_u32() as usize);
    // The hash is linear: what it maps to row 0 is spanned by what is left of the unit vectors
    // after each mask took one.
    let mut basis: Vec<u32> = (0..32).map(|bit| 1 << bit).collect();
    for mask in masks {
        let odd = |key: &u32| (key & mask).count_ones() % 2 == 1;
        if let Some(at) = basis.iter().position(odd) {
            let gone = basis.swap_remove(at);
            basis.iter_mut().filter(|key| odd(key)).for_each(|key| *key ^= gone);
        }
    }
    let sum = |number: u32| {
        let chosen = basis.iter().enumerate().filter(|(at, _)| number >> at & 1 == 1);
        chosen.fold(0, |sum, (_, key)| sum ^ key)
    };
    let keys: Vec<u32> = (0..24).map(sum).collect();
    let events: Vec<InputEvent> = (0..2000u64)
        .map(|n| packet(keys[nicforge_ir::io::random(5, n) as usize % keys.len()], n % 7 == 0))
        .collect();
    for pressure in [0, 1] {
        let drive = Drive { pressure, ..Drive::default() };
        let (run, found) = design.verify(&example.program, &[], &events, &drive).unwrap();
        assert!(found.is_empty(), "{:?}", found[0]);
        let refused =
            run.run.refused.iter().flatten().flatten().filter(|one| one.table == many).count();
        assert!(refused > 100, "only {refused} refusals");
        assert_eq!(run.stats.counters["refused_many"], refused as u64);
    }
}
