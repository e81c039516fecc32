//! DPDK applications: lcores joined by rings, on this machine or on Arm cores that qemu emulates.

use nicforge_codegen::dpdk;
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_run::dpdk::{Difference, DpdkProgram, DpdkRun, Machine, verify_apart, verify_on};
use nicforge_target::{Generator, Target};

use super::{Build, Pipelined, Product};
use crate::Failure;
use crate::bench::{Bench, Failed, RUNS, Traffic, differs};
use crate::pipelines::{self, Job};

/// Stages as workers of a process, by the processor's counter.
const IN_PROCESS: Bench = Bench { place: "on this machine", runs: RUNS, measure: in_process };

pub struct Dpdk;

impl Pipelined for Dpdk {
    fn word(&self) -> Generator {
        Generator::Dpdk
    }

    fn stands_in(&self, target: &Target) -> Option<&'static str> {
        (Machine::of(target) != Machine::Here).then_some("functional: emulated")
    }

    fn has_processes(&self, target: &Target) -> bool {
        Machine::of(target) == Machine::Here
    }

    fn files(&self, target: &Target, build: &Build, job: &Job) -> Result<Product, Failure> {
        let app = DpdkProgram::new_on(Machine::of(target), &job.program, &job.pipeline)
            .map_err(|e| pipelines::failure(&job.program, e))?;
        if build.text {
            return Ok(Product::Text(app.artifact().source.clone()));
        }
        let built = app.path(false).map_err(|e| pipelines::failure(&job.program, e))?;
        let path = build.path(&job.program.name);
        std::fs::copy(built, &path)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
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
        let reference = job.make_room_beside(
            &dpdk::one_room(&job.program, &job.pipeline),
            source,
            entries,
            events,
        )?;
        let Job { program, pipeline, .. } = &*job;
        let ran = if job.apart {
            verify_apart(&reference, program, pipeline, job.dma.as_deref(), entries, events)
        } else {
            verify_on(Machine::of(target), &reference, program, pipeline, entries, events)
        };
        ran.map_err(|e| pipelines::failure(program, e))
    }

    fn has_ports(&self) -> bool {
        true
    }

    fn bench(&self, target: &Target) -> Option<Bench> {
        (Machine::of(target) == Machine::Here).then_some(IN_PROCESS)
    }
}

/// Packets per second of the busiest stage in a process.
fn in_process(
    target: &Target,
    plan: &Plan,
    program: &Verified<Program>,
    source: &Verified<Program>,
    traffic: &Traffic,
    apart: bool,
) -> Result<f64, Failed> {
    let mut fastest: f64 = 0.0;
    for _ in 0..RUNS {
        let mut job = pipelines::of_plan(plan.clone(), program, apart)?;
        let (run, differences) =
            Dpdk.compare(target, &mut job, source, &traffic.entries, &traffic.events)?;
        if !differences.is_empty() {
            return Err(differs(plan, differences.len()));
        }
        // The only worker of a program runs on the unit that talks to ports, and is counted there.
        let fused = run.stats.workers.len() == 2;
        let busiest = plan.stages.iter().enumerate().map(|(at, stage)| {
            let workers =
                run.stats.workers.iter().filter(|worker| worker.stage == Some(at) || fused);
            workers.map(|worker| worker.cycles).sum::<u64>() as f64 / f64::from(stage.replicas)
        });
        let cycles = busiest.fold(0.0, f64::max) / traffic.events.len().max(1) as f64;
        if cycles > 0.0 {
            fastest = fastest.max(run.stats.tsc_hz as f64 / cycles);
        }
    }
    if fastest > 0.0 {
        Ok(fastest)
    } else {
        Err(Failed::CannotRun("no stage had anything to do".to_string()))
    }
}
