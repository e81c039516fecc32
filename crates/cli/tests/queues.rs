//! Programs with queues of their own (`nf_enqueue`) on every kind of target, against the
//! interpreter.

mod common;

use common::{Place, can_load, cut, example, soak};

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

/// The first packets of a capture.
fn capture(place: &Place) -> String {
    cut(place, "flow_stats").join("traffic.pcap").display().to_string()
}

/// Handlers of which nothing asks for a stage of its own are one pipe, also those of two sides,
/// those that share a table, those that `fuse` leaves apart, and those that log; and so they are
/// one stage of the plan.
#[test]
fn hardware_makes_handlers_one_pipe() {
    let place = Place::new();
    let capture = capture(&place);
    let every = [
        ("programs/split/split.c", "cycle"),
        ("programs/shards/shards.c", "cycle"),
        ("programs/stages/chain.c", "cycle"),
        ("programs/stages/behind.c", "cycle, of the same entry every 2 cycles"),
        ("programs/stages/around.c", "cycle, of the same entry every 2 cycles"),
        ("programs/stages/values.c", "cycle, of the same entry every 4 cycles"),
        ("internal_events/dropping.air", "cycle"),
    ];
    for (name, every) in every.into_iter().step_by(if soak() { 1 } else { 2 }) {
        let source = example(&format!("../tests/{name}"));
        let plan = place.run(&["plan", &source, "--target", "u280", "--json"]);
        std::fs::write(place.path().join("plan.json"), plan.ok()).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&plan.out).unwrap();
        assert_eq!(plan["stages"].as_array().unwrap().len(), 1, "{name}: {plan}");
        for with in [&[][..], &["--plan", "plan.json"]] {
            let built = [&["build", &source, "--target", "u280", "-o", "out"], with].concat();
            let said = place.run(&built);
            assert!(said.ok().contains(&format!("a packet every {every}\n")), "{name}: {said:?}");
        }
        let ran = place.run(&["verify", &source, "--target", "u280", "--pcap", &capture]);
        assert!(ran.ok().contains("matches the reference: 300 of 300 events"), "{name}: {ran:?}");
    }
}

/// Handlers that stay apart and are no pipe are stages of a design.
#[test]
fn hardware_has_stages() {
    let place = Place::new();
    let capture = capture(&place);
    let source = example("../tests/programs/stages/twice.c");
    let ran = place.run(&["verify", &source, "--target", "u280", "--pcap", &capture]);
    assert!(ran.ok().contains("matches the reference: 300 of 300 events"), "{ran:?}");
    let ran = place.run(&["run", &source, "--target", "u280", "--pcap", &capture, "--json"]);
    let report: serde_json::Value = serde_json::from_str(ran.ok()).unwrap();
    let made = report["stages"].as_array().unwrap();
    assert_eq!(made.len(), 3, "{made:?}");
    let events: Vec<u64> = made.iter().filter_map(|stage| stage["events"].as_u64()).collect();
    assert_eq!(events, [300, 300, 300], "{made:?}");
}

/// A plan says which handlers are a stage; what cannot stand in a row is refused.
#[test]
fn plans_say_what_the_stages_of_hardware_are() {
    let place = Place::new();
    let (source, capture) = (example("../tests/programs/stages/twice.c"), capture(&place));
    let plan = place.run(&["plan", &source, "--target", "u280", "--json"]);
    let mut plan: serde_json::Value = serde_json::from_str(plan.ok()).unwrap();
    let with = |plan: &serde_json::Value, stages: usize| {
        std::fs::write(place.path().join("plan.json"), plan.to_string()).unwrap();
        let ran = place.run(&[
            "verify",
            &source,
            "--target",
            "u280",
            "--pcap",
            &capture,
            "--plan",
            "plan.json",
        ]);
        assert!(ran.ok().contains("matches the reference: 300 of 300 events"), "{ran:?}");
        let ran =
            place.run(&["build", &source, "--target", "u280", "--plan", "plan.json", "-o", "out"]);
        assert!(ran.ok().contains(&format!("{stages} stages, one behind the other")), "{ran:?}");
    };
    with(&plan, 3);
    let mut several = plan.clone();
    several["stages"][0]["replicas"] = 2.into();
    several["stages"][0]["units"] = serde_json::json!(["pipe.7", "pipe.8"]);
    std::fs::write(place.path().join("plan.json"), several.to_string()).unwrap();
    place.run(&["build", &source, "--target", "u280", "--plan", "plan.json"]).fails(
        1,
        &[
            "stage `net_recv` has 2 replicas",
            "where a design has several stages, each has one engine",
        ],
    );
    let stages = plan["stages"].as_array_mut().unwrap();
    let last = stages.remove(2);
    stages[1]["handlers"].as_array_mut().unwrap().push(last["handlers"][0].clone());
    with(&plan, 2);
    plan["stages"].as_array_mut().unwrap().reverse();
    std::fs::write(place.path().join("plan.json"), plan.to_string()).unwrap();
    let text = std::fs::read_to_string(&source).unwrap();
    let line = text.lines().position(|line| line.starts_with("void net_recv(")).unwrap() + 1;
    place.run(&["build", &source, "--target", "u280", "--plan", "plan.json"]).fails(
        1,
        &[
            "`net_recv` takes events from outside behind the first stage",
            "cannot be stages of their own",
            &format!("twice.c:{line}"),
        ],
    );
}
