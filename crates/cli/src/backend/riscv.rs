//! Images for bare RISC-V cores, run here on simulated ones: handler units of a sPIN NIC, or cores
//! behind a scheduler.

use nicforge_ir::{Entry, InputEvent, Program, TableId, Verified};
use nicforge_run::dpdk::{Difference, DpdkRun};
use nicforge_run::spin::{self, CoresProgram, LONGEST};
use nicforge_target::{Generator, LinkKind, Scope, Target};

use super::first;
use super::pipelined::Pipelined;
use crate::args::{Build, Emit};
use crate::cmd::build;
use crate::cmd::pipelines::{self, Job};
use crate::context::Failure;

pub struct Riscv;

/// The program for a target's cores.
fn cores(job: &Job, target: &Target) -> Result<CoresProgram, Failure> {
    CoresProgram::new(&job.program, &job.pipeline, &job.placement(), target)
        .map_err(|e| pipelines::bare_failure(&job.program, e))
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

    fn files(&self, target: &Target, args: &Build, job: &Job) -> Result<(), Failure> {
        let app = cores(job, target)?;
        if args.emit == Emit::C {
            return build::write_text(args, &app.artifact().files);
        }
        let path = build::folder(args, &job.program)?;
        app.write(&path).map_err(|e| pipelines::bare_failure(&job.program, e))?;
        outln!("wrote {}", path.display());
        Ok(())
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
}
