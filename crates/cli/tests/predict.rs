//! Predicted rates beside what judges them: one row for each program and target.

mod common;

use common::Place;

/// A program that answers, with its capture.
#[test]
fn a_folder_of_programs_is_a_table_of_rates() {
    let place = Place::new();
    place.run(&["validate", "predict"]).fails(2, &["--from"]);
    std::fs::create_dir_all(place.path().join("programs/echo")).unwrap();
    let all = ["validate", "predict", "--from", "programs", "--targets", "dpdk,panic", "--json"];
    place.run(&all).fails(1, &["no program of programs has a plan"]);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/icmp_echo");
    for (file, of) in [("echo.c", "icmp_echo.c"), ("traffic.pcap", "traffic.pcap")] {
        let bytes = std::fs::read(format!("{example}/{of}")).unwrap();
        place.file(&format!("programs/echo/{file}"), bytes);
    }
    // A program without a capture is none of them.
    place.file("programs/alone.c", "int x;\n");
    let found: serde_json::Value = serde_json::from_str(place.run(&all).ok()).unwrap();
    let cells = found["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2, "{found:#}");
    for (cell, target) in cells.iter().zip(["dpdk", "panic"]) {
        assert_eq!(
            (cell["program"].as_str(), cell["target"].as_str()),
            (Some("echo"), Some(target))
        );
        let rate = |name: &str| cell[name].as_f64();
        let predicted = rate("predicted_pps").unwrap();
        let simulated = rate("simulated_pps").unwrap() / predicted;
        // Costs are the same; ports, queues and shared memories are what may differ.
        assert!((0.9..1.1).contains(&simulated), "{cell:#}");
        // Cores are simulated for one of them, and count their own cycles.
        assert_eq!(rate("counted_pps").is_some(), target == "panic", "{cell:#}");
        assert!(rate("counted_pps").is_none_or(|counted| counted > 0.0), "{cell:#}");
        assert!(cell["measured_pps"].is_null(), "{cell:#}");
    }
    let ran = place.run(&all[..all.len() - 1]);
    assert!(ran.ok().contains("simulated: of 2 cells 2 within 10 %"), "{ran:?}");
    place.is_clean();
}

/// Searches are loops in generated code, for which a plan has no prices: the interpreter runs.
#[test]
fn a_program_that_searches_is_simulated() {
    let place = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/regex_filter");
    let all = ["sim", example, "--target", "xdp", "--packets", "100", "--json"];
    let found: serde_json::Value = serde_json::from_str(place.run(&all).ok()).unwrap();
    assert!(found["packets"]["sent"].as_u64() > Some(0), "{found:#}");
}
