//! Planned programs as stages on several CPUs, joined by the kernel's CPU maps, against the
//! interpreter: every example with the planner's best plan and three others, random programs cut
//! once, and keyed state under skewed traffic.
//!
//! `NICFORGE_RANDOM_PROGRAMS` sets how many random programs (default 30), `NICFORGE_RANDOM_SEED`
//! the first seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nicforge_codegen::dpdk::{PipeStage, Pipeline, SteerBy, Steering};
use nicforge_codegen::{LineStyle, pipeline, xdp};
use nicforge_ir::generate::{self, decisions, generate_from};
use nicforge_ir::io::random;
use nicforge_ir::text::{PrintOptions, parse, print};
use nicforge_ir::{Direction, Entry, Input, InputEvent, Program, TableId, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_plan::{Objective, Plan};
use nicforge_planner::instance::Config;
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{self, Found, Limits};
use nicforge_planner::{assemble, cut};
use nicforge_run::compile::{CompileError, Mode};
use nicforge_run::control;
use nicforge_run::live::{
    Difference, LARGEST_WINDOW, LiveOptions, LiveOutputs, LiveRun, Session, StageReport,
    differences,
};
use nicforge_run::netns::{LARGEST_FRAME, Sandbox};
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{LoadOptions, Loaded, SMALLEST_FRAME, XdpError};
use nicforge_target::Target;
use nicforge_target::support::needs_host;
use nicforge_tests::example::for_each;
use nicforge_tests::{internal, kernel_is_missing, root, setting, soak};

/// Candidates the search may look at: enough for plans of several stages.
const CANDIDATES: u32 = 24;

fn skipped() -> bool {
    kernel_is_missing().inspect(|why| println!("skipped: {why}")).is_some()
}

/// Why a program could not be run.
enum Refused {
    /// The target says what does not fit.
    Unsupported(String),
    /// More values at once than BPF has stack for, or more paths than the kernel's verifier walks.
    Large,
}

impl Refused {
    fn why(&self) -> &str {
        match self {
            Refused::Unsupported(why) => why,
            Refused::Large => "too large for the kernel",
        }
    }
}

/// Runs events through the stages in the kernel; what differs from the interpreter.
fn run(
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    pipeline: &Pipeline,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(LiveRun, Vec<Difference>), Refused> {
    run_split(program, compiled, (pipeline, &[]), entries, events)
}

/// The same with some stages in the process.
fn run_split(
    program: &Verified<Program>,
    compiled: &Verified<Program>,
    (pipeline, in_process): (&Pipeline, &[usize]),
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
) -> Result<(LiveRun, Vec<Difference>), Refused> {
    let artifact = xdp::generate_split(compiled, pipeline, in_process, LineStyle::Comments)
        .map_err(|errors| Refused::Unsupported(errors[0].message.clone()))?;
    let includes = [root().join("runtime/xdp")];
    let object = match compile_bpf(&compiled.name, &artifact.source, Mode::Record, &includes) {
        Err(CompileError::Stack { .. }) => return Err(Refused::Large),
        object => object.unwrap_or_else(|e| panic!("{}: {e}", program.name)),
    };
    let sandbox = Sandbox::new(program.ports).unwrap_or_else(|e| panic!("{e}"));
    let options = LoadOptions { mode: Mode::Record, ifindex: sandbox.ifindex() };
    let loaded = match Loaded::load(compiled, &artifact, &object, &options) {
        Err(XdpError::Refused { reason, .. }) if reason.contains("too large") => {
            return Err(Refused::Large);
        }
        loaded => loaded.unwrap_or_else(|e| panic!("{}: {e}", program.name)),
    };
    let mut tables = loaded.tables();
    control::apply(&mut tables, entries).unwrap_or_else(|e| panic!("{}: {e}", program.name));
    let mut session = Session::new(sandbox, loaded, &includes).unwrap_or_else(|e| panic!("{e}"));
    let fits = |event: &&InputEvent| match &event.input {
        Input::Net { frame, .. } => (SMALLEST_FRAME..=LARGEST_FRAME).contains(&frame.len()),
        Input::Host { .. } | Input::Tick { .. } => true,
    };
    let events: Vec<InputEvent> = events.iter().filter(fits).cloned().collect();
    let keep_going = &mut |_| true;
    let patience = Duration::from_secs(120);
    let mut options =
        LiveOptions { window: LARGEST_WINDOW, per_event: false, patience, keep_going };
    let run =
        session.run(&events, &mut options).unwrap_or_else(|e| panic!("{}: {e}", program.name));
    let found = differences(program, entries, &run, &tables).unwrap_or_else(|e| panic!("{e}"));
    Ok((run, found))
}

fn compiled(program: &Verified<Program>) -> Verified<Program> {
    PassManager::new().run_default(program.clone()).unwrap_or_else(|e| panic!("{e}"))
}

/// Checks that the kernel takes the program as it is without recording, which is what runs on
/// interfaces.
fn loads_live(compiled: &Verified<Program>, pipeline: &Pipeline) {
    let artifact = xdp::generate_pipeline(compiled, pipeline, LineStyle::Comments)
        .unwrap_or_else(|errors| panic!("{}: {}", compiled.name, errors[0]));
    let object =
        compile_bpf(&compiled.name, &artifact.source, Mode::Live, &[root().join("runtime/xdp")])
            .unwrap_or_else(|e| panic!("{}: {e}", compiled.name));
    let options = LoadOptions { mode: Mode::Live, ifindex: Vec::new() };
    Loaded::load(compiled, &artifact, &object, &options)
        .unwrap_or_else(|e| panic!("{}: {e}", compiled.name));
}

/// Every packet is counted in one place: what stages took, handed on and ended adds up. Copies are
/// nobody's packets.
fn adds_up(LiveRun { report, outputs, .. }: &LiveRun) {
    let LiveOutputs::Streams(streams) = outputs else { panic!("outputs by event") };
    let sum = |of: fn(&StageReport) -> u64| report.stages.iter().map(of).sum::<u64>();
    let (taken, handed) = (sum(|s| s.packets_in), sum(|s| s.handed));
    assert_eq!(taken - handed, report.packets_in, "{:?}", report.stages);
    let sent = sum(|s| s.sent) + streams.copies.len() as u64;
    assert_eq!(sent, report.sent.iter().sum::<u64>(), "{:?}", report.stages);
    assert_eq!(sum(|s| s.stack), report.stack, "{:?}", report.stages);
    assert_eq!(sum(|s| s.turned_away), 0, "{:?}", report.stages);
    assert_eq!(report.unaccounted, 0, "{:?}", report.stages);
}

fn plans(program: &Verified<Program>, target: &Target, seed: u64) -> Vec<(usize, Plan)> {
    let config = Config::default();
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: true };
    let found: Found = search::search(program, target, &config, Goal::Rate, limits, &|| false)
        .unwrap_or_else(|e| panic!("{}: {e}", program.name));
    let most = if soak() { 4 } else { 3 };
    let mut numbers = vec![found.best];
    for draw in 0..64 {
        let number = random(seed, draw) as usize % found.candidates.len();
        if numbers.len() < most && !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let plan = |n: usize| assemble::plan(program, target, &config, Objective::Rate, &found, n);
    numbers.into_iter().map(|n| (n, plan(n))).collect()
}

#[test]
fn examples_do_the_same_in_stages() {
    if skipped() {
        return;
    }
    let target = nicforge_target::find("xdp").unwrap_or_else(|e| panic!("{e}"));
    let (several, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    for_each(|example| {
        if !needs_host(&example.program, &target).is_empty() {
            return println!("left out: what {} needs is in the process", example.name);
        }
        for (at, (number, plan)) in plans(&example.program, &target, 7).into_iter().enumerate() {
            let name = format!("{} candidate {number}", example.name);
            let cut = assemble::program_of(&plan).unwrap_or_else(|e| panic!("{name}: {e}"));
            let compiled = compiled(&cut);
            let pipeline =
                pipeline::of_plan(&plan, &compiled).unwrap_or_else(|e| panic!("{name}: {e}"));
            match run(&example.program, &compiled, &pipeline, &example.entries, &example.events) {
                Ok((run, found)) => {
                    assert!(
                        found.is_empty(),
                        "{name}: {} differences, {:?}",
                        found.len(),
                        found[0]
                    );
                    adds_up(&run);
                    loads_live(&compiled, &pipeline);
                    several.fetch_add(u64::from(plan.stages.len() > 1), Ordering::Relaxed);
                }
                Err(why) => {
                    assert!(at > 0, "{name}, the best plan, does not fit: {}", why.why());
                    println!("{name} does not fit: {}", why.why());
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    let (several, refused) = (several.into_inner(), refused.into_inner());
    println!("{several} plans of several stages, {refused} that do not fit");
    // Some stages of kv_cache and tcp_rx_offload are more than the kernel's verifier looks at (a
    // million instructions).
    assert!(
        several >= 40 && refused <= 3,
        "{several} plans of several stages, {refused} that do not fit"
    );
}

/// Stages in the order in which the handlers of a cut program send to each other, one replica each.
fn line(program: &Program) -> Pipeline {
    let stages = nicforge_planner::stages::stages(program);
    let stages = stages.into_iter().map(|handlers| PipeStage {
        handlers,
        replicas: 1,
        ordered: false,
        locked: false,
    });
    Pipeline {
        stages: stages.collect(),
        steering: Vec::new(),
        ordered_output: false,
        context: Default::default(),
    }
}

#[test]
fn random_programs_do_the_same_in_two_stages() {
    if skipped() {
        return;
    }
    let first = setting("NICFORGE_RANDOM_SEED", 0);
    let count = setting("NICFORGE_RANDOM_PROGRAMS", 12);
    let (mut ran, mut seed) = (0, first);
    while ran < count {
        assert!(
            seed < first + 40 * count,
            "only {ran} of {} random programs can be cut",
            seed - first
        );
        ran += u64::from(random_program(seed));
        seed += 1;
    }
}

/// Cuts the program of a seed and runs it; whether that was possible.
fn random_program(seed: u64) -> bool {
    let program = generate_from(&decisions(seed), generate::Options::PORTABLE.for_seed(seed));
    let prepared = cut::prepare(&program).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let takes_packets = |h: &nicforge_ir::HandlerId| {
        let event = &program.events[program.handlers[*h].event];
        event.direction == Direction::In && event.name == "net_recv"
    };
    let Some(handler) = prepared.handlers.keys().find(takes_packets) else { return false };
    let options = cut::Options { without_packet: false, ..cut::Options::default() };
    let weights = cut::Weights { op: &|_, _, _| 1.0 };
    let Ok(cut) = cut::cut(&prepared, handler, &weights, &options) else { return false };
    let compiled = compiled(&cut.program);
    let mut events = generate::events(seed, 800);
    events.retain(|event| matches!(event.input, Input::Net { .. }));
    match run(&program, &compiled, &line(&compiled), &[], &events) {
        Ok((run, found)) => {
            // A packet whose headers found no room did not go all its way.
            let no_room = run.report.drops.iter().any(|(id, _, n)| id.is_none() && *n > 0);
            if no_room {
                return false;
            }
            let text = || print(&cut.program, PrintOptions::default());
            assert!(found.is_empty(), "seed {seed}: {:?}\n{}", found[0], text());
            true
        }
        Err(_) => false,
    }
}

/// Nine of ten frames have one key, the others many.
fn skewed(count: usize) -> Vec<InputEvent> {
    let frame = |i: u64| {
        let number = random(3, i);
        let key = if number % 10 < 9 { 5 } else { (number >> 8) as u8 };
        let mut frame = vec![(number >> 16) as u8; 60];
        frame[0] = key;
        frame
    };
    let event = |i: u64| InputEvent {
        time_ns: i,
        seed: i,
        input: Input::Net { port: (i / 100) as u32 % 2, frame: frame(i) },
    };
    (0..count as u64).map(event).collect()
}

fn stage(program: &Program, name: &str, replicas: u32) -> PipeStage {
    let found = program.handlers.iter().find(|(_, h)| h.name == name);
    PipeStage {
        handlers: vec![found.unwrap_or_else(|| panic!("no handler {name}")).0],
        replicas,
        ordered: false,
        locked: false,
    }
}

/// Keyed state in a replicated stage: an update that got lost or came too early would change the
/// state that every later packet of the key carries away.
#[test]
fn replicas_keep_the_state_of_a_key() {
    if skipped() {
        return;
    }
    let program = internal("keyed");
    let steered = |event: &str, by| Steering { event: program.event_named(event).unwrap(), by };
    for replicas in [1, 2, 3] {
        let pipeline = Pipeline {
            stages: vec![
                stage(&program, "net_recv", 1),
                stage(&program, "count", replicas),
                stage(&program, "last", replicas),
            ],
            steering: vec![
                steered("count", SteerBy::Params(vec![(1, vec![])])),
                steered("last", SteerBy::RoundRobin),
            ],
            ordered_output: false,
            context: Default::default(),
        };
        let (run, found) = run(&program, &program, &pipeline, &[], &skewed(6000))
            .unwrap_or_else(|why| panic!("{}", why.why()));
        assert!(found.is_empty(), "{replicas} replicas: {:?}", found[0]);
        adds_up(&run);
        assert_eq!(run.report.stages[2].sent, 6000);
    }
}

/// The process has a thread for each replica: keys find theirs, and what goes on to a stage of
/// fewer replicas goes to another thread.
#[test]
fn keys_find_their_thread_of_the_process() {
    if skipped() {
        return;
    }
    // Nothing of the process goes to the operating system.
    let text = print(&internal("keyed"), PrintOptions::default());
    let program =
        parse(&text.replace("generate stack_recv(%pkt)", "drop %pkt, \"short\"")).unwrap();
    let program = verify(program).unwrap_or_else(|e| panic!("{}", e[0]));
    let count = program.event_named("count").unwrap();
    for (replicas, last) in [(2, 1), (3, 2), (1, 2)] {
        let pipeline = Pipeline {
            stages: vec![
                stage(&program, "net_recv", 1),
                stage(&program, "count", replicas),
                stage(&program, "last", last),
            ],
            steering: vec![Steering { event: count, by: SteerBy::Params(vec![(1, vec![])]) }],
            ordered_output: false,
            context: Default::default(),
        };
        let (run, found) = run_split(&program, &program, (&pipeline, &[1, 2]), &[], &skewed(3000))
            .unwrap_or_else(|why| panic!("{replicas} replicas: {}", why.why()));
        assert!(found.is_empty(), "{replicas} replicas: {:?}", found[0]);
        adds_up(&run);
    }
}

/// One handler with replicas: a program on the interface spreads packets by their key.
#[test]
fn one_stage_is_spread_over_cpus() {
    if skipped() {
        return;
    }
    let program = internal("per_source");
    let compiled = compiled(&program);
    for replicas in [2, 3] {
        let pipeline = Pipeline {
            stages: vec![stage(&compiled, "net_recv", replicas)],
            steering: vec![Steering {
                event: compiled.event_named("net_recv").unwrap(),
                by: SteerBy::Frame(vec![(0, 1)]),
            }],
            ordered_output: false,
            context: Default::default(),
        };
        let (run, found) = run(&program, &compiled, &pipeline, &[], &skewed(6000))
            .unwrap_or_else(|why| panic!("{}", why.why()));
        assert!(found.is_empty(), "{replicas} replicas: {:?}", found[0]);
        adds_up(&run);
        let names: Vec<&str> = run.report.stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["net_recv", "spread"]);
        assert_eq!(run.report.stages[1].handed, 6000);
    }
}

/// A stage that drops what it gets has its drops counted as its own.
#[test]
fn drops_are_counted_where_they_happen() {
    if skipped() {
        return;
    }
    let program = internal("dropping");
    let pipeline = Pipeline {
        stages: vec![stage(&program, "net_recv", 1), stage(&program, "second", 2)],
        steering: Vec::new(),
        ordered_output: false,
        context: Default::default(),
    };
    let (run, found) = run(&program, &program, &pipeline, &[], &skewed(1000))
        .unwrap_or_else(|why| panic!("{}", why.why()));
    assert!(found.is_empty(), "{:?}", found[0]);
    adds_up(&run);
    let [first, second] = &run.report.stages[..] else { panic!("{:?}", run.report.stages) };
    let reason = |stage: &StageReport| {
        stage.drops.iter().map(|(text, n)| (text.clone(), *n)).collect::<Vec<_>>()
    };
    assert_eq!(first.drops.iter().map(|d| d.1).sum::<u64>() + second.packets_in, 1000);
    assert_eq!(reason(second), [("unwanted".to_string(), second.packets_in)]);
    assert!(reason(first)[0].1 > 0 && reason(first)[0].0 == "unwanted");
    assert!(second.ns_per_packet > 0.0);
}

/// What a CPU map cannot carry is said before anything is loaded.
#[test]
fn what_does_not_fit_is_named() {
    let message = |name: &str, stages: &[&str]| {
        let program = internal(name);
        let stages = stages.iter().map(|name| stage(&program, name, 1)).collect();
        let pipeline = Pipeline {
            stages,
            steering: Vec::new(),
            ordered_output: false,
            context: Default::default(),
        };
        let errors = xdp::generate_pipeline(&program, &pipeline, LineStyle::Comments).unwrap_err();
        errors.iter().map(|e| e.message.clone()).collect::<Vec<_>>().join("\n")
    };
    let spread = message("spread", &["net_recv", "count", "note", "last"]);
    assert_eq!(spread, "event `note` between stages carries 0 packets");
    let wide = message("wide", &["net_recv", "second"]);
    assert!(
        wide.starts_with(
            "event `second` carries 232 bytes in packet metadata, which has room for 216: `big` (208 bytes)"
        ),
        "{wide}"
    );
    let cycle = message("cycle", &["net_recv", "again", "tick"]);
    assert!(
        cycle.contains("`again` sends event `again` to its own or an earlier stage"),
        "{cycle}"
    );
}

/// Which of an event's inserts a full table refused is repeated, not just how many.
#[test]
fn refused_inserts_are_told_apart() {
    if skipped() {
        return;
    }
    let program = internal("full");
    let event = |i: u64| {
        let mut frame = vec![0; 60];
        (0..3).for_each(|at| frame[at] = random(5, 3 * i + at as u64) as u8 % 8);
        InputEvent { time_ns: i, seed: i, input: Input::Net { port: 0, frame } }
    };
    let events: Vec<InputEvent> = (0..200).map(event).collect();
    let (run, found) = run(&program, &program, &line(&program), &[], &events)
        .unwrap_or_else(|why| panic!("{}", why.why()));
    assert!(found.is_empty(), "{:?}", found[0]);
    assert!(run.refusals.len() > 50, "only {} refused", run.refusals.len());
}
