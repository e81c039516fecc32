//! From a program and what is said about its plan to something a code generator for processes takes.

use nicforge_codegen::dpdk::{self, Pipeline};
use nicforge_codegen::nfp::Engines;
use nicforge_codegen::xdp::generate_split;
use nicforge_codegen::{LineStyle, XdpArtifact, pipeline};
use nicforge_ir::{Entry, InputEvent, Program, Side, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_planner::assemble;
use nicforge_run::capacity;
use nicforge_run::dpdk::{Difference, DpdkError, DpdkRun, Machine, verify_apart, verify_on};
use nicforge_run::nfp::EnginesProgram;
use nicforge_run::spin::{CoresError, CoresProgram};
use nicforge_target::Generator;
use nicforge_target::support::calls_c_on_host;

use super::{matrix, plan};
use crate::args::{Planned, Target};
use crate::context::Failure;
use crate::program;

/// A planned program, ready for its code generator.
pub struct Job {
    pub plan: Plan,
    pub program: Verified<Program>,
    pub pipeline: Pipeline,
    /// Stages of the host run in a process of their own.
    pub apart: bool,
    /// The DMA device that leads there.
    pub dma: Option<String>,
}

/// The plan for a target that runs as processes or engines.
pub fn job(target: Target, planned: &Planned, source: &Verified<Program>) -> Result<Job, Failure> {
    made(planned, source, target.name())
}

/// The plan for XDP, if one was asked for or a handler must run in a process: else a program is one stage.
pub fn xdp(planned: &Planned, source: &Verified<Program>) -> Result<Option<Job>, Failure> {
    let mut job = (asked(planned) || split(source)?).then(|| made(planned, source, "xdp")).transpose()?;
    job.iter_mut().for_each(Job::without_locks);
    Ok(job)
}

/// Stages that the plan has in a process of the host.
pub fn in_process(job: &Job) -> Result<Vec<usize>, Failure> {
    let target = matrix::find("xdp")?;
    let inside = |group: &String| {
        target.units.iter().any(|unit| &unit.name == group && unit.codegen == Generator::Host)
    };
    let stages = job.plan.stages.iter().enumerate();
    Ok(stages.filter(|(_, stage)| inside(&stage.group)).map(|(at, _)| at).collect())
}

/// Whether a plan was asked for.
pub fn asked(planned: &Planned) -> bool {
    planned.plan.is_some() || planned.candidate.is_some()
}

/// Whether some handler must run in a process beside the kernel.
pub fn split(source: &Program) -> Result<bool, Failure> {
    let pinned = source.handlers.values().any(|handler| handler.side == Some(Side::Host));
    Ok(pinned || !calls_c_on_host(source, &matrix::find("xdp")?).is_empty())
}

/// Its stages as C for the kernel.
pub fn xdp_artifact(job: &Job, lines: LineStyle) -> Result<XdpArtifact, Failure> {
    generate_split(&job.program, &job.pipeline, &in_process(job)?, lines)
        .map_err(|e| program::unsupported(&job.program, &e))
}

fn made(planned: &Planned, source: &Verified<Program>, target: &str) -> Result<Job, Failure> {
    if planned.host_process && target != "dpdk" {
        let why = match target {
            "xdp" => "on xdp they always do",
            _ => "the others have no such processes",
        };
        return Err(Failure::usage(format!("--host-process is for --target dpdk: {why}")));
    }
    on(planned, source, &matrix::find(target)?)
}

/// The plan for any target, to be simulated or run.
pub fn on(
    planned: &Planned,
    source: &Verified<Program>,
    target: &nicforge_target::Target,
) -> Result<Job, Failure> {
    let source = program::to_plan(source, target)?;
    let plan = plan::chosen(planned, &source, target)?;
    let job = of_plan(plan, &source, planned.host_process)?;
    Ok(Job { dma: planned.dma.clone(), ..job })
}

/// A plan that was found already. `source` is the program as the target plans it.
pub fn of_plan(plan: Plan, source: &Verified<Program>, apart: bool) -> Result<Job, Failure> {
    let cut = assemble::program_with(&plan, source)
        .map_err(|e| Failure::user(format!("internal error: the planned program is wrong: {e}")))?;
    let program = program::lower_planned(&cut)?;
    let pipeline = pipeline::of_plan(&plan, &program).map_err(Failure::user)?;
    Ok(Job { plan, program, pipeline, apart, dma: None })
}

/// What runs a target's DPDK applications.
pub fn machine(target: Target) -> Machine {
    if target == Target::Bluefield2 { Machine::Bluefield2 } else { Machine::Here }
}

impl Job {
    /// There are no locks in the kernel's programs yet: replicas that would share tables under them are one.
    pub fn without_locks(&mut self) {
        for stage in &mut self.pipeline.stages {
            stage.replicas = if stage.locked { 1 } else { stage.replicas };
        }
    }

    /// Runs events as the target does and in the interpreter; gives the run and what differs.
    pub fn compare(
        &mut self,
        target: Target,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), Failure> {
        if target.is_bare() {
            return self.compare_bare(target, source, entries, events);
        }
        // A pipeline's shards of a hash table hold together what the table may hold; an NFP's engines each count for themselves.
        let one_room = dpdk::one_room(&self.program, &self.pipeline);
        let counted: Vec<TableId> = match target.engines() {
            Some(Engines::Nfp) => Vec::new(),
            _ => self.program.tables.keys().zip(one_room).filter(|(_, one)| *one).map(|(t, _)| t).collect(),
        };
        let reference = self.make_room(source, entries, events, |table| !counted.contains(&table))?;
        if let Some(engines) = target.engines() {
            let ran = self.engines(engines)?.verify(&reference, entries, events);
            return ran.map_err(|e| failure(&self.program, e));
        }
        if self.apart {
            let dma = self.dma.as_deref();
            return verify_apart(&reference, &self.program, &self.pipeline, dma, entries, events)
                .map_err(|e| failure(&self.program, e));
        }
        verify_on(machine(target), &reference, &self.program, &self.pipeline, entries, events)
            .map_err(|e| failure(&self.program, e))
    }

    /// The program for engines joined by queues, with tables where the plan has them.
    pub fn engines(&self, engines: Engines) -> Result<EnginesProgram, Failure> {
        let placement = pipeline::placement(&self.plan, &self.program);
        EnginesProgram::new(&self.program, &self.pipeline, &placement, engines)
            .map_err(|e| failure(&self.program, e))
    }

    /// The same on simulated cores.
    fn compare_bare(
        &mut self,
        target: Target,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), Failure> {
        let reference = self.make_room(source, entries, events, |_| true)?;
        let ran = self.cores(target)?.verify(&reference, entries, events);
        let (run, differences) = ran.map_err(|e| bare_failure(&self.program, e))?;
        Ok((run.run, differences))
    }

    /// The program for bare cores.
    pub fn cores(&self, target: Target) -> Result<CoresProgram, Failure> {
        let placement = pipeline::placement(&self.plan, &self.program);
        let target = matrix::find(target.name())?;
        CoresProgram::new(&self.program, &self.pipeline, &placement, &target)
            .map_err(|e| bare_failure(&self.program, e))
    }

    /// The same for programs on `xdp`, where only tables of the process have parts: replicas of the kernel share theirs.
    pub fn room_for_shards(
        &mut self,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<Verified<Program>, Failure> {
        let inside = in_process(self)?;
        let sharded = inside.iter().any(|stage| self.pipeline.stages[*stage].replicas > 1);
        if sharded { self.make_room(source, entries, events, |_| true) } else { Ok(source.clone()) }
    }

    /// Makes room in those of this program's tables that are full with these inputs, and gives the program to compare with. One
    /// replica finds a table full exactly when the interpreter does; several decide by luck.
    pub fn make_room(
        &mut self,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
        among: impl Fn(TableId) -> bool,
    ) -> Result<Verified<Program>, Failure> {
        if self.plan.stages.iter().all(|stage| stage.replicas == 1) {
            return Ok(source.clone());
        }
        let capacities = capacity::roomy(source, entries, events, among);
        let widen = |program: &Verified<Program>| {
            let mut program = program.clone().into_inner();
            program.tables.values_mut().zip(&capacities).for_each(|(table, room)| table.capacity = *room);
            program::check(program)
        };
        let reference = widen(source)?;
        self.program = widen(&self.program)?;
        Ok(reference)
    }
}

/// What DPDK cannot do is shown on source lines, everything else as it is.
pub fn failure(program: &Program, error: DpdkError) -> Failure {
    match &error {
        DpdkError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}

/// What bare cores cannot do is shown on source lines, everything else as it is.
pub fn bare_failure(program: &Program, error: CoresError) -> Failure {
    match &error {
        CoresError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}
