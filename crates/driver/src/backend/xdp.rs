//! XDP programs for the Linux kernel, and for NICs that take such programs.

use nicforge_codegen::{LineStyle, xdp};
use nicforge_ir::Program;
use nicforge_run::compile::{Mode, compile_bpf};
use nicforge_target::{Device, Generator, Target};

use super::{Backend, Build, Measured, Product, first};
use crate::options::Inputs;
use crate::tried::{self, Refused};
use crate::tune::{self, Bench};
use crate::verify::{Case, Comparison, kernel};
use crate::{Failure, Loaded, Runtime, cost, pipelines, program};

pub struct Xdp;

/// Whether the target's programs run in the kernel, which this machine has.
fn in_kernel(target: &Target) -> bool {
    // The hook is device `nic` of the kernel's spec, whose other units are processes beside it.
    target.units.iter().any(|group| group.codegen == Generator::Host)
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

    fn takes(&self, target: &Target, program: &Program) -> Result<(), Failure> {
        if in_kernel(target) { Ok(()) } else { program::taken(program, target) }
    }

    fn build(
        &self,
        target: &Target,
        build: &Build,
        loaded: &Loaded,
        runtime: &Runtime,
    ) -> Result<Product, Failure> {
        self.takes(target, &loaded.program)?;
        let job = pipelines::xdp(build.planned, &loaded.program, target)?;
        let compiled = (build.passes)(loaded.program.clone())?;
        let lines = if build.text { LineStyle::Comments } else { LineStyle::Directives };
        let artifact = match job {
            Some(job) => pipelines::xdp_artifact(&job, target, lines)?,
            None => {
                xdp::generate(&compiled, lines).map_err(|e| program::unsupported(&compiled, &e))?
            }
        };
        if build.text {
            return Ok(Product::Text(artifact.source.plain));
        }
        let headers = runtime.target_headers("xdp");
        let object = compile_bpf(&compiled.name, &artifact.source, Mode::Live, &headers)
            .map_err(|e| Failure::of(e.fault(), e))?;
        let path = build.path(&format!("{}.o", compiled.name));
        std::fs::write(&path, object)
            .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        Ok(Product::Written(path, None))
    }

    fn verify(&self, target: &Target, case: &Case) -> Result<Comparison, Failure> {
        self.takes(target, case.subject)?;
        let stands_in = self.stands_in(target);
        match pipelines::xdp(case.planned, case.subject, target)? {
            Some(mut job) => kernel::staged(target, stands_in, case, &mut job),
            None => kernel::one_stage(target, stands_in, case),
        }
    }

    fn bench(&self, target: &Target) -> Option<Bench> {
        in_kernel(target).then_some(tune::IN_KERNEL)
    }

    fn measured(&self, target: &Target, loaded: &Loaded, inputs: &Inputs) -> Option<Measured> {
        in_kernel(target).then(|| cost::measured(loaded, inputs))
    }

    fn refused(&self, target: &Target, loaded: &Loaded, runtime: &Runtime) -> Option<Refused> {
        in_kernel(target).then(|| tried::in_kernel(loaded, runtime)).flatten()
    }
}
