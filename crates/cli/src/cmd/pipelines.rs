//! From a program and what is said about its plan to something a code generator for processes takes.

use nicforge_codegen::dpdk::Pipeline;
use nicforge_codegen::xdp::generate_pipeline;
use nicforge_codegen::{LineStyle, XdpArtifact, pipeline};
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
    job(planned, source, "dpdk", pipeline::of_plan)
}

/// The plan for XDP, if one was asked for: else a program is one stage.
pub fn xdp(planned: &Planned, source: &Verified<Program>) -> Result<Option<Job>, Failure> {
    asked(planned).then(|| job(planned, source, "xdp", pipeline::of_plan_for_xdp)).transpose()
}

/// Whether a plan was asked for.
pub fn asked(planned: &Planned) -> bool {
    planned.plan.is_some() || planned.candidate.is_some()
}

/// Its stages as C for the kernel.
pub fn xdp_artifact(job: &Job, lines: LineStyle) -> Result<XdpArtifact, Failure> {
    generate_pipeline(&job.program, &job.pipeline, lines).map_err(|e| program::unsupported(&job.program, &e))
}

fn job(
    planned: &Planned,
    source: &Verified<Program>,
    target: &str,
    pipeline_of: fn(&Plan, &Program) -> Result<Pipeline, String>,
) -> Result<Job, Failure> {
    let target = matrix::find(target)?;
    let plan = plan::chosen(planned, source, &target)?;
    let cut = assemble::program_of(&plan)
        .map_err(|e| Failure::user(format!("internal error: the planned program is wrong: {e}")))?;
    let program = program::lower(&cut)?;
    let pipeline = pipeline_of(&plan, &program).map_err(Failure::user)?;
    Ok(Job { plan, program, pipeline })
}

impl Job {
    /// This job and what to compare it with: both with room in their tables, see [`Plan::make_room`].
    pub fn with_room(mut self, source: &Verified<Program>) -> Result<(Job, Verified<Program>), Failure> {
        let widen = |program: &Verified<Program>| {
            let mut program = program.clone().into_inner();
            self.plan.make_room(&mut program);
            program::check(program)
        };
        let reference = widen(source)?;
        self.program = widen(&self.program)?;
        Ok((self, reference))
    }
}

/// What DPDK cannot do is shown on source lines, everything else as it is.
pub fn failure(program: &Program, error: DpdkError) -> Failure {
    match &error {
        DpdkError::Unsupported(list) => program::unsupported(program, list),
        _ => Failure::of(error.fault(), error),
    }
}
