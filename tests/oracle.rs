//! Programs as plain C on this machine (`tests/oracle`) against the interpreter: every example and
//! every program of `tests/programs`.

use std::path::{Path, PathBuf};

use nicforge_ir::patterns::Patterns;
use nicforge_ir::{Entry, Input, InputEvent, Program, TableId, Verified, generate, io, verify};
use nicforge_run::control;
use nicforge_run::pcap::{self, SourceKind};
use nicforge_tests::example::for_each;
use nicforge_tests::oracle::{Source, build, difference, first_match};
use nicforge_tests::programs::{Rng, patterns};
use nicforge_tests::root;

/// What differs, if anything does.
fn judge(
    path: &Path,
    program: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Option<String> {
    let source = Source { path: path.to_path_buf(), names: Vec::new() };
    match build(&[source]) {
        Ok(mut built) => difference(program, &mut built[0], entries, events),
        Err(messages) => Some(messages),
    }
}

#[test]
fn examples_do_what_they_do_as_plain_c() {
    for_each(|example| {
        // It calls a library.
        if example.name == "sign" {
            return;
        }
        let path = example.folder.join(format!("{}.c", example.name));
        let found = judge(&path, &example.program, &example.entries, &example.events);
        assert!(found.is_none(), "{}: {}", example.name, found.unwrap_or_default());
    });
}

/// What searches mean, and the automata of generated code, against Hyperscan.
#[test]
fn searches_find_what_hyperscan_finds() {
    const SETS: u64 = 400;
    const TEXTS: usize = 20;
    let mut found = [0; 4];
    for seed in 0..SETS {
        let mut r = Rng::new(seed);
        let lines = patterns(&mut r);
        let set = Patterns::of(&lines).unwrap_or_else(|e| panic!("{lines:?}: {e}"));
        let automaton = set.automaton().unwrap_or_else(|e| panic!("{lines:?}: {e}"));
        for _ in 0..TEXTS {
            let some = b"\x00\x01\x02\x7f\x80\xff\nabFz09 ";
            let bytes: Vec<u8> = (0..r.below(12)).map(|_| *r.pick(some)).collect();
            let judged = first_match(&lines, &bytes);
            assert_eq!(set.first(&bytes), judged, "{lines:?} in {bytes:?}");
            assert_eq!(automaton.first(&bytes), judged, "{lines:?} in {bytes:?}, by its automaton");
            found[judged as usize] += 1;
        }
    }
    assert!(found.iter().all(|times| *times > 100), "{found:?}");
}

/// Frames of captures, random ones, and messages where the program takes them.
fn events(program: &Program) -> Vec<InputEvent> {
    let mut frames = Vec::new();
    for example in ["l2_forward", "nat", "vxlan_gw", "kv_cache"] {
        let capture = pcap::read(&root().join(format!("examples/{example}/traffic.pcap")))
            .expect("a capture");
        let events = pcap::merge(&[(SourceKind::Port(0), capture)]);
        frames.extend(events.into_iter().take(400).map(|event| event.input));
    }
    frames.extend(generate::events(1, 400).into_iter().map(|event| event.input));
    let message =
        program.event_named("host_send").filter(|event| program.handler_of(*event).is_some());
    let size = message.map(|event| {
        program.events[event].params.iter().map(|param| program.size_of(param.ty)).sum::<u32>()
    });
    let mut events = Vec::new();
    for (i, mut input) in frames.into_iter().enumerate() {
        if let Input::Net { port, .. } = &mut input {
            *port = i as u32 % program.ports;
        }
        let event = |input| InputEvent { time_ns: 1_000_000 * i as u64, seed: i as u64, input };
        events.push(event(input));
        if let Some(size) = size.filter(|_| i % 5 == 0) {
            let byte = |n| io::random(i as u64, n) as u8 & if i % 2 == 0 { 3 } else { 0xff };
            events.push(event(Input::Host { message: (0..u64::from(size)).map(byte).collect() }));
        }
    }
    events
}

fn programs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root().join("tests/programs")).expect("programs").flatten() {
        let Ok(files) = std::fs::read_dir(folder.path()) else { continue };
        found.extend(
            files.flatten().map(|f| f.path()).filter(|p| p.extension().is_some_and(|e| e == "c")),
        );
    }
    found.sort();
    found
}

/// Not plain C on their own: one divides by zero, one calls C of its own, which is the other, one
/// reads beyond an array.
const OPEN: [&str; 4] = ["divisions", "c_functions", "functions", "beyond"];

#[test]
fn programs_do_what_they_do_as_plain_c() {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let (mut judged, mut wrong) = (0, Vec::new());
    for path in programs() {
        let name = path.file_stem().expect("a file's name").to_string_lossy();
        if OPEN.contains(&&*name) {
            continue;
        }
        let program = match nicforge_frontend::compile(&path, &options) {
            Ok(output) => verify(output.program).unwrap_or_else(|e| panic!("{name}: {}", e[0])),
            Err(diagnostics) => panic!("{diagnostics}"),
        };
        let beside = path.with_file_name("tables.toml");
        let entries = match beside.is_file() {
            true => control::load_tables(&program, &beside).unwrap_or_else(|e| panic!("{e}")),
            false => Vec::new(),
        };
        if let Some(what) = judge(&path, &program, &entries, &events(&program)) {
            wrong.push(format!("{}: {what}", path.display()));
        }
        judged += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("{judged} programs");
}
