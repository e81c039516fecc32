//! Back ends whose programs are a plan's pipeline of workers: what differs among them, and what is
//! the same.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_plan::Plan;
use nicforge_run::dpdk::{Difference, DpdkRun};
use nicforge_target::{Generator, Target};

use super::{Backend, Case, Counted};
use crate::args::{Build, Inputs, Run};
use crate::cmd::pipelines::{self, Job};
use crate::cmd::tune::Bench;
use crate::cmd::{run, verify_dpdk};
use crate::context::{Failure, Runtime};
use crate::program::Loaded;

/// What differs among them.
pub trait Pipelined: Sync {
    /// The word of unit groups that it is for.
    fn word(&self) -> Generator;

    /// As [`Backend::accepts`].
    fn accepts(&self, _target: &Target) -> Result<(), String> {
        Ok(())
    }

    /// As [`Backend::stands_in`].
    fn stands_in(&self, target: &Target) -> Option<&'static str>;

    /// Whether stages of the host can run in a process of their own (`--host-process`).
    fn has_processes(&self, _target: &Target) -> bool {
        false
    }

    /// As [`Backend::has_images`].
    fn has_images(&self) -> bool {
        false
    }

    /// Writes generated code, or what is built of it.
    fn files(&self, target: &Target, args: &Build, job: &Job) -> Result<(), Failure>;

    /// Runs events as the target does and in the interpreter; gives the run and what differs.
    fn compare(
        &self,
        target: &Target,
        job: &mut Job,
        source: &Verified<Program>,
        entries: &[(TableId, Entry)],
        events: &[InputEvent],
    ) -> Result<(DpdkRun, Vec<Difference>), Failure>;

    /// Whether it takes an event, and what it says of those that it does not.
    fn takes(&self, _event: &InputEvent) -> bool {
        true
    }
    fn limits(&self) -> String {
        String::new()
    }

    /// Whether workers' cycles are the target's own, as its simulated cores count them.
    fn counts_cycles(&self) -> bool {
        false
    }

    /// As [`Backend::counted`].
    fn counted(&self, _: &Target, _: &Loaded, _: &Plan, _: &Inputs) -> Option<Counted> {
        None
    }

    /// Runs on ports, if it has such here.
    fn ports(&self) -> Option<OnPorts> {
        None
    }

    /// As [`Backend::bench`].
    fn bench(&self, _target: &Target) -> Option<Bench> {
        None
    }
}

/// A run on interfaces.
pub type OnPorts = fn(&Target, &Run, &Loaded) -> Result<(), Failure>;

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
        self.ports().is_some() && Pipelined::stands_in(self, target).is_none()
    }

    fn build(
        &self,
        target: &Target,
        args: &Build,
        loaded: &Loaded,
        _: &Runtime,
    ) -> Result<(), Failure> {
        self.files(target, args, &pipelines::job(self, target, &args.planned, &loaded.program)?)
    }

    fn run(&self, target: &Target, args: &Run, loaded: &Loaded, _: Runtime) -> Result<(), Failure> {
        match self.ports().filter(|_| !args.dev.is_empty()) {
            Some(ports) => ports(target, args, loaded),
            None => run::dpdk::run(self, target, args, loaded),
        }
    }

    fn counted(
        &self,
        target: &Target,
        loaded: &Loaded,
        plan: &Plan,
        inputs: &Inputs,
    ) -> Option<Counted> {
        Pipelined::counted(self, target, loaded, plan, inputs)
    }

    fn verify(&self, target: &Target, case: Case) -> Result<(), Failure> {
        verify_dpdk::run(self, target, &case)
    }

    fn bench(&self, target: &Target) -> Option<Bench> {
        Pipelined::bench(self, target)
    }
}
