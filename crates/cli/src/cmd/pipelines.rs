//! From a program and what is said about its plan to something a code generator for processes takes.

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::nfp::{Engines, Placement};
use nicforge_codegen::pipeline;
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_planner::assemble;
use nicforge_run::dpdk::{Difference, DpdkError, DpdkRun, Machine, verify_on};
use nicforge_run::nfp::EnginesProgram;

use super::{matrix, plan};
use crate::args::{Planned, Target};
use crate::context::Failure;
use crate::program;

/// A planned program, ready for its code generator.
pub struct Job {
    pub plan: Plan,
    pub program: Verified<Program>,
    pub pipeline: Pipeline,
}

/// The plan for a target.
pub fn job(target: Target, planned: &Planned, source: &Verified<Program>) -> Result<Job, Failure> {
    let spec = matrix::find(target.name())?;
    let plan = plan::chosen(planned, source, &spec)?;
    let cut = assemble::program_of(&plan)
        .map_err(|e| Failure::user(format!("internal error: the planned program is wrong: {e}")))?;
    let program = program::lower(&cut)?;
    let pipeline = pipeline::of_plan(&plan, &program).map_err(Failure::user)?;
    Ok(Job { plan, program, pipeline })
}

/// What runs a target's DPDK applications.
pub fn machine(target: Target) -> Machine {
    if target == Target::Bluefield2 { Machine::Bluefield2 } else { Machine::Here }
}

impl Job {
    /// Runs events as the target does and in the interpreter; gives the run and what differs.
    pub fn compare(
        &self,
        target: Target,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), Failure> {
        let reference = self.reference(source)?;
        if let Some(engines) = target.engines() {
            let ran = self.engines(engines)?.verify(&reference, entries, events);
            return ran.map_err(|e| failure(&self.program, e));
        }
        verify_on(machine(target), &reference, &self.program, &self.pipeline, entries, events)
            .map_err(|e| failure(&self.program, e))
    }

    /// The program for engines joined by queues, with tables where the plan has them.
    pub fn engines(&self, engines: Engines) -> Result<EnginesProgram, Failure> {
        let table = |name: &str| self.plan.tables.iter().find(|table| table.name == name);
        let memory = |name: &str| table(name).map_or(String::new(), |table| table.memory.replace('-', "_"));
        let placement = Placement {
            memories: self.program.tables.values().map(|table| memory(&table.name)).collect(),
            units: self.plan.stages.iter().map(|stage| stage.units.clone()).collect(),
        };
        EnginesProgram::new(&self.program, &self.pipeline, &placement, engines)
            .map_err(|e| failure(&self.program, e))
    }

    /// The program to compare with. Tables that replicas have shards of hold their capacity in every shard, so all together they hold
    /// more than asked for (capacities are minima); the reference gets as much, or it would refuse what the shards take.
    fn reference(&self, source: &Verified<Program>) -> Result<Verified<Program>, Failure> {
        let mut program = source.clone().into_inner();
        for stage in self.plan.stages.iter().filter(|stage| stage.replicas > 1) {
            for table in program.tables.values_mut() {
                if stage.tables.contains(&table.name) && table.kind.takes_inserts() {
                    table.capacity = table.capacity.saturating_mul(stage.replicas);
                }
            }
        }
        program::check(program)
    }
}

/// What DPDK cannot do is shown on source lines, everything else as it is.
pub fn failure(program: &Program, error: DpdkError) -> Failure {
    match &error {
        DpdkError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}
