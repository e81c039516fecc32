//! Every folder of `examples/`, as a whole: the program compiles without a warning; `traffic.py`
//! writes the very files that are beside it; each frame meets the fate its script gives it, byte by
//! byte; the counts are those of `expected.json`; checksums that were right stay right; and the
//! kernel does what the interpreter does.
//!
//! `NICFORGE_BLESS=1` writes `expected.json` anew.

mod checksums;

use std::path::Path;
use std::process::Command;

use nicforge_codegen::{LineStyle, xdp};
use nicforge_filetest::expect;
use nicforge_ir::{Input, InputEvent, Interp, Output, TableBackend};
use nicforge_passes::PassManager;
use nicforge_run::compile::Mode;
use nicforge_run::control;
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded};
use nicforge_target::support::needs_host;
use nicforge_tests::example::{Example, for_each};
use nicforge_tests::{kernel_is_missing, nic, root};
use serde_json::{Map, Value, json};

/// Fewest packets an example's captures have.
const LEAST_PACKETS: usize = 2000;

#[test]
fn they_compile_without_a_warning_and_have_traffic() {
    for_each(|example| {
        assert_eq!(example.warnings, "", "{}", example.name);
        assert!(example.folder.join("README.md").is_file(), "{} has no README.md", example.name);
        let packets =
            example.events.iter().filter(|e| matches!(e.input, Input::Net { .. })).count();
        assert!(packets >= LEAST_PACKETS, "{} has only {packets} packets", example.name);
    });
}

#[test]
fn the_interpreter_gives_what_is_expected() {
    for_each(|example| {
        let mut interp = example.interp();
        let outputs = example.outputs(&mut interp);
        let got = summary(example, &interp, &outputs);
        let path = example.folder.join("expected.json");
        expect(&path, &format!("{got:#}\n")).unwrap_or_else(|why| panic!("{why}"));
    });
}

/// Counts of a run, under the names that `nicforge run --json` gives them; tables with their number
/// of entries.
fn summary(example: &Example, interp: &Interp, outputs: &[Vec<Output>]) -> Value {
    let program = &*example.program;
    let messages = example.events.iter().filter(|e| matches!(e.input, Input::Host { .. })).count();
    let packets = example.events.iter().filter(|e| matches!(e.input, Input::Net { .. })).count();
    let all = || outputs.iter().flatten();
    let count = |kind: fn(&Output) -> bool| all().filter(|output| kind(output)).count();
    let sent =
        |port| all().filter(|o| matches!(o, Output::Send { port: p, .. } if *p == port)).count();
    let mut drops = Map::new();
    for output in all() {
        if let Output::Drop { reason } = output {
            let n = drops.entry(&program.reasons[*reason].text).or_insert(json!(0));
            *n = json!(n.as_u64().unwrap_or(0) + 1);
        }
    }
    let refused = program
        .tables
        .iter()
        .map(|(id, table)| (table.name.clone(), interp.counters().refused[id]));
    let refused: Map<String, Value> =
        refused.filter(|r| r.1 > 0).map(|(name, n)| (name, json!(n))).collect();
    let entries = |id| interp.dump(id).map_or(0, |entries| entries.len());
    let tables: Map<String, Value> =
        program.tables.iter().map(|(id, table)| (table.name.clone(), json!(entries(id)))).collect();
    json!({
        "packets_in": packets,
        "messages_in": messages,
        "sent": (0..program.ports).map(sent).collect::<Vec<_>>(),
        "stack": count(|o| matches!(o, Output::Stack { .. })),
        "host_packets": count(|o| matches!(o, Output::HostPacket { .. })),
        "host_messages": count(|o| matches!(o, Output::HostMessage { .. })),
        "dma_writes": count(|o| matches!(o, Output::DmaWrite { .. })),
        "dropped": count(|o| matches!(o, Output::Drop { .. })),
        "drops": drops,
        "refused": refused,
        "tables": tables,
    })
}

#[test]
fn traffic_is_reproducible_and_every_frame_meets_its_fate() {
    for_each(|example| {
        let copy = tempfile::tempdir().expect("a temporary folder");
        let folder = copy.path().join(&example.name);
        std::fs::create_dir(&folder).expect("a folder in it");
        let from = |path: &Path, to: &Path| {
            std::fs::copy(path, to).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        };
        from(&root().join("examples/packets.py"), &copy.path().join("packets.py"));
        from(&example.folder.join("traffic.py"), &folder.join("traffic.py"));
        let run = Command::new("python3")
            .args(["traffic.py", "--fates"])
            .current_dir(&folder)
            .output()
            .unwrap_or_else(|e| panic!("python3 is needed for the examples' traffic: {e}"));
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{}: traffic.py failed:\n{errors}", example.name);
        same_files(&example.folder, &folder);

        let outputs = example.outputs(&mut example.interp());
        let fates = String::from_utf8_lossy(&run.stdout);
        let fates: Vec<&str> = fates.lines().collect();
        assert_eq!(fates.len(), outputs.len(), "{}: each event has one fate", example.name);
        for (i, (want, got)) in fates.iter().zip(&outputs).enumerate() {
            let got = fate(example, &example.events[i], got);
            assert_eq!(
                *want,
                got,
                "{}, event {}: {:?}",
                example.name,
                i + 1,
                example.events[i].input
            );
        }
    });
}

/// The files a traffic script writes are equal in both folders.
fn same_files(committed: &Path, made: &Path) {
    let list = |folder: &Path| {
        let entries =
            std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> =
            names.filter(|n| n.ends_with(".pcap") || n == "tables.toml").collect();
        names.sort();
        names
    };
    assert_eq!(list(committed), list(made), "{}: run traffic.py", committed.display());
    for name in list(made) {
        let equal =
            std::fs::read(committed.join(&name)).ok() == std::fs::read(made.join(&name)).ok();
        assert!(equal, "{} is not what traffic.py writes; run it", committed.join(&name).display());
    }
}

/// Outputs as a traffic script writes them, see `Traffic` in `examples/packets.py`.
fn fate(example: &Example, event: &InputEvent, outputs: &[Output]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let one = |output: &Output| match output {
        Output::Send { port, frame } => format!("port {port} {}", hex(frame)),
        Output::Stack { frame } => match &event.input {
            Input::Net { frame: came, .. } if came == frame => "stack".to_string(),
            _ => format!("stack, changed to {}", hex(frame)),
        },
        Output::HostPacket { frame } => format!("host {}", hex(frame)),
        Output::HostMessage { bytes } => format!("message {}", hex(bytes)),
        Output::DmaWrite { addr, data } => format!("dma {addr} {}", hex(data)),
        Output::Drop { reason } => format!("drop {}", example.program.reasons[*reason].text),
        Output::Log { text } => format!("log {text}"),
    };
    let list: Vec<String> = outputs.iter().map(one).collect();
    if list.is_empty() { "nothing".to_string() } else { list.join("; ") }
}

#[test]
fn checksums_that_were_right_stay_right() {
    for_each(|example| {
        let outputs = example.outputs(&mut example.interp());
        let (mut checked, mut sent, mut all_right) = (0, 0, true);
        for (i, (event, outputs)) in example.events.iter().zip(&outputs).enumerate() {
            let right = match &event.input {
                Input::Net { frame, .. } => checksums::are_right(frame),
                // A tick sends what came before.
                _ => all_right,
            };
            all_right &= right;
            sent += outputs.iter().filter(|output| matches!(output, Output::Send { .. })).count();
            for output in outputs.iter().filter(|_| right) {
                let (Output::Send { frame, .. } | Output::Stack { frame }) = output else {
                    continue;
                };
                assert!(
                    checksums::are_right(frame),
                    "{}, event {}: {frame:02x?}",
                    example.name,
                    i + 1
                );
                checked += 1;
            }
        }
        // Most frames that are sent can be checked: few have wrong checksums on purpose.
        assert!(
            2 * checked >= sent,
            "{}: only {checked} of {sent} frames could be checked",
            example.name
        );
    });
}

#[test]
fn the_kernel_does_the_same() {
    if let Some(why) = kernel_is_missing() {
        println!("skipped: {why}");
        return;
    }
    let target = nicforge_target::find("xdp").expect("it is built in");
    for_each(|example| {
        let name = &example.name;
        if !needs_host(&example.program, &target).is_empty() {
            return kernel_and_process_do_the_same(example);
        }
        let compiled = PassManager::new()
            .run_default(example.program.clone())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let artifact = xdp::generate(&compiled, LineStyle::Directives)
            .unwrap_or_else(|errors| panic!("{name} does not fit the target: {errors:?}"));
        let object =
            compile_bpf(name, &artifact.source, Mode::Replay, &[root().join("runtime/xdp")])
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
        let kernel = Loaded::load(&compiled, &artifact, &object, &options)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut tables = kernel.tables();
        control::apply(&mut tables, &example.entries).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut interp = example.interp();
        for (i, (event, want)) in
            example.events.iter().zip(example.outputs(&mut interp)).enumerate()
        {
            let got =
                kernel.test_run(event).unwrap_or_else(|e| panic!("{name}, event {}: {e}", i + 1));
            assert_eq!(want, got, "{name}, event {}: {:?}", i + 1, event.input);
        }
        for (id, table) in &example.program.tables {
            assert_eq!(interp.dump(id), tables.dump(id), "{name}: table {}", table.name);
        }
    });
}

/// Where the kernel's hook lacks something, the process beside it has it; as a user sees it.
fn kernel_and_process_do_the_same(example: &Example) {
    let ran = Command::new(nic::tool())
        .args(["verify", "--target", "xdp"])
        .arg(&example.folder)
        .output()
        .expect("the tool runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    let (name, events) = (&example.name, example.events.len());
    let all = format!("matches the reference: {events} of {events} events");
    assert!(ran.status.success() && said.contains(&all), "{name}: {ran:?}");
}
