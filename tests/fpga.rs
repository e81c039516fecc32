//! Programs as SystemVerilog, simulated cycle by cycle, against the interpreter: every example that fits, with streams that wait at random.

use std::sync::Mutex;

use nicforge_ir::InputEvent;
use nicforge_passes::PassManager;
use nicforge_run::rtl::{Drive, RtlProgram, Verilator, takes};
use nicforge_target::support;
use nicforge_tests::example::{Example, for_each};

/// Events of each example that are run.
const EVENTS: usize = 600;

/// Whether Verilator is missing; says so. In CI everything must run.
fn verilator_is_missing() -> bool {
    if Verilator::find().is_ok() {
        return false;
    }
    assert!(std::env::var_os("CI").is_none(), "Verilator is missing: run scripts/bootstrap.sh");
    println!("skipped: Verilator is missing: run scripts/bootstrap.sh");
    true
}

fn check(example: &Example) -> usize {
    let name = &example.name;
    let compiled =
        PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let design = RtlProgram::new(&compiled).unwrap_or_else(|e| panic!("{name}: {e}"));
    let events: Vec<InputEvent> = example.events.iter().filter(|e| takes(e)).take(EVENTS).cloned().collect();
    for pressure in [0, 1] {
        let drive = Drive { pressure, trace: None };
        let (run, found) = design
            .verify(&example.program, &example.entries, &events, &drive)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let dir = std::env::var("NICFORGE_KEEP");
        if let Ok(dir) = dir {
            design.write(std::path::Path::new(&dir)).unwrap();
        }
        assert!(found.is_empty(), "{name}, pressure {pressure}: {} {:?}", found.len(), found[0]);
        let stats = run.stats;
        println!(
            "{name}: {} events in {} cycles, {:?}",
            stats.events,
            stats.busy_cycles,
            design.artifact().form
        );
    }
    events.len()
}

#[test]
fn examples_do_what_the_interpreter_does() {
    if verilator_is_missing() {
        return;
    }
    let target = nicforge_target::find("u280").unwrap_or_else(|e| panic!("{e}"));
    let ran = Mutex::new(Vec::new());
    for_each(|example| {
        if std::env::var("NICFORGE_EXAMPLE").is_ok_and(|only| only != example.name) {
            return;
        }
        if support::missing(&example.program, &target).is_empty() {
            println!("{} starts", example.name);
            check(example);
            ran.lock().unwrap_or_else(|e| e.into_inner()).push(example.name.clone());
        }
    });
    let ran = ran.into_inner().unwrap_or_else(|e| e.into_inner());
    assert!(std::env::var("NICFORGE_EXAMPLE").is_ok() || ran.len() >= 15, "only {ran:?} ran");
}
