//! Programs of engines on the shim of an NFP against the interpreter: the tables. What was wrong in
//! a published prototype is tested by name: what an update wrote is found by the next lookup,
//! packets of one flow that follow each other closely, far more keys than a small table has
//! entries, and keys that are not there.

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::pipeline;
use nicforge_ir::{Input, InputEvent, Output, Program, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_plan::{HostSide, Objective};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Limits, search};
use nicforge_planner::{assemble, instance::Config};
use nicforge_run::nfp::EnginesProgram;
use nicforge_run::pcap;
use nicforge_tests::pipes::stage;
use nicforge_tests::root;

fn small_tables() -> Verified<Program> {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let path = root().join("tests/programs/small_tables/small_tables.c");
    let output = nicforge_frontend::compile(&path, &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    verify(output.program).unwrap_or_else(|e| panic!("{e:?}"))
}

/// A packet with a key, and whether its entries are deleted before.
fn packet(key: u32, deletes: bool) -> InputEvent {
    let mut frame = key.to_le_bytes().to_vec();
    frame.extend(u32::from(deletes).to_le_bytes());
    frame.resize(60, 0);
    InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame } }
}

/// Runs on one engine with the tables in the memories given, where `few` and `recent` are small.
fn check(memories: [&str; 4], events: &[InputEvent]) {
    let program = small_tables();
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let placement = Placement {
        memories: memories.map(String::from).to_vec(),
        units: Vec::new(),
        ..Default::default()
    };
    let pipeline = Pipeline::single(&compiled);
    let engines = EnginesProgram::new(&compiled, &pipeline, &placement, Engines::Nfp);
    let engines = engines.unwrap_or_else(|e| panic!("{e}"));
    let (run, differences) =
        engines.verify(&program, &[], events).unwrap_or_else(|e| panic!("{e}"));
    assert!(differences.is_empty(), "{memories:?}: {:?}", differences[0]);
    assert_eq!(run.stats.workers.iter().map(|w| w.lost).sum::<u64>(), 0);
}

/// A lookup finds what the update before it wrote; packets of one flow follow each other, and with
/// those of others between.
#[test]
fn updates_are_found() {
    let keys = [7, 7, 7, 7, 9, 7, 9, 9, 0, 0, 7, u32::MAX, 7];
    let events: Vec<InputEvent> =
        keys.iter().cycle().take(500).map(|key| packet(*key, false)).collect();
    check(["cam", "cam", "imem", "emem"], &events);
    check(["emem", "cam", "cls", "ctm"], &events);
}

/// 5000 flows in tables of 16, 1000 and 8192 entries: refused, evicted and kept, twice and from
/// both ends.
#[test]
fn thousands_of_flows() {
    let flows =
        (0..5000u32).chain((0..5000).rev()).map(|i| packet(i.wrapping_mul(0x9e37_79b9), false));
    check(["cam", "cam", "imem", "emem"], &flows.collect::<Vec<_>>());
}

/// Keys that are not there are deleted, and keys that are make room for others.
#[test]
fn misses_and_deletions() {
    let events = (0..3000u32).map(|i| packet(i * i % 61, i % 3 == 0));
    check(["cam", "emem", "cls", "imem"], &events.collect::<Vec<_>>());
}

/// The chip's own demands: what is generated names memories, queues and the compiler's rules for
/// every replica.
#[test]
fn files_for_the_vendors_tools() {
    let program = small_tables();
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let placement = Placement {
        memories: ["cam", "cls", "imem", "emem"].map(String::from).to_vec(),
        units: vec![vec!["me.13".to_string()]],
        ..Default::default()
    };
    let engines =
        EnginesProgram::new(&compiled, &Pipeline::single(&compiled), &placement, Engines::Nfp)
            .unwrap_or_else(|e| panic!("{e}"));
    let file = |name: &str| {
        let found = engines.artifact().files.iter().find(|(file, _)| file == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.clone()
    };
    assert!(
        file("nf_program.h")
            .contains("NF_TABLE_MEMORIES {NF_IN_CAM, NF_IN_CLS, NF_IN_IMEM, NF_IN_EMEM, 0}")
    );
    assert!(
        file("placement.ini")
            .contains("[tables]\nfew = cam\nrecent = cls\nmany = imem\nlatest = emem\n")
    );
    assert!(file("Makefile").contains("-u i33.me1 stage_0_0.list"), "{}", file("Makefile"));
}

/// What is for the chip alone is C, too: entries in the address spaces of their memories, and a
/// `main` for every engine.
#[test]
fn engine_files_have_a_main() {
    let program = small_tables();
    let compiled =
        PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"));
    let placement = Placement {
        memories: ["cam", "cls", "imem", "emem"].map(String::from).to_vec(),
        units: Vec::new(),
        ..Default::default()
    };
    let engines =
        EnginesProgram::new(&compiled, &Pipeline::single(&compiled), &placement, Engines::Nfp)
            .unwrap_or_else(|e| panic!("{e}"));
    let text = &engines.artifact().base.source;
    for line in [
        "#define NF_SPACE_few __lmem",
        "#define NF_SPACE_recent __cls",
        "#define NF_SPACE_many __imem",
        "NF_SPACE_latest t_count_at *",
    ] {
        assert!(text.contains(line), "no `{line}`:\n{text}");
    }
    let object = on_the_chip(&engines);
    assert!(object.windows(6).any(|name| name == b"\0main\0"), "the engine's file has no main");
}

/// The object of the first stage as the chip's compiler would see its file.
fn on_the_chip(engines: &EnginesProgram) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    engines.write(dir.path()).unwrap_or_else(|e| panic!("{e}"));
    let mut clang = std::process::Command::new(nicforge_clang::name());
    clang.current_dir(dir.path()).args([
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DNF_CHIP",
        "-DNF_REPLICA=0",
    ]);
    let ran =
        clang.args(["-c", "-o", "stage.o", "stage_0.c"]).output().unwrap_or_else(|e| panic!("{e}"));
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::fs::read(dir.path().join("stage.o")).unwrap_or_else(|e| panic!("{e}"))
}

/// Handlers on cores of the host: what they do is not for the chip's compiler, and their tables are
/// in the host's memory.
#[test]
fn stages_of_the_host() {
    let folder = root().join("tests/programs/split");
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let output = nicforge_frontend::compile(&folder.join("split.c"), &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    let program = verify(output.program).unwrap_or_else(|e| panic!("{e:?}"));
    let target = nicforge_target::find("agilio-cx").unwrap_or_else(|e| panic!("{e}"));
    let config = Config::default();
    let limits = Limits { candidates: 4, until: None, beyond_ceiling: true };
    let found = search(&program, &target, &config, Goal::Rate, limits, &|| false)
        .unwrap_or_else(|e| panic!("{e}"));
    let plan = assemble::plan(&program, &target, &config, Objective::Rate, &found, found.best);
    let planned = assemble::program_of(&plan).unwrap_or_else(|e| panic!("{e}"));
    let compiled = PassManager::new().run_default(planned).unwrap_or_else(|e| panic!("{e}"));
    let stages = pipeline::of_plan(&plan, &compiled).unwrap_or_else(|e| panic!("{e}"));
    let placement = pipeline::placement(&plan, &compiled, &HostSide::of(&target));
    let host = placement.stages_on_host.iter().filter(|host| **host).count();
    assert!(host > 0 && host < stages.stages.len(), "{:?}", placement.stages_on_host);
    assert!(placement.tables_on_host.contains(&true), "{:?}", placement.tables_on_host);
    let engines = EnginesProgram::new(&compiled, &stages, &placement, Engines::Nfp)
        .unwrap_or_else(|e| panic!("{e}"));
    on_the_chip(&engines);
    let traffic = root().join("examples/l2_forward/traffic.pcap");
    let frames = pcap::read(&traffic).unwrap_or_else(|e| panic!("{e}"));
    let events = pcap::merge(&[(pcap::SourceKind::Port(0), frames)]);
    let (_, differences) = engines.verify(&program, &[], &events).unwrap_or_else(|e| panic!("{e}"));
    assert!(differences.is_empty(), "{:?}", differences[0]);
}

/// Memories of a user's target that the chip does not have are its external one.
#[test]
fn memories_of_other_names() {
    let events: Vec<InputEvent> = (0..500u32).map(|i| packet(i % 7, false)).collect();
    check(["cam", "near", "mu_0", "emem"], &events);
}

/// Frames leave in the order in which they came, through replicas, several exits and past those
/// that are dropped: the network block holds them back until their turn, and every packet has one,
/// whether it leaves or not.
#[test]
fn hardware_restores_the_order_of_departures() {
    let program = nicforge_tests::pipes::program("exits");
    let pipeline = Pipeline {
        stages: vec![
            stage(&program, &["net_recv"], 3, false),
            stage(&program, &["second"], 4, false),
        ],
        steering: Vec::new(),
        ordered_output: false,
        context: Default::default(),
    };
    let engines = EnginesProgram::new(&program, &pipeline, &Placement::default(), Engines::Nfp);
    let engines = engines.unwrap_or_else(|e| panic!("{e}"));
    let events = nicforge_ir::generate::events(7, 5000);
    let (run, differences) =
        engines.verify(&program, &[], &events).unwrap_or_else(|e| panic!("{e}"));
    assert!(differences.is_empty(), "{:?}", differences[0]);
    let count = |wanted: fn(&&Output) -> bool| run.outputs.iter().flatten().filter(wanted).count();
    let sent = count(|output| matches!(output, Output::Send { .. }));
    let drops = count(|output| matches!(output, Output::Drop { .. }));
    assert_eq!(run.departures.len(), sent, "every frame that was sent left");
    assert!(sent > 500 && drops > 500, "{sent} sent, {drops} dropped");
    let ports = run.departures.windows(2).filter(|pair| pair[0].port != pair[1].port).count();
    assert!(
        ports > 100,
        "frames of both exits leave among each other, not one behind the other: {ports}"
    );
}
