//! `nicforge targets fit`: prices that follow from what programs take.

mod common;

use common::Place;

/// Prices far from the code's are brought near it, and the new specification works as a target.
#[test]
fn prices_come_near_what_cores_count() {
    let place = Place::new();
    place.run(&["targets", "fit", "panic", "--from", "."]).fails(1, &["no program below . says"]);
    place.run(&["targets", "fit", "u280", "--from", "."]).fails(1, &["neither simulated cores"]);
    place.run(&["targets", "fit", "panic"]).fails(2, &["--from"]);
    for name in ["icmp_echo", "l2_forward"] {
        std::fs::create_dir_all(place.path().join("programs").join(name)).unwrap();
        let example = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        for file in [format!("{name}.c"), "traffic.pcap".to_string()] {
            let bytes = std::fs::read(format!("{example}/{file}")).unwrap();
            place.file(&format!("programs/{name}/{file}"), bytes);
        }
    }
    let spec = place.run(&["targets", "show", "panic"]).ok().to_string();
    let wrong = spec.replace("\nextract = ", "\nextract = 4");
    assert_ne!(wrong, spec);
    place.file("wrong.toml", &wrong);
    let fit = |target: &str, output: &str| -> serde_json::Value {
        let all = ["targets", "fit", target, "--from", "programs", "-o", output, "--json"];
        serde_json::from_str(place.run(&all).ok()).unwrap()
    };
    let found = fit("wrong.toml", "right.toml");
    let error = |found: &serde_json::Value, at: usize| {
        found["agreement"][at]["median_error"].as_f64().unwrap()
    };
    assert_eq!(found["samples"].as_array().unwrap().len(), 2, "{found:#}");
    assert!(error(&found, 2) < 0.3 && error(&found, 2) < error(&found, 0) / 2.0, "{found:#}");
    // What was written is what was fitted; a second time little is left to do.
    assert!((error(&fit("right.toml", "again.toml"), 0) - error(&found, 2)).abs() < 0.02);
    let text = std::fs::read_to_string(place.path().join("right.toml")).unwrap();
    assert!(text.contains("# [fit]") && text.starts_with(&spec[..60]), "{text}");
    place.run(&["plan", "programs/icmp_echo/icmp_echo.c", "--target", "right.toml"]).ok();
    // People get a table.
    let said = place.run(&["targets", "fit", "panic", "--from", "programs"]);
    assert!(said.ok().contains("fitted to half of the programs, judged on the others"), "{said:?}");
}
