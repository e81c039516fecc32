//! Handlers that share tables of buckets: the planner sees that all their keys have the bucket in
//! common and divides it among replicas, and no update is lost. A key that leaves its bucket, or a
//! handler that wants order, makes it one replica again.

use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::pipeline;
use nicforge_ir::{Input, InputEvent, Program, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_plan::{Objective, Plan, Replication};
use nicforge_planner::ability::{Ability, ability};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Limits, search};
use nicforge_planner::{assemble, instance::Config};
use nicforge_run::dpdk::verify_dpdk;
use nicforge_run::nfp::EnginesProgram;
use nicforge_tests::{dpdk_is_missing, root};

/// The program, with a part of its text replaced, after the passes.
fn program(part: &str, by: &str) -> Verified<Program> {
    let text = std::fs::read_to_string(root().join("tests/programs/buckets/buckets.c")).unwrap();
    assert!(text.contains(part), "{part}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("buckets.c");
    std::fs::write(&path, text.replace(part, by)).unwrap();
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let output = nicforge_frontend::compile(&path, &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    let program = verify(output.program).unwrap_or_else(|e| panic!("{e:?}"));
    PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{e}"))
}

/// The plan of the program as it is written, with its keys taken to be spread evenly.
fn plan(program: &Verified<Program>, target: &str) -> Plan {
    let target = nicforge_target::find(target).unwrap_or_else(|e| panic!("{e}"));
    let limits = Limits { candidates: 1, until: None, beyond_ceiling: false };
    let config = Config { evenly: true, ..Config::default() };
    let found = search(program, &target, &config, Goal::Rate, limits, &|| false);
    let found = found.unwrap_or_else(|e| panic!("{e}"));
    assemble::plan(program, &target, &config, Objective::Rate, &found, found.best)
}

fn buckets(plan: &Plan) -> &nicforge_plan::Stage {
    plan.stages.iter().find(|stage| stage.tables.iter().any(|table| table == "places")).unwrap()
}

fn requests(count: u32) -> Vec<InputEvent> {
    let event = |i: u32| {
        let random = i.wrapping_mul(0x9e37_79b9) >> 7;
        let key = [&(random % 40).to_le_bytes()[..], &(random as u16 % 7).to_le_bytes(), &[0, 0]]
            .concat();
        let frame = [&key[..], &(random / 3).to_le_bytes(), &[0; 52]].concat();
        InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame } }
    };
    (0..count).map(event).collect()
}

#[test]
fn replicas_have_buckets_of_their_own_and_lose_nothing() {
    let program = program("NF_PORTS(1);", "NF_PORTS(1);");
    for target in ["agilio-cx", "liquidio", "dpdk"] {
        let plan = plan(&program, target);
        let stage = buckets(&plan);
        let Replication::Sharded { by } = &stage.replication else { panic!("{target}: {stage:?}") };
        assert!(by[0].contains("hash") && by[0].contains("bucket"), "{by:?}");
        assert!(stage.replicas > 1, "{target}: {} replicas", stage.replicas);
        let planned = assemble::program_of(&plan).unwrap_or_else(|e| panic!("{e}"));
        let planned = PassManager::new().run_default(planned).unwrap_or_else(|e| panic!("{e}"));
        let pipeline = pipeline::of_plan(&plan, &planned).unwrap_or_else(|e| panic!("{e}"));
        let events = requests(10_000);
        let engines = if target == "liquidio" { Engines::Threads } else { Engines::Nfp };
        let differences = if target == "dpdk" {
            if dpdk_is_missing() {
                return;
            }
            verify_dpdk(&program, &planned, &pipeline, &[], &events).map(|found| found.1)
        } else {
            EnginesProgram::new(&planned, &pipeline, &Placement::default(), engines)
                .and_then(|made| made.verify(&program, &[], &events))
                .map(|found| found.1)
        };
        let differences = differences.unwrap_or_else(|e| panic!("{target}: {e}"));
        assert!(differences.is_empty(), "{target}: {:?}", differences[0]);
    }
}

#[test]
fn what_has_nothing_in_common_is_one_replica() {
    let cases = [
        // Places of the next bucket, and a product that wraps.
        ("key.part % WAYS;", "key.part % 6;", "in all keys"),
        ("bucket * WAYS + key", "bucket * 0x60000000 + key", "in all keys"),
        ("NF_UNORDERED\nvoid read", "void read", "wants events in order"),
    ];
    for (part, by, reason) in cases {
        let program = program(part, by);
        let named =
            |name| program.handlers.iter().find(|(_, handler)| handler.name == name).unwrap().0;
        let handlers = ["write", "read", "total"].map(named);
        let Ability::Single(given) = ability(&program, &handlers) else { panic!("{by}") };
        assert!(given.contains(reason), "{by}: {given}");
    }
}
