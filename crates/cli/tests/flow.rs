//! `nicforge validate flow`: cache hit rates within two points of the published ones, by the compiled caches themselves.

mod common;

use common::Place;
use serde_json::Value;

#[test]
fn caches_answer_as_much_as_the_published_ones() {
    let place = Place::new();
    let ran = place.run(&["validate", "flow", "--json"]);
    let table: Value = serde_json::from_str(ran.ok()).unwrap();
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for row in rows {
        let [published, ours] = ["published", "ours"].map(|part| row[part].as_f64().unwrap());
        assert!((published - ours).abs() < 2.0, "{row}");
    }
    place.is_clean();
}
