//! Back ends: what generates, builds, runs and verifies programs for a target.
//!
//! The word `codegen` of a target's first unit group, where packets arrive, chooses one ([`of`]);
//! [`ALL`] is the one list of them. A spec that comes with Nicforge and a user's file take the same
//! road. Commands ask the back end and know no target by name; `interp` is the reference, which is
//! no target.

mod dpdk;
mod engines;
mod pipelined;
mod riscv;
mod rtl;
mod xdp;

use std::path::PathBuf;

use nicforge_ir::{Program, Verified};
use nicforge_plan::Plan;
use nicforge_target::{Generator, Target, UnitGroup};

use crate::bench::Bench;
use crate::options::{Inputs, Planned};
use crate::simulation::Traffic;
use crate::tried::Refused;
use crate::verify::{Case, Comparison, StageCycles};
use crate::{Failure, Loaded, Runtime, targets};

pub use dpdk::Dpdk;
pub use pipelined::Pipelined;

/// All back ends.
static ALL: [&dyn Backend; 6] =
    [&xdp::Xdp, &dpdk::Dpdk, &engines::NFP, &engines::THREADS, &riscv::Riscv, &rtl::Rtl];

/// The reference interpreter's word on the command line.
const REFERENCE: &str = "interp";

/// The passes of a build, for targets that take a program as one stage.
pub type Passes<'a> = &'a dyn Fn(Verified<Program>) -> Result<Verified<Program>, Failure>;

/// A build that is asked for.
pub struct Build<'a> {
    pub planned: &'a Planned,
    /// Text of the generated code, and no more.
    pub text: bool,
    /// Output file or folder; one named like the program, if nothing is said.
    pub output: Option<&'a PathBuf>,
    pub passes: Passes<'a>,
}

impl Build<'_> {
    /// The file or folder that it goes to.
    pub fn path(&self, usual: &str) -> PathBuf {
        self.output.cloned().unwrap_or_else(|| usual.into())
    }
}

/// A build's result.
pub enum Product {
    Text(String),
    /// A file or folder that was written, and what is in it in a few words.
    Written(PathBuf, Option<String>),
}

/// A code generator with all that is done with what it makes.
pub trait Backend: Sync {
    /// The word of unit groups that it is for.
    fn generates(&self) -> Generator;

    /// Refuses a spec that asks for what it cannot do; the reason ends with what to write instead.
    fn accepts(&self, _target: &Target) -> Result<(), String> {
        Ok(())
    }

    /// What stands here for the target's hardware: it shows what programs do, and nothing of how
    /// fast.
    fn stands_in(&self, target: &Target) -> Option<&'static str>;

    /// True if programs run on interfaces here (`run --dev`).
    fn has_interfaces(&self, _target: &Target) -> bool {
        false
    }

    /// True if programs become hardware, simulated by a process of its own that can write
    /// waveforms.
    fn is_hardware(&self) -> bool {
        false
    }

    /// True if programs are images that speak the packet protocol themselves (`verify --exec`).
    fn has_images(&self) -> bool {
        false
    }

    /// The pipeline of workers that its programs are, if so.
    fn pipelined(&self) -> Option<&dyn Pipelined> {
        None
    }

    /// Refuses a program of which the target lacks something that stands here for it.
    ///
    /// # Errors
    /// The first construct that it lacks.
    fn takes(&self, _target: &Target, _program: &Program) -> Result<(), Failure> {
        Ok(())
    }

    /// Gives the text of generated code, or writes what is built of it.
    fn build(
        &self,
        target: &Target,
        build: &Build,
        loaded: &Loaded,
        runtime: &Runtime,
    ) -> Result<Product, Failure>;

    /// Compares a program with the interpreter.
    fn verify(&self, target: &Target, case: &Case) -> Result<Comparison, Failure>;

    /// How plans are measured on this machine; without it they are simulated.
    fn bench(&self, _target: &Target) -> Option<Bench> {
        None
    }

    /// True if the target is this machine, so that it can be measured.
    fn measures(&self, _target: &Target) -> bool {
        false
    }

    /// Packets per second that one CPU of this machine keeps up with, where the target is this
    /// machine.
    fn measured(&self, _target: &Target, _loaded: &Loaded, _inputs: &Inputs) -> Option<Measured> {
        None
    }

    /// Packets per second that the generated code of a plan makes, by the cycles that simulated
    /// cores of the target count on traffic; without such cores nothing.
    fn counted(&self, _: &Target, _: &Loaded, _: &Plan, _: &Traffic) -> Option<Counted> {
        None
    }

    /// Objections of this machine to a program that lacks nothing of the target.
    fn refused(&self, _target: &Target, _loaded: &Loaded, _runtime: &Runtime) -> Option<Refused> {
        None
    }
}

/// Generated files as one text, one behind the other.
fn text(files: &[(String, String)]) -> Product {
    let one = |(name, text): &(String, String)| format!("/* ---- {name} */\n{text}\n");
    Product::Text(files.iter().map(one).collect())
}

/// The folder that generated files go to, made if it is missing.
fn folder(build: &Build, program: &Program) -> Result<PathBuf, Failure> {
    let path = build.path(&program.name);
    std::fs::create_dir_all(&path)
        .map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
    Ok(path)
}

/// A measured rate, if there was anything to measure on.
pub type Measured = Result<Option<f64>, Failure>;

/// A count, if simulated cores could make one.
pub type Counted = Result<Count, Failure>;

/// Counted cycles, and the rate that follows if a stage's cores share its work evenly.
pub struct Count {
    /// Packets per second.
    pub rate: f64,
    /// Of those that events came to.
    pub stages: Vec<StageCycles>,
}

/// A target with its back end.
pub struct Chosen {
    pub target: Target,
    pub backend: &'static dyn Backend,
}

/// The group where packets arrive.
pub fn first(target: &Target) -> &UnitGroup {
    // Specs without units are refused when they are read.
    &target.units[0]
}

/// The back end of a target.
///
/// # Errors
/// There is none for the word of its first units, or it cannot do what the spec asks for.
pub fn of(target: &Target) -> Result<&'static dyn Backend, Failure> {
    let group = first(target);
    let found = ALL.into_iter().find(|backend| backend.generates() == group.codegen);
    let backend = found.ok_or_else(|| {
        let words: Vec<&str> = ALL.iter().map(|backend| backend.generates().word()).collect();
        Failure::user(format!(
            "target `{}`: packets arrive at its first units, `{}`, and there is no back end for their codegen `{}`; \
             put units first whose codegen is one of {}",
            target.name,
            group.name,
            group.codegen.word(),
            words.join(", ")
        ))
    })?;
    backend
        .accepts(target)
        .map_err(|why| Failure::user(format!("target `{}`: {why}", target.name)))?;
    Ok(backend)
}

/// A target by name or file; nothing for the reference interpreter.
///
/// # Errors
/// There is no such target, its file is wrong, or it has no back end.
pub fn find(name: &str) -> Result<Option<Chosen>, Failure> {
    if name == REFERENCE {
        return Ok(None);
    }
    let target = targets::find(name)?;
    let backend = of(&target)?;
    Ok(Some(Chosen { target, backend }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_target_has_a_back_end_and_every_back_end_a_target() {
        let mut used = Vec::new();
        for name in nicforge_target::names() {
            used.push(
                find(name)
                    .unwrap_or_else(|e| panic!("{name}: {}", e.message))
                    .unwrap()
                    .backend
                    .generates(),
            );
        }
        for backend in ALL {
            assert!(
                used.contains(&backend.generates()),
                "no target uses {}",
                backend.generates().word()
            );
        }
        assert!(find("interp").unwrap().is_none());
    }
}
