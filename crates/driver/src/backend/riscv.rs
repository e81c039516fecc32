//! Images for bare RISC-V cores, run here on simulated ones: handler units of a sPIN NIC, or cores
//! behind a scheduler.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_planner::instance;
use nicforge_run::dpdk::{Difference, DpdkRun};
use nicforge_run::spin::{self, CoresProgram, LONGEST};
use nicforge_target::{Generator, LinkKind, Scope, Target};

use super::{Build, Count, Counted, Pipelined, Product, first};
use crate::bench::{self, Bench, Failed, differs};
use crate::pipelines::{self, Job};
use crate::simulation::Traffic;
use crate::verify::StageCycles;
use crate::{Failure, Loaded, program};

pub struct Riscv;

/// The program for a target's cores: for use, or to be compared.
fn cores(job: &Job, target: &Target, verify: bool) -> Result<CoresProgram, Failure> {
    let build = if verify { CoresProgram::new } else { CoresProgram::for_use };
    build(&job.program, &job.pipeline, &job.placement(target), target)
        .map_err(|e| pipelines::bare_failure(&job.program, e))
}

/// Cycles of a plan's stages on events, without those of the first ones, and packets per second of
/// the slowest stage if its cores share its work evenly.
fn count(
    target: &Target,
    plan: &Plan,
    source: &Verified<Program>,
    entries: &[(TableId, Entry)],
    events: &[InputEvent],
    before: usize,
) -> Counted {
    let job = pipelines::of_plan(plan.clone(), source, false)?;
    let ran = cores(&job, target, false)?.run(events, entries);
    let run = ran.map_err(|e| pipelines::bare_failure(&job.program, e))?;
    let (mut rate, mut stages) = (f64::INFINITY, Vec::new());
    for (number, (stage, planned)) in job.pipeline.stages.iter().zip(&plan.stages).enumerate() {
        let of_stage = |stay: &&spin::Stay| {
            let worker = &run.run.stats.workers[stay.worker];
            worker.stage == Some(number) && stay.event >= before
        };
        let (mut events_of, mut cycles) = (0, 0);
        for stay in run.stays.iter().filter(of_stage) {
            events_of += 1;
            cycles += stay.cycles;
        }
        if cycles > 0 {
            let each = cycles as f64 / (events.len() - before) as f64;
            rate = rate.min(f64::from(stage.replicas) * first(target).clock.value / each);
            stages.push(StageCycles {
                stage: planned.name.clone(),
                events: events_of,
                counted: cycles as f64 / events_of as f64,
                planned: planned.cycles,
            });
        }
    }
    Ok(Count { rate, stages })
}

/// As [`super::Backend::counted`]; the ports bound the rate.
fn counted(target: &Target, loaded: &Loaded, plan: &Plan, traffic: &Traffic) -> Counted {
    let all = traffic.before.iter().chain(&traffic.events);
    let events: Vec<InputEvent> = all.filter(|event| spin::takes(event)).cloned().collect();
    let before = traffic.before.iter().filter(|event| spin::takes(event)).count();
    let source = program::to_plan(&loaded.program, target)?;
    let count = count(target, plan, &source, &traffic.entries, &events, before)?;
    let sizes = nicforge_target::Traffic { frame_bytes: plan.frame_bytes, ..Default::default() };
    let line = instance::line_rate(target, source.ports, sizes);
    Ok(Count { rate: count.rate.min(line), ..count })
}

const ON_CORES: Bench = Bench { place: "on simulated cores", runs: 1, measure: on_cores };

/// Packets per second of the slowest stage by counted cycles, of a plan that does what the
/// interpreter does.
fn on_cores(
    target: &Target,
    plan: &Plan,
    program: &Verified<Program>,
    source: &Verified<Program>,
    traffic: &bench::Traffic,
    apart: bool,
) -> Result<f64, Failed> {
    let events: Vec<InputEvent> =
        traffic.events.iter().filter(|event| spin::takes(event)).cloned().collect();
    let mut job = pipelines::of_plan(plan.clone(), program, apart)?;
    let (_, differences) = Riscv.compare(target, &mut job, source, &traffic.entries, &events)?;
    if !differences.is_empty() {
        return Err(differs(plan, differences.len()));
    }
    let rate = count(target, plan, program, &traffic.entries, &events, 0)?.rate;
    if rate.is_finite() {
        Ok(rate)
    } else {
        Err(Failed::CannotRun("no stage had anything to do".to_string()))
    }
}

impl Pipelined for Riscv {
    fn word(&self) -> Generator {
        Generator::Riscv
    }

    fn accepts(&self, target: &Target) -> Result<(), String> {
        let group = &first(target).name;
        let own = target.memories.iter().any(|memory| memory.scope == Scope::Unit);
        let network = |link: &nicforge_target::Link| {
            link.kind == LinkKind::Noc && &link.from == group && &link.to == group
        };
        if target.spin.is_some() || own && target.links.iter().any(network) {
            return Ok(());
        }
        Err(format!(
            "codegen riscv is for a sPIN NIC or for cores behind a scheduler: give it a section [spin], or a memory of scope `unit` and \
             a link of kind `noc` from `{group}` to `{group}`; `nicforge targets show pspin` and `show panic` are such specs"
        ))
    }

    fn stands_in(&self, _: &Target) -> Option<&'static str> {
        Some("on simulated cores")
    }

    fn files(&self, target: &Target, build: &Build, job: &Job) -> Result<Product, Failure> {
        let app = cores(job, target, false)?;
        if build.text {
            return Ok(super::text(&app.artifact().files));
        }
        let path = super::folder(build, &job.program)?;
        app.write(&path).map_err(|e| pipelines::bare_failure(&job.program, e))?;
        Ok(Product::Written(path, None))
    }

    fn compare(
        &self,
        target: &Target,
        job: &mut Job,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), Failure> {
        let reference = job.make_room(source, entries, events, |_| true)?;
        let ran = cores(job, target, true)?.verify(&reference, entries, events);
        let (run, differences) = ran.map_err(|e| pipelines::bare_failure(&job.program, e))?;
        Ok((run.run, differences))
    }

    fn takes(&self, event: &InputEvent) -> bool {
        spin::takes(event)
    }

    fn limits(&self) -> String {
        format!("its cores take (over {LONGEST} bytes)")
    }

    fn counts_cycles(&self) -> bool {
        true
    }

    fn bench(&self, _: &Target) -> Option<Bench> {
        Some(ON_CORES)
    }

    fn counted(
        &self,
        target: &Target,
        loaded: &Loaded,
        plan: &Plan,
        traffic: &Traffic,
    ) -> Option<Counted> {
        Some(counted(target, loaded, plan, traffic))
    }
}
