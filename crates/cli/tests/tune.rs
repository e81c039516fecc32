//! `--tune`: plans are run, and the table and the plan say what was predicted and what was
//! measured.

mod common;

use std::path::Path;

use common::Place;
use serde_json::Value;

/// An example with the first packets of its capture.
fn example(place: &Place) -> String {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flow_stats");
    let to = place.path().join("flow_stats");
    std::fs::create_dir(&to).unwrap();
    std::fs::copy(from.join("flow_stats.c"), to.join("flow_stats.c")).unwrap();
    let capture = std::fs::read(from.join("traffic.pcap")).unwrap();
    let mut at = 24;
    for _ in 0..300 {
        at += 16 + u32::from_le_bytes(capture[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    std::fs::write(to.join("traffic.pcap"), &capture[..at]).unwrap();
    to.display().to_string()
}

/// Runs `plan --tune=2` and gives the plan's own candidate and the measured rates of all that were
/// run.
fn tuned(place: &Place, program: &str, target: &str) -> (u64, Vec<(u64, f64)>) {
    let ran =
        place.run(&["plan", program, "--target", target, "--tune=2", "--iterations=8", "--json"]);
    let plan: Value = serde_json::from_str(ran.ok()).unwrap();
    let mut measured = Vec::new();
    let mut chosen = Vec::new();
    for step in plan["search"].as_array().unwrap() {
        let number = step["iteration"].as_u64().unwrap();
        measured.extend(step.get("measured_pps").map(|rate| (number, rate.as_f64().unwrap())));
        chosen.extend(step["chosen"].as_bool().unwrap().then_some(number));
    }
    assert_eq!((measured.len(), chosen.len()), (2, 1), "{plan}");
    // What it printed is a plan that can be given back.
    let file = place.file("tuned.json", ran.ok());
    let again = place.run(&["plan", program, "--target", target, "--plan", file.to_str().unwrap()]);
    assert!(again.ok().contains(&format!("on {target}")), "{again:?}");
    (chosen[0], measured)
}

#[test]
fn plans_are_measured_and_the_fastest_is_taken() {
    let place = Place::new();
    let program = example(&place);
    for target in ["liquidio", "panic", "xdp"] {
        let (chosen, measured) = tuned(&place, &program, target);
        let most = measured.iter().map(|one| one.1).fold(0.0, f64::max);
        let (_, rate) = *measured.iter().find(|one| one.0 == chosen).unwrap();
        assert!(rate > 1e3 && rate >= most * 0.99, "{target}: {chosen} of {measured:?}");
    }
    place.is_clean();
}

#[test]
fn runs_begin_with_the_fastest_plan() {
    let place = Place::new();
    let program = example(&place);
    let ran = place.run(&["run", &program, "--target", "dpdk", "--tune=1"]);
    let said = ran.ok();
    for text in ["predicted Mpps  measured Mpps", "300 of 300"] {
        assert!(said.contains(text), "`{text}` is missing: {said}");
    }
    place.is_clean();
}

#[test]
fn what_cannot_be_tuned_is_said() {
    let place = Place::new();
    let program = example(&place);
    let tune = |more: &[&str]| place.run(&[&["plan", &program, "--tune=2"], more].concat());
    tune(&["--target", "u280"]).fails(2, &["there is one plan for u280"]);
    tune(&["--target", "dpdk", "--objective", "latency"])
        .fails(2, &["--tune measures rates", "leave out --objective"]);
    tune(&["--target", "dpdk", "--pcap", "nowhere.pcap"]).fails(1, &["nowhere.pcap"]);
    place.run(&["plan", &program, "--target", "dpdk", "--tune=0"]).fails(2, &["take at least 1"]);
    place
        .run(&["run", &program, "--target", "interp", "--tune"])
        .fails(2, &["the interpreter has one way"]);
    place.is_clean();
}
