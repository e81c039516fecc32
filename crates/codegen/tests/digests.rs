//! What every generator makes, as lines and hash of the text: of the programs of this repository
//! as one stage, of examples as planned pipelines, and of random programs. What describes generated
//! code for those who run it is part of it.
//!
//! A change here is no mistake by itself: it says which generated code changed. Whether the code is
//! right is told by the tests that run it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use nicforge_codegen::dpdk::{self, PipeStage, Pipeline, SteerBy, Steering};
use nicforge_codegen::{LineStyle, Unsupported, attach, host, nfp, pipeline, rtl, spin, xdp};
use nicforge_filetest::{digest, expect_table, programs, root};
use nicforge_ir::generate::{self, Options};
use nicforge_ir::{Program, Verified};
use nicforge_passes::PassManager;
use nicforge_plan::{HostSide, Objective};
use nicforge_planner::assemble;
use nicforge_planner::instance::Config;
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Limits, search};
use nicforge_target::{Generator, Target};

/// Random programs, of which a quarter have loops over bytes; half of them as hardware too.
const RANDOM: u64 = 240;
/// Random programs that share a line.
const GROUP: u64 = 20;

/// A generator's answer as text.
type Made = Result<String, Vec<Unsupported>>;

/// All that a generator says: its files, and what describes them.
fn all<A: Debug>(made: Result<A, Vec<Unsupported>>) -> Made {
    made.map(|artifact| format!("{artifact:#?}").replace("\\n", "\n"))
}

/// A program by the generator of a target's units, as a pipeline.
fn staged(
    program: &Verified<Program>,
    stages: &Pipeline,
    placement: &nfp::Placement,
    generator: Generator,
    in_process: &[usize],
) -> Option<Made> {
    let lines = LineStyle::Comments;
    let engines = |engines| all(nfp::generate(program, stages, placement, engines, lines));
    Some(match generator {
        Generator::Xdp => all(xdp::generate_split(program, stages, in_process, lines)),
        Generator::Dpdk => all(dpdk::generate(program, stages, lines)),
        Generator::Nfp => engines(nfp::Engines::Nfp),
        Generator::Threads => engines(nfp::Engines::Threads),
        Generator::Riscv => all(spin::generate(program, stages, spin::Cores::Panic, lines)),
        Generator::Rtl => hardware(program, rtl::Wanted::Best),
        Generator::Host => return None,
    })
}

fn hardware(program: &Verified<Program>, wanted: rtl::Wanted) -> Made {
    all(rtl::generate(program, wanted, 2))
}

/// A program as one stage, by every generator, with so many kinds of hardware.
fn whole(program: &Verified<Program>, in_hardware: usize) -> Vec<(&'static str, Made)> {
    let lines = LineStyle::Comments;
    let one = Pipeline::single(program);
    let placement = nfp::Placement {
        memories: program.tables.keys().map(|_| "ctm".to_string()).collect(),
        units: vec![vec!["me.0".to_string()]],
        ..Default::default()
    };
    let by = |generator| staged(program, &one, &placement, generator, &[]).expect("it makes C");
    let mut list = vec![
        ("xdp", all(xdp::generate(program, lines))),
        ("host", all(host::generate(program, lines))),
        ("dpdk", by(Generator::Dpdk)),
        ("nfp", by(Generator::Nfp)),
        ("threads", by(Generator::Threads)),
        ("spin", all(spin::generate(program, &one, spin::Cores::Spin, lines))),
        ("panic", by(Generator::Riscv)),
    ];
    let mut locked = one.clone();
    (locked.stages[0].replicas, locked.stages[0].locked) = (3, true);
    list.push(("locks", all(dpdk::generate(program, &locked, lines))));
    if program.handlers.len() > 1 {
        let apart = apart(program);
        let by = |generator| staged(program, &apart, &placement, generator, &[]).expect("C");
        list.push(("dpdk apart", by(Generator::Dpdk)));
        list.push(("xdp apart", by(Generator::Xdp)));
    }
    let designs = [("pipe", rtl::Wanted::Best), ("engine", rtl::Wanted::Engine)];
    list.extend(
        designs
            .into_iter()
            .take(in_hardware)
            .map(|(name, wanted)| (name, hardware(program, wanted))),
    );
    if let Some(header) = attach::header(program) {
        list.push(("attach", Ok(header)));
    }
    list
}

/// Each handler as a stage of its own.
fn apart(program: &Program) -> Pipeline {
    let stage =
        |handler| PipeStage { handlers: vec![handler], replicas: 1, ordered: false, locked: false };
    let one = Pipeline::single(program);
    Pipeline { stages: program.handlers.keys().map(stage).collect(), ..one }
}

fn line(program: &str, what: &str, made: Made) -> String {
    let said = match made {
        Ok(text) => digest(&text.replace(&*root().to_string_lossy(), "")),
        Err(errors) => {
            format!("refused: {}, {}", errors[0].message, digest(&format!("{errors:#?}")))
        }
    };
    format!("{program:40} {what:10} {said}")
}

/// A file of `examples/` or `tests/programs/` before passes; nothing if it is none by itself.
fn read(name: &str, path: &Path) -> Option<Verified<Program>> {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let output = nicforge_frontend::compile(path, &options).ok()?;
    Some(nicforge_ir::verify(output.program).unwrap_or_else(|e| panic!("{name}: {}", e[0])))
}

fn lowered(name: &str, program: Verified<Program>) -> Verified<Program> {
    PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Compares with a file beside this one.
fn expect(file: &str, lines: &[String]) {
    expect_table(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file), lines);
}

#[test]
fn generated_code_is_the_same() {
    let mut lines = Vec::new();
    for (name, path) in programs() {
        let Some(program) = read(&name, &path) else { continue };
        let program = lowered(&name, program);
        lines.extend(whole(&program, 2).into_iter().map(|(what, made)| line(&name, what, made)));
    }
    expect("digests.txt", &lines);
}

#[test]
fn code_of_random_programs_is_the_same() {
    let mut lines = Vec::new();
    for first in (0..RANDOM).step_by(GROUP as usize) {
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        for seed in first..first + GROUP {
            let name = format!("random {seed}");
            let options = match seed % 4 {
                2 => Options::BYTES,
                3 => Options::GROWING,
                _ => Options::ALL,
            };
            let program = lowered(&name, generate::generate(seed, options));
            for (what, made) in whole(&program, if seed % 2 == 0 { 2 } else { 0 }) {
                let said = made.unwrap_or_else(|errors| format!("{errors:#?}"));
                texts.entry(what).or_default().push_str(&said);
            }
        }
        let name = format!("random {first} to {}", first + GROUP - 1);
        lines.extend(texts.into_iter().map(|(what, text)| line(&name, what, Ok(text))));
    }
    expect("digests_random.txt", &lines);
}

/// Pipelines that planners must not ask for are refused, each with its reason.
#[test]
fn pipelines_that_do_not_fit_are_refused() {
    let program = generate::generate(1, Options::PORTABLE);
    let single = Pipeline::single(&program);
    let refused = |change: &dyn Fn(&mut Pipeline)| {
        let mut pipeline = single.clone();
        change(&mut pipeline);
        let made = dpdk::generate(&program, &pipeline, LineStyle::Comments);
        made.map(|_| ()).expect_err("it is refused")[0].message.clone()
    };
    let steer = |name: &str, by: SteerBy| {
        let event = program.event_named(name).expect("an event");
        refused(&|p| p.steering.push(Steering { event, by: by.clone() }))
    };
    let lines = [
        refused(&|p| p.stages[0].handlers.clear()),
        refused(&|p| p.stages.push(p.stages[0].clone())),
        refused(&|p| p.stages[0].replicas = 0),
        steer("net_recv", SteerBy::Params(vec![(9, vec![])])),
        steer("net_recv", SteerBy::Number(0, 1)),
        steer("net_send", SteerBy::Frame(vec![(0, 2)])),
        steer("net_recv", SteerBy::Frame(vec![(60_000, 60_000)])),
        steer("net_send", SteerBy::FrameByPort(vec![vec![(0, 2)]])),
    ];
    expect("refused_pipelines.txt", &lines);
}

/// Random programs that are planned for every target.
const PLANNED: u64 = 10;

/// The plan of most stages among the first that the planner finds, as code.
fn planned(name: &str, program: &Verified<Program>, target: &Target) -> Option<String> {
    let config = Config { host_cores: 2, ..Config::default() };
    let limits = Limits { candidates: 4, until: None, beyond_ceiling: true };
    let found = search(program, target, &config, Goal::Rate, limits, &|| false).ok()?;
    let plan = |number| assemble::plan(program, target, &config, Objective::Rate, &found, number);
    let plan = (0..found.candidates.len())
        .map(plan)
        .max_by_key(|plan| (plan.stages.len(), plan.workers()))?;
    let cut = assemble::program_of(&plan).unwrap_or_else(|e| panic!("{name}: {e}"));
    let cut = lowered(name, cut);
    let stages = pipeline::of_plan(&plan, &cut).unwrap_or_else(|e| panic!("{name}: {e}"));
    let placement = pipeline::placement(&plan, &cut, &HostSide::of(target));
    let generator =
        |group: &str| target.units.iter().find(|unit| unit.name == group).map(|u| u.codegen);
    let on_host = |at: &usize| generator(&plan.stages[*at].group) == Some(Generator::Host);
    let in_process: Vec<usize> = (0..plan.stages.len()).filter(on_host).collect();
    let made = staged(&cut, &stages, &placement, target.units[0].codegen, &in_process)?;
    Some(line(name, &target.name, made))
}

fn targets() -> Vec<Target> {
    nicforge_target::names().iter().map(|name| nicforge_target::find(name).unwrap()).collect()
}

#[test]
fn code_of_plans_is_the_same() {
    let targets = targets();
    let mut lines = Vec::new();
    for (name, path) in programs() {
        if !path.starts_with(root().join("examples")) {
            continue;
        }
        let Some(program) = read(&name, &path) else { continue };
        lines.extend(targets.iter().filter_map(|target| planned(&name, &program, target)));
    }
    expect("digests_plans.txt", &lines);
}

#[test]
fn code_of_plans_of_random_programs_is_the_same() {
    let targets = targets();
    let mut lines = Vec::new();
    for seed in 0..PLANNED {
        let program = generate::generate(1000 + seed, Options::PORTABLE);
        let name = format!("random {}", 1000 + seed);
        lines.extend(targets.iter().filter_map(|target| planned(&name, &program, target)));
    }
    expect("digests_random_plans.txt", &lines);
}
