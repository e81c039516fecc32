//! Images for bare RISC-V cores, run here on simulated ones: handler units of a sPIN NIC, or cores
//! behind a scheduler.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_planner::instance;
use nicforge_run::dpdk::{Difference, DpdkRun};
use nicforge_run::spin::{self, CoresProgram, LONGEST};
use nicforge_target::{Generator, LinkKind, Scope, Target, Traffic};

use super::{Build, Counted, Pipelined, Product, first};
use crate::options::Inputs;
use crate::pipelines::{self, Job};
use crate::{Failure, Loaded, events, program};

pub struct Riscv;

/// The program for a target's cores.
fn cores(job: &Job, target: &Target) -> Result<CoresProgram, Failure> {
    CoresProgram::new(&job.program, &job.pipeline, &job.placement(target), target)
        .map_err(|e| pipelines::bare_failure(&job.program, e))
}

/// The rate of the slowest stage, if its cores share its work evenly: an event costs what the cores
/// took for all events of the capture. The ports bound it.
fn counted(target: &Target, loaded: &Loaded, plan: &Plan, inputs: &Inputs) -> Counted {
    let events: Vec<InputEvent> = events::captures(inputs, &loaded.program, &loaded.path)?
        .into_iter()
        .filter(spin::takes)
        .collect();
    let entries = events::tables(inputs, &loaded.program, &loaded.path)?;
    let source = program::to_plan(&loaded.program, target)?;
    let job = pipelines::of_plan(plan.clone(), &source, false)?;
    let ran = cores(&job, target)?.run(&events, &entries);
    let run = ran.map_err(|e| pipelines::bare_failure(&job.program, e))?.run;
    let traffic = Traffic { frame_bytes: plan.frame_bytes, ..Traffic::default() };
    let mut rate = instance::line_rate(target, job.program.ports, traffic);
    for (number, stage) in job.pipeline.stages.iter().enumerate() {
        let workers = run.stats.workers.iter().filter(|worker| worker.stage == Some(number));
        let cycles: u64 = workers.map(|worker| worker.cycles).sum();
        if cycles > 0 {
            let each = cycles as f64 / events.len() as f64;
            rate = rate.min(f64::from(stage.replicas) * first(target).clock.value / each);
        }
    }
    Ok(rate)
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
        let app = cores(job, target)?;
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
        let ran = cores(job, target)?.verify(&reference, entries, events);
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

    fn counted(
        &self,
        target: &Target,
        loaded: &Loaded,
        plan: &Plan,
        inputs: &Inputs,
    ) -> Option<Counted> {
        Some(counted(target, loaded, plan, inputs))
    }
}
