//! Programs with queues of their own (`nf_enqueue`) on every kind of target, against the interpreter.

mod common;

use common::{Place, can_load, example};

fn source() -> String {
    example("../tests/programs/queues/queues.c")
}

fn verify(place: &Place, target: &[&str]) -> String {
    let capture = example("flow_stats/traffic.pcap");
    let ran = place.run(&[&["verify", &source(), "--pcap", &capture], target].concat());
    assert!(
        ran.ok().contains("matches the reference: 1259 of 1259 events, 2 of 2 tables"),
        "{target:?}: {ran:?}"
    );
    ran.out
}

#[test]
fn pipelines_have_a_stage_for_each_handler() {
    let place = Place::new();
    for target in ["dpdk", "bluefield2", "agilio-cx", "liquidio", "panic"] {
        let said = verify(&place, &["--target", target]);
        assert!(said.contains("kind x") && said.contains("account x"), "{target}: {said}");
    }
}

#[test]
fn targets_of_one_stage_run_handlers_where_something_is_enqueued() {
    let place = Place::new();
    if can_load() {
        verify(&place, &[]);
    }
    for target in ["pspin", "u280"] {
        verify(&place, &["--target", target]);
    }
    let emitted = place.run(&["build", &source(), "--emit", "passes"]);
    assert!(
        emitted.ok().contains("commute add kinds") && !emitted.out.contains("handler account"),
        "{emitted:?}"
    );
}

#[test]
fn what_the_kernel_cannot_queue_is_said() {
    let place = Place::new();
    let capture = example("flow_stats/traffic.pcap");
    place
        .run(&["verify", &source(), "--pcap", &capture, "--candidate", "0"])
        .fails(1, &["the kernel's queues between CPUs carry packets, one an event"]);
}
