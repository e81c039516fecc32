//! DPDK applications: lcores joined by rings, on this machine or on Arm cores that qemu emulates.

use nicforge_codegen::dpdk;
use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_run::dpdk::{Difference, DpdkProgram, DpdkRun, Machine, verify_apart, verify_on};
use nicforge_target::{Generator, Target};

use super::{Build, Pipelined, Product};
use crate::Failure;
use crate::pipelines::{self, Job};
use crate::tune::{self, Bench};

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
        (Machine::of(target) == Machine::Here).then_some(tune::IN_PROCESS)
    }
}
