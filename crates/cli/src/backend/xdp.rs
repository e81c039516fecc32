//! XDP programs for the Linux kernel, and for NICs that take such programs.

use nicforge_codegen::{LineStyle, xdp};
use nicforge_run::compile::{Mode, compile_bpf};
use nicforge_target::{Device, Generator, Target};

use super::{Backend, Case, Measured, first};
use crate::args::{Build, Emit, Inputs, Run};
use crate::cmd::tried::{self, Refused};
use crate::cmd::tune::{self, Bench};
use crate::cmd::{build, pipelines, rates, run, verify, verify_xdp};
use crate::context::{Failure, Runtime};
use crate::program::{self, Loaded};

pub struct Xdp;

/// Whether the target's programs run in the kernel, which this machine has.
fn in_kernel(target: &Target) -> bool {
    // The hook is device `nic` of the kernel's spec, whose other units are processes beside it.
    target.units.iter().any(|group| group.codegen == Generator::Host)
}

/// Refuses what hardware lacks that the kernel, which stands here for it, has.
fn refuse_missing(target: &Target, program: &nicforge_ir::Program) -> Result<(), Failure> {
    if in_kernel(target) { Ok(()) } else { program::taken(program, target) }
}

impl Backend for Xdp {
    fn generates(&self) -> Generator {
        Generator::Xdp
    }

    fn accepts(&self, target: &Target) -> Result<(), String> {
        let group = first(target);
        match group.device {
            Device::Nic => Ok(()),
            Device::Host => Err(format!(
                "units `{}` have codegen xdp, whose hook is on the NIC's side: write device = \"nic\"",
                group.name
            )),
        }
    }

    fn stands_in(&self, target: &Target) -> Option<&'static str> {
        (!in_kernel(target)).then_some("functional: in this kernel")
    }

    fn has_interfaces(&self, target: &Target) -> bool {
        in_kernel(target)
    }

    fn build(
        &self,
        target: &Target,
        args: &Build,
        loaded: &Loaded,
        runtime: &Runtime,
    ) -> Result<(), Failure> {
        refuse_missing(target, &loaded.program)?;
        let job = pipelines::xdp(&args.planned, &loaded.program, target)?;
        let compiled = build::passes(args, loaded.program.clone())?;
        let lines = if args.emit == Emit::C { LineStyle::Comments } else { LineStyle::Directives };
        let artifact = match job {
            Some(job) => pipelines::xdp_artifact(&job, target, lines)?,
            None => {
                xdp::generate(&compiled, lines).map_err(|e| program::unsupported(&compiled, &e))?
            }
        };
        if args.emit == Emit::C {
            return build::write(args, artifact.source.as_bytes());
        }
        let object = compile_bpf(
            &compiled.name,
            &artifact.source,
            Mode::Live,
            &runtime.target_headers("xdp"),
        )
        .map_err(|e| Failure::of(e.fault(), e))?;
        let path = args.output.clone().unwrap_or_else(|| format!("{}.o", compiled.name).into());
        std::fs::write(&path, object)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        outln!("wrote {}", path.display());
        Ok(())
    }

    fn run(
        &self,
        target: &Target,
        args: &Run,
        loaded: &Loaded,
        runtime: Runtime,
    ) -> Result<(), Failure> {
        refuse_missing(target, &loaded.program)?;
        let staged = pipelines::asked(&args.planned) || pipelines::split(&loaded.program, target);
        if args.watch && staged {
            return Err(Failure::usage(
                "--watch replaces a program of one stage; leave out --plan and --candidate, and handlers on the host",
            ));
        }
        match args.dev.is_empty() {
            false => run::dev::run(target, args, loaded, runtime),
            true if staged => run::planned::run(target, args, loaded, runtime),
            true => run::live::run(target, args, loaded, runtime),
        }
    }

    fn verify(&self, target: &Target, case: Case) -> Result<(), Failure> {
        refuse_missing(target, case.subject)?;
        let stands_in = self.stands_in(target);
        match pipelines::xdp(&case.args.planned, case.subject, target)? {
            Some(mut job) => verify_xdp::run(target, stands_in, &case, &mut job),
            None => verify::in_kernel(target, stands_in, case),
        }
    }

    fn bench(&self, target: &Target) -> Option<Bench> {
        in_kernel(target).then_some(tune::IN_KERNEL)
    }

    fn measured(&self, target: &Target, loaded: &Loaded, inputs: &Inputs) -> Option<Measured> {
        in_kernel(target).then(|| rates::measured(loaded, inputs))
    }

    fn refused(&self, target: &Target, loaded: &Loaded, runtime: &Runtime) -> Option<Refused> {
        in_kernel(target).then(|| tried::in_kernel(loaded, runtime)).flatten()
    }
}
