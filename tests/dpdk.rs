//! Programs as real DPDK processes against the interpreter: the examples on one lcore, pipelines of several stages with
//! replicas, steering and restored order, and packets through DPDK's own ports.

use std::process::Command;

use nicforge_codegen::dpdk::{PipeStage, Pipeline, SteerBy, Steering};
use nicforge_ir::generate::events;
use nicforge_ir::text::parse;
use nicforge_ir::{EventId, HandlerId, Program, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_run::dpdk::verify_dpdk;
use nicforge_tests::example::for_each;
use nicforge_tests::root;

/// Why DPDK's part of a test cannot run here, if it cannot. In CI everything must run.
fn dpdk_is_missing() -> bool {
    let found = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    if found.is_ok_and(|status| status.success()) {
        return false;
    }
    assert!(std::env::var_os("CI").is_none(), "DPDK is missing: run scripts/bootstrap.sh");
    println!("skipped: DPDK is missing: apt-get install --no-install-recommends libdpdk-dev pkg-config");
    true
}

#[test]
fn examples_do_the_same_on_dpdk() {
    if dpdk_is_missing() {
        return;
    }
    for_each(|example| {
        let compiled =
            PassManager::new().run_default(example.program.clone()).unwrap_or_else(|e| panic!("{e}"));
        let pipeline = Pipeline::single(&compiled);
        let (run, differences) =
            verify_dpdk(&example.program, &compiled, &pipeline, &example.entries, &example.events)
                .unwrap_or_else(|e| panic!("{}: {e}", example.name));
        assert!(differences.is_empty(), "{}: {:?}", example.name, differences[0]);
        assert!(run.stats.workers.iter().all(|w| w.lost == 0 && w.tx_failed == 0), "{:?}", run.stats);
    });
}

fn program(name: &str) -> Verified<Program> {
    let path = root().join(format!("tests/internal_events/{name}.air"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let program = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    verify(program).unwrap_or_else(|e| panic!("{name}: {}", e[0]))
}

fn handler(program: &Program, name: &str) -> HandlerId {
    let found = program.handlers.iter().find(|(_, h)| h.name == name);
    found.unwrap_or_else(|| panic!("no handler {name}")).0
}

fn event(program: &Program, name: &str) -> EventId {
    program.event_named(name).unwrap_or_else(|| panic!("no event {name}"))
}

fn stage(program: &Program, names: &[&str], replicas: u32, ordered: bool) -> PipeStage {
    PipeStage { handlers: names.iter().map(|name| handler(program, name)).collect(), replicas, ordered }
}

/// Stages with replicas whose tables are sharded by the events' parameters, and packets that leave in order.
#[test]
fn pipelines_keep_state_and_order() {
    if dpdk_is_missing() {
        return;
    }
    let program = program("spread");
    let steer = |name: &str, by| Steering { event: event(&program, name), by };
    let steering = vec![
        steer("count", SteerBy::Params(vec![(1, vec![])])),
        steer("note", SteerBy::Params(vec![(0, vec![0])])),
        steer("net_recv", SteerBy::Frame(vec![(0, 1), (2, 1)])),
    ];
    let (front, count, note, last) = (["net_recv"], ["count"], ["note"], ["last"]);
    for (first, middle, side, ordered) in
        [(1, 1, 1, true), (2, 3, 2, true), (3, 1, 1, false), (1, 4, 1, false)]
    {
        let pipeline = Pipeline {
            stages: vec![
                stage(&program, &front, first, false),
                stage(&program, &count, middle, true),
                stage(&program, &note, side, true),
                stage(&program, &last, 1, true),
            ],
            steering: steering.clone(),
            ordered_output: ordered,
        };
        let events = events(7, 5000);
        let (run, differences) = verify_dpdk(&program, &program, &pipeline, &[], &events)
            .unwrap_or_else(|e| panic!("{pipeline:?}: {e}"));
        assert!(differences.is_empty(), "{pipeline:?}: {:?}", differences[0]);
        let of_stage = |stage| {
            let workers = run.stats.workers.iter().filter(move |w| w.stage == Some(stage));
            workers.map(|w| w.events).collect::<Vec<u64>>()
        };
        assert_eq!(of_stage(0).iter().sum::<u64>(), 5000);
        let busy = of_stage(1).iter().filter(|events| **events > 100).count();
        assert_eq!(busy as u32, middle, "{:?}: every replica has work", of_stage(1));
    }
}
