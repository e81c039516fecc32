//! `nicforge targets fit` and `measure`: prices that follow from what programs take.

mod common;

use std::path::Path;

use common::Place;
use nicforge_codegen::{LineStyle, xdp};
use nicforge_driver::options::{Inputs, Source};
use nicforge_driver::{Runtime, events, executed, program};
use nicforge_ir::Input;
use nicforge_isa::ebpf::Item;
use nicforge_isa::ebpf::world::World;
use nicforge_isa::object;
use nicforge_run::compile::Mode;
use nicforge_run::xdp::bench::verdicts_in_order;
use nicforge_run::xdp::{Tables, compile_bpf};
use serde_json::Value;

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

#[test]
fn a_machine_is_measured_and_described() {
    if !common::can_load() {
        return;
    }
    let place = Place::new();
    let ran = place.run(&["targets", "measure", "-o", "here.toml", "--json"]);
    let found: Value = serde_json::from_str(ran.ok()).unwrap();
    // The kernel judges what the model says the small programs do.
    assert_eq!(found["left_out"], Value::Array(Vec::new()), "{found}");
    assert!(found["samples"].as_array().unwrap().len() > 100, "{found}");
    assert!(found["clock_hz"].as_f64().unwrap() > 1e8, "{found}");
    let shown = place.run(&["targets", "show", "here.toml"]);
    let text = shown.ok();
    for word in ["# [measured]", "[bpf.helpers]", "\"map_lookup_elem hash\" = ["] {
        assert!(text.contains(word), "{text}");
    }
    for once in ["[bpf]", "Cycles of executed eBPF", "Of a call, and of a byte"] {
        assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
    }
    let refused = place.run(&["targets", "measure", "--like", "u280"]);
    refused.fails(1, &["measured are those with codegen xdp"]);
}

/// Verdicts of the machine of eBPF and of the kernel on an example's packets in order; nothing
/// where the clock has a say.
fn verdicts(example: &Path, runtime: &Runtime) -> Option<[Vec<u64>; 2]> {
    let source = Source { program: example.to_path_buf(), ..Source::default() };
    let loaded = program::load(&source, runtime).ok()?;
    let inputs = Inputs::default();
    let list = events::captures(&inputs, &loaded.program, &loaded.path).ok()?;
    let entries = events::tables(&inputs, &loaded.program, &loaded.path).unwrap();
    let compiled = program::lower(&loaded.program).unwrap();
    let artifact = xdp::generate(&compiled, LineStyle::Directives).ok()?;
    let headers = runtime.target_headers("xdp");
    let bytes = compile_bpf(&compiled.name, &artifact.source, Mode::Live, &headers).unwrap();
    let object = object::parse(&bytes).unwrap();
    let code = object.programs.iter().find(|program| program.name == "nf_net_recv")?;
    let mut tables = Tables::listed(&compiled, &artifact.tables, &object.maps).unwrap();
    events::fill(&mut tables, &entries).unwrap();
    let entries = tables.entries();
    let frames: Vec<Vec<u8>> = list
        .iter()
        .filter_map(|event| match &event.input {
            Input::Net { frame, .. } if frame.len() < 3000 => Some(frame.clone()),
            _ => None,
        })
        .take(300)
        .collect();
    let bpf = nicforge_target::find("xdp").unwrap().bpf.unwrap();
    let mut world = World::new(code, &object.maps, executed::processor(&bpf)).unwrap();
    for (map, key, value) in &entries {
        world.install(map, key, value).unwrap();
    }
    let ours = frames.iter().map(|frame| world.run(frame, 1).unwrap()).collect();
    let clock = |item: &Item| matches!(item, Item::Call(name) if name.starts_with("ktime"));
    let tally = world.take();
    if tally.items.keys().any(clock) {
        return None;
    }
    assert!(executed::cycles(&bpf, &tally).unwrap() > frames.len() as f64, "{example:?}");
    let given: Vec<(&str, &[u8], &[u8])> =
        entries.iter().map(|(map, key, value)| (&**map, &**key, &**value)).collect();
    let kernel = verdicts_in_order(&bytes, "nf_net_recv", &given, &frames).unwrap();
    Some([ours, kernel.into_iter().map(u64::from).collect()])
}

#[test]
fn counted_runs_do_what_the_kernel_does() {
    if !common::can_load() {
        return;
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let runtime = Runtime::unpack().unwrap();
    let mut compared = 0;
    for folder in std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let source = folder.join(format!("{name}.c"));
        if !source.exists() {
            continue;
        }
        if let Some([ours, kernel]) = verdicts(&source, &runtime) {
            assert_eq!(ours, kernel, "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 12, "only {compared} examples were compared");
}
