//! `nicforge balance profile`: a function measured, and the file that comes of it.

mod common;

use std::path::PathBuf;

use common::{Place, can_load, example};

/// The worker of the examples, built in a folder of this test.
fn worker(place: &Place) -> PathBuf {
    let build = place.path().join("build");
    let mut make = place.prepare("make", &["-s", &format!("BUILD={}", build.display())]);
    make.current_dir(example("balance/functions"));
    common::finish(make).ok();
    build.join("worker")
}

#[test]
fn a_function_is_measured_and_its_profile_simulated() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    let worker = worker(&place);
    let worker = worker.to_str().unwrap();
    let profile = |more: &[&str]| {
        place.run(&[&["balance", "profile", "--worker", worker, "--seconds", "0.2"], more].concat())
    };
    let said = profile(&["count,crypto", "-o", "p.toml", "--json"]);
    let said: serde_json::Value = serde_json::from_str(said.ok()).unwrap();
    assert_eq!(said["function"], "count,crypto");
    for (at, name) in ["nic", "host"].into_iter().enumerate() {
        let side = &said["sides"][at];
        assert_eq!(side["side"], name);
        assert!(side["capacity_pps"].as_f64().unwrap() > 100.0, "{side}");
        assert!(side["alone_p50_us"].as_f64().unwrap() > said["service_us"].as_f64().unwrap(), "{side}");
    }
    let text = std::fs::read_to_string(place.path().join("p.toml")).unwrap();
    assert!(text.contains("function = \"count,crypto\"") && text.contains("packet_bytes = 106"), "{text}");
    let simulated = place.run(&["balance", "sim", "p.toml", "--trace", "0.001", "--seconds", "2"]);
    assert!(simulated.ok().contains("count,crypto on 0.001 Gbit/s"), "{simulated:?}");

    profile(&["nothing"]).fails(1, &["no function `nothing`"]);
    profile(&["kvs", "--nic", "127.0.0.1:1"])
        .fails(3, &["the nic side at 127.0.0.1:1", "start `worker FUNCTION"]);
    profile(&["kvs", "--nic-threads", "0"]).fails(2, &["--nic-threads"]);
    place
        .run(&["balance", "profile", "kvs", "--worker", "none"])
        .fails(1, &["none: No such file", "`make` in"]);
    place.is_clean();
}
