//! From a program and what is said about its plan to something a code generator for processes
//! takes.

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::xdp::generate_split;
use nicforge_codegen::{LineStyle, XdpArtifact, pipeline};
use nicforge_ir::{Entry, InputEvent, Program, Side, TableId, Verified};
use nicforge_plan::{HostSide, Plan};
use nicforge_planner::assemble;
use nicforge_run::capacity;
use nicforge_run::dpdk::DpdkError;
use nicforge_run::nfp::EnginesProgram;
use nicforge_run::rtl::RtlProgram;
use nicforge_run::spin::CoresError;
use nicforge_target::support::needs_host;
use nicforge_target::{Generator, Target};

use crate::options::Planned;
use crate::{Failure, design, planning, program};

/// A planned program, ready for its code generator.
pub struct Job {
    pub plan: Plan,
    pub program: Verified<Program>,
    pub pipeline: Pipeline,
    /// Stages of the host run in a process of their own.
    pub apart: bool,
    /// The DMA device that leads there.
    pub dma: Option<String>,
    /// The user's command that runs images.
    pub exec: Option<String>,
}

/// The plan for a target whose programs are a pipeline of workers; some have processes of the host.
pub fn job(
    has_processes: bool,
    target: &Target,
    planned: &Planned,
    source: &Verified<Program>,
) -> Result<Job, Failure> {
    if planned.host_process && !has_processes {
        return Err(no_process("the others have no such processes"));
    }
    on(planned, source, target)
}

/// The error of `--host-process` where it is no choice.
fn no_process(why: &str) -> Failure {
    Failure::usage(format!("--host-process is for --target dpdk: {why}"))
}

/// The plan for XDP, if one was asked for or a handler must run in a process: else a program is one
/// stage.
pub fn xdp(
    planned: &Planned,
    source: &Verified<Program>,
    target: &Target,
) -> Result<Option<Job>, Failure> {
    if !asked(planned) && !split(source, target) {
        return Ok(None);
    }
    if planned.host_process {
        return Err(no_process("on xdp they always do"));
    }
    let mut job = on(planned, source, target)?;
    job.without_locks();
    Ok(Some(job))
}

/// Stages that the plan has in a process of the host.
pub fn in_process(job: &Job, target: &Target) -> Vec<usize> {
    let inside = |group: &String| {
        target.units.iter().any(|unit| &unit.name == group && unit.codegen == Generator::Host)
    };
    let stages = job.plan.stages.iter().enumerate();
    stages.filter(|(_, stage)| inside(&stage.group)).map(|(at, _)| at).collect()
}

/// True if a plan was asked for.
pub fn asked(planned: &Planned) -> bool {
    planned.plan.is_some() || planned.candidate.is_some()
}

/// True if some handler must run in a process beside the kernel.
pub fn split(source: &Program, target: &Target) -> bool {
    let pinned = source.handlers.values().any(|handler| handler.side == Some(Side::Host));
    pinned || !needs_host(source, target).is_empty()
}

/// Its stages as C for the kernel.
pub fn xdp_artifact(job: &Job, target: &Target, lines: LineStyle) -> Result<XdpArtifact, Failure> {
    generate_split(&job.program, &job.pipeline, &in_process(job, target), lines)
        .map_err(|e| program::unsupported(&job.program, &e))
}

/// The plan for any target, to be simulated or run.
pub fn on(planned: &Planned, source: &Verified<Program>, target: &Target) -> Result<Job, Failure> {
    let source = program::to_plan(source, target)?;
    let plan = planning::chosen(planned, &source, target)?;
    let job = of_plan(plan, &source, planned.host_process)?;
    Ok(Job { dma: planned.dma.clone(), ..job })
}

/// A plan that was found already. `source` is the program as the target plans it.
pub fn of_plan(plan: Plan, source: &Verified<Program>, apart: bool) -> Result<Job, Failure> {
    let cut = assemble::program_with(&plan, source)
        .map_err(|e| Failure::user(format!("internal error: the planned program is wrong: {e}")))?;
    let program = program::lower_planned(&cut)?;
    let pipeline = pipeline::of_plan(&plan, &program).map_err(Failure::user)?;
    Ok(Job { plan, program, pipeline, apart, dma: None, exec: None })
}

impl Job {
    /// There are no locks in the kernel's programs yet: replicas that would share tables under them
    /// are one.
    pub fn without_locks(&mut self) {
        for stage in &mut self.pipeline.stages {
            stage.replicas = if stage.locked { 1 } else { stage.replicas };
        }
    }

    /// The program for engines joined by queues, with tables where the plan has them.
    pub fn engines(&self, engines: Engines, target: &Target) -> Result<EnginesProgram, Failure> {
        EnginesProgram::new(&self.program, &self.pipeline, &self.placement(target), engines)
            .map_err(|e| failure(&self.program, e))
    }

    /// Where the plan has tables.
    pub fn placement(&self, target: &Target) -> Placement {
        pipeline::placement(&self.plan, &self.program, &HostSide::of(target))
    }

    /// As [`Job::make_room`], but for tables of which all shards together hold what the table may
    /// hold: `together`, by number.
    pub fn make_room_beside(
        &mut self,
        together: &[bool],
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<Verified<Program>, Failure> {
        let counted: Vec<TableId> = self
            .program
            .tables
            .keys()
            .zip(together)
            .filter(|(_, one)| **one)
            .map(|(t, _)| t)
            .collect();
        self.make_room(source, entries, events, |table| !counted.contains(&table))
    }

    /// Room for shards of programs on `xdp`, where only tables of the process have parts: replicas
    /// of the kernel share theirs.
    pub fn room_for_shards(
        &mut self,
        target: &Target,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<Verified<Program>, Failure> {
        let inside = in_process(self, target);
        let sharded = inside.iter().any(|stage| self.pipeline.stages[*stage].replicas > 1);
        if sharded { self.make_room(source, entries, events, |_| true) } else { Ok(source.clone()) }
    }

    /// Makes room in those of this program's tables that are full with these inputs, and gives the
    /// program to compare with. One replica finds a table full exactly when the interpreter does;
    /// several decide by luck.
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
            program
                .tables
                .values_mut()
                .zip(&capacities)
                .for_each(|(table, room)| table.capacity = *room);
            program::check(program)
        };
        let reference = widen(source)?;
        self.program = widen(&self.program)?;
        Ok(reference)
    }
}

/// The design of a program, with as many engines as its plan says, or as are worth it and fit.
pub fn design(
    planned: &Planned,
    source: &Verified<Program>,
    target: &Target,
) -> Result<RtlProgram, Failure> {
    let made = if asked(planned) {
        let source = program::to_plan(source, target)?;
        let plan = planning::chosen(planned, &source, target)?;
        design::with(&source, &plan, design::costs(target)?)
    } else {
        design::of_program(source, target)
    };
    // The generator says more of what it refuses.
    let made = made?;
    program::taken(source, target)?;
    Ok(made)
}

/// Shows what DPDK cannot do on source lines, everything else as it is.
pub fn failure(program: &Program, error: DpdkError) -> Failure {
    match &error {
        DpdkError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}

/// Shows what bare cores cannot do on source lines, everything else as it is.
pub fn bare_failure(program: &Program, error: CoresError) -> Failure {
    match &error {
        CoresError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}
