//! Generated programs on the targets, each against the interpreter: the same, refused with a
//! reason, or different.

use std::ops::Deref;
use std::sync::OnceLock;

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::rtl::Wanted;
use nicforge_codegen::{LineStyle, dpdk, host, pipeline, xdp};
use nicforge_ir::{
    Direction, Entry, Input, InputEvent, Interp, Op, Output, Program, TableBackend, TableId,
    Verified,
};
use nicforge_passes::PassManager;
use nicforge_passes::fuse::fuse;
use nicforge_plan::{HostSide, Objective};
use nicforge_planner::mapping::Goal;
use nicforge_planner::search::{Limits, NoPlan, search};
use nicforge_planner::start::start;
use nicforge_planner::{assemble, instance::Config};
use nicforge_run::capacity;
use nicforge_run::compile::{CompileError, Effort, Mode, compile_bpf_ahead};
use nicforge_run::control;
use nicforge_run::dpdk::{Difference, DpdkError, verify_dpdk};
use nicforge_run::host::{HostError, HostOptions, HostProgram};
use nicforge_run::nfp::EnginesProgram;
use nicforge_run::rtl::{Drive, RtlProgram};
use nicforge_run::spin::{BuildError, CoresError, CoresProgram};
use nicforge_run::xdp::compile_bpf;
use nicforge_run::xdp::{
    HEADROOM, LARGEST_TEST_FRAME, LoadOptions, Loaded, SMALLEST_FRAME, XdpError,
};
use nicforge_target::support;

use crate::root;

/// In front of a reason that `nicforge check` does not give.
pub const UNTOLD: &str = "not told by check: ";

/// Plans that the planner makes of a program here.
const CANDIDATES: u32 = 8;

/// Where programs run here.
pub const TARGETS: [&str; 8] =
    ["host", "xdp", "dpdk", "liquidio", "agilio-cx", "pspin", "panic", "u280"];

/// What came of a program on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// The matrix says that the target has not what the program asks for.
    Lacks(String),
    /// Nothing can be compared here, for a reason that is not ours.
    Left(String),
    /// The target does not take the program; why.
    Refused(String),
    /// It gives something else, or our own code fails.
    Wrong(String),
}

/// A program, and what targets' generators take of it, in one stage, made once for all targets.
pub struct Subject {
    program: Verified<Program>,
    plain: OnceLock<Made>,
    fused: OnceLock<Made>,
}

type Made = Result<Verified<Program>, String>;

impl Subject {
    pub fn new(program: Verified<Program>) -> Subject {
        Subject { program, plain: OnceLock::new(), fused: OnceLock::new() }
    }

    fn lowered(&self, target: &str) -> &Made {
        let fuses = matches!(target, "xdp" | "u280" | "pspin");
        let made = if fuses { &self.fused } else { &self.plain };
        made.get_or_init(|| {
            let program = self.program.clone();
            let program = if fuses { fuse(program) } else { Ok(program) };
            program
                .and_then(|program| PassManager::new().run_default(program))
                .map_err(|error| error.to_string())
        })
    }
}

impl Deref for Subject {
    type Target = Verified<Program>;

    fn deref(&self) -> &Verified<Program> {
        &self.program
    }
}

/// A program with what it is run on.
pub struct Case<'c> {
    pub program: &'c Subject,
    pub entries: &'c [(TableId, Entry)],
    pub events: &'c [InputEvent],
    /// Of compilers on `host` and simulated cores. That of BPF is always full, that of engines
    /// always little.
    pub effort: Effort,
}

/// The effort that a seed's program is worth: most are done soon, so that there can be many, and
/// some of every share of programs are as users have them.
pub fn effort(seed: u64) -> Effort {
    if (seed + seed / 4) % 4 == 1 { Effort::Full } else { Effort::Little }
}

fn host_options(effort: Effort) -> HostOptions {
    HostOptions { effort, ..HostOptions::default() }
}

/// Runs a program on a target and in the interpreter; `plan:` in front of a target's name cuts it
/// into stages as the planner does.
pub fn judge(name: &str, case: &Case) -> Verdict {
    let planned = name.strip_prefix("plan:");
    let target = planned.unwrap_or(name);
    // `host` is this process and no target of users.
    if let Ok(found) = nicforge_target::find(target)
        && let Some(missing) = support::missing(case.program, &found).first()
    {
        return Verdict::Lacks(missing.what.clone());
    }
    if planned.is_some() {
        return on_plan(target, case);
    }
    let compiled = match case.program.lowered(target) {
        Ok(compiled) => compiled,
        Err(error) => return Verdict::Wrong(error.clone()),
    };
    match target {
        "host" => on_host(case, compiled),
        "xdp" => on_xdp(case, compiled),
        "u280" => on_rtl(case, compiled),
        // What micro-engines have not stands in handlers of the host.
        "agilio-cx" if has_ciphers(compiled) => {
            Verdict::Left("its host's handlers run in plans of several stages only".into())
        }
        _ => on_stages(target, case, compiled, (&Pipeline::single(compiled), None), case.program),
    }
}

/// Compiles what [`judge`] will need of several programs in one process. What is wrong with any of
/// them is for it to say.
pub fn ahead(target: &str, programs: &[&Subject], effort: Effort) {
    let found = nicforge_target::find(target).ok();
    let fits = |program: &&&Subject| {
        found.as_ref().is_none_or(|target| support::missing(program, target).is_empty())
    };
    let lowered = programs.iter().filter(fits);
    let lowered = lowered.filter_map(|program| program.lowered(target).as_ref().ok());
    let lowered: Vec<&Verified<Program>> = lowered.collect();
    let compiled = match target {
        "host" => {
            let made = lowered
                .iter()
                .filter_map(|program| host::generate(program, LineStyle::Comments).ok());
            let sources: Vec<String> = made.map(|artifact| artifact.source).collect();
            let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
            nicforge_run::host::compile_ahead(&sources, &host_options(effort))
        }
        "xdp" => {
            let taken = lowered.iter().filter(|program| from_outside(program));
            let made = taken.filter_map(|program| xdp::generate(program, LineStyle::Comments).ok());
            let sources: Vec<_> = made.map(|artifact| artifact.source).collect();
            let sources: Vec<_> = sources.iter().collect();
            compile_bpf_ahead("generated", &sources, Mode::Replay, &[root().join("runtime/xdp")])
        }
        "liquidio" | "agilio-cx" => {
            let made = lowered.iter().filter_map(|program| {
                engines(target, program, &Pipeline::single(program), None).ok()
            });
            EnginesProgram::compile_ahead(&made.collect::<Vec<_>>())
        }
        "dpdk" => {
            let single =
                |program| dpdk::generate(program, &Pipeline::single(program), LineStyle::Comments);
            let made = lowered.iter().filter_map(|program| single(program).ok());
            let sources: Vec<String> = made.map(|artifact| artifact.source).collect();
            let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
            nicforge_run::dpdk::ahead(&sources, true).map_err(std::io::Error::other)
        }
        _ => Ok(()),
    };
    compiled.unwrap_or_else(|error| panic!("{target}: {error}"));
}

fn engines(
    name: &str,
    compiled: &Verified<Program>,
    pipeline: &Pipeline,
    placement: Option<Placement>,
) -> Result<EnginesProgram, DpdkError> {
    let engines = if name == "liquidio" { Engines::Threads } else { Engines::Nfp };
    let memories = vec!["emem".to_string(); compiled.tables.len()];
    let placement = placement.unwrap_or(match engines {
        Engines::Nfp => Placement { memories, units: Vec::new(), ..Default::default() },
        Engines::Threads => Placement::default(),
    });
    EnginesProgram::new(compiled, pipeline, &placement, engines)
}

/// True if a handler calls a cipher or a digest.
fn has_ciphers(program: &Program) -> bool {
    let bodies = program.handlers.values().map(|handler| &handler.body);
    let mut insts = bodies.flat_map(|body| body.insts.values());
    insts.any(|inst| matches!(inst.op, Op::Crypto { .. }))
}

/// True if all handlers take events from outside.
fn from_outside(program: &Program) -> bool {
    program
        .handlers
        .values()
        .all(|handler| program.events[handler.event].direction == Direction::In)
}

/// Runs stages on whatever stands for a target here.
fn on_stages(
    name: &str,
    case: &Case,
    compiled: &Verified<Program>,
    (pipeline, placement): (&Pipeline, Option<Placement>),
    reference: &Verified<Program>,
) -> Verdict {
    match name {
        "dpdk" => of_differences(
            verify_dpdk(reference, compiled, pipeline, case.entries, case.events).map(|(_, f)| f),
        ),
        "liquidio" | "agilio-cx" => {
            let made = engines(name, compiled, pipeline, placement);
            of_differences(
                made.and_then(|made| made.verify(reference, case.entries, case.events))
                    .map(|(_, f)| f),
            )
        }
        _ => on_cores(name, case, compiled, (pipeline, &placement.unwrap_or_default()), reference),
    }
}

/// The plan of most stages among the first that the planner finds.
fn on_plan(name: &str, case: &Case) -> Verdict {
    let target = nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}"));
    let limits = Limits { candidates: CANDIDATES, until: None, beyond_ceiling: true };
    let config = Config::default();
    let source = match start(case.program, &target) {
        Ok(source) => source,
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    let found = match search(&source, &target, &config, Goal::Rate, limits, &|| false) {
        Ok(found) => found,
        // What memory and units a target has is in its file; `check` says the same.
        Err(error @ (NoPlan::DoesNotFit { .. } | NoPlan::NoWay { .. })) => {
            return Verdict::Lacks(error.to_string());
        }
        Err(error) => return Verdict::Wrong(format!("no plan: {error}")),
    };
    let plan = |number| assemble::plan(&source, &target, &config, Objective::Rate, &found, number);
    let all = (0..found.candidates.len()).map(plan);
    let Some(plan) = all.max_by_key(|plan| (plan.stages.len(), plan.workers())) else {
        return Verdict::Refused("no plan".into());
    };
    let made = || -> Result<_, String> {
        let capacities =
            capacity::roomy(case.program, case.entries, case.events, |_| plan.workers() > 1);
        let roomy = |program: &Verified<Program>| {
            capacity::with_capacities(program, &capacities).map_err(|errors| errors[0].to_string())
        };
        let planned = assemble::program_of(&plan).map_err(|e| e.to_string())?;
        let compiled =
            PassManager::new().run_default(roomy(&planned)?).map_err(|e| e.to_string())?;
        let stages = pipeline::of_plan(&plan, &compiled).map_err(|e| e.to_string())?;
        let placement = pipeline::placement(&plan, &compiled, &HostSide::of(&target));
        Ok((roomy(case.program)?, compiled, stages, placement))
    };
    match made() {
        Ok((reference, compiled, stages, placement)) => {
            on_stages(name, case, &compiled, (&stages, Some(placement)), &reference)
        }
        Err(error) => Verdict::Wrong(error),
    }
}

fn first(found: &[Difference]) -> Verdict {
    found.first().map_or(Verdict::Same, |difference| Verdict::Wrong(format!("{difference:?}")))
}

fn of_differences(ran: Result<Vec<Difference>, DpdkError>) -> Verdict {
    match ran {
        Ok(found) => first(&found),
        Err(error @ DpdkError::Unsupported(_)) => Verdict::Refused(error.to_string()),
        Err(error) => Verdict::Wrong(error.to_string()),
    }
}

fn on_host(case: &Case, compiled: &Verified<Program>) -> Verdict {
    let mut host = match HostProgram::build_with(compiled, host_options(case.effort)) {
        Ok(host) => host,
        Err(error @ HostError::Unsupported(_)) => return Verdict::Refused(error.to_string()),
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    let mut interp = Interp::new(case.program);
    let filled = control::apply(&mut interp, case.entries)
        .and_then(|()| control::apply(host.tables_mut(), case.entries));
    if let Err(error) = filled {
        return Verdict::Wrong(error.to_string());
    }
    for (i, event) in case.events.iter().enumerate() {
        let want = interp.run(event).map_err(|e| e.to_string());
        let got = host.run_one(event).map_err(|e| e.to_string());
        if want != got {
            return Verdict::Wrong(format!(
                "event {i} {event:?}\ninterpreter {want:?}\nhost        {got:?}"
            ));
        }
    }
    same_tables(case.program, &interp, host.tables())
}

fn same_tables(program: &Program, interp: &Interp, tables: &dyn TableBackend) -> Verdict {
    for (id, table) in &program.tables {
        let (want, got) = (interp.dump(id), tables.dump(id));
        if want != got {
            return Verdict::Wrong(format!(
                "table {}\ninterpreter {want:?}\ntarget      {got:?}",
                table.name
            ));
        }
    }
    Verdict::Same
}

fn on_xdp(case: &Case, compiled: &Verified<Program>) -> Verdict {
    if !from_outside(compiled) {
        return Verdict::Left("handlers of queues run in plans of several stages only".into());
    }
    let events = kernel_takes(case);
    if events.is_empty() {
        return Verdict::Left("the kernel takes none of the events".into());
    }
    let artifact = match xdp::generate(compiled, LineStyle::Comments) {
        Ok(artifact) => artifact,
        Err(errors) => return Verdict::Lacks(errors[0].to_string()),
    };
    let object = match compile_bpf(
        "generated",
        &artifact.source,
        Mode::Replay,
        &[root().join("runtime/xdp")],
    ) {
        Ok(object) => object,
        Err(error @ CompileError::Stack { .. }) => return told(compiled, error.to_string()),
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    let options = LoadOptions { mode: Mode::Replay, ifindex: Vec::new() };
    let kernel = match Loaded::load(compiled, &artifact, &object, &options) {
        Ok(kernel) => kernel,
        Err(error @ XdpError::Refused { .. }) => return told(compiled, error.to_string()),
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    let mut interp = Interp::new(case.program);
    let mut tables = kernel.tables();
    let filled = control::apply(&mut interp, case.entries)
        .and_then(|()| control::apply(&mut tables, case.entries));
    if let Err(error) = filled {
        return Verdict::Wrong(error.to_string());
    }
    for (i, event) in events.into_iter().enumerate() {
        let want = interp.run(event).map_err(|e| e.to_string());
        let got = kernel.test_run(event).map_err(|e| e.to_string());
        if want != got {
            return Verdict::Wrong(format!(
                "event {i} {event:?}\ninterpreter {want:?}\nxdp         {got:?}"
            ));
        }
    }
    same_tables(case.program, &interp, &tables)
}

/// What the kernel refuses, `nicforge check` has to say before: it compiles the program as it runs
/// and asks the same verifier.
fn told(compiled: &Verified<Program>, reason: String) -> Verdict {
    let Ok(artifact) = xdp::generate(compiled, LineStyle::Directives) else {
        return Verdict::Refused(reason);
    };
    let headers = [root().join("runtime/xdp")];
    let untold = match compile_bpf("generated", &artifact.source, Mode::Live, &headers) {
        Ok(object) => nicforge_run::xdp::refusal(&object).is_none(),
        Err(CompileError::Stack { .. }) => false,
        Err(error) => return Verdict::Wrong(error.to_string()),
    };
    Verdict::Refused(if untold { format!("{UNTOLD}{reason}") } else { reason })
}

/// True if an LRU table has given entries up: the kernel's do not always evict the oldest.
fn evicted(interp: &Interp, program: &Program) -> bool {
    program.tables.keys().any(|table| interp.counters().evicted[table] > 0)
}

/// Events whose frames the kernel can take and make: at least a header long, within a page, and
/// grown by no more than the room in front. One that is left out changes no tables, so what later
/// ones make is found anew. The first that makes an LRU table evict ends them.
fn kernel_takes<'c>(case: &Case<'c>) -> Vec<&'c InputEvent> {
    let lengths = SMALLEST_FRAME..=LARGEST_TEST_FRAME;
    let comes = |event: &&InputEvent| match &event.input {
        Input::Net { frame, .. } => lengths.contains(&frame.len()),
        Input::Host { .. } | Input::Tick { .. } => true,
    };
    let mut left: Vec<&InputEvent> = case.events.iter().filter(comes).collect();
    loop {
        let mut interp = Interp::new(case.program);
        let _ = control::apply(&mut interp, case.entries);
        let mut evicts = false;
        let unfit = left.iter().position(|event| {
            let outputs = interp.run(event).unwrap_or_default();
            evicts |= evicted(&interp, case.program);
            evicts
                || interp.growth() > HEADROOM
                || outputs.iter().any(|output| match output {
                    Output::Send { frame, .. }
                    | Output::Stack { frame }
                    | Output::HostPacket { frame } => !lengths.contains(&frame.len()),
                    _ => false,
                })
        });
        match unfit {
            Some(at) if evicts => left.truncate(at),
            Some(at) => drop(left.remove(at)),
            None => return left,
        }
    }
}

fn on_cores(
    name: &str,
    case: &Case,
    compiled: &Verified<Program>,
    (pipeline, placement): (&Pipeline, &Placement),
    reference: &Verified<Program>,
) -> Verdict {
    let target = nicforge_target::find(name).unwrap_or_else(|e| panic!("{e}"));
    let made = CoresProgram::with_effort(compiled, pipeline, placement, &target, case.effort);
    let events: Vec<InputEvent> =
        case.events.iter().filter(|event| nicforge_run::spin::takes(event)).cloned().collect();
    match made.and_then(|made| made.verify(reference, case.entries, &events)) {
        Ok((_, found)) => first(&found),
        Err(
            error @ (CoresError::Unsupported(_)
            | CoresError::Place { .. }
            | CoresError::Build(BuildError::Large { .. } | BuildError::Stack { .. })),
        ) => Verdict::Refused(error.to_string()),
        Err(error) => Verdict::Wrong(error.to_string()),
    }
}

fn on_rtl(case: &Case, compiled: &Verified<Program>) -> Verdict {
    let design = match RtlProgram::new(compiled, Wanted::Best) {
        Ok(design) => design,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    let events: Vec<InputEvent> =
        case.events.iter().filter(|event| nicforge_run::rtl::takes(event)).cloned().collect();
    match design.verify(case.program, case.entries, &events, &Drive::default()) {
        Ok((_, found)) => {
            found.first().map_or(Verdict::Same, |found| Verdict::Wrong(format!("{found:?}")))
        }
        Err(error) => Verdict::Wrong(error.to_string()),
    }
}
