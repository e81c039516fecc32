//! LRU tables of pipes, which evict when a key's row is full: the interpreter repeats what the design says it evicted.

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

/// Keys that come again sooner and later, in tables of 16 and of 1000 entries; packets back to back, and with waits.
#[test]
fn evictions_are_repeated() {
    if verilator_is_missing() {
        return;
    }
    let example = Example::load(root().join("tests/programs/small_tables"));
    let compiled = PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let design = RtlProgram::new(&compiled, Wanted::Best).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(design.artifact().form, Form::Pipe { interval: 1, .. }), "{:?}", design.artifact().form);
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
        for (number, table) in compiled.tables.iter().filter(|(_, table)| table.kind.name() == "lru") {
            let of_table = evicted.iter().flatten().filter(|one| one.table == number).count();
            println!("{}: {of_table} evictions", table.name);
            assert!(of_table > 500, "{}: only {of_table} evictions", table.name);
            assert_eq!(run.stats.counters[&format!("evicted_{}", table.name)], of_table as u64);
        }
    }
}
