//! Back ends whose programs are a plan's pipeline of workers: what differs among them, and what is
//! the same.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_run::dpdk::{Difference, DpdkRun};
use nicforge_target::{Generator, Target};

use super::{Backend, Build, Counted, Product};
use crate::bench::Bench;
use crate::pipelines::{self, Job};
use crate::simulation::Traffic;
use crate::verify::{self, Case, Comparison};
use crate::{Failure, Loaded, Runtime};

/// A back end of pipelines: where it differs from the others.
pub trait Pipelined: Sync {
    /// The word of unit groups that it is for.
    fn word(&self) -> Generator;

    /// As [`Backend::accepts`].
    fn accepts(&self, _target: &Target) -> Result<(), String> {
        Ok(())
    }

    /// As [`Backend::stands_in`].
    fn stands_in(&self, target: &Target) -> Option<&'static str>;

    /// True if stages of the host can run in a process of their own (`--host-process`).
    fn has_processes(&self, _target: &Target) -> bool {
        false
    }

    /// As [`Backend::has_images`].
    fn has_images(&self) -> bool {
        false
    }

    /// Gives the text of generated code, or writes what is built of it.
    fn files(&self, target: &Target, build: &Build, job: &Job) -> Result<Product, Failure>;

    /// Runs events as the target does and in the interpreter; gives the run and what differs.
    fn compare(
        &self,
        target: &Target,
        job: &mut Job,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), Failure>;

    /// True if it takes an event, and what it says of those that it does not.
    fn takes(&self, _event: &InputEvent) -> bool {
        true
    }
    fn limits(&self) -> String {
        String::new()
    }

    /// True if workers' cycles are the target's own, as its simulated cores count them.
    fn counts_cycles(&self) -> bool {
        false
    }

    /// As [`Backend::counted`].
    fn counted(&self, _: &Target, _: &Loaded, _: &Plan, _: &Traffic) -> Option<Counted> {
        None
    }

    /// Ports of this machine: whether programs run on them.
    fn has_ports(&self) -> bool {
        false
    }

    /// As [`Backend::bench`].
    fn bench(&self, _target: &Target) -> Option<Bench> {
        None
    }
}

impl<T: Pipelined> Backend for T {
    fn generates(&self) -> Generator {
        self.word()
    }

    fn accepts(&self, target: &Target) -> Result<(), String> {
        Pipelined::accepts(self, target)
    }

    fn stands_in(&self, target: &Target) -> Option<&'static str> {
        Pipelined::stands_in(self, target)
    }

    fn has_images(&self) -> bool {
        Pipelined::has_images(self)
    }

    fn has_interfaces(&self, target: &Target) -> bool {
        self.has_ports() && Pipelined::stands_in(self, target).is_none()
    }

    fn pipelined(&self) -> Option<&dyn Pipelined> {
        Some(self)
    }

    fn build(
        &self,
        target: &Target,
        build: &Build,
        loaded: &Loaded,
        _: &Runtime,
    ) -> Result<Product, Failure> {
        let apart = self.has_processes(target);
        self.files(target, build, &pipelines::job(apart, target, build.planned, &loaded.program)?)
    }

    fn counted(
        &self,
        target: &Target,
        loaded: &Loaded,
        plan: &Plan,
        traffic: &Traffic,
    ) -> Option<Counted> {
        Pipelined::counted(self, target, loaded, plan, traffic)
    }

    fn verify(&self, target: &Target, case: &Case) -> Result<Comparison, Failure> {
        let apart = self.has_processes(target);
        let mut job = pipelines::job(apart, target, case.planned, case.subject)?;
        job.exec = case.exec.map(String::from);
        let taken: Vec<InputEvent> =
            case.events.iter().filter(|event| self.takes(event)).cloned().collect();
        let beyond = case.events.len() - taken.len();
        let (run, differences) =
            self.compare(target, &mut job, case.source, case.entries, &taken)?;
        let agreement = verify::of_differences(&case.given(&taken), taken.len(), differences)?;
        let counts = self.counts_cycles();
        Ok(Comparison {
            cycles: if counts { verify::cycles(&job.plan, &run.stats) } else { Vec::new() },
            stands_in: Pipelined::stands_in(self, target),
            limits: self.limits(),
            plan: Some(job.plan),
            ..Comparison::of(target, agreement, beyond)
        })
    }

    fn bench(&self, target: &Target) -> Option<Bench> {
        Pipelined::bench(self, target)
    }
}
