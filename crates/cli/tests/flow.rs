//! `nicforge validate flow`: cache hit rates within two points of the published ones, by the
//! compiled caches themselves, and what the simulated NIC makes of the other figures.

mod common;

use common::Place;
use serde_json::Value;

#[test]
#[ignore = "minutes; `make soak` runs it"]
fn figures_are_what_docs_validation_flow_says() {
    let place = Place::new();
    let ran = place.run(&["validate", "flow", "--json"]);
    let table: Value = serde_json::from_str(ran.ok()).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let of = |word: &str, metric: &str| -> Vec<[f64; 2]> {
        let named = |row: &&Value| {
            let text = |part: &str| row[part].as_str().unwrap().to_string();
            text("case").contains(word) && text("metric").starts_with(metric)
        };
        let values =
            |row: &Value| ["published", "ours"].map(|part| row[part].as_f64().unwrap_or(f64::NAN));
        rows.iter().filter(named).map(values).collect()
    };
    let hits = of("buckets", "answered");
    assert_eq!(hits.len(), 7);
    assert!(hits.iter().all(|[published, ours]| (published - ours).abs() < 2.0), "{hits:?}");

    let fields = of("used by the host", "speed-up");
    assert_eq!(fields.len(), 7);
    // Nothing but bytes counts on the modelled link, so it gains more than the published one.
    assert!(fields.iter().all(|[published, ours]| ours >= published), "{fields:?}");
    assert!(fields.windows(2).all(|pair| pair[0][1] > pair[1][1]), "{fields:?}");

    let messages = of("messages of", "speed-up");
    assert_eq!(messages.len(), 4);
    assert!(messages[..3].iter().all(|[_, ours]| (8.5..15.0).contains(ours)), "{messages:?}");
    let others = [of("the store, sharded", "speed-up"), of("other node", "speed-up")].concat();
    assert!(others.len() == 2 && others.iter().all(|[_, ours]| *ours > 3.0), "{others:?}");

    let [through, back] =
        ["write-through cache", "write-back cache"].map(|word| of(word, "host's time"));
    assert!(
        through[0][1] > 2.0 && back.iter().all(|[_, ours]| *ours > through[0][1]),
        "{through:?} {back:?}"
    );
    // All cores of the NIC work at the cache: more than the host alone answers.
    assert!(of("cache of", "speed-up").iter().all(|[_, ours]| (1.2..3.6).contains(ours)));
    let apart = of("entries of their own", "host's time");
    assert!(apart.len() == 1 && (1.0..1.07).contains(&apart[0][1]), "{apart:?}");
    let bypass = of("own node", "host's time");
    assert!(bypass.len() == 1 && (1.75..1.97).contains(&bypass[0][1]), "{bypass:?}");
    place.is_clean();
}
