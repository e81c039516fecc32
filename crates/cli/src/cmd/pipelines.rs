//! From a program and what is said about its plan to something a code generator for processes takes.

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::pipeline;
use nicforge_ir::{Program, Verified};
use nicforge_plan::Plan;
use nicforge_planner::assemble;
use nicforge_run::dpdk::DpdkError;

use super::{matrix, plan};
use crate::args::Planned;
use crate::context::Failure;
use crate::program;

/// A planned program, ready for its code generator.
pub struct Job {
    pub plan: Plan,
    pub program: Verified<Program>,
    pub pipeline: Pipeline,
}

/// The plan for DPDK on this kind of machine.
pub fn dpdk(planned: &Planned, source: &Verified<Program>) -> Result<Job, Failure> {
    let target = matrix::find("dpdk")?;
    let plan = plan::chosen(planned, source, &target)?;
    let cut = assemble::program_of(&plan)
        .map_err(|e| Failure::user(format!("internal error: the planned program is wrong: {e}")))?;
    let program = program::lower(&cut)?;
    let pipeline = pipeline::of_plan(&plan, &program).map_err(Failure::user)?;
    Ok(Job { plan, program, pipeline })
}

impl Job {
    /// Makes room in the tables of both programs if replicas run side by side, for comparisons: then it is a matter of luck which key
    /// finds a table full, and shards hold more together than one table would. Capacities are minima.
    pub fn with_room(mut self, source: &Verified<Program>) -> Result<(Job, Verified<Program>), Failure> {
        let side_by_side = self.plan.stages.iter().any(|stage| stage.replicas > 1);
        let workers: u32 = self.plan.stages.iter().map(|stage| stage.replicas).sum();
        let widen = |program: &Verified<Program>| {
            let mut program = program.clone().into_inner();
            for table in program.tables.values_mut().filter(|table| table.kind.takes_inserts()) {
                table.capacity = table.capacity.saturating_mul(workers);
            }
            program::check(program)
        };
        if !side_by_side {
            return Ok((self, source.clone()));
        }
        self.program = widen(&self.program)?;
        Ok((self, widen(source)?))
    }
}

/// What DPDK cannot do is shown on source lines, everything else as it is.
pub fn failure(program: &Program, error: DpdkError) -> Failure {
    match &error {
        DpdkError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}
