//! Replicas that share tables under generated locks: what is read, computed and written back
//! happens as one step, whoever else does the same. The programs count by reading and writing, so
//! an update that got lost stays lost and shows in the tables. The same C without its locks must
//! lose some, or the tests would show nothing.

use nicforge_codegen::dpdk::{PipeStage, Pipeline};
use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::pipeline;
use nicforge_ir::{Entry, Input, InputEvent, Match, Program, TableId, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_plan::{Objective, Plan, Replication};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Limits, search};
use nicforge_planner::{assemble, instance::Config};
use nicforge_run::dpdk::verify_dpdk;
use nicforge_run::nfp::EnginesProgram;
use nicforge_tests::{dpdk_is_missing, root};

fn source(name: &str) -> Verified<Program> {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let path = root().join(format!("tests/programs/{name}/{name}.c"));
    let output = nicforge_frontend::compile(&path, &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    verify(output.program).unwrap_or_else(|e| panic!("{e:?}"))
}

fn compiled(program: &Verified<Program>) -> Verified<Program> {
    PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"))
}

/// Four replicas under locks.
fn shared(program: &Program) -> Pipeline {
    let handlers = program.handlers.keys().collect();
    Pipeline {
        stages: vec![PipeStage { handlers, replicas: 4, ordered: false, locked: true }],
        steering: Vec::new(),
        ordered_output: false,
        context: Default::default(),
    }
}

/// Packets of few hosts, most of them of one: they meet at the same entries.
fn skewed(count: u32, seed: u32) -> Vec<InputEvent> {
    let event = |i: u32| {
        let random = (i ^ seed).wrapping_mul(0x9e37_79b9) >> 7;
        let src = if random.is_multiple_of(4) { random / 4 % 13 } else { 1 };
        let dst = random / 8 % 3;
        // Some of the sources are the one that makes the handler return while it holds its lock.
        let src = if random.is_multiple_of(97) { u32::MAX } else { src };
        let mut frame = [src.to_le_bytes(), dst.to_le_bytes()].concat();
        frame.extend((0..192u32).map(|at| (at * i) as u8));
        InputEvent { time_ns: 0, seed: 0, input: Input::Net { port: 0, frame } }
    };
    (0..count).map(event).collect()
}

/// Which slot counts which source; several share one.
fn owners(program: &Program) -> Vec<(TableId, Entry)> {
    let Some(table) = program.table_named("owners") else { return Vec::new() };
    let entry = |src: u32| Entry {
        key: src.to_le_bytes().to_vec(),
        matching: Match::Exact,
        value: (src % 5).to_le_bytes().to_vec(),
        buf: None,
    };
    (0..13).map(|src| (table, entry(src))).collect()
}

#[test]
fn no_update_is_lost_on_dpdk() {
    if dpdk_is_missing() {
        return;
    }
    for name in ["host_counts", "slot_counts"] {
        let program = source(name);
        let compiled = compiled(&program);
        for seed in 0..4 {
            let (run, differences) = verify_dpdk(
                &program,
                &compiled,
                &shared(&compiled),
                &owners(&compiled),
                &skewed(20_000, seed),
            )
            .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(differences.is_empty(), "{name}, run {seed}: {:?}", differences[0]);
            let shares: Vec<u64> = run.stats.workers[..4].iter().map(|w| w.events).collect();
            assert!(shares.iter().all(|events| *events > 1000), "{shares:?}: every replica works");
        }
    }
}

#[test]
fn no_update_is_lost_on_engines() {
    for engines in [Engines::Threads, Engines::Nfp] {
        for name in ["host_counts", "slot_counts"] {
            let program = source(name);
            let compiled = compiled(&program);
            let made =
                EnginesProgram::new(&compiled, &shared(&compiled), &Placement::default(), engines)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
            for seed in 0..4 {
                let (_, differences) = made
                    .verify(&program, &owners(&compiled), &skewed(10_000, seed))
                    .unwrap_or_else(|e| panic!("{name} on {engines:?}: {e}"));
                assert!(
                    differences.is_empty(),
                    "{name} on {engines:?}, run {seed}: {:?}",
                    differences[0]
                );
            }
        }
    }
}

/// The best plan has locks where a table cannot be divided and the target's price for them is
/// right, and does what the interpreter does.
fn best(program: &Verified<Program>, target: &str) -> Plan {
    let target = nicforge_target::find(target).unwrap_or_else(|e| panic!("{e}"));
    let limits = Limits { candidates: 40, until: None, beyond_ceiling: false };
    let config = Config::default();
    let found = search(program, &target, &config, Goal::Rate, limits, &|| false);
    let found = found.unwrap_or_else(|e| panic!("{e}"));
    assemble::plan(program, &target, &config, Objective::Rate, &found, found.best)
}

#[test]
fn best_plans_have_locks() {
    let program = source("slot_counts");
    for target in ["dpdk", "agilio-cx"] {
        let plan = best(&program, target);
        let locked =
            |stage: &&nicforge_plan::Stage| matches!(stage.replication, Replication::Locked { .. });
        let stage = plan.stages.iter().find(locked);
        let stage = stage.unwrap_or_else(|| panic!("{target}: {:#?}", plan.stages));
        assert!(stage.replicas > 1, "{target}: {} replicas", stage.replicas);
        let planned = assemble::program_of(&plan).unwrap_or_else(|e| panic!("{e}"));
        let planned = compiled(&planned);
        let pipeline = pipeline::of_plan(&plan, &planned).unwrap_or_else(|e| panic!("{e}"));
        assert!(pipeline.stages.iter().any(|stage| stage.locked && stage.replicas > 1));
        let (entries, events) = (owners(&planned), skewed(10_000, 9));
        let differences = if target == "dpdk" {
            if dpdk_is_missing() {
                return;
            }
            verify_dpdk(&program, &planned, &pipeline, &entries, &events).map(|found| found.1)
        } else {
            EnginesProgram::new(&planned, &pipeline, &Placement::default(), Engines::Nfp)
                .and_then(|made| made.verify(&program, &entries, &events))
                .map(|found| found.1)
        };
        let differences = differences.unwrap_or_else(|e| panic!("{target}: {e}"));
        assert!(differences.is_empty(), "{target}: {:?}", differences[0]);
    }
}

/// One lock for the table of hosts, one per entry for slots; a section ends before the packet
/// leaves.
#[test]
fn locks_are_held_no_longer_than_needed() {
    for (name, lock) in
        [("host_counts", "nf_lock(env, 0);"), ("slot_counts", "nf_lock(env, 0 + (u32)(")]
    {
        let compiled = compiled(&source(name));
        let made = EnginesProgram::new(
            &compiled,
            &shared(&compiled),
            &Placement::default(),
            Engines::Threads,
        )
        .unwrap_or_else(|e| panic!("{e}"));
        let text = &made.artifact().base.source;
        let at = |part: &str| {
            text.find(part).unwrap_or_else(|| panic!("{name} has no `{part}`:\n{text}"))
        };
        assert!(at(lock) < at("nf_unlock(env);"), "{text}");
        assert!(at("nf_unlock(env);") < at("nf_send(env,"), "{text}");
    }
}
