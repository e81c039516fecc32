//! `nicforge bound` on objects: a first bound at any time, bounds over time, what a rate needs, and
//! every program of an object.

mod common;

use std::path::Path;

use common::Place;
use serde_json::Value;

fn xdp(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/xdp").join(name);
    path.to_str().unwrap().to_string()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_first_bound_does_not_wait_for_the_time_limit() {
    let place = Place::new();
    for target in ["agilio-xdp", "xdp"] {
        let bound = ["bound", &xdp("quic_lb6.c"), "--target", target];
        let exact = json(place.run(&[&bound[..], &["--json"]].concat()).ok());
        let soon = [&bound[..], &["--timeout", "0", "--json"]].concat();
        let soon = json(place.run(&soon).ok());
        let rate = |said: &Value| said["bit_rate_bps"].as_f64().unwrap();
        assert_eq!(exact["status"], "exact");
        assert!(rate(&soon) > 0.0 && rate(&soon) <= rate(&exact) * (1.0 + 1e-9), "{soon}");

        let text = place.run(&[&bound[..], &["--curve", "curve.csv"]].concat()).ok().to_string();
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("  before any path is checked: at least "), "{text}");
        let curve = std::fs::read_to_string(place.path().join("curve.csv")).unwrap();
        let rows = curve.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
        let bits: Vec<[f64; 2]> = rows
            .filter(|row| row[1] == "bit-rate")
            .map(|row| [row[0].parse().unwrap(), row[2].parse().unwrap()])
            .collect();
        assert!(bits.len() > 1 && bits[0][0] < 1.0, "{curve}");
        assert!(bits.windows(2).all(|two| two[0][1] < two[1][1]), "{curve}");
        assert!((bits[bits.len() - 1][1] / rate(&exact) - 1.0).abs() < 1e-6, "{curve} {exact}");
    }
}

/// So many cores keep the rate, and one fewer does not.
#[test]
fn what_a_rate_needs_is_just_enough() {
    let place = Place::new();
    let bound = ["bound", &xdp("quic_lb6.c")];
    for rate in ["1G", "10G", "2Mpps"] {
        let said = json(place.run(&[&bound[..], &["--need", rate, "--json"]].concat()).ok());
        let needed = &said["needed"];
        assert_eq!((&needed["nics"], &needed["exact"]), (&1.into(), &true.into()), "{said}");
        let cores = needed["cores"].as_u64().unwrap();
        let with = |cores: u64| {
            let cores = cores.to_string();
            place.run(&[&bound[..], &["--require", rate, "--cores", &cores]].concat())
        };
        assert!(cores > 1);
        with(cores).ok();
        with(cores - 1).fails(1, &["the required rate does not hold"]);
    }
    let text = place.run(&[&bound[..], &["--need", "200G"]].concat()).ok().to_string();
    assert!(text.contains("  200.00 Gbit/s needs ") && text.contains(" NICs: "), "{text}");
}

/// A program with a jump to the next instruction, one that calls what nobody knows, and a plain
/// one.
const SEVERAL: &str = r#"
struct xdp_md { unsigned data, data_end; };
#define SEC(name) __attribute__((section(name), used))
static long (*nobody)(void) = (void *)9999;
SEC("xdp/jump") int jump(struct xdp_md *ctx)
{
    int verdict = ctx->data_end - ctx->data > 100 ? 1 : 2;
    asm volatile("if %0 > 1 goto +0" : : "r"((long)verdict));
    return verdict;
}
SEC("xdp/odd") int odd(struct xdp_md *ctx) { return nobody(); }
SEC("xdp/pass") int pass(struct xdp_md *ctx) { return 2; }
"#;

#[test]
fn every_program_has_a_bound_or_a_reason() {
    let place = Place::new();
    place.file("several.c", SEVERAL);
    let all = ["bound", "several.c", "--target", "xdp", "--all"];
    let said = json(place.run(&[&all[..], &["--json"]].concat()).ok());
    let rows: Vec<(&str, &str)> = said["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["program"].as_str().unwrap(), row["status"].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [("jump", "exact"), ("odd", "refused"), ("pass", "exact")], "{said}");
    let text = place.run(&all).ok().to_string();
    assert!(text.contains("helper number 9999 is not supported"), "{text}");
    place
        .run(&["bound", "several.c", "--target", "xdp"])
        .fails(1, &["choose one with --program, or --all: jump, odd, pass"]);
    place.run(&["bound", "several.c", "--all", "--need", "1G"]).fails(2, &["--need"]);
}
